/* SPDX-License-Identifier: Apache-2.0 */
/* Records: what each cell is, in RUN/cells/<slot>.rec, for the launcher that comes after this one.
 *
 * E1. A record is written as soon as a slot is ours, before anything is made in it, and removed
 *     after everything else of it.
 * E2. Its state only grows: making, parked, claimed. Only what is claimed was promised to anybody.
 * E3. One write replaces the whole of it: a kill -9 leaves the old or the new one. The directory is
 *     in memory (/run), so a record never outlives the boot of its cell. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "ctl/msg.h"
#include "engine/kept.h"

enum sg_record_state { SG_RECORD_MAKING = 1, SG_RECORD_PARKED, SG_RECORD_CLAIMED };

enum { SG_RECORD_TEMPLATE_MAX = 64 }; /* as of image/template.h */
enum { SG_RECORD_DISK_MAX = 32, SG_RECORD_CONTAINER_MAX = 48 };

struct sg_record {
    uint32_t magic, version; /* set by sg_record_write() */
    uint32_t state, slot;
    int32_t pid;             /* on the host; 0: not known yet */
    uint32_t tier;           /* enum sg_l_tier */
    uint32_t is_v2, missing; /* of its cgroups */
    uint64_t start_ticks;
    uint64_t mem_bytes, cpu_milli, pids, disk_bytes, open_files;
    uint64_t template_dev, template_ino; /* its directory: the name may lead to another by now */
    char sandbox[SG_CTL_MAX_TAG + 8];    /* "" until claimed */
    char template[SG_RECORD_TEMPLATE_MAX + 8];
    char disk[SG_RECORD_DISK_MAX]; /* its writable layer in the storage pool; "": in memory */
    char container[SG_RECORD_CONTAINER_MAX]; /* of an Engine; "": none */
    char groups[SG_GROUP_COUNT][SG_CGROUP_PATH_MAX];
};

void sg_record_set_limits(struct sg_record *r, const struct sg_limits *l);
void sg_record_set_cgroup(struct sg_record *r, const struct sg_cgroup *g);
void sg_record_note(const struct sg_record *r, struct sg_kept_note *ret);

/* `dir_fd`: RUN/cells. */
int sg_record_write(int dir_fd, struct sg_record *r, struct sg_err *err);

/* SG_INVALID: not a whole record of this version, or not of that slot. SG_NOT_FOUND. */
int sg_record_read(int dir_fd, uint32_t slot, struct sg_record *ret, struct sg_err *err);

/* The record and the socket of the slot. */
void sg_record_remove(int dir_fd, uint32_t slot);

/* The slot that a file "<slot>.rec" (or with another ending) is of, or -1. */
int sg_record_slot_of(const char *name, const char *ending);
