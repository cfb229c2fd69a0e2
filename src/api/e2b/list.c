/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of sandboxes. A page goes on after the place of the last one seen, which is its start and
 * its id, so that a sandbox that has ended meanwhile does not break the walk. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "base/parse.h"
#include "wire/url.h"
#include "base/banned.h"

enum { PAGE_MAX = 100, MAX_FILTERS = 32, BATCH = 256 };

struct query {
    struct sg_list_query q;
    struct sg_pair filters[MAX_FILTERS];
    const char *template;
    int64_t started_after_ms;
    bool is_ascending;
    uint64_t limit;
    int64_t after_ms; /* the place where the last page ended */
    const char *after_id;
};

static const unsigned RUNNING = 1u << SBX_RUNNING | 1u << SBX_RESUMING;
static const unsigned PAUSED = 1u << SBX_PAUSED | 1u << SBX_PAUSING;

/* ---- the query ---- */

static char *unescape(struct sg_call *c, struct sg_str text, struct sg_err *err)
{
    char *out = sg_arena_alloc(&c->arena, text.n + 1);
    if (!out)
        (void)sg_fail(err, SG_EXHAUSTED, "no room for the query");
    else if (sg_url_decode(text, true, out, err) < 0)
        out = NULL;
    return out;
}

/* A query within the query, whose parts are escaped once more: clients escape three times. */
static int read_metadata(struct sg_call *c, struct query *q, struct sg_err *err)
{
    const char *text = sg_call_query(c, "metadata");
    char *whole = text ? unescape(c, sg_str_of(text), err) : NULL;
    if (!text)
        return 0;
    if (!whole)
        return sg_wrap(err, "metadata");
    struct sg_str rest = sg_str_of(whole), name, value;
    while (sg_query_next(&rest, &name, &value)) {
        if (q->q.metadata_n == MAX_FILTERS)
            return sg_fail(err, SG_INVALID, "metadata has over %d names", MAX_FILTERS);
        struct sg_pair *p = &q->filters[q->q.metadata_n++];
        if (!(p->name = unescape(c, name, err)) || !(p->value = unescape(c, value, err)))
            return sg_wrap(err, "metadata");
    }
    q->q.metadata = q->filters;
    return 0;
}

static int read_states(const char *text, unsigned *ret, struct sg_err *err)
{
    *ret = text && *text ? 0 : RUNNING | PAUSED;
    while (text && *text) {
        size_t n = strcspn(text, ",");
        struct sg_str one = { text, n };
        if (sg_str_is(one, "running"))
            *ret |= RUNNING;
        else if (sg_str_is(one, "paused"))
            *ret |= PAUSED;
        else
            return sg_fail(err, SG_INVALID, "state is running or paused, not %s",
                           sg_quote_str(one).s);
        text += n + (text[n] == ',');
    }
    return 0;
}

static int read_time(const char *text, int64_t *ret_ms, struct sg_err *err)
{
    struct tm tm = { 0 };
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    uint64_t ms = 0;
    if (!text)
        return 0;
    if (rest && *rest == '.') {
        char digits[4] = "000";
        size_t n = strspn(rest + 1, "0123456789");
        memcpy(digits, rest + 1, n < 3 ? n : 3);
        (void)sg_parse_u64(sg_str_of(digits), 0, 999, &ms, NULL);
        rest += 1 + n;
    }
    if (!rest || (strcmp(rest, "Z") != 0 && strcmp(rest, "+00:00") != 0))
        return sg_fail(err, SG_INVALID, "%s is no time in UTC", sg_quote(text).s);
    *ret_ms = (int64_t)timegm(&tm) * 1000 + (int64_t)ms;
    return 0;
}

/* "<start>-<id>-<order>" */
static int read_token(struct sg_call *c, struct query *q, struct sg_err *err)
{
    const char *text = sg_call_query(c, "nextToken");
    uint64_t at;
    if (!text || !*text)
        return 0;
    size_t n = strcspn(text, "-");
    const char *id = text[n] ? text + n + 1 : "", *order = strchr(id, '-');
    if (!order || sg_parse_u64((struct sg_str) { text, n }, 0, INT64_MAX, &at, NULL) < 0 ||
        strcmp(order + 1, q->is_ascending ? "asc" : "desc") != 0)
        return sg_fail(err, SG_INVALID, "nextToken is not one of this list");
    q->after_ms = (int64_t)at;
    q->after_id = sg_arena_copy(&c->arena, id, (size_t)(order - id));
    return q->after_id ? 0 : sg_fail(err, SG_EXHAUSTED, "no room for the query");
}

