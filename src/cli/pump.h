/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes between our own descriptors and the pipes of a command inside.
 *
 * The pipes are made by us, so no flag that is set inside reaches our end. Nothing here blocks: a
 * reader of ours that stalls holds the command back, not our deadlines. */
#pragma once

#include <poll.h>

#include "base/buf.h"

enum { SG_PUMP_CHUNK = 65536 };

struct sg_pump {
    int from_fd, to_fd;      /* -1: that side is closed */
    struct sg_buf *capture;  /* instead of to_fd */
    bool owns_from, owns_to; /* close that side at the end */
    bool is_to_regular;      /* a regular file never blocks: no small steps */
    uint8_t *data;           /* borrowed, of SG_PUMP_CHUNK bytes: read, not yet written */
    size_t at, n;
    uint64_t moved;
    int lost_sys; /* errno of a write that lost bytes; 0: none. A reader that left is no loss */
};

void sg_pump_init(struct sg_pump *p, int from_fd, int to_fd, uint8_t *chunk);
void sg_pump_done(struct sg_pump *p);

/* Takes no more in; what was taken is still delivered. */
void sg_pump_stop(struct sg_pump *p);

bool sg_pump_is_open(const struct sg_pump *p);

/* What to wait for: fills up to two entries; returns how many. */
unsigned sg_pump_poll(const struct sg_pump *p, struct pollfd *ret);

/* Moves what can be moved now, at most `limit` bytes in. Either side's end closes the pump. */
void sg_pump_run(struct sg_pump *p, uint64_t limit);
