/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of frozen cells: in which steps it is asked for, when that ends, and what is lent and
 * taken back. The kernel is a directory of plain files here. */
#include "fake_cgroup.h"

#include "engine/kept.h"
#include "engine/reclaim.h"
#include "base/banned.h"

#define MIB (UINT64_C(1) << 20)

/* A kernel that gives `part` of 100 of each step until `floor` is left. */
static unsigned steps_until_end(uint64_t now, uint64_t floor, unsigned part, uint64_t *ret_left)
{
    struct sg_reclaim r;
    unsigned steps = 0;
    uint64_t asked;
    sg_reclaim_begin(&r, now);
    while ((asked = sg_reclaim_next(&r, now))) {
        uint64_t gone = asked * part / 100, after = now - gone < floor ? floor : now - gone;
        assert_true(asked <= 4 * MIB && asked <= now);
        sg_reclaim_note(&r, asked, now, after);
        now = after;
        assert_true(++steps < 100000);
    }
    *ret_left = now;
    return steps;
}

static void steps_are_small_and_go_on_until_next_to_nothing_is_left(void **state)
{
    (void)state;
    uint64_t left;
    assert_int_equal(steps_until_end(400 * MIB, 0, 100, &left), 100);
    assert_true(left == 0);
    (void)steps_until_end(400 * MIB, 0, 60, &left);
    assert_true(left < 64 << 10);
    assert_int_equal(steps_until_end(32 << 10, 0, 100, &left), 0); /* not worth a step */
}

static void it_ends_soon_where_nothing_goes_any_more(void **state)
{
    (void)state;
    uint64_t left;
    assert_int_equal(steps_until_end(400 * MIB, 400 * MIB, 100, &left), 3);
    assert_int_equal(steps_until_end(400 * MIB, 200 * MIB, 100, &left), 53);
    assert_true(left == 200 * MIB);
    assert_int_equal(steps_until_end(400 * MIB, 0, 1, &left), 3); /* it comes too slowly */
}

static void it_ends_even_where_memory_comes_back_all_the_time(void **state)
{
    (void)state;
    struct sg_reclaim r;
    unsigned steps = 0;
    sg_reclaim_begin(&r, 40 * MIB);
    for (uint64_t asked; (asked = sg_reclaim_next(&r, 40 * MIB)); steps++)
        sg_reclaim_note(&r, asked, 40 * MIB, 36 * MIB);
    assert_int_equal(steps, 20);
    sg_reclaim_begin(&r, UINT64_MAX); /* a lie, and no overflow */
    assert_true(sg_reclaim_next(&r, UINT64_MAX) == 4 * MIB);
}

static void what_becomes_of_paused_memory_is_said_in_words(void **state)
{
    (void)state;
    const struct {
        struct sg_reclaim_host host;
        const char *words;
    } rows[] = {
        { { SG_RECLAIM_ALL, 512 * MIB, "" }, "reclaimed (swap 512 MiB)" },
        { { SG_RECLAIM_FILES, 0, "no swap" }, "file pages only: no swap" },
        { { SG_RECLAIM_NONE, MIB, "cgroup v1 has no memory.reclaim" },
          "kept: cgroup v1 has no memory.reclaim" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[80];
        sg_reclaim_describe(&rows[i].host, text, sizeof text);
        assert_string_equal(text, rows[i].words);
    }
    struct sg_reclaim_host here;
    sg_reclaim_probe(&here);
    assert_true(here.way < SG_RECLAIM_WAY_COUNT && here.why);
    assert_true(sg_cgroup_is_v2() || here.way == SG_RECLAIM_NONE);
    assert_true((here.way == SG_RECLAIM_ALL) == !*here.why);
}

struct scene {
    struct fake_cgroup fake;
    struct sg_kept kept;
};

static int setup(void **state)
{
    static struct scene scene;
    scene = (struct scene) { .kept = { .pidfd = -1, .may_be_frozen = true } };
    scene.kept.limits.mem_bytes = 256 * MIB;
    fake_cgroup_make(&scene.fake, &scene.kept.cgroup);
    *state = &scene;
    return 0;
}

static int teardown(void **state)
{
    struct scene *s = *state;
    fake_cgroup_remove(&s->fake);
    return 0;
}

static void a_run_asks_by_writing_and_ends_by_itself(void **state)
{
    struct scene *s = *state;
    sg_reclaim_run(s->fake.fd); /* memory.current never falls */
    fake_cgroup_has(&s->fake, "memory.reclaim", "4194304");
    assert_int_equal(unlinkat(s->fake.fd, "memory.reclaim", 0), 0);
    sg_reclaim_run(s->fake.fd); /* the cgroup is gone */
}

static void a_frozen_cell_is_lent_swap_and_a_thawed_one_has_none(void **state)
{
    struct scene *s = *state;
    struct sg_err err = { 0 };
    const int fd = sg_kept_reclaim(&s->kept, &err);
    assert_ok(fd, err);
    assert_int_equal(close(fd), 0);
    fake_cgroup_has(&s->fake, "memory.swap.max", "268435456");
    assert_ok(sg_kept_thaw(&s->kept, &err), err);
    fake_cgroup_has(&s->fake, "cgroup.freeze", "0");
    char text[64];
    assert_ok(sg_file_read(s->fake.fd, "memory.swap.max", text, sizeof text, &err), err);
    assert_int_equal(text[0], '0'); /* a plain file keeps what lies behind */
    assert_false(s->kept.may_swap);
}

static void one_that_is_not_frozen_keeps_its_memory(void **state)
{
    struct scene *s = *state;
    struct sg_err err = { 0 };
    fake_cgroup_put(&s->fake, "cgroup.events", "populated 1\nfrozen 0\n");
    assert_fails(sg_kept_reclaim(&s->kept, &err), err, SG_CONFLICT);
    fake_cgroup_has(&s->fake, "memory.swap.max", "0");
}

static void without_the_file_or_on_v1_it_is_unsupported(void **state)
{
    struct scene *s = *state;
    struct sg_err err = { 0 };
    struct sg_cgroup v1 = s->kept.cgroup;
    v1.is_v2 = false;
    (void)snprintf(v1.dirs[SG_CTRL_MEMORY], sizeof v1.dirs[SG_CTRL_MEMORY], "%s", s->fake.dir);
    assert_fails(sg_cgroup_open_reclaim(&v1, &err), err, SG_UNSUPPORTED);
    assert_int_equal(unlinkat(s->fake.fd, "memory.reclaim", 0), 0);
    assert_fails(sg_kept_reclaim(&s->kept, &err), err, SG_UNSUPPORTED);
    fake_cgroup_has(&s->fake, "memory.swap.max", "0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_small_and_go_on_until_next_to_nothing_is_left),
        cmocka_unit_test(it_ends_soon_where_nothing_goes_any_more),
        cmocka_unit_test(it_ends_even_where_memory_comes_back_all_the_time),
        cmocka_unit_test(what_becomes_of_paused_memory_is_said_in_words),
        cmocka_unit_test_setup_teardown(a_run_asks_by_writing_and_ends_by_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(a_frozen_cell_is_lent_swap_and_a_thawed_one_has_none, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_that_is_not_frozen_keeps_its_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(without_the_file_or_on_v1_it_is_unsupported, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
