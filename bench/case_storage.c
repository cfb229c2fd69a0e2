/* SPDX-License-Identifier: Apache-2.0 */
/* The storage pool: a snapshot of a running sandbox with 1 GiB of files, forks of it, back to it,
 * and the freezer; all over HTTP. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/parse.h"
#include "service.h"
#include "base/banned.h"

enum { SNAPSHOTS = 10, FORKS = 10, CREATES = 10, FIRSTS = 5, ROLLBACKS = 10, PAUSES = 100 };
enum { MS = 1000000 };

static const char CREATE[] = "{\"timeoutMs\":0,\"limits\":{\"diskBytes\":4294967296}}";
static const char FILL[] = "{\"argv\":[\"sh\",\"-c\",\"for i in 0 1 2 3 4 5 6 7; do head -c 128M "
                           "/dev/urandom > f$i; done\"]}";

static const char DIRTY[] = "{\"argv\":[\"sh\",\"-c\",\"head -c 256M /dev/urandom > f0\"]}";

struct box {
    struct sg_http http;
    char id[SG_BENCH_ID], snapshot[SG_BENCH_ID];
    double snapshot_ms; /* of a whole call */
};

static int post(struct box *x, const char *tail, const char *body, int want, uint64_t *ret_ns,
                struct sg_err *err)
{
    char path[96];
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/%s", x->id, tail);
    const uint64_t start_ns = sg_now_ns();
    if (sg_http_ask(&x->http, "POST", path, body, want, err) < 0)
        return -1;
    *ret_ns = sg_now_ns() - start_ns;
    return 0;
}

static void add(const struct sg_bench *b, const char *what, const struct sg_series *t, double bar)
{
    sg_report_add(b->report, &(struct sg_row) { .case_name = "storage",
                                                .what = what,
                                                .unit = SG_UNIT_MS,
                                                .n = (unsigned)t->n,
                                                .median = (double)sg_series_median(t) / MS,
                                                .min = (double)sg_series_min(t) / MS,
                                                .bar = bar });
}

/* "frozenUs":123 in the last reply. */
static uint64_t frozen_ns(struct box *x)
{
    static const char key[] = "\"frozenUs\":";
    const char *p = strstr(sg_http_body(&x->http), key);
    uint64_t us = 0;
    if (p) {
        p += sizeof key - 1;
        (void)sg_parse_u64((struct sg_str) { p, strspn(p, "0123456789") }, 0, UINT32_MAX, &us,
                           NULL);
    }
    return us * 1000;
}

static int forget(struct box *x, const char *id, struct sg_err *err)
{
    char path[96];
    (void)snprintf(path, sizeof path, "/v1/snapshots/%s?cascade=1", id);
    return sg_http_ask(&x->http, "DELETE", path, NULL, 204, err);
}

static int snapshots(const struct sg_bench *b, struct box *x, struct sg_err *err)
{
    const unsigned n = sg_bench_rounds(b, SNAPSHOTS);
    struct sg_series frozen, whole;
    sg_series_init(&frozen, n);
    sg_series_init(&whole, n);
    int result = 0;
    for (unsigned i = 0; i < n && result == 0; i++) {
        uint64_t ns;
        if (*x->snapshot)
            result = forget(x, x->snapshot, err);
        if (result == 0)
            result = post(x, "snapshots", "{}", 201, &ns, err);
        if (result == 0)
            result = sg_http_member(&x->http, "id", x->snapshot, sizeof x->snapshot, err);
        if (result == 0) {
            sg_series_add(&frozen, frozen_ns(x));
            sg_series_add(&whole, ns);
        }
    }
    if (result == 0) {
        add(b, "snapshot of 1 GiB, time that it is frozen", &frozen, 60);
        add(b, "snapshot of 1 GiB, the whole call", &whole, 0);
        x->snapshot_ms = (double)sg_series_median(&whole) / MS;
    }
    sg_series_done(&frozen);
    sg_series_done(&whole);
    return result;
}

static int verbs(const struct sg_bench *b, struct box *x, const char *tail, const char *body,
                 const char *undo, const char *what, unsigned rounds, double bar,
                 struct sg_err *err)
{
    const unsigned n = sg_bench_rounds(b, rounds);
    struct sg_series t;
    uint64_t ns;
    sg_series_init(&t, n);
    int result = 0;
    for (unsigned i = 0; i < n && result == 0; i++) {
        result = post(x, tail, body, 200, &ns, err);
        if (result == 0)
            sg_series_add(&t, ns);
        if (result == 0 && undo)
            result = post(x, undo, NULL, 200, &ns, err);
    }
    if (result == 0)
        add(b, what, &t, bar);
    sg_series_done(&t);
    return result;
}

