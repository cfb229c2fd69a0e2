/* SPDX-License-Identifier: Apache-2.0 */
/* What a client reads of its execution: the kernel's events with that id, at the client's pace; and
 * what the kernel cannot say itself. */
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/json.h"
#include "manager/code_internal.h"
#include "base/banned.h"

enum {
    PIECE_BYTES = 64 << 10,
    TURN_BYTES = 256 << 10,
    LINE_SLACK = 64 << 10, /* beside what a result may have: the other members */
    EXTRA_MAX = 256 << 10,
};
#define LINES_MAX ((uint64_t)512 << 20) /* of all views together */

/* ---- events of our own ---- */

static void put_member(struct sg_json *j, const char *key, const char *value)
{
    sg_json_key(j, key);
    sg_json_str(j, value);
}

static void open_event(struct sg_json *j, struct sg_code_run *r, const char *type)
{
    sg_json_init(j, &r->extra);
    sg_json_open(j, '{');
    put_member(j, "type", type);
}

static void close_event(struct sg_json *j, struct sg_code_run *r)
{
    sg_json_close(j, '}');
    sg_buf_add_str(&r->extra, "\n");
}

static void put_notice(struct sg_code_run *r, const char *text)
{
    struct timespec now;
    struct tm tm;
    char when[40] = "";
    struct sg_json j;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &tm))
        (void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    open_event(&j, r, "stderr");
    put_member(&j, "text", text);
    put_member(&j, "timestamp", when);
    close_event(&j, r);
}

static void put_error(struct sg_code_run *r, const char *name, const char *value, const char *trace)
{
    struct sg_json j;
    open_event(&j, r, "error");
    put_member(&j, "name", name);
    put_member(&j, "value", value);
    put_member(&j, "traceback", trace);
    close_event(&j, r);
}

static void put_end(struct sg_code_run *r)
{
    struct sg_json j;
    open_event(&j, r, "end_of_execution");
    close_event(&j, r);
    r->has_ended = true;
    sg_code_view_close(r);
}

/* ---- how it ended where the kernel does not say so ---- */

static const struct {
    const char *name, *value;
} verdicts[] = {
    [SG_CODE_TIMED_OUT] = { "ExecutionTimeout", "the code ran longer than it was given" },
    [SG_CODE_RESTARTED] = { "ContextRestarting", "Context was restarted" },
    [SG_CODE_REMOVED] = { "ExecutionAborted", "Context was removed" },
};

static void put_verdict(struct sg_code_run *r)
{
    if (r->verdict)
        put_error(r, verdicts[r->verdict].name, verdicts[r->verdict].value, "");
}

static void put_death(struct sg_code_run *r, const struct sg_exec *x)
{
    static const char next[] = "; the next execution starts with a fresh one";
    char why[200];
    const char *said = r->context ? sg_code_kernel(r->context)->said : "";
    if (x->ending == SG_EXEC_OOM)
        (void)snprintf(why, sizeof why, "the kernel ran out of memory%s", next);
    else if (x->signal)
        (void)snprintf(why, sizeof why, "the kernel was ended by signal %u (%s)%s", x->signal,
                       strsignal((int)x->signal), next);
    else
        (void)snprintf(why, sizeof why, "the kernel exited with status %u%s", x->code, next);
    put_error(r, "KernelDied", why, said);
}

/* ---- the reader ---- */

static void readable(struct sg_reader *reader)
{
    struct sg_code_run *r = SG_OWNER(reader, struct sg_code_run, reader);
    if (!reader->exec) /* the counter of these is the manager's, which may go, too */
        sg_code_lines_done(&r->lines);
    sg_code_wake(r);
}

void sg_code_view_open(struct sg_code_run *r, struct sg_exec *x)
{
    struct sg_manager *m = x->sandbox->manager;
    sg_code_lines_init(&r->lines, SG_CODE_MAX_LINE + LINE_SLACK, &m->code_bytes, LINES_MAX);
    sg_buf_done(&r->out);
    sg_buf_done(&r->extra);
    sg_buf_init(&r->out, SG_CODE_MAX_LINE + LINE_SLACK);
    sg_buf_init(&r->extra, EXTRA_MAX);
    r->extra_at = 0;
    r->piece = sg_alloc(PIECE_BYTES);
    r->left = (struct sg_str) { r->piece, 0 };
    r->reader = (struct sg_reader) { .wake = readable };
    r->is_reading = true;
    sg_reader_open(&r->reader, x, r->at);
}

void sg_code_view_close(struct sg_code_run *r)
{
    if (!r->is_reading)
        return;
    sg_reader_close(&r->reader);
    sg_code_lines_done(&r->lines);
    r->is_reading = false;
    free(sg_take_ptr(&r->piece));
}

