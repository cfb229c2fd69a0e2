/* SPDX-License-Identifier: Apache-2.0 */
/* The native door: thin adapters. Decode, one call to the manager, encode. No rule lives here. */
#pragma once

#include "api/call.h"
#include "manager/code.h"
#include "manager/exec.h"
#include "manager/manager.h"

struct sg_route;

/* ---- write.c: how things look in JSON ---- */

void sg_rest_put_text(struct sg_json *j, const char *key,
                      const char *value);                                   /* "", NULL: left out */
void sg_rest_put_time(struct sg_json *j, const char *key, int64_t unix_ms); /* 0: left out */
void sg_rest_put_sandbox(struct sg_json *j, const struct sg_sandbox *s);
void sg_rest_put_exec(struct sg_json *j, const struct sg_exec *x);
/* The members alone, inside an object that is open. */
void sg_rest_put_exec_members(struct sg_json *j, const struct sg_exec *x);
/* Text as `key`, or what is no UTF-8 as base64 under `key64`. */
void sg_rest_put_bytes(struct sg_json *j, const char *key, const char *key64, const void *p,
                       size_t n);
/* Makes `out`, which is the caller's to release, and begins {"key":[ in it. */
void sg_rest_open_list(struct sg_json *j, struct sg_buf *out, const char *key);
/* How much one JSON reply may hold. */
enum { SG_REST_MAX_REPLY = 96 << 20 };

/* ---- read.c: what requests have in common ---- */

/* The sandbox of the path's {id}, or the one that shows {volume}; or NULL. */
struct sg_sandbox *sg_rest_sandbox(struct sg_call *c, struct sg_err *err);
/* The exec of {exec} in it, or NULL. */
struct sg_exec *sg_rest_exec(struct sg_call *c, struct sg_err *err);
int sg_rest_limits(const struct sg_jval *v, struct sg_sandbox_limits *ret, struct sg_err *err);
/* An array of strings as a NULL-terminated list in the arena; NULL: absent. */
int sg_rest_strings(struct sg_call *c, const struct sg_jval *v, const char *what, const char ***ret,
                    struct sg_err *err);
int sg_rest_mode(const char *text, uint32_t *ret, struct sg_err *err); /* "0644", "755" */
/* The query's path, which must be there. */
const char *sg_rest_path(struct sg_call *c, struct sg_err *err);
int sg_rest_signal(const char *name, int *ret, struct sg_err *err); /* "TERM", "SIGTERM", "15" */
/* RFC 3339 with a zone, to unix milliseconds. */
int sg_rest_time(const char *text, int64_t *ret_ms, struct sg_err *err);

/* ---- volumes.c ---- */

int sg_rest_mounts(struct sg_call *c, const struct sg_jval *v, struct sg_create *into,
                   struct sg_err *err);
/* The secrets that a sandbox is to use; `ret` is the caller's to end. */
int sg_rest_creds(struct sg_call *c, const struct sg_jval *v, struct sg_cred_set *ret,
                  struct sg_err *err);
void sg_rest_put_creds(struct sg_json *j, const struct sg_sandbox *s);
/* A policy; `ret` is the caller's to end. A password in it is overwritten once it was sealed. */
struct sg_policy;
int sg_rest_read_network(struct sg_call *c, const struct sg_jval *v, struct sg_policy *ret,
                         struct sg_err *err);
void sg_rest_put_mounts(struct sg_json *j, const struct sg_sandbox *s);

/* ---- usage.c ---- */

/* "usage": of one command. */
void sg_rest_put_amounts(struct sg_json *j, const struct sg_manager *m, const struct sg_amounts *a);
/* The members of that alone, inside an object that is open. */
void sg_rest_put_amount_members(struct sg_json *j, const struct sg_manager *m,
                                const struct sg_amounts *a);
/* "cost" and "elsewhere". */
void sg_rest_put_cost(struct sg_json *j, const struct sg_prices *p, const struct sg_amounts *a);

/* Files were changed: those of a volume go to the disk, then `then` is called; those of a sandbox
 * are as they are, and it is called at once. */
