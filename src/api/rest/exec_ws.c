/* SPDX-License-Identifier: Apache-2.0 */
/* A command over a WebSocket: output as binary frames, input and control as frames of either kind
 * (docs/design/service.md). Closing the socket leaves the command running. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "base/banned.h"

enum { PIECE_BYTES = 16384, CLOSE_NORMAL = 1000, CLOSE_POLICY = 1008, CLOSE_INTERNAL = 1011 };
enum { TAG_STDIN = 0, TAG_STDOUT = 1, TURN_BYTES = 128 << 10 };
/* Past ENOUGH the client is not read any more until the command has taken its input; the ceiling
 * has room for one more message. */
enum { INPUT_ENOUGH = 256 << 10, INPUT_MAX = INPUT_ENOUGH + (16 << 20) };

/* Outlives its call while a command is being started. */
struct session {
    struct sg_call *call; /* NULL: closed */
    struct sg_loop *loop; /* outlives the manager, which may be gone when it is closed */
    struct sg_id sandbox;
    struct sg_reader reader;
    struct sg_exec *exec; /* NULL: not started, or gone */
    struct sg_buf input;  /* what the command has not taken yet: from `taken` on */
    size_t taken;
    struct sg_later more;
    bool is_starting, is_full, is_over, closes_input;
};

static void send_json(struct session *s, struct sg_buf *text)
{
    (void)sg_ws_send(s->call, true, text->p, text->n);
}

static void send_type(struct session *s, const char *type, const struct sg_exec *x)
{
    sg_auto_buf out;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "type");
    sg_json_str(&j, type);
    sg_json_key(&j, "exec");
    sg_rest_put_exec(&j, x);
    sg_json_close(&j, '}');
    send_json(s, &out);
}

static void send_error(struct session *s, const struct sg_err *err)
{
    sg_auto_buf out;
    sg_buf_init(&out, 4096);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "type");
    sg_json_str(&j, "error");
    sg_json_key(&j, "kind");
    sg_json_str(&j, sg_kind_name(err->kind));
    sg_json_key(&j, "message");
    sg_json_str(&j, err->msg);
    if (err->sys) { /* tells a missing program from one that cannot run */
        sg_json_key(&j, "errno");
        sg_json_u64(&j, (uint64_t)err->sys);
    }
    sg_json_close(&j, '}');
    send_json(s, &out);
}

static void end_session(struct session *s, uint16_t code, const char *reason)
{
    if (s->is_over)
        return;
    s->is_over = true;
    sg_ws_close(s->call, code, reason);
}

/* ---- output ---- */

static void pump(struct session *s)
{
    uint8_t piece[1 + PIECE_BYTES];
    for (size_t sent = 0; !s->is_full && !s->is_over;) {
        enum sg_stream stream;
        uint64_t lost = 0;
        struct sg_err err;
        if (!s->reader.exec) {
            end_session(s, CLOSE_NORMAL, "the sandbox ended");
            return;
        }
        ssize_t n = sg_reader_read(&s->reader, &stream, piece + 1, PIECE_BYTES, &lost, &err);
        if (n < 0) {
            send_error(s, &err);
            end_session(s, CLOSE_INTERNAL, "the output cannot be read");
            return;
        }
        if (lost) {
            char text[80];
            int m = snprintf(text, sizeof text, "{\"type\":\"truncated\",\"bytes\":%llu}",
                             (unsigned long long)lost);
            (void)sg_ws_send(s->call, true, text, (size_t)m);
        }
        if (n == 0) {
            if (s->reader.exec->is_complete) {
                send_type(s, "end", s->reader.exec);
                end_session(s, CLOSE_NORMAL, "");
            }
            return;
        }
        piece[0] = (uint8_t)(TAG_STDOUT + stream);
        s->is_full = !sg_ws_send(s->call, false, piece, 1 + (size_t)n);
        sent += (size_t)n;
        if (sent >= TURN_BYTES) { /* the others have their turn */
            sg_later_call(s->loop, &s->more);
            return;
        }
    }
}

static void go_on(struct sg_later *later)
{
    pump(SG_OWNER(later, struct session, more));
}

static void wake(struct sg_reader *reader)
{
    struct session *s = SG_OWNER(reader, struct session, reader);
    if (!reader->exec)
        s->exec = NULL;
    pump(s);
}

static void follow(struct session *s, struct sg_exec *x, uint64_t from)
{
    s->exec = x;
    s->reader.wake = wake;
    sg_reader_open(&s->reader, x, from);
    send_type(s, "started", x);
    pump(s);
}

/* ---- input ---- */

static size_t input_left(const struct session *s)
{
    return s->input.n - s->taken;
}

static void feed(void *arg)
{
    struct session *s = arg;
    struct sg_err err;
    if (!s->exec)
        return; /* it has not started yet, and gets it then */
    while (input_left(s)) {
        ssize_t n = sg_exec_write(s->exec, s->input.p + s->taken, input_left(s), &err);
        if (n < 0)
            break; /* it does not read any more */
        if (n == 0) {
            (void)sg_exec_when_writable(s->exec, feed, s, &err);
            return;
        }
        s->taken += (size_t)n;
    }
    s->taken = 0;
    sg_buf_clear(&s->input);
    if (s->call)
        sg_call_pause_body(s->call, false);
    if (s->closes_input)
        (void)sg_exec_close_stdin(s->exec, &err);
    s->closes_input = false;
}

static void take_input(struct session *s, const void *p, size_t n)
{
    const bool was_empty = input_left(s) == 0;
    sg_buf_add(&s->input, p, n);
    if (s->input.has_overflowed)
        end_session(s, CLOSE_POLICY, "more input than the command reads");
    else if (was_empty)
        feed(s);
    if (input_left(s) > INPUT_ENOUGH && !s->is_over)
        sg_call_pause_body(s->call, true);
}