static int read_query(struct sg_call *c, struct query *q, struct sg_err *err)
{
    const char *order = sg_call_query(c, "order");
    q->limit = PAGE_MAX;
    if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
        return sg_fail(err, SG_INVALID, "order is asc or desc");
    q->is_ascending = order && strcmp(order, "asc") == 0;
    q->template = sg_call_query(c, "template");
    if (q->template && strchr(q->template, ':'))
        return sg_fail(err, SG_INVALID, "template takes no tag");
    return read_metadata(c, q, err) < 0 ||
                   read_states(sg_call_query(c, "state"), &q->q.states, err) < 0 ||
                   read_time(sg_call_query(c, "startedAfter"), &q->started_after_ms, err) < 0 ||
                   sg_call_query_u64(c, "limit", 1, PAGE_MAX, &q->limit, err) < 0 ||
                   read_token(c, q, err) < 0
               ? -1
               : 0;
}

/* ---- the answer ---- */

static int by_start(const void *a, const void *b)
{
    const struct sg_sandbox *x = *(struct sg_sandbox *const *)a,
                            *y = *(struct sg_sandbox *const *)b;
    if (x->started_ms != y->started_ms)
        return x->started_ms < y->started_ms ? -1 : 1;
    return strcmp(x->id.s, y->id.s);
}

static bool is_wanted(const struct sg_sandbox *s, const struct query *q)
{
    return s->started_ms >= q->started_after_ms &&
           (!q->template || strcmp(s->template, q->template) == 0);
}

/* All that match, oldest first. They stay where they are until the loop goes on. */
static size_t gather(struct sg_call *c, struct query *q, struct sg_sandbox ***ret)
{
    struct sg_sandbox **v = NULL, *batch[BATCH];
    size_t n = 0, cap = 0;
    bool has_more = true;
    q->q.limit = BATCH;
    while (has_more) {
        size_t got = sg_manager_list(c->manager, &c->who, &q->q, batch, &has_more);
        for (size_t i = 0; i < got; i++) {
            if (!is_wanted(batch[i], q))
                continue;
            if (n == cap) {
                struct sg_sandbox **more = sg_arena_alloc(
                    &c->arena, (cap = cap ? 2 * cap : BATCH) * sizeof(struct sg_sandbox *));
                if (!more)
                    return n;
                if (n)
                    memcpy(more, v, n * sizeof(struct sg_sandbox *));
                v = more;
            }
            v[n++] = batch[i];
        }
        if (got)
            q->q.after = batch[got - 1]->id.s;
        has_more = has_more && got;
    }
    if (n)
        qsort(v, n, sizeof(struct sg_sandbox *), by_start);
    *ret = v;
    return n;
}

static bool is_behind(const struct sg_sandbox *s, const struct query *q)
{
    if (!q->after_id)
        return true;
    int order = s->started_ms != q->after_ms ? (s->started_ms < q->after_ms ? -1 : 1)
                                             : strcmp(s->id.s, q->after_id);
    return q->is_ascending ? order > 0 : order < 0;
}

static void put_token(struct sg_call *c, const struct query *q, const struct sg_sandbox *last)
{
    char text[80];
    (void)snprintf(text, sizeof text, "%" PRId64 "-%s-%s", last->started_ms, last->id.s,
                   q->is_ascending ? "asc" : "desc");
    sg_reply_header(c, "X-Next-Token", text);
}

static int reply_list(struct sg_call *c, struct query *q)
{
    struct sg_sandbox **v = NULL;
    const struct sg_sandbox *last = NULL;
    const int64_t now_ms = sg_e2b_now_ms();
    size_t n = gather(c, q, &v), shown = 0, running = 0;
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '[');
    for (size_t i = 0; i < n; i++) {
        const struct sg_sandbox *s = v[q->is_ascending ? i : n - 1 - i];
        running += (RUNNING >> s->state & 1u);
        if (!is_behind(s, q))
            continue;
        if (shown++ == q->limit && last)
            put_token(c, q, last);
        if (shown > q->limit)
            continue;
        last = s;
        sg_json_open(&j, '{');
        sg_e2b_put_listed(&j, s, now_ms);
        sg_json_close(&j, '}');
    }
    sg_json_close(&j, ']');
    if (q->q.states & RUNNING) {
        char text[24];
        (void)snprintf(text, sizeof text, "%zu", running);
        sg_reply_header(c, "X-Total-Running", text);
    }
    sg_reply_json(c, 200, &out);
    return 0;
}

int sg_e2b_list_v2(struct sg_call *c, struct sg_err *err)
{
    struct query *q = sg_arena_alloc(&c->arena, sizeof *q);
    if (!q)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    return read_query(c, q, err) < 0 ? -1 : reply_list(c, q);
}

/* What runs, all of it. */
int sg_e2b_list_v1(struct sg_call *c, struct sg_err *err)
{
    struct query *q = sg_arena_alloc(&c->arena, sizeof *q);
    if (!q)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    if (read_metadata(c, q, err) < 0)
        return -1;
    q->q.states = RUNNING;
    q->limit = SIZE_MAX;
    return reply_list(c, q);
}
