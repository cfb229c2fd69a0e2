/* SPDX-License-Identifier: Apache-2.0 */
/* The runner of probes, with rows of the test's own, and the rows of the kernel on a kernel from
 * which a filter took something away. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "check.h"
#include "sys/probe.h"
#include "base/banned.h"

static const struct sg_probe_env as_root = { .is_root = true, .state_dir = "/" };
static const struct sg_probe_env as_user = { .is_root = false, .state_dir = "/" };

/* ---- rows ---- */

static void have(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    sg_found(ret, SG_HAVE_IT, "number %d", ret->probe->value);
}

static void lack(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    errno = ENOSYS;
    sg_found_errno(ret, "thing");
}

static void weaken(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    sg_found(ret, SG_HAVE_LESS, "half");
    sg_found_fix(ret, "the other half");
}

static void die(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env, (void)ret;
    (void)kill(getpid(), SIGKILL);
}

static void hang(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env, (void)ret;
    for (;;)
        (void)pause();
}

static void change_everything(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    (void)chdir("/proc");
    (void)umask(0);
    if (sg_probe_enter(ret) == 0)
        sg_found_it(ret);
}

static void tell_uid(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    sg_found(ret, SG_HAVE_NEWS, "%u", (unsigned)getuid());
}

/* One row, as root or not. */
static struct sg_finding try_row(const struct sg_probe *row, const struct sg_probe_env *env)
{
    struct sg_host h = { .n = 0 };
    sg_host_probe(&h, row, 1, env);
    assert_int_equal(h.n, 1);
    return h.of[0];
}

static struct sg_probe row_of(void (*run)(const struct sg_probe_env *, struct sg_finding *))
{
    return (struct sg_probe) { "Test", "row", "to see", SG_NEED_MUST, SG_NEED_MUST,
                               false,  7,     run,      "the usual" };
}

/* ---- the runner ---- */

static void a_finding_comes_back_with_its_row(void **state)
{
    (void)state;
    const struct sg_probe row = row_of(have);
    struct sg_finding f = try_row(&row, &as_root);
    assert_ptr_equal(f.probe, &row);
    assert_int_equal(f.verdict, SG_HAVE_IT);
    assert_string_equal(f.detail, "number 7");
    assert_string_equal(f.fix, ""); /* nothing to mend */
}

static void what_is_missing_has_its_reason_and_the_fix_of_its_row(void **state)
{
    (void)state;
    const struct sg_probe row = row_of(lack);
    struct sg_finding f = try_row(&row, &as_root);
    assert_int_equal(f.verdict, SG_HAVE_NOT);
    assert_string_equal(f.detail, "thing: Function not implemented");
    assert_string_equal(f.fix, "the usual");
}

static void a_finding_may_know_a_better_fix(void **state)
{
    (void)state;
    const struct sg_probe row = row_of(weaken);
    struct sg_finding f = try_row(&row, &as_root);
    assert_int_equal(f.verdict, SG_HAVE_LESS);
    assert_string_equal(f.fix, "the other half");
}

static void a_killed_attempt_counts_as_missing(void **state)
{
    (void)state;
    const struct sg_probe row = row_of(die);
    struct sg_finding f = try_row(&row, &as_root);
    assert_int_equal(f.verdict, SG_HAVE_NOT);
    assert_string_equal(f.detail, "the attempt was killed: Killed");
}

static void an_attempt_that_hangs_ends_at_its_deadline(void **state)
{
    (void)state;
    const struct sg_probe row = row_of(hang);
    const uint64_t start = sg_now_ns();
    struct sg_finding f = try_row(&row, &as_root);
    assert_in_range(sg_now_ns() - start, SG_PROBE_PATIENCE_MS * 1000000ull,
                    2 * SG_PROBE_PATIENCE_MS * 1000000ull);
    assert_int_equal(f.verdict, SG_HAVE_NOT);
    assert_string_equal(f.detail, "no answer within 2 s");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* and is gone */
    assert_int_equal(errno, ECHILD);
}

