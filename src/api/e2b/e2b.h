/* SPDX-License-Identifier: Apache-2.0 */
/* The E2B door: the API that the clients of that name speak, over the same manager calls as every
 * other door.
 *
 * It has two planes. The control plane is a table of routes (routes.c): sandboxes, templates,
 * teams; errors are {"code":404,"message":"..."}. The sandbox plane (plane.c) is what a client says
 * to one sandbox; it comes to the same port and is told apart by headers, host name, token or
 * signature. There, port 49983 is the daemon "envd" that other servers run inside the sandbox: here
 * it is part of this door, so that nothing of it is in a sandbox's reach. Every other port is a
 * connection to what listens inside (proxy.c).
 *
 * What the manager does not know about a sandbox (its token, network settings, whether traffic
 * wakes it) is kept with it as a text of this door's own (record.c). */
#pragma once

#include "api/call.h"
#include "manager/exec.h"
#include "manager/manager.h"

struct sg_packet;
struct sg_route;

#define SG_E2B_ENVD_VERSION "0.6.13" /* whose behaviour we show; clients ask for lower bounds */
enum { SG_E2B_ENVD_PORT = 49983, SG_E2B_MAX_REPLY = 64 << 20 };

/* ---- record.c: what is kept with a sandbox ---- */

enum { SG_E2B_TOKEN_LEN = 64 };
struct sg_e2b_record {
    const char *token;   /* of envd; "": anybody who knows the id may ask */
    const char *traffic; /* of all other ports; "": open */
    const char *mask;    /* host name that services inside are shown, or "" */
    bool resumes;        /* traffic wakes it */
    bool denies_internet, has_internet_flag;
    const struct sg_jval *network; /* as it was given; NULL: none */
};
/* What is kept with `s`; texts live in `a`. False: this door has never seen it. */
bool sg_e2b_record(const struct sg_sandbox *s, struct sg_arena *a, struct sg_e2b_record *ret);
/* As text for the manager; NULL: no room. */
char *sg_e2b_record_text(struct sg_arena *a, const struct sg_e2b_record *r);
/* A token is the sandbox's id and a secret: who shows only the token is found by it. `id` NULL: the
 * secret alone, as it is kept before the id is known. */
void sg_e2b_secret(char ret[SG_E2B_TOKEN_LEN + 1]);
bool sg_e2b_is_same(const char *a, const char *b); /* in constant time */

/* ---- json.c: members of loose JSON, where the unknown is passed over ---- */

/* NULL where it is absent, null or of another type. `key` is camelCase; snake_case is found, too.
 */
const struct sg_jval *sg_e2b_get(const struct sg_jval *v, const char *key);
bool sg_e2b_is_key(struct sg_str key, const char *camel);
const char *sg_e2b_text(const struct sg_jval *v, const char *key); /* without NUL inside */
bool sg_e2b_bool(const struct sg_jval *v, const char *key, bool otherwise);
uint64_t sg_e2b_u64(const struct sg_jval *v, const char *key, uint64_t otherwise);
/* RFC 3339 in UTC; ns: nine digits, else three. */
void sg_e2b_put_time(struct sg_json *j, const char *key, int64_t unix_ms);
void sg_e2b_put_time_ns(struct sg_json *j, const char *key, uint64_t unix_ns);
void sg_e2b_put_pairs(struct sg_json *j, const char *key, const struct sg_pairs *p);
int64_t sg_e2b_now_ms(void); /* unix */

/* ---- error.c: the three shapes of errors; all are fit for `on_error` ---- */

