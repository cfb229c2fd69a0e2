/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of libc through which the engine reaches the kernel and the allocator. The linker
 * sends its calls here (--wrap); wrapped.py sees to it that the list stays complete. */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fault.h"
#include "base/banned.h"

/* What a descriptor is, for the report. */
static const char *name_of(int fd)
{
    static char ret[72];
    char path[40];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(path, ret, sizeof ret - 1);
    ret[n > 0 ? n : 0] = '\0';
    return ret;
}

/* A function, its parameters and their names, the path (or other word) that it was called with. */
#define WRAP(type, failed, name, params, args, detail)                                             \
    type __real_##name params;                                                                     \
    type __wrap_##name params;                                                                     \
    type __wrap_##name params                                                                      \
    {                                                                                              \
        const int sys = fault_call(#name, -1, 0, detail);                                          \
        if (sys) {                                                                                 \
            errno = sys;                                                                           \
            return failed;                                                                         \
        }                                                                                          \
        return __real_##name args;                                                                 \
    }
#define WRAP_INT(name, params, args, detail) WRAP(int, -1, name, params, args, detail)

/* clang-format off */
WRAP_INT(access, (const char *path, int mode), (path, mode), path)
WRAP_INT(faccessat, (int dir, const char *path, int mode, int flags), (dir, path, mode, flags), path)
WRAP_INT(fchmod, (int fd, mode_t mode), (fd, mode), name_of(fd))
WRAP_INT(fchown, (int fd, uid_t uid, gid_t gid), (fd, uid, gid), name_of(fd))
WRAP_INT(fchownat, (int dir, const char *path, uid_t uid, gid_t gid, int flags),
         (dir, path, uid, gid, flags), path)
WRAP_INT(fcntl64, (int fd, int command, uintptr_t value), (fd, command, value), name_of(fd))
WRAP_INT(fsconfig, (int fd, unsigned command, const char *key, const void *value, int aux),
         (fd, command, key, value, aux), key)
WRAP_INT(fsmount, (int fd, unsigned flags, unsigned attrs), (fd, flags, attrs), NULL)
WRAP_INT(fsopen, (const char *type, unsigned flags), (type, flags), type)
WRAP_INT(fspick, (int dir, const char *path, unsigned flags), (dir, path, flags), path)
WRAP_INT(fstat64, (int fd, struct stat *ret), (fd, ret), name_of(fd))
WRAP_INT(fstatfs64, (int fd, struct statfs *ret), (fd, ret), name_of(fd))
WRAP_INT(fstatvfs64, (int fd, struct statvfs *ret), (fd, ret), name_of(fd))
WRAP_INT(memfd_create, (const char *name, unsigned flags), (name, flags), name)
WRAP_INT(mkdir, (const char *path, mode_t mode), (path, mode), path)
WRAP_INT(mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode), path)
WRAP_INT(mknodat, (int dir, const char *path, mode_t mode, dev_t dev), (dir, path, mode, dev), path)
WRAP_INT(mount, (const char *from, const char *to, const char *type, unsigned long flags, const void *data),
         (from, to, type, flags, data), to)
WRAP_INT(mount_setattr, (int dir, const char *path, unsigned flags, struct mount_attr *attr, size_t n),
         (dir, path, flags, attr, n), path)
WRAP_INT(move_mount, (int from, const char *from_path, int to, const char *to_path, unsigned flags),
         (from, from_path, to, to_path, flags), to_path)
WRAP_INT(open64, (const char *path, int flags, mode_t mode), (path, flags, mode), path)
WRAP_INT(open_tree, (int dir, const char *path, unsigned flags), (dir, path, flags), path)
WRAP_INT(openat64, (int dir, const char *path, int flags, mode_t mode), (dir, path, flags, mode), path)
WRAP_INT(pipe2, (int *ret, int flags), (ret, flags), NULL)
WRAP_INT(prctl, (int option, unsigned long b, unsigned long c, unsigned long d, unsigned long e),
         (option, b, c, d, e), NULL)
WRAP_INT(sched_getaffinity, (pid_t pid, size_t n, cpu_set_t *ret), (pid, n, ret), NULL)
WRAP_INT(sched_setaffinity, (pid_t pid, size_t n, const cpu_set_t *set), (pid, n, set), NULL)
WRAP_INT(setsockopt, (int fd, int level, int name, const void *value, socklen_t n),
         (fd, level, name, value, n), name_of(fd))
WRAP_INT(socketpair, (int domain, int type, int protocol, int *ret), (domain, type, protocol, ret), NULL)
WRAP_INT(statfs64, (const char *path, struct statfs *ret), (path, ret), path)
WRAP_INT(symlinkat, (const char *target, int dir, const char *path), (target, dir, path), path)
WRAP_INT(umount2, (const char *path, int flags), (path, flags), path)
WRAP_INT(unlinkat, (int dir, const char *path, int flags), (dir, path, flags), path)
WRAP_INT(unshare, (int flags), (flags), NULL)
WRAP(ssize_t, -1, read, (int fd, void *ret, size_t n), (fd, ret, n), name_of(fd))
WRAP(ssize_t, -1, recvmsg, (int fd, struct msghdr *ret, int flags), (fd, ret, flags), NULL)
WRAP(ssize_t, -1, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags), NULL)
WRAP(ssize_t, -1, write, (int fd, const void *p, size_t n), (fd, p, n), name_of(fd))
WRAP(DIR *, NULL, opendir, (const char *path), (path), path)
WRAP(void *, (void *)-1, mmap64, (void *at, size_t n, int prot, int flags, int fd, off_t offset),
     (at, n, prot, flags, fd, offset), NULL)
WRAP(void *, NULL, calloc, (size_t count, size_t n), (count, n), NULL)
WRAP(void *, NULL, realloc, (void *p, size_t n), (p, n), NULL)
/* clang-format on */

long __real_syscall(long nr, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
    /* A wait or a wake-up: how often is a matter of luck. */
    const int sys = nr == SYS_futex ? 0 : fault_call("syscall", nr, a, NULL);
    if (sys) {
        errno = sys;
        return -1;
    }
    return __real_syscall(nr, a, b, c, d, e, f);
}

/* A cgroup is busy until its last process is gone; the kernel gives no other reason to its owner.
 * Retried until it works, so not counted either; but now and then it is busy. */
int __real_rmdir(const char *path);
int __wrap_rmdir(const char *path);
int __wrap_rmdir(const char *path)
{
    static unsigned calls;
    if (fault && fault->is_armed && ++calls % 2) {
        errno = EBUSY;
        return -1;
    }
    return __real_rmdir(path);
}
