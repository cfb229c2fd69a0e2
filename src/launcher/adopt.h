/* SPDX-License-Identifier: Apache-2.0 */
/* What the last launcher left: cells that were promised to somebody are taken over, all others end,
 * and of those that have ended the traces go. */
#pragma once

struct sg_launcher;

/* Reads every record. Takes over at once; what ends, ends behind. */
void sg_adopt_all(struct sg_launcher *l);
/* After it: layers of the storage pool that no box has go. */
void sg_adopt_pool(struct sg_launcher *l);
