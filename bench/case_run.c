/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass run -- /bin/true` from start to end, against others who do the same work. */
#include "bare.h"
#include "base/auto.h"
#include "contestants.h"
#include "base/banned.h"

enum {
    MAX_FIELD = 8,
    ROUNDS = 200,
    SLOW_ROUNDS = 40,
    PAUSED = 60,
    SLOW_PAUSED = 20,
    PAUSE_MS = 50
};

struct field {
    const struct sg_contestant *who[MAX_FIELD];
    struct sg_args args[MAX_FIELD];
    struct sg_bare bare[MAX_FIELD];
    struct sg_entrant quick[MAX_FIELD], paused[MAX_FIELD]; /* back to back, and with pauses */
    size_t n;
};

static unsigned rounds(const struct sg_bench *b, const struct sg_contestant *c, unsigned all,
                       unsigned slow)
{
    return sg_bench_rounds(b, c->is_slow && !b->is_full ? slow : all);
}

static void line_up(struct field *f, const struct sg_bench *b)
{
    for (size_t i = 0; i < sg_contestant_count; i++) {
        const struct sg_contestant *c = &sg_contestants[i];
        if (!sg_contestant_is_there(c, b))
            continue;
        const size_t at = f->n++;
        f->who[at] = c;
        sg_contestant_args(c, b, &f->args[at]);
        f->bare[at] = (struct sg_bare) { f->args[at].v, b->run_env, b->null_fd, NULL };
        f->quick[at] = (struct sg_entrant) { .name = c->name,
                                             .run = sg_bare_run,
                                             .ctx = &f->bare[at],
                                             .n = rounds(b, c, ROUNDS, SLOW_ROUNDS) };
        f->paused[at] = f->quick[at];
        f->paused[at].n = rounds(b, c, PAUSED, SLOW_PAUSED);
    }
}

static void add_rows(const struct field *f, const struct sg_bench *b)
{
    static const char *const what[] = { "", "run /bin/true : bubblewrap", "run /bin/true : crun",
                                        "run /bin/true : docker run" };
    for (size_t i = 1, at = 1; i < sg_contestant_count; i++) {
        const struct sg_contestant *c = &sg_contestants[i];
        if (at >= f->n || f->who[at] != c) {
            sg_report_add(b->report, &(struct sg_row) { .case_name = "run",
                                                        .what = what[i],
                                                        .missing = "not there: tools/deps bench" });
            continue;
        }
        struct sg_row *row =
            sg_bench_compare(b, "run", what[i], &f->quick[0], &f->quick[at], c->bar);
        const uint64_t ours = sg_series_median(&f->paused[0].times);
        row->paused_ms = (double)ours / 1e6;
        row->paused_ratio = (double)ours / (double)sg_series_median(&f->paused[at].times);
        at++;
    }
}

int sg_case_run(const struct sg_bench *b, struct sg_err *err)
{
    struct field f = { .n = 0 };
    int result = sg_crun_write_config(b, err);
    line_up(&f, b);
    if (result == 0)
        result = sg_race(f.quick, f.n, 0, err);
    if (result == 0)
        result = sg_race(f.paused, f.n, PAUSE_MS, err);
    if (result == 0)
        add_rows(&f, b);
    sg_race_done(f.quick, f.n);
    sg_race_done(f.paused, f.n);
    for (size_t i = 0; i < f.n; i++)
        sg_args_done(&f.args[i]);
    return result;
}
