/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/banned.h"

enum state { HEAD, BODY, CHUNKS, ASKED, TUNNEL };

struct sg_web {
    enum state state;
    void (*check)(void *arg, struct sg_str host, struct sg_netverdict *v);
    void *arg;
    struct sg_buf held; /* a head that is not complete; after ASKED what came behind it */
    struct sg_http_head head;
    struct sg_chunked chunked;
    uint64_t left; /* of a body */
    bool is_second;
};

struct sg_web *sg_web_new(void (*check)(void *arg, struct sg_str host, struct sg_netverdict *v),
                          void *arg)
{
    struct sg_web *w = sg_new(struct sg_web);
    w->check = check;
    w->arg = arg;
    sg_buf_init(&w->held, SG_HTTP_MAX_HEAD + SG_WEB_PIECE);
    sg_http1_init(&w->head);
    return w;
}

void sg_web_free(struct sg_web *w)
{
    if (!w)
        return;
    sg_buf_done(&w->held);
    free(w);
}

static enum sg_web_got refuse(struct sg_netverdict *v, const char *why)
{
    v->is_allowed = false;
    (void)snprintf(v->rule, sizeof v->rule, "%s", why);
    return SG_WEB_REFUSED;
}

static enum state behind(const struct sg_web *w)
{
    if (w->head.wants_upgrade && !w->is_second)
        return ASKED;
    if (w->head.is_chunked)
        return CHUNKS;
    return w->head.content_length ? BODY : HEAD;
}

/* The head at `at` of `held`: 1: there is one, and it may go on. 0: it is not complete. */
static int take_head(struct sg_web *w, size_t at, size_t *ret_n, struct sg_netverdict *v)
{
    const char *text = (const char *)w->held.p + at;
    const int n = sg_http1_parse(&w->head, text, w->held.n - at, NULL);
    if (n == 0)
        return 0;
    if (n < 0) {
        (void)refuse(v, "http: a request that cannot be read");
        return -1;
    }
    if (sg_str_is(sg_span_str(w->head.method, text), "CONNECT")) {
        (void)refuse(v, "http: CONNECT hides where it goes");
        return -1;
    }
    w->check(w->arg, sg_span_str(w->head.host, text), v);
    if (!v->is_allowed)
        return -1;
    w->state = behind(w);
    w->left = w->head.content_length;
    w->is_second = true;
    sg_chunked_init(&w->chunked);
    sg_http1_init(&w->head);
    *ret_n = (size_t)n;
    return 1;
}

/* How much of the input belongs to the body; -1: it cannot be followed. */
static ssize_t take_body(struct sg_web *w, struct sg_input in)
{
    const size_t all = in.n;
    struct sg_input piece;
    enum sg_chunked_got got;
    if (w->state == BODY) {
        const size_t n = all < w->left ? all : (size_t)w->left;
        w->left -= n;
        if (!w->left)
            w->state = HEAD;
        return (ssize_t)n;
    }
    do
        got = sg_chunked_next(&w->chunked, &in, &piece, NULL);
    while (got == SG_CHUNKED_DATA);
    if (got == SG_CHUNKED_BAD)
        return -1;
    if (got == SG_CHUNKED_END)
        w->state = HEAD;
    return (ssize_t)(all - in.n);
}

/* One part of what is held, from `*at` on. False: there is nothing more to be done for now. */
static bool step(struct sg_web *w, size_t *at, enum sg_web_got *got, struct sg_buf *out,
                 struct sg_netverdict *v)
{
    size_t n = w->held.n - *at;
    if (n == 0 || w->state == ASKED)
        return false;
    if (w->state == HEAD) {
        const int is_whole = take_head(w, *at, &n, v);
        if (is_whole < 0)
            *got = SG_WEB_REFUSED;
        if (is_whole <= 0)
            return false;
    } else if (w->state != TUNNEL) {
        const ssize_t taken = take_body(w, (struct sg_input) { w->held.p + *at, n });
        if (taken < 0) {
            *got = refuse(v, "http: a body that cannot be followed");
            return false;
        }
        n = (size_t)taken;
    }
    sg_buf_add(out, w->held.p + *at, n);
    *at += n;
    return true;
}

static enum sg_web_got go_on(struct sg_web *w, struct sg_buf *out, struct sg_netverdict *v)
{
    enum sg_web_got got = SG_WEB_ON;
    size_t at = 0;
    if (w->held.has_overflowed)
        return refuse(v, "http: a head that is too long");
    while (step(w, &at, &got, out, v))
        ;
    if (at)
        memmove(w->held.p, w->held.p + at, w->held.n - at);
    w->held.n -= at;
    return got == SG_WEB_ON && w->state == ASKED ? SG_WEB_ASKED : got;
}

enum sg_web_got sg_web_feed(struct sg_web *w, const uint8_t *p, size_t n, struct sg_buf *out,
                            struct sg_netverdict *v)
{
    sg_buf_add(&w->held, p, n);
    return go_on(w, out, v);
}

enum sg_web_got sg_web_answered(struct sg_web *w, bool is_upgraded, struct sg_buf *out,
                                struct sg_netverdict *v)
{
    w->state = is_upgraded ? TUNNEL : HEAD;
    return go_on(w, out, v);
}