void sg_rest_settle(struct sg_call *c, void (*then)(struct sg_call *c, const struct sg_err *err));

/* ---- replies that several handlers give ---- */

void sg_rest_reply_sandbox(void *arg, struct sg_sandbox *s, const struct sg_err *err); /* 200 */
void sg_rest_reply_created(void *arg, struct sg_sandbox *s, const struct sg_err *err); /* 201 */
void sg_rest_reply_done(void *arg, const struct sg_err *err);                          /* 204 */
struct sg_snapshot;
struct sg_build;
void sg_rest_reply_build(struct sg_call *c, int status, const struct sg_build *b, uint64_t offset);
/* The same of one that came in a file, with what was not taken over of that. */
void sg_rest_reply_imported(struct sg_call *c, struct sg_sandbox *s, const char *const *notices,
                            const struct sg_err *err);
void sg_rest_reply_snapshot(struct sg_call *c, const struct sg_snapshot *t); /* 201 */

/* ---- exec.c ---- */

/* The body of an exec as a spec whose parts live in the call's arena. */
struct sg_rest_exec {
    struct sg_exec_spec spec;
    struct sg_str input; /* `stdin` */
};
int sg_rest_read_exec(struct sg_call *c, const struct sg_jval *body, struct sg_rest_exec *ret,
                      struct sg_err *err);

/* ---- collect.c: one reply with the command's end and what the journal has of its output ---- */

void sg_rest_collect(struct sg_call *c, struct sg_exec *x);

/* ---- output.c: a reader that writes NDJSON (or raw bytes) into a call ---- */

struct sg_rest_follow; /* in the call's arena */
enum { SG_FOLLOW_LIVE = 1, SG_FOLLOW_RAW = 2 };
/* Starts the reply and ends the call when the exec is complete (or, not live, when all that is
 * there was sent). */
void sg_rest_follow(struct sg_call *c, struct sg_exec *x, uint64_t from, unsigned flags);

/* ---- route.c: what an operation is, as members of a request ---- */

struct sg_rest_ask {
    const char *operation, *trust, *agent, *tier, *network, *files;
    uint64_t parallel, seconds;
    const struct sg_jval *capabilities;
};
/* Rows of a table of fields, for a struct that has a sg_rest_ask at `at`; all but `network`, which
 * is a policy where there is more to say of it. */
#define SG_REST_ASK_ROW(key, type, at, field, max)                                                 \
    {                                                                                              \
        key, type, (at) + offsetof(struct sg_rest_ask, field), 0, max, false                       \
    }
#define SG_REST_ASK_ROWS(at)                                                                       \
    SG_REST_ASK_ROW("operation", SG_JT_STRING, at, operation, 0),                                  \
        SG_REST_ASK_ROW("trust", SG_JT_STRING, at, trust, 0),                                      \
        SG_REST_ASK_ROW("agent", SG_JT_STRING, at, agent, 0),                                      \
        SG_REST_ASK_ROW("tier", SG_JT_STRING, at, tier, 0),                                        \
        SG_REST_ASK_ROW("needsFiles", SG_JT_STRING, at, files, 0),                                 \
        SG_REST_ASK_ROW("parallel", SG_JT_U64, at, parallel, UINT32_MAX),                          \
        SG_REST_ASK_ROW("seconds", SG_JT_U64, at, seconds, UINT32_MAX),                            \
        SG_REST_ASK_ROW("capabilities", SG_JT_ARRAY, at, capabilities, 0)
int sg_rest_read_ask(const struct sg_rest_ask *in, struct sg_ask *ret, struct sg_err *err);

/* ---- code_collect.c: one reply with all that an execution gave ---- */

int sg_rest_code_collect(struct sg_call *c, struct sg_code_context *context,
                         const struct sg_code_spec *spec, struct sg_err *err);

/* ---- handlers, by file ---- */

typedef int sg_rest_handler(struct sg_call *c, struct sg_err *err);

