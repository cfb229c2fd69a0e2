/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/approval.h"

#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "manager/life.h"
#include "store/store.h"

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

static void tell(struct sg_approval *a, const struct sg_who *who, const char *type)
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
    sg_events_add(a->manager, a->org, NULL, type, sg_buf_cstr(&data));
    sg_manager_audit_of(a->manager, who, a->org, type, sg_buf_cstr(&data));
}

/* ---- who waits ---- */

bool sg_approval_is_open(const struct sg_approval *a)
{
    return a->state == SG_APPROVAL_PENDING || a->is_writing;
}

void sg_approval_wait_for(struct sg_approval *a, struct sg_approval_wait *w,
                          void (*decided)(void *arg, struct sg_approval *a), void *arg)
{
    *w = (struct sg_approval_wait) { decided, arg, a, a->waits };
    a->waits = w;
}

void sg_approval_leave(struct sg_approval_wait *w)
{
    if (!w->of)
        return;
    struct sg_approval_wait **link = &w->of->waits;
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    w->of = NULL;
}

static void wake(struct sg_approval *a)
{
    for (struct sg_approval_wait *w; (w = a->waits);) {
        sg_approval_leave(w);
        w->decided(w->arg, a);
    }
}

/* ---- its ends ---- */

/* One that nobody decided: what is not in the store yet ends there at the next start. */
static void settle(struct sg_approval *a, enum sg_approval_state state)
{
    sg_timer_stop(a->manager->loop, &a->clock);
    a->state = a->before = state;
    a->decided_ms = sg_manager_unix_ms();
    sg_approval_write(a, false);
    tell(a, NULL, event_types[state]);
    wake(a);
}

static void expire(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    settle(SG_OWNER(t, struct sg_approval, clock), SG_APPROVAL_EXPIRED);
}

void sg_approval_arm(struct sg_approval *a)
{
    const int64_t left_ms = a->expires_ms - sg_manager_unix_ms();

    a->clock.fire = expire;
    sg_timer_set(a->manager->loop, &a->clock,
                 sg_loop_now(a->manager->loop) + (left_ms > 0 ? (uint64_t)left_ms : 0) * NS_PER_MS);
}

