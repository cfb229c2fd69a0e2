/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's life: one operation at a time, in steps, each of which waits for its answers.
 *
 * V1. At most one operation is under way (`op`). What may join it joins; what ends the sandbox
 *     (destroy, its own death, expiry) waits for it; all else is refused.
 * V2. A step asks (the store, the launcher, init), says with sg_life_expect() for how many answers
 *     it waits and what comes then; sg_life_got() counts them and keeps the first error.
 * V3. sg_life_end() ends the operation: it answers who waits, then begins what has waited.
 * V4. The row's state may be ahead of the memory's (a create is "running" in the store before it is
 *     told); other writes of the row repeat `row_state`, so none of them sets it back. */
#pragma once

#include "base/json.h"
#include "base/jsonr.h"
#include "manager/manager_internal.h"
#include "store/store.h"
#include "tier/peer.h"

enum sg_op {
    OP_NONE,
    OP_CREATE, /* and fresh attempts */
    OP_ADOPT,
    OP_PAUSE,
    OP_RESUME,
    OP_STOP,
    OP_START,
    OP_LIMIT,
    OP_SNAPSHOT,
    OP_KEEP, /* the files of a frozen one: pause_keep.c */
    OP_DEATH,
    OP_DESTROY,
    OP_COUNT,
};

struct sg_jval; /* base/jsonr.h */
struct sg_waiter {
    struct sg_waiter *next;
    sg_sandbox_cb *cb;
    void *arg;
};
struct sg_waiters {
    struct sg_waiter *head, **tail;
};

/* What its use is booked under. */
struct sg_labels {
    char tier[16], operation[64], rule[64]; /* "": not known */
    bool is_read;
};

struct sg_life {
    struct sg_sandbox *s;
    enum sg_op op;
    unsigned open; /* answers that the step waits for */
    void (*next)(struct sg_sandbox *s);
    struct sg_err err;                     /* the first of the step; SG_OK: none */
    struct sg_waiters waiting, destroying; /* for `op`; for the end */
    struct sg_waiters soon;                /* nothing was to be done: told at the end of the pass */
    struct sg_later tell;
    unsigned refs;                /* answers that will come with a pointer to it */
    struct sg_timer clock, grace; /* of the step; for the launcher's word on a death */
    struct sg_timer leave;        /* until the end that it wants is begun: sg_destroy_soon() */
    struct sg_timer keep;         /* when the files of a frozen one go to the disk */
    struct sg_timer relieve;      /* when the memory of a frozen one goes */
    struct sg_later bury;
    uint64_t began_ns, settled_ns;
    enum sg_state row_state;
    bool is_known;                   /* somebody was told of it: never dropped silently */
    bool is_capturing, has_captured; /* files that are kept at its end: capture.h */
    bool wants_end;                  /* somebody asked for its end, which waits for `op` */
    bool is_ending;                  /* on the way to its end, not to "stopped" */
    bool is_gone;                    /* out of the maps; waits for its last answers */
    bool is_greeting;                /* of an adoption: init has not told what it kept */

    /* the cell */
    int peer_fd; /* borrowed from the peer, for shutdown(2) only; -1: lost, or none */
    bool has_cell, is_cell_ending, awaits_loss;
    void (*after_cell)(struct sg_sandbox *s); /* when it is gone */
    struct sg_err why;                        /* an attempt to make it failed */
    size_t mount_at;                          /* the volume that is being mounted */
    void (*after_mounts)(struct sg_sandbox *s);
    bool has_died;
    enum sg_state_event death;
    char death_cause[200];
    bool has_expired;
    enum sg_state_event expiry;

    /* what is counted against the organisation */
    bool is_counted;
    struct sg_sandbox_limits charged;
    struct sg_sandbox_limits wanted; /* by OP_LIMIT */
    struct sg_starting *starting;    /* of OP_CREATE: its start command (start.c) */
    struct sg_snapshot *snapshot;    /* of OP_SNAPSHOT */
    char *snapshot_before;           /* owned: of what is under way, should it fail */
    char *keeping;                   /* owned: of OP_KEEP */
    bool wants_resume;               /* which waits for OP_KEEP */
    bool is_relieved;                /* its memory went, or goes, in this pause */
    uint64_t reclaimed_bytes;        /* so much of it */

