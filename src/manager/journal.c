/* SPDX-License-Identifier: Apache-2.0 */
/* A journal's files: made, continued, filled, given back. What is read is in journal_read.c. */
#include "manager/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "manager/journal_internal.h"
#include "manager/nowait.h"
#include "base/banned.h"

enum {
    BLOCK = 4096,
    STEP_MAX = 8 << 20,
    INDEX_STEP = 1 << 20, /* bytes of the index that are given back at a time */
    RUNS_AT_ONCE = 256,
};

static const char *const endings[SG_STREAM_COUNT + 1] = { "out", "err", "idx" };
enum { INDEX = SG_STREAM_COUNT };

void sg_journal_init(struct sg_journal *j, int dir_fd, const struct sg_id *id, uint64_t keep_bytes)
{
    *j = (struct sg_journal) { .dir_fd = dir_fd,
                               .id = *id,
                               .keep_bytes = keep_bytes,
                               .streams = { { .fd = -1 }, { .fd = -1 } },
                               .index_fd = -1 };
}

static int *fd_of(struct sg_journal *j, unsigned which)
{
    return which == INDEX ? &j->index_fd : &j->streams[which].fd;
}

struct file_name {
    char s[SG_ID_LEN + 8];
};

static struct file_name name_of(const struct sg_journal *j, unsigned which)
{
    struct file_name name;
    (void)snprintf(name.s, sizeof name.s, "%s.%s", j->id.s, endings[which]);
    return name;
}

