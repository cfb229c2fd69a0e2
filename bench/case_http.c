/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server by itself, against nginx with one worker: small replies, and a large file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "service.h"
#include "base/banned.h"

enum { STREAMS = 16, BURST = 4000, SMALL_ROUNDS = 30, FILE_ROUNDS = 20, FILE_MIB = 128 };

/* ---- small replies: a burst of requests over 16 connections that stay ---- */

struct target {
    struct sg_http http[STREAMS];
    const char *path;
    size_t reply_bytes; /* all replies are alike */
    char request[256];
    size_t request_bytes;
};

static int open_target(struct target *t, uint16_t port, const char *path, struct sg_err *err)
{
    t->path = path;
    for (unsigned i = 0; i < STREAMS; i++)
        t->http[i].fd = -1;
    for (unsigned i = 0; i < STREAMS; i++)
        if (sg_http_open(&t->http[i], port, NULL, NULL, err) < 0 ||
            sg_http_ask(&t->http[i], "GET", path, NULL, 200, err) < 0)
            return -1;
    t->reply_bytes = t->http[0].in.n;
    t->request_bytes = (size_t)snprintf(t->request, sizeof t->request,
                                        "GET %s HTTP/1.1\r\nHost: bench\r\n\r\n", path);
    return 0;
}

static void close_target(struct target *t)
{
    for (unsigned i = 0; i < STREAMS; i++)
        sg_http_close(&t->http[i]);
}

/* The time of one request: of a burst over its number. */
static int run_burst(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    struct target *t = ctx;
    sg_auto_fd epoll = epoll_create1(EPOLL_CLOEXEC);
    size_t got[STREAMS] = { 0 };
    unsigned sent = 0, done = 0;
    char piece[8192];
    for (unsigned i = 0; i < STREAMS; i++) {
        struct epoll_event ev = { .events = EPOLLIN, .data.u32 = i };
        (void)epoll_ctl(epoll, EPOLL_CTL_ADD, t->http[i].fd, &ev);
    }
    const uint64_t start_ns = sg_now_ns();
    for (unsigned i = 0; i < STREAMS; i++, sent++)
        (void)!write(t->http[i].fd, t->request, t->request_bytes);
    while (done < BURST) {
        struct epoll_event events[STREAMS];
        const int n = epoll_wait(epoll, events, STREAMS, 5000);
        if (n <= 0 && errno != EINTR)
            return sg_fail(err, SG_TIMEOUT, "%s: no reply", t->path);
        for (int k = 0; k < n; k++) {
            const unsigned i = events[k].data.u32;
            const ssize_t bytes = recv(t->http[i].fd, piece, sizeof piece, MSG_DONTWAIT);
            if (bytes <= 0)
                return sg_fail(err, SG_UNAVAILABLE, "%s: the connection ended", t->path);
            got[i] += (size_t)bytes;
            if (got[i] < t->reply_bytes)
                continue;
            got[i] -= t->reply_bytes;
            done++;
            if (sent < BURST && ++sent)
                (void)!write(t->http[i].fd, t->request, t->request_bytes);
        }
    }
    *ret_ns = (sg_now_ns() - start_ns) / BURST;
    return 0;
}

static int race_small(const struct sg_bench *b, const struct sg_service *s, struct sg_err *err)
{
    struct target *ours = sg_new(struct target), *nginx = sg_new(struct target);
    const unsigned n = sg_bench_rounds(b, SMALL_ROUNDS);
    struct sg_entrant e[] = {
        { .name = "/health", .run = run_burst, .ctx = ours, .n = n },
        { .name = "nginx", .run = run_burst, .ctx = nginx, .n = n },
    };
    int result = open_target(ours, s->port, "/health", err);
    if (result == 0)
        result = open_target(nginx, s->nginx_port, "/small", err);
    if (result == 0)
        result = sg_race(e, SG_COUNT(e), 0, err);
    if (result == 0)
        sg_bench_compare(b, "http", "/health : nginx, a small file", &e[0], &e[1], 2);
    sg_race_done(e, SG_COUNT(e));
    close_target(ours);
    close_target(nginx);
    free(ours);
    free(nginx);
    return result;
}

/* ---- a large file ---- */

struct download {
    struct sg_http http;
    char path[128];
};

static int run_download(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    struct download *d = ctx;
    const uint64_t start_ns = sg_now_ns();
    if (sg_http_send(&d->http, "GET", d->path, NULL, err) < 0)
        return -1;
    const int64_t bytes = sg_http_drop(&d->http, err);
    *ret_ns = sg_now_ns() - start_ns;
    if (bytes < 0)
        return -1;
    return bytes == (int64_t)FILE_MIB << 20
               ? 0
               : sg_fail(err, SG_INTERNAL, "%s: a file of another size", d->path);
}

static int make_file(struct sg_http *h, const char *id, struct sg_err *err)
{
    char path[96], body[128];
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/exec", id);
    (void)snprintf(body, sizeof body, "{\"cmd\":\"head -c %dM /dev/urandom > /workspace/large\"}",
                   FILE_MIB);
    return sg_http_ask(h, "POST", path, body, 200, err);
}

static int race_large(const struct sg_bench *b, const struct sg_service *s, struct sg_err *err)
{
    struct download ours = { .http.fd = -1 }, nginx = { .http.fd = -1, .path = "/large" };
    char id[SG_BENCH_ID];
    const unsigned n = sg_bench_rounds(b, FILE_ROUNDS);
    struct sg_entrant e[] = {
        { .name = "download", .run = run_download, .ctx = &ours, .n = n },
        { .name = "nginx", .run = run_download, .ctx = &nginx, .n = n },
    };
    if (sg_service_connect(s, &ours.http, err) < 0 ||
        sg_http_open(&nginx.http, s->nginx_port, NULL, NULL, err) < 0 ||
        sg_service_create(&ours.http, id, err) < 0)
        return -1;
    int result = make_file(&ours.http, id, err);
    (void)snprintf(ours.path, sizeof ours.path, "/v1/sandboxes/%s/files?path=/workspace/large", id);
    if (result == 0)
        result = sg_race(e, SG_COUNT(e), 0, err);
    if (result == 0)
        sg_bench_compare(b, "http", "download of 128 MiB : nginx", &e[0], &e[1], 1 / 0.6);
    if (result == 0)
        result = sg_service_destroy(&ours.http, id, err);
    sg_race_done(e, SG_COUNT(e));
    sg_http_close(&ours.http);
    sg_http_close(&nginx.http);
    return result;
}

int sg_case_http(const struct sg_bench *b, struct sg_err *err)
{
    struct sg_service s;
    if (sg_service_find(b, &s, err) < 0)
        return -1;
    if (!s.nginx_port) {
        sg_report_add(b->report,
                      &(struct sg_row) { .case_name = "http",
                                         .what = "/health : nginx, a small file",
                                         .missing = "no nginx: 'tools/deps bench' installs it" });
        return 0;
    }
    return race_small(b, &s, err) < 0 ? -1 : race_large(b, &s, err);
}
