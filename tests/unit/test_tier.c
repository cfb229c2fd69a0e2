/* SPDX-License-Identifier: Apache-2.0 */
/* The conversation with the launcher, which the test plays at the other end of a socketpair. */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "tier/tier.h"
#include "base/banned.h"

struct rig {
    struct sg_loop *loop;
    struct sg_tier *tier;
    int far;
    struct sg_packet got;
    unsigned lost, ended;
    char ended_id[SG_CTL_MAX_TAG + 1];
};

struct answer {
    struct rig *rig;
    unsigned calls;
    enum sg_msg_type type;
    struct sg_err err;
    bool asks_again;
};

static void note_ended(void *arg, const struct sg_msg_l_ended *e)
{
    struct rig *r = arg;
    r->ended++;
    (void)snprintf(r->ended_id, sizeof r->ended_id, "%s", e->sandbox.p);
}

static void note_lost(void *arg, const struct sg_err *err)
{
    struct rig *r = arg;
    assert_int_equal(err->kind, SG_UNAVAILABLE);
    r->lost++;
}

static void take(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct answer *a = arg;
    a->calls++;
    a->type = p ? p->msg.type : SG_MSG_NONE;
    if (err)
        a->err = *err;
    if (a->asks_again) {
        a->asks_again = false;
        sg_tier_pool(a->rig->tier, take, a);
    }
}

static int setup(void **state)
{
    static const struct sg_tier_ops ops = { .ended = note_ended, .lost = note_lost };
    struct rig *r = sg_new(struct rig);
    struct sg_err err;
    int fds[2];

    r->loop = sg_loop_new(&err);
    assert_ok(sg_chan_pair(fds, &err), err);
    r->far = fds[1];
    r->tier = sg_tier_new(r->loop, fds[0], &ops, r, &err);
    assert_non_null(r->tier);
    sg_packet_init(&r->got);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;
    sg_tier_free(r->tier);
    sg_drop_fd(&r->far);
    sg_packet_done(&r->got);
    sg_loop_free(r->loop);
    free(r);
    return 0;
}

static void turn(struct rig *r)
{
    struct sg_err err;
    assert_ok(sg_loop_turn(r->loop, 0, &err), err);
}

/* What the launcher was asked next; SG_MSG_NONE: nothing. */
static enum sg_msg_type hear(struct rig *r)
{
    struct sg_err err;
    if (sg_chan_recv(r->far, 1u << SG_ROLE_ASK, false, &r->got, &err) != SG_RECV_MESSAGE)
        return SG_MSG_NONE;
    return r->got.msg.type;
}

static void say(struct rig *r, struct sg_msg m, const int *fds, unsigned n)
{
    struct sg_err err;
    m.id = sg_msg_table[m.type].role == SG_ROLE_NEWS ? 0 : r->got.msg.id;
    assert_ok(sg_chan_send(r->far, &m, fds, n, false, &err), err);
    turn(r);
}

static void every_question_says_what_it_was_told(void **state)
{
    struct rig *r = *state;
    struct answer a = { .rig = r };
    struct sg_tier_limits l = { 1, 2, 3, 4 };

    sg_tier_hello(r->tier, 9, take, &a);
    assert_int_equal(hear(r), SG_MSG_L_HELLO);
    assert_int_equal(r->got.msg.l_hello.epoch, 9);
    say(r,
        (struct sg_msg) { .type = SG_MSG_L_WELCOME,
                          .l_welcome = { .version = SG_CTL_VERSION, .flags = 5 } },
        NULL, 0);
    assert_int_equal(a.calls, 1);
    assert_int_equal(sg_tier_flags(r->tier), 5);
    sg_tier_create(r->tier, SG_L_TIER_CELL, "s1", "base", &l, NULL, take, &a);
    assert_int_equal(hear(r), SG_MSG_L_CREATE);
    assert_string_equal(r->got.msg.l_create.sandbox.p, "s1");
    assert_string_equal(r->got.msg.l_create.template.p, "base");
    assert_int_equal(r->got.msg.l_create.disk_bytes, 4);
    sg_tier_list(r->tier, 77, take, &a);
    assert_int_equal(hear(r), SG_MSG_L_LIST);
    assert_int_equal(r->got.msg.l_list.cursor, 77);
    sg_tier_thaw(r->tier, "s2", take, &a);
    assert_int_equal(hear(r), SG_MSG_L_THAW);
    assert_string_equal(r->got.msg.l_name.sandbox.p, "s2");
    assert_int_equal(sg_tier_waiting(r->tier), 3);
    sg_tier_free(sg_take_ptr(&r->tier));
    assert_int_equal(a.calls, 4);
}

