/* SPDX-License-Identifier: Apache-2.0 */
/* The service against bare spawns: create from the pool, exec, many at once, and for a while. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bare.h"
#include "base/auto.h"
#include "base/clock.h"
#include "service.h"
#include "base/banned.h"

enum {
    CREATE_ROUNDS = 400,
    EXEC_ROUNDS = 400,
    CREATE_PAUSE_MS = 8, /* the pool is filled behind, and claimed from when it is full */
    AT_ONCE = 50,
    AT_ONCE_ROUNDS = 10,
    WORKERS = 8,
    SUSTAINED_S = 8,
};

static char true_program[] = "/bin/true";
static char *const true_argv[] = { true_program, NULL };

struct client {
    struct sg_http http;
    char id[SG_BENCH_ID];
};

static int run_create(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    struct client *c = ctx;
    char id[SG_BENCH_ID];
    const uint64_t start_ns = sg_now_ns();
    if (sg_service_create(&c->http, id, err) < 0)
        return -1;
    *ret_ns = sg_now_ns() - start_ns;
    return sg_service_destroy(&c->http, id, err);
}

static int run_exec(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    struct client *c = ctx;
    const uint64_t start_ns = sg_now_ns();
    if (sg_service_exec_true(&c->http, c->id, err) < 0)
        return -1;
    *ret_ns = sg_now_ns() - start_ns;
    return 0;
}

static void add_p99(const struct sg_bench *b, const struct sg_entrant *ours,
                    const struct sg_entrant *peer, const char *what, double bar)
{
    struct sg_row *row = sg_bench_compare(b, "service", what, ours, peer, bar);
    row->median = (double)sg_series_rank(&ours->times, 99) / 1e6;
    row->min = (double)sg_series_median(&ours->times) / 1e6;
}

static int race_bare(const struct sg_bench *b, struct client *c, struct sg_err *err)
{
    struct sg_bare bare = { true_argv, (char *const *)b->env, b->null_fd, NULL };
    const unsigned creates = sg_bench_rounds(b, CREATE_ROUNDS),
                   execs = sg_bench_rounds(b, EXEC_ROUNDS);
    struct sg_entrant create[] = {
        { .name = "create", .run = run_create, .ctx = c, .n = creates },
        { .name = "bare", .run = sg_bare_run, .ctx = &bare, .n = creates },
    };
    struct sg_entrant exec[] = {
        { .name = "exec", .run = run_exec, .ctx = c, .n = execs },
        { .name = "bare", .run = sg_bare_run, .ctx = &bare, .n = execs },
    };
    int result = sg_service_await_pool(&c->http, err);
    if (result == 0)
        result = sg_race(create, SG_COUNT(create), CREATE_PAUSE_MS, err);
    if (result == 0) {
        sg_bench_compare(b, "service", "create over HTTP : bare spawn", &create[0], &create[1],
                         1.5);
        add_p99(b, &create[0], &create[1], "create, p99 (p50) : bare spawn", 8);
        result = sg_service_create(&c->http, c->id, err);
    }
    if (result == 0)
        result = sg_race(exec, SG_COUNT(exec), 0, err);
    if (result == 0) {
        sg_bench_compare(b, "service", "exec true over HTTP : bare spawn", &exec[0], &exec[1], 1.8);
        result = sg_service_destroy(&c->http, c->id, err);
    }
    sg_race_done(create, SG_COUNT(create));
    sg_race_done(exec, SG_COUNT(exec));
    return result;
}

/* ---- fifty at once ---- */

struct many {
    struct sg_http http[AT_ONCE];
    char ids[AT_ONCE][SG_BENCH_ID];
};

static int create_at_once(struct many *f, unsigned n, struct sg_series *times, struct sg_err *err)
{
    const uint64_t start_ns = sg_now_ns();
    for (unsigned i = 0; i < n; i++)
        if (sg_http_send(&f->http[i], "POST", "/v1/sandboxes", "{\"timeoutMs\":0}", err) < 0)
            return -1;
    for (unsigned i = 0; i < n; i++) {
        if (sg_http_receive(&f->http[i], 201, err) < 0)
            return -1;
        sg_series_add(times, sg_now_ns() - start_ns);
        if (sg_http_member(&f->http[i], "id", f->ids[i], SG_BENCH_ID, err) < 0)
            return -1;
    }
    for (unsigned i = 0; i < n; i++)
        if (sg_service_destroy(&f->http[i], f->ids[i], err) < 0)
            return -1;
    return 0;
}