sg_rest_handler sg_rest_sandbox_create, sg_rest_sandbox_list, sg_rest_sandbox_get,
    sg_rest_sandbox_patch, sg_rest_sandbox_delete, sg_rest_sandbox_delete_all,
    sg_rest_sandbox_timeout, sg_rest_sandbox_keepalive, sg_rest_sandbox_pause,
    sg_rest_sandbox_resume, sg_rest_sandbox_stop, sg_rest_sandbox_start, sg_rest_sandbox_stats,
    sg_rest_sandbox_health, sg_rest_network_get, sg_rest_network_put, sg_rest_network_explain,
    sg_rest_network_learned, sg_rest_connections, sg_rest_netlayer_get, sg_rest_netlayer_put,
    sg_rest_netlayer_remove, sg_rest_port_list, sg_rest_port_open, sg_rest_port_close,
    sg_rest_port_sign, sg_rest_port_connect;

/* A visitor of an open port who may; NULL: it is none. As sg_server_options.claim. */
const struct sg_route *sg_port_claim(struct sg_call *c);
sg_rest_handler sg_rest_exec_start, sg_rest_exec_list, sg_rest_exec_get, sg_rest_exec_output,
    sg_rest_exec_stdin, sg_rest_exec_signal, sg_rest_exec_resize, sg_rest_exec_kill,
    sg_rest_exec_attach_ws, sg_rest_exec_start_ws;
sg_rest_handler sg_rest_file_get, sg_rest_file_put, sg_rest_file_append, sg_rest_file_delete,
    sg_rest_file_stat, sg_rest_file_list, sg_rest_file_search, sg_rest_file_watch,
    sg_rest_file_mkdir, sg_rest_file_move, sg_rest_file_chmod, sg_rest_file_copy, sg_rest_tar_get,
    sg_rest_tar_put;
sg_rest_handler sg_rest_code_run, sg_rest_code_attach, sg_rest_context_list, sg_rest_context_create,
    sg_rest_context_get, sg_rest_context_remove, sg_rest_context_restart, sg_rest_context_interrupt;
sg_rest_handler sg_rest_snapshot_create, sg_rest_snapshot_list, sg_rest_snapshot_get,
    sg_rest_snapshot_delete, sg_rest_sandbox_rollback, sg_rest_sandbox_fork, sg_rest_tree,
    sg_rest_storage, sg_rest_gc, sg_rest_sandbox_export, sg_rest_sandbox_import,
    sg_rest_snapshot_export, sg_rest_snapshot_import;
sg_rest_handler sg_rest_template_pull, sg_rest_build_create, sg_rest_build_files, sg_rest_build_get,
    sg_rest_build_cancel, sg_rest_template_remove;
sg_rest_handler sg_rest_events;
sg_rest_handler sg_rest_batch, sg_rest_parse, sg_rest_intercept;
sg_rest_handler sg_rest_route, sg_rest_run, sg_rest_approval_list, sg_rest_approval_get,
    sg_rest_approval_ask, sg_rest_approval_approve, sg_rest_approval_deny;
sg_rest_handler sg_rest_key_list, sg_rest_key_create, sg_rest_key_revoke, sg_rest_org_list,
    sg_rest_org_create, sg_rest_org_get, sg_rest_org_change, sg_rest_org_remove, sg_rest_whoami;
sg_rest_handler sg_rest_secret_list, sg_rest_secret_get, sg_rest_secret_set, sg_rest_secret_remove;
sg_rest_handler sg_rest_volume_list, sg_rest_volume_create, sg_rest_volume_get,
    sg_rest_volume_resize, sg_rest_volume_remove, sg_rest_volume_files;
sg_rest_handler sg_rest_budget_list, sg_rest_budget_get, sg_rest_budget_set, sg_rest_budget_remove;
sg_rest_handler sg_rest_templates, sg_rest_pool, sg_rest_usage, sg_rest_audit, sg_rest_audit_verify,
    sg_rest_reconcile_get, sg_rest_reconcile_run, sg_rest_health_all, sg_rest_openapi;
