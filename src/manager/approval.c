/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/approval.h"

#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "manager/life.h"

#include "base/banned.h"

#define NS_PER_MS  1000000u
#define LONGEST_MS 604800000u /* a week */

const char *const sg_approval_state_names[SG_APPROVAL_STATE_COUNT] = {
    "pending", "approved", "denied", "expired", "withdrawn",
};
static const char *const event_types[SG_APPROVAL_STATE_COUNT] = {
    "approval.requested", "approval.approved",  "approval.denied",
    "approval.expired",   "approval.withdrawn",
};

static void tell(struct sg_approval *a, const struct sg_who *who)
{
    sg_auto_buf data;
    struct sg_json j;

    sg_buf_init(&data, 32 << 10);
    sg_json_init(&j, &data);
    sg_json_open(&j, '{');
    sg_json_key(&j, "approval");
    sg_json_str(&j, a->id.s);
    sg_json_key(&j, "operation");
    sg_json_str(&j, a->operation);
    sg_json_key(&j, "summary");
    sg_json_str(&j, a->summary);
    if (a->reason) {
        sg_json_key(&j, "reason");
        sg_json_str(&j, a->reason);
    }
    sg_json_close(&j, '}');
    sg_events_add(a->manager, a->org, NULL, event_types[a->state], sg_buf_cstr(&data));
    sg_manager_audit_of(a->manager, who, a->org, event_types[a->state], sg_buf_cstr(&data));
}

static void settle(struct sg_approval *a, enum sg_approval_state state, const struct sg_who *who)
{
    sg_approval_cb *cb = sg_take_ptr(&a->cb);

    sg_timer_stop(a->manager->loop, &a->clock);
    a->state = state;
    a->decided_ms = sg_manager_unix_ms();
    tell(a, who);
    if (cb)
        cb(a->arg, state);
}

static void expire(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    settle(SG_OWNER(t, struct sg_approval, clock), SG_APPROVAL_EXPIRED, NULL);
}

void sg_approval_withdraw(struct sg_approval *a)
{
    a->cb = NULL;
    if (a->state == SG_APPROVAL_PENDING)
        settle(a, SG_APPROVAL_WITHDRAWN, NULL);
}

/* ---- the list ---- */

static void drop(struct sg_manager *m, struct sg_approval *a)
{
    *(a->newer ? &a->newer->older : &m->approvals) = a->older;
    *(a->older ? &a->older->newer : &m->oldest_approval) = a->newer;
    m->approval_count--;
    sg_timer_stop(m->loop, &a->clock);
    free(a->operation);
    free(a->summary);
    free(a->reason);
    free(a);
}

void sg_approvals_free(struct sg_manager *m)
{
    for (struct sg_approval *a = m->approvals, *older; a; a = older) {
        older = a->older;
        drop(m, a);
    }
}

/* The oldest that is decided. Pending ones are few by their own bound. */
static void make_room(struct sg_manager *m)
{
    struct sg_approval *a = m->oldest_approval;

    while (a && a->state == SG_APPROVAL_PENDING)
        a = a->newer;
    if (a && m->approval_count >= SG_APPROVALS_KEPT)
        drop(m, a);
}

static unsigned pending(const struct sg_manager *m, const struct sg_org *org)
{
    unsigned n = 0;

    for (const struct sg_approval *a = m->approvals; a; a = a->older)
        n += a->org == org && a->state == SG_APPROVAL_PENDING;
    return n;
}

struct sg_approval *sg_approval_ask(struct sg_manager *m, const struct sg_who *who,
                                    const char *operation, const char *summary, uint64_t timeout_ms,
                                    sg_approval_cb *cb, void *arg, struct sg_err *err)
{
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return NULL;
    if (!*operation || strlen(operation) > 64 || strlen(summary) > SG_APPROVAL_TEXT_MAX ||
        timeout_ms == 0 || timeout_ms > LONGEST_MS) {
        (void)sg_fail(err, SG_INVALID,
                      "an approval has a name of 1 to 64 bytes, a summary of at most %d, and ends "
                      "within a week",
                      SG_APPROVAL_TEXT_MAX);
        return NULL;
    }
    if (pending(m, who->org) >= SG_APPROVALS_PENDING) {
        (void)sg_fail(err, SG_EXHAUSTED, "%d approvals are pending already", SG_APPROVALS_PENDING);
        return NULL;
    }
    make_room(m);
    struct sg_approval *a = sg_new(struct sg_approval);
    *a = (struct sg_approval) { .id = sg_id_new('a'), .org = who->org, .manager = m };
    a->operation = sg_strdup(operation);
    a->summary = sg_strdup(summary);
    (void)snprintf(a->asker, sizeof a->asker, "%s", who->key ? who->key->id.s : "");
    a->created_ms = sg_manager_unix_ms();
    a->expires_ms = a->created_ms + (int64_t)timeout_ms;
    a->cb = cb;
    a->arg = arg;
    a->clock.fire = expire;
    sg_timer_set(m->loop, &a->clock, sg_loop_now(m->loop) + timeout_ms * NS_PER_MS);
    a->older = m->approvals;
    *(a->older ? &a->older->newer : &m->oldest_approval) = a;
    m->approvals = a;
    m->approval_count++;
    tell(a, who);
    return a;
}

static bool may_see(const struct sg_approval *a, const struct sg_who *who)
{
    return who->is_operator || a->org == who->org;
}

struct sg_approval *sg_approval_find(struct sg_manager *m, const struct sg_who *who, const char *id,
                                     struct sg_err *err)
{
    for (struct sg_approval *a = m->approvals; a; a = a->older)
        if (strcmp(a->id.s, id) == 0 && may_see(a, who))
            return a;
    (void)sg_fail(err, SG_NOT_FOUND, "no approval %s", sg_quote(id).s);
    return NULL;
}

struct sg_approval *sg_approval_next(struct sg_manager *m, const struct sg_who *who,
                                     struct sg_approval *after)
{
    struct sg_approval *a = after ? after->older : m->approvals;

    while (a && !may_see(a, who))
        a = a->older;
    return a;
}

int sg_approval_decide(struct sg_approval *a, const struct sg_who *who, bool is_approved,
                       const char *reason, struct sg_err *err)
{
    if (sg_tenant_demand(who, SG_SCOPE_ADMIN, err) < 0)
        return sg_manager_denied(a->manager, who, "approval.decide", NULL, err);
    if (who->key && strcmp(who->key->id.s, a->asker) == 0) {
        (void)sg_fail(err, SG_DENIED, "who asks for an approval cannot give it");
        return sg_manager_denied(a->manager, who, "approval.decide", NULL, err);
    }
    if (a->state != SG_APPROVAL_PENDING)
        return sg_fail(err, SG_CONFLICT, "the approval is %s already",
                       sg_approval_state_names[a->state]);
    if (reason && strlen(reason) > SG_APPROVAL_TEXT_MAX)
        return sg_fail(err, SG_INVALID, "a reason has at most %d bytes", SG_APPROVAL_TEXT_MAX);
    a->reason = reason && *reason ? sg_strdup(reason) : NULL;
    (void)snprintf(a->decider, sizeof a->decider, "%s", who->key ? who->key->id.s : "operator");
    settle(a, is_approved ? SG_APPROVAL_APPROVED : SG_APPROVAL_DENIED, who);
    return 0;
}