static int at_once(const struct sg_bench *b, const struct sg_service *s, struct sg_err *err)
{
    const unsigned rounds = sg_bench_rounds(b, AT_ONCE_ROUNDS);
    struct many *f = sg_new(struct many);
    struct sg_entrant all = { .name = "50 at once", .n = rounds * AT_ONCE },
                      one = { .name = "one", .n = rounds * AT_ONCE };
    sg_series_init(&all.times, all.n);
    sg_series_init(&one.times, one.n);
    int result = 0;
    for (unsigned i = 0; i < AT_ONCE && result == 0; i++)
        result = sg_service_connect(s, &f->http[i], err);
    for (unsigned i = 0; i < rounds && result == 0; i++) {
        result = sg_service_await_pool(&f->http[0], err);
        if (result == 0)
            result = create_at_once(f, AT_ONCE, &all.times, err);
        for (unsigned k = 0; k < AT_ONCE && result == 0; k++)
            result = create_at_once(f, 1, &one.times, err);
    }
    if (result == 0)
        sg_bench_compare(b, "service", "create, 50 at once : one at a time", &all, &one, AT_ONCE);
    for (unsigned i = 0; i < AT_ONCE; i++)
        sg_http_close(&f->http[i]);
    sg_series_done(&all.times);
    sg_series_done(&one.times);
    free(f);
    return result;
}

/* ---- create, exec, destroy, for seconds ---- */

static int work(const struct sg_service *s, uint64_t until_ns, int pipe_fd)
{
    struct sg_http h;
    struct sg_err err = { 0 };
    uint32_t cycles = 0;
    int result = sg_service_connect(s, &h, &err);
    while (result == 0 && sg_now_ns() < until_ns) {
        char id[SG_BENCH_ID];
        if (sg_service_create(&h, id, &err) < 0 || sg_service_exec_true(&h, id, &err) < 0 ||
            sg_service_destroy(&h, id, &err) < 0)
            result = -1;
        cycles++;
    }
    if (result < 0) {
        (void)fprintf(stderr, "bench: %s\n", err.msg);
        return 1;
    }
    return write(pipe_fd, &cycles, sizeof cycles) == (ssize_t)sizeof cycles ? 0 : 1;
}

static int sustained(const struct sg_bench *b, const struct sg_service *s, struct sg_err *err)
{
    int ends[2];
    if (pipe(ends) < 0)
        return sg_fail_sys(err, "make a pipe");
    const unsigned seconds = b->is_quick ? 2 : SUSTAINED_S;
    const uint64_t start_ns = sg_now_ns(), until_ns = start_ns + seconds * 1000000000ull;
    for (unsigned i = 0; i < WORKERS; i++) {
        const pid_t pid = fork();
        if (pid == 0)
            _exit(work(s, until_ns, ends[1]));
        if (pid < 0)
            return sg_fail_sys(err, "start a client");
    }
    int status, failed = 0;
    for (unsigned i = 0; i < WORKERS; i++)
        failed += wait(&status) < 0 || status != 0;
    const double ms = (double)(sg_now_ns() - start_ns) / 1e6;
    uint32_t cycles = 0, one;
    (void)close(ends[1]);
    while (read(ends[0], &one, sizeof one) == (ssize_t)sizeof one)
        cycles += one;
    (void)close(ends[0]);
    if (failed)
        return sg_fail(err, SG_INTERNAL, "%d of %d clients failed", failed, WORKERS);
    sg_report_add(b->report, &(struct sg_row) { .case_name = "service",
                                                .what = "create+exec+destroy (3.33: 300/s)",
                                                .unit = SG_UNIT_MS,
                                                .n = cycles,
                                                .median = ms / cycles,
                                                .min = ms / cycles,
                                                .bar = 1000.0 / 300 });
    return 0;
}

int sg_case_service(const struct sg_bench *b, struct sg_err *err)
{
    struct sg_service s;
    struct client c = { .http.fd = -1 };
    if (sg_service_find(b, &s, err) < 0 || sg_service_connect(&s, &c.http, err) < 0)
        return -1;
    int result = race_bare(b, &c, err);
    if (result == 0)
        result = at_once(b, &s, err);
    if (result == 0)
        result = sustained(b, &s, err);
    sg_http_close(&c.http);
    return result;
}
