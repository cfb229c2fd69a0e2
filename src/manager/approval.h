/* SPDX-License-Identifier: Apache-2.0 */
/* Approvals: what somebody wants to do and somebody else must agree to.
 *
 * P1. One that is pending ends once: approved, denied, expired or withdrawn. Each is in the audit
 *     record and an event.
 * P2. They outlive the daemon: who asked is told when the row is in the store, and so is who
 *     decided. Whoever waited for one asks again, naming it. The last SG_APPROVALS_KEPT stay to be
 *     looked at.
 * P3. Whoever approves needs the scope `admin`, and is not the key that asked.
 * P4. One with a subject permits that subject, once: the store knows of its use before anything is
 *     done. */
#pragma once

#include "loop/loop.h"
#include "manager/tenant.h"

struct sg_approval;

enum {
    SG_APPROVALS_KEPT = 1000,    /* of all organisations */
    SG_APPROVALS_PENDING = 256,  /* of one */
    SG_APPROVAL_TEXT_MAX = 4096, /* of a summary */
    SG_SUBJECT_LEN = 64,
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

/* `err` NULL: it is in the store. */
typedef void sg_approval_cb(void *arg, struct sg_approval *a, const struct sg_err *err);

struct sg_approval_wait { /* embedded by who waits; zeroed */
    void (*decided)(void *arg, struct sg_approval *a);
    void *arg;
    struct sg_approval *of; /* NULL: not waiting */
    struct sg_approval_wait *next;
};

struct sg_approval {
    struct sg_id id;
    struct sg_org *org;
    struct sg_manager *manager;
    enum sg_approval_state state;
    char *operation, *summary, *reason; /* owned; reason: of who decided, or NULL */
    char subject[SG_SUBJECT_LEN + 1]; /* hex SHA-256 of what would be done; "": not ours to check */
    char asker[SG_ID_LEN + 1], decider[SG_ID_LEN + 1];   /* keys; "": the operator, or nobody yet */
    int64_t created_ms, expires_ms, decided_ms, used_ms; /* 0: not yet */
    /* approval*.c's own */
    struct sg_timer clock;
    struct sg_approval_wait *waits;
    bool is_new, is_writing;       /* new: not in the store, and seen by nobody */
    enum sg_approval_state before; /* while it is written */
    sg_approval_cb *answer;        /* of what is written; NULL: nobody's */
    void *answer_arg;
    struct sg_who who;
    struct sg_approval *older, *newer;
};

struct sg_approval_spec {
    const char *operation, *summary;
    const char *subject; /* NULL: none */
    uint64_t timeout_ms;
};

/* `cb` comes later, once. SG_EXHAUSTED, SG_DENIED, SG_INVALID. It lives until it is one of too
 * many, which one that is pending or waited for never is. */
int sg_approval_ask(struct sg_manager *m, const struct sg_who *who,
                    const struct sg_approval_spec *spec, sg_approval_cb *cb, void *arg,
                    struct sg_err *err);
/* Pending, or decided and not in the store yet: it can be waited for. */
bool sg_approval_is_open(const struct sg_approval *a);
/* `decided` comes once it is not pending any more, later. */
void sg_approval_wait_for(struct sg_approval *a, struct sg_approval_wait *w,
                          void (*decided)(void *arg, struct sg_approval *a), void *arg);
void sg_approval_leave(struct sg_approval_wait *w); /* nothing where nobody waits */
/* Nothing where it was decided. */
void sg_approval_withdraw(struct sg_approval *a);
int sg_approval_decide(struct sg_approval *a, const struct sg_who *who, bool is_approved,
                       const char *reason, sg_approval_cb *cb, void *arg, struct sg_err *err);
/* Uses one that is approved. SG_CONFLICT: it is not, or was used; SG_DENIED: it is for something
 * else. */
int sg_approval_use(struct sg_approval *a, const char *subject, sg_approval_cb *cb, void *arg,
                    struct sg_err *err);
struct sg_approval *sg_approval_find(struct sg_manager *m, const struct sg_who *who, const char *id,
                                     struct sg_err *err);
/* The newest of the caller's organisation for this subject that still says something: pending,
 * approved and not used, or denied, and its time is not over. NULL: none. */
struct sg_approval *sg_approval_about(struct sg_manager *m, const struct sg_who *who,
                                      const char *subject);
/* The newest first; `after` NULL: from the beginning. */
struct sg_approval *sg_approval_next(struct sg_manager *m, const struct sg_who *who,
                                     struct sg_approval *after);

/* ---- the manager's own ---- */

int sg_approvals_load(struct sg_manager *m, struct sg_err *err);
void sg_approvals_end(struct sg_manager *m, const struct sg_err *err); /* answers who asked */
void sg_approvals_free(struct sg_manager *m);
void sg_approval_write(struct sg_approval *a, bool is_durable); /* approval_row.c */
void sg_approval_written(struct sg_approval *a, const struct sg_err *err);
void sg_approval_add(struct sg_manager *m, struct sg_approval *a);
void sg_approval_arm(struct sg_approval *a); /* its time runs */
