/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake's answer is taken for what it says: 101 to a WebSocket. Its hash protects from
 * caches that repeat an old answer, and none is between us and the service. */
#include "cli/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/out.h"
#include "cli/output.h"
#include "cli/term.h"
#include "wire/base64.h"
#include "wire/ws.h"
#include "base/banned.h"

enum { INPUT_BYTES = 4096, MAX_TEXT = 1 << 20, TAG_STDIN = 0, TAG_STDERR = 2 };

struct session {
    struct sg_api *api;
    struct sg_ws ws;
    struct sg_buf text; /* of a message in pieces */
    int in_fd;          /* -1: at its end */
    int tag;            /* of the binary message in hand */
    int code;           /* -1: it has not ended */
    bool is_over;
    struct sg_err failure; /* kind SG_OK: none */
};

/* ---- out ---- */

static int send_frame(struct session *s, enum sg_ws_op op, const void *p, size_t n,
                      struct sg_err *err)
{
    uint8_t head[SG_WS_MAX_HEAD], mask[4];
    sg_auto_buf frame;
    sg_buf_init(&frame, n + sizeof head);
    if (getrandom(mask, sizeof mask, 0) != sizeof mask)
        return sg_fail_sys(err, "get random bytes");
    sg_buf_add(&frame, head, sg_ws_head(head, op, true, n, mask));
    const size_t start = frame.n;
    sg_buf_add(&frame, p, n);
    if (sg_buf_check(&frame, "the message", err) < 0)
        return -1;
    sg_ws_mask(frame.p + start, n, mask, 0);
    for (size_t at = 0; at < frame.n;) {
        ssize_t sent = send(s->api->http.fd, frame.p + at, frame.n - at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) {
            s->in_fd = -1; /* the service listens no more; what it said last is still to be read */
            return 0;
        }
        if (sent < 0)
            return sg_fail_sys(err, "send to the service");
        at += (size_t)sent;
    }
    return 0;
}

static int send_text(struct session *s, const char *text, struct sg_err *err)
{
    return send_frame(s, SG_WS_OP_TEXT, text, strlen(text), err);
}

static int send_size(struct session *s, struct sg_err *err)
{
    char text[80];
    uint32_t rows, cols;
    sg_term_size(STDOUT_FILENO, &rows, &cols);
    (void)snprintf(text, sizeof text, "{\"type\":\"resize\",\"rows\":%u,\"cols\":%u}", rows, cols);
    return send_text(s, text, err);
}

static int take_input(struct session *s, struct sg_err *err)
{
    uint8_t piece[1 + INPUT_BYTES] = { TAG_STDIN };
    ssize_t n = read(s->in_fd, piece + 1, INPUT_BYTES);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (n > 0)
        return send_frame(s, SG_WS_OP_BINARY, piece, 1 + (size_t)n, err);
    s->in_fd = -1;
    return send_text(s, "{\"type\":\"closeStdin\"}", err);
}

/* ---- in ---- */

static void take_error(struct session *s, const struct sg_jval *v)
{
    enum sg_kind kind = SG_INTERNAL;
    for (int k = SG_OK + 1; k < SG_KIND_COUNT; k++)
        if (strcmp(sg_kind_name((enum sg_kind)k), sg_api_text(v, "kind")) == 0)
            kind = (enum sg_kind)k;
    (void)sg_fail(&s->failure, kind, "%s", sg_quote(sg_api_text(v, "message")).s);
    s->failure.sys = (int)(sg_api_u64(v, "errno") & 0xfff);
}

static int take_text(struct session *s, struct sg_err *err)
{
    const struct sg_jval *v;
    struct sg_str text = { (const char *)s->text.p, s->text.n };
    sg_arena_clear(&s->api->arena);
    if (sg_buf_check(&s->text, "a message", err) < 0 ||
        sg_json_parse(text, &s->api->arena, &v, err) < 0)
        return -1;
    const char *type = sg_api_text(v, "type");
    if (strcmp(type, "end") == 0)
        s->code = sg_exec_exit_code(sg_json_get(v, "exec"));
    else if (strcmp(type, "error") == 0)
        take_error(s, v);
    sg_buf_clear(&s->text);
    return 0;
}

static int take_data(struct session *s, struct sg_input piece, struct sg_err *err)
{
    if (s->ws.is_text) {
        sg_buf_add(&s->text, piece.p, piece.n);
        return s->ws.is_last ? take_text(s, err) : 0;
    }
    if (s->ws.is_first)
        s->tag = -1;
    if (s->tag < 0 && piece.n)
        s->tag = *sg_input_take(&piece, 1);
    return sg_out_write(s->tag == TAG_STDERR ? STDERR_FILENO : STDOUT_FILENO, piece.p, piece.n,
                        err);
}

