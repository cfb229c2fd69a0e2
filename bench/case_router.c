/* SPDX-License-Identifier: Apache-2.0 */
/* The router by itself: a thousand decisions, over every operation of the rules that come with it
 * (in milliseconds, which is microseconds a decision). Then what it decides about: one task from
 * the question to the result against a bare spawn, and a batch of tasks that sleep against the time
 * that they would sleep. */
#include <string.h>

#include "bare.h"
#include "base/auto.h"
#include "base/clock.h"
#include "service.h"
#include "router/router.h"
#include "base/banned.h"

enum {
    DECISIONS = 1000,
    ROUNDS = 200,
    RUN_ROUNDS = 400,
    RUN_PAUSE_MS = 8, /* the pool is filled behind */
    BATCH_ROUNDS = 10,
    TASKS = 100,
    AT_ONCE = 50,
    SLEEP_MS = 100,
};

static int decide_all(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    const struct sg_rules *rules = ctx;
    struct sg_decision d;
    const uint64_t start_ns = sg_now_ns();
    for (size_t i = 0; i < DECISIONS; i++) {
        struct sg_ask a;
        sg_ask_init(&a, rules->operations[i % rules->operation_count].name);
        a.trust = SG_TRUST_UNTRUSTED;
        if (sg_router_decide(rules, &sg_walls_today, &a, &d, err) < 0)
            return -1;
    }
    *ret_ns = sg_now_ns() - start_ns;
    return 0;
}

static int decisions(const struct sg_bench *b, struct sg_err *err)
{
    struct sg_rules *rules = sg_rules_builtin(err);
    if (!rules)
        return -1;
    struct sg_entrant e = {
        .name = "route", .run = decide_all, .ctx = rules, .n = sg_bench_rounds(b, ROUNDS)
    };
    const int result = sg_race(&e, 1, 0, err);
    if (result == 0)
        sg_report_add(b->report, &(struct sg_row) {
                                     .case_name = "router",
                                     .what = "1000 decisions",
                                     .unit = SG_UNIT_MS,
                                     .n = e.n,
                                     .median = (double)sg_series_median(&e.times) / 1e6,
                                     .min = (double)sg_series_min(&e.times) / 1e6,
                                     .bar = 20,
                                 });
    sg_race_done(&e, 1);
    sg_rules_free(rules);
    return result;
}

/* ---- one task ---- */

static int run_true(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    struct sg_http *h = ctx;
    const uint64_t start_ns = sg_now_ns();
    if (sg_http_ask(h, "POST", "/v1/run", "{\"argv\":[\"/bin/true\"]}", 200, err) < 0)
        return -1;
    *ret_ns = sg_now_ns() - start_ns;
    return 0;
}

static int one_task(const struct sg_bench *b, struct sg_http *h, struct sg_err *err)
{
    static char program[] = "/bin/true";
    static char *const argv[] = { program, NULL };
    struct sg_bare bare = { argv, (char *const *)b->env, b->null_fd, NULL };
    const unsigned n = sg_bench_rounds(b, RUN_ROUNDS);
    struct sg_entrant e[] = {
        { .name = "run", .run = run_true, .ctx = h, .n = n },
        { .name = "bare", .run = sg_bare_run, .ctx = &bare, .n = n },
    };
    int result = sg_service_await_pool(h, err);
    if (result == 0)
        result = sg_race(e, SG_COUNT(e), RUN_PAUSE_MS, err);
    if (result == 0)
        sg_bench_compare(b, "router", "run true over HTTP : bare spawn", &e[0], &e[1], 2);
    sg_race_done(e, SG_COUNT(e));
    return result;
}

/* ---- a batch ---- */

struct batch {
    struct sg_http *http;
    struct sg_buf body;
};

static int run_batch(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    struct batch *b = ctx;
    if (sg_service_await_pool(b->http, err) < 0)
        return -1;
    const uint64_t start_ns = sg_now_ns();
    if (sg_http_ask(b->http, "POST", "/v1/batch", sg_buf_cstr(&b->body), 200, err) < 0)
        return -1;
    *ret_ns = sg_now_ns() - start_ns;
    if (!strstr(sg_http_body(b->http), "\"succeeded\":100"))
        return sg_fail(err, SG_INTERNAL, "not all tasks of the batch ended well");
    return 0;
}

static int run_ideal(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    (void)ctx, (void)err;
    *ret_ns = (uint64_t)TASKS / AT_ONCE * SLEEP_MS * 1000000u;
    return 0;
}

static int many_tasks(const struct sg_bench *b, struct sg_http *h, struct sg_err *err)
{
    struct batch many = { .http = h };
    const unsigned n = sg_bench_rounds(b, BATCH_ROUNDS);
    struct sg_entrant e[] = {
        { .name = "batch", .run = run_batch, .ctx = &many, .n = n },
        { .name = "ideal", .run = run_ideal, .n = n },
    };
    sg_buf_init(&many.body, 64 << 10);
    sg_buf_addf(&many.body, "{\"concurrency\":%d,\"tasks\":[", AT_ONCE);
    for (unsigned i = 0; i < TASKS; i++)
        sg_buf_addf(&many.body, "%s{\"name\":\"t%u\",\"argv\":[\"/bin/sleep\",\"0.1\"]}",
                    i ? "," : "", i);
    sg_buf_add_str(&many.body, "]}");
    int result = sg_race(e, SG_COUNT(e), 0, err);
    if (result == 0)
        sg_bench_compare(b, "router", "100 tasks of sleep 0.1, 50 at once : ideal", &e[0], &e[1],
                         1.3);
    sg_race_done(e, SG_COUNT(e));
    sg_buf_done(&many.body);
    return result;
}

int sg_case_router(const struct sg_bench *b, struct sg_err *err)
{
    struct sg_service s;
    struct sg_http h = { .fd = -1 };
    if (decisions(b, err) < 0 || sg_service_find(b, &s, err) < 0 ||
        sg_service_connect(&s, &h, err) < 0)
        return -1;
    int result = one_task(b, &h, err);
    if (result == 0)
        result = many_tasks(b, &h, err);
    sg_http_close(&h);
    return result;
}
