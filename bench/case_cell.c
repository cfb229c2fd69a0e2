/* SPDX-License-Identifier: Apache-2.0 */
/* What a program costs inside, against the same program started bare: in a cell made for it, in
 * one that lives already, Python, and plain work. */
#include <stdio.h>
#include <inttypes.h>

#include "bare.h"
#include "base/auto.h"
#include "bench.h"
#include "guest.h"
#include "base/banned.h"

enum {
    NEW_ROUNDS = 200,
    LIVE_ROUNDS = 400,
    PYTHON_ROUNDS = 60,
    CPU_ROUNDS = 15,
    OUTPUT_BYTES = 4096
};

static char true_program[] = "/bin/true";
static char *const true_argv[] = { true_program, NULL };

static struct sg_guest_job job_of(const struct sg_bench *b, char *const *argv)
{
    return (struct sg_guest_job) { .spec = &b->cell,
                                   .argv = argv,
                                   .env = (char *const *)b->env,
                                   .user = b->host.user,
                                   .workdir = b->cell.workdir };
}

static struct sg_bare bare_of(const struct sg_bench *b, char *const *argv)
{
    return (struct sg_bare) { .argv = argv, .env = (char *const *)b->env, .null_fd = b->null_fd };
}

int sg_case_engine(const struct sg_bench *b, struct sg_err *err)
{
    struct sg_guest_job job = job_of(b, true_argv);
    struct sg_bare bare = bare_of(b, true_argv);
    const unsigned n = sg_bench_rounds(b, NEW_ROUNDS);
    struct sg_entrant e[] = {
        { .name = "engine", .run = sg_guest_run_new, .ctx = &job, .n = n },
        { .name = "bare", .run = sg_bare_run, .ctx = &bare, .n = n },
    };
    const int result = sg_race(e, SG_COUNT(e), 0, err);
    if (result == 0)
        sg_bench_compare(b, "engine", "create, exec, end of output : bare", &e[0], &e[1], 5);
    sg_race_done(e, SG_COUNT(e));
    return result;
}

int sg_case_spawn(const struct sg_bench *b, struct sg_err *err)
{
    struct sg_guest guest;
    struct sg_guest_job job = job_of(b, true_argv);
    struct sg_bare bare = bare_of(b, true_argv);
    const unsigned n = sg_bench_rounds(b, LIVE_ROUNDS);
    struct sg_entrant e[] = {
        { .name = "spawn", .run = sg_guest_run_live, .ctx = &job, .n = n },
        { .name = "bare", .run = sg_bare_run, .ctx = &bare, .n = n },
    };
    job.guest = &guest;
    int result = sg_guest_open(&guest, &b->cell, err);
    if (result == 0)
        result = sg_race(e, SG_COUNT(e), 0, err);
    if (result == 0)
        sg_bench_compare(b, "spawn", "spawn in a live cell : bare", &e[0], &e[1], 1.4);
    sg_race_done(e, SG_COUNT(e));
    sg_guest_close(&guest);
    return result;
}

int sg_case_python(const struct sg_bench *b, struct sg_err *err)
{
    static char python[] = "/usr/bin/python3", dash_c[] = "-c", pass[] = "pass", run[] = "run",
                dashes[] = "--";
    char *const argv[] = { python, dash_c, pass, NULL };
    sg_auto_free char *program = sg_strdup(b->sandglass);
    char *const run_argv[] = { program, run, dashes, python, dash_c, pass, NULL };
    struct sg_guest guest;
    struct sg_guest_job job = job_of(b, argv);
    struct sg_bare bare = bare_of(b, argv);
    struct sg_bare whole = { run_argv, b->run_env, b->null_fd, NULL };
    const unsigned n = sg_bench_rounds(b, PYTHON_ROUNDS);
    struct sg_entrant e[] = {
        { .name = "live cell", .run = sg_guest_run_live, .ctx = &job, .n = n },
        { .name = "sandglass run", .run = sg_bare_run, .ctx = &whole, .n = n },
        { .name = "bare", .run = sg_bare_run, .ctx = &bare, .n = n },
    };
    job.guest = &guest;
    int result = sg_guest_open(&guest, &b->cell, err);
    if (result == 0)
        result = sg_race(e, SG_COUNT(e), 0, err);
    if (result == 0) {
        sg_bench_compare(b, "python", "python3 in a live cell : bare", &e[0], &e[2], 1.25);
        sg_bench_compare(b, "python", "sandglass run python3 : bare", &e[1], &e[2], 1.25);
    }
    sg_race_done(e, SG_COUNT(e));
    sg_guest_close(&guest);
    return result;
}

/* ---- plain work: the program tells the processor time that it took ---- */

struct work {
    int (*run)(void *ctx, uint64_t *ret_ns, struct sg_err *err);
    void *ctx;
    struct sg_buf *output;
};

static int run_work(void *work, uint64_t *ret_ns, struct sg_err *err)
{
    const struct work *w = work;
    uint64_t wall_ns = 0;
    sg_buf_clear(w->output);
    if (w->run(w->ctx, &wall_ns, err) < 0)
        return -1;
    if (sscanf(sg_buf_cstr(w->output), "%" SCNu64, ret_ns) != 1)
        return sg_fail(err, SG_INTERNAL, "the work did not tell its time");
    return 0;
}

int sg_case_cpu(const struct sg_bench *b, struct sg_err *err)
{
    static char inside[] = "/opt/burn";
    sg_auto_free char *outside = sg_strdup(b->burn);
    char *const argv[] = { inside, NULL }, *const bare_argv[] = { outside, NULL };
    struct sg_cell_spec spec = b->cell;
    spec.binds[spec.bind_count++] = (struct sg_bind) { b->burn, inside, SG_BIND_READ_ONLY };
    sg_auto_buf output;
    sg_buf_init(&output, OUTPUT_BYTES);
    struct sg_guest guest;
    struct sg_guest_job job = job_of(b, argv);
    struct sg_bare bare = bare_of(b, bare_argv);
    job.guest = &guest;
    job.output = bare.output = &output;
    struct work in = { sg_guest_run_live, &job, &output }, out = { sg_bare_run, &bare, &output };
    const unsigned n = sg_bench_rounds(b, CPU_ROUNDS);
    struct sg_entrant e[] = {
        { .name = "work in a cell", .run = run_work, .ctx = &in, .n = n },
        { .name = "bare work", .run = run_work, .ctx = &out, .n = n },
    };
    int result = sg_guest_open(&guest, &spec, err);
    if (result == 0)
        result = sg_race(e, SG_COUNT(e), 0, err);
    if (result == 0)
        sg_bench_compare(b, "cpu", "processor time of work : bare", &e[0], &e[1], 1.02);
    sg_race_done(e, SG_COUNT(e));
    sg_guest_close(&guest);
    return result;
}
