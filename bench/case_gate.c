/* SPDX-License-Identifier: Apache-2.0 */
/* Through the gate against the same server without it: how long until the server's first byte, one
 * stream, a thousand connections at once, and what those that do nothing weigh. The same program
 * (dial.c) is the client inside a sandbox and outside; both are in the mode `filtered`'s way, by a
 * name that a rule allows. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/parse.h"
#include "far.h"
#include "service.h"
#include "base/banned.h"

enum {
    GREETINGS = 20, /* of one start of the client; the first does not count */
    GREET_ROUNDS = 40,
    STREAM_MIB = 512,
    STREAM_ROUNDS = 12,
    CROWD = 1000,
    BOXES = 200,
    HELD_TRIES = 600,
};
static const char POLICY[] = "{\"timeoutMs\":0,\"network\":{\"mode\":\"filtered\",\"allow\":"
                             "[\"far.bench.test\"]}}";

struct gate {
    const struct sg_bench *b;
    struct sg_service s;
    struct sg_http http;
    struct sg_far far;
    char id[SG_BENCH_ID];
    char address[48]; /* what the name is inside */
};

struct side {
    struct gate *g;
    bool is_inside;
    unsigned mib; /* 0: greetings */
};

/* ---- the client ---- */

/* The output of an exec: {"stdout":"1\n2\n", ...}: lines of digits and dots hold no other escapes.
 */
static int exec_inside(struct gate *g, const char *argv, char *ret, size_t cap, struct sg_err *err)
{
    char path[96], body[256];
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/exec", g->id);
    (void)snprintf(body, sizeof body, "{\"argv\":[%s]}", argv);
    if (sg_http_ask(&g->http, "POST", path, body, 200, err) < 0 ||
        sg_http_member(&g->http, "stdout", ret, cap, err) < 0)
        return -1;
    if (!strstr(sg_http_body(&g->http), "\"exitCode\":0"))
        return sg_fail(err, SG_INTERNAL, "a client fails inside: %s",
                       sg_quote(sg_http_body(&g->http)).s);
    for (char *p = ret; (p = strstr(p, "\\n")); p++)
        memcpy(p, " \n", 2);
    return 0;
}

static int run_outside(struct gate *g, const char *mode, unsigned n, char *ret, size_t cap,
                       struct sg_err *err)
{
    sg_auto_free char *command =
        sg_printf("exec '%s' %s 127.0.0.1 %u %u", g->b->dial, mode, (unsigned)g->far.port, n);
    FILE *f = popen(command, "re");
    if (!f)
        return sg_fail_sys(err, "start a client");
    const size_t got = fread(ret, 1, cap - 1, f);
    ret[got] = '\0';
    return pclose(f) == 0 ? 0 : sg_fail(err, SG_INTERNAL, "a client fails outside");
}

/* One number: the median of what the client printed. */
static int run_client(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    const struct side *d = ctx;
    char out[4096], argv[160];
    const char *mode = d->mib ? "send" : "greet";
    const unsigned n = d->mib ? d->mib : GREETINGS;
    (void)snprintf(argv, sizeof argv, "\"/tmp/dial\",\"%s\",\"%s\",\"%u\",\"%u\"", mode,
                   d->g->address, (unsigned)d->g->far.port, n);
    if ((d->is_inside ? exec_inside(d->g, argv, out, sizeof out, err)
                      : run_outside(d->g, mode, n, out, sizeof out, err)) < 0)
        return -1;
    struct sg_series times;
    sg_series_init(&times, n);
    uint64_t ns;
    for (const char *p = out; sscanf(p, "%" SCNu64, &ns) == 1;
         p += strcspn(p, "\n"), p += *p == '\n')
        if (times.n < n)
            sg_series_add(&times, ns);
    const int got = times.n ? 0 : sg_fail(err, SG_INTERNAL, "a client printed nothing");
    if (got == 0)
        *ret_ns = sg_series_median(&times);
    sg_series_done(&times);
    return got;
}

/* ---- the rows ---- */

static int race(struct gate *g, unsigned mib, unsigned rounds, struct sg_entrant e[2],
                struct sg_err *err)
{
    struct side inside = { g, true, mib }, outside = { g, false, mib };
    const unsigned n = sg_bench_rounds(g->b, rounds);
    e[0] = (struct sg_entrant) { .name = "gate", .run = run_client, .ctx = &inside, .n = n };
    e[1] = (struct sg_entrant) { .name = "direct", .run = run_client, .ctx = &outside, .n = n };
    return sg_race(e, 2, 0, err);
}

static int connects(struct gate *g, struct sg_err *err)
{
    struct sg_entrant e[2];
    if (race(g, 0, GREET_ROUNDS, e, err) < 0)
        return -1;
    const double more =
        ((double)sg_series_median(&e[0].times) - (double)sg_series_median(&e[1].times)) / 1e6;
    const double least =
        ((double)sg_series_min(&e[0].times) - (double)sg_series_min(&e[1].times)) / 1e6;
    sg_bench_compare(g->b, "gate", "connect, first byte : direct", &e[0], &e[1], 0);
    sg_report_add(g->b->report, &(struct sg_row) { .case_name = "gate",
                                                   .what = "connect, first byte: more than direct",
                                                   .unit = SG_UNIT_MS,
                                                   .n = e[0].n,
                                                   .median = more,
                                                   .min = least,
                                                   .bar = 0.15 });
    sg_race_done(e, 2);
    return 0;
}

