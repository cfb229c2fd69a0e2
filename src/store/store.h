/* SPDX-License-Identifier: Apache-2.0 */
/* The store: what must outlive the daemon, in SQLite (WAL).
 *
 * D1. The daemon's memory is the truth while it runs; the store is what it is rebuilt from. Rows
 *     are read at start only (and for history that nobody keeps in memory: audit, events, usage).
 * D2. All writes go through one thread, in the order in which they were asked for, many in one
 *     transaction. `done` comes on the loop after the commit that holds the write.
 * D3. SG_STORE_FULL reaches the disk before `done`; SG_STORE_NORMAL survives kill -9, not a power
 *     cut. A FULL write makes all before it durable, too, and holds up no NORMAL one after it.
 * D4. A write that fails (disk full, locked) is reported to its `done`; the store stays usable. A
 *     file that is damaged is moved aside at open, with its name in the report, and a new one made.
 *
 * Texts in rows are borrowed for the call; the store copies. NULL is stored as NULL. Times are unix
 * milliseconds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct sg_loop;
struct sg_store;

enum sg_store_mode {
    SG_STORE_NORMAL,
    SG_STORE_SOON, /* as NORMAL, and on the disk within SG_STORE_SOON_MS */
    SG_STORE_FULL,
};
enum { SG_STORE_SOON_MS = 500, SG_STORE_EVENTS_KEPT = 100000, SG_STORE_CONNECTIONS_KEPT = 200000 };

struct sg_store_report {
    bool was_new;
    char moved_aside[128]; /* "": nothing was wrong */
    unsigned migrated_from, schema;
};

/* `path` of the database file; ":memory:" for tests. SG_UNAVAILABLE: another process holds it.
 * SG_UNSUPPORTED: a newer version wrote it. */
struct sg_store *sg_store_open(struct sg_loop *l, const char *path, struct sg_store_report *ret,
                               struct sg_err *err);
void sg_store_close(struct sg_store *s); /* finishes and calls back what is queued */

/* `err` NULL: committed. */
typedef void sg_store_done(void *arg, const struct sg_err *err);

struct sg_sandbox_row {
    const char *id, *org, *template, *state, *cause; /* cause: "" or why it is in that state */
    const char *spec;                                /* JSON: limits, times, metadata, env */
    int64_t created_ms, started_ms, expires_ms, updated_ms;
};
struct sg_exec_row {
    const char *id, *sandbox, *spec; /* spec: JSON of argv, cwd, user, env names */
    const char *state, *ending; /* "running", "ended"; "exit", "signal", "timeout", "oom" ... */
    int64_t code, signal, started_ms, ended_ms, out_bytes, err_bytes, cpu_ns;
};
struct sg_context_row {
    const char *id, *sandbox, *spec; /* spec: JSON of language, cwd, env, kernel, what runs */
    int64_t created_ms;
};
struct sg_org_row {
    const char *id, *name, *quota, *budget; /* JSON; budget NULL: none */
    int64_t created_ms;
};
struct sg_key_row {
    const char *id, *org, *name, *hash, *shown; /* hash: hex SHA-256; shown: first characters */
    const char *scopes, *templates;             /* "read exec admin"; JSON array, "[]": all */
    int64_t created_ms, expires_ms, revoked_ms, rate_per_s; /* 0: never, no limit */
};
struct sg_secret_row {
    const char *id, *org, *name, *metadata, *sealed; /* metadata: JSON; sealed: seal/seal.h */
    const char *binding;                             /* JSON; NULL: to no host */
    int64_t version, created_ms, updated_ms;
};
struct sg_snapshot_row {
    const char *id, *org, *name, *tag, *sandbox, *parent, *template; /* schema/4.sql */
    const char *state;          /* "making", "ready", "going" */
    const char *layer, *traits; /* schema/8.sql */
    int64_t bytes, created_ms, used_ms;
};
struct sg_template_row {
    const char *id, *org, *name, *detail; /* detail: JSON */
    int64_t created_ms, updated_ms;
};
struct sg_build_row {
    const char *id, *template, *state, *detail, *log; /* JSON: the last two */
    int64_t created_ms, updated_ms;
};
struct sg_volume_row {
    const char *id, *org, *name, *token, *state; /* "making", "ready", "removing" */
    int64_t bytes, created_ms;
};
struct sg_netpolicy_row {
    const char *id, *policy; /* schema/9.sql */
};
struct sg_approval_row { /* subject: hex SHA-256 of what is asked for, or "" */
    const char *id, *org, *state, *operation, *summary, *subject, *reason, *asker, *decider;
    int64_t created_ms, expires_ms, decided_ms, used_ms; /* 0: not yet */
};
struct sg_event_row {
    int64_t seq, at_ms;
    const char *org, *sandbox, *type, *data; /* data: JSON object */
};
struct sg_usage_row { /* adds to what is there for (org, sandbox, hour) */
    const char *org, *sandbox;
    int64_t hour; /* unix hours */
    /* How far the kernel's counter was read, and when; at 0: this says nothing of it. Kept with the
     * sandbox, in the same transaction. */
    int64_t meter_cpu_ns, meter_at_ms;
    const char *tier, *operation;
    int64_t wall_ms, cpu_ns, mem_mib_ms, execs, creates, bytes_in, bytes_out;
    int64_t disk_mib_ms, vcpu_milli_ms, allotted_mib_ms, net_in, net_out;
};
struct sg_connection_row { /* verdict: allowed, denied, learned; protocol: tcp, udp, dns */
    int64_t seq, at_ms;    /* seq: the store's own, when read */
    const char *sandbox, *verdict, *protocol, *name, *address, *rule;
    int64_t port, bytes_out, bytes_in, duration_ms, skipped;
};
struct sg_audit_row {
    int64_t seq, at_ms;
    const char *org, *actor, *action, *sandbox, *detail, *request, *prev, *hash;
};

