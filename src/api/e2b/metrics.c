/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics: what a sandbox used over its life (manager/samples.c), and what it uses now. */
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "base/banned.h"

enum { MAX_REPLY = 1 << 20, MAX_ASKED = 100 };

/* As it is shown. */
struct sample {
    uint64_t cpus, cpu_pct_milli, mem_used, mem_total, disk_used, disk_total;
    int64_t at_ms;
};

static uint64_t known(uint64_t v)
{
    return v == UINT64_MAX ? 0 : v; /* the kernel does not tell */
}

/* The processors' share is that of the time since `before`; NULL: since its start. 100 is one
 * processor that was always busy. */
static uint64_t share_of(const struct sg_sandbox *s, const struct sg_sample *x,
                         const struct sg_sample *before)
{
    const int64_t since_ms = before ? before->at_ms : s->started_ms, ms = x->at_ms - since_ms;
    const uint64_t used = known(x->cpu_ns), earlier = before ? known(before->cpu_ns) : 0;
    return ms > 0 && used > earlier ? (used - earlier) / 10 / (uint64_t)ms : 0;
}

static struct sample show(const struct sg_sandbox *s, const struct sg_sample *x,
                          const struct sg_sample *before)
{
    struct sysinfo machine = { 0 };
    (void)sysinfo(&machine);
    const uint64_t machine_bytes = (uint64_t)machine.totalram * machine.mem_unit;
    struct sample m = { .at_ms = x->at_ms,
                        .cpus = (s->limits.cpu_milli + 999) / 1000,
                        .cpu_pct_milli = share_of(s, x, before),
                        .mem_used = known(x->mem_bytes),
                        .mem_total = known(x->mem_limit_bytes),
                        .disk_used = known(x->disk_used_bytes),
                        .disk_total = known(x->disk_bytes) };
    if (!m.cpus)
        m.cpus = (uint64_t)get_nprocs();
    if (!m.mem_total || m.mem_total > machine_bytes)
        m.mem_total = machine_bytes;
    return m;
}

static struct sg_sample sample_of(const struct sg_stats *st)
{
    return (struct sg_sample) { .at_ms = sg_e2b_now_ms(),
                                .cpu_ns = st->cpu_ns,
                                .mem_bytes = st->mem_bytes,
                                .mem_limit_bytes = st->mem_limit_bytes,
                                .disk_bytes = st->disk_bytes,
                                .disk_used_bytes = st->disk_used_bytes };
}

static void put_sample(struct sg_json *j, const struct sample *m)
{
    sg_json_open(j, '{');
    sg_e2b_put_time(j, "timestamp", m->at_ms);
    sg_json_put_u64(j, "timestampUnix", (uint64_t)m->at_ms / 1000);
    sg_json_put_u64(j, "cpuCount", m->cpus);
    sg_json_key(j, "cpuUsedPct");
    sg_json_milli(j, m->cpu_pct_milli);
    sg_json_put_u64(j, "memUsed", m->mem_used);
    sg_json_put_u64(j, "memTotal", m->mem_total);
    sg_json_put_u64(j, "memCache", 0);
    sg_json_put_u64(j, "diskUsed", m->disk_used);
    sg_json_put_u64(j, "diskTotal", m->disk_total);
    sg_json_close(j, '}');
}

/* ---- one sandbox, over a time ---- */

struct measuring {
    struct sg_call *call;
    char sandbox[SG_ID_LEN + 1];
    uint64_t start_s, end_s;
};

/* Those of the past that are asked for, then `now`, which may be NULL. */
static void reply(struct sg_call *c, const struct sg_sandbox *s, const struct measuring *m,
                  const struct sg_sample *now)
{
    size_t n;
    const struct sg_sample *v = sg_manager_samples(s, &n);
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '[');
    for (size_t i = 0; i < n; i++) {
        const uint64_t at_s = (uint64_t)v[i].at_ms / 1000;
        if (at_s < m->start_s || at_s > m->end_s)
            continue;
        const struct sample one = show(s, &v[i], i ? &v[i - 1] : NULL);
        put_sample(&j, &one);
    }
    if (now) {
        const struct sample one = show(s, now, n ? &v[n - 1] : NULL);
        put_sample(&j, &one);
    }
    sg_json_close(&j, ']');
    sg_reply_json(c, 200, &out);
}

static void measured(void *arg, const struct sg_stats *st, const struct sg_err *err)
{
    struct measuring *m = arg;
    struct sg_call *c = m->call;
    struct sg_err own;
    const struct sg_sandbox *s = st ? sg_manager_find(c->manager, &c->who, m->sandbox, &own) : NULL;
    if (!s) {
        sg_reply_error(c, st ? &own : err);
        return;
    }
    const struct sg_sample now = sample_of(st);
    reply(c, s, m, &now);
}

