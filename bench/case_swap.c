/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs that the gate puts a secret into a request: the same client in the same sandbox
 * asks the same server over TLS, on a connection that is kept, by a name that a secret is bound to
 * and by one that none is. Of the first the gate reads and writes every byte anew; of the second it
 * sees none. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "service.h"
#include "base/banned.h"

enum { REQUESTS = 60, ROUNDS = 20 }; /* of one connection; its first does not count */
static const char SECRET[] = "{\"value\":\"bench-secret-value\",\"hosts\":[\"swap.bench.test\"]}";
static const char BOX[] = "{\"timeoutMs\":0,\"network\":{\"mode\":\"filtered\",\"allow\":"
                          "[\"far.bench.test\",\"swap.bench.test\"]},\"secrets\":[{\"name\":"
                          "\"bench-swap\",\"env\":\"SWAP_KEY\"}]}";

struct asker {
    struct sg_http *http;
    const char *id, *host;
    unsigned port;
};

/* `ret` has a line of seconds for each request. */
static int ask(const struct asker *a, const char *path, char *ret, size_t cap, struct sg_err *err)
{
    sg_auto_free char *where = sg_printf("/v1/sandboxes/%s/exec", a->id);
    sg_auto_free char *body = sg_printf(
        "{\"argv\":[\"sh\",\"-c\",\"exec curl -sfk -m 60 -o /dev/null -w '%%{time_total} ' "
        "-H X-Key:$SWAP_KEY 'https://%s:%u/%s'\"]}",
        a->host, a->port, path);
    if (sg_http_ask(a->http, "POST", where, body, 200, err) < 0 ||
        sg_http_member(a->http, "stdout", ret, cap, err) < 0)
        return -1;
    return strstr(sg_http_body(a->http), "\"exitCode\":0")
               ? 0
               : sg_fail(err, SG_INTERNAL, "curl fails inside: %s",
                         sg_quote(sg_http_body(a->http)).s);
}

static int run_requests(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    char out[16 * REQUESTS];
    sg_auto_free char *path = sg_printf("small?[0-%d]", REQUESTS);
    if (ask(ctx, path, out, sizeof out, err) < 0)
        return -1;
    struct sg_series times;
    double seconds;
    int used;
    sg_series_init(&times, REQUESTS);
    for (const char *p = out; sscanf(p, "%lf %n", &seconds, &used) == 1; p += used)
        if (p != out && times.n < REQUESTS)
            sg_series_add(&times, (uint64_t)(seconds * 1e9));
    const int got =
        times.n == REQUESTS ? 0 : sg_fail(err, SG_INTERNAL, "curl printed too few times");
    if (got == 0)
        *ret_ns = sg_series_median(&times);
    sg_series_done(&times);
    return got;
}

static int measure(const struct sg_bench *b, struct asker who[2], struct sg_err *err)
{
    const unsigned n = sg_bench_rounds(b, ROUNDS);
    struct sg_entrant e[2] = {
        { .name = "swap", .run = run_requests, .ctx = &who[0], .n = n },
        { .name = "untouched", .run = run_requests, .ctx = &who[1], .n = n },
    };
    if (sg_race(e, 2, 0, err) < 0)
        return -1;
    sg_bench_compare(b, "gate", "HTTPS request, secret : untouched", &e[0], &e[1], 0);
    sg_report_add(
        b->report,
        &(struct sg_row) {
            .case_name = "gate",
            .what = "HTTPS, a secret put in: more than not",
            .unit = SG_UNIT_MS,
            .n = n,
            .median =
                ((double)sg_series_median(&e[0].times) - (double)sg_series_median(&e[1].times)) /
                1e6,
            .min = ((double)sg_series_min(&e[0].times) - (double)sg_series_min(&e[1].times)) / 1e6,
            .bar = 1 });
    sg_race_done(e, 2);
    return 0;
}

int sg_bench_swap(const struct sg_bench *b, const struct sg_service *s, struct sg_http *h,
                  struct sg_err *err)
{
    char id[SG_BENCH_ID], out[64];
    struct asker who[2] = { { h, id, "swap.bench.test", s->tls_port },
                            { h, id, "far.bench.test", s->tls_port } };
    if (!s->tls_port) {
        sg_report_add(b->report, &(struct sg_row) { .case_name = "gate",
                                                    .what = "HTTPS request with a secret put in",
                                                    .missing = "no nginx with a certificate" });
        return 0;
    }
    if (sg_http_ask(h, "PUT", "/v1/secrets/bench-swap", SECRET, 200, err) < 0 ||
        sg_http_ask(h, "POST", "/v1/sandboxes", BOX, 201, err) < 0 ||
        sg_http_member(h, "id", id, sizeof id, err) < 0)
        return -1;
    /* The server takes only the value, so that what is measured is what happens. */
    if (ask(&who[0], "swapped", out, sizeof out, err) < 0 || measure(b, who, err) < 0 ||
        sg_service_destroy(h, id, err) < 0)
        return -1;
    return sg_http_ask(h, "DELETE", "/v1/secrets/bench-swap", NULL, 204, err);
}
