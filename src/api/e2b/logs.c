/* SPDX-License-Identifier: Apache-2.0 */
/* Logs: what happened to a sandbox, as far as the events are still in memory. */
#include <stdio.h>
#include <string.h>

#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "manager/events.h"
#include "base/banned.h"

enum { LOGS_DEFAULT = 1000, LOGS_MAX = 1000 };

static void nobody(struct sg_listener *l)
{
    (void)l;
}

/* -1: it is none. */
static int level_rank(const char *level)
{
    static const char *const levels[] = { "debug", "info", "warn", "error" };
    for (size_t i = 0; i < SG_COUNT(levels); i++)
        if (strcasecmp(level, levels[i]) == 0)
            return (int)i;
    return -1;
}

static const char *level_of(const struct sg_event *e)
{
    return strstr(e->type, "failed") || strstr(e->type, "died") ? "error" : "info";
}

/* {"timestamp","line"}: clients read the line as JSON again. */
static void put_line(struct sg_json *j, const struct sg_event *e)
{
    sg_auto_buf line;
    struct sg_json k;
    sg_buf_init(&line, 64 << 10);
    sg_json_init(&k, &line);
    sg_json_open(&k, '{');
    sg_json_put_str(&k, "level", level_of(e));
    sg_json_put_str(&k, "logger", "sandbox");
    sg_json_put_str(&k, "message", e->type);
    sg_json_put_str(&k, "data", e->data ? e->data : "{}");
    sg_json_close(&k, '}');
    sg_json_open(j, '{');
    sg_e2b_put_time(j, "timestamp", e->at_ms);
    sg_json_put_str(j, "line", sg_buf_cstr(&line));
    sg_json_close(j, '}');
}

static void put_entry(struct sg_json *j, const struct sg_event *e)
{
    sg_json_open(j, '{');
    sg_e2b_put_time(j, "timestamp", e->at_ms);
    sg_json_put_str(j, "level", level_of(e));
    sg_json_put_str(j, "message", e->type);
    sg_json_key(j, "fields");
    sg_json_open(j, '{');
    sg_json_put_str(j, "logger", "sandbox");
    sg_json_put_str(j, "data", e->data ? e->data : "{}");
    sg_json_close(j, '}');
    sg_json_close(j, '}');
}

struct log_query {
    uint64_t limit;
    int64_t from_ms; /* events before it are left out; backward: after it */
    bool is_backward;
    const char *level, *search;
};

static bool is_asked_for(const struct sg_event *e, const struct log_query *q)
{
    if (q->is_backward ? q->from_ms && e->at_ms > q->from_ms : e->at_ms < q->from_ms)
        return false;
    return (!q->level || level_rank(level_of(e)) >= level_rank(q->level)) &&
           (!q->search || strstr(e->type, q->search) || (e->data && strstr(e->data, q->search)));
}

/* Those that match, oldest first; at most the limit, from the end that was asked for. */
static size_t gather(struct sg_call *c, const struct sg_sandbox *s, const struct log_query *q,
                     const struct sg_event **ret)
{
    struct sg_listener l = { .who = c->who, .wake = nobody };
    const struct sg_event *e;
    size_t n = 0;
    memcpy(l.sandbox, s->id.s, sizeof l.sandbox);
    sg_events_listen(c->manager, &l, 0);
    while ((e = sg_events_next(c->manager, &l))) {
        if (!is_asked_for(e, q))
            continue;
        if (n < q->limit) {
            ret[n++] = e;
        } else if (q->is_backward) {
            memmove(ret, ret + 1, (n - 1) * sizeof(struct sg_event *));
            ret[n - 1] = e;
        } else {
            break;
        }
    }
    sg_events_leave(&l);
    return n;
}

static int reply_logs(struct sg_call *c, const struct sg_sandbox *s, const struct log_query *q,
                      bool is_v2, struct sg_err *err)
{
    const struct sg_event **v =
        sg_arena_alloc(&c->arena, (q->limit + 1) * sizeof(struct sg_event *));
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (!v)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    size_t n = gather(c, s, q, v);
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "logs");
    sg_json_open(&j, '[');
    for (size_t i = 0; i < n; i++)
        (is_v2 ? put_entry : put_line)(&j, v[is_v2 && q->is_backward ? n - 1 - i : i]);
    sg_json_close(&j, ']');
    if (!is_v2) {
        sg_json_key(&j, "logEntries");
        sg_json_open(&j, '[');
        for (size_t i = 0; i < n; i++)
            put_entry(&j, v[i]);
        sg_json_close(&j, ']');
    }
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

int sg_e2b_logs_v1(struct sg_call *c, struct sg_err *err)
{
    struct log_query q = { .limit = LOGS_DEFAULT };
    uint64_t start = 0;
    struct sg_sandbox *s = sg_e2b_sandbox(c, err);
    if (!s || sg_call_query_u64(c, "limit", 0, LOGS_MAX, &q.limit, err) < 0 ||
        sg_call_query_u64(c, "start", 0, INT64_MAX, &start, err) < 0)
        return -1;
    q.from_ms = (int64_t)start;
    return reply_logs(c, s, &q, false, err);
}

int sg_e2b_logs_v2(struct sg_call *c, struct sg_err *err)
{
    struct log_query q = { .limit = LOGS_DEFAULT, .is_backward = true };
    const char *direction = sg_call_query(c, "direction");
    uint64_t cursor = 0;
    struct sg_sandbox *s = sg_e2b_sandbox(c, err);
    if (!s || sg_call_query_u64(c, "limit", 0, LOGS_MAX, &q.limit, err) < 0 ||
        sg_call_query_u64(c, "cursor", 0, INT64_MAX, &cursor, err) < 0)
        return -1;
    q.from_ms = (int64_t)cursor;
    q.is_backward = !direction || strcmp(direction, "backward") == 0;
    if (!q.is_backward && strcmp(direction, "forward") != 0)
        return sg_fail(err, SG_INVALID, "direction is forward or backward, not %s",
                       sg_quote(direction).s);
    q.level = sg_call_query(c, "level");
    if (q.level && level_rank(q.level) < 0)
        return sg_fail(err, SG_INVALID, "level is debug, info, warn or error, not %s",
                       sg_quote(q.level).s);
    q.search = sg_call_query(c, "search");
    return reply_logs(c, s, &q, true, err);
}
