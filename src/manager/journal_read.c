/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a journal: from a combined offset to a place in one of the streams.
 *
 * A reader that goes forward needs one record a run; only its first step searches. */
#include <errno.h>
#include <unistd.h>

#include "manager/journal_internal.h"
#include "base/banned.h"

int sg_journal_run(struct sg_journal *j, uint64_t i, struct sg_run *ret, struct sg_err *err)
{
    if (i >= j->runs) {
        *ret = (struct sg_run) { sg_journal_total(j) << 1 | j->last, j->streams[j->last].bytes };
        return 0;
    }
    if (sg_journal_open_index(j, err) < 0)
        return -1;
    ssize_t n = pread(j->index_fd, ret, sizeof *ret, (off_t)(i * sizeof *ret));
    if (n < 0)
        return sg_fail_sys(err, "read the index of a journal");
    return n == sizeof *ret ? 0 : sg_fail(err, SG_INTERNAL, "the index of a journal is too short");
}

/* The run that holds `at`, which is before the end: the first one that ends after it. */
static int search(struct sg_journal *j, uint64_t at, uint64_t *ret, struct sg_err *err)
{
    uint64_t low = j->first_run, high = j->runs;
    while (low < high && at < j->run_start) {
        const uint64_t middle = low + (high - low) / 2;
        struct sg_run run;
        if (sg_journal_run(j, middle, &run, err) < 0)
            return -1;
        if (sg_run_end(&run) > at)
            high = middle;
        else
            low = middle + 1;
    }
    *ret = high;
    return 0;
}

/* What is before the first run is gone as a whole. */
static int pass_gone(struct sg_journal *j, struct sg_journal_place *place, uint64_t *lost,
                     struct sg_err *err)
{
    if (!j->runs && place->at < j->run_start) { /* it was emptied */
        *lost += j->run_start - place->at;
        *place = (struct sg_journal_place) { j->run_start, 0 };
    }
    if (!j->first_run || (place->run != SG_RUN_UNKNOWN && place->run >= j->first_run))
        return 0;
    struct sg_run before;
    if (sg_journal_run(j, j->first_run - 1, &before, err) < 0)
        return -1;
    if (place->at >= sg_run_end(&before))
        return 0;
    *lost += sg_run_end(&before) - place->at;
    *place = (struct sg_journal_place) { sg_run_end(&before), j->first_run };
    return 0;
}

static int find_run(struct sg_journal *j, struct sg_journal_place *place, struct sg_run *ret,
                    struct sg_err *err)
{
    if (place->run == SG_RUN_UNKNOWN && search(j, place->at, &place->run, err) < 0)
        return -1;
    for (;; place->run++) {
        if (sg_journal_run(j, place->run, ret, err) < 0)
            return -1;
        if (sg_run_end(ret) > place->at)
            return 0;
    }
}

static ssize_t copy_out(struct sg_journal *j, enum sg_stream stream, uint64_t from, void *to,
                        size_t n, struct sg_err *err)
{
    if (sg_journal_open_stream(j, stream, err) < 0)
        return -1;
    ssize_t got;
    do
        got = pread(j->streams[stream].fd, to, n, (off_t)from);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return sg_fail_sys(err, "read a journal");
    return got ? got : sg_fail(err, SG_INTERNAL, "a journal is shorter than it was");
}

ssize_t sg_journal_read(struct sg_journal *j, struct sg_journal_place *place,
                        enum sg_stream *ret_stream, void *to, size_t cap, uint64_t *ret_lost,
                        struct sg_err *err)
{
    uint64_t lost = 0;
    ssize_t n = 0;
    struct sg_journal_place p = *place;
    if (pass_gone(j, &p, &lost, err) < 0)
        return -1;
    while (p.at < sg_journal_total(j)) {
        struct sg_run run;
        if (find_run(j, &p, &run, err) < 0)
            return -1;
        const enum sg_stream stream = sg_run_stream(&run);
        const uint64_t left = sg_run_end(&run) - p.at, from = run.stream_end - left,
                       start = j->streams[stream].start;
        if (from < start) {
            const uint64_t gone = start - from < left ? start - from : left;
            p.at += gone;
            lost += gone;
            continue;
        }
        n = copy_out(j, stream, from, to, left < cap ? (size_t)left : cap, err);
        if (n < 0)
            return -1;
        p.at += (uint64_t)n;
        *ret_stream = stream;
        break;
    }
    *place = p;
    *ret_lost = lost;
    return n;
}
