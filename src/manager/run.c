/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/run.h"

#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "manager/manager_internal.h"

#include "base/banned.h"

struct sg_run {
    const struct sg_run_ops *ops; /* NULL: left */
    void *arg;
    struct sg_reader reader;
    bool is_starting, is_reading;
    struct sg_buf part[SG_STREAM_COUNT]; /* of a line that is not over */
};

static void release(struct sg_run *r)
{
    if (r->is_reading)
        sg_reader_close(&r->reader);
    for (unsigned i = 0; i < SG_STREAM_COUNT; i++)
        sg_buf_done(&r->part[i]);
    free(r);
}

static void tell_part(struct sg_run *r, enum sg_stream stream)
{
    struct sg_buf *b = &r->part[stream];
    while (b->n && b->p[b->n - 1] == '\r')
        b->n--;
    if (r->ops->line && b->n)
        r->ops->line(r->arg, stream, (struct sg_str) { (const char *)b->p, b->n });
    sg_buf_clear(b);
}

static void take(struct sg_run *r, enum sg_stream stream, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\n' || r->part[stream].n == SG_RUN_LINE_MAX)
            tell_part(r, stream);
        if (p[i] != '\n')
            sg_buf_add(&r->part[stream], &p[i], 1);
    }
}

static void over(struct sg_run *r, const struct sg_exec *x, const struct sg_err *err)
{
    const struct sg_run_ops *ops = r->ops;
    void *arg = r->arg;
    for (unsigned i = 0; i < SG_STREAM_COUNT; i++)
        tell_part(r, (enum sg_stream)i);
    ops->done(arg, x, err);
    release(r);
}

static void read_on(struct sg_reader *reader)
{
    struct sg_run *r = SG_OWNER(reader, struct sg_run, reader);
    struct sg_err err = { 0 };
    while (reader->exec) {
        uint8_t piece[16384];
        enum sg_stream stream;
        uint64_t lost = 0;
        const ssize_t n = sg_reader_read(reader, &stream, piece, sizeof piece, &lost, &err);
        if (n < 0 || (n == 0 && reader->exec->is_complete)) {
            over(r, reader->exec, n < 0 ? &err : NULL);
            return;
        }
        if (n == 0)
            return;
        take(r, stream, piece, (size_t)n);
    }
    (void)sg_fail(&err, SG_UNAVAILABLE, "the sandbox went away under the command");
    over(r, NULL, &err);
}

static void started(void *arg, struct sg_exec *x, const struct sg_err *err)
{
    struct sg_run *r = arg;
    r->is_starting = false;
    if (!r->ops) {
        release(r);
        return;
    }
    if (!x) {
        over(r, NULL, err);
        return;
    }
    r->is_reading = true;
    r->reader = (struct sg_reader) { .wake = read_on };
    sg_reader_open(&r->reader, x, 0);
    read_on(&r->reader);
}

struct sg_run *sg_run_start(struct sg_sandbox *s, const struct sg_exec_spec *spec,
                            const struct sg_run_ops *ops, void *arg, struct sg_err *err)
{
    const struct sg_who us = { .org = s->org, .scopes = SG_SCOPE_ALL };
    struct sg_run *r = sg_new(struct sg_run);
    *r = (struct sg_run) { .ops = ops, .arg = arg, .is_starting = true };
    for (unsigned i = 0; i < SG_STREAM_COUNT; i++)
        sg_buf_init(&r->part[i], SG_RUN_LINE_MAX);
    if (sg_exec_start(s, &us, spec, started, r, err) < 0) {
        release(r);
        return NULL;
    }
    return r;
}

void sg_run_leave(struct sg_run *r)
{
    r->ops = NULL;
    if (!r->is_starting)
        release(r);
}

int sg_run_fail(const struct sg_exec *x, struct sg_err *err)
{
    static const char *const words[] = {
        [SG_EXEC_RUNNING] = "still runs",
        [SG_EXEC_EXIT] = "",
        [SG_EXEC_SIGNAL] = "",
        [SG_EXEC_TIMEOUT] = "did not end in time",
        [SG_EXEC_OOM] = "ran out of memory",
        [SG_EXEC_LOST] = "was lost with its sandbox",
    };
    if (x->ending == SG_EXEC_EXIT)
        return sg_fail(err, SG_DENIED, "exit status %u", x->code);
    if (x->ending == SG_EXEC_SIGNAL)
        return sg_fail(err, SG_DENIED, "ended by signal %u", x->signal);
    return sg_fail(err, SG_DENIED, "%s", words[x->ending]);
}
