/* SPDX-License-Identifier: Apache-2.0 */
/* A cell's network namespace: a loopback device, and nothing else.
 *
 * Making one costs more than all other namespaces together, and bringing its loopback up waits for
 * the kernel to take down others. So, where there is a sweeper, that process makes it, and the
 * cell's own joins it at the very end. It belongs to our user namespace: root inside has no
 * authority over it. */
#pragma once

#include <stdint.h>

/* For children that share our memory: moves the caller into a new one. 0, or -errno. */
long sg_net_make_raw(void);

/* The same: `path` of a proc is its setting of the first port that is for everybody. A proc of
 * one's own is quick: in one that others use, too, the setting of each namespace that there is has
 * the same place in the kernel's table of names. */
void sg_net_open_ports_raw(int dir_fd, const char *path);

/* The answer of one who makes it to one who waits for it: a futex word. */
enum { SG_NET_PENDING, SG_NET_READY, SG_NET_FAILED /* plus the errno */ };
void sg_net_announce_raw(uint32_t *word, long made); /* what sg_net_make_raw() returned */
long sg_net_await_raw(uint32_t *word);               /* 0, or -errno */
