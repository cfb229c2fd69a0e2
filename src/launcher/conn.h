/* SPDX-License-Identifier: Apache-2.0 */
/* The connection with the daemon: one at a time. Answers that do not fit wait in order; a daemon
 * that does not read them at all is no daemon any more. */
#pragma once

#include "base/buf.h"
#include "ctl/chan.h"
#include "loop/loop.h"

struct sg_launcher;
struct sg_sent;

struct sg_conn {
    struct sg_io io; /* fd -1: nobody is there */
    struct sg_packet packet;
    struct sg_buf out; /* the packet in the making */
    uint32_t epoch;
    bool has_hello, is_lost;
    struct sg_later closing; /* not at once: whoever sends may be in the midst of a list */
    struct sg_sent *queue, **queue_end; /* owned */
    unsigned queued;
};

void sg_conn_init(struct sg_conn *c);
void sg_conn_done(struct sg_conn *c); /* after sg_conn_close() */

/* Takes `fd`. */
int sg_conn_open(struct sg_launcher *l, int fd, struct sg_err *err);
void sg_conn_close(struct sg_launcher *l);

/* Nothing happens when nobody is there. `fd` is borrowed; -1: none. Sets the epoch. */
void sg_conn_send(struct sg_launcher *l, struct sg_msg *m, int fd);
void sg_conn_send_all(struct sg_launcher *l, struct sg_msg *m, const int *fds, unsigned n);
void sg_conn_ok(struct sg_launcher *l, uint32_t id);
void sg_conn_fail(struct sg_launcher *l, uint32_t id, const struct sg_err *err);
