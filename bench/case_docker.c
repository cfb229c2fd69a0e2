/* SPDX-License-Identifier: Apache-2.0 */
/* The tier docker against the Engine that it uses: what we add to `docker run`, and what it is to
 * have containers ready. Both run the same image, which holds /bin/true and nothing else. */
#include <unistd.h>

#include "bare.h"
#include "base/auto.h"
#include "base/clock.h"
#include "contestants.h"
#include "service.h"
#include "base/banned.h"

enum { CYCLES = 40, CLAIMS = 40 };

struct ours {
    struct sg_http http;
    const char *body;
};

static int create(struct ours *o, char ret_id[SG_BENCH_ID], struct sg_err *err)
{
    if (sg_http_ask(&o->http, "POST", "/v1/sandboxes", o->body, 201, err) < 0)
        return -1;
    return sg_http_member(&o->http, "id", ret_id, SG_BENCH_ID, err);
}

/* Create, one command, destroy: what `docker run --rm` does. */
static int run_cycle(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    struct ours *o = ctx;
    char id[SG_BENCH_ID];
    const uint64_t start_ns = sg_now_ns();
    if (create(o, id, err) < 0 || sg_service_exec_true(&o->http, id, err) < 0 ||
        sg_service_destroy(&o->http, id, err) < 0)
        return -1;
    *ret_ns = sg_now_ns() - start_ns;
    return 0;
}

static int run_claim(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    struct ours *o = ctx;
    char id[SG_BENCH_ID];
    if (sg_service_await_pool(&o->http, err) < 0)
        return -1;
    const uint64_t start_ns = sg_now_ns();
    if (create(o, id, err) < 0)
        return -1;
    *ret_ns = sg_now_ns() - start_ns;
    return sg_service_destroy(&o->http, id, err);
}

static int race(const struct sg_bench *b, struct ours *o, struct sg_bare *docker,
                struct sg_err *err)
{
    const unsigned cycles = sg_bench_rounds(b, CYCLES), claims = sg_bench_rounds(b, CLAIMS);
    struct sg_entrant cold[] = {
        { .name = "tier docker", .run = run_cycle, .ctx = o, .n = cycles },
        { .name = "docker run", .run = sg_bare_run, .ctx = docker, .n = cycles },
    };
    struct sg_entrant ready[] = {
        { .name = "tier docker", .run = run_claim, .ctx = o, .n = claims },
        { .name = "docker run", .run = sg_bare_run, .ctx = docker, .n = claims },
    };
    o->body = "{\"tier\":\"docker\",\"template\":\"sgcold\"}";
    int result = sg_race(cold, SG_COUNT(cold), 0, err);
    if (result == 0)
        sg_bench_compare(b, "tiers", "docker, nothing parked : docker run", &cold[0], &cold[1],
                         1.10);
    sg_race_done(cold, SG_COUNT(cold));
    o->body = "{\"tier\":\"docker\"}";
    if (result == 0)
        result = sg_race(ready, SG_COUNT(ready), 0, err);
    if (result == 0)
        sg_bench_compare(b, "tiers", "docker, create of a parked one : docker run", &ready[0],
                         &ready[1], 0.10);
    sg_race_done(ready, SG_COUNT(ready));
    return result;
}

int sg_bench_docker(const struct sg_bench *b, const struct sg_service *s, struct sg_err *err)
{
    const struct sg_contestant *docker = &sg_contestants[sg_contestant_count - 1];
    if (!sg_contestant_is_there(docker, b)) {
        sg_report_add(b->report, &(struct sg_row) { .case_name = "tiers",
                                                    .what = "docker : docker run",
                                                    .missing = "not there: tools/deps bench" });
        return 0;
    }
    struct ours o = { .body = NULL };
    struct sg_args args;
    sg_contestant_args(docker, b, &args);
    struct sg_bare bare = { args.v, b->run_env, b->null_fd, NULL };
    int result = sg_service_connect(s, &o.http, err);
    if (result == 0) {
        result = race(b, &o, &bare, err);
        sg_http_close(&o.http);
    }
    sg_args_done(&args);
    return result;
}
