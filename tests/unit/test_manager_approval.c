/* SPDX-License-Identifier: Apache-2.0 */
/* Approvals: told when they are in the store, decided once, used once, and there after a restart;
 * and the tool calls that wait for them. */
#include "manager_rig.h"

#include "base/jsonr.h"
#include "manager/approval.h"
#include "manager/intercept.h"
#include "base/banned.h"

static const char subject[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

struct heard {
    unsigned calls;
    struct sg_approval *a;
    struct sg_err err;
};

static void hear(void *arg, struct sg_approval *a, const struct sg_err *err)
{
    struct heard *h = arg;
    h->calls++;
    h->a = a;
    if (err)
        h->err = *err;
}

static void hear_end(void *arg, struct sg_approval *a)
{
    hear(arg, a, NULL);
}

static struct sg_approval *ask(struct rig *r, const char *about, uint64_t ms)
{
    const struct sg_approval_spec spec = { "deploy", "v2", about, ms };
    struct heard h = { 0 };
    struct sg_err err;
    assert_ok(sg_approval_ask(r->m, &r->who, &spec, hear, &h, &err), err);
    assert_int_equal(h.calls, 0);
    assert_null(sg_approval_next(r->m, &r->who, NULL)); /* seen when it is stored */
    rig_until(r, h.calls);
    assert_non_null(h.a);
    return h.a;
}

static void decide(struct rig *r, struct sg_approval *a, bool is_approved)
{
    struct heard h = { 0 };
    struct sg_err err;
    assert_ok(sg_approval_decide(a, &r->who, is_approved, "because", hear, &h, &err), err);
    assert_true(sg_approval_is_open(a));
    rig_until(r, h.calls);
    assert_ptr_equal(h.a, a);
}

static void one_is_decided_once_and_all_who_wait_are_told(void **state)
{
    struct rig *r = *state;
    struct sg_approval *a = ask(r, NULL, 60000);
    struct sg_approval_wait waits[3] = { 0 };
    struct heard heard[3] = { 0 };
    struct sg_err err = { 0 };
    for (unsigned i = 0; i < 3; i++)
        sg_approval_wait_for(a, &waits[i], hear_end, &heard[i]);
    sg_approval_leave(&waits[1]);
    sg_approval_leave(&waits[1]);
    decide(r, a, true);
    assert_int_equal(a->state, SG_APPROVAL_APPROVED);
    assert_string_equal(a->decider, "operator");
    assert_int_equal(heard[0].calls + heard[2].calls, 2);
    assert_int_equal(heard[1].calls, 0);
    assert_int_equal(sg_approval_decide(a, &r->who, false, NULL, hear, &heard[0], &err), -1);
    assert_int_equal(err.kind, SG_CONFLICT);
}

static void who_asks_does_not_decide_and_needs_the_scope(void **state)
{
    struct rig *r = *state;
    struct sg_approval *a = ask(r, NULL, 60000);
    struct sg_key key = { .org = r->who.org, .scopes = SG_SCOPE_ALL };
    const struct sg_who asker = { .org = r->who.org, .key = &key, .scopes = SG_SCOPE_ALL };
    const struct sg_who reader = { .org = r->who.org, .scopes = SG_SCOPE_READ };
    struct heard h = { 0 };
    struct sg_err err = { 0 };
    (void)snprintf(key.id.s, sizeof key.id.s, "k0000000000000000000");
    memcpy(a->asker, key.id.s, sizeof a->asker);
    assert_fails(sg_approval_decide(a, &asker, true, NULL, hear, &h, &err), err, SG_DENIED);
    assert_fails(sg_approval_decide(a, &reader, true, NULL, hear, &h, &err), err, SG_DENIED);
    assert_int_equal(a->state, SG_APPROVAL_PENDING);
    a->asker[0] = '\0';
}

static void time_and_a_withdrawal_end_it(void **state)
{
    struct rig *r = *state;
    struct sg_approval *a = ask(r, NULL, 50);
    struct sg_approval_wait wait = { 0 };
    struct heard h = { 0 };
    sg_approval_wait_for(a, &wait, hear_end, &h);
    rig_in_time(r, h.calls);
    assert_int_equal(a->state, SG_APPROVAL_EXPIRED);
    rig_flush(r);
    const struct sg_approval_spec spec = { "deploy", "v3", NULL, 60000 };
    struct sg_err err;
    h = (struct heard) { 0 };
    assert_ok(sg_approval_ask(r->m, &r->who, &spec, hear, &h, &err), err);
    rig_until(r, h.calls);
    sg_approval_withdraw(h.a);
    assert_int_equal(h.a->state, SG_APPROVAL_WITHDRAWN);
    sg_approval_withdraw(h.a);
}

static void one_is_for_its_subject_and_used_once(void **state)
{
    struct rig *r = *state;
    struct sg_approval *a = ask(r, subject, 60000);
    struct heard h = { 0 };
    struct sg_err err = { 0 };
    assert_ptr_equal(sg_approval_about(r->m, &r->who, subject), a);
    assert_fails(sg_approval_use(a, subject, hear, &h, &err), err, SG_CONFLICT);
    decide(r, a, true);
    assert_fails(sg_approval_use(a, "other", hear, &h, &err), err, SG_DENIED);
    assert_ok(sg_approval_use(a, subject, hear, &h, &err), err);
    assert_fails(sg_approval_use(a, subject, hear, &h, &err), err, SG_CONFLICT);
    rig_until(r, h.calls);
    assert_ptr_equal(h.a, a);
    assert_null(sg_approval_about(r->m, &r->who, subject));
}

static void what_was_told_is_there_after_a_restart(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    struct heard h = { 0 };
    char first[SG_ID_LEN + 1], second[SG_ID_LEN + 1];
    struct sg_approval *a = ask(r, subject, 60000);
    memcpy(first, a->id.s, sizeof first);
    rig_stop_manager(r);
    rig_start_manager(r);
    a = sg_approval_find(r->m, &r->who, first, &err);
    assert_non_null(a);
    assert_int_equal(a->state, SG_APPROVAL_PENDING);
    assert_string_equal(a->subject, subject);
    decide(r, a, true);
    const struct sg_approval_spec spec = { "deploy", "short", NULL, 1 };
    assert_ok(sg_approval_ask(r->m, &r->who, &spec, hear, &h, &err), err);
    rig_until(r, h.calls);
    memcpy(second, h.a->id.s, sizeof second);
    rig_stop_manager(r);
    rig_start_manager(r);
    a = sg_approval_find(r->m, &r->who, first, &err);
    assert_int_equal(a->state, SG_APPROVAL_APPROVED);
    assert_string_equal(a->reason, "because");
    a = sg_approval_find(r->m, &r->who, second, &err);
    rig_in_time(r, a->state == SG_APPROVAL_EXPIRED);
}

static void what_is_not_stored_when_the_service_ends_is_told_so(void **state)
{
    struct rig *r = *state;
    const struct sg_approval_spec spec = { "deploy", "v2", NULL, 60000 };
    struct heard h = { 0 };
    struct sg_err err;
    assert_ok(sg_approval_ask(r->m, &r->who, &spec, hear, &h, &err), err);
    rig_stop_manager(r);
    assert_int_equal(h.calls, 1);
    assert_int_equal(h.err.kind, SG_UNAVAILABLE);
    rig_start_manager(r);
}

static void bounds_hold(void **state)
{
    struct rig *r = *state;
    static char much[SG_APPROVAL_TEXT_MAX + 2];
    memset(much, 'a', sizeof much - 1);
    const struct sg_approval_spec bad[] = { { "", "", NULL, 1 },
                                            { "x", much, NULL, 1 },
                                            { "x", "", NULL, 0 },
                                            { "x", "", NULL, 604800001 } };
    struct heard h = { 0 };
    struct sg_err err = { 0 };
    for (size_t i = 0; i < SG_COUNT(bad); i++)
        assert_fails(sg_approval_ask(r->m, &r->who, &bad[i], hear, &h, &err), err, SG_INVALID);
    const struct sg_approval_spec spec = { "x", "", NULL, 60000 };
    for (unsigned i = 0; i < SG_APPROVALS_PENDING; i++)
        assert_ok(sg_approval_ask(r->m, &r->who, &spec, hear, &h, &err), err);
    assert_fails(sg_approval_ask(r->m, &r->who, &spec, hear, &h, &err), err, SG_EXHAUSTED);
    rig_until(r, h.calls == SG_APPROVALS_PENDING);
}

/* ---- tool calls ---- */

struct judged {
    unsigned calls;
    enum sg_intercept_action action;
    char sandbox[SG_ID_LEN + 1], approval[SG_ID_LEN + 1], path[256], cwd[256], reason[256];
    struct sg_err err;
};

static void judged(void *arg, const struct sg_intercept_result *i, const struct sg_err *err)
{
    struct judged *j = arg;
    j->calls++;
    if (err) {
        j->err = *err;
        return;
    }
    j->action = i->action;
    (void)snprintf(j->sandbox, sizeof j->sandbox, "%s", i->sandbox ? i->sandbox->id.s : "");
    (void)snprintf(j->approval, sizeof j->approval, "%s", i->approval ? i->approval->id.s : "");
    (void)snprintf(j->path, sizeof j->path, "%.255s", i->path);
    (void)snprintf(j->cwd, sizeof j->cwd, "%.255s", i->cwd);
    (void)snprintf(j->reason, sizeof j->reason, "%.255s", i->reason);
}

static struct judged judge(struct rig *r, const char *tool, const char *cwd, const char *input)
{
    struct judged j = { 0 };
    struct sg_err err = { 0 };
    sg_auto_arena a;
    const struct sg_jval *v;
    sg_arena_init(&a, 1 << 20);
    assert_ok(sg_json_parse(sg_str_of(input), &a, &v, &err), err);
    const struct sg_intercept_spec spec = {
        .tool = tool, .cwd = cwd, .session = "s-1", .input = v
    };
    assert_ok(sg_intercept_ask(r->m, &r->who, &spec, judged, &j, &err), err);
    rig_until(r, j.calls);
    return j;
}

static void a_session_has_one_sandbox_also_after_a_restart(void **state)
{
    struct rig *r = *state;
    struct judged one = judge(r, "Bash", "/home/u/p", "{\"command\":\"ls\"}");
    assert_int_equal(one.action, SG_INTERCEPT_SANDBOX);
    assert_string_equal(one.cwd, "/workspace");
    struct judged two = judge(r, "Read", "/home/u/p/sub", "{\"file_path\":\"../x\"}");
    assert_string_equal(two.sandbox, one.sandbox);
    assert_string_equal(two.cwd, "/workspace/sub");
    assert_string_equal(two.path, "/workspace/x");
    rig_stop_manager(r);
    rig_start_manager(r);
    two = judge(r, "Read", "/home/u/p", "{\"file_path\":\"/etc/passwd\"}");
    assert_string_equal(two.sandbox, one.sandbox);
    assert_string_equal(two.path, "/etc/passwd");
    assert_int_equal(r->cell_count, 1);
}

static void an_approved_call_passes_once(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    struct judged one = judge(r, "mcp__x", "/", "{\"a\":1}");
    assert_int_equal(one.action, SG_INTERCEPT_APPROVE);
    struct judged again = judge(r, "mcp__x", "/", "{\"a\":1}");
    assert_string_equal(again.approval, one.approval);
    struct judged other = judge(r, "mcp__x", "/", "{\"a\":2}");
    assert_string_not_equal(other.approval, one.approval);
    decide(r, sg_approval_find(r->m, &r->who, one.approval, &err), true);
    decide(r, sg_approval_find(r->m, &r->who, other.approval, &err), false);
    assert_int_equal(judge(r, "mcp__x", "/", "{\"a\":1}").action, SG_INTERCEPT_ALLOW);
    again = judge(r, "mcp__x", "/", "{\"a\":1}");
    assert_int_equal(again.action, SG_INTERCEPT_APPROVE);
    assert_string_not_equal(again.approval, one.approval);
    other = judge(r, "mcp__x", "/", "{\"a\":2}");
    assert_int_equal(other.action, SG_INTERCEPT_BLOCK);
    assert_non_null(strstr(other.reason, "because"));
}

static void a_sandbox_that_cannot_be_made_is_an_error(void **state)
{
    struct rig *r = *state;
    r->fails[SG_MSG_L_CREATE] = 1;
    const struct judged j = judge(r, "Bash", "/", "{\"command\":\"ls\"}");
    assert_int_equal(j.err.kind, SG_UNAVAILABLE);
    assert_int_equal(judge(r, "Bash", "/", "{\"command\":\"ls\"}").action, SG_INTERCEPT_SANDBOX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(one_is_decided_once_and_all_who_wait_are_told),
        RIG_TEST(who_asks_does_not_decide_and_needs_the_scope),
        RIG_TEST(time_and_a_withdrawal_end_it),
        RIG_TEST(one_is_for_its_subject_and_used_once),
        RIG_TEST(what_was_told_is_there_after_a_restart),
        RIG_TEST(what_is_not_stored_when_the_service_ends_is_told_so),
        RIG_TEST(bounds_hold),
        RIG_TEST(a_session_has_one_sandbox_also_after_a_restart),
        RIG_TEST(an_approved_call_passes_once),
        RIG_TEST(a_sandbox_that_cannot_be_made_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
