/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/run: an operation in, its result out. */
#include "api/rest/run.h"

#include <string.h>

#include "base/auto.h"
#include "wire/base64.h"
#include "base/banned.h"

enum { TIMEOUT_MS = 60000, TIMEOUT_MAX_MS = 86400000, APPROVAL_MS = 300000 };
#define WEEK_MS 604800000u

struct body {
    struct sg_rest_ask ask;
    const char *name, *template, *code, *language, *cmd, *cwd, *user, *approval;
    const struct sg_jval *argv, *limits, *env, *files, *collect, *input, *mounts;
    uint64_t timeout_ms, approval_ms, retries;
    struct sg_rest_task_more more;
};
#define AT(f) offsetof(struct body, f)
static const struct sg_jfield fields[] = {
    SG_REST_ASK_ROWS(AT(ask)),
    { "name", SG_JT_STRING, AT(name), 0, 0, false },
    { "template", SG_JT_STRING, AT(template), 0, 0, false },
    { "code", SG_JT_STRING, AT(code), 0, 0, false },
    { "language", SG_JT_STRING, AT(language), 0, 0, false },
    { "cmd", SG_JT_STRING, AT(cmd), 0, 0, false },
    { "argv", SG_JT_ARRAY, AT(argv), 0, 0, false },
    { "cwd", SG_JT_STRING, AT(cwd), 0, 0, false },
    { "user", SG_JT_STRING, AT(user), 0, 0, false },
    { "stdin", SG_JT_VALUE, AT(input), 0, 0, false },
    { "env", SG_JT_OBJECT, AT(env), 0, 0, false },
    { "limits", SG_JT_OBJECT, AT(limits), 0, 0, false },
    { "files", SG_JT_ARRAY, AT(files), 0, 0, false },
    { "mounts", SG_JT_ARRAY, AT(mounts), 0, 0, false },
    { "collect", SG_JT_ARRAY, AT(collect), 0, 0, false },
    { "timeoutMs", SG_JT_U64, AT(timeout_ms), 1, TIMEOUT_MAX_MS, false },
    { "approval", SG_JT_STRING, AT(approval), 0, 0, false },
    { "approvalTimeoutMs", SG_JT_U64, AT(approval_ms), 1, WEEK_MS, false },
    { "retries", SG_JT_U64, AT(retries), 0, SG_TASK_RETRIES_MAX, false },
    /* last: those of a batch */
    { "after", SG_JT_ARRAY, AT(more.after), 0, 0, false },
    { "always", SG_JT_BOOL, AT(more.always), 0, 0, false },
};
enum { FIELDS_ALONE = SG_COUNT(fields) - 2 };
#undef AT

/* ---- the request ---- */

static const char **words(struct sg_call *c, size_t n)
{
    return sg_arena_alloc(&c->arena, (n + 1) * sizeof(const char *));
}

/* Each interpreter reads the program from its standard input. */
static int read_code(struct sg_call *c, const struct body *b, struct sg_task_spec *t,
                     struct sg_err *err)
{
    static const struct {
        const char *language, *argv[3];
    } interpreters[] = {
        { "python", { "python3", "-", NULL } },
        { "javascript", { "node", "-", NULL } },
        { "bash", { "bash", "-s", NULL } },
        { "sh", { "sh", "-s", NULL } },
    };
    const char *language = b->language ? b->language : "python";
    for (size_t i = 0; i < SG_COUNT(interpreters); i++)
        if (strcmp(interpreters[i].language, language) == 0) {
            const char **argv = words(c, 2);
            if (!argv)
                return sg_fail(err, SG_EXHAUSTED, "no room for the call");
            argv[0] = interpreters[i].argv[0];
            argv[1] = interpreters[i].argv[1];
            t->argv = argv;
            t->input = sg_str_of(b->code);
            return 0;
        }
    return sg_fail(err, SG_INVALID, "language is python, javascript, bash or sh, not %s",
                   sg_quote(language).s);
}

static int read_command(struct sg_call *c, const struct body *b, struct sg_task_spec *t,
                        struct sg_err *err)
{
    const char **argv = NULL;
    if (!!b->code + !!b->cmd + !!b->argv > 1)
        return sg_fail(err, SG_INVALID, "one of code, cmd and argv is enough");
    if (b->input && b->input->kind != SG_J_STRING)
        return sg_fail(err, SG_INVALID, "stdin is a text");
    if (b->input && b->code)
        return sg_fail(err, SG_INVALID, "code comes by stdin; the two do not go together");
    if (b->language && !b->code)
        return sg_fail(err, SG_INVALID, "language is for code");
    if (b->input)
        t->input = b->input->s;
    if (b->code)
        return read_code(c, b, t, err);
    if (b->argv && sg_rest_strings(c, b->argv, "argv", &argv, err) < 0)
        return -1;
    if (b->argv && (!argv[0] || !argv[0][0]))
        return sg_fail(err, SG_INVALID, "argv needs a program");
    if (b->cmd && (argv = words(c, 3))) {
        argv[0] = "/bin/sh";
        argv[1] = "-c";
        argv[2] = b->cmd;
    }
    if (b->cmd && !argv)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    t->argv = argv;
    return 0;
}

