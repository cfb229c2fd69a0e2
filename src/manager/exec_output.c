/* SPDX-License-Identifier: Apache-2.0 */
/* Output: from the pipes into the journal, and from there to readers.
 *
 * A pipe is read as soon as it holds something, whoever reads the journal: the program never waits
 * for a client. Where the disk is full it does wait, since there is nowhere to put its bytes. */
#include <sys/epoll.h>

#include "base/auto.h"
#include "base/log.h"
#include "manager/exec_internal.h"
#include "base/banned.h"

enum {
    AT_ONCE = 256 * 1024,      /* of one pipe, before others have their turn */
    DRAINED_MAX = 1024 * 1024, /* after the end: a pipe holds no more, unless somebody goes on */
};
#define RETRY_NS 1000000000u

static struct sg_loop *loop_of(const struct sg_exec *x)
{
    return x->sandbox->manager->loop;
}

/* ---- in ---- */

static void count_bytes(struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    struct sg_metrics *m = &x->sandbox->manager->metrics;
    const uint64_t total = sg_journal_total(&i->journal);
    m->exec_output_bytes += total - x->total_bytes;
    x->total_bytes = total;
    if (!i->was_cut && (i->journal.streams[0].start || i->journal.streams[1].start)) {
        i->was_cut = true;
        m->hits[SG_HIT_JOURNAL]++;
    }
}

static void tell_trouble(struct sg_exec *x, const struct sg_err *err)
{
    struct sg_exec_impl *i = x->impl;
    if (!i->has_told_trouble)
        sg_log(SG_LOG_ERROR, "output cannot be kept; its program waits", SG_KV("exec", x->id.s),
               SG_KV("sandbox", x->sandbox->id.s), SG_KV("error", err->msg));
    i->has_told_trouble = true;
}

static enum sg_taken take(struct sg_exec *x, enum sg_stream stream, size_t max)
{
    struct sg_exec_impl *i = x->impl;
    struct sg_io *io = &i->streams[stream];
    struct sg_err err;
    enum sg_taken t = sg_journal_take(&i->journal, stream, io->fd, max, &err);
    if (t == SG_TAKEN_END)
        sg_io_drop(loop_of(x), io);
    else if (t == SG_TAKEN_ERROR)
        tell_trouble(x, &err);
    count_bytes(x);
    return t;
}

static void retry(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    sg_exec_watch_streams(SG_OWNER(t, struct sg_exec_impl, grace)->x);
}

/* What children of an ended program go on printing: nobody hears it, but they shall not die of it.
 */
static void linger(struct sg_exec *x, struct sg_io *io)
{
    enum sg_taken t = sg_journal_discard(io->fd, AT_ONCE);
    if (t != SG_TAKEN_END && t != SG_TAKEN_ERROR)
        return;
    sg_io_drop(loop_of(x), io);
    sg_exec_set(x->sandbox)->lingering--;
}

static void stream_ready(struct sg_exec *x, enum sg_stream stream)
{
    struct sg_exec_impl *i = x->impl;
    if (x->is_complete) {
        linger(x, &i->streams[stream]);
        return;
    }
    const uint64_t before = x->total_bytes;
    enum sg_taken t = take(x, stream, AT_ONCE);
    if (t == SG_TAKEN_ERROR && !i->has_exited) {
        (void)sg_io_want(loop_of(x), &i->streams[stream], 0, NULL);
        i->grace.fire = retry;
        sg_timer_set(loop_of(x), &i->grace, sg_loop_now(loop_of(x)) + RETRY_NS);
    }
    if (x->total_bytes != before) {
        sg_exec_ref(x); /* a reader may end everything */
        sg_exec_wake(x);
        if (!sg_exec_unref(x))
            return;
    }
    if (t == SG_TAKEN_END && i->has_exited)
        sg_exec_go_on_ending(x);
}

static void out_ready(struct sg_io *io, uint32_t events)
{
    (void)events;
    stream_ready(SG_OWNER(io, struct sg_exec_impl, streams[SG_STREAM_OUT])->x, SG_STREAM_OUT);
}

