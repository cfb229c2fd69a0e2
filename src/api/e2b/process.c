/* SPDX-License-Identifier: Apache-2.0 */
/* process.Process, the streams: Start and Connect. A stream is a reader of the exec's journal:
 * start event, output as it comes, end event, and the envelope that ends the stream.
 *
 * Q1. A client that goes away leaves its process running; the deadline of Start is the process's
 * own. Q2. Connect goes on where readers have been so far, so that what nobody has seen is not lost
 * and what somebody has seen does not come twice. Q3. When the sandbox ends, the connection is
 * dropped: that is how clients learn of it. */
#include <stdio.h>
#include <string.h>

#include "api/e2b/e2b.h"
#include "api/e2b/process.h"
#include "base/auto.h"
#include "base/parse.h"
#include "wire/base64.h"
#include "wire/connect.h"
#include "base/banned.h"

enum {
    PIECE_BYTES = 32 << 10,
    BATCH_BYTES = 64 << 10, /* that leave in one write */
    BATCH_MAX = 256 << 10,
    KEEPALIVE_S = 90, /* where the client names no other */
    ROWS_DEFAULT = 24,
    COLS_DEFAULT = 80,
    LATE_MS = 30000, /* so long after its end can be asked for it */
};
#define NS_PER_MS   1000000u
#define NS_PER_S    1000000000u
#define STREAM_TYPE "application/connect+json"

struct stream {
    struct sg_call *call;
    struct sg_loop *loop;
    struct sg_reader reader;
    struct sg_timer beat, deadline;
    uint64_t beat_ns, quiet_since_ns;
    bool is_full, has_tty;
};

/* ---- events ---- */

static void put_start(struct sg_buf *out, uint32_t pid)
{
    size_t mark = sg_connect_open(out);
    sg_buf_addf(out, "{\"event\":{\"start\":{\"pid\":%u}}}", (unsigned)pid);
    sg_connect_close(out, mark, 0);
}

static void put_data(struct sg_buf *out, const char *name, const void *p, size_t n)
{
    size_t mark = sg_connect_open(out);
    sg_buf_add_str(out, "{\"event\":{\"data\":{\"");
    sg_buf_add_str(out, name);
    sg_buf_add_str(out, "\":\"");
    sg_base64_encode(out, p, n);
    sg_buf_add_str(out, "\"}}}");
    sg_connect_close(out, mark, 0);
}

/* As the shell of these clients' home tells it. */
static const char *signal_text(uint32_t number)
{
    static const char *const names[] = { [1] = "hangup",
                                         [2] = "interrupt",
                                         [3] = "quit",
                                         [4] = "illegal instruction",
                                         [5] = "trace/breakpoint trap",
                                         [6] = "aborted",
                                         [7] = "bus error",
                                         [8] = "floating point exception",
                                         [9] = "killed",
                                         [10] = "user defined signal 1",
                                         [11] = "segmentation fault",
                                         [12] = "user defined signal 2",
                                         [13] = "broken pipe",
                                         [14] = "alarm clock",
                                         [15] = "terminated" };
    return number < SG_COUNT(names) && names[number] ? names[number] : NULL;
}

static void put_exit(struct sg_buf *out, const struct sg_exec *x)
{
    char status[64];
    const char *name = signal_text(x->signal);
    const bool is_lost = x->ending == SG_EXEC_LOST; /* how it ended nobody knows: not well */
    if (is_lost)
        (void)snprintf(status, sizeof status, "lost: the sandbox ended");
    else if (!x->signal)
        (void)snprintf(status, sizeof status, "exit status %u", (unsigned)x->code);
    else if (name)
        (void)snprintf(status, sizeof status, "signal: %s", name);
    else
        (void)snprintf(status, sizeof status, "signal: signal %u", (unsigned)x->signal);
    size_t mark = sg_connect_open(out);
    struct sg_json j;
    sg_json_init(&j, out);
    sg_buf_add_str(out, "{\"event\":{\"end\":");
    sg_json_open(&j, '{');
    sg_json_key(&j, "exitCode");
    sg_json_i64(&j, x->signal || is_lost ? -1 : (int64_t)x->code);
    sg_json_put_bool(&j, "exited", !x->signal && !is_lost);
    sg_json_put_str(&j, "status", status);
    if (x->signal || x->code || is_lost)
        sg_json_put_str(&j, "error", status);
    sg_json_close(&j, '}');
    sg_buf_add_str(out, "}}");
    sg_connect_close(out, mark, 0);
}

