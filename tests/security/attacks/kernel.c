/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's own surface: calls, namespaces, keys, clocks, sockets, cgroups. Arguments are
 * nonsense on purpose: the kernel's complaint about them shows that the call was let through. */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "attack.h"
#include "base/banned.h"

static void calls(char **args)
{
    (void)args;
    static const struct {
        const char *name;
        long number, a, b, c, d, e;
    } list[] = {
        { "userfaultfd", SYS_userfaultfd, -1, 0, 0, 0, 0 },
        { "perf_event_open", SYS_perf_event_open, 0, 0, -1, -1, 0 },
        { "bpf", SYS_bpf, 0, 0, 0, 0, 0 },
        { "io_uring_setup", SYS_io_uring_setup, 1, 0, 0, 0, 0 },
        { "io_uring_enter", SYS_io_uring_enter, -1, 0, 0, 0, 0 },
        { "io_uring_register", SYS_io_uring_register, -1, 0, 0, 0, 0 },
        { "kexec_load", SYS_kexec_load, 0, 0, 0, -1, 0 },
        { "kexec_file_load", SYS_kexec_file_load, -1, -1, 0, 0, -1 },
        { "init_module", SYS_init_module, 0, 0, 0, 0, 0 },
        { "finit_module", SYS_finit_module, -1, 0, -1, 0, 0 },
        { "delete_module", SYS_delete_module, 0, 0, 0, 0, 0 },
        { "open_by_handle_at", SYS_open_by_handle_at, -1, 0, 0, 0, 0 },
        { "name_to_handle_at", SYS_name_to_handle_at, -1, 0, 0, 0, 0 },
        { "quotactl", SYS_quotactl, -1, 0, 0, 0, 0 },
        { "acct", SYS_acct, (long)"/nonexistent", 0, 0, 0, 0 },
        { "swapon", SYS_swapon, (long)"/nonexistent", 0, 0, 0, 0 },
        { "swapoff", SYS_swapoff, (long)"/nonexistent", 0, 0, 0, 0 },
        { "reboot", SYS_reboot, 0, 0, 0, 0, 0 },
        { "syslog", SYS_syslog, 10, 0, 0, 0, 0 },
        { "fanotify_init", SYS_fanotify_init, -1, 0, 0, 0, 0 },
        { "process_vm_readv", SYS_process_vm_readv, 0, 0, 0, 0, 0 },
        { "process_vm_writev", SYS_process_vm_writev, 0, 0, 0, 0, 0 },
        { "pidfd_getfd", SYS_pidfd_getfd, -1, 0, 0, 0, 0 },
        { "kcmp", SYS_kcmp, 1, 1, -1, 0, 0 },
        { "migrate_pages", SYS_migrate_pages, 0, -1, 0, 0, 0 },
        { "move_pages", SYS_move_pages, 0, 0, 0, 0, -1 },
        { "modify_ldt", SYS_modify_ldt, 0, 0, 0, 0, 0 },
        { "iopl", SYS_iopl, 9, 0, 0, 0, 0 },
        { "ioperm", SYS_ioperm, -1, -1, 0, 0, 0 },
        { "sethostname", SYS_sethostname, 0, -1, 0, 0, 0 },
        { "setdomainname", SYS_setdomainname, 0, -1, 0, 0, 0 },
        { "lookup_dcookie", SYS_lookup_dcookie, 0, 0, 0, 0, 0 },
    };
    for (size_t i = 0; i < SG_COUNT_OF(list); i++) {
        errno = 0;
        sg_say_reached(list[i].name, syscall(list[i].number, list[i].a, list[i].b, list[i].c,
                                             list[i].d, list[i].e));
    }
}