void sg_e2b_error(struct sg_call *c, int status, const struct sg_err *err); /* code: the status */
void sg_e2b_rpc_error(struct sg_call *c, int status, const struct sg_err *err);
/* Inside a stream: HTTP says 200, and the envelope at the end says what went wrong. */
void sg_e2b_stream_error(struct sg_call *c, int status, const struct sg_err *err);
/* The envelope at the end of a stream, with an error where there is one. */
void sg_e2b_put_end(struct sg_buf *out, const char *code, const char *message);
/* 502, as the proxy in front of a sandbox says it. `port` 0: the sandbox itself is not there. */
void sg_e2b_unreachable(struct sg_call *c, const char *sandbox, uint32_t port);

/* ---- plane.c ---- */

const struct sg_route *sg_e2b_claim(struct sg_call *c); /* server.h */

/* A call of the sandbox plane: its `state`. */
struct sg_e2b_visit {
    char sandbox[SG_ID_LEN + 1];
    uint32_t port;
    const struct sg_envd_route *route;
    const char *user;           /* as asked; "": the sandbox's own */
    const char *home;           /* the user's */
    const char *owner;          /* NULL; or root acts now, for this user: root.h */
    const struct sg_jval *body; /* of an RPC */
    struct sg_e2b_record record;
    bool is_signed;   /* by header or signature: what `files` checks itself is done */
    const char *code; /* of Connect, where an error's kind does not say it; NULL: it does */
    void *own;        /* the handler's */
};
static inline struct sg_e2b_visit *sg_e2b_visit(const struct sg_call *c)
{
    return c->state;
}
/* The sandbox again, later; NULL with SG_UNAVAILABLE where it is gone. */
struct sg_sandbox *sg_e2b_visited(struct sg_call *c, struct sg_err *err);

/* ---- envd.c ---- */

enum {
    SG_ENVD_OPEN = 1,   /* needs no token */
    SG_ENVD_OWN = 2,    /* checks token or signature itself */
    SG_ENVD_UNARY = 4,  /* RPC: JSON in, JSON out */
    SG_ENVD_STREAM = 8, /* RPC: an envelope in, envelopes out */
    SG_ENVD_HOME = 16,  /* wants to know the user's home */
    SG_ENVD_BODY = 32,  /* takes the body in pieces */
    SG_ENVD_JSON = 128, /* a plain route: JSON in, with the user in it */
    SG_ENVD_MANY = 64,  /* RPC: envelopes in, as they come */
};
typedef int sg_envd_handler(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err);
struct sg_envd_route {
    enum sg_method method;
    const char *path;
    unsigned flags;
    sg_envd_handler *handle;
};
const struct sg_envd_route *sg_envd_find(enum sg_method method, const char *path);
/* The sandbox runs and the token is right: body, user, home, handler. */
int sg_envd_enter(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err);
/* An RPC that has nothing to say: {}. */
void sg_envd_reply_nothing(struct sg_call *c);

sg_envd_handler sg_envd_list, sg_envd_start, sg_envd_connect, sg_envd_update, sg_envd_send_input,
    sg_envd_stream_input, sg_envd_send_signal, sg_envd_close_stdin;
sg_envd_handler sg_envd_stat, sg_envd_make_dir, sg_envd_move, sg_envd_list_dir, sg_envd_remove,
    sg_envd_watch_dir, sg_envd_create_watcher, sg_envd_watcher_events, sg_envd_remove_watcher;
sg_envd_handler sg_envd_health, sg_envd_metrics, sg_envd_envs, sg_envd_download, sg_envd_upload,
    sg_envd_compose;

/* ---- account.c: users and groups, as the sandbox's own files say ---- */

struct sg_e2b_accounts {
    struct sg_str passwd, group;
};
typedef int sg_e2b_accounts_cb(struct sg_call *c, const struct sg_e2b_accounts *a,
                               struct sg_err *err);
/* Reads both into the call's arena, then `go`, whose -1 is the reply. */
int sg_e2b_read_accounts(struct sg_call *c, struct sg_sandbox *s, sg_e2b_accounts_cb *go,
                         struct sg_err *err);