/* ---- the stream ---- */

static void release(struct stream *st)
{
    sg_reader_close(&st->reader);
    sg_timer_stop(st->loop, &st->beat);
    sg_timer_stop(st->loop, &st->deadline);
}

static void send(struct stream *st, struct sg_buf *out)
{
    if (!out->n)
        return;
    st->quiet_since_ns = sg_loop_now(st->loop);
    if (!sg_reply_start_with(st->call, 200, STREAM_TYPE, out->p, out->n))
        st->is_full = true;
    sg_buf_clear(out);
}

static void finish(struct stream *st, struct sg_buf *out, const char *code, const char *message)
{
    sg_e2b_put_end(out, code, message);
    release(st);
    if (!st->call->has_started)
        send(st, out);
    sg_reply_end_with(st->call, out->p, out->n);
}

static void complete(struct stream *st, struct sg_buf *out)
{
    const struct sg_exec *x = st->reader.exec;
    if (x->ending == SG_EXEC_TIMEOUT) {
        finish(st, out, "deadline_exceeded", "context deadline exceeded");
    } else if (x->ending == SG_EXEC_LOST) {
        send(st, out);
        release(st);
        sg_reply_abort(st->call);
    } else {
        put_exit(out, x);
        finish(st, out, NULL, NULL);
    }
}

/* All that is there, in as few writes as it takes. `out` may hold something already. */
static void pump(struct stream *st, struct sg_buf *out)
{
    static const char *const names[] = { "stdout", "stderr" };
    char piece[PIECE_BYTES];
    while (!st->is_full) {
        enum sg_stream which;
        uint64_t lost = 0;
        ssize_t n = st->reader.exec
                        ? sg_reader_read(&st->reader, &which, piece, sizeof piece, &lost, NULL)
                        : -1;
        if (n < 0) { /* it went with its sandbox */
            release(st);
            sg_reply_abort(st->call);
            return;
        }
        if (n == 0) {
            if (st->reader.exec->is_complete)
                complete(st, out);
            else
                send(st, out);
            return;
        }
        put_data(out, st->has_tty ? "pty" : names[which], piece, (size_t)n);
        if (out->n >= BATCH_BYTES)
            send(st, out);
    }
    send(st, out);
}

static void pump_fresh(struct stream *st)
{
    sg_auto_buf out;
    sg_buf_init(&out, BATCH_MAX);
    pump(st, &out);
}

static void wake(struct sg_reader *r)
{
    pump_fresh(SG_OWNER(r, struct stream, reader));
}

static void drained(struct sg_call *c)
{
    struct stream *st = sg_e2b_visit(c)->own;
    st->is_full = false;
    pump_fresh(st);
}

static void gone(struct sg_call *c)
{
    release(sg_e2b_visit(c)->own);
    sg_reply_end(c);
}

static void beat(struct sg_timer *t, uint64_t now_ns)
{
    struct stream *st = SG_OWNER(t, struct stream, beat);
    uint64_t due = st->quiet_since_ns + st->beat_ns;
    if (now_ns >= due && !st->is_full) {
        sg_auto_buf out;
        sg_buf_init(&out, 128);
        size_t mark = sg_connect_open(&out);
        sg_buf_add_str(&out, "{\"event\":{\"keepalive\":{}}}");
        sg_connect_close(&out, mark, 0);
        send(st, &out);
    }
    sg_timer_set(st->loop, t, now_ns >= due ? now_ns + st->beat_ns : due);
}

/* The manager ends the process; the client need not wait for that. */
static void too_late(struct sg_timer *t, uint64_t now_ns)
{
    struct stream *st = SG_OWNER(t, struct stream, deadline);
    sg_auto_buf out;
    (void)now_ns;
    sg_buf_init(&out, 1024);
    finish(st, &out, "deadline_exceeded", "context deadline exceeded");
}

