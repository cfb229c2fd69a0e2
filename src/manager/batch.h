/* SPDX-License-Identifier: Apache-2.0 */
/* A batch: tasks side by side, at most so many at a time, some after others.
 *
 * B1. A task starts when all that it comes after have ended well, or is skipped; with `always` it
 *     starts when they have ended at all.
 * B2. Files that a task brought out are put into those that come after it, as from/NAME/FILE.
 * B3. With a shared volume, which is made for the batch, every task has the same directory. It goes
 *     with the batch, however that ends.
 * B4. Each task is told as it starts and as it ends; nothing of a result is kept but the files that
 *     somebody still waits for. */
#pragma once

#include "manager/task.h"

enum {
    SG_BATCH_TASKS_MAX = 1000,
    SG_BATCH_CONCURRENCY_MAX = 256,
    SG_BATCH_HANDED_BYTES = 64 << 20, /* of files that wait to be handed over */
};

struct sg_batch_task {
    const char *name;
    struct sg_task_spec spec;
    const char *const *after; /* names, NULL-terminated, or NULL */
    bool always;
};

struct sg_batch_spec { /* borrowed: must live as long as the batch */
    const struct sg_batch_task *tasks;
    size_t count;
    unsigned concurrency;
    bool stops_on_failure; /* what has not begun is skipped after the first failure */
    const char *shared;    /* where the shared volume appears; NULL: there is none */
    uint64_t shared_bytes; /* 0: the usual */
};

struct sg_batch_report {
    unsigned succeeded, failed, skipped, most_at_a_time;
    uint64_t wall_ms, cpu_ns;
};

struct sg_batch_ops {
    void (*started)(void *arg, size_t task);
    void (*ended)(void *arg, size_t task, const struct sg_task_result *r);
    void (*skipped)(void *arg, size_t task, const char *why);
    void (*done)(void *arg, const struct sg_batch_report *r); /* last; the batch is gone after it */
};

struct sg_batch;
/* SG_INVALID: names that are there twice or not at all, circles; as sg_volume_create() for a shared
 * volume. Calls back later only. */
struct sg_batch *sg_batch_start(struct sg_manager *m, const struct sg_who *who,
                                const struct sg_batch_spec *spec, const struct sg_batch_ops *ops,
                                void *arg, struct sg_err *err);
void sg_batch_cancel(struct sg_batch *b); /* ends what runs; nobody is called back */