static void the_welcome_says_which_tiers_are_missing_and_why(void **state)
{
    struct rig *r = *state;
    struct answer a = { .rig = r };
    struct sg_tier_limits l = { 0 };
    struct sg_err err;
    char empty[] = "", why[] = "no runtime is configured";
    sg_auto_buf store;
    struct sg_msg m = { .type = SG_MSG_L_WELCOME, .l_welcome.version = SG_CTL_VERSION };

    sg_buf_init(&store, 4096);
    assert_ok(sg_texts_pack((char *[]) { empty, why, NULL }, &store, &m.l_welcome.lacking, &err),
              err);
    sg_tier_hello(r->tier, 9, take, &a);
    assert_int_equal(hear(r), SG_MSG_L_HELLO);
    say(r, m, NULL, 0);
    assert_null(sg_tier_lacks(r->tier, SG_L_TIER_CELL));
    assert_string_equal(sg_tier_lacks(r->tier, SG_L_TIER_GVISOR), why);
    assert_non_null(sg_tier_lacks(r->tier, SG_L_TIER_DOCKER)); /* not told of: not there */
    char volume[] = "v1", path[] = "/data", mode[] = "ro";
    sg_tier_create(r->tier, SG_L_TIER_GVISOR, "s1", "base", &l,
                   (char *[]) { volume, path, mode, NULL }, take, &a);
    assert_int_equal(hear(r), SG_MSG_L_CREATE);
    assert_int_equal(r->got.msg.l_create.tier, SG_L_TIER_GVISOR);
    assert_int_equal(r->got.msg.l_create.mounts.count, 3);
    sg_tier_free(sg_take_ptr(&r->tier));
    assert_int_equal(a.calls, 2);
}

static void an_answer_of_another_type_is_an_error(void **state)
{
    struct rig *r = *state;
    struct answer a = { .rig = r };

    sg_tier_freeze(r->tier, "s1", take, &a);
    assert_int_equal(hear(r), SG_MSG_L_FREEZE);
    say(r, (struct sg_msg) { .type = SG_MSG_L_STATED }, NULL, 0);
    assert_int_equal(a.calls, 1);
    assert_int_equal(a.err.kind, SG_INTERNAL);
}

static void a_cell_without_its_connection_is_no_cell(void **state)
{
    struct rig *r = *state;
    struct answer a = { .rig = r };
    struct sg_text none = sg_text_of("");
    struct sg_msg m = { .type = SG_MSG_L_CELL };

    m.l_cell.template = m.l_cell.user = m.l_cell.home = m.l_cell.workdir = m.l_cell.path = none;
    sg_tier_adopt(r->tier, "s1", take, &a);
    assert_int_equal(hear(r), SG_MSG_L_ADOPT);
    say(r, m, NULL, 0);
    assert_int_equal(a.err.kind, SG_INTERNAL);
    a = (struct answer) { .rig = r };
    sg_tier_adopt(r->tier, "s1", take, &a);
    assert_int_equal(hear(r), SG_MSG_L_ADOPT);
    say(r, m, (int[]) { r->far }, 1);
    assert_int_equal(a.type, SG_MSG_L_CELL);
}

static void gauges_come_whole_or_not_at_all(void **state)
{
    struct rig *r = *state;
    struct answer a = { .rig = r };
    const struct sg_msg m = { .type = SG_MSG_L_GAUGED };

    sg_tier_gauge(r->tier, "s1", take, &a);
    assert_int_equal(hear(r), SG_MSG_L_GAUGE);
    say(r, m, (int[]) { r->far }, 1);
    assert_int_equal(a.err.kind, SG_INTERNAL);
    a = (struct answer) { .rig = r };
    sg_tier_gauge(r->tier, "s1", take, &a);
    assert_int_equal(hear(r), SG_MSG_L_GAUGE);
    say(r, m, (int[]) { r->far, r->far, r->far }, SG_L_GAUGE_COUNT);
    assert_int_equal(a.type, SG_MSG_L_GAUGED);
}

static void another_version_is_refused(void **state)
{
    struct rig *r = *state;
    struct answer a = { .rig = r };

    sg_tier_hello(r->tier, 1, take, &a);
    (void)hear(r);
    say(r,
        (struct sg_msg) { .type = SG_MSG_L_WELCOME,
                          .l_welcome = { .version = SG_CTL_VERSION + 1 } },
        NULL, 0);
    assert_int_equal(a.err.kind, SG_UNSUPPORTED);
}

