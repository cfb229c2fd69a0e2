/* SPDX-License-Identifier: Apache-2.0 */
/* The manager: every product rule lives here, whichever door a caller comes through.
 *
 * N1. A row is written before its effect and removed after it (docs/design/service.md).
 * N2. A callback is called exactly once, from the loop, possibly before the function that took it
 *     returns only where a line says so; a function that returns -1 never calls it.
 * N3. What belongs to another organisation answers exactly as what does not exist.
 * N4. An acknowledged sandbox is never lost but by its own end; what was not acknowledged never
 *     stays. */
#pragma once

#include "manager/sandbox.h"
#include "manager/tenant.h"
#include "meter/price.h"
#include "router/intercept.h"
#include "router/router.h"

struct sg_audit;
struct sg_seal_key;
struct sg_store;
struct sg_usage_row;
struct sg_trace_options;
struct sg_buf;

struct sg_manager_options {
    struct sg_rules *rules;               /* taken; NULL: the built-in ones */
    struct sg_intercept_rules *intercept; /* the same */
    char *const *template_tiers;          /* borrowed: "TEMPLATE=TIER"; where a create names none */
    size_t template_tiers_n;
    const struct sg_walls *walls; /* borrowed: what this host is taken to have; NULL: what it has */
    bool watches_rules;           /* asks the launcher for other rules, now and then */
    struct sg_sandbox_limits defaults, most; /* of one sandbox */
    uint64_t default_timeout_ms, max_timeout_ms;
    uint64_t max_sandboxes, journal_bytes; /* journal: kept of each exec's output */
    const char *default_template;
    int journal_dir_fd; /* borrowed: where journals live */
    int upload_dir_fd;  /* the same for archives of builds; -1: none are taken */
    struct sg_quota default_quota;
    uint64_t started, started_each;    /* with a start command running: in all, of a template */
    uint64_t reconcile_ms;             /* between two looks at everything */
    uint64_t pause_files_ms;           /* from a pause to its files on the disk; 0: never */
    uint64_t pause_memory_ms;          /* the same until its memory goes */
    const struct sg_seal_key *seal_to; /* borrowed: public; NULL: no secrets are kept (tests) */
    const char *gate_cert;             /* borrowed: what sandboxes with secrets trust; or NULL */
    const struct sg_nets *permitted;   /* private networks that rules may allow; NULL: none */
    const struct sg_prices *prices;    /* borrowed; NULL: the built-in ones */
    const struct sg_trace_options *traces; /* borrowed for the call; NULL: none */
};

/* Takes `launcher_fd`; borrows the rest. Loads the store, adopts what lives, ends what nobody
 * acknowledged; `ready` comes when that is done. */
struct sg_manager *sg_manager_new(struct sg_loop *l, struct sg_store *store, struct sg_audit *audit,
                                  int launcher_fd, const struct sg_manager_options *o,
                                  void (*ready)(void *arg, const struct sg_err *err), void *arg,
                                  struct sg_err *err);
/* Leaves every sandbox running. Who waits for an answer gets SG_UNAVAILABLE; readers, watches and
 * listeners are let go. So whoever holds those (the server) is freed after it. */
void sg_manager_free(struct sg_manager *m);
struct sg_loop *sg_manager_loop(const struct sg_manager *m);
const struct sg_manager_options *sg_manager_options(const struct sg_manager *m);
struct sg_store *sg_manager_store(const struct sg_manager *m);

/* ---- sandboxes ---- */

struct sg_mount_spec {
    const char *volume, *path; /* name or id; where it appears */
    bool is_read_only;
};
struct sg_create {
    const char *template;            /* NULL: the default */
    struct sg_sandbox_limits limits; /* 0: the default */
    uint64_t timeout_ms;             /* absolute lifetime; UINT64_MAX: the default; 0: none */
    uint64_t idle_ms;                /* 0: none */
    enum sg_expiry on_expiry;
    const struct sg_pair *metadata, *env; /* borrowed for the call */
    size_t metadata_n, env_n;
    const struct sg_mount_spec *mounts;
    size_t mounts_n;
    unsigned retries;            /* fresh attempts when it cannot be made, or dies */
    const char *door;            /* text that a door keeps with it, or NULL */
    const struct sg_ask *ask;    /* what it is for; NULL: SG_OPERATION_DEFAULT */
    bool drops_memory;           /* a pause at expiry keeps the files alone */
    const char *const *captures; /* patterns of files to keep at its end; borrowed for the call */
    size_t captures_n;
    unsigned checkpoint_every; /* commands between checkpoints; 0: none */
    /* Of a fork: the hidden snapshot, and whose. Else `template` may name a snapshot. */
    const char *snapshot, *parent;
    const struct sg_policy *network; /* NULL: none */
    const struct sg_traits *traits;  /* of a fork and of ours; else those of `template` */
    const char *built;               /* the same */
    bool is_internal;                /* ours: nobody sees it */
    bool is_standby;                 /* the same, and waits to be somebody's (standby.h) */
    bool is_brief;                   /* a task's: see sandbox.h */
    const struct sg_cred_set *creds; /* sg_creds_read(); NULL: none. Copied */
};
enum { SG_DOOR_MAX = 64 << 10 };
#define SG_TIER_METADATA "sandglass.tier" /* metadata that names the tier, where `ask` does not */
typedef void sg_sandbox_cb(void *arg, struct sg_sandbox *s, const struct sg_err *err);

int sg_manager_create(struct sg_manager *m, const struct sg_who *who, const struct sg_create *c,
                      sg_sandbox_cb *cb, void *arg, struct sg_err *err);

