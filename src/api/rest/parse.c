/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/parse: a document that nobody trusts, as text, metadata, tables and page images. It is a
 * task as any other (api/rest/run.h); its program comes with the template. What that gives back was
 * made from hostile bytes: it must be JSON, and is passed on as that and nothing more. */
#include <string.h>

#include "api/rest/run.h"
#include "base/auto.h"
#include "wire/base64.h"
#include "base/banned.h"

#define TEMPLATE "code-interpreter-v1"
#define PROGRAM  "/opt/sandglass/parse/parse"
#define OUT      "/tmp/parsed"
enum {
    TIMEOUT_MS = 60000,
    TIMEOUT_MAX_MS = 600000,
    STATUS_REFUSED = 3, /* of the program: result.json has the reason */
};
#define MEMORY_BYTES     (1ull << 30)
#define MEMORY_MAX_BYTES (64ull << 30)

struct parse {
    struct sg_call *call;
    struct sg_task *task;
    struct sg_task_spec spec;
    struct sg_task_file document;
    const char *argv[5];
};

/* ---- the request ---- */

/* What the document is called inside: the kind of a text is told by its name alone. */
static int read_name(struct sg_call *c, struct parse *p, struct sg_err *err)
{
    const char *name = sg_call_query(c, "name");
    if (!name)
        name = "document";
    const struct sg_str last = sg_last_part(name);
    if (!last.n || last.n > 200 || sg_str_is(last, ".") || sg_str_is(last, ".."))
        return sg_fail(err, SG_INVALID, "name: a file's name of at most 200 bytes, not %s",
                       sg_quote(name).s);
    p->document.path = sg_arena_printf(&c->arena, "/tmp/%.*s", (int)last.n, last.p);
    return p->document.path ? 0 : sg_fail(err, SG_EXHAUSTED, "no room for the call");
}

static int read_query(struct sg_call *c, struct parse *p, struct sg_err *err)
{
    static const char *const known[] = { "name",      "images",      "template",
                                         "timeoutMs", "memoryBytes", NULL };
    static const char *const collect[] = { OUT "/*", NULL };
    const char *template = sg_call_query(c, "template");
    bool wants_images = false;
    p->spec = (struct sg_task_spec) {
        .tool = "parse",
        .template = template ? template : TEMPLATE,
        .limits = { .mem_bytes = MEMORY_BYTES },
        .timeout_ms = TIMEOUT_MS,
        .argv = p->argv,
        .files = &p->document,
        .file_count = 1,
        .collect = collect,
        .cwd = "/tmp",
        .retries = 1,
    };
    const struct sg_rest_ask ask = { .operation = "parse_document" };
    if (sg_rest_read_ask(&ask, &p->spec.ask, err) < 0 || sg_call_query_only(c, known, err) < 0 ||
        read_name(c, p, err) < 0 || sg_call_query_bool(c, "images", &wants_images, err) < 0 ||
        sg_call_query_u64(c, "timeoutMs", 1, TIMEOUT_MAX_MS, &p->spec.timeout_ms, err) < 0 ||
        sg_call_query_u64(c, "memoryBytes", 64 << 20, MEMORY_MAX_BYTES, &p->spec.limits.mem_bytes,
                          err) < 0)
        return -1;
    if (!c->body.n)
        return sg_fail(err, SG_INVALID, "the body is the document, and there is none");
    p->document.bytes = c->body;
    size_t n = 0;
    p->argv[n++] = PROGRAM;
    if (wants_images)
        p->argv[n++] = "--images";
    p->argv[n++] = p->document.path;
    p->argv[n] = OUT;
    return 0;
}

/* ---- the reply ---- */

static bool is_named(const struct sg_task_out *f, const char *name)
{
    const struct sg_str last = sg_last_part(f->path);
    return sg_str_is(last, name);
}

static const struct sg_task_out *find(const struct sg_task_result *r, const char *name)
{
    for (size_t i = 0; i < r->file_count; i++)
        if (is_named(&r->files[i], name))
            return &r->files[i];
    return NULL;
}

/* The reason that the program gave, as an error of ours. */
static int refused(const struct sg_jval *v, struct sg_err *err)
{
    static const struct {
        const char *word;
        enum sg_kind kind;
    } kinds[] = { { "unsupported", SG_UNSUPPORTED }, { "timeout", SG_TIMEOUT } };
    const struct sg_jval *e = sg_json_get(v, "error"), *kind = sg_json_get(e, "kind"),
                         *message = sg_json_get(e, "message");
    if (!kind || !message || kind->kind != SG_J_STRING || message->kind != SG_J_STRING)
        return sg_fail(err, SG_INTERNAL, "the parser gave no reason");
    enum sg_kind k = SG_INVALID;
    for (size_t i = 0; i < SG_COUNT(kinds); i++)
        if (sg_str_is(kind->s, kinds[i].word))
            k = kinds[i].kind;
    return sg_fail(err, k, "the document is refused (%s): %s", sg_quote(kind->s.p).s,
                   sg_quote(message->s.p).s);
}

