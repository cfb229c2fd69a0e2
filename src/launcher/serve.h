/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's questions, each looked up in a table after permit.h let it pass. */
#pragma once

#include "ctl/msg.h"

struct sg_box;
struct sg_err;
struct sg_launcher;
struct sg_wish;

void sg_serve(struct sg_launcher *l, const struct sg_msg *m);

uint32_t sg_serve_flags(const struct sg_launcher *l); /* SG_L_..., of what the host is */

/* Questions about volumes: serve_volume.c. */
int sg_serve_volume(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err);

/* A create that had to wait: with its box, which is parked, or with the reason (`b` NULL). */
void sg_serve_wish(struct sg_launcher *l, const struct sg_wish *w, struct sg_box *b,
                   const struct sg_err *err);

/* News: pid 1 of a claimed box is gone, unasked. */
void sg_serve_ended(struct sg_launcher *l, const struct sg_box *b);

/* Whoever asked is gone: no question is open any more. */
void sg_serve_daemon_lost(struct sg_launcher *l);
