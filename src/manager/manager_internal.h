/* SPDX-License-Identifier: Apache-2.0 */
/* What the halves of the manager share: lifecycle (state, create, recover, tenants, events,
 * metrics) and execs (exec, journal, files).
 *
 * I1. All of it runs on the loop's thread; nothing here takes a lock or blocks.
 * I2. The lifecycle half owns `struct sg_sandbox`, its peer, its state and its timers; the exec
 *     half owns `s->execs`, `s->exec_impl` and `s->files_impl`.
 * I3. A cell's end is told in one order: the connection ends, so the peer has answered every open
 *     question (SG_UNAVAILABLE); then sg_exec_sandbox_ended() and sg_files_sandbox_ended(); then
 *     `s->peer` is NULL. A question to init is therefore always answered while its sandbox exists,
 *     and needs no list of its own. Only sg_manager_free() drops peers without answers; it calls
 *     the _forget() hooks first.
 * I4. `s->peer` may be NULL (creating, failed, stopping): ask sg_sandbox_demand_running() first.
 * I5. A sandbox object is freed only from the loop's end of pass, never under a caller's feet in
 *     the same pass; whoever keeps a pointer longer cleans up in the _forget() hooks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ctl/chan.h"
#include "loop/loop.h"
#include "manager/events.h"
#include "manager/manager.h"
#include "manager/sandbox.h"
#include "manager/tenant.h"

struct sg_note;
struct sg_snapshot;
struct sg_recovery;
struct sg_reconcile;
struct sg_net_change;
struct sg_peer;
struct sg_tier;
struct sg_traces;

/* ---- metrics ---- */

enum { SG_HISTOGRAM_BUCKETS = 16 }; /* 0.25 ms, doubling; the last is +Inf */
struct sg_histogram {
    uint64_t buckets[SG_HISTOGRAM_BUCKETS]; /* not cumulative */
    uint64_t count, sum_ns;
};
void sg_histogram_add(struct sg_histogram *h, uint64_t ns);

enum sg_limit_hit { /* what stopped a caller */
                    SG_HIT_MAX_SANDBOXES,
                    SG_HIT_SANDBOXES,
                    SG_HIT_MEMORY,
                    SG_HIT_CPU,
                    SG_HIT_DISK,
                    SG_HIT_CREATE_RATE,
                    SG_HIT_KEY_RATE,
                    SG_HIT_OOM,     /* a sandbox met its memory limit */
                    SG_HIT_TIMEOUT, /* an exec met its time limit */
                    SG_HIT_JOURNAL, /* output was cut */
                    SG_HIT_BUDGET,
                    SG_HIT_COUNT,
};
struct sg_metrics {
    struct sg_histogram create, exec; /* exec: from the call to "spawned" */
    uint64_t hits[SG_HIT_COUNT];
    uint64_t errors[SG_KIND_COUNT]; /* of operations that were admitted, and of those refused */
    uint64_t creates, creates_parked, destroys, retries, deaths, execs, exec_output_bytes;
    uint64_t net_bytes_out, net_bytes_in, net_allowed, net_refused;
    uint64_t reclaimed_bytes;
};

/* ---- the manager ---- */

struct sg_event_ring {
    struct sg_event slots[SG_EVENTS_KEPT]; /* seq % SG_EVENTS_KEPT; seq 0: empty */
    uint64_t seq;                          /* of the last one */
    struct sg_listener *listeners, *walk;
    struct sg_later wake;
    struct sg_map types; /* owned texts: types that came from the store */
};

struct sg_rules_watch { /* one file, and what is known of it */
    struct sg_manager *manager;
    enum sg_rule_file which;
    struct sg_timer clock;
    uint64_t stamp;
    char error[240]; /* "": it is in use */
};

enum { SG_GONE_KEPT = 4096 };
struct sg_gone { /* where a sandbox was in the list, for cursors that name it */
    char id[SG_ID_LEN + 1];
    const struct sg_org *org; /* to compare with only: see tenant.c, W3 */
    uint64_t seq, at_ns;
};

struct sg_manager {
    struct sg_loop *loop;
    struct sg_store *store;
    struct sg_audit *audit; /* NULL: no record is kept (tests) */
    struct sg_tier *tier;   /* owned: the launcher */
    struct sg_peer *gate;   /* owned; NULL: it is being started */
    struct sg_net_change *net_changes;
    struct sg_map netlayers; /* owned: net_layer.c */
    struct sg_manager_options o;
    struct sg_prices prices;
    struct sg_traces *traces; /* owned; NULL: none; trace.c */
    char *default_template;   /* owned; o.default_template */
    uint32_t epoch;           /* of our connections to inits: not that of the daemon before us */
    bool is_ready, is_ending;