    uint64_t usage_at_ns, usage_cpu_ns, oom_kills; /* as of the last look */
    uint64_t disk_used_bytes;                      /* the same */
    uint64_t net_in, net_out;                      /* since this daemon has it */
    bool is_usage_asked, usage_was_paused;
    struct sg_labels labels;
    struct sg_amounts used;     /* since this daemon has it */
    struct sg_trace trace;      /* that its create is a part of */
    struct sg_samples *samples; /* owned; NULL: none yet */
    struct sg_health *checks;
    struct sg_oom_question *oom_questions;
};

/* ---- life.c ---- */

struct sg_sandbox *sg_life_new(struct sg_manager *m, struct sg_org *org, const struct sg_id *id);
void sg_life_free(struct sg_sandbox *s); /* frees at once */
void sg_life_bury(struct sg_sandbox *s); /* frees when its last answer is in */
void sg_life_hold(struct sg_sandbox *s);
void sg_life_drop(struct sg_sandbox *s);

void sg_life_wait(struct sg_waiters *w, sg_sandbox_cb *cb, void *arg); /* cb NULL: nobody */
void sg_life_answer(struct sg_waiters *w, struct sg_sandbox *s, const struct sg_err *err);
void sg_life_soon(struct sg_sandbox *s, sg_sandbox_cb *cb, void *arg); /* it is so already */

void sg_life_begin(struct sg_sandbox *s, enum sg_op op);
void sg_life_expect(struct sg_sandbox *s, unsigned n, void (*next)(struct sg_sandbox *s));
void sg_life_got(struct sg_sandbox *s, const struct sg_err *err);    /* err NULL: well */
bool sg_life_failed(const struct sg_sandbox *s, struct sg_err *ret); /* the step that ended */
void sg_life_end(struct sg_sandbox *s, const struct sg_err *err);
void sg_life_settle(struct sg_sandbox *s); /* begins what has waited, unless something is on */

/* Changes state and what hangs on it (timers). */
int sg_life_apply(struct sg_sandbox *s, enum sg_state_event e, struct sg_err *err);
void sg_life_must(struct sg_sandbox *s, enum sg_state_event e); /* where the matrix has a way */
void sg_life_cause(struct sg_sandbox *s, const char *cause);

/* Writes the row as it is, then calls back. */
void sg_life_save(struct sg_sandbox *s, sg_sandbox_cb *cb, void *arg);
/* An event whose data is {key: value}. */
void sg_life_event(struct sg_sandbox *s, const char *type, const char *key, const char *value);

/* For one answer of the step: writes the row, with `state`. */
void sg_life_put_row(struct sg_sandbox *s, enum sg_state state, enum sg_store_mode mode);
/* As sg_tier_answer or sg_peer_answer, with the sandbox as `arg`: one answer of the step. */
void sg_life_tier_answer(void *arg, struct sg_packet *p, const struct sg_err *err);

/* ---- row.c ---- */

void sg_row_put(struct sg_sandbox *s, enum sg_state state, enum sg_store_mode mode,
                sg_store_done *done, void *arg);
/* The row as it is now; nobody waits. */
void sg_row_touch(struct sg_sandbox *s);
/* A sandbox from its row, in no list; NULL: the row makes no sense. */
struct sg_sandbox *sg_row_load(struct sg_manager *m, const struct sg_sandbox_row *r,
                               struct sg_err *err);
void sg_pairs_copy(struct sg_pairs *to, const struct sg_pair *v, size_t n);
void sg_pairs_done(struct sg_pairs *p);
/* As a JSON object, and back. */
void sg_pairs_write(struct sg_json *j, const struct sg_pairs *p);
void sg_pairs_read(const struct sg_jval *v, struct sg_pairs *to);