static int new_stream(struct sg_call *c, struct stream **ret, struct sg_err *err)
{
    struct stream *st = sg_arena_alloc(&c->arena, sizeof *st);
    const char *interval = sg_call_header(c, "Keepalive-Ping-Interval");
    uint64_t seconds = KEEPALIVE_S;
    if (!st)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    if (interval)
        (void)sg_parse_u64(sg_str_of(interval), 1, 86400, &seconds, NULL);
    *st = (struct stream) { .call = c,
                            .loop = sg_manager_loop(c->manager),
                            .reader.wake = wake,
                            .beat.fire = beat,
                            .deadline.fire = too_late,
                            .beat_ns = seconds * NS_PER_S };
    *ret = st;
    return 0;
}

static void follow(struct stream *st, struct sg_exec *x, uint64_t from, uint64_t deadline_ns)
{
    struct sg_call *c = st->call;
    if (c->is_gone) {
        sg_reply_end(c);
        return;
    }
    sg_auto_buf out;
    sg_buf_init(&out, BATCH_MAX);
    sg_e2b_visit(c)->own = st;
    c->on_drain = drained;
    c->on_gone = gone;
    st->has_tty = x->has_tty;
    sg_reader_open(&st->reader, x, from);
    st->quiet_since_ns = sg_loop_now(st->loop);
    sg_timer_set(st->loop, &st->beat, st->quiet_since_ns + st->beat_ns);
    if (deadline_ns)
        sg_timer_set(st->loop, &st->deadline, st->quiet_since_ns + deadline_ns);
    put_start(&out, x->pid);
    pump(st, &out);
}

/* ---- Start ---- */

struct starting {
    struct stream *stream;
    uint64_t timeout_ms;
};

static void started(void *arg, struct sg_exec *x, const struct sg_err *err)
{
    struct starting *s = arg;
    struct sg_call *c = s->stream->call;
    struct sg_err own;
    if (x) {
        follow(s->stream, x, 0, s->timeout_ms * NS_PER_MS);
        return;
    }
    own = *err;
    if (err->sys) /* the program or its directory is not there, or not to be used: the asker's */
        own.kind = SG_INVALID;
    sg_reply_error(c, &own);
}

static int read_argv(struct sg_call *c, const struct sg_jval *process, struct sg_exec_spec *spec,
                     struct sg_err *err)
{
    const char *cmd = sg_e2b_text(process, "cmd");
    const struct sg_jval *args = sg_e2b_get(process, "args");
    size_t n = args && args->kind == SG_J_ARRAY ? args->list.n : 0;
    const char **argv = sg_arena_alloc(&c->arena, (n + 2) * sizeof *argv);
    if (!cmd || !cmd[0])
        return sg_fail(err, SG_INVALID, "process.cmd is missing");
    if (!argv)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    argv[0] = cmd;
    const struct sg_jval *m = n ? args->list.first : NULL;
    for (size_t i = 1; m; m = m->next, i++) {
        if (m->kind != SG_J_STRING || memchr(m->s.p, 0, m->s.n))
            return sg_fail(err, SG_INVALID, "process.args must be texts without NUL");
        argv[i] = m->s.p;
    }
    spec->argv = argv;
    return 0;
}

static bool has_name(const struct sg_pair *v, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(v[i].name, name) == 0)
            return true;
    return false;
}

/* What programs ask to know that they are in a sandbox, under whatever was set by hand. */
static int read_env(struct sg_call *c, const struct sg_sandbox *s, const struct sg_jval *process,
                    struct sg_exec_spec *spec, struct sg_err *err)
{
    const struct {
        const char *name, *value;
    } own[] = { { "E2B_SANDBOX", "true" },
                { "E2B_SANDBOX_ID", s->id.s },
                { "E2B_TEMPLATE_ID", s->template } };
    struct sg_pair *given = NULL;
    size_t n = 0;
    if (sg_call_pairs(c, sg_e2b_get(process, "envs"), "envs", &given, &n, err) < 0)
        return -1;
    struct sg_pair *all = sg_arena_alloc(&c->arena, (n + SG_COUNT(own)) * sizeof *all);
    if (!all)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    if (n)
        memcpy(all, given, n * sizeof *all);
    for (size_t i = 0; i < SG_COUNT(own); i++)
        if (!has_name(given, n, own[i].name) && !has_name(s->env.v, s->env.n, own[i].name))
            all[spec->env_n++ + n] =
                (struct sg_pair) { sg_arena_copy(&c->arena, own[i].name, strlen(own[i].name)),
                                   sg_arena_copy(&c->arena, own[i].value, strlen(own[i].value)) };
    spec->env_n += n;
    spec->env = all;
    return 0;
}

