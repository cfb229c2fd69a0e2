/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled filter on the real kernel: what is refused, how, and that ordinary programs run.
 * Arguments are chosen so that without the filter the call would fail otherwise, or do no harm. */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "engine/seccomp_data.h"
#include "base/banned.h"

enum { NO_FILTER = 126, X32_BIT = 0x40000000 };

static void install_filter(void)
{
    struct sock_fprog program = {
        .len = sg_seccomp_cell_len,
        .filter = (struct sock_filter *)sg_seccomp_cell, /* the kernel only reads it */
    };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        _exit(NO_FILTER);
}

/* Runs body in a child under the filter; returns the child's wait status. */
static int run_filtered(int (*body)(const void *), const void *arg)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        install_filter();
        _exit(body(arg));
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status))
        assert_int_not_equal(WEXITSTATUS(status), NO_FILTER);
    return status;
}

struct attempt {
    const char *what;
    long number;
    unsigned long args[3];
    int want; /* errno, or 0 for success */
};

static int try_call(const void *arg)
{
    const struct attempt *a = arg;
    errno = 0;
    return syscall(a->number, a->args[0], a->args[1], a->args[2], 0, 0, 0) < 0 ? errno : 0;
}

static void try_all(const struct attempt *v, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int status = run_filtered(try_call, &v[i]);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != v[i].want)
            fail_msg("%s: wait status 0x%x, wanted errno %d", v[i].what, status, v[i].want);
    }
}

static void namespaces_and_mounts_are_refused(void **state)
{
    (void)state;
    static const struct attempt v[] = {
        { "clone user ns", SYS_clone, { CLONE_NEWUSER | SIGCHLD }, EPERM },
        { "clone net ns", SYS_clone, { CLONE_NEWNET | SIGCHLD }, EPERM },
        { "clone3", SYS_clone3, { 0, 0 }, ENOSYS },
        { "unshare user ns", SYS_unshare, { CLONE_NEWUSER }, EPERM },
        { "unshare time ns", SYS_unshare, { CLONE_NEWTIME }, EPERM },
        { "unshare files", SYS_unshare, { CLONE_FILES | CLONE_FS }, 0 },
        { "setns", SYS_setns, { (unsigned long)-1, 0 }, EPERM },
        { "mount", SYS_mount, { 0, 0, 0 }, EPERM },
        { "fsopen", SYS_fsopen, { 0, 0 }, EPERM },
        { "open_tree", SYS_open_tree, { (unsigned long)-1, 0 }, EPERM },
        { "open_by_handle_at", SYS_open_by_handle_at, { (unsigned long)-1, 0 }, EPERM },
    };
    try_all(v, SG_COUNT(v));
}

static void exotic_sockets_are_refused_and_ordinary_ones_are_not(void **state)
{
    (void)state;
    static const struct attempt v[] = {
        { "vsock", SYS_socket, { AF_VSOCK, SOCK_STREAM, 0 }, EAFNOSUPPORT },
        { "alg", SYS_socket, { AF_ALG, SOCK_SEQPACKET, 0 }, EAFNOSUPPORT },
        { "packet", SYS_socket, { AF_PACKET, SOCK_RAW, 0 }, EAFNOSUPPORT },
        { "raw", SYS_socket, { AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP }, EPERM },
        { "inet packet", SYS_socket, { AF_INET, SOCK_PACKET, 0 }, EPERM },
        { "sctp", SYS_socket, { AF_INET, SOCK_STREAM, IPPROTO_SCTP }, EPROTONOSUPPORT },
        { "audit", SYS_socket, { AF_NETLINK, SOCK_RAW, NETLINK_AUDIT }, EPROTONOSUPPORT },
        { "route", SYS_socket, { AF_NETLINK, SOCK_RAW, NETLINK_ROUTE }, 0 },
        { "tcp", SYS_socket, { AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP }, 0 },
        { "udp", SYS_socket, { AF_INET, SOCK_DGRAM, 0 }, 0 },
        { "unix", SYS_socket, { AF_UNIX, SOCK_SEQPACKET, 0 }, 0 },
        { "inet pair", SYS_socketpair, { AF_INET, SOCK_STREAM, 0 }, EAFNOSUPPORT },
    };
    try_all(v, SG_COUNT(v));
}

static void terminal_injection_is_refused_whatever_the_upper_half_says(void **state)
{
    (void)state;
    const unsigned long high = 1UL << 32;
    const struct attempt v[] = {
        { "TIOCSTI", SYS_ioctl, { (unsigned long)-1, TIOCSTI }, EPERM },
        { "TIOCSTI, high bits", SYS_ioctl, { (unsigned long)-1, TIOCSTI | high }, EPERM },
        { "TIOCLINUX", SYS_ioctl, { (unsigned long)-1, TIOCLINUX | high << 31 }, EPERM },
        { "TIOCSETD", SYS_ioctl, { (unsigned long)-1, TIOCSETD }, EPERM },
        { "SIOCBRDELBR", SYS_ioctl, { (unsigned long)-1, 0x89a1 }, EPERM },
        { "other", SYS_ioctl, { (unsigned long)-1, FIONREAD }, EBADF },
    };
    try_all(v, SG_COUNT(v));
}

