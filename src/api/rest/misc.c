/* SPDX-License-Identifier: Apache-2.0 */
/* The service as a whole: templates, the pool, the audit record, the reconciler. */
#include <string.h>

#include "api/rest/rest.h"
#include "api/rest/schema.h"
#include "base/auto.h"
#include "base/parse.h"
#include "manager/built.h"
#include "manager/standby.h"
#include "meter/audit.h"
#include "store/store.h"
#include "base/banned.h"

enum { AUDIT_PAGE = 1000 };

static void put_str(struct sg_json *j, const char *key, const char *value)
{
    sg_json_key(j, key);
    sg_json_str(j, value ? value : "");
}

/* ---- templates and the pool ---- */

/* One that was built here. */
static void put_built(struct sg_json *j, const struct sg_built *t)
{
    sg_json_open(j, '{');
    put_str(j, "name", t->name);
    put_str(j, "id", t->id.s);
    sg_json_key(j, "tags");
    sg_json_open(j, '[');
    for (size_t i = 0; i < t->tag_n; i++)
        sg_json_str(j, t->tags[i].name);
    sg_json_close(j, ']');
    sg_json_key(j, "public");
    sg_json_bool(j, t->is_public);
    sg_json_key(j, "sandboxes");
    sg_json_u64(j, t->spawns);
    sg_rest_put_time(j, "createdAt", t->created_ms);
    sg_rest_put_time(j, "updatedAt", t->updated_ms);
    sg_json_close(j, '}');
}

static void templates_known(void *arg, const char *const *names, size_t n, const struct sg_err *err)
{
    struct sg_call *c = arg;
    if (err) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "templates");
    for (const struct sg_built *t = NULL; (t = sg_built_next(c->manager, &c->who, t));)
        put_built(&j, t);
    for (size_t i = 0; i < n; i++) {
        if (sg_built_find(c->manager, &c->who, names[i], NULL, NULL))
            continue; /* the organisation's own goes before it */
        sg_json_open(&j, '{');
        put_str(&j, "name", names[i]);
        sg_json_close(&j, '}');
    }
    sg_json_close(&j, ']');
    put_str(&j, "default", sg_manager_options(c->manager)->default_template);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

int sg_rest_templates(struct sg_call *c, struct sg_err *err)
{
    return sg_manager_templates(c->manager, templates_known, c, err);
}

/* "template parked wanted" */
static void put_pool(struct sg_json *j, const char *line)
{
    static const char *const keys[] = { "parked", "wanted" };
    size_t n = strcspn(line, " ");
    sg_json_open(j, '{');
    sg_json_key(j, "template");
    sg_json_text(j, (struct sg_str) { line, n });
    for (size_t i = 0; i < SG_COUNT(keys) && line[n]; i++) {
        line += n + 1;
        n = strcspn(line, " ");
        uint64_t value = 0;
        (void)sg_parse_u64((struct sg_str) { line, n }, 0, UINT32_MAX, &value, NULL);
        sg_json_key(j, keys[i]);
        sg_json_u64(j, value);
    }
    sg_json_close(j, '}');
}

/* Those with a start command running: the caller's own, the operator's are all. */
static void put_started(struct sg_json *j, const struct sg_call *c)
{
    const struct sg_standby_counts n =
        sg_standby_counts(c->manager, c->who.is_operator ? NULL : c->who.org);
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = { { "wanted", n.wanted },   { "ready", n.ready }, { "starting", n.starting },
                 { "failing", n.failing }, { "taken", n.taken }, { "failures", n.failures } };
    sg_json_key(j, "started");
    sg_json_open(j, '{');
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        if (i >= 4 && !c->who.is_operator) /* these two are the server's */
            break;
        sg_json_key(j, rows[i].key);
        sg_json_u64(j, rows[i].value);
    }
    if (n.why)
        put_str(j, "why", n.why);
    sg_json_close(j, '}');
}