static void what_is_gone_is_destroyed(void **state)
{
    struct rig *r = *state;
    struct answer a = { .rig = r }, b = { .rig = r };
    struct sg_msg m = { .type = SG_MSG_L_FAILED };

    m.error = (struct sg_msg_error) { .kind = SG_NOT_FOUND, .text = sg_text_of("none") };
    sg_tier_destroy(r->tier, "s1", take, &a);
    (void)hear(r);
    say(r, m, NULL, 0);
    assert_int_equal(a.calls, 1);
    assert_int_equal(a.err.kind, SG_OK);
    sg_tier_freeze(r->tier, "s1", take, &b);
    (void)hear(r);
    say(r, m, NULL, 0);
    assert_int_equal(b.err.kind, SG_NOT_FOUND);
}

static void only_a_window_is_with_the_launcher_and_none_is_forgotten(void **state)
{
    enum { ASKED = 1000 };
    struct rig *r = *state;
    struct answer a = { .rig = r };
    unsigned heard = 0;

    for (unsigned i = 0; i < ASKED; i++)
        sg_tier_stats(r->tier, "s1", take, &a);
    assert_int_equal(a.calls, 0);
    assert_int_equal(sg_tier_waiting(r->tier), ASKED);
    uint32_t ids[SG_TIER_WINDOW];
    for (; hear(r) != SG_MSG_NONE; heard++)
        ids[heard] = r->got.msg.id;
    assert_int_equal(heard, SG_TIER_WINDOW);
    for (unsigned i = SG_TIER_WINDOW; i-- > 0;) { /* in any order */
        r->got.msg.id = ids[i];
        say(r, (struct sg_msg) { .type = SG_MSG_L_STATED }, NULL, 0);
    }
    for (; heard < ASKED; heard++) {
        assert_int_equal(hear(r), SG_MSG_L_STATS);
        say(r, (struct sg_msg) { .type = SG_MSG_L_STATED }, NULL, 0);
    }
    assert_int_equal(a.calls, ASKED);
    assert_int_equal(a.err.kind, SG_OK);
    assert_int_equal(sg_tier_waiting(r->tier), 0);
}

static void all_are_answered_when_the_launcher_is_gone(void **state)
{
    struct rig *r = *state;
    struct answer a = { .rig = r, .asks_again = true };

    for (unsigned i = 0; i < 2 * SG_TIER_WINDOW; i++)
        sg_tier_stats(r->tier, "s1", take, &a);
    sg_drop_fd(&r->far);
    for (unsigned i = 0; i < 5; i++)
        turn(r);
    assert_int_equal(a.calls, 2 * SG_TIER_WINDOW + 1);
    assert_int_equal(a.err.kind, SG_UNAVAILABLE);
    assert_int_equal(r->lost, 1);
    unsigned before = a.calls;
    sg_tier_stats(r->tier, "s1", take, &a);
    assert_int_equal(a.calls, before); /* never from inside the call */
    turn(r);
    assert_int_equal(a.calls, before + 1);
}

static void all_are_answered_at_the_end(void **state)
{
    struct rig *r = *state;
    struct answer a = { .rig = r };

    for (unsigned i = 0; i < 2 * SG_TIER_WINDOW; i++)
        sg_tier_stats(r->tier, "s1", take, &a);
    sg_tier_free(r->tier);
    r->tier = NULL;
    assert_int_equal(a.calls, 2 * SG_TIER_WINDOW);
    assert_int_equal(a.err.kind, SG_UNAVAILABLE);
    assert_int_equal(r->lost, 0);
}

static void news_of_an_end_come_with_their_name(void **state)
{
    struct rig *r = *state;
    struct sg_msg m = { .type = SG_MSG_L_ENDED };

    m.l_ended.sandbox = sg_text_of("s7");
    say(r, m, NULL, 0);
    assert_int_equal(r->ended, 1);
    assert_string_equal(r->ended_id, "s7");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_question_says_what_it_was_told),
        TEST(the_welcome_says_which_tiers_are_missing_and_why),
        TEST(an_answer_of_another_type_is_an_error),
        TEST(a_cell_without_its_connection_is_no_cell),
        TEST(gauges_come_whole_or_not_at_all),
        TEST(another_version_is_refused),
        TEST(what_is_gone_is_destroyed),
        TEST(only_a_window_is_with_the_launcher_and_none_is_forgotten),
        TEST(all_are_answered_when_the_launcher_is_gone),
        TEST(all_are_answered_at_the_end),
        TEST(news_of_an_end_come_with_their_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
