/* SPDX-License-Identifier: Apache-2.0 */
/* The one table that a run of the benchmark prints, and the same as JSON. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "machine.h"

enum sg_unit { SG_UNIT_MS, SG_UNIT_S, SG_UNIT_KIB, SG_UNIT_MIB, SG_UNIT_COUNT };
enum { SG_REPORT_ROWS = 96 };

struct sg_row {
    const char *case_name, *what;
    const char *missing; /* why there is nothing to compare with; NULL: there is */
    enum sg_unit unit;
    unsigned n, peer_n; /* peer_n 0: the value itself has the bar */
    double median, min, peer_median, peer_min;
    double bar;       /* of the ratio of medians, or of the value; 0: none, unless is_exact */
    bool is_exact;    /* the value must be `bar` */
    double paused_ms; /* ours with pauses in between; 0: not measured */
    double paused_ratio;
};

struct sg_report {
    struct sg_row rows[SG_REPORT_ROWS];
    size_t n;
};

/* The row stays where it is, to be added to. */
struct sg_row *sg_report_add(struct sg_report *r, const struct sg_row *row);

void sg_report_print(const struct sg_report *r, const struct sg_machine *m);
int sg_report_write_json(const struct sg_report *r, const struct sg_machine *m, const char *path,
                         struct sg_err *err);

size_t sg_report_missed(const struct sg_report *r); /* bars that do not hold */
