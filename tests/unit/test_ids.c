/* SPDX-License-Identifier: Apache-2.0 */
/* Claims of an ordinary user, below a run directory of our own: root's work the same way. */
#include "check.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/ids.h"
#include "engine/spec.h"
#include "base/banned.h"

static char *run_dir;

static int setup(void **state)
{
    (void)state;
    run_dir = sg_strdup("/tmp/test-ids-XXXXXX");
    return mkdtemp(run_dir) && setenv("XDG_RUNTIME_DIR", run_dir, 1) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    sg_auto_free char *file = sg_printf("%s/sandglass/slots", run_dir);
    sg_auto_free char *dir = sg_printf("%s/sandglass", run_dir);
    (void)unlink(file);
    (void)rmdir(dir);
    (void)rmdir(run_dir);
    free(run_dir);
    return 0;
}

static void two_claims_of_one_process_differ(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct sg_ids a, b;
    assert_ok(sg_ids_claim(false, &a, &err), err);
    assert_ok(sg_ids_claim(false, &b, &err), err);
    assert_int_not_equal(a.slot, b.slot);
    sg_ids_release(&a);
    sg_ids_release(&b);
}

/* A process that claims a given slot, says how that went, and waits to be killed. */
static pid_t start_claimer(uint32_t slot, bool *ret_has_it)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct sg_ids ids;
        char has_it = sg_ids_claim_slot(false, slot, &ids, NULL) == 0;
        if (write(ends[1], &has_it, 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    char has_it = 0;
    assert_int_equal(read(ends[0], &has_it, 1), 1);
    (void)close(ends[0]);
    (void)close(ends[1]);
    *ret_has_it = has_it;
    return pid;
}

static void kill_and_reap(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void two_processes_never_hold_the_same_slot(void **state)
{
    (void)state;
    bool first_has_it, second_has_it;
    pid_t first = start_claimer(7, &first_has_it);
    pid_t second = start_claimer(7, &second_has_it);
    kill_and_reap(first);
    kill_and_reap(second);
    assert_true(first_has_it);
    assert_false(second_has_it);
}

static void a_held_slot_is_a_conflict_until_kill_9_frees_it(void **state)
{
    (void)state;
    struct sg_err err;
    struct sg_ids ids;
    bool has_it;
    pid_t pid = start_claimer(9, &has_it);
    assert_true(has_it);
    assert_fails(sg_ids_claim_slot(false, 9, &ids, &err), err, SG_CONFLICT);
    kill_and_reap(pid);
    assert_ok(sg_ids_claim_slot(false, 9, &ids, &err), err);
    assert_int_equal(ids.slot, 9);
    sg_ids_release(&ids);
}

/* Where a claim starts to look depends on the pid: hold that very slot, and ask again. */
static void a_claim_passes_over_slots_in_use(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct sg_ids first, again;
    bool has_it;
    assert_ok(sg_ids_claim(false, &first, &err), err);
    sg_ids_release(&first);
    pid_t pid = start_claimer(first.slot, &has_it);
    assert_true(has_it);
    assert_ok(sg_ids_claim(false, &again, &err), err);
    assert_int_equal(again.slot, (first.slot + 1) % SG_SLOT_COUNT);
    sg_ids_release(&again);
    kill_and_reap(pid);
}

static void a_user_without_root_keeps_the_own_id(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct sg_ids ids;
    assert_ok(sg_ids_claim(false, &ids, &err), err);
    assert_int_equal(ids.first, geteuid());
    assert_true(ids.slot < SG_SLOT_COUNT);
    sg_ids_release(&ids);
    assert_int_equal(ids.lock_fd, -1);
}

static void ranges_of_all_slots_fit_below_the_last_id(void **state)
{
    (void)state;
    assert_true((uint64_t)0x70000000 + (uint64_t)SG_SLOT_COUNT * SG_CELL_IDS < UINT32_MAX);
}

static void a_file_of_slots_that_is_a_link_is_refused(void **state)
{
    (void)state;
    struct sg_err err;
    struct sg_ids ids;
    sg_auto_free char *file = sg_printf("%s/sandglass/slots", run_dir);
    sg_auto_free char *other = sg_printf("%s/other", run_dir);
    assert_int_equal(rename(file, other), 0);
    assert_int_equal(symlink(other, file), 0);
    int ret = sg_ids_claim(false, &ids, &err);
    (void)unlink(file);
    (void)unlink(other);
    assert_int_equal(ret, -1);
    assert_non_null(strstr(err.msg, "slots"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_claims_of_one_process_differ),
        cmocka_unit_test(two_processes_never_hold_the_same_slot),
        cmocka_unit_test(a_held_slot_is_a_conflict_until_kill_9_frees_it),
        cmocka_unit_test(a_claim_passes_over_slots_in_use),
        cmocka_unit_test(a_user_without_root_keeps_the_own_id),
        cmocka_unit_test(ranges_of_all_slots_fit_below_the_last_id),
        cmocka_unit_test(a_file_of_slots_that_is_a_link_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
