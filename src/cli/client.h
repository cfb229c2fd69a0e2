/* SPDX-License-Identifier: Apache-2.0 */
/* Asking pid 1 of a cell: one question, one answer, in order. What comes back is hostile input; the
 * channel has checked its form, and each caller checks what it uses of it. */
#pragma once

#include "ctl/chan.h"

struct sg_client {
    int fd; /* borrows */
    uint32_t epoch, next_id;
};

void sg_client_init(struct sg_client *c, int ctl_fd);

/* Sends and does not wait; returns the id under which the answer will come, or -1. */
int64_t sg_client_send(struct sg_client *c, struct sg_msg *m, const int *fds, unsigned fd_count,
                       struct sg_err *err);

/* Sends and waits (30 s at most) for the answer, dropping events on the way. An ERROR answer
 * becomes the error; any type but `want` is refused. */
int sg_client_ask(struct sg_client *c, struct sg_msg *m, enum sg_msg_type want,
                  struct sg_packet *ret, struct sg_err *err);

/* An ERROR message as an error; its text is shown quoted. Returns -1. */
int sg_client_error(const struct sg_msg_error *m, struct sg_err *err);