static int open_file(struct sg_journal *j, unsigned which, int flags, struct sg_err *err)
{
    int *fd = fd_of(j, which);
    if (*fd >= 0)
        return 0;
    struct file_name name = name_of(j, which);
    *fd = openat(j->dir_fd, name.s, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    return *fd < 0 ? sg_fail_sys(err, "open the journal '%s'", name.s) : 0;
}

int sg_journal_open_stream(struct sg_journal *j, enum sg_stream stream, struct sg_err *err)
{
    return open_file(j, stream, 0, err);
}

int sg_journal_open_index(struct sg_journal *j, struct sg_err *err)
{
    return open_file(j, INDEX, 0, err);
}

void sg_journal_close(struct sg_journal *j)
{
    for (unsigned i = 0; i <= INDEX; i++)
        sg_drop_fd(fd_of(j, i));
}

void sg_journal_remove(struct sg_journal *j)
{
    sg_journal_close(j);
    const bool is_there[] = { j->streams[SG_STREAM_OUT].bytes > 0,
                              j->streams[SG_STREAM_ERR].bytes > 0, j->runs > 0 };
    for (unsigned i = 0; i <= INDEX; i++)
        if (is_there[i])
            (void)unlinkat(j->dir_fd, name_of(j, i).s, 0);
}

/* ---- the window ---- */

/* A function of the size alone, so that a crash cannot lose it. */
static uint64_t start_of(const struct sg_journal *j, uint64_t bytes)
{
    uint64_t step = j->keep_bytes / 8 / BLOCK * BLOCK;
    if (step < BLOCK)
        step = BLOCK;
    if (step > STEP_MAX)
        step = STEP_MAX;
    return bytes > j->keep_bytes ? (bytes - j->keep_bytes) / step * step : 0;
}

static bool punch(int fd, uint64_t from, uint64_t to)
{
    static bool has_told;
    const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (from >= to || fallocate(fd, mode, (off_t)from, (off_t)(to - from)) == 0)
        return true;
    if (has_told)
        return false;
    has_told = true;
    sg_log(SG_LOG_WARN, "journals cannot be shortened here: they will grow",
           SG_KV("why", errno == EOPNOTSUPP ? "the filesystem has no holes" : "fallocate failed"));
    return false;
}

static uint64_t index_start(const struct sg_journal *j)
{
    /* The record before the first run says where that begins: it stays. */
    return j->first_run ? (j->first_run - 1) * sizeof(struct sg_run) / INDEX_STEP * INDEX_STEP : 0;
}

/* The first run moves on over all that are gone; its index is given back in steps. */
static void pass_lost_runs(struct sg_journal *j)
{
    struct sg_run runs[RUNS_AT_ONCE];
    const uint64_t before = index_start(j);
    while (j->first_run < j->runs) {
        uint64_t n = j->runs - j->first_run;
        n = n < RUNS_AT_ONCE ? n : RUNS_AT_ONCE;
        ssize_t got =
            pread(j->index_fd, runs, n * sizeof *runs, (off_t)(j->first_run * sizeof *runs));
        size_t have = got > 0 ? (size_t)got / sizeof *runs : 0, i = 0;
        while (i < have && runs[i].stream_end <= j->streams[sg_run_stream(&runs[i])].start)
            i++;
        j->first_run += i;
        if (i < have || !have)
            break;
    }
    (void)punch(j->index_fd, before, index_start(j));
}

static void give_back(struct sg_journal *j, enum sg_stream stream)
{
    struct sg_journal_file *f = &j->streams[stream];
    const uint64_t start = start_of(j, f->bytes);
    if (start <= f->start)
        return;
    (void)punch(f->fd, f->start, start);
    f->start = start;
    if (j->runs)
        pass_lost_runs(j);
}

static uint64_t in_blocks(uint64_t bytes)
{
    return (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

uint64_t sg_journal_held(const struct sg_journal *j)
{
    uint64_t held = in_blocks(j->runs * sizeof(struct sg_run)) - index_start(j);
    for (unsigned i = 0; i < SG_STREAM_COUNT; i++) {
        const struct sg_journal_file *f = &j->streams[i];
        if (f->start < f->bytes)
            held += in_blocks(f->bytes) - f->start / BLOCK * BLOCK;
    }
    return held;
}

static bool is_emptied(const struct sg_journal *j)
{
    return sg_journal_total(j) > 0 &&
           j->streams[SG_STREAM_OUT].start == j->streams[SG_STREAM_OUT].bytes &&
           j->streams[SG_STREAM_ERR].start == j->streams[SG_STREAM_ERR].bytes;
}

/* With no bytes there is nobody to say whose they were. */
static void forget_runs(struct sg_journal *j)
{
    sg_drop_fd(&j->index_fd);
    if (j->runs)
        (void)unlinkat(j->dir_fd, name_of(j, INDEX).s, 0);
    j->runs = j->first_run = 0;
    j->run_start = sg_journal_total(j);
}

int sg_journal_empty(struct sg_journal *j, struct sg_err *err)
{
    for (unsigned i = 0; i < SG_STREAM_COUNT; i++) {
        struct sg_journal_file *f = &j->streams[i];
        if (f->start == f->bytes)
            continue;
        if (open_file(j, i, 0, err) < 0)
            return -1;
        /* To the end of the last block, or that one would stay. */
        if (!punch(f->fd, 0, in_blocks(f->bytes)) && ftruncate(f->fd, 0) < 0)
            return sg_fail_sys(err, "empty a journal");
        f->start = f->bytes;
    }
    forget_runs(j);
    sg_journal_close(j);
    return 0;
}

/* ---- the index ---- */

/* Writes the record of the last run: from now on there may be another. */
static int close_run(struct sg_journal *j, uint64_t end, enum sg_stream stream, uint64_t stream_end,
                     struct sg_err *err)
{
    const struct sg_run run = { end << 1 | stream, stream_end };
    if (open_file(j, INDEX, O_CREAT, err) < 0)
        return -1;
    ssize_t n = pwrite(j->index_fd, &run, sizeof run, (off_t)(j->runs * sizeof run));
    if (n != (ssize_t)sizeof run) {
        errno = n < 0 ? errno : ENOSPC;
        return sg_fail_sys(err, "write the index of a journal");
    }
    j->runs++;
    j->run_start = end;
    return 0;
}

/* Before the first byte of a stream, and where the other one has spoken last. */
static int begin_run(struct sg_journal *j, enum sg_stream stream, struct sg_err *err)
{
    const uint64_t total = sg_journal_total(j);
    if (stream != j->last && total > j->run_start &&
        close_run(j, total, j->last, j->streams[j->last].bytes, err) < 0)
        return -1;
    j->last = stream;
    return open_file(j, stream, O_CREAT, err);
}

/* ---- filling ---- */

/* Where splice(2) cannot write to this filesystem. A crash between the two steps loses what is in
 * our hands. */
static ssize_t copy_some(int pipe_fd, int fd, uint64_t at, size_t max)
{
    static bool has_told;
    char bytes[SG_NOWAIT_MAX];
    if (!has_told)
        sg_log(SG_LOG_WARN, "journals are copied: no splice(2) to files here, a crash may lose "
                            "output");
    has_told = true;
    ssize_t n = sg_nowait_read(pipe_fd, bytes, max);
    for (ssize_t done = 0; done < n;) {
        ssize_t put = pwrite(fd, bytes + done, (size_t)(n - done), (off_t)at + done);
        if (put < 0 && errno != EINTR)
            return -1;
        done += put > 0 ? put : 0;
    }
    return n;
}

static ssize_t move_some(int pipe_fd, int fd, uint64_t at, size_t max)
{
    loff_t to = (loff_t)at;
    ssize_t n = splice(pipe_fd, NULL, fd, &to, max, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    return n < 0 && errno == EINVAL ? copy_some(pipe_fd, fd, at, max) : n;
}

enum sg_taken sg_journal_take(struct sg_journal *j, enum sg_stream stream, int pipe_fd, size_t max,
                              struct sg_err *err)
{
    struct sg_journal_file *f = &j->streams[stream];
    if (f->fd < 0 || stream != j->last) { /* neither file nor record for nothing */
        struct pollfd p = { .fd = pipe_fd, .events = POLLIN };
        if (poll(&p, 1, 0) < 1)
            return SG_TAKEN_ALL;
        if (!(p.revents & POLLIN))
            return SG_TAKEN_END;
        if (begin_run(j, stream, err) < 0)
            return SG_TAKEN_ERROR;
    }
    enum sg_taken taken = SG_TAKEN_SOME;
    for (size_t left = max; left && taken == SG_TAKEN_SOME;) {
        ssize_t n = move_some(pipe_fd, f->fd, f->bytes, left);
        if (n > 0) {
            f->bytes += (size_t)n;
            left -= (size_t)n;
        } else if (n == 0) {
            taken = SG_TAKEN_END;
        } else if (errno == EAGAIN) {
            taken = SG_TAKEN_ALL;
        } else if (errno != EINTR) {
            sg_fail_sys(err, "write the journal");
            taken = SG_TAKEN_ERROR;
        }
    }
    give_back(j, stream);
    return taken;
}

enum sg_taken sg_journal_discard(int pipe_fd, size_t max)
{
    char nowhere[SG_NOWAIT_MAX];
    while (max) {
        ssize_t n = sg_nowait_read(pipe_fd, nowhere, max < sizeof nowhere ? max : sizeof nowhere);
        if (n == 0)
            return SG_TAKEN_END;
        if (n < 0)
            return errno == EAGAIN ? SG_TAKEN_ALL : SG_TAKEN_ERROR;
        max -= (size_t)n;
    }
    return SG_TAKEN_SOME;
}

/* ---- continuing ---- */

static int load_file(struct sg_journal *j, unsigned which, uint64_t *ret_bytes, struct sg_err *err)
{
    struct stat st;
    struct sg_err own;
    if (open_file(j, which, 0, &own) < 0) {
        *ret_bytes = 0;
        if (own.sys == ENOENT)
            return 0;
        *err = own;
        return -1;
    }
    if (fstat(*fd_of(j, which), &st) < 0)
        return sg_fail_sys(err, "look at a journal");
    *ret_bytes = (uint64_t)st.st_size;
    return 0;
}

/* How much of each stream the records know: a combined offset is the sum of both. */
static int known_bytes(struct sg_journal *j, uint64_t known[SG_STREAM_COUNT], struct sg_err *err)
{
    struct sg_run run = { 0 };
    if (j->runs && sg_journal_run(j, j->runs - 1, &run, err) < 0)
        return -1;
    const enum sg_stream stream = sg_run_stream(&run);
    known[stream] = run.stream_end;
    known[!stream] = sg_run_end(&run) - run.stream_end;
    return 0;
}

/* What the index does not know is its tail: of one stream, or (after a power cut, which may have
 * taken any part of any file) stdout first. */
static int load_tail(struct sg_journal *j, struct sg_err *err)
{
    uint64_t known[SG_STREAM_COUNT];
    for (;; j->runs--) {
        if (known_bytes(j, known, err) < 0)
            return -1;
        if (known[SG_STREAM_OUT] <= j->streams[SG_STREAM_OUT].bytes &&
            known[SG_STREAM_ERR] <= j->streams[SG_STREAM_ERR].bytes)
            break;
    }
    j->first_run = j->first_run < j->runs ? j->first_run : j->runs;
    j->run_start = known[SG_STREAM_OUT] + known[SG_STREAM_ERR];
    const uint64_t out = j->streams[SG_STREAM_OUT].bytes;
    const bool has_out = out > known[SG_STREAM_OUT],
               has_err = j->streams[SG_STREAM_ERR].bytes > known[SG_STREAM_ERR];
    j->last = has_err ? SG_STREAM_ERR : SG_STREAM_OUT;
    if (!has_out || !has_err)
        return 0;
    return close_run(j, j->run_start + out - known[SG_STREAM_OUT], SG_STREAM_OUT, out, err);
}

int sg_journal_load(struct sg_journal *j, struct sg_err *err)
{
    uint64_t index_bytes;
    for (unsigned i = 0; i < SG_STREAM_COUNT; i++) {
        struct sg_journal_file *f = &j->streams[i];
        if (load_file(j, i, &f->bytes, err) < 0)
            return -1;
        f->start = start_of(j, f->bytes);
        /* The window may have been smaller when this was written. */
        off_t data = f->fd >= 0 ? lseek(f->fd, 0, SEEK_DATA) : -1;
        if (data > 0 && (uint64_t)data > f->start)
            f->start = (uint64_t)data;
        if (f->fd >= 0 && data < 0 && errno == ENXIO) /* one hole: it was emptied */
            f->start = f->bytes;
    }
    if (load_file(j, INDEX, &index_bytes, err) < 0)
        return -1;
    j->runs = index_bytes / sizeof(struct sg_run);
    if (is_emptied(j)) {
        forget_runs(j);
        return 0;
    }
    if (j->runs)
        pass_lost_runs(j);
    return load_tail(j, err);
}
