/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox uses, and whether it answers. */
#include <stdio.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "base/banned.h"

static void stats_known(void *arg, const struct sg_stats *st, const struct sg_err *err)
{
    struct sg_call *c = arg;
    if (!st) {
        sg_reply_error(c, err);
        return;
    }
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {
        { "memoryBytes", st->mem_bytes },
        { "memoryPeakBytes", st->mem_peak_bytes },
        { "memoryLimitBytes", st->mem_limit_bytes },
        { "cpuMs", st->cpu_ns == UINT64_MAX ? UINT64_MAX : st->cpu_ns / 1000000 },
        { "pids", st->pids },
        { "pidsPeak", st->pids_peak },
        { "oomKills", st->oom_kills },
        { "diskBytes", st->disk_bytes },
        { "diskUsedBytes", st->disk_used_bytes },
    };
    sg_auto_buf out;
    sg_buf_init(&out, 4096);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        if (rows[i].value == UINT64_MAX) /* the kernel does not tell */
            continue;
        sg_json_key(&j, rows[i].key);
        sg_json_u64(&j, rows[i].value);
    }
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

int sg_rest_sandbox_stats(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    return s ? sg_manager_stats(s, &c->who, stats_known, c, err) : -1;
}

static void health_known(void *arg, bool is_healthy, uint64_t latency_ns, const struct sg_err *err)
{
    struct sg_call *c = arg;
    sg_auto_buf out;
    sg_buf_init(&out, 4096);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "healthy");
    sg_json_bool(&j, is_healthy);
    sg_json_key(&j, "latencyUs");
    sg_json_u64(&j, latency_ns / 1000);
    if (err) {
        sg_json_key(&j, "error");
        sg_json_str(&j, err->msg);
    }
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

int sg_rest_sandbox_health(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    return s ? sg_manager_health(s, &c->who, health_known, c, err) : -1;
}

/* ---- all of them: as many questions as there are running sandboxes, one reply ---- */

enum { HEALTH_MAX = 1000 };

struct check {
    struct all *all;
    struct sg_id id;
};
struct all {
    struct sg_call *call;
    struct sg_buf out;
    struct sg_json j;
    unsigned open, healthy;
};

static void finish_all(struct all *a)
{
    sg_json_close(&a->j, ']');
    sg_json_key(&a->j, "healthy");
    sg_json_u64(&a->j, a->healthy);
    sg_json_close(&a->j, '}');
    sg_reply_json(a->call, 200, &a->out);
    sg_buf_done(&a->out);
    free(a);
}

static void one_checked(void *arg, bool is_healthy, uint64_t latency_ns, const struct sg_err *err)
{
    struct check *k = arg;
    struct all *a = k->all;
    (void)latency_ns;
    a->healthy += is_healthy;
    if (!is_healthy) {
        sg_json_open(&a->j, '{');
        sg_json_key(&a->j, "id");
        sg_json_str(&a->j, k->id.s);
        sg_json_key(&a->j, "error");
        sg_json_str(&a->j, err ? err->msg : "no answer");
        sg_json_close(&a->j, '}');
    }
    free(k);
    if (--a->open == 0)
        finish_all(a);
}

int sg_rest_health_all(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox **found = sg_arena_alloc(&c->arena, HEALTH_MAX * sizeof(struct sg_sandbox *));
    if (!found)
        return sg_fail(err, SG_EXHAUSTED, "no room for the list");
    const struct sg_list_query q = { .states = 1u << SBX_RUNNING, .limit = HEALTH_MAX };
    bool has_more;
    const size_t n = sg_manager_list(c->manager, &c->who, &q, found, &has_more);
    struct all *a = sg_new(struct all);
    a->call = c;
    a->open = 1; /* ours, until all are asked */
    sg_buf_init(&a->out, SG_REST_MAX_REPLY);
    sg_json_init(&a->j, &a->out);
    sg_json_open(&a->j, '{');
    sg_json_key(&a->j, "unhealthy");
    sg_json_open(&a->j, '[');
    for (size_t i = 0; i < n; i++) {
        struct check *k = sg_new(struct check);
        *k = (struct check) { a, found[i]->id };
        struct sg_err own;
        a->open++;
        if (sg_manager_health(found[i], &c->who, one_checked, k, &own) < 0)
            one_checked(k, false, 0, &own);
    }
    if (--a->open == 0)
        finish_all(a);
    return 0;
}
