/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: start, list, control. Output is output.c's, WebSockets are exec_ws.c's. */
#include <stddef.h>
#include <string.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "base/banned.h"

enum { ROWS_DEFAULT = 24, COLS_DEFAULT = 80 };

struct body {
    const struct sg_jval *argv, *env, *tty;
    const char *cmd, *cwd, *user, *tag;
    const struct sg_jval *input;
    uint64_t timeout_ms;
    bool is_background;
};
#define AT(f) offsetof(struct body, f)
static const struct sg_jfield fields[] = {
    { "argv", SG_JT_ARRAY, AT(argv), 0, 0, false },
    { "cmd", SG_JT_STRING, AT(cmd), 0, 0, false },
    { "env", SG_JT_OBJECT, AT(env), 0, 0, false },
    { "cwd", SG_JT_STRING, AT(cwd), 0, 0, false },
    { "user", SG_JT_STRING, AT(user), 0, 0, false },
    { "tty", SG_JT_OBJECT, AT(tty), 0, 0, false },
    { "stdin", SG_JT_VALUE, AT(input), 0, 0, false },
    { "timeoutMs", SG_JT_U64, AT(timeout_ms), 0, UINT64_MAX / 1000000, false },
    { "background", SG_JT_BOOL, AT(is_background), 0, 0, false },
    { "tag", SG_JT_STRING, AT(tag), 0, 0, false },
};
#undef AT

static int read_command(struct sg_call *c, const struct body *b, struct sg_exec_spec *spec,
                        struct sg_err *err)
{
    if (!b->argv == !b->cmd)
        return sg_fail(err, SG_INVALID, "one of argv (a list) and cmd (for a shell) is needed");
    const char **argv = NULL;
    if (b->argv && sg_rest_strings(c, b->argv, "argv", &argv, err) < 0)
        return -1;
    if (b->cmd) {
        argv = sg_arena_alloc(&c->arena, 4 * sizeof *argv);
        if (!argv)
            return sg_fail(err, SG_EXHAUSTED, "no room for the call");
        argv[0] = "/bin/sh";
        argv[1] = "-c";
        argv[2] = b->cmd;
    }
    if (!argv[0] || !argv[0][0])
        return sg_fail(err, SG_INVALID, "argv needs a program");
    spec->argv = argv;
    return 0;
}

static int read_tty(const struct sg_jval *v, struct sg_exec_spec *spec, struct sg_err *err)
{
    struct size {
        uint64_t rows, cols;
    } size = { ROWS_DEFAULT, COLS_DEFAULT };
    static const struct sg_jfield members[] = {
        { "rows", SG_JT_U64, offsetof(struct size, rows), 1, 65535, false },
        { "cols", SG_JT_U64, offsetof(struct size, cols), 1, 65535, false },
    };
    if (!v)
        return 0;
    if (sg_json_read(v, members, SG_COUNT(members), &size, err) < 0)
        return sg_wrap(err, "tty");
    spec->has_tty = true;
    spec->rows = (uint32_t)size.rows;
    spec->cols = (uint32_t)size.cols;
    return 0;
}

int sg_rest_read_exec(struct sg_call *c, const struct sg_jval *body, struct sg_rest_exec *ret,
                      struct sg_err *err)
{
    struct body b = { 0 };
    struct sg_rest_exec x = { 0 };
    struct sg_pair *env = NULL;
    if (sg_json_read(body, fields, SG_COUNT(fields), &b, err) < 0 ||
        read_command(c, &b, &x.spec, err) < 0 || read_tty(b.tty, &x.spec, err) < 0 ||
        sg_call_pairs(c, b.env, "env", &env, &x.spec.env_n, err) < 0)
        return -1;
    if (b.input && b.input->kind == SG_J_STRING)
        x.input = b.input->s;
    else if (b.input && b.input->kind != SG_J_BOOL)
        return sg_fail(err, SG_INVALID, "stdin is a text, or true to write to it later");
    x.spec.has_stdin = b.input && (b.input->kind == SG_J_STRING || b.input->b);
    x.spec.env = env;
    x.spec.cwd = b.cwd;
    x.spec.user = b.user;
    x.spec.tag = b.tag;
    x.spec.is_background = b.is_background;
    x.spec.timeout_ms = b.timeout_ms;
    *ret = x;
    return 0;
}

/* ---- input that came with the request ---- */