static int take_frames(struct session *s, struct sg_input in, struct sg_err *err)
{
    struct sg_input piece;
    for (;;) {
        switch (sg_ws_next(&s->ws, &in, &piece, err)) {
        case SG_WS_NEEDS_MORE:
            return 0;
        case SG_WS_DATA:
            if (take_data(s, piece, err) < 0)
                return -1;
            break;
        case SG_WS_PING:
            if (send_frame(s, SG_WS_OP_PONG, piece.p, piece.n, err) < 0)
                return -1;
            break;
        case SG_WS_PONG:
            break;
        case SG_WS_CLOSE:
            s->is_over = true;
            return 0;
        case SG_WS_BAD:
            return -1;
        }
    }
}

static int take_more(struct session *s, struct sg_err *err)
{
    uint8_t piece[16 << 10];
    ssize_t n = recv(s->api->http.fd, piece, sizeof piece, 0);
    if (n < 0 && errno == EINTR)
        return 0;
    if (n < 0)
        return sg_fail_sys(err, "receive from the service");
    s->is_over = n == 0;
    return take_frames(s, (struct sg_input) { piece, (size_t)n }, err);
}

/* ---- the whole ---- */

static int shake_hands(struct session *s, const char *sandbox, struct sg_err *err)
{
    uint8_t nonce[16];
    sg_auto_buf target, key, fields;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&key, 64);
    sg_buf_init(&fields, 256);
    if (getrandom(nonce, sizeof nonce, 0) != sizeof nonce)
        return sg_fail_sys(err, "get random bytes");
    sg_base64_encode(&key, nonce, sizeof nonce);
    sg_buf_addf(&fields,
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: %s\r\n",
                sg_buf_cstr(&key));
    sg_api_path(&target, "sandboxes", sandbox, "exec", "ws");
    struct sg_http *h = &s->api->http;
    if (sg_http_send(h, "GET", sg_buf_cstr(&target), sg_buf_cstr(&fields), NULL, err) < 0 ||
        sg_http_receive(h, err) < 0 || sg_api_check(s->api, err) < 0)
        return -1;
    if (!h->head.is_upgrade)
        return sg_fail(err, SG_INTERNAL, "the service offers no WebSocket (status %d)",
                       h->head.status);
    return 0;
}

static int talk(struct session *s, int signal_fd, struct sg_err *err)
{
    struct sg_http *h = &s->api->http;
    if (take_frames(s, (struct sg_input) { h->in.p + h->at, h->in.n - h->at }, err) < 0)
        return -1;
    while (!s->is_over && s->code < 0 && s->failure.kind == SG_OK) {
        struct signalfd_siginfo info;
        struct pollfd p[] = { { .fd = h->fd, .events = POLLIN },
                              { .fd = s->in_fd, .events = POLLIN },
                              { .fd = signal_fd, .events = POLLIN } };
        if (poll(p, 3, -1) < 0 && errno != EINTR)
            return sg_fail_sys(err, "wait");
        if (p[2].revents && read(signal_fd, &info, sizeof info) == sizeof info) {
            if (info.ssi_signo != SIGWINCH)
                return sg_fail(err, SG_UNAVAILABLE, "ended by a signal; the command goes on");
            if (send_size(s, err) < 0)
                return -1;
        }
        if (p[1].revents && take_input(s, err) < 0)
            return -1;
        if (p[0].revents && take_more(s, err) < 0)
            return -1;
    }
    return 0;
}

int sg_session_run(struct sg_api *a, const char *sandbox, const struct sg_buf *start,
                   struct sg_err *err)
{
    struct session s = { .api = a, .in_fd = STDIN_FILENO, .tag = -1, .code = -1 };
    struct sg_term term = { 0 };
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGWINCH);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    sg_auto_fd signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (signal_fd < 0)
        return sg_fail_sys(err, "make a signal descriptor");
    sg_ws_init(&s.ws, false, UINT64_MAX);
    sg_buf_init(&s.text, MAX_TEXT);
    if (shake_hands(&s, sandbox, err) < 0)
        return -1;
    if (sg_term_is_tty(STDIN_FILENO))
        sg_term_raw(&term, STDIN_FILENO);
    int r = send_frame(&s, SG_WS_OP_TEXT, start->p, start->n, err);
    if (r == 0)
        r = talk(&s, signal_fd, err);
    sg_term_restore(&term);
    sg_buf_done(&s.text);
    if (r == 0 && s.failure.kind != SG_OK && err)
        *err = s.failure;
    if (r < 0 || s.failure.kind != SG_OK)
        return -1;
    return s.code >= 0 ? s.code : sg_fail(err, SG_UNAVAILABLE, "the sandbox ended");
}
