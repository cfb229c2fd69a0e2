/* SPDX-License-Identifier: Apache-2.0 */
/* Safekeeping: the host's own ends of an exec's streams stay on this side of the wall, with us, and
 * a host that comes back gets them from us. To init nothing is kept. */
#pragma once

#include <stdbool.h>

#include "ctl/chan.h"
#include "mux/mux.h"

struct sg_keeping;

struct sg_keeping *sg_keeping_new(void);
void sg_keeping_free(struct sg_keeping *k);

/* As of struct sg_mux_ops. */
bool sg_keeping_outgoing(struct sg_keeping *k, struct sg_mux *m, struct sg_packet *p);
bool sg_keeping_incoming(struct sg_keeping *k, struct sg_mux *m, struct sg_packet *p);