    struct sg_map sandboxes, orgs, keys, keys_by_hash, snapshots;
    struct sg_snapshot *newest_snapshot; /* all of them */
    struct sg_sandbox *newest, *oldest;  /* all of them, in the order in which they were made */
    struct sg_sandbox *graves;           /* destroyed; their last answers are still to come */
    uint64_t sandbox_seq, charged;       /* charged: counted against max_sandboxes */
    struct sg_gone gone[SG_GONE_KEPT];
    size_t gone_at;
    struct sg_org *default_org;
    struct sg_org *dead_orgs; /* removed, but a call may still hold them */
    struct sg_key *dead_keys;
    struct sg_secret *secrets;    /* all of them, by organisation and name */
    struct sg_volume *volumes;    /* the same */
    struct sg_built *built;       /* the same: templates that were built */
    struct sg_uploads *uploads;   /* owned; NULL: none are taken */
    struct sg_standbys *standbys; /* owned; NULL: not yet; standby.c */
    bool is_memory_short;         /* the launcher says so: nothing is kept ready */
    struct sg_move *moves;        /* exports and imports under way; move.c */

    struct sg_task *tasks;                           /* owned: under way; task.c */
    void (*free_tasks)(struct sg_manager *m);        /* NULL: there never was one */
    struct sg_approval *approvals, *oldest_approval; /* owned: the newest first; approval.c */
    unsigned approval_count;
    struct sg_rules *rules; /* owned; rules.c */
    struct sg_walls walls;  /* what the router takes for available */
    struct sg_intercept_rules *intercept;
    struct sg_rules_watch rule_files[SG_RULE_FILE_COUNT];
    struct sg_session *sessions; /* owned: being made; session.c */

    struct sg_event_ring events;
    struct sg_metrics metrics;
    uint64_t code_bytes; /* requests and events of executions that are in memory */
    struct sg_timer usage, gc, samples, reconcile, refusals;
    unsigned sampled; /* sandboxes that the last look of samples.c saw running */
    struct sg_reconcile_report report, counting; /* the last one; the one under way */
    struct sg_recovery *recovery;                /* what is under way: recover.c, reconcile.c */
    struct sg_reconcile *reconciling;
    struct sg_note *notes; /* store callbacks under way */
    char **pool;           /* owned: the launcher's last word on parked cells */
    size_t pool_n;
    uint64_t pool_at_ns;
    struct {
        uint64_t total_bytes, free_bytes, errors, errands;
        bool is_known, is_full, is_counting;
    } storage; /* the same of the storage pool */
    void (*ready)(void *arg, const struct sg_err *err);
    void *ready_arg;
    void (*revoked)(void *arg); /* NULL: nobody wants to know */
    void *revoked_arg;
};

int64_t sg_manager_unix_ms(void);

/* ---- rules.c ---- */

int sg_rules_load(struct sg_manager *m, struct sg_err *err);
void sg_rules_watch(struct sg_manager *m);    /* once the launcher answers */
void sg_rules_welcomed(struct sg_manager *m); /* the launcher has said which tiers it has */
/* SG_UNSUPPORTED: no launcher's, or not this one's. */
int sg_rules_tier(const struct sg_manager *m, enum sg_wall wall, enum sg_l_tier *ret,
                  struct sg_err *err);
void sg_rules_done(struct sg_manager *m);

/* A store callback that may outlive its object: the store calls back what is queued when it is
 * closed, which is after the manager's end. Pass sg_note_done and a note to sg_store_put_...();
 * `done` is called exactly once: by the store, or by sg_manager_free() with SG_UNAVAILABLE, and
 * then not by the store any more. That is after the _forget() hooks, which may write something:
 * what `done` looks at must outlive them.
 *     sg_store_put_exec(m->store, &row, mode, sg_note_done, sg_note_new(m, written, x)); */
struct sg_note *sg_note_new(struct sg_manager *m, void (*done)(void *arg, const struct sg_err *err),
                            void *arg);
void sg_note_done(void *note, const struct sg_err *err);