/* ---- list.c ---- */

void sg_list_add(struct sg_sandbox *s);   /* as the newest */
void sg_list_renew(struct sg_sandbox *s); /* the same of one that is in it */
void sg_list_remove(struct sg_sandbox *s);
const struct sg_gone *sg_list_gone(const struct sg_manager *m, const char *id); /* or NULL */

/* ---- create.c ---- */

void sg_create_begin(struct sg_sandbox *s); /* of a new one, or of a fresh attempt */
/* The same, where the attempt before this start may have left a cell. */
void sg_create_again(struct sg_sandbox *s);
void sg_create_attempt(struct sg_sandbox *s); /* the operation is begun, the cell is gone */
/* UINT64_MAX becomes the default. */
int sg_timeout_check(const struct sg_manager *m, uint64_t *inout_ms, struct sg_err *err);
/* Whether the key may use it. */
int sg_template_permitted(const struct sg_who *who, const char *name, bool is_found,
                          struct sg_err *err);
/* One of ours; it is `*ret` before `cb` comes. */
int sg_manager_create_internal(struct sg_manager *m, const struct sg_who *who,
                               const struct sg_create *c, sg_sandbox_cb *cb, void *arg,
                               struct sg_sandbox **ret, struct sg_err *err);
int sg_template_name_check(const char *name, struct sg_err *err);
int sg_pairs_check(const char *what, const struct sg_pair *v, size_t n, bool is_env,
                   struct sg_err *err);

/* ---- cell.c ---- */

/* Takes the connection out of the answer to L_CREATE or L_ADOPT. */
int sg_cell_connect(struct sg_sandbox *s, struct sg_packet *p, struct sg_err *err);
/* Asks HELLO; `answered` gets the sandbox. */
int sg_cell_hello(struct sg_sandbox *s, sg_peer_answer *answered, struct sg_err *err);
/* No time passes for questions to an init that is frozen: after every change of state. */
void sg_cell_keep_time(struct sg_sandbox *s);
/* Ends the cell, if there is one, and everything that hung on it, then `next`. */
void sg_cell_end(struct sg_sandbox *s, void (*next)(struct sg_sandbox *s));
void sg_cell_cut(struct sg_sandbox *s); /* ends the connection: open questions are answered */
struct sg_tier_limits sg_cell_limits(const struct sg_sandbox_limits *l);

/* ---- lifecycle.c ---- */

void sg_pause_begin(struct sg_sandbox *s);
void sg_resume_begin(struct sg_sandbox *s);
void sg_stop_begin(struct sg_sandbox *s);

/* ---- pause_disk.c ---- */

void sg_pause_disk_begin(struct sg_sandbox *s);
void sg_resume_disk_begin(struct sg_sandbox *s);
void sg_pause_disk_forget(struct sg_sandbox *s); /* its snapshots, if there are any */

/* ---- pause_keep.c ---- */

void sg_pause_keep_update(struct sg_sandbox *s); /* after a change of state */
void sg_pause_keep_drop(struct sg_sandbox *s);   /* it has run again */
/* It has no cell any more, and its files are kept: it is paused with those. */
void sg_pause_keep_fall(struct sg_sandbox *s, const char *cause);
/* Its cell died: true where that is all there is to be done about it. */
bool sg_pause_keep_died(struct sg_sandbox *s);

/* ---- pause_memory.c ---- */

void sg_pause_memory_update(struct sg_sandbox *s); /* after a change of state */
void sg_pause_memory_news(void *manager, const struct sg_msg_l_reclaimed *r);

/* ---- snapshot.c ---- */

int sg_snapshots_load(struct sg_manager *m, struct sg_err *err);
void sg_snapshots_free(struct sg_manager *m);
/* Removes what the launcher has and nobody knows of. */
void sg_snapshots_reconcile(struct sg_manager *m);
int sg_snapshot_demand(struct sg_sandbox *s, const struct sg_who *who, const char *action,
                       struct sg_err *err);
