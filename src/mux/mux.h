/* SPDX-License-Identifier: Apache-2.0 */
/* One byte channel in place of a control socket with descriptors: what a wall needs that no
 * descriptor crosses (gVisor's stdin, a virtual machine's serial port). The same code is at both
 * ends; each has a control socket like any other on its own side, and neither the daemon nor init
 * sees a difference.
 *
 *     daemon ─ packets, descriptors ─ mux ══ frames ══ mux ─ packets, descriptors ─ init
 *
 * X1. A descriptor beside a packet becomes a stream. The other end makes a pipe, a pair of sockets
 *     or (of a regular file, which is sent whole first) a file in memory in its place.
 * X2. A stream has a window: what was sent and not taken is bounded, so that one that nobody reads
 *     holds up no other. Messages have one, too.
 * X3. The end of a program (EXITED) does not overtake the last bytes that it wrote.
 * X4. The other end is not trusted: anything wrong in a frame, or more than its window, ends the
 *     channel. What it names that is not there (any more) is skipped.
 * X5. Nothing here waits: it has an epoll descriptor, which is readable when there is work. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "ctl/chan.h"

enum {
    SG_MUX_WINDOW = 256 * 1024,         /* of a stream */
    SG_MUX_MESSAGES = 1024 * 1024,      /* of messages */
    SG_MUX_STREAMS = 4096,              /* that one side opened */
    SG_MUX_FILE_MAX = 64 * 1024 * 1024, /* a regular file that is sent whole */
};

struct sg_mux;

enum sg_mux_side { SG_MUX_HOST, SG_MUX_GUEST };

struct sg_mux_ops {
    unsigned roles; /* 1 << enum sg_msg_role: of packets from the local socket */
    /* May be NULL. A packet from the local socket on its way over; it may change (encoded anew by
     * the callee), and its descriptors may be taken. False: it goes no further. */
    bool (*outgoing)(void *arg, struct sg_packet *p);
    /* May be NULL. The same for one from the other side. */
    bool (*incoming)(void *arg, struct sg_packet *p);
    /* The guest's: the other side has a new connection; takes our end of it. */
    void (*opened)(void *arg, int fd);
};

/* Takes `channel_fd`, and makes it non-blocking. Returns owned. */
struct sg_mux *sg_mux_new(int channel_fd, enum sg_mux_side side, const struct sg_mux_ops *ops,
                          void *arg, struct sg_err *err);
void sg_mux_free(struct sg_mux *m);

int sg_mux_fd(const struct sg_mux *m); /* borrowed: readable when sg_mux_turn() has work */
/* -1: the channel has ended, or the other side broke its rules. */
int sg_mux_turn(struct sg_mux *m, struct sg_err *err);

/* The host's: a new connection in place of the one before, which is closed. Takes `fd`. */
void sg_mux_attach(struct sg_mux *m, int fd);
/* A packet of our own to the local socket, as if from the other side. */
void sg_mux_say(struct sg_mux *m, const struct sg_msg *msg);
/* Are there bytes on their way to, or from, descriptors of the exec with this tag? */
bool sg_mux_is_busy(const struct sg_mux *m, const char *tag);
/* Keeps `bytes` (a packet) back until sg_mux_is_busy(tag) is over, then sends it to the local
 * socket. */
void sg_mux_say_after(struct sg_mux *m, const char *tag, const struct sg_msg *msg);