static int read_file(struct sg_call *c, const struct sg_jval *v, struct sg_task_file *ret,
                     struct sg_err *err)
{
    struct file {
        const char *path;
        const struct sg_jval *text, *base64;
    } f = { 0 };
    static const struct sg_jfield members[] = {
        { "path", SG_JT_STRING, offsetof(struct file, path), 0, 0, true },
        { "text", SG_JT_VALUE, offsetof(struct file, text), 0, 0, false },
        { "base64", SG_JT_VALUE, offsetof(struct file, base64), 0, 0, false },
    };
    if (sg_json_read(v, members, SG_COUNT(members), &f, err) < 0)
        return -1;
    const struct sg_jval *one = f.text ? f.text : f.base64;
    if (!f.path[0] || !f.text == !f.base64 || one->kind != SG_J_STRING)
        return sg_fail(err, SG_INVALID, "a file has a path, and text or base64");
    ret->path = f.path;
    ret->bytes = one->s;
    if (f.text)
        return 0;
    sg_auto_buf bytes;
    sg_buf_init(&bytes, SG_CALL_MAX_BODY);
    if (sg_base64_decode(&bytes, one->s, err) < 0)
        return sg_wrap(err, "%s", sg_quote(f.path).s);
    ret->bytes =
        (struct sg_str) { sg_arena_copy(&c->arena, (const char *)bytes.p, bytes.n), bytes.n };
    return ret->bytes.p ? 0 : sg_fail(err, SG_EXHAUSTED, "no room for the files");
}

static int read_files(struct sg_call *c, const struct sg_jval *list, struct sg_task_spec *t,
                      struct sg_err *err)
{
    if (!list)
        return 0;
    if (list->list.n > SG_TASK_FILES_MAX)
        return sg_fail(err, SG_INVALID, "over %d files", SG_TASK_FILES_MAX);
    struct sg_task_file *files = sg_arena_alloc(&c->arena, (list->list.n + 1) * sizeof *files);
    if (!files)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    for (const struct sg_jval *v = list->list.first; v; v = v->next)
        if (read_file(c, v, &files[t->file_count++], err) < 0)
            return sg_wrap(err, "files");
    t->files = files;
    return 0;
}

static int check_collect(const char *const *collect, struct sg_err *err)
{
    size_t n = 0;
    for (; collect && collect[n]; n++) {
        const char *name = strrchr(collect[n], '/');
        const size_t dir = name ? (size_t)(name - collect[n]) : 0;
        if (!collect[n][0] || n == SG_TASK_FILES_MAX || strcspn(collect[n], "*?[") < dir)
            return sg_fail(err, SG_INVALID,
                           "collect has at most %d paths, and only the last part of one may be a "
                           "pattern",
                           SG_TASK_FILES_MAX);
    }
    return 0;
}

int sg_rest_read_task(struct sg_call *c, const struct sg_jval *v, struct sg_task_spec *ret,
                      struct sg_rest_task_more *more, struct sg_err *err)
{
    struct body b = { .timeout_ms = TIMEOUT_MS, .approval_ms = APPROVAL_MS };
    struct sg_task_spec t = { 0 };
    struct sg_pair *env = NULL;
    const char **collect = NULL;
    struct sg_create create = { 0 };
    if (sg_json_read(v, fields, more ? SG_COUNT(fields) : FIELDS_ALONE, &b, err) < 0 ||
        sg_rest_read_ask(&b.ask, &t.ask, err) < 0 || read_command(c, &b, &t, err) < 0 ||
        sg_rest_limits(b.limits, &t.limits, err) < 0 ||
        sg_call_pairs(c, b.env, "env", &env, &t.env_n, err) < 0 ||
        read_files(c, b.files, &t, err) < 0 || sg_rest_mounts(c, b.mounts, &create, err) < 0 ||
        (b.collect && sg_rest_strings(c, b.collect, "collect", &collect, err) < 0) ||
        check_collect(collect, err) < 0)
        return -1;
    t.name = b.name;
    t.template = b.template;
    t.cwd = b.cwd;
    t.user = b.user;
    t.env = env;
    t.collect = collect;
    t.mounts = create.mounts;
    t.mounts_n = create.mounts_n;
    t.timeout_ms = b.timeout_ms;
    t.approval_ms = b.approval_ms;
    t.approval = b.approval;
    t.retries = (unsigned)b.retries;
    if (more)
        *more = b.more;
    *ret = t;
    return 0;
}