/* SG_UNSUPPORTED: why nothing of a sandbox without a layer in the storage pool can be kept. */
int sg_snapshot_refuse(const struct sg_sandbox *s, struct sg_err *err);
/* Of a fork. */
int sg_snapshot_hidden(struct sg_sandbox *s,
                       void (*cb)(void *arg, struct sg_snapshot *t, const struct sg_err *err),
                       void *arg, struct sg_err *err);
/* Of a build: with a key and what the template is to say so far. */
int sg_snapshot_layer(struct sg_sandbox *s, const char *key, const struct sg_traits *traits,
                      void (*cb)(void *arg, struct sg_snapshot *t, const struct sg_err *err),
                      void *arg, struct sg_err *err);
void sg_snapshot_use_layer(struct sg_manager *m, struct sg_snapshot *t); /* now */
/* Without asking: nobody uses it. */
void sg_snapshot_remove_hidden(struct sg_manager *m, struct sg_snapshot *t);

/* ---- move.c ---- */

void sg_moves_end(struct sg_manager *m, const struct sg_err *err);

/* ---- death.c ---- */

/* The launcher or the connection says so. */
void sg_death_report(struct sg_sandbox *s, enum sg_state_event e, const char *cause);
void sg_death_begin(struct sg_sandbox *s);
void sg_death_launcher(void *arg, const struct sg_msg_l_ended *e);
/* A create that could not be: a fresh attempt where one is left. False: no more. */
bool sg_death_retry(struct sg_sandbox *s, const struct sg_err *why);
void sg_death_failed(struct sg_sandbox *s); /* the cell is gone: the row says so */

/* ---- destroy.c ---- */

void sg_destroy_begin(struct sg_sandbox *s);
/* As sg_manager_destroy() for nobody who waits: it may take a moment longer. */
void sg_destroy_soon(struct sg_sandbox *s, const struct sg_who *who);
/* The row is gone: out of every list and count. `with`: whom to answer what. */
void sg_destroy_forget(struct sg_sandbox *s);

/* ---- expiry.c ---- */

void sg_expiry_update(struct sg_sandbox *s); /* after a change of state or of times */
void sg_expiry_stop(struct sg_sandbox *s);
void sg_expiry_renew(struct sg_sandbox *s); /* the lifetime starts anew */
void sg_expiry_act(struct sg_sandbox *s);

/* ---- quota.c ---- */

int sg_quota_fits(const struct sg_manager *m, struct sg_sandbox_limits *l, struct sg_err *err);
int sg_quota_admit(struct sg_manager *m, struct sg_org *org, const struct sg_sandbox_limits *l,
                   struct sg_err *err);
void sg_quota_charge(struct sg_sandbox *s); /* without question: what lives already */
/* Less than half of everything that is limited is used, by it and by all together. */
bool sg_quota_is_ample(const struct sg_org *org, const struct sg_manager *m);
int sg_quota_change(struct sg_sandbox *s, const struct sg_sandbox_limits *to, struct sg_err *err);
void sg_quota_reduce(struct sg_sandbox *s);  /* it uses nothing any more, but is there */
void sg_quota_release(struct sg_sandbox *s); /* all of it, once */
/* A token bucket of one second. */
bool sg_quota_take(uint64_t *tokens_milli, uint64_t *at_ns, uint64_t per_s, uint64_t now_ns);

/* ---- usage.c ---- */

void sg_usage_start(struct sg_manager *m);
void sg_usage_created(struct sg_sandbox *s);
/* A fresh cell counts from zero, an adopted one from where the store says. */
void sg_usage_reset(struct sg_sandbox *s, bool is_adopted);
/* Asks for the last numbers; to be followed by the destroy. */
void sg_usage_look(struct sg_sandbox *s);
void sg_usage_count(struct sg_sandbox *s, const struct sg_stats *st); /* who has looked */
void sg_usage_died(struct sg_sandbox *s, uint64_t cpu_ns); /* the launcher's last word on it */
void sg_usage_net(struct sg_sandbox *s, uint64_t bytes_in, uint64_t bytes_out);
const struct sg_labels *sg_sandbox_labels(struct sg_sandbox *s);
void sg_usage_forget(struct sg_sandbox *s);

