/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of the native door: the first byte picks a route that reads one, the rest is the body.
 *
 * Behind the handlers is no manager but the functions below, which look at what they were given:
 * texts are whole, messages for init can be encoded, lists end. They never call back, so each call
 * ends where the manager's work would begin. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/rest/rest.h"
#include "api/routes.h"
#include "manager/snapshot.h"
#include "base/auto.h"
#include "base/jsonr.h"
#include "ctl/chan.h"
#include "manager/files.h"
#include "manager/net.h"
#include "manager/volume.h"
#include "fuzz_demand.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static struct sg_org org = { .id.s = "o0000000000000000000", .name = (char[]) { "org" } };
static struct sg_sandbox sandbox = { .id.s = "s0000000000000000000", .org = &org };
static char *argv[] = { NULL };
static struct sg_exec exec_ = { .id.s = "x0000000000000000000", .sandbox = &sandbox, .argv = argv };
static const struct sg_ws_ops *ws; /* of the call, after an upgrade */
static bool is_replied;

/* ---- the call ---- */

const char *sg_call_param(const struct sg_call *c, const char *name)
{
    (void)c;
    (void)name;
    return "";
}

const char *sg_call_header(const struct sg_call *c, const char *name)
{
    (void)c;
    (void)name;
    return NULL;
}

const char *sg_call_query(struct sg_call *c, const char *name)
{
    (void)c;
    (void)name;
    return NULL;
}

int sg_call_query_u64(struct sg_call *c, const char *name, uint64_t min, uint64_t max,
                      uint64_t *inout, struct sg_err *err)
{
    (void)c, (void)name, (void)min, (void)max, (void)inout, (void)err;
    return 0;
}

int sg_call_query_bool(struct sg_call *c, const char *name, bool *inout, struct sg_err *err)
{
    (void)c, (void)name, (void)inout, (void)err;
    return 0;
}

int sg_call_query_only(struct sg_call *c, const char *const *known, struct sg_err *err)
{
    (void)c, (void)known, (void)err;
    return 0;
}

int sg_call_json(struct sg_call *c, const struct sg_jval **ret, struct sg_err *err)
{
    return sg_json_parse(c->body.n ? c->body : sg_str_of("{}"), &c->arena, ret, err);
}

void sg_reply_json(struct sg_call *c, int status, const struct sg_buf *json)
{
    (void)c;
    demand(status >= 200 && status < 300 && json->n);
    is_replied = true;
}

void sg_reply_text(struct sg_call *c, int status, const char *type, const char *text)
{
    (void)c, (void)status, (void)type, (void)text;
    is_replied = true;
}

void sg_reply_empty(struct sg_call *c, int status)
{
    (void)c, (void)status;
    is_replied = true;
}

void sg_reply_error(struct sg_call *c, const struct sg_err *err)
{
    (void)c;
    demand(err->kind != SG_OK);
    is_replied = true;
}

int sg_call_upgrade_ws(struct sg_call *c, const struct sg_ws_ops *ops, struct sg_err *err)
{
    (void)c, (void)err;
    ws = ops;
    return 0;
}

bool sg_ws_send(struct sg_call *c, bool is_text, const void *p, size_t n)
{
    (void)c;
    demand(!is_text || sg_utf8_valid(p, n));
    return true;
}

void sg_ws_close(struct sg_call *c, uint16_t code, const char *reason)
{
    (void)c, (void)reason;
    demand(code >= 1000);
}

/* ---- the manager ---- */

struct sg_sandbox *sg_manager_find(struct sg_manager *m, const struct sg_who *who, const char *id,
                                   struct sg_err *err)
{
    (void)m, (void)who, (void)err;
    check_text(id);
    return &sandbox;
}

struct sg_exec *sg_exec_find(struct sg_sandbox *s, const char *id, struct sg_err *err)
{
    (void)s, (void)id, (void)err;
    return &exec_;
}

const struct sg_org *sg_org_find(struct sg_manager *m, const struct sg_who *who, const char *id,
                                 struct sg_err *err)
{
    (void)m, (void)who, (void)id, (void)err;
    return &org;
}

const struct sg_manager_options *sg_manager_options(const struct sg_manager *m)
{
    static const struct sg_manager_options options;
    (void)m;
    return &options;
}