/* Entry by the 32-bit door: getpid, by its number there. Its own process, because it may end. */
static void old_entry(char **args)
{
    (void)args;
    pid_t pid = fork();
    if (pid == 0) {
        long ret = -ENOSYS;
#ifdef __x86_64__
        __asm__ volatile("int $0x80" : "=a"(ret) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
#endif
        _exit(ret > 0 ? 0 : 1);
    }
    int status = 0;
    (void)waitpid(pid, &status, 0);
    errno = WIFSIGNALED(status) ? EPERM : ENOSYS;
    sg_say_result("int-0x80", status == 0 ? 0 : -1);
#ifdef __x86_64__
    sg_say_result("x32", syscall(0x40000000L + SYS_getpid));
#endif
}

static void keys(char **args)
{
    (void)args;
    sg_say_result("add_key",
                  syscall(SYS_add_key, "user", "sg-test", "x", 1, KEY_SPEC_PROCESS_KEYRING));
    sg_say_reached("request_key", syscall(SYS_request_key, "user", "sg-test", NULL, 0));
    sg_say_result("session-keyring",
                  syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
    sg_say_reached("persistent-keyring",
                   syscall(SYS_keyctl, KEYCTL_GET_PERSISTENT, -1, KEY_SPEC_PROCESS_KEYRING));
}

/* ---- namespaces ---- */

static int idle(void *unused)
{
    (void)unused;
    return 0;
}

static void namespaces(char **args)
{
    (void)args;
    static const struct {
        const char *name;
        int flag;
    } kinds[] = {
        { "user", CLONE_NEWUSER },     { "mnt", CLONE_NEWNS },  { "net", CLONE_NEWNET },
        { "pid", CLONE_NEWPID },       { "ipc", CLONE_NEWIPC }, { "uts", CLONE_NEWUTS },
        { "cgroup", CLONE_NEWCGROUP },
    };
    static _Alignas(16) char stack[65536];
    char what[32], path[64];
    for (size_t i = 0; i < SG_COUNT_OF(kinds); i++) {
        (void)snprintf(what, sizeof what, "clone-%s", kinds[i].name);
        int pid = clone(idle, stack + sizeof stack, kinds[i].flag | CLONE_NEWUSER | SIGCHLD, NULL);
        sg_say_result(what, pid);
        if (pid > 0)
            (void)waitpid(pid, NULL, 0);
        (void)snprintf(what, sizeof what, "setns-%s", kinds[i].name);
        (void)snprintf(path, sizeof path, "/proc/1/ns/%s", kinds[i].name);
        int ns = open(path, O_RDONLY | O_CLOEXEC);
        sg_say_result(what, ns < 0 ? -1 : setns(ns, 0));
        (void)snprintf(what, sizeof what, "unshare-%s", kinds[i].name);
        pid = fork();
        if (pid == 0) {
            sg_say_result(what, unshare(kinds[i].flag | CLONE_NEWUSER));
            _exit(0);
        }
        (void)waitpid(pid, NULL, 0);
    }
    uint64_t clone3_args[8] = { CLONE_NEWUSER };
    sg_say_reached("clone3", syscall(SYS_clone3, clone3_args, 1));
    int own = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    sg_say_result("parent-namespace", own < 0 ? -1 : ioctl(own, 0xb702 /* NS_GET_PARENT */));
}

/* ---- clocks ---- */

static void clocks(char **args)
{
    (void)args;
    struct timex t = { .modes = 0 };
    long ret = adjtimex(&t);
    t.modes = ADJ_TICK; /* to what it is already */
    sg_say_result("adjtimex", ret < 0 ? -1 : adjtimex(&t));
    static const char *const devices[] = { "/dev/rtc", "/dev/rtc0", "/dev/ptp0" };
    for (size_t i = 0; i < SG_COUNT_OF(devices); i++)
        sg_say_result(devices[i], open(devices[i], O_RDONLY | O_CLOEXEC));
    sg_say_result("timer-slack", prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0));
}

/* Only with the protections on: with the answer yes the clock would be set. */
static void set_clock(char **args)
{
    (void)args;
    struct timespec past = { .tv_sec = 1000000000 };
    struct timeval before = { .tv_sec = 1000000000 };
    sg_say_result("clock_settime", syscall(SYS_clock_settime, CLOCK_REALTIME, &past));
    sg_say_result("settimeofday", syscall(SYS_settimeofday, &before, NULL));
}

/* ---- sockets ---- */

static void sockets(char **args)
{
    (void)args;
    static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET };
    for (int family = 1; family < 64; family++) {
        char what[32];
        (void)snprintf(what, sizeof what, "family-%d", family);
        int fd = -1;
        for (size_t i = 0; fd < 0 && i < SG_COUNT_OF(types); i++)
            fd = socket(family, types[i] | SOCK_CLOEXEC, 0);
        sg_say_result(what, fd);
        if (fd >= 0)
            (void)close(fd);
    }
    sg_say_result("raw-ip", socket(AF_INET, SOCK_RAW, 1));
    sg_say_result("sctp", socket(AF_INET, SOCK_STREAM, 132));
    sg_say_result("mptcp", socket(AF_INET, SOCK_STREAM, 262));
    sg_say_result("netfilter", socket(AF_NETLINK, SOCK_RAW, 12));
    sg_say_result("audit", socket(AF_NETLINK, SOCK_RAW, 9));
    sg_say_result("xfrm", socket(AF_NETLINK, SOCK_RAW, 6));
    sg_say_result("crypto", socket(AF_NETLINK, SOCK_RAW, 21));
    sg_say_result("uevent", socket(AF_NETLINK, SOCK_RAW, 15));
}

/* ---- cgroups ---- */

static void cgroups(char **args)
{
    (void)args;
    (void)mkdir("/tmp/cg", 0755);
    sg_say_result("mount-v1", mount("none", "/tmp/cg", "cgroup", 0, "pids"));
    sg_say_result("mount-v2", mount("none", "/tmp/cg", "cgroup2", 0, NULL));
    static const char *const paths[] = {
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/release_agent",
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/pids/release_agent",
    };
    for (size_t i = 0; i < SG_COUNT_OF(paths); i++)
        sg_say_result(paths[i], open(paths[i], O_RDONLY | O_CLOEXEC));
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[512];
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        sg_say("cgroup", "%s", line);
    }
}

/* ---- terminal ---- */

static void type_into_terminal(char **args)
{
    (void)args;
    const char byte = 'x';
    char command = 2;
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        sg_broken("no terminal");
    sg_say_result("TIOCSTI", ioctl(fd, TIOCSTI, &byte));
    sg_say_result("TIOCSTI-64", syscall(SYS_ioctl, fd, TIOCSTI | 1L << 32, &byte));
    sg_say_result("TIOCLINUX", ioctl(fd, TIOCLINUX, &command));
    int discipline = 2;
    sg_say_result("TIOCSETD", ioctl(fd, TIOCSETD, &discipline));
}

const struct sg_attack sg_attacks_on_kernel[] = {
    { "calls", calls },
    { "old-entry", old_entry },
    { "keys", keys },
    { "namespaces", namespaces },
    { "clocks", clocks },
    { "set-clock", set_clock },
    { "sockets", sockets },
    { "cgroups", cgroups },
    { "type", type_into_terminal },
    { NULL, NULL },
};