/* 1: more is in `left`; 0: nothing for now; -1: nothing any more. */
static int read_on(struct sg_code_run *r, size_t *budget)
{
    enum sg_stream stream = SG_STREAM_OUT;
    uint64_t lost = 0;
    struct sg_err err;
    ssize_t n = sg_reader_read(&r->reader, &stream, r->piece, PIECE_BYTES, &lost, &err);
    if (lost) {
        sg_auto_free char *text =
            sg_printf("[%" PRIu64 " bytes of events were not read in time and are lost]\n", lost);
        sg_code_lines_gap(&r->lines);
        put_notice(r, text);
    }
    if (n < 0)
        return -1;
    if (n == 0)
        return r->reader.exec->is_complete ? -1 : 0;
    *budget -= (size_t)n < *budget ? (size_t)n : *budget;
    r->left = (struct sg_str) { r->piece, stream == SG_STREAM_OUT ? (size_t)n : 0 };
    return 1;
}

/* True: an event is in `out` or `extra`, or it is over. */
static bool take_line(struct sg_code_run *r, struct sg_str line)
{
    struct sg_code_event e;
    if (sg_code_event_read(line, &e, NULL) < 0) {
        if (r->has_told)
            return false;
        r->has_told = true;
        put_notice(r, "[the kernel said something that is no event; it is left out]\n");
        return true;
    }
    if (!sg_str_is(e.id, r->id.s) || (e.type == SG_CODE_T_ERROR && r->verdict))
        return false;
    if (e.type == SG_CODE_T_OVER) {
        put_verdict(r);
        put_end(r);
        return true;
    }
    sg_buf_clear(&r->out);
    sg_code_event_put(&r->out, line, &e);
    return true;
}

/* The kernel is gone, and all that it said was read. */
static enum sg_code_got conclude(struct sg_code_run *r)
{
    const struct sg_exec *x = r->reader.exec;
    if (!x || x->ending == SG_EXEC_LOST)
        return SG_CODE_GONE;
    if (r->verdict)
        put_verdict(r);
    else
        put_death(r, x);
    put_end(r);
    return SG_CODE_EVENT;
}

static enum sg_code_got read_event(struct sg_code_run *r)
{
    for (size_t budget = TURN_BYTES;;) {
        struct sg_str line;
        if (!r->reader.exec)
            return SG_CODE_GONE;
        switch (sg_code_lines_next(&r->lines, &r->left, &line)) {
        case SG_CODE_LINE:
            if (take_line(r, line))
                return SG_CODE_EVENT;
            break;
        case SG_CODE_LINE_TOO_LONG:
            put_notice(r, "[an event was too large and is left out]\n");
            return SG_CODE_EVENT;
        case SG_CODE_LINE_MORE: {
            if (!budget)
                return SG_CODE_LATER;
            const int got = read_on(r, &budget);
            if (got < 0)
                return conclude(r);
            if (r->extra.n)
                return SG_CODE_EVENT;
            if (got == 0)
                return SG_CODE_NOTHING;
        }
        }
    }
}

/* ---- what the client asks ---- */

static bool take_extra(struct sg_code_run *r, struct sg_str *ret)
{
    const char *from = (const char *)r->extra.p + r->extra_at;
    const char *end =
        r->extra.n > r->extra_at ? memchr(from, '\n', r->extra.n - r->extra_at) : NULL;
    if (!end) {
        sg_buf_clear(&r->extra);
        r->extra_at = 0;
        return false;
    }
    *ret = (struct sg_str) { from, (size_t)(end - from) };
    r->extra_at += ret->n + 1;
    return true;
}

/* It never came to a kernel. */
static enum sg_code_got end_unread(struct sg_code_run *r, struct sg_err *err)
{
    if (r->failed && !r->was_begun) {
        *err = *r->failed;
        return SG_CODE_FAILED;
    }
    if (!r->failed && !r->verdict)
        return r->context ? SG_CODE_NOTHING : SG_CODE_GONE;
    sg_buf_init(&r->extra, EXTRA_MAX);
    if (r->failed)
        put_error(r, "KernelDied", r->failed->msg, "");
    else
        put_verdict(r);
    put_end(r);
    return SG_CODE_EVENT;
}

enum sg_code_got sg_code_next(struct sg_code_client *client, struct sg_str *ret, struct sg_err *err)
{
    struct sg_code_run *r = client->run;
    if (take_extra(r, ret))
        return SG_CODE_EVENT;
    if (r->has_ended)
        return SG_CODE_END;
    sg_buf_clear(&r->out);
    const enum sg_code_got got = r->is_reading ? read_event(r) : end_unread(r, err);
    if (got != SG_CODE_EVENT)
        return got;
    if (r->out.n)
        *ret = (struct sg_str) { (const char *)r->out.p, r->out.n };
    else
        (void)take_extra(r, ret);
    return SG_CODE_EVENT;
}
