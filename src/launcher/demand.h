/* SPDX-License-Identifier: Apache-2.0 */
/* How many sandboxes of a template are kept ready: what the settings say, and for a while as many
 * as the largest burst took. One who runs a hundred tasks at once will do so again in a minute; who
 * never does should not pay for a hundred that wait.
 *
 * D1. It grows at once, to what was taken within a second, and never over the most.
 * D2. It stays as long as bursts of half the size come; then it falls by halves. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sg_demand {
    unsigned least, most;
    unsigned wanted;   /* least to most */
    unsigned taken;    /* since `since_ns` */
    uint64_t since_ns; /* when the second began */
    uint64_t until_ns; /* it is kept as it is */
};

void sg_demand_init(struct sg_demand *d, unsigned least, unsigned most);
void sg_demand_take(struct sg_demand *d, uint64_t now_ns); /* somebody takes one */
void sg_demand_look(struct sg_demand *d, uint64_t now_ns); /* now and then */