/* `s` may be NULL. `detail` is a JSON object or NULL. `who` NULL: the manager itself (expiry). */
void sg_manager_audit(struct sg_manager *m, const struct sg_who *who, const char *action,
                      const struct sg_sandbox *s, const char *detail);
/* The same for what belongs to an organisation, whoever did it. */
void sg_manager_audit_of(struct sg_manager *m, const struct sg_who *who, const struct sg_org *org,
                         const char *action, const char *detail);
/* The same with the detail {key: value}. */
void sg_manager_audit_value(struct sg_manager *m, const struct sg_who *who, const char *action,
                            const struct sg_sandbox *s, const char *key, const char *value);
/* A refusal for want of rights or room: in the audit (a few a second and organisation, the rest as
 * a number), and counted. Returns -1. */
int sg_manager_denied(struct sg_manager *m, const struct sg_who *who, const char *action,
                      const struct sg_sandbox *s, const struct sg_err *err);

/* SG_CONFLICT naming the state, unless it runs and is connected. */
int sg_sandbox_demand_running(const struct sg_sandbox *s, struct sg_err *err);
/* An event of this sandbox. `data` may be NULL; a JSON object. */
void sg_sandbox_event(struct sg_sandbox *s, const char *type, const char *data);
/* Adds to the usage of this hour: what execs and streams have used. */
void sg_sandbox_used(struct sg_sandbox *s, uint64_t execs, uint64_t bytes_in, uint64_t bytes_out);
/* Whether the kernel ended something in the sandbox for lack of memory since the last time this was
 * asked. The exec half asks when a program died of SIGKILL that nobody sent. `cb` comes later,
 * exactly once, unless sg_exec_forget() was called before (is_manager_ending). */
typedef void sg_oom_cb(void *arg, bool has_oomed);
void sg_manager_oom_check(struct sg_sandbox *s, sg_oom_cb *cb, void *arg);

/* ---- hooks that the exec half implements ---- */

/* Events of init: EXITED and KEPT, CHANGED; and SPAWNED, WATCHED, where they answer a question that
 * nobody waits for any more. The packet ends with the call; take descriptors. */
void sg_exec_news(struct sg_sandbox *s, struct sg_packet *p);
void sg_files_news(struct sg_sandbox *s, struct sg_packet *p);

/* The cell is gone; see I3. Running execs become SG_EXEC_LOST (rows, events, readers woken) and
 * their output is complete with what the pipes still held; watches end (path NULL), writes under
 * way are answered. The sandbox object stays: execs can still be read while it is "failed" or
 * gets a fresh cell. */
void sg_exec_sandbox_ended(struct sg_sandbox *s);
void sg_files_sandbox_ended(struct sg_sandbox *s);

/* The sandbox object is about to be freed: free everything. `is_manager_ending` false: it was
 * destroyed (its exec rows are gone with its own), so remove its journals; readers get exec NULL
 * and are woken. True: the daemon ends and the sandbox lives on, so touch neither journals, rows
 * nor init, answer open callbacks with SG_UNAVAILABLE. */
void sg_exec_forget(struct sg_sandbox *s, bool is_manager_ending);
void sg_files_forget(struct sg_sandbox *s, bool is_manager_ending);

/* After a restart of the daemon, once per sandbox. Loads the exec rows of the sandbox into
 * s->execs. With `s->peer` (adopted, its hello was sent): asks RECLAIM, continues each KEPT that
 * has a row, kills and releases each that has none (++m->counting.unknown_execs); rows that say
 * "running" without a KEPT are lost once init says that this was all. `done` comes once after its
 * first answer, whichever it is, or at the end of the connection; for a paused sandbox that is
 * after its thaw. Without a peer (no cell): every running row is lost; `done` comes
 * before the call returns. */
void sg_exec_recover(struct sg_sandbox *s, void (*done)(struct sg_sandbox *s, void *arg),
                     void *arg);

/* For stop: TERM to every process but init, KILL two seconds later, until none is left; `done` once
 * (err: it could not be done, for example the connection ended). */
void sg_exec_kill_all(struct sg_sandbox *s,
                      void (*done)(struct sg_sandbox *s, void *arg, const struct sg_err *err),
                      void *arg);

/* Removes journals of execs that no sandbox knows; how many. Called by the reconciler, and at start
 * when every sandbox's rows are loaded. */
unsigned sg_journal_sweep(struct sg_manager *m);
