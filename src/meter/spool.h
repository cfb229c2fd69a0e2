/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that wait to be sent, in files: they survive kill -9 of whoever writes them, and a bounded
 * number of bytes of them is kept; past that the oldest go.
 *
 * P1. A file is written by one process, a whole line with one write, and only while it is the
 *     newest; it is sent from its beginning, and removed when somebody has taken it. So a line is
 *     sent at least once, and perhaps twice.
 * P2. A line that a power cut tore has no end: who reads the file leaves it out. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { SG_SPOOL_FILE_BYTES = 256 << 10, SG_SPOOL_LINE_MAX = 64 << 10 };

struct sg_spool;

/* Takes `dir_fd`. What an earlier process left in it is found again. Returns owned. */
struct sg_spool *sg_spool_open(int dir_fd, uint64_t max_bytes, struct sg_err *err);
void sg_spool_free(struct sg_spool *s); /* the files stay */

/* Without its line end. SG_EXHAUSTED: too long; else the disk's trouble. */
int sg_spool_add(struct sg_spool *s, struct sg_str line, struct sg_err *err);

/* The oldest file, open for reading, and its number; -1: there is none. It is not written any
 * more. */
int sg_spool_first(struct sg_spool *s, uint64_t *ret_number);
void sg_spool_remove(struct sg_spool *s, uint64_t number); /* also one that is gone */

uint64_t sg_spool_bytes(const struct sg_spool *s);
uint64_t sg_spool_dropped(const struct sg_spool *s); /* lines that went unsent */