/* NULL: there is none. In the arena. */
const char *sg_e2b_home_of(struct sg_call *c, const struct sg_e2b_accounts *a, const char *user);
/* The name, or the number as text where there is none. */
const char *sg_e2b_name_of(struct sg_call *c, struct sg_str file, uint32_t id);

/* ---- path.c ---- */

/* Absolute: "", "~" and what is relative start at the home of the user. */
const char *sg_e2b_path(struct sg_call *c, const char *path, struct sg_err *err);
/* The directory that holds it. In the arena. */
const char *sg_e2b_parent(struct sg_call *c, const char *path);
const char *sg_e2b_basename(const char *path);

/* ---- routes ---- */

typedef int sg_e2b_handler(struct sg_call *c, struct sg_err *err);
sg_e2b_handler sg_e2b_create_v1, sg_e2b_create_v2, sg_e2b_connect_v1, sg_e2b_connect_v2,
    sg_e2b_resume, sg_e2b_list_v1, sg_e2b_list_v2, sg_e2b_info, sg_e2b_kill, sg_e2b_timeout,
    sg_e2b_refresh, sg_e2b_pause, sg_e2b_network;
sg_e2b_handler sg_e2b_metrics, sg_e2b_metrics_of_many, sg_e2b_logs_v1, sg_e2b_logs_v2;
sg_e2b_handler sg_e2b_template_list, sg_e2b_template_get, sg_e2b_template_alias,
    sg_e2b_template_tags, sg_e2b_template_change, sg_e2b_template_remove, sg_e2b_tag, sg_e2b_untag,
    sg_e2b_teams;
sg_e2b_handler sg_e2b_build_create, sg_e2b_build_files, sg_e2b_build_upload, sg_e2b_build_start,
    sg_e2b_build_status, sg_e2b_build_logs;
sg_e2b_handler sg_e2b_snapshot_create, sg_e2b_snapshot_list, sg_e2b_fork;
/* DELETE of a template that is a snapshot: false, there is none; else `*ret` is the handler's. */
bool sg_e2b_snapshot_delete(struct sg_call *c, int *ret, struct sg_err *err);
sg_e2b_handler sg_e2b_no_build, sg_e2b_empty_list;
sg_e2b_handler sg_e2b_volume_list, sg_e2b_volume_create, sg_e2b_volume_get, sg_e2b_volume_remove,
    sg_e2b_volume_stat, sg_e2b_volume_change, sg_e2b_volume_remove_path, sg_e2b_volume_list_dir,
    sg_e2b_volume_make_dir, sg_e2b_volume_read, sg_e2b_volume_write;
/* volumeMounts of a create; of a sandbox, inside an object that is open. */
int sg_e2b_read_mounts(struct sg_call *c, const struct sg_jval *v, struct sg_create *into,
                       struct sg_err *err);
void sg_e2b_put_mounts(struct sg_json *j, const struct sg_sandbox *s);
sg_e2b_handler sg_e2b_secret_list, sg_e2b_secret_create, sg_e2b_secret_get, sg_e2b_secret_update,
    sg_e2b_secret_remove;
/* The sandbox of {id}, which may have a client's suffix; NULL with the text that clients expect. */
struct sg_sandbox *sg_e2b_sandbox(struct sg_call *c, struct sg_err *err);
/* [namespace/]name[:tag], in lower case, without the tag "default"; NULL: no room. */
const char *sg_e2b_template_name(struct sg_call *c, const char *text, struct sg_err *err);
/* The same members, inside an object that is open. */
void sg_e2b_put_sandbox(struct sg_json *j, struct sg_call *c, const struct sg_sandbox *s);
/* {sandboxID,templateID,clientID,envdVersion,...} */
void sg_e2b_reply_sandbox(struct sg_call *c, int status, const struct sg_sandbox *s);
/* The members that lists and details share, inside an object that is open. */
void sg_e2b_put_listed(struct sg_json *j, const struct sg_sandbox *s, int64_t now_ms);
