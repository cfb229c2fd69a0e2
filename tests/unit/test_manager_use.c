/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes in use: their clocks, what can be changed and seen of them, and lists of them. */
#include "manager_rig.h"

#include "manager/gauge.h"
#include "base/banned.h"

/* ---- time ---- */

static void a_lifetime_ends_a_sandbox(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 60 };

    (void)rig_create(r, &c);
    rig_run_ms(r, 30);
    assert_int_equal(r->cell_count, 1);
    rig_in_time(r, r->cell_count == 0);
    rig_until(r, !r->m->newest);
    assert_int_equal(rig_row(r, NULL).count, 0);
}

static void a_lifetime_may_end_in_a_pause_that_lasts(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 40, .on_expiry = SG_EXPIRY_PAUSE };
    struct sg_sandbox *s = rig_create(r, &c);

    rig_in_time(r, s->state == SBX_PAUSED);
    assert_int_equal(s->expires_ms, 0);
    rig_run_ms(r, 80);
    assert_int_equal(s->state, SBX_PAUSED);
    assert_int_equal(rig_do(r, sg_manager_resume, s).well, 1);
    assert_true(s->expires_ms > 0); /* and starts anew */
    rig_in_time(r, s->state == SBX_PAUSED);
}

static void a_new_timeout_counts_from_now(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 60 };
    struct sg_sandbox *s = rig_create(r, &c);
    struct told t = { 0 };
    struct sg_err err;

    assert_ok(sg_manager_set_timeout(s, &r->who, 100000, tell, &t, &err), err);
    rig_until(r, t.calls);
    rig_run_ms(r, 100);
    assert_int_equal(s->state, SBX_RUNNING);
    assert_ok(sg_manager_set_timeout(s, &r->who, 0, tell, &t, &err), err);
    rig_until(r, t.calls == 2);
    assert_int_equal(s->expires_ms, 0);
}

static void work_and_use_keep_a_sandbox_from_being_idle(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 0, .idle_ms = 60 };
    struct sg_sandbox *s = rig_create(r, &c);
    struct sg_err err;

    sg_sandbox_work_begin(s);
    sg_sandbox_work_begin(s);
    rig_run_ms(r, 100);
    sg_sandbox_work_end(s);
    rig_run_ms(r, 100);
    assert_int_equal(s->state, SBX_RUNNING);
    sg_sandbox_work_end(s);
    for (unsigned i = 0; i < 6; i++) {
        rig_run_ms(r, 25);
        assert_ptr_equal(sg_manager_find(r->m, &r->who, s->id.s, &err), s);
    }
    assert_int_equal(s->state, SBX_RUNNING);
    rig_in_time(r, !r->m->newest);
    assert_int_equal(r->cell_count, 0);
}

static void an_idle_sandbox_may_be_paused_instead(void **state)
{
    struct rig *r = *state;
    struct sg_create c = { .timeout_ms = 0, .idle_ms = 30, .on_expiry = SG_EXPIRY_PAUSE };
    struct sg_sandbox *s = rig_create(r, &c);

    rig_in_time(r, s->state == SBX_PAUSED);
    assert_int_equal(rig_do(r, sg_manager_resume, s).well, 1);
    rig_in_time(r, s->state == SBX_PAUSED);
}

/* ---- changes ---- */

static void limits_change_while_it_runs_and_are_charged(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    struct sg_sandbox_limits more = { .mem_bytes = 256 << 20 }, most = { .mem_bytes = 2u << 30 };
    struct told t = { 0 };
    struct sg_err err;

    assert_ok(sg_manager_set_limits(s, &r->who, &more, tell, &t, &err), err);
    rig_until(r, t.calls);
    assert_int_equal(rig_cell(r, s->id.s)->limits.mem_bytes, 256 << 20);
    assert_int_equal(rig_cell(r, s->id.s)->limits.cpu_milli, 500);
    assert_int_equal(r->who.org->mem_bytes, 256 << 20);
    assert_fails(sg_manager_set_limits(s, &r->who, &most, tell, &t, &err), err, SG_INVALID);

    r->fails[SG_MSG_L_LIMIT] = 1;
    more.mem_bytes = 512 << 20;
    assert_ok(sg_manager_set_limits(s, &r->who, &more, tell, &t, &err), err);
    assert_int_equal(r->who.org->mem_bytes, 512 << 20); /* what is being asked for counts */
    rig_until(r, t.calls == 2);
    assert_int_equal(t.well, 1);
    assert_int_equal(s->limits.mem_bytes, 256 << 20);
    assert_int_equal(r->who.org->mem_bytes, 256 << 20);
}