/* Insert or replace by id. `done` may be NULL. */
void sg_store_put_sandbox(struct sg_store *s, const struct sg_sandbox_row *r,
                          enum sg_store_mode mode, sg_store_done *done, void *arg);
void sg_store_put_exec(struct sg_store *s, const struct sg_exec_row *r, enum sg_store_mode mode,
                       sg_store_done *done, void *arg);
void sg_store_put_context(struct sg_store *s, const struct sg_context_row *r,
                          enum sg_store_mode mode, sg_store_done *done, void *arg);
void sg_store_put_org(struct sg_store *s, const struct sg_org_row *r, enum sg_store_mode mode,
                      sg_store_done *done, void *arg);
void sg_store_put_key(struct sg_store *s, const struct sg_key_row *r, enum sg_store_mode mode,
                      sg_store_done *done, void *arg);
void sg_store_put_secret(struct sg_store *s, const struct sg_secret_row *r, enum sg_store_mode mode,
                         sg_store_done *done, void *arg);
void sg_store_put_volume(struct sg_store *s, const struct sg_volume_row *r, enum sg_store_mode mode,
                         sg_store_done *done, void *arg);
void sg_store_put_approval(struct sg_store *s, const struct sg_approval_row *r,
                           enum sg_store_mode mode, sg_store_done *done, void *arg);
void sg_store_add_event(struct sg_store *s, const struct sg_event_row *r); /* old ones are pruned */
void sg_store_add_usage(struct sg_store *s, const struct sg_usage_row *r);
void sg_store_add_connection(struct sg_store *s, const struct sg_connection_row *r); /* as events */
void sg_store_add_audit(struct sg_store *s, const struct sg_audit_row *r, enum sg_store_mode mode,
                        sg_store_done *done, void *arg);
void sg_store_put_snapshot(struct sg_store *s, const struct sg_snapshot_row *r,
                           enum sg_store_mode mode, sg_store_done *done, void *arg);
void sg_store_remove_snapshot(struct sg_store *s, const char *id, sg_store_done *done, void *arg);
void sg_store_put_template(struct sg_store *s, const struct sg_template_row *r,
                           enum sg_store_mode mode, sg_store_done *done, void *arg);
/* With its builds. */
void sg_store_remove_template(struct sg_store *s, const char *id, sg_store_done *done, void *arg);
void sg_store_put_build(struct sg_store *s, const struct sg_build_row *r, enum sg_store_mode mode,
                        sg_store_done *done, void *arg);
void sg_store_remove_build(struct sg_store *s, const char *id, sg_store_done *done, void *arg);
/* With its execs and contexts. */
void sg_store_remove_sandbox(struct sg_store *s, const char *id, sg_store_done *done, void *arg);
void sg_store_remove_exec(struct sg_store *s, const char *id, sg_store_done *done, void *arg);
void sg_store_remove_secret(struct sg_store *s, const char *id, sg_store_done *done, void *arg);
void sg_store_remove_context(struct sg_store *s, const char *id, sg_store_done *done, void *arg);
void sg_store_remove_volume(struct sg_store *s, const char *id, sg_store_done *done, void *arg);
void sg_store_put_netpolicy(struct sg_store *s, const struct sg_netpolicy_row *r,
                            sg_store_done *done, void *arg);