/* ---- the reply ---- */

static void put_files(struct sg_json *j, const struct sg_task_result *r)
{
    sg_json_key(j, "files");
    sg_json_open(j, '[');
    for (size_t i = 0; i < r->file_count; i++) {
        const struct sg_task_out *f = &r->files[i];
        sg_json_open(j, '{');
        sg_rest_put_text(j, "path", f->path);
        sg_json_put_u64(j, "bytes", f->size);
        sg_rest_put_bytes(j, "text", "base64", f->bytes.p, f->bytes.n);
        if (f->bytes.n < f->size)
            sg_json_put_u64(j, "truncatedBytes", f->size - f->bytes.n);
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
}

static void put_times(struct sg_json *j, const struct sg_task_times *t)
{
    sg_json_key(j, "timings");
    sg_json_open(j, '{');
    if (t->approval)
        sg_json_put_u64(j, "approvalMs", t->approval);
    sg_json_put_u64(j, "createMs", t->create);
    sg_json_put_u64(j, "uploadMs", t->upload);
    sg_json_put_u64(j, "runMs", t->run);
    sg_json_put_u64(j, "collectMs", t->collect);
    sg_json_put_u64(j, "totalMs", t->all);
    sg_json_close(j, '}');
}

static void put_error(struct sg_json *j, const struct sg_err *err)
{
    if (err->kind == SG_OK)
        return;
    sg_json_key(j, "error");
    sg_json_open(j, '{');
    sg_rest_put_text(j, "kind", sg_kind_name(err->kind));
    sg_rest_put_text(j, "message", err->msg);
    sg_json_close(j, '}');
}

static void put_output(struct sg_json *j, const struct sg_task_result *r)
{
    if (r->ending == SG_TASK_EXIT)
        sg_json_put_u64(j, "exitCode", r->code);
    if (r->ending == SG_TASK_CRASH || r->ending == SG_TASK_OOM)
        sg_json_put_u64(j, "signal", r->signal);
    sg_rest_put_bytes(j, "stdout", "stdoutBase64", r->output[SG_STREAM_OUT].p,
                      r->output[SG_STREAM_OUT].n);
    sg_rest_put_bytes(j, "stderr", "stderrBase64", r->output[SG_STREAM_ERR].p,
                      r->output[SG_STREAM_ERR].n);
    if (r->lost_bytes)
        sg_json_put_u64(j, "truncatedBytes", r->lost_bytes);
}

void sg_rest_put_result(struct sg_json *j, const struct sg_manager *m,
                        const struct sg_task_result *r)
{
    sg_rest_put_text(j, "ending", sg_task_ending_names[r->ending]);
    put_error(j, &r->err);
    if (r->decision) {
        sg_json_key(j, "decision");
        sg_buf_add_str(j->out, r->decision); /* is JSON already */
        j->needs_comma = true;
    }
    sg_rest_put_text(j, "tier", sg_wall_names[r->wall]);
    put_output(j, r);
    put_files(j, r);
    sg_rest_put_text(j, "sandbox", r->sandbox);
    sg_rest_put_text(j, "approval", r->approval);
    sg_json_key(j, "wasParked");
    sg_json_bool(j, r->was_parked);
    sg_json_put_u64(j, "attempts", r->attempts);
    sg_rest_put_text(j, "lastLoss", r->last_loss);
    put_times(j, &r->times);
    sg_json_key(j, "usage");
    sg_json_open(j, '{');
    sg_rest_put_amount_members(j, m, &r->amounts);
    sg_json_put_u64(j, "memoryPeakBytes", r->mem_peak_bytes);
    sg_json_close(j, '}');
}

/* ---- the call ---- */

struct run {
    struct sg_call *call;
    struct sg_task *task;
    struct sg_task_spec spec;
};

static void finished(void *arg, struct sg_task_result *r)
{
    struct run *run = arg;
    struct sg_call *c = run->call;
    c->on_gone = NULL;
    if (r->ending >= SG_TASK_REFUSED) { /* nothing ran */
        sg_reply_error(c, &r->err);
        return;
    }
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_rest_put_result(&j, c->manager, r);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

static void gone(struct sg_call *c)
{
    struct run *run = c->state;
    c->on_gone = NULL;
    sg_task_cancel(run->task);
    sg_reply_empty(c, 204);
}

int sg_rest_run(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    struct run *run = sg_arena_alloc(&c->arena, sizeof *run);
    if (sg_call_json(c, &body, err) < 0)
        return -1;
    if (!run)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    run->call = c;
    if (sg_rest_read_task(c, body, &run->spec, NULL, err) < 0)
        return -1;
    c->state = run;
    c->on_gone = gone;
    run->task = sg_task_start(c->manager, &c->who, &run->spec, finished, run);
    return 0;
}
