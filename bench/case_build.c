/* SPDX-License-Identifier: Apache-2.0 */
/* Builds of the service: a second build of which every step is there, and whether a sandbox of a
 * template with five layers takes longer than one of a template with one. Part of `storage`. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "service.h"
#include "base/banned.h"

enum { MS = 1000000, REBUILDS = 20, CREATES = 30, LAYERS = 5, BODY_BYTES = 4096, LOOKS = 600 };

/* Builds a template of so many layers; how long it took until it was told to be there. */
static int build(struct sg_http *h, const char *name, unsigned layers, uint64_t *ret_ns,
                 struct sg_err *err)
{
    sg_auto_buf body;
    char id[64], path[128], state[16] = "";
    sg_buf_init(&body, BODY_BYTES);
    sg_buf_addf(&body, "{\"name\":\"%s\",\"stages\":[{\"template\":\"host\",\"steps\":[", name);
    for (unsigned i = 0; i < layers; i++)
        sg_buf_addf(&body,
                    "%s{\"type\":\"RUN\",\"args\":[\"head -c 1M /dev/urandom > /var/tmp/%s-%u\"]}",
                    i ? "," : "", name, i);
    sg_buf_add_str(&body, "]}]}");
    const uint64_t start_ns = sg_now_ns();
    if (sg_http_ask(h, "POST", "/v1/builds", sg_buf_cstr(&body), 202, err) < 0 ||
        sg_http_member(h, "id", id, sizeof id, err) < 0)
        return -1;
    (void)snprintf(path, sizeof path, "/v1/builds/%s?offset=4000000000&waitMs=100", id);
    for (unsigned i = 0; i < LOOKS && strcmp(state, "ready") != 0; i++) {
        if (sg_http_ask(h, "GET", path, NULL, 200, err) < 0 ||
            sg_http_member(h, "state", state, sizeof state, err) < 0)
            return -1;
        if (strcmp(state, "error") == 0)
            return sg_fail(err, SG_INTERNAL, "the build failed: %.150s", sg_http_body(h));
    }
    *ret_ns = sg_now_ns() - start_ns;
    return strcmp(state, "ready") == 0 ? 0 : sg_fail(err, SG_TIMEOUT, "the build did not end");
}

static int create(struct sg_http *h, const char *template, struct sg_series *t, struct sg_err *err)
{
    char body[96], id[SG_BENCH_ID];
    (void)snprintf(body, sizeof body, "{\"template\":\"%s\"}", template);
    const uint64_t start_ns = sg_now_ns();
    if (sg_http_ask(h, "POST", "/v1/sandboxes", body, 201, err) < 0)
        return -1;
    sg_series_add(t, sg_now_ns() - start_ns);
    return sg_http_member(h, "id", id, sizeof id, err) < 0 ? -1 : sg_service_destroy(h, id, err);
}

static int rebuilds(const struct sg_bench *b, struct sg_http *h, struct sg_err *err)
{
    const unsigned n = sg_bench_rounds(b, REBUILDS);
    struct sg_series t;
    uint64_t ns;
    int result = 0;
    sg_series_init(&t, n);
    for (unsigned i = 0; i < n && result == 0; i++) {
        result = build(h, "bench-five", LAYERS, &ns, err);
        sg_series_add(&t, ns);
    }
    if (result == 0)
        sg_report_add(b->report, &(struct sg_row) { .case_name = "storage",
                                                    .what = "rebuild of 5 layers that are there",
                                                    .unit = SG_UNIT_MS,
                                                    .n = (unsigned)t.n,
                                                    .median = (double)sg_series_median(&t) / MS,
                                                    .min = (double)sg_series_min(&t) / MS,
                                                    .bar = 300 });
    sg_series_done(&t);
    return result;
}

/* By turns, so that what else happens on the machine happens to both. */
static int creates(const struct sg_bench *b, struct sg_http *h, struct sg_err *err)
{
    const unsigned n = sg_bench_rounds(b, CREATES);
    struct sg_series five, one;
    int result = 0;
    sg_series_init(&five, n);
    sg_series_init(&one, n);
    for (unsigned i = 0; i < n && result == 0; i++)
        if (create(h, "bench-five", &five, err) < 0 || create(h, "bench-one", &one, err) < 0)
            result = -1;
    if (result == 0)
        sg_report_add(b->report,
                      &(struct sg_row) { .case_name = "storage",
                                         .what = "create of 5 layers, against 1 layer",
                                         .unit = SG_UNIT_MS,
                                         .n = (unsigned)five.n,
                                         .peer_n = (unsigned)one.n,
                                         .median = (double)sg_series_median(&five) / MS,
                                         .min = (double)sg_series_min(&five) / MS,
                                         .peer_median = (double)sg_series_median(&one) / MS,
                                         .peer_min = (double)sg_series_min(&one) / MS,
                                         .bar = 1.2 });
    sg_series_done(&five);
    sg_series_done(&one);
    return result;
}

int sg_bench_builds(const struct sg_bench *b, struct sg_http *h, struct sg_err *err)
{
    uint64_t ns;
    if (build(h, "bench-five", LAYERS, &ns, err) < 0 || build(h, "bench-one", 1, &ns, err) < 0 ||
        rebuilds(b, h, err) < 0 || creates(b, h, err) < 0)
        return -1;
    return sg_http_ask(h, "DELETE", "/v1/templates/bench-five", NULL, 204, err) < 0
               ? -1
               : sg_http_ask(h, "DELETE", "/v1/templates/bench-one", NULL, 204, err);
}