struct control {
    const char *type, *data, *signal;
    uint64_t rows, cols;
};
#define AT(f) offsetof(struct control, f)
static const struct sg_jfield control_fields[] = {
    { "type", SG_JT_STRING, AT(type), 0, 0, true },
    { "data", SG_JT_STRING, AT(data), 0, 0, false },
    { "signal", SG_JT_STRING, AT(signal), 0, 0, false },
    { "rows", SG_JT_U64, AT(rows), 1, 65535, false },
    { "cols", SG_JT_U64, AT(cols), 1, 65535, false },
};
#undef AT

static int obey(struct session *s, const struct sg_jval *body, struct sg_err *err)
{
    struct control m = { 0 };
    int number;
    if (sg_json_read(body, control_fields, SG_COUNT(control_fields), &m, err) < 0)
        return -1;
    if (strcmp(m.type, "stdin") == 0 && m.data) {
        take_input(s, m.data, strlen(m.data));
        return 0;
    }
    if (strcmp(m.type, "closeStdin") == 0) {
        s->closes_input = true;
        if (!input_left(s))
            feed(s);
        return 0;
    }
    if (strcmp(m.type, "resize") == 0 && m.rows && m.cols)
        return sg_exec_resize(s->exec, (uint32_t)m.rows, (uint32_t)m.cols, err);
    if (strcmp(m.type, "signal") == 0 && m.signal)
        return sg_rest_signal(m.signal, &number, err) < 0
                   ? -1
                   : sg_exec_signal(s->exec, &s->call->who, number, err);
    return sg_fail(err, SG_INVALID, "type is stdin, closeStdin, resize or signal, not %s",
                   sg_quote(m.type).s);
}

/* ---- start and messages ---- */

static void free_session(struct session *s)
{
    sg_buf_done(&s->input);
    free(s);
}

static void started(void *arg, struct sg_exec *x, const struct sg_err *err)
{
    struct session *s = arg;
    s->is_starting = false;
    if (!s->call) {
        free_session(s);
    } else if (!x) {
        send_error(s, err);
        end_session(s, CLOSE_NORMAL, "not started");
    } else if (!s->is_over) {
        follow(s, x, 0);
        feed(s); /* what came with the request */
    }
}

static int start(struct session *s, const struct sg_jval *body, struct sg_err *err)
{
    struct sg_rest_exec x;
    struct sg_sandbox *box = sg_manager_find(s->call->manager, &s->call->who, s->sandbox.s, err);
    if (!box || sg_rest_read_exec(s->call, body, &x, err) < 0)
        return -1;
    x.spec.has_stdin = true;
    if (sg_exec_start(box, &s->call->who, &x.spec, started, s, err) < 0)
        return -1;
    s->is_starting = true;
    if (x.input.n)
        sg_buf_add(&s->input, x.input.p, x.input.n);
    return 0;
}

static void message(struct sg_call *c, bool is_text, const void *p, size_t n)
{
    struct session *s = c->state;
    struct sg_err err;
    if (s->is_over)
        return;
    if (!is_text) {
        const uint8_t *bytes = p;
        if (n && bytes[0] == TAG_STDIN)
            take_input(s, bytes + 1, n - 1);
        return;
    }
    sg_auto_arena arena;
    sg_arena_init(&arena, SG_CALL_MAX_BODY);
    const struct sg_jval *body;
    const bool is_first = !s->exec && !s->is_starting;
    /* The first message's parts must live until the command has started. */
    int result =
        sg_json_parse((struct sg_str) { p, n }, is_first ? &c->arena : &arena, &body, &err);
    if (result == 0)
        result = is_first  ? start(s, body, &err)
                 : s->exec ? obey(s, body, &err)
                           : sg_fail(&err, SG_CONFLICT, "the command has not started yet");
    if (result < 0) {
        send_error(s, &err);
        if (is_first)
            end_session(s, CLOSE_POLICY, "not started");
    }
}

static void drain(struct sg_call *c)
{
    struct session *s = c->state;
    s->is_full = false;
    if (s->exec)
        pump(s);
}

static void closed(struct sg_call *c)
{
    struct session *s = c->state;
    s->is_over = true;
    if (s->exec) {
        sg_exec_forget_writable(s->exec, s);
        sg_reader_close(&s->reader);
    }
    sg_later_cancel(s->loop, &s->more);
    s->call = NULL;
    if (!s->is_starting)
        free_session(s);
}

static int open_session(struct sg_call *c, struct session **ret, struct sg_err *err)
{
    static const struct sg_ws_ops ops = { message, drain, closed };
    struct session *s = sg_new(struct session);
    s->call = c;
    s->loop = sg_manager_loop(c->manager);
    s->more.call = go_on;
    sg_buf_init(&s->input, INPUT_MAX);
    c->state = s;
    if (sg_call_upgrade_ws(c, &ops, err) < 0) {
        free_session(s);
        return -1;
    }
    *ret = s;
    return 0;
}

int sg_rest_exec_attach_ws(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "offset", NULL };
    uint64_t offset = 0;
    struct session *s;
    struct sg_exec *x = sg_rest_exec(c, err);
    if (!x || sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_u64(c, "offset", 0, UINT64_MAX - 1, &offset, err) < 0 ||
        open_session(c, &s, err) < 0)
        return -1;
    follow(s, x, offset);
    return 0;
}

int sg_rest_exec_start_ws(struct sg_call *c, struct sg_err *err)
{
    struct session *s;
    struct sg_sandbox *box = sg_rest_sandbox(c, err);
    if (!box)
        return -1;
    const struct sg_id id = box->id;
    if (open_session(c, &s, err) < 0)
        return -1;
    s->sandbox = id;
    return 0;
}