static struct measuring *new_measuring(struct sg_call *c, const struct sg_sandbox *s,
                                       struct sg_err *err)
{
    struct measuring *m = sg_arena_alloc(&c->arena, sizeof *m);
    if (!m) {
        (void)sg_fail(err, SG_EXHAUSTED, "no room for the call");
        return NULL;
    }
    *m = (struct measuring) { .call = c, .end_s = UINT64_MAX };
    memcpy(m->sandbox, s->id.s, sizeof m->sandbox);
    return m;
}

int sg_e2b_metrics(struct sg_call *c, struct sg_err *err)
{
    const uint64_t now = (uint64_t)sg_e2b_now_ms() / 1000;
    struct sg_sandbox *s = sg_e2b_sandbox(c, err);
    struct measuring *m = s ? new_measuring(c, s, err) : NULL;
    if (!m || sg_call_query_u64(c, "start", 0, INT64_MAX, &m->start_s, err) < 0 ||
        sg_call_query_u64(c, "end", 0, INT64_MAX, &m->end_s, err) < 0)
        return -1;
    if (m->start_s <= now + 1 && m->end_s >= now)
        return sg_manager_stats(s, &c->who, measured, m, err);
    reply(c, s, m, NULL);
    return 0;
}

/* ---- many, as they were last seen ---- */

/* {"sandboxes":{id:metric}}: those of the list that there are, and that were measured yet. */
int sg_e2b_metrics_of_many(struct sg_call *c, struct sg_err *err)
{
    const char *ids = sg_call_query(c, "sandbox_ids");
    sg_auto_buf out = { 0 };
    struct sg_json j;
    size_t count = 0;
    if (!ids || !*ids)
        return sg_fail(err, SG_INVALID, "sandbox_ids is missing");
    sg_buf_init(&out, MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "sandboxes");
    sg_json_open(&j, '{');
    for (size_t n; *ids; ids += n + (ids[n] == ',')) {
        n = strcspn(ids, ",");
        if (++count > MAX_ASKED)
            return sg_fail(err, SG_INVALID, "more than %d sandboxes", MAX_ASKED);
        struct sg_err ignored;
        const char *id = sg_arena_copy(&c->arena, ids, n);
        const struct sg_sandbox *s = id ? sg_manager_find(c->manager, &c->who, id, &ignored) : NULL;
        size_t seen = 0;
        const struct sg_sample *v = s ? sg_manager_samples(s, &seen) : NULL;
        if (!v || !seen)
            continue;
        const struct sample one = show(s, &v[seen - 1], seen > 1 ? &v[seen - 2] : NULL);
        sg_json_key(&j, s->id.s);
        put_sample(&j, &one);
    }
    sg_json_close(&j, '}');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

/* ---- envd's own shape ---- */

static void measured_inside(void *arg, const struct sg_stats *st, const struct sg_err *err)
{
    struct measuring *m = arg;
    struct sg_call *c = m->call;
    struct sg_err own;
    const struct sg_sandbox *s = st ? sg_e2b_visited(c, &own) : NULL;
    sg_auto_buf out = { 0 };
    struct sg_json j;
    size_t n = 0;
    if (!s) {
        sg_reply_error(c, st ? &own : err);
        return;
    }
    const struct sg_sample now = sample_of(st), *v = sg_manager_samples(s, &n);
    const struct sample x = show(s, &now, n ? &v[n - 1] : NULL);
    sg_buf_init(&out, 4096);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_put_u64(&j, "ts", (uint64_t)x.at_ms / 1000);
    sg_json_put_u64(&j, "cpu_count", x.cpus);
    sg_json_key(&j, "cpu_used_pct");
    sg_json_milli(&j, x.cpu_pct_milli);
    sg_json_put_u64(&j, "mem_total", x.mem_total);
    sg_json_put_u64(&j, "mem_used", x.mem_used);
    sg_json_put_u64(&j, "mem_cache", 0);
    sg_json_put_u64(&j, "mem_total_mib", x.mem_total >> 20);
    sg_json_put_u64(&j, "mem_used_mib", x.mem_used >> 20);
    sg_json_put_u64(&j, "disk_used", x.disk_used);
    sg_json_put_u64(&j, "disk_total", x.disk_total);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

int sg_envd_metrics(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    struct measuring *m = new_measuring(c, s, err);
    return m ? sg_manager_stats(s, &c->who, measured_inside, m, err) : -1;
}