static void err_ready(struct sg_io *io, uint32_t events)
{
    (void)events;
    stream_ready(SG_OWNER(io, struct sg_exec_impl, streams[SG_STREAM_ERR])->x, SG_STREAM_ERR);
}

void sg_exec_watch_streams(struct sg_exec *x)
{
    static void (*const ready[SG_STREAM_COUNT])(struct sg_io *, uint32_t) = { out_ready,
                                                                              err_ready };
    struct sg_exec_impl *i = x->impl;
    struct sg_err err;
    for (unsigned k = 0; k < SG_STREAM_COUNT; k++) {
        i->streams[k].ready = ready[k];
        if (i->streams[k].fd >= 0 &&
            sg_io_want(loop_of(x), &i->streams[k], EPOLLIN, &err) < 0) /* out of kernel memory */
            tell_trouble(x, &err);
    }
}

bool sg_exec_drain(struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    bool has_ended = true;
    for (unsigned k = 0; k < SG_STREAM_COUNT; k++)
        if (i->streams[k].fd >= 0)
            has_ended &= take(x, k, DRAINED_MAX) == SG_TAKEN_END;
    return has_ended;
}

void sg_exec_close_streams(struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    struct sg_exec_set *set = sg_exec_set(x->sandbox);
    for (unsigned k = 0; k < SG_STREAM_COUNT; k++) {
        if (i->streams[k].fd < 0)
            continue;
        sg_io_drop(loop_of(x), &i->streams[k]);
        set->lingering -= x->is_complete;
    }
}

/* ---- out ---- */

void sg_exec_wake(struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    for (struct sg_reader *r = i->readers; r; r = i->walk) {
        i->walk = r->next; /* sg_reader_close() moves it on */
        r->wake(r);
    }
    i->walk = NULL;
}

static void unlink_reader(struct sg_exec_impl *i, struct sg_reader *r)
{
    if (i->walk == r)
        i->walk = r->next;
    *r->link = r->next;
    if (r->next)
        r->next->link = r->link;
}

void sg_exec_lose_readers(struct sg_exec *x)
{
    struct sg_exec_impl *i = x->impl;
    for (struct sg_reader *r; (r = i->readers);) {
        unlink_reader(i, r);
        r->exec = NULL;
        if (!r->is_quiet)
            sg_sandbox_work_end(x->sandbox);
        r->wake(r);
    }
}

void sg_reader_open(struct sg_reader *r, struct sg_exec *x, uint64_t at)
{
    struct sg_exec_impl *i = x->impl;
    r->exec = x;
    r->at = at < x->total_bytes ? at : x->total_bytes;
    r->run = SG_RUN_UNKNOWN;
    r->next = i->readers;
    r->link = &i->readers;
    if (r->next)
        r->next->link = &r->next;
    i->readers = r;
    if (!r->is_quiet)
        sg_sandbox_work_begin(x->sandbox);
}

void sg_reader_close(struct sg_reader *r)
{
    struct sg_exec *x = sg_take_ptr(&r->exec);
    if (!x)
        return;
    struct sg_exec_impl *i = x->impl;
    unlink_reader(i, r);
    if (!i->readers && x->is_complete)
        sg_journal_close(&i->journal);
    if (!r->is_quiet)
        sg_sandbox_work_end(x->sandbox);
}

ssize_t sg_reader_read(struct sg_reader *r, enum sg_stream *ret_stream, void *to, size_t cap,
                       uint64_t *ret_lost, struct sg_err *err)
{
    if (!r->exec)
        return sg_fail(err, SG_NOT_FOUND, "the exec went away with its sandbox");
    struct sg_journal_place place = { r->at, r->run };
    ssize_t n = sg_journal_read(&sg_exec_impl(r->exec)->journal, &place, ret_stream, to, cap,
                                ret_lost, err);
    r->at = place.at;
    r->run = place.run;
    if (n > 0 && r->exec->seen_bytes < r->at)
        r->exec->seen_bytes = r->at;
    return n;
}