static int read_result(struct sg_call *c, const struct sg_task_result *r,
                       const struct sg_jval **ret, struct sg_err *err)
{
    const struct sg_task_out *f = find(r, "result.json");
    const struct sg_jval *v;
    if (!f || f->bytes.n < f->size)
        return sg_fail(err, SG_INTERNAL, "the parser ended with status %u and no result", r->code);
    if (sg_json_parse((struct sg_str) { (const char *)f->bytes.p, f->bytes.n }, &c->arena, &v,
                      err) < 0)
        return sg_wrap(err, "the parser's result");
    if (r->code == STATUS_REFUSED)
        return refused(v, err);
    if (r->code != 0 || v->kind != SG_J_OBJECT)
        return sg_fail(err, SG_INTERNAL, "the parser ended with status %u", r->code);
    *ret = v;
    return 0;
}

/* What is not a result: mostly the document's own doing. */
static int check_ending(const struct sg_task_result *r, const struct sg_task_spec *t,
                        struct sg_err *err)
{
    if (r->ending == SG_TASK_EXIT)
        return 0;
    if (r->ending == SG_TASK_PERMITTED)
        return sg_fail(err, SG_DENIED, "the router's rules give parse_document no sandbox");
    if (r->ending == SG_TASK_TIMEOUT)
        return sg_fail(err, SG_TIMEOUT, "the document took over %llu ms; timeoutMs allows more",
                       (unsigned long long)t->timeout_ms);
    if (r->ending == SG_TASK_OOM)
        return sg_fail(err, SG_INVALID,
                       "the document needs over %llu bytes of memory; memoryBytes allows more",
                       (unsigned long long)t->limits.mem_bytes);
    if (r->ending == SG_TASK_CRASH)
        return sg_fail(err, SG_INVALID, "the document made its parser crash (signal %u)",
                       r->signal);
    if (r->err.kind == SG_NOT_FOUND && r->sandbox[0]) /* there is a sandbox: the program is not */
        return sg_fail(err, SG_UNSUPPORTED,
                       "the template has no parser of documents; " TEMPLATE " has one");
    *err = r->err;
    return -1;
}

static void put_images(struct sg_json *j, const struct sg_task_result *r)
{
    sg_json_key(j, "images");
    sg_json_open(j, '[');
    for (size_t i = 0; i < r->file_count; i++) {
        const struct sg_task_out *f = &r->files[i];
        if (is_named(f, "result.json") || f->bytes.n < f->size)
            continue;
        const struct sg_str name = sg_last_part(f->path);
        sg_auto_buf text;
        sg_buf_init(&text, (size_t)2 * SG_TASK_FILE_BYTES);
        sg_base64_encode(&text, f->bytes.p, f->bytes.n);
        sg_json_open(j, '{');
        sg_json_key(j, "name");
        sg_json_text(j, name);
        sg_json_key(j, "base64");
        sg_json_text(j, (struct sg_str) { (const char *)text.p, text.n });
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
}

static void finished(void *arg, struct sg_task_result *r)
{
    struct parse *p = arg;
    struct sg_call *c = p->call;
    const struct sg_jval *v;
    struct sg_err err;
    c->on_gone = NULL;
    if (check_ending(r, &p->spec, &err) < 0 || read_result(c, r, &v, &err) < 0) {
        sg_reply_error(c, &err);
        return;
    }
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "document");
    sg_json_put(&j, v);
    put_images(&j, r);
    sg_json_key(&j, "tier");
    sg_json_str(&j, sg_wall_names[r->wall]);
    sg_json_key(&j, "totalMs");
    sg_json_u64(&j, r->times.all);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

static void gone(struct sg_call *c)
{
    struct parse *p = c->state;
    c->on_gone = NULL;
    sg_task_cancel(p->task);
    sg_reply_empty(c, 204);
}

int sg_rest_parse(struct sg_call *c, struct sg_err *err)
{
    struct parse *p = sg_arena_alloc(&c->arena, sizeof *p);
    if (!p)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *p = (struct parse) { .call = c };
    if (read_query(c, p, err) < 0)
        return -1;
    c->state = p;
    c->on_gone = gone;
    p->task = sg_task_start(c->manager, &c->who, &p->spec, finished, p);
    return 0;
}