static void the_kernel_surface_is_refused(void **state)
{
    (void)state;
    static const struct attempt v[] = {
        { "keyctl", SYS_keyctl, { KEYCTL_GET_KEYRING_ID, 0, 0 }, EPERM },
        { "add_key", SYS_add_key, { 0, 0, 0 }, EPERM },
        { "bpf", SYS_bpf, { 0, 0, 0 }, EPERM },
        { "perf_event_open", SYS_perf_event_open, { 0, 0, 0 }, EPERM },
        { "userfaultfd", SYS_userfaultfd, { 0 }, EPERM },
        { "io_uring_setup", SYS_io_uring_setup, { 0, 0 }, EPERM },
        { "process_vm_readv", SYS_process_vm_readv, { 1, 0, 0 }, EPERM },
        { "pidfd_getfd", SYS_pidfd_getfd, { 0, 0, 0 }, EPERM },
        { "ptrace of pid 1", SYS_ptrace, { PTRACE_SEIZE, 1, 0 }, EPERM },
        { "clock_settime", SYS_clock_settime, { 999, 0, 0 }, EPERM },
        { "adjtimex", SYS_adjtimex, { 0 }, EPERM },
        { "timer slack", SYS_prctl, { PR_SET_TIMERSLACK, 50000, 0 }, EPERM },
        { "deadline class", SYS_sched_setattr, { 0, 0, 0 }, EPERM },
        { "fifo class", SYS_sched_setscheduler, { 0, SCHED_FIFO, 0 }, EPERM },
        { "fifo class, flag", SYS_sched_setscheduler, { 0, 0x40000001, 0 }, EPERM },
        { "batch class", SYS_sched_setscheduler, { 0, SCHED_BATCH, 0 }, EINVAL },
        { "device node", SYS_mknodat, { (unsigned long)-1, 0, S_IFCHR | 0600 }, EPERM },
        { "fifo", SYS_mknodat, { (unsigned long)-1, 0, S_IFIFO | 0600 }, EFAULT },
        { "read implies exec", SYS_personality, { READ_IMPLIES_EXEC }, EPERM },
        { "fixed addresses", SYS_personality, { ADDR_NO_RANDOMIZE }, 0 },
    };
    try_all(v, SG_COUNT(v));
}

static void calls_that_nobody_knows_do_not_exist(void **state)
{
    (void)state;
    static const struct attempt v[] = {
        { "a number from the future", 999, { 0 }, ENOSYS },
        { "getpid by its x32 number", X32_BIT | SYS_getpid, { 0 }, ENOSYS },
        { "execve by its x32 number", X32_BIT | 520, { 0 }, ENOSYS },
    };
    try_all(v, SG_COUNT(v));
}

#ifdef __x86_64__
static int enter_32_bit(const void *arg)
{
    (void)arg;
    long result = 20; /* getpid over there, writev here */
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
    return 0;
}

static void the_32_bit_entry_kills(void **state)
{
    (void)state;
    int status = run_filtered(enter_32_bit, NULL);
    assert_true(WIFSIGNALED(status));
    /* SIGSEGV where the kernel was built without that entry */
    assert_true(WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV);
}
#endif

static int exec_program(const void *arg)
{
    char *const *argv = (char *const *)(uintptr_t)arg;
    (void)execvp(argv[0], argv);
    return 127;
}

static void run_program(const char *const *argv, bool is_optional)
{
    int status = run_filtered(exec_program, argv);
    bool is_missing = WIFEXITED(status) && WEXITSTATUS(status) == 127;
    if (status != 0 && !(is_missing && is_optional))
        fail_msg("%s: wait status 0x%x", argv[0], status);
}

static void python_runs_with_threads_processes_and_sockets(void **state)
{
    (void)state;
    run_program(
        (const char *const[]) {
            "/usr/bin/python3", "-c",
            "import threading, subprocess, socket, multiprocessing as m, tempfile, asyncio\n"
            "t = threading.Thread(target=lambda: None); t.start(); t.join()\n"
            "assert subprocess.run(['true']).returncode == 0\n"
            "with m.get_context('fork').Pool(2) as p: assert p.map(abs, [-1, -2]) == [1, 2]\n"
            "s = socket.create_server(('127.0.0.1', 0))\n"
            "c = socket.create_connection(s.getsockname()); c.close(); s.close()\n"
            "asyncio.run(asyncio.sleep(0))\n"
            "tempfile.TemporaryDirectory().cleanup()",
            NULL },
        false);
}

static void node_runs_where_it_is_installed(void **state)
{
    (void)state;
    run_program(
        (const char *const[]) {
            "node", "-e",
            "new (require('worker_threads').Worker)('process.exit(0)', { eval: true });"
            "require('fs').readFile('/proc/self/stat', () => "
            "require('child_process').execSync('true'))",
            NULL },
        true);
}

static void a_compiler_runs_and_so_does_what_it_made(void **state)
{
    (void)state;
    run_program(
        (const char *const[]) {
            "sh", "-ec",
            "d=$(mktemp -d); trap 'rm -rf \"$d\"' EXIT; cd \"$d\"\n"
            "printf '#include <stdio.h>\\nint main(void) { return puts(\"x\") < 0; }' > a.c\n"
            "cc -O1 -o a a.c && ./a >/dev/null",
            NULL },
        false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(namespaces_and_mounts_are_refused),
        cmocka_unit_test(exotic_sockets_are_refused_and_ordinary_ones_are_not),
        cmocka_unit_test(terminal_injection_is_refused_whatever_the_upper_half_says),
        cmocka_unit_test(the_kernel_surface_is_refused),
        cmocka_unit_test(calls_that_nobody_knows_do_not_exist),
#ifdef __x86_64__
        cmocka_unit_test(the_32_bit_entry_kills),
#endif
        cmocka_unit_test(python_runs_with_threads_processes_and_sockets),
        cmocka_unit_test(node_runs_where_it_is_installed),
        cmocka_unit_test(a_compiler_runs_and_so_does_what_it_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
