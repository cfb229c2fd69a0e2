/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/approval.h"

#include <string.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "base/banned.h"

enum { TIMEOUT_MS = 300000, LIST_MAX = 1000 };
#define WEEK_MS 604800000u

static void put(struct sg_json *j, const struct sg_approval *a)
{
    sg_json_open(j, '{');
    sg_rest_put_text(j, "id", a->id.s);
    sg_rest_put_text(j, "org", a->org->id.s);
    sg_rest_put_text(j, "state", sg_approval_state_names[a->state]);
    sg_rest_put_text(j, "operation", a->operation);
    sg_rest_put_text(j, "summary", a->summary);
    sg_rest_put_text(j, "askedBy", a->asker);
    sg_rest_put_text(j, "decidedBy", a->decider);
    sg_rest_put_text(j, "reason", a->reason);
    sg_rest_put_time(j, "createdAt", a->created_ms);
    sg_rest_put_time(j, "expiresAt", a->expires_ms);
    sg_rest_put_time(j, "decidedAt", a->decided_ms);
    sg_rest_put_time(j, "usedAt", a->used_ms);
    sg_json_close(j, '}');
}

static int reply(struct sg_call *c, int status, const struct sg_approval *a)
{
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    put(&j, a);
    sg_reply_json(c, status, &out);
    return 0;
}

static struct sg_approval *find(struct sg_call *c, struct sg_err *err)
{
    return sg_approval_find(c->manager, &c->who, sg_call_param(c, "approval"), err);
}

int sg_rest_approval_list(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "state", NULL };
    const char *state = sg_call_query(c, "state");
    if (sg_call_query_only(c, known, err) < 0 ||
        (state && sg_router_word(sg_approval_state_names, SG_APPROVAL_STATE_COUNT, "state",
                                 sg_str_of(state), err) < 0))
        return -1;
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "approvals");
    for (struct sg_approval *a = NULL; (a = sg_approval_next(c->manager, &c->who, a));)
        if (!state || strcmp(state, sg_approval_state_names[a->state]) == 0)
            put(&j, a);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

/* ---- one, perhaps when it is decided ---- */

static int wait_for(struct sg_call *c, struct sg_approval *a, struct sg_err *err);

int sg_rest_approval_get(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "wait", NULL };
    bool waits = false;
    if (sg_call_query_only(c, known, err) < 0 || sg_call_query_bool(c, "wait", &waits, err) < 0)
        return -1;
    struct sg_approval *a = find(c, err);
    if (!a)
        return -1;
    return waits && sg_approval_is_open(a) ? wait_for(c, a, err) : reply(c, 200, a);
}

struct waiter {
    struct sg_call *call;
    struct sg_approval_wait wait;
};

static void decided(void *arg, struct sg_approval *a)
{
    struct waiter *w = arg;
    w->call->on_gone = NULL;
    (void)reply(w->call, 200, a);
}

/* The approval stays for whoever asks again. */
static void gone(struct sg_call *c)
{
    struct waiter *w = c->state;
    c->on_gone = NULL;
    sg_approval_leave(&w->wait);
    sg_reply_empty(c, 204);
}

static int wait_for(struct sg_call *c, struct sg_approval *a, struct sg_err *err)
{
    struct waiter *w = sg_arena_alloc(&c->arena, sizeof *w);
    if (!w)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    w->call = c;
    sg_approval_wait_for(a, &w->wait, decided, w);
    c->state = w;
    c->on_gone = gone;
    return 0;
}

/* ---- asking and deciding: answered when it is in the store ---- */

static void asked(void *arg, struct sg_approval *a, const struct sg_err *err)
{
    if (a)
        (void)reply(arg, 201, a);
    else
        sg_reply_error(arg, err);
}

static void settled(void *arg, struct sg_approval *a, const struct sg_err *err)
{
    if (a)
        (void)reply(arg, 200, a);
    else
        sg_reply_error(arg, err);
}

int sg_rest_approval_ask(struct sg_call *c, struct sg_err *err)
{
    struct sg_approval_spec in = { .summary = "", .timeout_ms = TIMEOUT_MS };
    static const struct sg_jfield fields[] = {
        { "operation", SG_JT_STRING, offsetof(struct sg_approval_spec, operation), 0, 0, true },
        { "summary", SG_JT_STRING, offsetof(struct sg_approval_spec, summary), 0, 0, false },
        { "timeoutMs", SG_JT_U64, offsetof(struct sg_approval_spec, timeout_ms), 1, WEEK_MS,
          false },
    };
    const struct sg_jval *body;
    if (sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, SG_COUNT(fields), &in, err) < 0)
        return -1;
    return sg_approval_ask(c->manager, &c->who, &in, asked, c, err);
}

static int decide(struct sg_call *c, bool is_approved, struct sg_err *err)
{
    const char *reason = NULL;
    static const struct sg_jfield fields[] = { { "reason", SG_JT_STRING, 0, 0, 0, false } };
    const struct sg_jval *body;
    struct sg_approval *a = find(c, err);
    if (!a || sg_call_json(c, &body, err) < 0 || sg_json_read(body, fields, 1, &reason, err) < 0)
        return -1;
    return sg_approval_decide(a, &c->who, is_approved, reason, settled, c, err);
}

int sg_rest_approval_approve(struct sg_call *c, struct sg_err *err)
{
    return decide(c, true, err);
}

int sg_rest_approval_deny(struct sg_call *c, struct sg_err *err)
{
    return decide(c, false, err);
}