static void read_pty(const struct sg_jval *v, struct sg_exec_spec *spec)
{
    const struct sg_jval *size = sg_e2b_get(v, "size");
    uint64_t rows = sg_e2b_u64(size, "rows", 0), cols = sg_e2b_u64(size, "cols", 0);
    spec->has_tty = true;
    spec->rows = rows && rows <= UINT16_MAX ? (uint32_t)rows : ROWS_DEFAULT;
    spec->cols = cols && cols <= UINT16_MAX ? (uint32_t)cols : COLS_DEFAULT;
}

static int read_timeout(struct sg_call *c, uint64_t *ret_ms, struct sg_err *err)
{
    const char *text = sg_call_header(c, "Connect-Timeout-Ms");
    if (text && sg_parse_u64(sg_str_of(text), 0, 9999999999, ret_ms, err) < 0)
        return sg_wrap(err, "Connect-Timeout-Ms");
    return 0;
}

int sg_envd_start(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    const struct sg_e2b_visit *v = sg_e2b_visit(c);
    const struct sg_jval *process = sg_e2b_get(v->body, "process"),
                         *pty = sg_e2b_get(v->body, "pty");
    const char *cwd = sg_e2b_text(process, "cwd");
    struct sg_exec_spec spec = { .is_background = true };
    struct starting *st = sg_arena_alloc(&c->arena, sizeof *st);
    if (!st)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    if (new_stream(c, &st->stream, err) < 0 || read_argv(c, process, &spec, err) < 0 ||
        read_env(c, s, process, &spec, err) < 0 || read_timeout(c, &st->timeout_ms, err) < 0)
        return -1;
    if (pty)
        read_pty(pty, &spec);
    spec.user = v->user[0] ? v->user : NULL;
    spec.tag = sg_e2b_text(v->body, "tag");
    spec.has_stdin = !pty && sg_e2b_bool(v->body, "stdin", true);
    spec.timeout_ms = st->timeout_ms;
    /* Where relative paths of files start, too; where none is asked for, the directory that the
     * template was built with. */
    const bool is_asked = cwd && *cwd;
    if (!(spec.cwd = sg_e2b_path(c, is_asked ? cwd : s->traits.workdir, err)))
        return -1;
    return sg_exec_start(s, &c->who, &spec, started, st, err);
}

/* ---- Connect ---- */

struct sg_exec *sg_envd_selected(struct sg_call *c, struct sg_sandbox *s, bool may_have_ended,
                                 struct sg_err *err)
{
    const struct sg_jval *selector = sg_e2b_get(sg_e2b_visit(c)->body, "process");
    const char *tag = sg_e2b_text(selector, "tag");
    const uint64_t pid = sg_e2b_u64(selector, "pid", 0);
    const int64_t since_ms = sg_e2b_now_ms() - LATE_MS;
    size_t cursor = 0;
    struct sg_exec *late = NULL;
    for (struct sg_exec *x; (x = sg_exec_next(s, &cursor));) {
        if (tag ? !x->tag || strcmp(x->tag, tag) != 0 : x->pid != pid)
            continue;
        if (x->ending == SG_EXEC_RUNNING)
            return x;
        if (!late && x->ended_ms >= since_ms)
            late = x;
    }
    if (late && may_have_ended)
        return late;
    if (tag)
        (void)sg_fail(err, SG_NOT_FOUND, "process with tag %s not found", sg_quote(tag).s);
    else
        (void)sg_fail(err, SG_NOT_FOUND, "process with pid %llu not found",
                      (unsigned long long)pid);
    return NULL;
}

int sg_envd_connect(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_exec *x = sg_envd_selected(c, s, true, err);
    struct stream *st;
    uint64_t timeout_ms = 0;
    if (!x || new_stream(c, &st, err) < 0 || read_timeout(c, &timeout_ms, err) < 0)
        return -1;
    follow(st, x, x->seen_bytes, timeout_ms * NS_PER_MS);
    return 0;
}