/* NULL with SG_NOT_FOUND. Counts as use of it. */
struct sg_sandbox *sg_manager_find(struct sg_manager *m, const struct sg_who *who, const char *id,
                                   struct sg_err *err);

struct sg_list_query {
    unsigned states; /* 1 << enum sg_state; 0: all */
    const struct sg_pair *metadata;
    size_t metadata_n;
    const char *after; /* id of the last one of the previous page, or NULL */
    unsigned limit;
};
/* Newest first. Returns how many; `*ret_more`: there is another page. */
size_t sg_manager_list(struct sg_manager *m, const struct sg_who *who,
                       const struct sg_list_query *q, struct sg_sandbox **ret, bool *ret_more);

/* What can be done to one. The sandbox is alive in the callback, gone after it where it was
 * destroyed (`s` NULL then). */
int sg_manager_pause(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb, void *arg,
                     struct sg_err *err);
/* Ends every process and keeps the files, also over a restart of the machine. */
int sg_manager_pause_disk(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb,
                          void *arg, struct sg_err *err);
int sg_manager_resume(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb, void *arg,
                      struct sg_err *err);
int sg_manager_stop(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb, void *arg,
                    struct sg_err *err);
int sg_manager_start(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb, void *arg,
                     struct sg_err *err);
int sg_manager_destroy(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb, void *arg,
                       struct sg_err *err);
/* `timeout_ms` from now on; 0: none. */
int sg_manager_set_timeout(struct sg_sandbox *s, const struct sg_who *who, uint64_t timeout_ms,
                           sg_sandbox_cb *cb, void *arg, struct sg_err *err);
/* Fields that are 0 stay as they are. */
int sg_manager_set_limits(struct sg_sandbox *s, const struct sg_who *who,
                          const struct sg_sandbox_limits *l, sg_sandbox_cb *cb, void *arg,
                          struct sg_err *err);
int sg_manager_set_metadata(struct sg_sandbox *s, const struct sg_who *who, const struct sg_pair *v,
                            size_t n, sg_sandbox_cb *cb, void *arg, struct sg_err *err);

int sg_manager_set_door(struct sg_sandbox *s, const struct sg_who *who, const char *door,
                        sg_sandbox_cb *cb, void *arg, struct sg_err *err);

/* All of the caller's own organisation. With none, `cb` comes before the call returns. */
typedef void sg_count_cb(void *arg, unsigned count, const struct sg_err *err);
int sg_manager_destroy_all(struct sg_manager *m, const struct sg_who *who, sg_count_cb *cb,
                           void *arg, struct sg_err *err);

struct sg_stats {
    uint64_t mem_bytes, mem_peak_bytes, mem_limit_bytes, cpu_ns, pids, pids_peak, oom_kills;
    uint64_t disk_bytes, disk_used_bytes;
};
typedef void sg_stats_cb(void *arg, const struct sg_stats *st, const struct sg_err *err);
int sg_manager_stats(struct sg_sandbox *s, const struct sg_who *who, sg_stats_cb *cb, void *arg,
                     struct sg_err *err);

/* What it used so far, a sample every few seconds, oldest first; borrowed until the loop runs on.
 * UINT64_MAX: the kernel does not tell. */
struct sg_sample {
    int64_t at_ms; /* unix */
    uint64_t cpu_ns, mem_bytes, mem_limit_bytes, disk_bytes, disk_used_bytes;
};
const struct sg_sample *sg_manager_samples(const struct sg_sandbox *s, size_t *ret_n);

/* How much of its memory the kernel has taken in this pause. */
uint64_t sg_manager_reclaimed(const struct sg_sandbox *s);

/* Asks init whether it answers. */
typedef void sg_health_cb(void *arg, bool is_healthy, uint64_t latency_ns,
                          const struct sg_err *err);
int sg_manager_health(struct sg_sandbox *s, const struct sg_who *who, sg_health_cb *cb, void *arg,
                      struct sg_err *err);

/* ---- the router ---- */

/* Which tier an operation gets, and why; nothing is run. The organisation is the caller's. What is
 * returned lives until the loop runs on. */
int sg_manager_route(struct sg_manager *m, const struct sg_who *who, const struct sg_ask *a,
                     struct sg_decision *ret, struct sg_err *err);
/* What is wrong with the rule file that was found last; "": nothing, it is in use. */
const char *sg_manager_rules_error(const struct sg_manager *m);

/* ---- what use costs ---- */

const struct sg_prices *sg_manager_prices(const struct sg_manager *m);
void sg_usage_amounts(const struct sg_usage_row *r, struct sg_amounts *ret);

/* ---- the whole ---- */

struct sg_reconcile_report {
    int64_t at_ms;
    unsigned rows, cells;                                  /* seen */
    unsigned lost, orphans, stale_journals, unknown_execs; /* found and put right */
};
const struct sg_reconcile_report *sg_manager_report(const struct sg_manager *m); /* the last one */
typedef void sg_reconcile_cb(void *arg, const struct sg_reconcile_report *r,
                             const struct sg_err *err);
int sg_manager_reconcile(struct sg_manager *m, sg_reconcile_cb *cb, void *arg, struct sg_err *err);

/* "template parked wanted" lines, and names of templates. */
typedef void sg_names_cb(void *arg, const char *const *names, size_t n, const struct sg_err *err);
int sg_manager_pool(struct sg_manager *m, sg_names_cb *cb, void *arg, struct sg_err *err);
int sg_manager_templates(struct sg_manager *m, sg_names_cb *cb, void *arg, struct sg_err *err);

/* Prometheus text. */
void sg_manager_metrics(struct sg_manager *m, struct sg_buf *out);
