/* SPDX-License-Identifier: Apache-2.0 */
/* The disk side of the store: makes commits durable and keeps the write-ahead log short, in a
 * thread of its own.
 *
 * A commit is in the log (and survives kill -9) as soon as the writer has returned; what is left
 * for a power cut is one fdatasync of the log, which covers every commit before it. Done here it
 * serves all who wait at once, and those who do not wait never feel it. The same holds for moving
 * the log into the database: a passive checkpoint lets the writer go on meanwhile. */
#pragma once

#include "base/err.h"

struct sg_disk;
struct sg_loop;
struct sg_write;

typedef void sg_disk_synced(void *arg, struct sg_write *list, const struct sg_err *err);

/* `path` of the database, which is open and in WAL mode. */
struct sg_disk *sg_disk_new(struct sg_loop *l, const char *path, sg_disk_synced *synced, void *arg,
                            struct sg_err *err);
/* Ends the thread; syncs and calls back for what waits. From then on it can be called again. */
void sg_disk_settle(struct sg_disk *d);
void sg_disk_free(struct sg_disk *d); /* nothing waits any more */

/* The (single) committed write is handed to `synced`, with others, once it is on the disk. */
void sg_disk_wait(struct sg_disk *d, struct sg_write *w);
/* What is committed by now is on the disk within SG_STORE_SOON_MS. */
void sg_disk_soon(struct sg_disk *d);
/* The log has this many pages now. */
void sg_disk_log_grew(struct sg_disk *d, int pages);