/* Lives by itself: the command may take its input long after the call has ended. */
struct feed {
    struct sg_exec *exec;
    size_t at, n;
    char text[];
};

static void feed_on(void *arg)
{
    struct feed *f = arg;
    struct sg_err err;
    while (f->at < f->n) {
        ssize_t n = sg_exec_write(f->exec, f->text + f->at, f->n - f->at, &err);
        if (n < 0)
            break; /* it does not read any more */
        f->at += (size_t)n;
        if (n == 0 && sg_exec_when_writable(f->exec, feed_on, f, &err) == 0)
            return;
        if (n == 0)
            break;
    }
    (void)sg_exec_close_stdin(f->exec, &err);
    free(f);
}

static void feed(struct sg_exec *x, struct sg_str text)
{
    struct feed *f = sg_alloc(sizeof *f + text.n);
    f->exec = x;
    f->n = text.n;
    memcpy(f->text, text.p, text.n);
    feed_on(f);
}

/* ---- start ---- */

struct run {
    struct sg_call *call;
    struct sg_str input; /* p NULL: none */
    bool streams;
};

static void reply_started(struct sg_call *c, const struct sg_exec *x)
{
    sg_auto_buf out;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_rest_put_exec(&j, x);
    sg_reply_json(c, 201, &out);
}

static void started(void *arg, struct sg_exec *x, const struct sg_err *err)
{
    struct run *r = arg;
    struct sg_call *c = r->call;
    if (!x) {
        sg_reply_error(c, err);
        return;
    }
    if (r->input.p)
        feed(x, r->input);
    if (x->is_background)
        reply_started(c, x);
    else if (r->streams)
        sg_rest_follow(c, x, 0, SG_FOLLOW_LIVE);
    else
        sg_rest_collect(c, x);
}

int sg_rest_exec_start(struct sg_call *c, struct sg_err *err)
{
    struct sg_rest_exec x;
    const struct sg_jval *body;
    static const char *const known[] = { "stream", NULL };
    bool streams = false;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    struct run *r = sg_arena_alloc(&c->arena, sizeof *r);
    if (!s || sg_call_query_only(c, known, err) < 0 || sg_call_json(c, &body, err) < 0 ||
        sg_rest_read_exec(c, body, &x, err) < 0 ||
        sg_call_query_bool(c, "stream", &streams, err) < 0)
        return -1;
    if (!r)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *r = (struct run) { .call = c, .input = x.input, .streams = streams };
    return sg_exec_start(s, &c->who, &x.spec, started, r, err);
}

/* ---- list and control ---- */

int sg_rest_exec_list(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s)
        return -1;
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "execs");
    size_t cursor = 0;
    for (struct sg_exec *x; (x = sg_exec_next(s, &cursor));)
        sg_rest_put_exec(&j, x);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

int sg_rest_exec_get(struct sg_call *c, struct sg_err *err)
{
    struct sg_exec *x = sg_rest_exec(c, err);
    if (!x)
        return -1;
    sg_auto_buf out;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_rest_put_exec(&j, x);
    sg_reply_json(c, 200, &out);
    return 0;
}

static int done(struct sg_call *c, int result)
{
    if (result == 0)
        sg_reply_empty(c, 204);
    return result;
}

int sg_rest_exec_kill(struct sg_call *c, struct sg_err *err)
{
    struct sg_exec *x = sg_rest_exec(c, err);
    return x ? done(c, sg_exec_kill(x, &c->who, err)) : -1;
}

int sg_rest_exec_signal(struct sg_call *c, struct sg_err *err)
{
    const char *name = NULL;
    int number;
    static const struct sg_jfield members[] = { { "signal", SG_JT_STRING, 0, 0, 0, true } };
    const struct sg_jval *body;
    struct sg_exec *x = sg_rest_exec(c, err);
    if (!x || sg_call_json(c, &body, err) < 0 || sg_json_read(body, members, 1, &name, err) < 0 ||
        sg_rest_signal(name, &number, err) < 0)
        return -1;
    return done(c, sg_exec_signal(x, &c->who, number, err));
}

int sg_rest_exec_resize(struct sg_call *c, struct sg_err *err)
{
    struct sg_exec_spec size = { 0 };
    const struct sg_jval *body;
    struct sg_exec *x = sg_rest_exec(c, err);
    if (!x || sg_call_json(c, &body, err) < 0 || read_tty(body, &size, err) < 0)
        return -1;
    return done(c, sg_exec_resize(x, size.rows, size.cols, err));
}