static void metadata_is_replaced_and_survives(void **state)
{
    struct rig *r = *state;
    struct sg_pair one = { (char *)(uintptr_t) "a", (char *)(uintptr_t) "1" };
    struct sg_create c = { .timeout_ms = 0, .metadata = &one, .metadata_n = 1 };
    struct sg_sandbox *s = rig_create(r, &c);
    struct sg_pair two = { (char *)(uintptr_t) "b", (char *)(uintptr_t) "zwei ü\n" };
    struct told t = { 0 };
    struct sg_err err;
    char id[SG_ID_LEN + 1];

    memcpy(id, s->id.s, sizeof id);
    assert_ok(sg_manager_set_metadata(s, &r->who, &two, 1, tell, &t, &err), err);
    rig_until(r, t.calls);
    rig_stop_manager(r);
    rig_start_manager(r);
    s = sg_manager_find(r->m, &r->who, id, &err);
    assert_non_null(s);
    assert_int_equal(s->state, SBX_RUNNING);
    assert_int_equal(s->metadata.n, 1);
    assert_string_equal(s->metadata.v[0].name, "b");
    assert_string_equal(s->metadata.v[0].value, "zwei ü\n");
    two.name = (char *)(uintptr_t) "";
    assert_fails(sg_manager_set_metadata(s, &r->who, &two, 1, tell, &t, &err), err, SG_INVALID);
}

/* ---- looking ---- */

static void note_stats(void *arg, const struct sg_stats *st, const struct sg_err *err)
{
    assert_null(err);
    *(struct sg_stats *)arg = *st;
}

static void note_health(void *arg, bool is_healthy, uint64_t latency_ns, const struct sg_err *err)
{
    (void)latency_ns;
    (void)err;
    *(int *)arg = is_healthy ? 1 : 2;
}

static void statistics_come_from_the_launcher_and_health_from_init(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    struct sg_stats st = { 0 };
    struct sg_err err;
    int health = 0;

    r->mem_bytes = 5 << 20;
    assert_ok(sg_manager_stats(s, &r->who, note_stats, &st, &err), err);
    rig_until(r, st.pids);
    assert_int_equal(st.mem_bytes, 5 << 20);
    assert_ok(sg_manager_health(s, &r->who, note_health, &health, &err), err);
    rig_until(r, health);
    assert_int_equal(health, 1);
    cell_freeze(rig_cell(r, s->id.s), true);
    health = 0;
    assert_ok(sg_manager_health(s, &r->who, note_health, &health, &err), err);
    rig_run_ms(r, 20);
    assert_int_equal(health, 0);
    rig_kill_cell(r, s->id.s, SG_L_END_EXIT, true);
    rig_until(r, health);
    assert_int_equal(health, 2);
}

static void note_oom(void *arg, bool has_oomed)
{
    *(int *)arg += has_oomed ? 1 : 100;
}

static void a_gauge_is_read_by_ourselves(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    struct sg_stats st;
    static const struct {
        const char *cpu;
        uint64_t ns;
    } rows[] = { { "1234567\n", 1234567 },
                 { "usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n", 1234000 } };

    r->mem_bytes = 5 << 20;
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        r->cpu_gauge = rows[i].cpu;
        struct sg_gauge *g = sg_gauge_open(s);
        assert_false(sg_gauge_read(g, &st)); /* it has not come yet */
        rig_until(r, sg_gauge_read(g, &st));
        assert_int_equal(st.cpu_ns, rows[i].ns);
        assert_int_equal(st.mem_bytes, 5 << 20);
        assert_int_equal(st.mem_peak_bytes, 5 << 20);
        assert_true(st.disk_used_bytes == UINT64_MAX);
        sg_gauge_close(g);
    }
    assert_int_equal(r->asked[SG_MSG_L_STATS], 0);
}

static void a_gauge_that_tells_nothing_is_none(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    struct sg_stats st;
    static const char *const texts[] = { "", "soon\n", "99999999999999999999999\n" };

    for (size_t i = 0; i < SG_COUNT(texts); i++) {
        r->cpu_gauge = texts[i];
        struct sg_gauge *g = sg_gauge_open(s);
        rig_until(r, r->asked[SG_MSG_L_GAUGE] == i + 1);
        rig_run_ms(r, 5);
        assert_false(sg_gauge_read(g, &st));
        sg_gauge_close(g);
    }
    sg_gauge_close(sg_gauge_open(s)); /* what comes is for nobody */
    rig_until(r, r->asked[SG_MSG_L_GAUGE] == SG_COUNT(texts) + 1);
    assert_false(sg_gauge_read(NULL, &st));
}

static void all_that_died_together_learn_of_the_lack_of_memory(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    int got = 0;

    r->oom_kills = 1;
    sg_manager_oom_check(s, note_oom, &got);
    sg_manager_oom_check(s, note_oom, &got);
    rig_until(r, got == 2);
    sg_manager_oom_check(s, note_oom, &got); /* nothing new */
    rig_until(r, got == 102);
}

