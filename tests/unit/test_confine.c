/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's confinement, as root and as an ordinary user: each attempt runs in a child of its
 * own that confines itself first. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "daemon/seccomp_data.h"
#include "loop/loop.h"
#include "store/store.h"
#include "sys/confine.h"
#include "base/banned.h"

enum { NOBODY = 65534, NOT_CONFINED = 200 };

struct rig {
    char dir[32], state[48];
    bool is_root;
};

static struct rig make_rig(bool is_root)
{
    struct rig r = { .dir = "/tmp/sg-confine-XXXXXX", .is_root = is_root };
    assert_non_null(mkdtemp(r.dir));
    (void)snprintf(r.state, sizeof r.state, "%s/daemon", r.dir);
    if (!is_root && geteuid() == 0)
        assert_int_equal(chown(r.dir, NOBODY, NOBODY), 0);
    return r;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

static void remove_rig(const struct rig *r)
{
    assert_int_equal(nftw(r->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static struct sg_confine confine_to(const char *state_dir)
{
    return (struct sg_confine) { .name = "daemon",
                                 .id = SG_DAEMON_ID,
                                 .state_dir = state_dir,
                                 .filter = sg_seccomp_daemon,
                                 .filter_len = sg_seccomp_daemon_len };
}

static void become_confined(const struct rig *r)
{
    struct sg_err err = { 0 };
    struct sg_confined got;
    if (!r->is_root && geteuid() == 0 &&
        (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
         setresuid(NOBODY, NOBODY, NOBODY) < 0 ||
         prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)) /* as one who has never been root */
        _exit(NOT_CONFINED);
    const struct sg_confine confine = confine_to(r->state);
    if (sg_confine(&confine, &got, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        _exit(NOT_CONFINED);
    }
    if (got.uid != geteuid() || got.has_own_id != (r->is_root && got.uid == SG_DAEMON_ID))
        _exit(NOT_CONFINED);
}

/* The wait status of a confined child that runs `body` and exits with what it returns. */
static int run_confined(const struct rig *r, int (*body)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        become_confined(r);
        _exit(body());
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* ---- what is refused, and how: an errno, or the end ---- */

static int result(long got)
{
    return got < 0 ? errno : 0;
}

static int try_passwd(void)
{
    return result(open("/etc/passwd", O_RDONLY | O_CLOEXEC));
}

static int try_proc(void)
{
    return result(open("/proc/self/status", O_RDONLY | O_CLOEXEC));
}

static int try_up(void)
{
    return result(open("/../../etc/passwd", O_RDONLY | O_CLOEXEC));
}

static int try_root_write(void)
{
    return result(open("/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static int try_inet(void)
{
    return result(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static int try_netlink(void)
{
    return result(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0));
}

static int try_code(void)
{
    void *p =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? errno : 0;
}

static int try_data_to_code(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? ENOSYS : result(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}

static int try_more_files(void)
{
    const struct rlimit one = { 1, 1 };
    return result(setrlimit(RLIMIT_NOFILE, &one));
}

static int try_exec(void)
{
    char *const argv[] = { (char *)"/state/x", NULL };
    return result(execv("/state/x", argv));
}

static int try_fork(void)
{
    return result(fork());
}

static int try_mount(void)
{
    return result(mount("none", "/state", "tmpfs", 0, NULL));
}

static int try_userns(void)
{
    return result(unshare(CLONE_NEWUSER));
}

static int try_ptrace(void)
{
    return result(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int try_bpf(void)
{
    return result(syscall(SYS_bpf, 0, NULL, 0));
}

static int try_keys(void)
{
    return result(syscall(SYS_keyctl, 0, 0));
}

static int try_uring(void)
{
    return result(syscall(SYS_io_uring_setup, 1, NULL));
}

static int try_id(void)
{
    return result(syscall(SYS_setresuid, 0, 0, 0));
}

static int try_unknown(void)
{
    return result(syscall(SYS_memfd_create, "x", 0));
}

enum { END = -1 };
static const struct {
    const char *what;
    int (*body)(void);
    int wanted; /* errno; END: the kernel ends it */
} attempts[] = {
    { "a file of the host", try_passwd, ENOENT },
    { "/proc", try_proc, ENOENT },
    { "up and out", try_up, ENOENT },
    { "a file in the new root", try_root_write, EROFS },
    { "the network", try_inet, EACCES },
    { "netlink", try_netlink, EACCES },
    { "new code", try_code, EACCES },
    { "data as code", try_data_to_code, EACCES },
    { "other limits", try_more_files, EPERM },
    { "exec", try_exec, END },
    { "fork", try_fork, END },
    { "mount", try_mount, END },
    { "a user namespace", try_userns, END },
    { "ptrace", try_ptrace, END },
    { "bpf", try_bpf, END },
    { "keyctl", try_keys, END },
    { "io_uring", try_uring, END },
    { "another id", try_id, END },
    { "a call of no list", try_unknown, ENOSYS },
};

static void check_attempts(bool is_root)
{
    struct rig r = make_rig(is_root);
    for (size_t i = 0; i < SG_COUNT(attempts); i++) {
        const int status = run_confined(&r, attempts[i].body);
        const bool is_right = attempts[i].wanted == END
                                  ? WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS
                                  : WIFEXITED(status) && WEXITSTATUS(status) == attempts[i].wanted;
        if (!is_right)
            fail_msg("%s: status 0x%x", attempts[i].what, (unsigned)status);
    }
    remove_rig(&r);
}

static void what_root_must_not_do_any_more_fails(void **state)
{
    (void)state;
    check_attempts(true);
}

static void what_a_user_must_not_do_any_more_fails(void **state)
{
    (void)state;
    check_attempts(false);
}

/* ---- what must still work ---- */

static void count(void *arg, const struct sg_err *err)
{
    *(int *)arg = err ? -1 : 1;
}

/* Threads, SQLite with its log, durable writes, and closing again. */
static int use_the_store(void)
{
    struct sg_err err = { 0 };
    struct sg_store_report report;
    int done = 0;
    struct sg_loop *l = sg_loop_new(&err);
    struct sg_store *s = l ? sg_store_open(l, "/state/s.db", &report, &err) : NULL;
    if (!s) {
        (void)fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    const struct sg_org_row row = { .id = "o1", .name = "n" };
    sg_store_put_org(s, &row, SG_STORE_FULL, count, &done);
    while (!done && sg_loop_turn(l, 5000, &err) == 0)
        ;
    sg_store_close(s);
    sg_loop_free(l);
    return done == 1 ? 0 : 2;
}

static void check_store(bool is_root)
{
    struct rig r = make_rig(is_root);
    for (unsigned i = 0; i < 2; i++) { /* a new one, and the same again */
        const int status = run_confined(&r, use_the_store);
        if (status != 0)
            fail_msg("status 0x%x", (unsigned)status);
    }
    struct stat st;
    sg_auto_free char *path = sg_printf("%s/s.db", r.state);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, is_root ? SG_DAEMON_ID : geteuid() == 0 ? NOBODY : geteuid());
    remove_rig(&r);
}

static void the_store_works_for_the_own_id(void **state)
{
    (void)state;
    check_store(true);
}

static void the_store_works_for_a_user(void **state)
{
    (void)state;
    check_store(false);
}

/* ---- seen from outside ---- */

static int wait_for_end(void)
{
    char byte;
    (void)!write(STDOUT_FILENO, "x", 1);
    (void)!read(STDIN_FILENO, &byte, 1);
    return 0;
}

static void read_file(pid_t pid, const char *name, char *ret, size_t cap)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, ret, cap - 1);
    assert_true(n >= 0);
    ret[n] = '\0';
}

static void the_kernel_agrees_from_outside(void **state)
{
    (void)state;
    struct rig r = make_rig(true);
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(in[1]);
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        become_confined(&r);
        _exit(wait_for_end());
    }
    char byte, text[8192];
    (void)close(out[1]);
    assert_int_equal(read(out[0], &byte, 1), 1);
    static const char *const lines[] = {
        "Uid:\t1879048190\t1879048190\t1879048190\t1879048190\n",
        "Gid:\t1879048190\t1879048190\t1879048190\t1879048190\n",
        "Groups:\t \n",
        "CapInh:\t0000000000000000\n",
        "CapPrm:\t0000000000000000\n",
        "CapEff:\t0000000000000000\n",
        "CapBnd:\t0000000000000000\n",
        "CapAmb:\t0000000000000000\n",
        "NoNewPrivs:\t1\n",
        "Seccomp:\t2\n",
    };
    read_file(pid, "status", text, sizeof text);
    for (size_t i = 0; i < SG_COUNT(lines); i++)
        if (!strstr(text, lines[i]))
            fail_msg("not in /proc/PID/status: %s in %s", lines[i], text);
    read_file(pid, "mountinfo", text, sizeof text);
    assert_non_null(strstr(text, " / / ro,nosuid,nodev,noexec"));
    assert_non_null(strstr(text, " /state rw,nosuid,nodev,noexec"));
    unsigned mounts = 0;
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        mounts++;
    assert_int_equal(mounts, 2);
    (void)close(in[1]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    (void)close(in[0]);
    (void)close(out[0]);
    remove_rig(&r);
}

static void a_state_directory_behind_a_link_is_refused(void **state)
{
    (void)state;
    struct rig r = make_rig(geteuid() == 0);
    assert_int_equal(symlink("/tmp", r.state), 0);
    struct sg_err err;
    struct sg_confined got;
    const struct sg_confine confine = confine_to(r.state);
    assert_true(sg_confine(&confine, &got, &err) < 0); /* before anything has changed */
    assert_non_null(strstr(err.msg, "state directory"));
    remove_rig(&r);
}

static int nothing(void)
{
    return 0;
}

int main(void)
{
    struct rig r = make_rig(false);
    const bool has_userns = run_confined(&r, nothing) == 0;
    remove_rig(&r);
    if (!has_userns)
        return skip_all("no user namespaces for ordinary users here");
    const struct CMUnitTest for_users[] = {
        cmocka_unit_test(what_a_user_must_not_do_any_more_fails),
        cmocka_unit_test(the_store_works_for_a_user),
        cmocka_unit_test(a_state_directory_behind_a_link_is_refused),
    };
    const struct CMUnitTest for_root[] = {
        cmocka_unit_test(what_root_must_not_do_any_more_fails),
        cmocka_unit_test(what_a_user_must_not_do_any_more_fails),
        cmocka_unit_test(the_store_works_for_the_own_id),
        cmocka_unit_test(the_store_works_for_a_user),
        cmocka_unit_test(the_kernel_agrees_from_outside),
        cmocka_unit_test(a_state_directory_behind_a_link_is_refused),
    };
    return geteuid() == 0 ? cmocka_run_group_tests(for_root, NULL, NULL)
                          : cmocka_run_group_tests(for_users, NULL, NULL);
}
