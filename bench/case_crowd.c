/* SPDX-License-Identifier: Apache-2.0 */
/* A thousand live sandboxes, each with one idle stream: the daemon's memory, and an exec in one of
 * them against the same in an empty system. */
#include <stdio.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/clock.h"
#include "service.h"
#include "base/banned.h"

enum { CROWD = 1000, EXEC_ROUNDS = 200 };

struct member {
    struct sg_http stream;
    char id[SG_BENCH_ID];
};

static int measure(struct sg_http *h, const char *id, unsigned n, struct sg_series *ret,
                   struct sg_err *err)
{
    sg_series_init(ret, n);
    for (unsigned i = 0; i < n; i++) {
        const uint64_t start_ns = sg_now_ns();
        if (sg_race_check(err) < 0 || sg_service_exec_true(h, id, err) < 0)
            return -1;
        sg_series_add(ret, sg_now_ns() - start_ns);
    }
    return 0;
}

/* A watch stays open and says nothing. */
static int join(const struct sg_service *s, struct sg_http *h, struct member *m, struct sg_err *err)
{
    char path[128];
    if (sg_service_create(h, m->id, err) < 0 || sg_service_connect(s, &m->stream, err) < 0)
        return -1;
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/files/watch?path=/tmp", m->id);
    return sg_http_send(&m->stream, "GET", path, NULL, err);
}

static int fill(const struct sg_bench *b, const struct sg_service *s, struct sg_http *h,
                struct member *members, unsigned n, struct sg_err *err)
{
    struct sg_entrant empty = { .n = sg_bench_rounds(b, EXEC_ROUNDS) }, full = empty;
    uint64_t kib = 0;
    int result = join(s, h, &members[0], err);
    if (result == 0)
        result = measure(h, members[0].id, empty.n, &empty.times, err);
    for (unsigned i = 1; i < n && result == 0; i++)
        result = join(s, h, &members[i], err);
    if (result == 0)
        result = sg_service_await_pool(h, err);
    if (result == 0)
        result = measure(h, members[n / 2].id, full.n, &full.times, err);
    if (result == 0)
        result = sg_service_kib(s, "sandglassd", &kib, err);
    if (result == 0) {
        sg_report_add(b->report, &(struct sg_row) { .case_name = "crowd",
                                                    .what = "live sandboxes: the daemon's memory",
                                                    .unit = SG_UNIT_MIB,
                                                    .n = n,
                                                    .median = (double)kib / 1024,
                                                    .min = (double)kib / 1024,
                                                    .bar = 60 });
        sg_bench_compare(b, "crowd", "exec among them : in an empty system", &full, &empty, 1.5);
    }
    sg_series_done(&empty.times);
    sg_series_done(&full.times);
    return result;
}

int sg_case_crowd(const struct sg_bench *b, struct sg_err *err)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    struct sg_service s;
    struct sg_http h = { .fd = -1 };
    if (sg_service_find(b, &s, err) < 0 || sg_service_connect(&s, &h, err) < 0)
        return -1;
    const unsigned n = sg_bench_rounds(b, CROWD);
    struct member *members = sg_alloc(n * sizeof *members);
    for (unsigned i = 0; i < n; i++)
        members[i].stream.fd = -1;
    int result = fill(b, &s, &h, members, n, err);
    for (unsigned i = 0; i < n; i++)
        sg_http_close(&members[i].stream);
    free(members);
    struct sg_err own;
    if (sg_http_ask(&h, "DELETE", "/v1/sandboxes", NULL, 200, &own) < 0 && result == 0) {
        *err = own;
        result = -1;
    }
    sg_http_close(&h);
    return result;
}
