/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/banned.h"

#define MS UINT64_C(1000000)

enum { CONNECTIONS_MAX = 16, CONNECT_MS = 10000 };

/* A socket of libcurl's, which it opens and closes itself. */
struct watched {
    struct sg_http *http;
    struct sg_io io;
};

struct call {
    struct sg_http *http;
    CURL *easy;
    struct curl_slist *headers;
    struct sg_buf body, answer;
    struct sg_io from; /* fd: in place of a body; -1: there is none */
    sg_http_done *done;
    void *arg;
    struct call *next, **link;
};

struct sg_http {
    struct sg_loop *loop;
    const char *socket_path, *shown;
    CURLM *multi;
    struct sg_timer timer;
    struct sg_later look; /* for what has ended: not from inside of libcurl */
    struct call *calls;
};

/* ---- the loop for libcurl ---- */

static void ready(struct sg_io *io, uint32_t events)
{
    const struct watched *w = SG_OWNER(io, struct watched, io);
    struct sg_http *h = w->http;
    const int what = (events & (EPOLLIN | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
                     (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                     (events & EPOLLERR ? CURL_CSELECT_ERR : 0);
    int running;
    (void)curl_multi_socket_action(h->multi, io->fd, what, &running);
    sg_later_call(h->loop, &h->look);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *own)
{
    struct sg_http *h = arg;
    struct watched *w = own;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (w)
            (void)sg_io_want(h->loop, &w->io, 0, NULL);
        free(w);
        return 0;
    }
    if (!w) {
        w = sg_new(struct watched);
        w->http = h;
        w->io = (struct sg_io) { .fd = fd, .ready = ready };
        (void)curl_multi_assign(h->multi, fd, w);
    }
    const uint32_t events =
        (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    return sg_io_want(h->loop, &w->io, events, NULL);
}

static int on_timeout(CURLM *multi, long ms, void *arg)
{
    struct sg_http *h = arg;
    (void)multi;
    if (ms < 0)
        sg_timer_stop(h->loop, &h->timer);
    else
        sg_timer_set(h->loop, &h->timer, sg_loop_now(h->loop) + (uint64_t)ms * MS);
    return 0;
}

static void fire(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_http *h = SG_OWNER(t, struct sg_http, timer);
    int running;
    (void)now_ns;
    (void)curl_multi_socket_action(h->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    sg_later_call(h->loop, &h->look);
}

/* ---- one call ---- */

static size_t on_bytes(char *p, size_t size, size_t n, void *arg)
{
    struct call *c = arg;
    sg_buf_add(&c->answer, p, size * n);
    return c->answer.has_overflowed ? 0 : size * n;
}

/* ---- a body that comes out of a pipe ---- */

/* Nothing there yet: the loop says when there is. */
static size_t on_read(char *p, size_t size, size_t n, void *arg)
{
    struct call *c = arg;
    const ssize_t got = read(c->from.fd, p, size * n);
    if (got >= 0)
        return (size_t)got;
    if (errno != EAGAIN && errno != EINTR)
        return CURL_READFUNC_ABORT;
    return sg_io_want(c->http->loop, &c->from, EPOLLIN, NULL) < 0 ? CURL_READFUNC_ABORT
                                                                  : CURL_READFUNC_PAUSE;
}

static void more(struct sg_io *io, uint32_t events)
{
    struct call *c = SG_OWNER(io, struct call, from);
    struct sg_http *h = c->http;
    int running;
    (void)events;
    (void)sg_io_want(h->loop, io, 0, NULL);
    (void)curl_easy_pause(c->easy, CURLPAUSE_CONT);
    (void)curl_multi_socket_action(h->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    sg_later_call(h->loop, &h->look);
}

static void free_call(struct call *c)
{
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    (void)curl_multi_remove_handle(c->http->multi, c->easy);
    curl_easy_cleanup(c->easy);
    curl_slist_free_all(c->headers);
    if (c->from.fd >= 0)
        sg_io_drop(c->http->loop, &c->from);
    sg_buf_done(&c->body);
    sg_buf_done(&c->answer);
    free(c);
}

static int judge(const struct call *c, CURLcode code, struct sg_err *err)
{
    const struct sg_quoted shown = sg_quote(c->http->shown);
    if (code == CURLE_OK)
        return 0;
    if (c->answer.has_overflowed)
        return sg_fail(err, SG_EXHAUSTED, "the Engine at %s answers with over %d bytes", shown.s,
                       SG_HTTP_MAX);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return sg_fail(err, SG_TIMEOUT, "the Engine at %s does not answer in time", shown.s);
    return sg_fail(err, SG_UNAVAILABLE, "no Docker Engine answers at %s: %s", shown.s,
                   curl_easy_strerror(code));
}

static void end(struct call *c, CURLcode code)
{
    struct sg_err err = { 0 };
    long status = 0;
    const int ret = judge(c, code, &err);
    (void)curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    const struct sg_str body = { sg_buf_cstr(&c->answer), c->answer.n };
    c->done(c->arg, (unsigned)status, body, ret < 0 ? &err : NULL);
    free_call(c);
}

static void look(struct sg_later *later)
{
    struct sg_http *h = SG_OWNER(later, struct sg_http, look);
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(h->multi, &left));) {
        struct call *c = NULL;
        const CURLcode code = m->data.result;
        if (m->msg == CURLMSG_DONE &&
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c) == CURLE_OK)
            end(c, code);
    }
}

/* No redirect, no proxy, no other protocol: the path of the socket is all there is. */
static void set_up(struct call *c, const char *method, const char *path, uint64_t timeout_ms)
{
    sg_auto_free char *url = sg_printf("http://docker%s", path);
    CURL *e = c->easy;
    (void)curl_easy_setopt(e, CURLOPT_URL, url);
    (void)curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, c->http->socket_path);
    (void)curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http");
    (void)curl_easy_setopt(e, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    (void)curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    (void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_bytes);
    (void)curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
    (void)curl_easy_setopt(e, CURLOPT_PRIVATE, c);
    (void)curl_easy_setopt(e, CURLOPT_HTTPHEADER, c->headers);
    if (c->from.fd >= 0) {
        (void)curl_easy_setopt(e, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(e, CURLOPT_READFUNCTION, on_read);
        (void)curl_easy_setopt(e, CURLOPT_READDATA, c);
    } else if (c->body.n || sg_str_is(sg_str_of(method), "POST")) {
        (void)curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE, (long)c->body.n);
        (void)curl_easy_setopt(e, CURLOPT_POSTFIELDS, c->body.p ? (const char *)c->body.p : "");
    }
    (void)curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, method);
}

static struct call *new_call(struct sg_http *h, const char *type, sg_http_done *done, void *arg)
{
    struct call *c = sg_new(struct call);
    *c = (struct call) { .http = h, .done = done, .arg = arg, .next = h->calls, .link = &h->calls };
    if (c->next)
        c->next->link = &c->next;
    h->calls = c;
    c->from = (struct sg_io) { .fd = -1, .ready = more };
    sg_buf_init(&c->body, SG_HTTP_MAX);
    sg_buf_init(&c->answer, SG_HTTP_MAX);
    c->headers = curl_slist_append(NULL, type);
    c->easy = curl_easy_init();
    if (!c->easy || !c->headers)
        abort(); /* as of any small allocation */
    return c;
}

void sg_http_call(struct sg_http *h, const char *method, const char *path, struct sg_str json,
                  uint64_t timeout_ms, sg_http_done *done, void *arg)
{
    struct call *c = new_call(h, "Content-Type: application/json", done, arg);
    if (json.n)
        sg_buf_add(&c->body, json.p, json.n);
    set_up(c, method, path, timeout_ms);
    (void)curl_multi_add_handle(h->multi, c->easy);
}

void sg_http_send(struct sg_http *h, const char *path, int fd, uint64_t timeout_ms,
                  sg_http_done *done, void *arg)
{
    struct call *c = new_call(h, "Content-Type: application/x-tar", done, arg);
    static const char *const more_headers[] = { "Transfer-Encoding: chunked", "Expect:" };
    for (size_t i = 0; i < SG_COUNT(more_headers); i++)
        c->headers = curl_slist_append(c->headers, more_headers[i]);
    c->from.fd = fd;
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    set_up(c, "POST", path, timeout_ms);
    (void)curl_multi_add_handle(h->multi, c->easy);
}

/* ---- all of it ---- */

struct sg_http *sg_http_new(struct sg_loop *l, const char *socket_path, const char *shown,
                            struct sg_err *err)
{
    if (curl_global_init(CURL_GLOBAL_NOTHING) != CURLE_OK) {
        sg_fail(err, SG_INTERNAL, "libcurl cannot be used");
        return NULL;
    }
    struct sg_http *h = sg_new(struct sg_http);
    *h = (struct sg_http) { .loop = l, .socket_path = socket_path, .shown = shown };
    h->multi = curl_multi_init();
    if (!h->multi)
        abort();
    h->timer.fire = fire;
    h->look.call = look;
    (void)curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    (void)curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
    (void)curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
    (void)curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
    (void)curl_multi_setopt(h->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)CONNECTIONS_MAX);
    return h;
}

void sg_http_free(struct sg_http *h)
{
    if (!h)
        return;
    while (h->calls)
        free_call(h->calls);
    (void)curl_multi_cleanup(h->multi);
    sg_timer_stop(h->loop, &h->timer);
    sg_later_cancel(h->loop, &h->look);
    curl_global_cleanup();
    free(h);
}
