/* SPDX-License-Identifier: Apache-2.0 */
/* The command of a task: started, fed, read to its end. */
#include "base/auto.h"
#include "manager/gauge.h"
#include "manager/life.h"
#include "manager/task_internal.h"

#include "base/banned.h"

enum {
    PIECE_BYTES = 32 << 10,
    BRIEF_MS = 1000, /* what is on the disk for so short a time costs nothing */
};

/* ---- its input ---- */

static void feed(void *arg)
{
    struct sg_task *t = arg;
    struct sg_exec *x = t->reader.exec;
    struct sg_err err;

    while (t->spec && x && t->fed < t->spec->input.n) {
        ssize_t n = sg_exec_write(x, t->spec->input.p + t->fed, t->spec->input.n - t->fed, &err);
        if (n < 0)
            break; /* it does not read any more */
        t->fed += (size_t)n;
        if (n == 0 && sg_exec_when_writable(x, feed, t, &err) == 0)
            return;
        if (n == 0)
            break;
    }
    if (x)
        (void)sg_exec_close_stdin(x, &err);
}

/* ---- its end ---- */

static void measured(void *arg, const struct sg_stats *st, const struct sg_err *err)
{
    struct sg_task *t = arg;

    (void)err;
    if (st) {
        t->r.cpu_ns = st->cpu_ns == UINT64_MAX ? 0 : st->cpu_ns;
        t->r.mem_peak_bytes = st->mem_peak_bytes == UINT64_MAX ? 0 : st->mem_peak_bytes;
    }
    sg_task_collect(t);
}

static void ended(struct sg_task *t)
{
    const struct sg_exec *x = t->reader.exec;
    struct sg_sandbox *s = x->sandbox;
    struct sg_err err = { 0 };
    struct sg_stats used;
    static const enum sg_task_ending endings[] = {
        [SG_EXEC_RUNNING] = SG_TASK_LOST, [SG_EXEC_EXIT] = SG_TASK_EXIT,
        [SG_EXEC_SIGNAL] = SG_TASK_CRASH, [SG_EXEC_TIMEOUT] = SG_TASK_TIMEOUT,
        [SG_EXEC_OOM] = SG_TASK_OOM,      [SG_EXEC_LOST] = SG_TASK_LOST,
    };

    t->r.ending = endings[x->ending];
    t->r.code = x->code;
    t->r.signal = x->signal;
    t->r.cpu_ns = x->cpu_ns;
    t->r.times.run += sg_task_lap(t);
    if (x->ending == SG_EXEC_TIMEOUT)
        (void)sg_fail(&t->r.err, SG_TIMEOUT, "the command did not end within %llu ms",
                      (unsigned long long)t->spec->timeout_ms);
    else if (x->ending == SG_EXEC_OOM)
        (void)sg_fail(&t->r.err, SG_EXHAUSTED, "the command ran out of memory");
    else if (x->ending == SG_EXEC_SIGNAL)
        (void)sg_fail(&t->r.err, SG_INTERNAL, "the command was ended by signal %u", x->signal);
    sg_task_exec_leave(t);
    if (t->r.ending == SG_TASK_LOST) {
        (void)sg_fail(&err, SG_UNAVAILABLE, "the sandbox ended before the command");
        sg_task_end(t, SG_TASK_LOST, &err);
    } else if (t->r.times.run < BRIEF_MS && sg_gauge_read(t->gauge, &used)) {
        sg_usage_count(s, &used);
        measured(t, &used, NULL);
    } else if (sg_manager_stats(s, &t->who, measured, t, &err) < 0) {
        measured(t, NULL, &err);
    }
}

static void gone(struct sg_task *t)
{
    struct sg_err err = { 0 };

    sg_task_exec_leave(t);
    (void)sg_fail(&err, SG_UNAVAILABLE, "the sandbox went away under the command");
    sg_task_end(t, SG_TASK_LOST, &err);
}

/* What does not fit is counted, and the command goes on. */
static void keep(struct sg_task *t, enum sg_stream stream, const uint8_t *p, size_t n)
{
    struct sg_buf *b = &t->r.output[stream];
    const size_t room = b->max - b->n, fits = n < room ? n : room;

    sg_buf_add(b, p, fits);
    t->r.lost_bytes += n - fits;
}

static void read_on(struct sg_reader *r)
{
    struct sg_task *t = SG_OWNER(r, struct sg_task, reader);
    uint8_t piece[PIECE_BYTES];
    enum sg_stream stream;
    struct sg_err err;

    while (r->exec && t->spec) {
        uint64_t lost = 0;
        ssize_t n = sg_reader_read(r, &stream, piece, sizeof piece, &lost, &err);
        t->r.lost_bytes += lost;
        if (n < 0)
            break;
        if (n == 0 && !r->exec->is_complete)
            return;
        if (n == 0) {
            ended(t);
            return;
        }
        keep(t, stream, piece, (size_t)n);
    }
    gone(t);
}

void sg_task_exec_leave(struct sg_task *t)
{
    if (!t->is_reading)
        return;
    t->is_reading = false;
    if (t->reader.exec)
        sg_exec_forget_writable(t->reader.exec, t);
    sg_reader_close(&t->reader);
}

/* ---- its start ---- */

static void started(void *arg, struct sg_exec *x, const struct sg_err *err)
{
    struct sg_task *t = arg;

    if (!x) {
        const bool is_loss = err->kind == SG_UNAVAILABLE || err->kind == SG_CONFLICT;
        sg_task_end(t, is_loss ? SG_TASK_LOST : SG_TASK_REFUSED, err);
        return;
    }
    t->is_reading = true;
    t->reader = (struct sg_reader) { .wake = read_on };
    sg_reader_open(&t->reader, x, 0);
    if (x->has_stdin)
        feed(t);
    read_on(&t->reader);
}

void sg_task_exec(struct sg_task *t)
{
    struct sg_sandbox *s = sg_task_sandbox(t);
    struct sg_err err = { 0 };

    if (!s)
        return;
    const struct sg_exec_spec spec = {
        .argv = t->spec->argv,
        .cwd = t->spec->cwd,
        .user = t->spec->user,
        .tag = "task",
        .has_stdin = t->spec->input.n > 0,
        .timeout_ms = t->spec->timeout_ms,
    };
    t->was_started = true;
    if (sg_exec_start(s, &t->who, &spec, started, t, &err) < 0) {
        sg_task_end(t, SG_TASK_REFUSED, &err);
        return;
    }
    sg_gauge_close(t->gauge); /* of an attempt before */
    t->gauge = sg_gauge_open(s);
}
