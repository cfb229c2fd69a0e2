/* SPDX-License-Identifier: Apache-2.0 */
/* The code interpreter against a bare Python: the first cell of a fresh sandbox, the ones that
 * follow, an import that everybody does, and what fifty of them weigh when nothing happens. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bare.h"
#include "base/auto.h"
#include "base/clock.h"
#include "service.h"
#include "base/banned.h"

enum {
    FIRST_ROUNDS = 100,
    IMPORT_ROUNDS = 10,
    IDLE = 50,
    PAUSE_MS = 20, /* the pool is filled behind */
};

#define PYTHON  "/usr/bin/python3"
#define IMPORTS "import numpy, pandas, matplotlib.pyplot"
/* Every process of a sandbox but the one that looks. */
#define LOOK                                                                                       \
    "{\"argv\":[\"/bin/sh\",\"-c\",\"for p in /proc/[0-9]*; do [ $p = /proc/$$ ] || "              \
    "cat $p/smaps_rollup; done 2>/dev/null; true\"]}"

struct client {
    struct sg_http http;
    char id[SG_BENCH_ID];
    const char *code, *answer; /* what is run, and what has to be in the reply */
};

static int create(struct sg_http *h, char ret_id[SG_BENCH_ID], struct sg_err *err)
{
    if (sg_http_ask(h, "POST", "/v1/sandboxes",
                    "{\"template\":\"code-interpreter-v1\",\"timeoutMs\":0}", 201, err) < 0)
        return -1;
    return sg_http_member(h, "id", ret_id, SG_BENCH_ID, err);
}

static int run_code(struct client *c, uint64_t *ret_ns, struct sg_err *err)
{
    sg_auto_free char *path = sg_printf("/v1/sandboxes/%s/code", c->id);
    sg_auto_free char *body = sg_printf("{\"code\":\"%s\"}", c->code);
    const uint64_t start_ns = sg_now_ns();
    if (sg_http_ask(&c->http, "POST", path, body, 200, err) < 0)
        return -1;
    *ret_ns = sg_now_ns() - start_ns;
    const char *reply = sg_http_body(&c->http);
    if (!strstr(reply, c->answer) || strstr(reply, "\"error\":{"))
        return sg_fail(err, SG_INTERNAL, "'%s' gave %.160s", c->code, reply);
    return 0;
}

static int run_first(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    struct client *c = ctx;
    if (create(&c->http, c->id, err) < 0)
        return -1;
    int result = run_code(c, ret_ns, err);
    return sg_service_destroy(&c->http, c->id, err) < 0 ? -1 : result;
}

static int run_next(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    return run_code(ctx, ret_ns, err);
}

static struct sg_bare bare_python(const struct sg_bench *b, char *code, char *argv[4])
{
    argv[0] = (char *)PYTHON;
    argv[1] = (char *)"-c";
    argv[2] = code;
    argv[3] = NULL;
    return (struct sg_bare) { .argv = argv, .env = (char *const *)b->env, .null_fd = b->null_fd };
}

static int race_cells(const struct sg_bench *b, struct client *fresh, struct client *live,
                      struct sg_err *err)
{
    char *argv[4];
    struct sg_bare bare = bare_python(b, (char *)"print(2)", argv);
    const unsigned n = sg_bench_rounds(b, FIRST_ROUNDS);
    struct sg_entrant e[] = {
        { .name = "first", .run = run_first, .ctx = fresh, .n = n },
        { .name = "next", .run = run_next, .ctx = live, .n = n },
        { .name = "bare python", .run = sg_bare_run, .ctx = &bare, .n = n },
    };
    int result = sg_race(e, SG_COUNT(e), PAUSE_MS, err);
    if (result == 0) {
        (void)sg_bench_compare(b, "code", "first cell of a sandbox : bare python", &e[0], &e[2], 2);
        (void)sg_bench_compare(b, "code", "next cells : bare python", &e[1], &e[2], 0.3);
    }
    sg_race_done(e, SG_COUNT(e));
    return result;
}

static int race_imports(const struct sg_bench *b, struct client *fresh, struct sg_err *err)
{
    char *argv[4];
    struct sg_bare bare = bare_python(b, (char *)IMPORTS, argv);
    uint64_t ns;
    struct sg_err none;
    if (sg_bare_run(&bare, &ns, &none) < 0) {
        (void)sg_report_add(b->report,
                            &(struct sg_row) { .case_name = "code",
                                               .what = "numpy, pandas, matplotlib",
                                               .missing = "this Python has none of them" });
        return 0;
    }
    const unsigned n = sg_bench_rounds(b, IMPORT_ROUNDS);
    struct sg_entrant e[] = {
        { .name = "import", .run = run_first, .ctx = fresh, .n = n },
        { .name = "bare import", .run = sg_bare_run, .ctx = &bare, .n = n },
    };
    int result = sg_race(e, SG_COUNT(e), PAUSE_MS, err);
    if (result == 0)
        (void)sg_bench_compare(b, "code", "import numpy, pandas, pyplot : bare", &e[0], &e[1], 0.2);
    sg_race_done(e, SG_COUNT(e));
    return result;
}

