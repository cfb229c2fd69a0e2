/* SPDX-License-Identifier: Apache-2.0 */
/* Tier gvisor against the runtime that it uses, by itself: the same root, one command. Cold, with
 * nothing made ahead (template `tiny`); and from the pool (template `host`). */
#include <stdio.h>
#include <unistd.h>

#include "bare.h"
#include "base/auto.h"
#include "base/clock.h"
#include "service.h"
#include "base/banned.h"

enum { COLD_ROUNDS = 30, POOL_ROUNDS = 30 };

struct client {
    struct sg_http http;
};

static int create(struct sg_http *h, const char *template, char ret_id[SG_BENCH_ID],
                  struct sg_err *err)
{
    char body[96];
    (void)snprintf(body, sizeof body, "{\"tier\":\"gvisor\",\"template\":\"%s\",\"timeoutMs\":0}",
                   template);
    if (sg_http_ask(h, "POST", "/v1/sandboxes", body, 201, err) < 0)
        return -1;
    return sg_http_member(h, "id", ret_id, SG_BENCH_ID, err);
}

/* What `runsc run` does: a sandbox is made, its first process runs, it is removed. */
static int run_empty(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    struct client *c = ctx;
    char id[SG_BENCH_ID];
    const uint64_t start_ns = sg_now_ns();
    if (create(&c->http, "tiny", id, err) < 0 || sg_service_destroy(&c->http, id, err) < 0)
        return -1;
    *ret_ns = sg_now_ns() - start_ns;
    return 0;
}

/* And a command in it, beside our init. */
static int run_cold(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    struct client *c = ctx;
    char id[SG_BENCH_ID];
    const uint64_t start_ns = sg_now_ns();
    if (create(&c->http, "tiny", id, err) < 0 || sg_service_exec_true(&c->http, id, err) < 0 ||
        sg_service_destroy(&c->http, id, err) < 0)
        return -1;
    *ret_ns = sg_now_ns() - start_ns;
    return 0;
}

static int run_pooled(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    struct client *c = ctx;
    char id[SG_BENCH_ID];
    if (sg_service_await_pool(&c->http, err) < 0)
        return -1;
    const uint64_t start_ns = sg_now_ns();
    if (create(&c->http, "host", id, err) < 0)
        return -1;
    *ret_ns = sg_now_ns() - start_ns;
    return sg_service_destroy(&c->http, id, err);
}

/* A container's name is used once. */
static int run_runsc(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    static unsigned count;
    const struct sg_bench *b = ctx;
    char program[] = "/usr/bin/runsc", command[] = "run", ignore[] = "--ignore-cgroups",
         network[] = "--network=none";
    sg_auto_free char *root = sg_printf("--root=%s/runsc/state", b->dir);
    sg_auto_free char *bundle = sg_printf("--bundle=%s/runsc", b->dir);
    sg_auto_free char *name = sg_printf("sgbench-%d-%u", (int)getpid(), count++);
    char *argv[] = { program, root, ignore, network, command, bundle, name, NULL };
    struct sg_bare bare = { argv, (char *const *)b->env, b->null_fd, NULL };
    return sg_bare_run(&bare, ret_ns, err);
}

int sg_bench_gvisor(const struct sg_bench *b, const struct sg_service *s, struct sg_err *err)
{
    struct client c;
    sg_auto_free char *config = sg_printf("%s/runsc/config.json", b->dir);
    if (access(config, F_OK) < 0) {
        sg_report_add(b->report, &(struct sg_row) { .case_name = "tiers",
                                                    .what = "gvisor : runsc run",
                                                    .missing = "no runsc: tools/deps run" });
        return 0;
    }
    if (sg_service_connect(s, &c.http, err) < 0)
        return -1;
    const unsigned n = sg_bench_rounds(b, COLD_ROUNDS);
    struct sg_entrant e[] = {
        { .name = "cold", .run = run_cold, .ctx = &c, .n = n },
        { .name = "pooled", .run = run_pooled, .ctx = &c, .n = sg_bench_rounds(b, POOL_ROUNDS) },
        { .name = "empty", .run = run_empty, .ctx = &c, .n = n },
        { .name = "runsc run", .run = run_runsc, .ctx = (void *)(uintptr_t)b, .n = n },
    };
    const int result = sg_race(e, SG_COUNT(e), 0, err);
    if (result == 0) {
        sg_bench_compare(b, "tiers", "gvisor, create + rm : runsc run", &e[2], &e[3], 1.1);
        sg_bench_compare(b, "tiers", "gvisor, create + exec true + rm : runsc run", &e[0], &e[3],
                         0);
        sg_bench_compare(b, "tiers", "gvisor, create from the pool : runsc run", &e[1], &e[3], 0.1);
    }
    sg_race_done(e, SG_COUNT(e));
    sg_http_close(&c.http);
    return result;
}