static int streams(struct gate *g, struct sg_err *err)
{
    struct sg_entrant e[2];
    if (race(g, STREAM_MIB, STREAM_ROUNDS, e, err) < 0)
        return -1;
    sg_bench_compare(g->b, "gate", "one stream of 512 MiB : direct", &e[0], &e[1], 1 / 0.6);
    sg_race_done(e, 2);
    return 0;
}

static void add_kib(struct gate *g, const char *what, unsigned n, uint64_t before, uint64_t after,
                    double bar)
{
    const double kib = after > before ? (double)(after - before) / n : 0;
    sg_report_add(g->b->report, &(struct sg_row) { .case_name = "gate",
                                                   .what = what,
                                                   .unit = SG_UNIT_KIB,
                                                   .n = n,
                                                   .median = kib,
                                                   .min = kib,
                                                   .bar = bar });
}

/* Until the client in the background has printed how many were greeted. */
static int await_held(struct gate *g, const char *exec, unsigned *ret, struct sg_err *err)
{
    char path[128], out[64];
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/execs/%s/output", g->id, exec);
    for (unsigned i = 0; i < HELD_TRIES; i++) {
        if (sg_race_check(err) < 0 || sg_http_ask(&g->http, "GET", path, NULL, 200, err) < 0)
            return -1;
        if (sg_http_member(&g->http, "data", out, sizeof out, err) == 0 &&
            sscanf(out, "%u", ret) == 1)
            return 0;
        (void)nanosleep(&(struct timespec) { .tv_nsec = 50000000 }, NULL);
    }
    return sg_fail(err, SG_TIMEOUT, "the client does not say how many it holds");
}

static int crowd(struct gate *g, struct sg_err *err)
{
    char path[96], body[256], exec[48];
    uint64_t before, after;
    unsigned well = 0;
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/exec", g->id);
    (void)snprintf(body, sizeof body,
                   "{\"argv\":[\"/tmp/dial\",\"hold\",\"%s\",\"%u\",\"%d\"],\"background\":true}",
                   g->address, (unsigned)g->far.port, CROWD);
    if (sg_service_kib(&g->s, "sandglass-gate", &before, err) < 0 ||
        sg_http_ask(&g->http, "POST", path, body, 201, err) < 0 ||
        sg_http_member(&g->http, "id", exec, sizeof exec, err) < 0 ||
        await_held(g, exec, &well, err) < 0 ||
        sg_service_kib(&g->s, "sandglass-gate", &after, err) < 0)
        return -1;
    sg_report_add(g->b->report, &(struct sg_row) { .case_name = "gate",
                                                   .what = "connections at once: errors",
                                                   .unit = SG_UNIT_COUNT,
                                                   .n = CROWD,
                                                   .median = CROWD - well,
                                                   .min = CROWD - well,
                                                   .is_exact = true });
    add_kib(g, "idle connection: the gate's memory", CROWD, before, after, 64);
    return 0;
}

static int boxes(struct gate *g, struct sg_err *err)
{
    const unsigned n = sg_bench_rounds(g->b, BOXES);
    uint64_t before, after;
    if (sg_service_kib(&g->s, "sandglass-gate", &before, err) < 0)
        return -1;
    for (unsigned i = 0; i < n; i++)
        if (sg_race_check(err) < 0 ||
            sg_http_ask(&g->http, "POST", "/v1/sandboxes", POLICY, 201, err) < 0)
            return -1;
    if (sg_service_kib(&g->s, "sandglass-gate", &after, err) < 0)
        return -1;
    add_kib(g, "idle sandbox: the gate's memory", n, before, after, 32);
    return 0;
}

/* ---- set-up ---- */

static int put_client(struct gate *g, struct sg_err *err)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/files?path=/tmp/dial&mode=755", g->id);
    return sg_http_put_file(&g->http, path, g->b->dial, 200, err);
}

static int open_box(struct gate *g, struct sg_err *err)
{
    char found[512];
    if (sg_http_ask(&g->http, "POST", "/v1/sandboxes", POLICY, 201, err) < 0 ||
        sg_http_member(&g->http, "id", g->id, sizeof g->id, err) < 0 || put_client(g, err) < 0 ||
        exec_inside(g, "\"getent\",\"ahostsv4\",\"far.bench.test\"", found, sizeof found, err) < 0)
        return -1;
    (void)snprintf(g->address, sizeof g->address, "%.*s", (int)strcspn(found, " "), found);
    return 0;
}

static int measure(struct gate *g, struct sg_err *err)
{
    if (boxes(g, err) < 0 || open_box(g, err) < 0 || connects(g, err) < 0 || streams(g, err) < 0 ||
        sg_bench_swap(g->b, &g->s, &g->http, err) < 0)
        return -1;
    return crowd(g, err);
}

int sg_case_gate(const struct sg_bench *b, struct sg_err *err)
{
    struct gate g = { .b = b, .http.fd = -1 };
    struct sg_err own;
    if (sg_service_find(b, &g.s, err) < 0 || sg_service_connect(&g.s, &g.http, err) < 0 ||
        sg_far_start(&g.far, g.s.names_port, err) < 0)
        return -1;
    int result = measure(&g, err);
    if (sg_http_ask(&g.http, "DELETE", "/v1/sandboxes", NULL, 200, &own) < 0 && result == 0) {
        *err = own;
        result = -1;
    }
    sg_http_close(&g.http);
    sg_far_stop(&g.far);
    return result;
}