static int resumes(const struct sg_bench *b, struct box *x, struct sg_err *err)
{
    const unsigned n = sg_bench_rounds(b, PAUSES);
    struct sg_series t;
    uint64_t ns;
    int result = 0;
    sg_series_init(&t, n);
    for (unsigned i = 0; i < n && result == 0; i++) {
        result = post(x, "pause", "{}", 200, &ns, err);
        if (result == 0)
            result = post(x, "resume", NULL, 200, &ns, err);
        sg_series_add(&t, ns);
    }
    if (result == 0)
        add(b, "resume, over HTTP", &t, 2);
    sg_series_done(&t);
    return result;
}

/* A pooled create, in ms. */
static int time_create(struct box *x, double *ret_ms, struct sg_err *err)
{
    struct sg_series t;
    int result = 0;
    sg_series_init(&t, CREATES);
    for (unsigned i = 0; i < CREATES && result == 0; i++) {
        char id[SG_BENCH_ID];
        result = sg_service_await_pool(&x->http, err);
        const uint64_t start_ns = sg_now_ns();
        if (result == 0)
            result = sg_service_create(&x->http, id, err);
        sg_series_add(&t, sg_now_ns() - start_ns);
        if (result == 0)
            result = sg_service_destroy(&x->http, id, err);
    }
    *ret_ms = (double)sg_series_median(&t) / MS;
    sg_series_done(&t);
    return result;
}

/* The bar: as many times as one snapshot and one create from the pool take. */
static int forks(const struct sg_bench *b, struct box *x, struct sg_err *err)
{
    const double one_snapshot = x->snapshot_ms;
    double one_create;
    if (time_create(x, &one_create, err) < 0)
        return -1;
    struct sg_series t;
    uint64_t ns;
    char body[32];
    sg_series_init(&t, 1);
    (void)snprintf(body, sizeof body, "{\"count\":%d}", FORKS);
    const int result = post(x, "fork", body, 201, &ns, err);
    if (result == 0) {
        sg_series_add(&t, ns);
        add(b, "fork of 1 GiB into 10", &t, FORKS * (one_snapshot + one_create));
    }
    sg_series_done(&t);
    return result;
}

/* While what was overwritten since still has to go to the disk. */
static int first_rollback(const struct sg_bench *b, struct box *x, const char *body,
                          struct sg_err *err)
{
    const unsigned n = sg_bench_rounds(b, FIRSTS);
    struct sg_series t;
    uint64_t ns;
    int result = 0;
    sg_series_init(&t, n);
    for (unsigned i = 0; i < n && result == 0; i++) {
        result = post(x, "exec", DIRTY, 200, &ns, err);
        if (result == 0)
            result = post(x, "rollback", body, 200, &ns, err);
        sg_series_add(&t, ns);
    }
    if (result == 0)
        add(b, "rollback with 256 MiB just written", &t, 100);
    sg_series_done(&t);
    return result;
}

static int measure(const struct sg_bench *b, struct box *x, struct sg_err *err)
{
    uint64_t ns;
    char body[64];
    if (sg_http_ask(&x->http, "POST", "/v1/sandboxes", CREATE, 201, err) < 0 ||
        sg_http_member(&x->http, "id", x->id, sizeof x->id, err) < 0 ||
        post(x, "exec", FILL, 200, &ns, err) < 0 || snapshots(b, x, err) < 0 ||
        forks(b, x, err) < 0)
        return -1;
    (void)snprintf(body, sizeof body, "{\"snapshot\":\"%s\"}", x->snapshot);
    if (first_rollback(b, x, body, err) < 0 ||
        verbs(b, x, "rollback", body, NULL, "rollback to 1 GiB", ROLLBACKS, 100, err) < 0 ||
        verbs(b, x, "pause", "{}", "resume", "pause, over HTTP", PAUSES, 2, err) < 0 ||
        resumes(b, x, err) < 0 || sg_bench_disk(b, &x->http, err) < 0 ||
        sg_bench_builds(b, &x->http, err) < 0)
        return -1;
    return sg_http_ask(&x->http, "DELETE", "/v1/sandboxes", NULL, 200, err) < 0
               ? -1
               : forget(x, x->snapshot, err);
}

int sg_case_storage(const struct sg_bench *b, struct sg_err *err)
{
    struct sg_service s;
    struct box x = { .http.fd = -1 };
    if (sg_service_find(b, &s, err) < 0 || sg_service_connect(&s, &x.http, err) < 0)
        return -1;
    const int result = measure(b, &x, err);
    sg_http_close(&x.http);
    return result;
}
