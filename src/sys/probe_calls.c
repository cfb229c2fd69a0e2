/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of single system calls, and facts that are only read. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "sys/kfile.h"
#include "sys/probe_internal.h"
#include "base/banned.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

enum { LANDLOCK_VERSION = 1, LANDLOCK_ABI_WITH_REFER = 2 };

void sg_probe_release(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    struct utsname u;
    if (uname(&u) < 0)
        sg_found_errno(ret, "uname");
    else
        sg_found(ret, SG_HAVE_NEWS, "%s", u.release);
}

void sg_probe_machine(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    struct utsname u;
    if (uname(&u) < 0)
        sg_found_errno(ret, "uname");
    else
        sg_found(ret, strcmp(u.machine, "x86_64") == 0 ? SG_HAVE_IT : SG_HAVE_NOT, "%s", u.machine);
}

void sg_probe_clone3(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    int pidfd = -1;
    struct clone_args args = { .flags = CLONE_PIDFD,
                               .pidfd = (uintptr_t)&pidfd,
                               .exit_signal = SIGCHLD };
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        _exit(0);
    if (pid < 0) {
        sg_found_errno(ret, "clone3");
        return;
    }
    (void)waitpid((pid_t)pid, NULL, 0);
    sg_drop_fd(&pidfd);
    sg_found_it(ret);
}

void sg_probe_pidfd(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    sg_auto_fd fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd < 0)
        sg_found_errno(ret, "pidfd_open");
    else if (syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) < 0)
        sg_found_errno(ret, "pidfd_send_signal");
    else
        sg_found_it(ret);
}

/* The flags that the engine uses, from a number where we hold nothing. */
void sg_probe_close_range(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    enum { UNSHARE_AND_CLOEXEC = 6, FAR = 1 << 16 };
    if (syscall(SYS_close_range, FAR, ~0U, UNSHARE_AND_CLOEXEC) < 0)
        sg_found_errno(ret, "close_range");
    else
        sg_found_it(ret);
}

void sg_probe_openat2(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    const struct open_how how = { .flags = O_PATH | O_CLOEXEC,
                                  .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
    sg_auto_fd fd = (int)syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof how);
    if (fd < 0)
        sg_found_errno(ret, "openat2");
    else
        sg_found_it(ret);
}

/* ENOEXEC is the good answer: the file may be executed, and turns out to be no program. */
void sg_probe_memfd(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    sg_auto_fd fd = memfd_create("sandglass-probe", MFD_CLOEXEC | MFD_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("sandglass-probe", MFD_CLOEXEC);
    if (fd < 0 || write(fd, "none", 4) != 4) {
        if (errno == EACCES)
            sg_found_fix(ret, "sysctl -w vm.memfd_noexec=1");
        sg_found_errno(ret, "memfd_create");
        return;
    }
    char *const none[] = { NULL };
    (void)syscall(SYS_execveat, fd, "", none, none, AT_EMPTY_PATH);
    if (errno == ENOEXEC)
        sg_found_it(ret);
    else
        sg_found_errno(ret, "execveat");
}

void sg_probe_seccomp(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { .len = 1, .filter = &allow };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        sg_found_errno(ret, "no_new_privs");
    else if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        sg_found_errno(ret, "seccomp");
    else
        sg_found_it(ret);
}

void sg_probe_landlock(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION);
    if (abi < 0)
        sg_found_errno(ret, "landlock_create_ruleset");
    else
        sg_found(ret, abi < LANDLOCK_ABI_WITH_REFER ? SG_HAVE_NOT : SG_HAVE_IT, "ABI %ld", abi);
}

/* ---- facts ---- */

void sg_probe_core_pattern(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    char text[256];
    if (sg_file_read(AT_FDCWD, "/proc/sys/kernel/core_pattern", text, sizeof text, NULL) < 0)
        sg_found(ret, SG_HAVE_NEWS, "not readable");
    else
        sg_found(ret, SG_HAVE_NEWS, "%s",
                 text[0] == '|' ? "the host pipes them to a program" : "the host writes files");
}

void sg_probe_kvm(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    sg_auto_fd fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    sg_found(ret, SG_HAVE_NEWS, "%s", fd >= 0 ? "present" : strerror(errno));
}

static void find_program(const char *name, struct sg_finding *ret)
{
    const char *path = getenv("PATH");
    sg_auto_free char *copy = sg_strdup(path ? path : "/usr/bin");
    char *rest = copy;
    for (char *dir; (dir = strsep(&rest, ":"));) {
        sg_auto_free char *file = sg_printf("%s/%s", dir, name);
        if (access(file, X_OK) == 0) {
            sg_found(ret, SG_HAVE_NEWS, "%s", file);
            return;
        }
    }
    sg_found(ret, SG_HAVE_NEWS, "not installed");
}

void sg_probe_newuidmap(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    find_program("newuidmap", ret);
}

void sg_probe_runsc(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    find_program("runsc", ret);
}
