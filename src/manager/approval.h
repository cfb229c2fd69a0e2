/* SPDX-License-Identifier: Apache-2.0 */
/* Approvals: what somebody wants to do and somebody else must agree to.
 *
 * P1. One that is pending ends once: approved, denied, expired or withdrawn. Each is in the audit
 *     record and an event.
 * P2. They live in memory: who waits for one is a call, and a call does not outlive the daemon. The
 *     last SG_APPROVALS_KEPT stay to be looked at.
 * P3. Whoever approves needs the scope `admin`, and is not the key that asked. */
#pragma once

#include "loop/loop.h"
#include "manager/tenant.h"

enum {
    SG_APPROVALS_KEPT = 1000,    /* of all organisations */
    SG_APPROVALS_PENDING = 256,  /* of one */
    SG_APPROVAL_TEXT_MAX = 4096, /* of a summary */
};
enum sg_approval_state {
    SG_APPROVAL_PENDING,
    SG_APPROVAL_APPROVED,
    SG_APPROVAL_DENIED,
    SG_APPROVAL_EXPIRED,
    SG_APPROVAL_WITHDRAWN,
    SG_APPROVAL_STATE_COUNT,
};
extern const char *const sg_approval_state_names[SG_APPROVAL_STATE_COUNT];

typedef void sg_approval_cb(void *arg, enum sg_approval_state state);

struct sg_approval {
    struct sg_id id;
    struct sg_org *org;
    struct sg_manager *manager;
    enum sg_approval_state state;
    char *operation, *summary, *reason;                /* owned; reason: of who decided, or NULL */
    char asker[SG_ID_LEN + 1], decider[SG_ID_LEN + 1]; /* keys; "": the operator, or nobody yet */
    int64_t created_ms, expires_ms, decided_ms;
    /* approval.c's own */
    struct sg_timer clock;
    sg_approval_cb *cb; /* NULL: nobody waits */
    void *arg;
    struct sg_approval *older, *newer;
};

/* `cb` may be NULL; else it is called once, later, unless it is withdrawn. Returns NULL:
 * SG_EXHAUSTED, SG_DENIED, SG_INVALID. It lives until it is one of too many. */
struct sg_approval *sg_approval_ask(struct sg_manager *m, const struct sg_who *who,
                                    const char *operation, const char *summary, uint64_t timeout_ms,
                                    sg_approval_cb *cb, void *arg, struct sg_err *err);
/* Whoever waited waits no more. Nothing where it was decided. */
void sg_approval_withdraw(struct sg_approval *a);
int sg_approval_decide(struct sg_approval *a, const struct sg_who *who, bool is_approved,
                       const char *reason, struct sg_err *err);
struct sg_approval *sg_approval_find(struct sg_manager *m, const struct sg_who *who, const char *id,
                                     struct sg_err *err);
/* The newest first; `after` NULL: from the beginning. */
struct sg_approval *sg_approval_next(struct sg_manager *m, const struct sg_who *who,
                                     struct sg_approval *after);
