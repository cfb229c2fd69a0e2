/* SPDX-License-Identifier: Apache-2.0 */
/* A journal: the output of one exec, in files, in the order in which it came.
 *
 * J1. Bytes go from the pipe into `<exec>.out` or `<exec>.err` by splice(2), which the kernel does
 *     as one step: a kill -9 finds each byte in the pipe or in the file, never in neither. The
 *     size of a file is the stream's offset. A file is made for its first byte.
 * J2. The combined offset is the sum of both sizes. Which stream each part of it belongs to is in
 *     `<exec>.idx`: one record for each run of bytes of one stream, written when the other stream
 *     is about to speak, so that at most the last run is unknown after a crash, and its stream is
 *     the one whose file is longer than the index says. An exec that uses one stream has no index.
 * J3. Of each stream at least the last `keep_bytes` can be read. What lies before is given back to
 *     the filesystem in steps; where it begins follows from the size alone.
 *     A journal that was emptied keeps the sizes of its files, which are one hole.
 * J4. Nothing grows in memory, however finely a program mixes its streams.
 *
 * Errors are the filesystem's: SG_EXHAUSTED where it is full, and then nothing was moved. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/id.h"

enum sg_stream { SG_STREAM_OUT, SG_STREAM_ERR, SG_STREAM_COUNT };

struct sg_journal_file {
    int fd;         /* -1: not open, or not made yet */
    uint64_t bytes; /* its size */
    uint64_t start; /* what lies before is gone */
};

struct sg_journal {
    int dir_fd; /* borrowed */
    struct sg_id id;
    uint64_t keep_bytes;
    struct sg_journal_file streams[SG_STREAM_COUNT];
    int index_fd;
    uint64_t runs;       /* records in the index */
    uint64_t first_run;  /* everything in those before it is gone */
    uint64_t run_start;  /* combined offset at which the last run, which has no record, begins */
    enum sg_stream last; /* its stream */
};

void sg_journal_init(struct sg_journal *j, int dir_fd, const struct sg_id *id, uint64_t keep_bytes);
/* Continues with what is there, which may be nothing. */
int sg_journal_load(struct sg_journal *j, struct sg_err *err);
/* Closes the files. Reading or taking opens them again. */
void sg_journal_close(struct sg_journal *j);
void sg_journal_remove(struct sg_journal *j); /* closes, and removes the files */
/* Gives all of its bytes back and closes. How many there were is still known, also after a restart
 * (where the filesystem has holes); readers are told that they are gone. */
int sg_journal_empty(struct sg_journal *j, struct sg_err *err);
uint64_t sg_journal_held(const struct sg_journal *j); /* what it takes of the disk, in blocks */

static inline uint64_t sg_journal_total(const struct sg_journal *j)
{
    return j->streams[SG_STREAM_OUT].bytes + j->streams[SG_STREAM_ERR].bytes;
}

enum sg_taken {
    SG_TAKEN_ERROR = -1,
    SG_TAKEN_ALL,  /* the pipe is empty for now */
    SG_TAKEN_SOME, /* `max` bytes were moved, there may be more */
    SG_TAKEN_END,  /* the pipe is empty and nobody can write to it */
};
/* Moves at most about `max` bytes. Never waits, whatever flags the pipe has. */
enum sg_taken sg_journal_take(struct sg_journal *j, enum sg_stream stream, int pipe_fd, size_t max,
                              struct sg_err *err);
/* The same, to nowhere. */
enum sg_taken sg_journal_discard(int pipe_fd, size_t max);

/* Where a reader is. `run` is the journal's own: start with SG_RUN_UNKNOWN. */
struct sg_journal_place {
    uint64_t at, run;
};
#define SG_RUN_UNKNOWN UINT64_MAX

/* Copies what comes next, of one stream, at most `cap` bytes, and moves on. 0: that is all for now.
 * `*ret_lost`: how many bytes before it are gone (and were passed). */
ssize_t sg_journal_read(struct sg_journal *j, struct sg_journal_place *place,
                        enum sg_stream *ret_stream, void *to, size_t cap, uint64_t *ret_lost,
                        struct sg_err *err);
