/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox uses and what happened to it: metrics and logs. A metric is measured when it is
 * asked for; the log is the list of events that are still in memory. */
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "manager/events.h"
#include "base/banned.h"

enum { LOGS_DEFAULT = 1000, LOGS_MAX = 1000 };

/* ---- metrics ---- */

struct sample {
    uint64_t cpus, cpu_pct_milli, mem_used, mem_total, disk_used, disk_total;
    int64_t at_ms;
};

static uint64_t known(uint64_t v)
{
    return v == UINT64_MAX ? 0 : v; /* the kernel does not tell */
}

/* The share of the processors is that of its whole life. */
static struct sample sample_of(const struct sg_sandbox *s, const struct sg_stats *st)
{
    struct sysinfo machine = { 0 };
    (void)sysinfo(&machine);
    struct sample m = { .at_ms = sg_e2b_now_ms(),
                        .cpus = (s->limits.cpu_milli + 999) / 1000,
                        .mem_used = known(st->mem_bytes),
                        .mem_total = known(st->mem_limit_bytes),
                        .disk_used = known(st->disk_used_bytes),
                        .disk_total = known(st->disk_bytes) };
    const uint64_t machine_bytes = (uint64_t)machine.totalram * machine.mem_unit;
    if (!m.cpus)
        m.cpus = (uint64_t)get_nprocs();
    if (!m.mem_total || m.mem_total > machine_bytes)
        m.mem_total = machine_bytes;
    const int64_t lived_ms = m.at_ms - s->started_ms;
    if (lived_ms > 0)
        m.cpu_pct_milli = known(st->cpu_ns) / 10 / (uint64_t)lived_ms;
    return m;
}

static void put_sample(struct sg_json *j, const struct sample *m)
{
    sg_json_open(j, '{');
    sg_e2b_put_time(j, "timestamp", m->at_ms);
    sg_e2b_put_u64(j, "timestampUnix", (uint64_t)m->at_ms / 1000);
    sg_e2b_put_u64(j, "cpuCount", m->cpus);
    sg_json_key(j, "cpuUsedPct");
    sg_json_milli(j, m->cpu_pct_milli);
    sg_e2b_put_u64(j, "memUsed", m->mem_used);
    sg_e2b_put_u64(j, "memTotal", m->mem_total);
    sg_e2b_put_u64(j, "memCache", 0);
    sg_e2b_put_u64(j, "diskUsed", m->disk_used);
    sg_e2b_put_u64(j, "diskTotal", m->disk_total);
    sg_json_close(j, '}');
}

struct measuring {
    struct sg_call *call;
    char sandbox[SG_ID_LEN + 1];
};

static void measured(void *arg, const struct sg_stats *st, const struct sg_err *err)
{
    struct measuring *m = arg;
    struct sg_call *c = m->call;
    struct sg_err own;
    const struct sg_sandbox *s = st ? sg_manager_find(c->manager, &c->who, m->sandbox, &own) : NULL;
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (!s) {
        sg_reply_error(c, st ? &own : err);
        return;
    }
    const struct sample sample = sample_of(s, st);
    sg_buf_init(&out, 4096);
    sg_json_init(&j, &out);
    sg_json_open(&j, '[');
    put_sample(&j, &sample);
    sg_json_close(&j, ']');
    sg_reply_json(c, 200, &out);
}

static int measure(struct sg_call *c, struct sg_sandbox *s, sg_stats_cb *cb, struct sg_err *err)
{
    struct measuring *m = sg_arena_alloc(&c->arena, sizeof *m);
    if (!m)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    m->call = c;
    memcpy(m->sandbox, s->id.s, sizeof m->sandbox);
    return sg_manager_stats(s, &c->who, cb, m, err);
}

int sg_e2b_metrics(struct sg_call *c, struct sg_err *err)
{
    const uint64_t now = (uint64_t)sg_e2b_now_ms() / 1000;
    uint64_t start = 0, end = UINT64_MAX;
    struct sg_sandbox *s = sg_e2b_sandbox(c, err);
    if (!s || sg_call_query_u64(c, "start", 0, INT64_MAX, &start, err) < 0 ||
        sg_call_query_u64(c, "end", 0, INT64_MAX, &end, err) < 0)
        return -1;
    if (start <= now + 1 && end >= now)
        return measure(c, s, measured, err);
    sg_reply_text(c, 200, "application/json", "[]");
    return 0;
}

/* envd's own shape of the same. */
static void measured_inside(void *arg, const struct sg_stats *st, const struct sg_err *err)
{
    struct measuring *m = arg;
    struct sg_call *c = m->call;
    struct sg_err own;
    const struct sg_sandbox *s = st ? sg_e2b_visited(c, &own) : NULL;
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (!s) {
        sg_reply_error(c, st ? &own : err);
        return;
    }
    const struct sample x = sample_of(s, st);
    sg_buf_init(&out, 4096);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_e2b_put_u64(&j, "ts", (uint64_t)x.at_ms / 1000);
    sg_e2b_put_u64(&j, "cpu_count", x.cpus);
    sg_json_key(&j, "cpu_used_pct");
    sg_json_milli(&j, x.cpu_pct_milli);
    sg_e2b_put_u64(&j, "mem_total", x.mem_total);
    sg_e2b_put_u64(&j, "mem_used", x.mem_used);
    sg_e2b_put_u64(&j, "mem_cache", 0);
    sg_e2b_put_u64(&j, "mem_total_mib", x.mem_total >> 20);
    sg_e2b_put_u64(&j, "mem_used_mib", x.mem_used >> 20);
    sg_e2b_put_u64(&j, "disk_used", x.disk_used);
    sg_e2b_put_u64(&j, "disk_total", x.disk_total);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

int sg_envd_metrics(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    return measure(c, s, measured_inside, err);
}

/* ---- logs ---- */

static void nobody(struct sg_listener *l)
{
    (void)l;
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
    sg_e2b_put_str(&k, "level", level_of(e));
    sg_e2b_put_str(&k, "logger", "sandbox");
    sg_e2b_put_str(&k, "message", e->type);
    sg_e2b_put_str(&k, "data", e->data ? e->data : "{}");
    sg_json_close(&k, '}');
    sg_json_open(j, '{');
    sg_e2b_put_time(j, "timestamp", e->at_ms);
    sg_e2b_put_str(j, "line", sg_buf_cstr(&line));
    sg_json_close(j, '}');
}

static void put_entry(struct sg_json *j, const struct sg_event *e)
{
    sg_json_open(j, '{');
    sg_e2b_put_time(j, "timestamp", e->at_ms);
    sg_e2b_put_str(j, "level", level_of(e));
    sg_e2b_put_str(j, "message", e->type);
    sg_json_key(j, "fields");
    sg_json_open(j, '{');
    sg_e2b_put_str(j, "logger", "sandbox");
    sg_e2b_put_str(j, "data", e->data ? e->data : "{}");
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
    return (!q->level || strcmp(q->level, level_of(e)) == 0 || strcmp(q->level, "debug") == 0) &&
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
    q.is_backward = !direction || strcmp(direction, "forward") != 0;
    q.level = sg_call_query(c, "level");
    q.search = sg_call_query(c, "search");
    return reply_logs(c, s, &q, true, err);
}
