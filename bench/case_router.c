/* SPDX-License-Identifier: Apache-2.0 */
/* The router by itself: a thousand decisions, over every operation of the rules that come with it.
 * In milliseconds, which is microseconds a decision. */
#include "base/auto.h"
#include "base/clock.h"
#include "service.h"
#include "router/router.h"
#include "base/banned.h"

enum { DECISIONS = 1000, ROUNDS = 200 };

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

int sg_case_router(const struct sg_bench *b, struct sg_err *err)
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