/* ---- samples.c ---- */

void sg_samples_start(struct sg_manager *m);
void sg_samples_free(struct sg_sandbox *s);

/* ---- net.c ---- */

/* Of a cell that was just made: its sockets and its policy, as so many answers of the step. */
unsigned sg_net_answers(const struct sg_sandbox *s);
void sg_net_open(struct sg_sandbox *s);
void sg_net_reopen(struct sg_sandbox *s); /* of an adopted one */
void sg_net_tell(struct sg_sandbox *s);   /* what lies above its policy has changed */
void sg_net_gate(void *manager, int fd);  /* a new connection to the gate; takes it */
void sg_net_meet(struct sg_manager *m, const struct sg_msg_g_meet *q); /* the gate asks for it */
void sg_net_free(struct sg_manager *m, const struct sg_err *err);

/* ---- net_layer.c ---- */

int sg_netlayer_load(struct sg_manager *m, struct sg_err *err);
void sg_netlayer_free(struct sg_manager *m);
/* That of a sandbox that is made without a word about it; NULL: none. */
const struct sg_policy *sg_netlayer_default(const struct sg_manager *m, const struct sg_org *org,
                                            const char *template);
/* Its own with those above it; `ret` borrows. `ret_mask`: which there are, 1 << layer. */
void sg_netlayer_stack(const struct sg_sandbox *s, struct sg_policy ret[SG_LAYER_COUNT],
                       uint32_t *ret_mask);

/* ---- health.c ---- */

void sg_health_forget(struct sg_sandbox *s);

/* ---- cells.c: which cells the launcher has ---- */

struct sg_cells {
    struct sg_map ids; /* owned texts */
};
typedef void sg_cells_cb(struct sg_manager *m, struct sg_cells *c, const struct sg_err *err);
void sg_cells_list(struct sg_manager *m, sg_cells_cb *cb); /* `c` ends with the call */

/* ---- recover.c, reconcile.c ---- */

int sg_recover_load(struct sg_manager *m, struct sg_err *err);
void sg_recover_start(struct sg_manager *m);
void sg_recover_free(struct sg_manager *m);
void sg_reconcile_start(struct sg_manager *m);
void sg_reconcile_free(struct sg_manager *m);

/* The value of that name, or NULL (list.c). */
const char *sg_pair_value(const struct sg_pairs *p, const char *name);

/* ---- tenant.c, org.c, key.c ---- */

int sg_tenant_load(struct sg_manager *m, struct sg_err *err);
void sg_tenant_free(struct sg_manager *m);
int sg_org_load(struct sg_manager *m, struct sg_err *err); /* makes the default one, if need be */
void sg_org_free(struct sg_org *o);
int sg_key_load(struct sg_manager *m, struct sg_err *err);
void sg_key_free(struct sg_key *k);
void sg_key_forget_all(struct sg_manager *m, const struct sg_org *o); /* of a removed one */
/* Records how many refusals were left out so far (refusals.c). */
void sg_refusals_sum(struct sg_manager *m);
int sg_key_hash(const char *key, size_t n, char ret[65], struct sg_err *err);
bool sg_tenant_name_is_fine(const char *name);
enum { SG_RATE_MAX = 1000000000 }; /* per second */

/* ---- secret.c ---- */

int sg_secret_load(struct sg_manager *m, struct sg_err *err);
void sg_secret_free_all(struct sg_manager *m);
void sg_secret_forget_all(struct sg_manager *m, const struct sg_org *o); /* of a removed one */

/* ---- events.c ---- */

int sg_events_load(struct sg_manager *m, struct sg_err *err);
void sg_events_free(struct sg_manager *m);