static bool add_usage(void *arg, const struct sg_usage_row *u)
{
    struct sg_usage_row *sum = arg;
    sum->cpu_ns += u->cpu_ns;
    sum->creates += u->creates;
    sum->wall_ms += u->wall_ms;
    return true;
}

static void what_a_sandbox_used_is_on_record_at_its_end(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    struct sg_usage_row sum = { 0 };
    struct sg_err err;

    r->cpu_ns = 123456789;
    rig_run_ms(r, 20);
    (void)rig_do(r, sg_manager_destroy, s);
    rig_flush(r);
    assert_ok(sg_store_each_usage(r->store, NULL, 0, add_usage, &sum, &err), err);
    assert_int_equal(sum.cpu_ns, 123456789);
    assert_int_equal(sum.creates, 1);
    assert_true(sum.wall_ms >= 15);
}

/* The launcher may answer with what was before somebody else looked. */
static void what_was_counted_is_not_counted_again_after_a_late_answer(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    static const uint64_t seen_ns[] = { 10000000, 4000000, 12000000 };
    const uint64_t before_ns = s->life->used.cpu_ns;

    for (size_t i = 0; i < SG_COUNT(seen_ns); i++)
        sg_usage_count(s,
                       &(struct sg_stats) { .cpu_ns = seen_ns[i], .disk_used_bytes = UINT64_MAX });
    assert_int_equal(s->life->used.cpu_ns - before_ns, 12000000);
}

static void a_page_follows_the_one_before_even_when_its_last_is_gone(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *made[7], *page[3];
    struct sg_list_query q = { .limit = 3 };
    char last[SG_ID_LEN + 1];
    bool more;

    for (unsigned i = 0; i < 7; i++)
        made[i] = rig_create(r, NULL);
    assert_int_equal(sg_manager_list(r->m, &r->who, &q, page, &more), 3);
    assert_true(more);
    assert_ptr_equal(page[0], made[6]); /* newest first */
    assert_ptr_equal(page[2], made[4]);
    memcpy(last, page[2]->id.s, sizeof last);
    q.after = last;
    (void)rig_do(r, sg_manager_destroy, page[2]);
    (void)rig_create(r, NULL);
    assert_int_equal(sg_manager_list(r->m, &r->who, &q, page, &more), 3);
    assert_ptr_equal(page[0], made[3]);
    assert_ptr_equal(page[2], made[1]);
    assert_true(more);
    q.after = page[2]->id.s;
    assert_int_equal(sg_manager_list(r->m, &r->who, &q, page, &more), 1);
    assert_false(more);
    q.after = "sdoesnotexist0000000";
    assert_int_equal(sg_manager_list(r->m, &r->who, &q, page, &more), 0);
}

static void a_list_is_filtered_by_state_and_metadata(void **state)
{
    struct rig *r = *state;
    struct sg_pair blue = { (char *)(uintptr_t) "colour", (char *)(uintptr_t) "blue" };
    struct sg_create c = { .timeout_ms = 0, .metadata = &blue, .metadata_n = 1 };
    struct sg_sandbox *page[8], *s = rig_create(r, &c);
    struct sg_list_query q = { .limit = 8, .metadata = &blue, .metadata_n = 1 };
    bool more;

    (void)rig_do(r, sg_manager_pause, rig_create(r, NULL));
    assert_int_equal(sg_manager_list(r->m, &r->who, &q, page, &more), 1);
    assert_ptr_equal(page[0], s);
    q = (struct sg_list_query) { .limit = 8, .states = 1u << SBX_PAUSED };
    assert_int_equal(sg_manager_list(r->m, &r->who, &q, page, &more), 1);
    assert_int_equal(page[0]->state, SBX_PAUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_lifetime_ends_a_sandbox),
        RIG_TEST(a_lifetime_may_end_in_a_pause_that_lasts),
        RIG_TEST(a_new_timeout_counts_from_now),
        RIG_TEST(work_and_use_keep_a_sandbox_from_being_idle),
        RIG_TEST(an_idle_sandbox_may_be_paused_instead),
        RIG_TEST(limits_change_while_it_runs_and_are_charged),
        RIG_TEST(metadata_is_replaced_and_survives),
        RIG_TEST(statistics_come_from_the_launcher_and_health_from_init),
        RIG_TEST(a_gauge_is_read_by_ourselves),
        RIG_TEST(a_gauge_that_tells_nothing_is_none),
        RIG_TEST(all_that_died_together_learn_of_the_lack_of_memory),
        RIG_TEST(what_a_sandbox_used_is_on_record_at_its_end),
        RIG_TEST(what_was_counted_is_not_counted_again_after_a_late_answer),
        RIG_TEST(a_page_follows_the_one_before_even_when_its_last_is_gone),
        RIG_TEST(a_list_is_filtered_by_state_and_metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