void sg_approval_withdraw(struct sg_approval *a)
{
    if (a->state == SG_APPROVAL_PENDING && !a->is_writing)
        settle(a, SG_APPROVAL_WITHDRAWN);
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

void sg_approval_add(struct sg_manager *m, struct sg_approval *a)
{
    a->older = m->approvals;
    *(a->older ? &a->older->newer : &m->oldest_approval) = a;
    m->approvals = a;
    m->approval_count++;
}

void sg_approvals_end(struct sg_manager *m, const struct sg_err *err)
{
    for (struct sg_approval *a = m->approvals; a; a = a->older) {
        sg_approval_cb *answer = sg_take_ptr(&a->answer);
        if (answer)
            answer(a->answer_arg, NULL, err);
    }
}

void sg_approvals_free(struct sg_manager *m)
{
    while (m->approvals)
        drop(m, m->approvals);
}

/* The oldest that is decided. Pending ones are few by their own bound. */
static void make_room(struct sg_manager *m)
{
    struct sg_approval *a = m->oldest_approval;

    while (a && (a->state == SG_APPROVAL_PENDING || a->is_writing))
        a = a->newer;
    if (!a || m->approval_count < SG_APPROVALS_KEPT)
        return;
    sg_store_remove_approval(m->store, a->id.s);
    drop(m, a);
}

static unsigned pending(const struct sg_manager *m, const struct sg_org *org)
{
    unsigned n = 0;

    for (const struct sg_approval *a = m->approvals; a; a = a->older)
        n += a->org == org && a->state == SG_APPROVAL_PENDING;
    return n;
}

static bool may_see(const struct sg_approval *a, const struct sg_who *who)
{
    return (who->is_operator || a->org == who->org) && !a->is_new;
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

struct sg_approval *sg_approval_about(struct sg_manager *m, const struct sg_who *who,
                                      const char *subject)
{
    const int64_t now_ms = sg_manager_unix_ms();

    for (struct sg_approval *a = m->approvals; a; a = a->older)
        if (a->org == who->org && !a->is_new && strcmp(a->subject, subject) == 0)
            return a->state <= SG_APPROVAL_DENIED && !a->used_ms && a->expires_ms > now_ms ? a
                                                                                           : NULL;
    return NULL;
}

/* ---- one change at a time, and the store's word on it ---- */

/* What failed leaves it as it was. */
static void take_back(struct sg_approval *a)
{
    a->state = a->before;
    a->used_ms = 0;
    if (a->state != SG_APPROVAL_PENDING)
        return;
    a->decided_ms = 0;
    a->decider[0] = '\0';
    free(a->reason);
    a->reason = NULL;
    sg_approval_arm(a);
}

void sg_approval_written(struct sg_approval *a, const struct sg_err *err)
{
    sg_approval_cb *answer = sg_take_ptr(&a->answer);
    const bool was_new = a->is_new, was_decided = a->state != a->before;

    a->is_writing = false;
    if (err && (was_new || answer)) {
        if (!was_new)
            take_back(a);
        if (answer)
            answer(a->answer_arg, NULL, err);
        if (was_new)
            drop(a->manager, a);
        return;
    }
    a->is_new = false;
    a->before = a->state;
    if (was_new)
        sg_approval_arm(a);
    if (was_new || was_decided)
        tell(a, &a->who, event_types[a->state]);
    if (answer)
        answer(a->answer_arg, a, NULL);
    if (a->state != SG_APPROVAL_PENDING)
        wake(a);
}

static void change(struct sg_approval *a, const struct sg_who *who, bool is_durable,
                   sg_approval_cb *cb, void *arg)
{
    if (who)
        a->who = *who;
    a->answer = cb;
    a->answer_arg = arg;
    sg_approval_write(a, is_durable);
}

static int check(const struct sg_approval_spec *spec, struct sg_err *err)
{
    if (!*spec->operation || strlen(spec->operation) > 64 ||
        strlen(spec->summary) > SG_APPROVAL_TEXT_MAX || spec->timeout_ms == 0 ||
        spec->timeout_ms > LONGEST_MS)
        return sg_fail(err, SG_INVALID,
                       "an approval has a name of 1 to 64 bytes, a summary of at most %d, and "
                       "ends within a week",
                       SG_APPROVAL_TEXT_MAX);
    return 0;
}

int sg_approval_ask(struct sg_manager *m, const struct sg_who *who,
                    const struct sg_approval_spec *spec, sg_approval_cb *cb, void *arg,
                    struct sg_err *err)
{
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0 || check(spec, err) < 0)
        return -1;
    if (pending(m, who->org) >= SG_APPROVALS_PENDING)
        return sg_fail(err, SG_EXHAUSTED, "%d approvals are pending already", SG_APPROVALS_PENDING);
    make_room(m);
    struct sg_approval *a = sg_new(struct sg_approval);
    *a = (struct sg_approval) {
        .id = sg_id_new('a'), .org = who->org, .manager = m, .is_new = true
    };
    a->operation = sg_strdup(spec->operation);
    a->summary = sg_strdup(spec->summary);
    (void)snprintf(a->subject, sizeof a->subject, "%s", spec->subject ? spec->subject : "");
    (void)snprintf(a->asker, sizeof a->asker, "%s", who->key ? who->key->id.s : "");
    a->created_ms = sg_manager_unix_ms();
    a->expires_ms = a->created_ms + (int64_t)spec->timeout_ms;
    sg_approval_add(m, a);
    change(a, who, false, cb, arg);
    return 0;
}

int sg_approval_decide(struct sg_approval *a, const struct sg_who *who, bool is_approved,
                       const char *reason, sg_approval_cb *cb, void *arg, struct sg_err *err)
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
    sg_timer_stop(a->manager->loop, &a->clock);
    a->reason = reason && *reason ? sg_strdup(reason) : NULL;
    (void)snprintf(a->decider, sizeof a->decider, "%s", who->key ? who->key->id.s : "operator");
    a->before = SG_APPROVAL_PENDING;
    a->state = is_approved ? SG_APPROVAL_APPROVED : SG_APPROVAL_DENIED;
    a->decided_ms = sg_manager_unix_ms();
    change(a, who, true, cb, arg);
    return 0;
}

int sg_approval_use(struct sg_approval *a, const char *subject, sg_approval_cb *cb, void *arg,
                    struct sg_err *err)
{
    if (strcmp(a->subject, subject) != 0)
        return sg_fail(err, SG_DENIED, "approval %s is for something else", a->id.s);
    if (a->state != SG_APPROVAL_APPROVED || a->is_writing)
        return sg_fail(err, SG_CONFLICT, "approval %s is %s", a->id.s,
                       sg_approval_state_names[a->is_writing ? a->before : a->state]);
    if (a->used_ms)
        return sg_fail(err, SG_CONFLICT, "approval %s was used already", a->id.s);
    a->used_ms = sg_manager_unix_ms();
    a->before = a->state;
    change(a, NULL, false, cb, arg);
    return 0;
}