void sg_store_remove_netpolicy(struct sg_store *s, const char *id, sg_store_done *done, void *arg);
void sg_store_remove_approval(struct sg_store *s, const char *id);
/* With its keys. */
void sg_store_remove_org(struct sg_store *s, const char *id, sg_store_done *done, void *arg);

/* ---- reading: on the calling thread, for the start and for rare questions. The callback gets each
 * row in order (texts live for the call) and returns false to stop. ---- */

int sg_store_each_sandbox(struct sg_store *s,
                          bool (*row)(void *arg, const struct sg_sandbox_row *r), void *arg,
                          struct sg_err *err);
int sg_store_each_exec(struct sg_store *s, const char *sandbox, /* NULL: all */
                       bool (*row)(void *arg, const struct sg_exec_row *r), void *arg,
                       struct sg_err *err);
int sg_store_each_context(struct sg_store *s, const char *sandbox,
                          bool (*row)(void *arg, const struct sg_context_row *r), void *arg,
                          struct sg_err *err);
int sg_store_each_org(struct sg_store *s, bool (*row)(void *arg, const struct sg_org_row *r),
                      void *arg, struct sg_err *err);
int sg_store_each_key(struct sg_store *s, bool (*row)(void *arg, const struct sg_key_row *r),
                      void *arg, struct sg_err *err);
int sg_store_each_secret(struct sg_store *s, bool (*row)(void *arg, const struct sg_secret_row *r),
                         void *arg, struct sg_err *err);
int sg_store_each_snapshot(struct sg_store *s,
                           bool (*row)(void *arg, const struct sg_snapshot_row *r), void *arg,
                           struct sg_err *err);
int sg_store_each_volume(struct sg_store *s, bool (*row)(void *arg, const struct sg_volume_row *r),
                         void *arg, struct sg_err *err);
int sg_store_each_template(struct sg_store *s,
                           bool (*row)(void *arg, const struct sg_template_row *r), void *arg,
                           struct sg_err *err);
int sg_store_each_build(struct sg_store *s, bool (*row)(void *arg, const struct sg_build_row *r),
                        void *arg, struct sg_err *err);
int sg_store_each_netpolicy(struct sg_store *s,
                            bool (*row)(void *arg, const struct sg_netpolicy_row *r), void *arg,
                            struct sg_err *err);
int sg_store_each_approval(struct sg_store *s, /* oldest first */
                           bool (*row)(void *arg, const struct sg_approval_row *r), void *arg,
                           struct sg_err *err);
/* After `after_seq`, oldest first. */
int sg_store_each_event(struct sg_store *s, int64_t after_seq,
                        bool (*row)(void *arg, const struct sg_event_row *r), void *arg,
                        struct sg_err *err);
int sg_store_each_audit(struct sg_store *s, int64_t after_seq,
                        bool (*row)(void *arg, const struct sg_audit_row *r), void *arg,
                        struct sg_err *err);
/* Summed by sandbox from `from_hour` on; org NULL: all. */
int sg_store_each_usage(struct sg_store *s, const char *org, int64_t from_hour,
                        bool (*row)(void *arg, const struct sg_usage_row *r), void *arg,
                        struct sg_err *err);

/* Of one sandbox, oldest first: at most `limit` after `after_seq`; the last ones where that is 0.
 */
int sg_store_each_connection(struct sg_store *s, const char *sandbox, int64_t after_seq,
                             unsigned limit,
                             bool (*row)(void *arg, const struct sg_connection_row *r), void *arg,
                             struct sg_err *err);

/* The same, summed by what `by` names; what it does not name is "" or 0. */
enum {
    SG_USAGE_BY_ORG = 1,
    SG_USAGE_BY_SANDBOX = 2,
    SG_USAGE_BY_DAY = 4, /* hour: of its start */
    SG_USAGE_BY_TIER = 8,
    SG_USAGE_BY_OPERATION = 16,
};
int sg_store_sum_usage(struct sg_store *s, const char *org, int64_t from_hour, unsigned by,
                       bool (*row)(void *arg, const struct sg_usage_row *r), void *arg,
                       struct sg_err *err);

/* How far a living sandbox was counted; false: nobody knows. */
bool sg_store_meter(struct sg_store *s, const char *sandbox, uint64_t *ret_cpu_ns,
                    int64_t *ret_at_ms);

/* Where events and audit go on after a restart; 0 and "": nothing there yet. */
struct sg_store_last {
    int64_t event_seq, audit_seq;
    char audit_hash[65];
};
int sg_store_last(struct sg_store *s, struct sg_store_last *ret, struct sg_err *err);

struct sg_store_stats {
    uint64_t writes, commits, failures, queued, file_bytes;
};
struct sg_store_stats sg_store_stats(const struct sg_store *s);