static void pool_known(void *arg, const char *const *lines, size_t n, const struct sg_err *err)
{
    struct sg_call *c = arg;
    if (err) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "pool");
    for (size_t i = 0; i < n; i++)
        put_pool(&j, lines[i]);
    sg_json_close(&j, ']');
    put_started(&j, c);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

int sg_rest_pool(struct sg_call *c, struct sg_err *err)
{
    return sg_manager_pool(c->manager, pool_known, c, err);
}

/* ---- the audit record ---- */

struct page {
    struct sg_json *j;
    unsigned left;
    int64_t last;
};

static bool put_audit(void *arg, const struct sg_audit_row *r)
{
    struct page *p = arg;
    struct sg_json *j = p->j;
    if (p->left == 0)
        return false;
    p->left--;
    p->last = r->seq;
    sg_json_open(j, '{');
    sg_json_put_i64(j, "seq", r->seq);
    sg_rest_put_time(j, "at", r->at_ms);
    put_str(j, "org", r->org);
    put_str(j, "actor", r->actor);
    put_str(j, "action", r->action);
    put_str(j, "sandbox", r->sandbox);
    put_str(j, "request", r->request);
    sg_json_key(j, "detail");
    sg_buf_add_str(j->out, r->detail && *r->detail ? r->detail : "{}"); /* is JSON already */
    j->needs_comma = true;
    put_str(j, "hash", r->hash);
    sg_json_close(j, '}');
    return true;
}

int sg_rest_audit(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "after", NULL };
    uint64_t after = 0;
    if (sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_u64(c, "after", 0, INT64_MAX, &after, err) < 0)
        return -1;
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "records");
    struct page page = { &j, AUDIT_PAGE, 0 };
    if (sg_store_each_audit(sg_manager_store(c->manager), (int64_t)after, put_audit, &page, err) <
        0)
        return -1;
    sg_json_close(&j, ']');
    if (page.left == 0)
        sg_json_put_i64(&j, "next", page.last);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

static void reply_verdict(void *arg, const struct sg_audit_verdict *v, const struct sg_err *err)
{
    struct sg_call *c = arg;
    if (!v) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_buf out;
    sg_buf_init(&out, 4096);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "whole");
    sg_json_bool(&j, v->broken_at == 0);
    sg_json_key(&j, "records");
    sg_json_u64(&j, v->records);
    if (v->broken_at)
        sg_json_put_i64(&j, "brokenAt", v->broken_at);
    put_str(&j, "head", v->head);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

int sg_rest_audit_verify(struct sg_call *c, struct sg_err *err)
{
    return sg_audit_verify_slowly(sg_manager_loop(c->manager), sg_manager_store(c->manager),
                                  reply_verdict, c, err);
}

/* ---- the reconciler ---- */

static void reply_report(void *arg, const struct sg_reconcile_report *r, const struct sg_err *err)
{
    struct sg_call *c = arg;
    if (!r) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_buf out;
    sg_buf_init(&out, 4096);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_rest_put_time(&j, "at", r->at_ms);
    sg_json_put_i64(&j, "rows", r->rows);
    sg_json_put_i64(&j, "cells", r->cells);
    sg_json_put_i64(&j, "lost", r->lost);
    sg_json_put_i64(&j, "orphans", r->orphans);
    sg_json_put_i64(&j, "staleJournals", r->stale_journals);
    sg_json_put_i64(&j, "unknownExecs", r->unknown_execs);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

int sg_rest_reconcile_get(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    reply_report(c, sg_manager_report(c->manager), NULL);
    return 0;
}

int sg_rest_reconcile_run(struct sg_call *c, struct sg_err *err)
{
    return sg_manager_reconcile(c->manager, reply_report, c, err);
}

int sg_rest_openapi(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_reply_bytes(c, 200, "application/json", sg_schema_openapi, sg_schema_openapi_bytes);
    return 0;
}