int sg_manager_create(struct sg_manager *m, const struct sg_who *who, const struct sg_create *c,
                      sg_sandbox_cb *cb, void *arg, struct sg_err *err)
{
    (void)m, (void)who, (void)cb, (void)arg;
    check_text(c->template);
    check_pairs(c->metadata, c->metadata_n);
    check_pairs(c->env, c->env_n);
    return refused(err);
}

int sg_manager_route(struct sg_manager *m, const struct sg_who *who, const struct sg_ask *a,
                     struct sg_decision *ret, struct sg_err *err)
{
    (void)m, (void)who;
    static struct sg_rules *rules;
    if (!rules)
        rules = sg_rules_builtin(err);
    check_text(a->operation);
    check_text(a->agent);
    demand(a->trust < SG_TRUST_COUNT && a->wish < SG_WALL_COUNT);
    return sg_router_decide(rules, &sg_walls_today, a, ret, err);
}

int sg_manager_pause(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb, void *arg,
                     struct sg_err *err)
{
    (void)s, (void)who, (void)cb, (void)arg;
    return refused(err);
}

int sg_manager_pause_disk(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb,
                          void *arg, struct sg_err *err)
{
    (void)s, (void)who, (void)cb, (void)arg;
    return refused(err);
}

int sg_manager_snapshot(struct sg_sandbox *s, const struct sg_who *who, const char *name,
                        const char *tag, sg_snapshot_cb *cb, void *arg, struct sg_err *err)
{
    (void)s, (void)who, (void)cb, (void)arg;
    check_text(name);
    check_text(tag);
    return refused(err);
}

struct sg_snapshot *sg_snapshot_find(struct sg_manager *m, const struct sg_who *who,
                                     const char *ref, struct sg_err *err)
{
    static struct sg_snapshot any;
    (void)m, (void)who, (void)err;
    check_text(ref);
    return &any;
}

int sg_manager_rollback(struct sg_sandbox *s, const struct sg_who *who, struct sg_snapshot *t,
                        sg_sandbox_cb *cb, void *arg, struct sg_err *err)
{
    (void)s, (void)who, (void)t, (void)cb, (void)arg;
    return refused(err);
}

int sg_manager_fork(struct sg_sandbox *s, const struct sg_who *who, const struct sg_fork *f,
                    sg_fork_cb *cb, void *arg, struct sg_err *err)
{
    (void)s, (void)who, (void)cb, (void)arg;
    demand(f->count >= 1 && f->count <= SG_FORKS_MAX && !f->doors);
    return refused(err);
}

int sg_manager_set_limits(struct sg_sandbox *s, const struct sg_who *who,
                          const struct sg_sandbox_limits *l, sg_sandbox_cb *cb, void *arg,
                          struct sg_err *err)
{
    (void)who, (void)l, (void)err;
    cb(arg, s, NULL); /* and on to the next change */
    return 0;
}

int sg_manager_set_metadata(struct sg_sandbox *s, const struct sg_who *who, const struct sg_pair *v,
                            size_t n, sg_sandbox_cb *cb, void *arg, struct sg_err *err)
{
    (void)who, (void)err;
    check_pairs(v, n);
    cb(arg, s, NULL);
    return 0;
}

int sg_manager_set_network(struct sg_sandbox *s, const struct sg_who *who,
                           const struct sg_policy *p, sg_sandbox_cb *cb, void *arg,
                           struct sg_err *err)
{
    (void)s, (void)who, (void)cb, (void)arg;
    if (sg_policy_check(p, err) < 0)
        abort(); /* what was read is in order */
    return refused(err);
}

int sg_manager_set_netlayer(struct sg_manager *m, const struct sg_who *who, enum sg_net_layer kind,
                            const char *name, const struct sg_policy *p, sg_netlayer_cb *cb,
                            void *arg, struct sg_err *err)
{
    (void)m, (void)who, (void)kind, (void)name, (void)cb, (void)arg;
    if (sg_policy_check(p, err) < 0)
        abort();
    return refused(err);
}

int sg_manager_set_timeout(struct sg_sandbox *s, const struct sg_who *who, uint64_t timeout_ms,
                           sg_sandbox_cb *cb, void *arg, struct sg_err *err)
{
    (void)s, (void)who, (void)timeout_ms, (void)cb, (void)arg;
    return refused(err);
}

