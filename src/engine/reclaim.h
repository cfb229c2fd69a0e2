/* SPDX-License-Identifier: Apache-2.0 */
/* Taking the memory of a cell that stands still: what the kernel can write elsewhere or read again,
 * by memory.reclaim of cgroup v2.
 *
 * M1. sg_reclaim_run() waits for as long as the kernel takes: it is for a process of its own. It
 *     asks in small steps, so that a kill ends it within one of them.
 * M2. Without swap only pages of files can go. A cell that runs has no swap, so that its limit is
 *     one of memory; sg_kept_reclaim() lends it some, sg_kept_thaw() takes that back: what is out
 *     there by then comes in when it is touched, and nothing more goes out.
 * M3. cgroup v1 has no such file. What could stand for it, a limit that is lowered for a moment,
 *     may be set by a write that began before and is still waiting after the limit was put back:
 *     a sandbox that was resumed meanwhile would be killed for it. So there it is not done. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum sg_reclaim_way { SG_RECLAIM_NONE, SG_RECLAIM_FILES, SG_RECLAIM_ALL, SG_RECLAIM_WAY_COUNT };

struct sg_reclaim_host {
    enum sg_reclaim_way way;
    uint64_t swap_bytes; /* of the whole machine */
    const char *why;     /* not, or not all; "" */
};

/* What becomes of the memory of paused cells here. */
void sg_reclaim_probe(struct sg_reclaim_host *ret);
/* "reclaimed (swap 512 MiB)", "file pages only: no swap", "kept: ..." */
void sg_reclaim_describe(const struct sg_reclaim_host *h, char *ret, size_t cap);

/* ---- steps ---- */

struct sg_reclaim {
    uint64_t asked_bytes, most_bytes;
    unsigned idle; /* steps in a row that moved next to nothing */
};
void sg_reclaim_begin(struct sg_reclaim *r, uint64_t now_bytes);
/* How much to ask for next, given what is in use; 0: no more. */
uint64_t sg_reclaim_next(const struct sg_reclaim *r, uint64_t now_bytes);
/* So much was in use before and after it. */
void sg_reclaim_note(struct sg_reclaim *r, uint64_t asked, uint64_t before, uint64_t after);

/* Until nothing more goes (M1). Below the descriptor of the cgroup. */
void sg_reclaim_run(int dir_fd);
