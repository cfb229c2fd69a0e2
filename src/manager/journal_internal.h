/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the journal share: the records of its index. */
#pragma once

#include "manager/journal.h"

/* As it lies in the index, in the machine's own order: the file never leaves it. */
struct sg_run {
    uint64_t end_and_stream; /* combined offset of its end, times two, plus the stream */
    uint64_t stream_end;     /* the same place in its own stream */
};
static inline uint64_t sg_run_end(const struct sg_run *r)
{
    return r->end_and_stream >> 1;
}
static inline enum sg_stream sg_run_stream(const struct sg_run *r)
{
    return r->end_and_stream & 1 ? SG_STREAM_ERR : SG_STREAM_OUT;
}

/* Record `i`; the one after the last record is the run that has none yet. */
int sg_journal_run(struct sg_journal *j, uint64_t i, struct sg_run *ret, struct sg_err *err);
int sg_journal_open_stream(struct sg_journal *j, enum sg_stream stream, struct sg_err *err);
int sg_journal_open_index(struct sg_journal *j, struct sg_err *err);