int sg_exec_start(struct sg_sandbox *s, const struct sg_who *who, const struct sg_exec_spec *spec,
                  sg_exec_cb *cb, void *arg, struct sg_err *err)
{
    (void)s, (void)who, (void)cb, (void)arg;
    demand(spec->argv[0] && spec->argv[0][0]);
    for (const char *const *a = spec->argv; *a; a++)
        check_text(*a);
    check_pairs(spec->env, spec->env_n);
    check_text(spec->cwd);
    check_text(spec->user);
    check_text(spec->tag);
    demand(spec->rows <= 65535 && spec->cols <= 65535);
    return refused(err);
}

static struct sg_code_context context = { .id.s = "c0000000000000000000",
                                          .language = (char[]) { "python" },
                                          .cwd = (char[]) { "/" } };

struct sg_code_context *sg_code_find(struct sg_sandbox *s, const char *id, struct sg_err *err)
{
    (void)s, (void)err;
    check_text(id);
    return &context;
}

struct sg_code_context *sg_code_default(struct sg_sandbox *s, const struct sg_who *who,
                                        const char *language, struct sg_err *err)
{
    (void)s, (void)who, (void)err;
    check_text(language);
    return &context;
}

int sg_code_create(struct sg_sandbox *s, const struct sg_who *who,
                   const struct sg_code_context_spec *spec, sg_code_context_cb *cb, void *arg,
                   struct sg_err *err)
{
    (void)s, (void)who, (void)cb, (void)arg;
    check_text(spec->language);
    check_text(spec->cwd);
    check_pairs(spec->env, spec->env_n);
    return refused(err);
}

int sg_code_run(struct sg_code_context *c, const struct sg_who *who,
                const struct sg_code_spec *spec, struct sg_code_client *k, struct sg_err *err)
{
    (void)c, (void)who, (void)k;
    demand(sg_utf8_valid(spec->code.p, spec->code.n));
    check_pairs(spec->env, spec->env_n);
    return refused(err);
}

int sg_exec_signal(struct sg_exec *x, const struct sg_who *who, int number, struct sg_err *err)
{
    (void)x, (void)who;
    demand(number >= 1 && number <= 64);
    return refused(err);
}

int sg_exec_resize(struct sg_exec *x, uint32_t rows, uint32_t cols, struct sg_err *err)
{
    (void)x, (void)rows, (void)cols;
    return refused(err);
}

int sg_exec_close_stdin(struct sg_exec *x, struct sg_err *err)
{
    (void)x;
    return refused(err);
}

ssize_t sg_exec_write(struct sg_exec *x, const void *p, size_t n, struct sg_err *err)
{
    (void)x, (void)err;
    demand(p && n);
    return (ssize_t)(n < 7 ? n : 7);
}

void sg_exec_forget_writable(struct sg_exec *x, void *arg)
{
    (void)x, (void)arg;
}

void sg_reader_open(struct sg_reader *r, struct sg_exec *x, uint64_t at)
{
    r->exec = x;
    r->at = at;
}

void sg_reader_close(struct sg_reader *r)
{
    r->exec = NULL;
}

ssize_t sg_reader_read(struct sg_reader *r, enum sg_stream *ret_stream, void *to, size_t cap,
                       uint64_t *ret_lost, struct sg_err *err)
{
    (void)r, (void)ret_stream, (void)to, (void)cap, (void)ret_lost, (void)err;
    return 0;
}

int sg_files_ask(struct sg_sandbox *s, const struct sg_who *who, struct sg_msg *m, const int *fds,
                 unsigned fd_count, sg_files_cb *cb, void *arg, struct sg_err *err)
{
    (void)s, (void)who, (void)fds, (void)fd_count, (void)cb, (void)arg;
    sg_auto_buf out;
    sg_buf_init(&out, SG_CTL_MAX_BYTES);
    if (sg_msg_encode(m, &out, err) < 0) /* too long a path is init's to refuse, politely */
        return -1;
    return refused(err);
}

int sg_files_copy(struct sg_sandbox *from, const char *path, struct sg_sandbox *to,
                  const char *to_path, const struct sg_who *who, sg_files_done_cb *cb, void *arg,
                  struct sg_err *err)
{
    (void)from, (void)to, (void)who, (void)cb, (void)arg;
    demand(path && to_path);
    check_text(path);
    check_text(to_path);
    return refused(err);
}