/* ---- fifty that wait ---- */

/* The sum of the lines "Pss: 123 kB" in a reply. */
static unsigned long pss_kib(const char *text)
{
    unsigned long sum = 0, one;
    for (; (text = strstr(text, "Pss:")); text++)
        if (sscanf(text, "Pss: %lu kB", &one) == 1)
            sum += one;
    return sum;
}

static int weigh(struct client *all, unsigned n, unsigned long *ret_kib, struct sg_err *err)
{
    uint64_t ns;
    *ret_kib = 0;
    for (unsigned i = 0; i < n; i++)
        if (sg_race_check(err) < 0 || create(&all[0].http, all[i].id, err) < 0)
            return -1;
    for (unsigned i = 0; i < n; i++) {
        struct client one = all[0];
        memcpy(one.id, all[i].id, sizeof one.id);
        int result = run_code(&one, &ns, err);
        all[0].http = one.http;
        if (result < 0)
            return -1;
    }
    for (unsigned i = 0; i < n; i++) {
        sg_auto_free char *path = sg_printf("/v1/sandboxes/%s/exec", all[i].id);
        if (sg_http_ask(&all[0].http, "POST", path, LOOK, 200, err) < 0)
            return -1;
        unsigned long kib = pss_kib(sg_http_body(&all[0].http));
        if (kib == 0)
            return sg_fail(err, SG_INTERNAL, "a sandbox does not tell what it weighs");
        *ret_kib += kib;
    }
    return 0;
}

static int idle(const struct sg_bench *b, const struct sg_service *s, struct sg_err *err)
{
    struct client all[IDLE] = { { .http.fd = -1 } };
    all[0].code = "1+1";
    all[0].answer = "\"2\"";
    if (sg_service_connect(s, &all[0].http, err) < 0)
        return -1;
    unsigned long kib = 0;
    const unsigned n = IDLE;
    int result = weigh(all, n, &kib, err);
    struct sg_err ignored;
    for (unsigned i = 0; i < n; i++)
        if (all[i].id[0])
            (void)sg_service_destroy(&all[0].http, all[i].id, &ignored);
    sg_http_close(&all[0].http);
    if (result < 0)
        return -1;
    const double mib = (double)kib / 1024 / n;
    (void)sg_report_add(b->report, &(struct sg_row) { .case_name = "code",
                                                      .what = "idle interpreters: memory of each",
                                                      .unit = SG_UNIT_MIB,
                                                      .n = n,
                                                      .median = mib,
                                                      .min = mib,
                                                      .bar = 12 });
    return 0;
}

static int measure(const struct sg_bench *b, const struct sg_service *s, struct client *fresh,
                   struct client *live, struct sg_err *err)
{
    uint64_t ns;
    if (create(&live->http, live->id, err) < 0)
        return -1;
    int result = run_code(live, &ns, err);
    if (result == 0)
        result = race_cells(b, fresh, live, err);
    struct sg_err ignored;
    (void)sg_service_destroy(&live->http, live->id, &ignored);
    fresh->code = IMPORTS;
    fresh->answer = "{";
    if (result == 0)
        result = race_imports(b, fresh, err);
    return result == 0 ? idle(b, s, err) : -1;
}

int sg_case_code(const struct sg_bench *b, struct sg_err *err)
{
    struct sg_service s;
    struct client fresh = { .http.fd = -1, .code = "1+1", .answer = "\"2\"" }, live = fresh;
    sg_auto_free char *root = sg_printf("%s/state/templates/code-interpreter-v1/root", b->dir);
    if (access(root, F_OK) < 0) {
        (void)sg_report_add(b->report,
                            &(struct sg_row) { .case_name = "code",
                                               .what = "first cell of a sandbox : bare python",
                                               .missing = "no template code-interpreter-v1" });
        return 0;
    }
    if (sg_service_find(b, &s, err) < 0 || sg_service_connect(&s, &fresh.http, err) < 0 ||
        sg_service_connect(&s, &live.http, err) < 0)
        return -1;
    int result = measure(b, &s, &fresh, &live, err);
    sg_http_close(&fresh.http);
    sg_http_close(&live.http);
    return result;
}
