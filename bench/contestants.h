/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that run one command in one fresh sandbox: ours and its competition. */
#pragma once

#include "bench.h"

enum { SG_ARGS_MAX = 96 };

/* An argument list; its texts are owned. */
struct sg_args {
    char *v[SG_ARGS_MAX + 1];
    size_t n;
};

struct sg_contestant {
    const char *name;    /* as in "run: against docker" */
    const char *program; /* NULL: the one under test */
    const char *needs;   /* below the benchmark's directory; NULL: nothing */
    double bar;          /* for our time divided by its time */
    bool is_slow;        /* takes part in fewer rounds */
    void (*add_args)(const struct sg_bench *b, struct sg_args *args);
};

extern const struct sg_contestant sg_contestants[]; /* the first is ours */
extern const size_t sg_contestant_count;

/* False, when it is not installed or was not set up. */
bool sg_contestant_is_there(const struct sg_contestant *c, const struct sg_bench *b);

/* The whole command line, which ends with /bin/true. */
void sg_contestant_args(const struct sg_contestant *c, const struct sg_bench *b,
                        struct sg_args *ret);
void sg_args_done(struct sg_args *args);

/* What crun reads: the bundle's config.json. */
int sg_crun_write_config(const struct sg_bench *b, struct sg_err *err);
