/* SPDX-License-Identifier: Apache-2.0 */
/* Organisations, their keys and quotas; and who is calling. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/map.h"
#include "meter/price.h"
#include "meter/span.h"

struct sg_manager;

enum sg_scope { SG_SCOPE_READ = 1, SG_SCOPE_EXEC = 2, SG_SCOPE_ADMIN = 4, SG_SCOPE_ALL = 7 };

struct sg_quota { /* 0: no limit */
    uint64_t sandboxes, mem_bytes, cpu_milli, disk_bytes, creates_per_s;
};

enum sg_period { SG_PERIOD_DAY, SG_PERIOD_MONTH, SG_PERIOD_TOTAL, SG_PERIOD_COUNT };
enum sg_spent { /* what happens when a budget is used up */
                SG_SPENT_WARN,
                SG_SPENT_PAUSE,  /* what runs is paused, and as REFUSE */
                SG_SPENT_REFUSE, /* nothing new is started; what runs goes on */
                SG_SPENT_COUNT,
};
extern const char *const sg_period_names[SG_PERIOD_COUNT], *const sg_spent_names[SG_SPENT_COUNT];
struct sg_budget {
    uint64_t pico; /* 0: none */
    enum sg_period period;
    enum sg_spent action;
    uint64_t warn_percent; /* 0: no warning before the end */
};
enum { SG_BUDGET_WARNED = 1, SG_BUDGET_EXHAUSTED = 2 };

struct sg_org {
    struct sg_id id;
    char *name; /* owned */
    struct sg_quota quota;
    struct sg_budget budget;
    struct sg_amounts spent; /* since spent_from_hour, the beginning of the budget's period */
    int64_t spent_from_hour;
    unsigned budget_state; /* SG_BUDGET_... */
    int64_t created_ms;
    /* in use right now, counting what is being created */
    uint64_t sandboxes, mem_bytes, cpu_milli, disk_bytes;
    unsigned execs, connections; /* execs that run; connections: the server's to count */
    unsigned moves;              /* exports and imports under way (move.h) */
    unsigned image_jobs;         /* work on templates under way (image_job.h) */
    uint64_t create_tokens_milli, tokens_at_ns;                      /* of creates_per_s */
    uint64_t refusal_tokens_milli, refused_at_ns, refusals_left_out; /* of the audit record */
    struct sg_org *next_dead;                                        /* the manager's own */
};

enum { SG_KEY_LEN = 44 }; /* "e2b_" + 40 hex */

struct sg_key {
    struct sg_id id;
    struct sg_org *org;
    char *name;     /* owned */
    char hash[65];  /* hex SHA-256 of the key */
    char shown[13]; /* its first characters, to tell keys apart */
    unsigned scopes;
    char **templates;                           /* owned, NULL-terminated; NULL: any */
    int64_t created_ms, expires_ms, revoked_ms; /* 0: never */
    uint64_t rate_per_s, tokens_milli, tokens_at_ns;
    struct sg_key *next_dead; /* the manager's own */
};

/* Who is calling. `key` NULL: the machine's own administrator, over the unix socket (is_operator),
 * or somebody with a token that one sandbox gave out. */
struct sg_who {
    struct sg_org *org;
    const struct sg_key *key;
    unsigned scopes;
    bool is_operator;      /* may see and change all organisations */
    struct sg_trace trace; /* that the call is a part of */
    char request_id[SG_ID_LEN + 1];
};

/* SG_DENIED: no such key, expired, revoked (one text for all). SG_EXHAUSTED: over its rate. */
int sg_tenant_authenticate(struct sg_manager *m, const char *key, size_t n, struct sg_who *ret,
                           struct sg_err *err);
/* The default organisation's operator. */
void sg_tenant_local(struct sg_manager *m, struct sg_who *ret);
/* SG_DENIED, naming the scope. */
int sg_tenant_demand(const struct sg_who *who, unsigned scope, struct sg_err *err);
/* For the record: a door has refused `who`, a caller with a valid key. */
void sg_tenant_refused(struct sg_manager *m, const struct sg_who *who, const char *action,
                       const struct sg_err *err);

struct sg_key_spec {
    const char *name, *org; /* org NULL: the caller's; another one needs the operator */
    unsigned scopes;
    const char *const *templates; /* NULL-terminated or NULL */
    int64_t expires_ms;
    uint64_t rate_per_s;
};
/* `ret_secret` gets the key itself: shown once, never stored. Answers after it is durable. */
typedef void sg_key_cb(void *arg, const struct sg_key *k, const char *secret,
                       const struct sg_err *err);
int sg_key_create(struct sg_manager *m, const struct sg_who *who, const struct sg_key_spec *spec,
                  sg_key_cb *cb, void *arg, struct sg_err *err);
typedef void sg_tenant_cb(void *arg, const struct sg_err *err);
int sg_key_revoke(struct sg_manager *m, const struct sg_who *who, const char *id, sg_tenant_cb *cb,
                  void *arg, struct sg_err *err);
/* How long it is valid for; 0: it is not any more (expired, revoked); INT64_MAX: for ever. */
int64_t sg_key_left_ms(const struct sg_key *k);
/* `revoked` is told whenever a key was taken back, in the midst of that. One listener. */
void sg_key_when_revoked(struct sg_manager *m, void (*revoked)(void *arg), void *arg);
/* Walks the keys that `who` may see; NULL at the end. `*cursor` starts at 0. */
const struct sg_key *sg_key_next(struct sg_manager *m, const struct sg_who *who, size_t *cursor);

typedef void sg_org_cb(void *arg, const struct sg_org *o, const struct sg_err *err);
int sg_org_create(struct sg_manager *m, const struct sg_who *who, const char *name,
                  const struct sg_quota *quota, sg_org_cb *cb, void *arg, struct sg_err *err);
int sg_org_change(struct sg_manager *m, const struct sg_who *who, const char *id, const char *name,
                  const struct sg_quota *quota, sg_org_cb *cb, void *arg, struct sg_err *err);
/* `b` NULL, or of nothing: none any more. Only the operator; budget.c. */
int sg_org_set_budget(struct sg_manager *m, const struct sg_who *who, const char *id,
                      const struct sg_budget *b, sg_org_cb *cb, void *arg, struct sg_err *err);
uint64_t sg_org_spent(const struct sg_manager *m, const struct sg_org *o); /* pico */
int64_t sg_budget_ends_ms(const struct sg_org *o); /* when the period ends; 0: never */
int sg_org_remove(struct sg_manager *m, const struct sg_who *who, const char *id, sg_tenant_cb *cb,
                  void *arg, struct sg_err *err); /* SG_CONFLICT while it has sandboxes */
const struct sg_org *sg_org_next(struct sg_manager *m, const struct sg_who *who, size_t *cursor);
const struct sg_org *sg_org_find(struct sg_manager *m, const struct sg_who *who, const char *id,
                                 struct sg_err *err);