static void nothing_that_a_row_does_sticks(void **state)
{
    (void)state;
    const struct sg_probe row = row_of(change_everything);
    struct stat before, after, ns_before, ns_after;
    assert_int_equal(stat(".", &before), 0);
    assert_int_equal(stat("/proc/self/ns/mnt", &ns_before), 0);
    const mode_t mask = umask(022);
    (void)umask(mask);
    assert_int_equal(try_row(&row, geteuid() == 0 ? &as_root : &as_user).verdict, SG_HAVE_IT);
    assert_int_equal(stat(".", &after), 0);
    assert_int_equal(stat("/proc/self/ns/mnt", &ns_after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(ns_before.st_ino, ns_after.st_ino);
    assert_int_equal(umask(mask), mask);
}

static void a_row_can_ask_for_an_ordinary_account(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct sg_probe row = row_of(tell_uid);
    assert_string_equal(try_row(&row, &as_root).detail, "0");
    row.as_ordinary = true;
    assert_string_equal(try_row(&row, &as_root).detail, "65534");
}

static void rows_that_do_not_apply_are_left_out(void **state)
{
    (void)state;
    struct sg_probe rows[] = { row_of(have), row_of(have) };
    rows[0].for_user = SG_NEED_NOTHING;
    rows[1].name = "second";
    struct sg_host h = { .n = 0 };
    sg_host_probe(&h, rows, SG_COUNT(rows), &as_user);
    assert_int_equal(h.n, 1);
    assert_null(sg_host_find(&h, "row"));
    assert_ptr_equal(sg_host_find(&h, "second"), &h.of[0]);
}

static void only_a_missing_need_stops_sandboxes(void **state)
{
    (void)state;
    static const struct {
        enum sg_need need;
        enum sg_verdict verdict;
        bool works;
    } cases[] = {
        { SG_NEED_MUST, SG_HAVE_IT, true },    { SG_NEED_MUST, SG_HAVE_LESS, true },
        { SG_NEED_MUST, SG_HAVE_NEWS, true },  { SG_NEED_MUST, SG_HAVE_NOT, false },
        { SG_NEED_USEFUL, SG_HAVE_NOT, true }, { SG_NEED_KNOW, SG_HAVE_NOT, true },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        struct sg_host h = { .n = 1 };
        h.of[0] = (struct sg_finding) { .need = cases[i].need, .verdict = cases[i].verdict };
        assert_int_equal(sg_host_works(&h), cases[i].works);
    }
}

/* ---- the rows of the kernel ---- */

static void every_row_has_a_group_a_name_of_its_own_and_a_fix(void **state)
{
    (void)state;
    for (size_t i = 0; i < sg_kernel_probe_count; i++) {
        const struct sg_probe *p = &sg_kernel_probes[i];
        assert_non_null(p->group);
        assert_non_null(p->purpose);
        if (p->for_root > SG_NEED_KNOW && !p->fix) /* user namespaces: found when it is known why */
            assert_true(strstr(p->name, "user namespaces") || strstr(p->name, "rootless start"));
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(p->name, sg_kernel_probes[k].name);
    }
}

/* From now on this process (and its children) have no such call. */
static void take_away(int nr, unsigned sys)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | sys),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = SG_COUNT(code), .filter = code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        _exit(99);
}

/* In a child: without the call `nr` the row `name` is missing. Exit code 0 when so. */
static void look_without(int nr, const char *name)
{
    struct sg_host h = { .n = 0 };
    const bool is_root = geteuid() == 0;
    take_away(nr, ENOSYS);
    sg_host_probe(&h, sg_kernel_probes, sg_kernel_probe_count, is_root ? &as_root : &as_user);
    const struct sg_finding *f = sg_host_find(&h, name);
    _exit(f && f->verdict == SG_HAVE_NOT && strstr(f->detail, "not implemented") && f->fix[0] ? 0
                                                                                              : 1);
}

static void a_call_that_is_not_there_is_missing_with_its_fix(void **state)
{
    (void)state;
    static const struct {
        int nr;
        const char *name;
    } cases[] = {
        { SYS_clone3, "clone3" },
        { SYS_pidfd_send_signal, "pidfd" },
        { SYS_openat2, "openat2" },
        { SYS_close_range, "close_range" },
        { SYS_memfd_create, "memfd exec" },
        { SYS_seccomp, "seccomp filter" },
        { SYS_landlock_create_ruleset, "landlock" },
        { SYS_unshare, "user namespaces" },
        { SYS_unshare, "net namespaces" },
        { SYS_mount_setattr, "mount API" },
        { SYS_open_tree, "mount API" },
        { SYS_fsmount, "tmpfs" },
        { SYS_fsmount, "overlayfs" },
        { SYS_fsopen, "proc" },
        { SYS_fsopen, "devpts" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            look_without(cases[i].nr, cases[i].name);
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status != 0)
            fail_msg("'%s' was not found missing (status %d)", cases[i].name, status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_finding_comes_back_with_its_row),
        cmocka_unit_test(what_is_missing_has_its_reason_and_the_fix_of_its_row),
        cmocka_unit_test(a_finding_may_know_a_better_fix),
        cmocka_unit_test(a_killed_attempt_counts_as_missing),
        cmocka_unit_test(an_attempt_that_hangs_ends_at_its_deadline),
        cmocka_unit_test(nothing_that_a_row_does_sticks),
        cmocka_unit_test(a_row_can_ask_for_an_ordinary_account),
        cmocka_unit_test(rows_that_do_not_apply_are_left_out),
        cmocka_unit_test(only_a_missing_need_stops_sandboxes),
        cmocka_unit_test(every_row_has_a_group_a_name_of_its_own_and_a_fix),
        cmocka_unit_test(a_call_that_is_not_there_is_missing_with_its_fix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