int sg_key_create(struct sg_manager *m, const struct sg_who *who, const struct sg_key_spec *spec,
                  sg_key_cb *cb, void *arg, struct sg_err *err)
{
    (void)m, (void)who, (void)cb, (void)arg;
    check_text(spec->name);
    check_text(spec->org);
    for (const char *const *t = spec->templates; t && *t; t++)
        check_text(*t);
    demand((spec->scopes & ~(unsigned)SG_SCOPE_ALL) == 0);
    return refused(err);
}

int sg_volume_create(struct sg_manager *m, const struct sg_who *who, const char *name,
                     uint64_t bytes, sg_volume_cb *cb, void *arg, struct sg_err *err)
{
    (void)m, (void)who, (void)bytes, (void)cb, (void)arg;
    check_text(name);
    return refused(err);
}

/* The input is libFuzzer's own. */
void sg_call_wipe(struct sg_call *c, struct sg_str part)
{
    (void)c, (void)part;
}

int sg_org_create(struct sg_manager *m, const struct sg_who *who, const char *name,
                  const struct sg_quota *quota, sg_org_cb *cb, void *arg, struct sg_err *err)
{
    (void)m, (void)who, (void)quota, (void)cb, (void)arg;
    demand(name);
    return refused(err);
}

const char *const sg_period_names[SG_PERIOD_COUNT] = { "day", "month", "total" };
const char *const sg_spent_names[SG_SPENT_COUNT] = { "warn", "pause", "refuse" };

int sg_org_set_budget(struct sg_manager *m, const struct sg_who *who, const char *id,
                      const struct sg_budget *b, sg_org_cb *cb, void *arg, struct sg_err *err)
{
    (void)m, (void)who, (void)id, (void)cb, (void)arg;
    if (b && (!b->pico || b->warn_percent > 100))
        abort();
    return refused(err);
}

int sg_org_change(struct sg_manager *m, const struct sg_who *who, const char *id, const char *name,
                  const struct sg_quota *quota, sg_org_cb *cb, void *arg, struct sg_err *err)
{
    (void)m, (void)who, (void)id, (void)name, (void)quota, (void)cb, (void)arg;
    return refused(err);
}

void sg_call_pause_body(struct sg_call *c, bool is_paused)
{
    (void)c, (void)is_paused;
}

struct sg_loop *sg_manager_loop(const struct sg_manager *m)
{
    (void)m;
    return NULL; /* nothing is ever put off */
}

/* ---- one body ---- */

/* Routes whose body is JSON, and the two WebSockets, whose messages are. */
static bool reads_json(const struct sg_route *r)
{
    static const char *const none[] = { "/pause",     "/resume",  "/stop",     "/start",
                                        "/reconcile", "/restart", "/interrupt" };
    if (r->method == M_GET)
        return strstr(r->path, "/ws") != NULL;
    if ((r->method != M_POST && r->method != M_PATCH && r->method != M_PUT) ||
        r->flags & SG_ROUTE_STREAM)
        return false;
    for (size_t i = 0; i < SG_COUNT(none); i++)
        if (strlen(r->path) > strlen(none[i]) &&
            strcmp(r->path + strlen(r->path) - strlen(none[i]), none[i]) == 0)
            return false;
    return true;
}

static const struct sg_route *pick(uint8_t which)
{
    size_t count = 0;
    for (size_t i = 0; i < sg_rest_routes.n; i++)
        count += reads_json(&sg_rest_routes.v[i]);
    size_t left = which % count;
    for (size_t i = 0;; i++)
        if (reads_json(&sg_rest_routes.v[i]) && left-- == 0)
            return &sg_rest_routes.v[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    if (!n)
        return 0;
    static char empty[1];
    struct sg_call c = { .route = pick(p[0]), .path = empty, .raw_query = empty };
    struct sg_err err = { 0 };
    sg_arena_init(&c.arena, SG_CALL_MAX_BODY);
    ws = NULL;
    is_replied = false;
    c.method = c.route->method;
    c.body = (struct sg_str) { (const char *)p + 1, n - 1 };
    int result = c.route->handle(&c, &err);
    demand(result == 0 ? is_replied || ws : err.kind != SG_OK && err.msg[0]);
    if (ws) {
        ws->message(&c, true, p + 1, n - 1);
        ws->message(&c, false, p, n);
        ws->closed(&c);
    }
    sg_arena_done(&c.arena);
    return 0;
}
