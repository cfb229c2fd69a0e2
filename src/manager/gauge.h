/* SPDX-License-Identifier: Apache-2.0 */
/* What one sandbox uses, read by ourselves.
 *
 * The launcher opens the kernel's files and hands them over; from then on a look is three reads and
 * nobody has to be asked. For work that is over in a moment: its caller waits for the bill, and the
 * way to the launcher and back would take as long as the work did. */
#pragma once

#include "manager/manager.h"

struct sg_gauge;

/* Asks for it. Returns owned; it may never come to tell anything. */
struct sg_gauge *sg_gauge_open(struct sg_sandbox *s);
void sg_gauge_close(struct sg_gauge *g); /* NULL: nothing */

/* False: nothing is known (yet, or here). It does not tell of the disk: UINT64_MAX. */
bool sg_gauge_read(const struct sg_gauge *g, struct sg_stats *ret);
