/* SPDX-License-Identifier: Apache-2.0 */
/* What all cases share: the programs and the sandbox to compare, how often, and where results go.
 *
 * A case is a row in the table of main.c: it measures something and adds rows to the report. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "config/config.h"
#include "engine/spec.h"
#include "image/template.h"
#include "race.h"
#include "report.h"

enum { SG_BENCH_MAX_ENV = SG_TEMPLATE_MAX_ENV + 8 };

struct sg_bench {
    const char *sandglass;   /* the program under test */
    const char *burn;        /* the fixed amount of work */
    const char *dial;        /* a client for sandboxes */
    const char *dir;         /* made by peers.sh: state/, rootfs/, bundle/, docker.sock */
    bool is_quick;           /* a tenth of the rounds */
    bool is_full;            /* docker as often as the others */
    struct sg_config config; /* defaults: the limits that `sandglass run` sets */
    struct sg_origins origins;
    struct sg_template host;
    struct sg_cell_spec cell;    /* of the template `host`; borrows from it */
    char *env[SG_BENCH_MAX_ENV]; /* what a program inside gets, for the bare ones, too */
    char *run_env[3];            /* for `sandglass run` and its competition */
    int null_fd;
    struct sg_report *report;
};

/* `n`, or a tenth of it (3 at least) when things are to go quickly. */
unsigned sg_bench_rounds(const struct sg_bench *b, unsigned n);

/* One row: ours against a peer's, as a ratio that has to stay below `bar` (0: no bar). */
struct sg_row *sg_bench_compare(const struct sg_bench *b, const char *case_name, const char *what,
                                const struct sg_entrant *ours, const struct sg_entrant *peer,
                                double bar);

int sg_case_run(const struct sg_bench *b, struct sg_err *err);
int sg_case_engine(const struct sg_bench *b, struct sg_err *err);
int sg_case_spawn(const struct sg_bench *b, struct sg_err *err);
int sg_case_python(const struct sg_bench *b, struct sg_err *err);
int sg_case_cpu(const struct sg_bench *b, struct sg_err *err);
int sg_case_idle(const struct sg_bench *b, struct sg_err *err);
