/* SPDX-License-Identifier: Apache-2.0 */
/* The cell's cgroups: one directory on a v2 host, one per controller on a v1 or hybrid host.
 *
 * G1. Directories are called sandglass-<slot>; a slot's holder owns them (ids.h), so a directory
 *     whose slot is free is a leftover and may be removed by anyone who takes the slot.
 * G2. A limit that cannot be set is an error, unless the controller itself is not to be had: then
 *     it is listed in `missing`, and the caller says so in its result.
 * G3. Peak values come from the kernel; one that it does not keep is reported as unknown. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ctl/msg.h"
#include "engine/ids.h"
#include "engine/spec.h"

enum sg_controller { SG_CTRL_MEMORY, SG_CTRL_CPU, SG_CTRL_PIDS, SG_CTRL_COUNT };
/* v1 hierarchies without limits, in which only a kept cell has a directory, too. */
enum { SG_GROUP_FREEZER = SG_CTRL_COUNT, SG_GROUP_CPUACCT, SG_GROUP_COUNT };
enum { SG_CGROUP_PATH_MAX = 320 };
#define SG_UNKNOWN UINT64_MAX

struct sg_cgroup {
    bool is_v2;
    unsigned missing;                              /* 1 << enum sg_controller */
    unsigned dir_count;                            /* 1 on v2, one per hierarchy on v1 */
    char dirs[SG_GROUP_COUNT][SG_CGROUP_PATH_MAX]; /* fixed before anything is made; "": none */
    int dir_fds[SG_GROUP_COUNT];                   /* by hierarchy; -1 when missing */
    int join_fds[SG_GROUP_COUNT];                  /* v1: "tasks"; -1 on v2 */
};

struct sg_usage {
    uint64_t mem_peak_bytes, cpu_ns, pids_peak; /* SG_UNKNOWN where the kernel does not tell */
    uint64_t oom_kills, pids_refused;           /* times the limit was hit */
};

/* Finds the hierarchies and settles the paths; makes nothing. */
void sg_cgroup_init(struct sg_cgroup *g, const struct sg_ids *ids);

/* The same for a kept cell, which is frozen, thawed and asked for its use, too. */
void sg_cgroup_init_kept(struct sg_cgroup *g, const struct sg_ids *ids);
/* The same, beside one that was found before, without looking. */
void sg_cgroup_init_beside(struct sg_cgroup *g, const struct sg_cgroup *other,
                           const struct sg_ids *ids);

/* Those of a process that somebody else put where it is: never made nor removed by us. What it has
 * no directory of its own in is `missing`. */
void sg_cgroup_init_of(struct sg_cgroup *g, int pid);

/* Is the v2 tree the only one here? */
bool sg_cgroup_is_v2(void);

/* Makes the directories; settles what is missing (G2). */
int sg_cgroup_make(struct sg_cgroup *g, struct sg_err *err);

int sg_cgroup_limit(const struct sg_cgroup *g, const struct sg_limits *l, struct sg_err *err);

/* v2: the descriptor for CLONE_INTO_CGROUP, or -1. */
int sg_cgroup_birth_fd(const struct sg_cgroup *g);

/* Is swap part of the memory limit here? False where the kernel does not account for it. */
bool sg_cgroup_counts_swap(const struct sg_cgroup *g);

int sg_cgroup_usage(const struct sg_cgroup *g, struct sg_usage *ret, struct sg_err *err);

/* ---- of a kept cell, whose directories are opened for as long as it takes (cgroup_kept.c) ---- */

/* SG_CONFLICT: the kernel will not take away what is in use. `was` is what is set now. */
int sg_cgroup_relimit(const struct sg_cgroup *g, const struct sg_limits *was,
                      const struct sg_limits *l, struct sg_err *err);

/* No limit of processor time any more, for those who are to die: even that takes some, and hundreds
 * who share a hundredth of a processor would need many seconds. Best effort. */
void sg_cgroup_unthrottle(const struct sg_cgroup *g);

bool sg_cgroup_can_freeze(const struct sg_cgroup *g);
/* Asks for it; sg_cgroup_is_frozen() tells when it is so. SG_UNSUPPORTED without a freezer. */
int sg_cgroup_freeze(const struct sg_cgroup *g, bool is_frozen, struct sg_err *err);
bool sg_cgroup_is_frozen(const struct sg_cgroup *g);

/* The directory that memory.reclaim is in: an owned descriptor. SG_UNSUPPORTED: there is none. */
int sg_cgroup_open_reclaim(const struct sg_cgroup *g, struct sg_err *err);
uint64_t sg_cgroup_memory(const struct sg_cgroup *g); /* in use; SG_UNKNOWN */
/* v2: how much of it may be in swap from now on. What is there stays. Best effort. */
void sg_cgroup_set_swap(const struct sg_cgroup *g, uint64_t bytes);

struct sg_use_now {
    uint64_t mem_bytes, pids, cpu_ns; /* SG_UNKNOWN where the kernel does not tell */
};
/* Opens what sg_cgroup_usage() reads, too. */
int sg_cgroup_use(const struct sg_cgroup *g, struct sg_usage *ret, struct sg_use_now *ret_now,
                  struct sg_err *err);

/* The files that tell it, open for reading: ctl/msg.h, SG_L_GAUGE_... The caller's to close.
 * SG_UNSUPPORTED: not all of them are there. */
int sg_cgroup_gauges(const struct sg_cgroup *g, int ret[SG_L_GAUGE_COUNT], struct sg_err *err);

/* Closes descriptors. Directories stay until sg_cgroup_remove(). */
void sg_cgroup_done(struct sg_cgroup *g);

/* Removes the directories; waits up to `wait_ms` for processes to leave them. */
int sg_cgroup_remove(const struct sg_cgroup *g, unsigned wait_ms, struct sg_err *err);

/* Removes the directories of slots that nobody holds; returns how many there were. */
int sg_cgroup_sweep(bool is_root);

const char *sg_controller_name(enum sg_controller c);
