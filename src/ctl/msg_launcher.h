/* SPDX-License-Identifier: Apache-2.0 */
/* The messages between daemon and launcher; part of ctl/msg.h. */
#pragma once

#include "ctl/text.h"

enum { /* L_CELL and L_WELCOME flags */
       SG_L_PARKED = 1,
       SG_L_ROOTLESS = 2,
       SG_L_FREEZER = 4,
       SG_L_POOL = 8,      /* there is a storage pool; of a cell: its writable layer is there */
       SG_L_HAS_GATE = 16, /* sandboxes can have a network */
       SG_L_RECLAIMS = 32, /* the kernel takes memory of frozen ones */
};
/* Tiers that the launcher makes sandboxes of (launcher/holder.h). */
enum sg_l_tier { SG_L_TIER_CELL, SG_L_TIER_GVISOR, SG_L_TIER_DOCKER, SG_L_TIER_COUNT };
#define SG_CTL_VIEW "/volume"
/* On directories of such a layer that hide those below them. */
#define SG_CTL_OPAQUE "security.sandglass.opaque"
/* Descriptors of L_GAUGED, in this order: files of the kernel that tell what a cell uses. The last
 * two are a number each; the first is one of nanoseconds, or lines with "usage_usec". */
enum { SG_L_GAUGE_CPU, SG_L_GAUGE_MEM, SG_L_GAUGE_MEM_PEAK, SG_L_GAUGE_COUNT };

#define SG_CTL_LAYER "/dev/shm/layer" /* where L_UNFOLD shows a cell its own writable layer */
enum { SG_L_READ_ONLY = 1 };          /* L_MOUNT flags */
/* L_IMAGE: descriptors of the one that works on templates (cli/image_work.h). */
enum { SG_L_IMAGE_ASKED, SG_L_IMAGE_SAYS, SG_L_IMAGE_DATA, SG_L_IMAGE_FD_COUNT };
enum { SG_L_STAY_FROZEN = 1 };                 /* L_SNAPSHOT flags */
enum { SG_L_FULL = 1, SG_L_NOT_COUNTING = 2 }; /* L_STORED flags */
/* L_STORED reclaim; as in engine/reclaim.h */
enum sg_l_reclaim { SG_L_KEPT, SG_L_FILES_GO, SG_L_ALL_GOES, SG_L_RECLAIM_COUNT };
enum { SG_L_END_EXIT, SG_L_END_MEMORY, SG_L_END_KILLED }; /* L_ENDED cause */
struct sg_msg_l_hello {
    uint32_t version, epoch;
};
struct sg_msg_l_create { /* also L_LIMIT, which ignores template and tier */
    struct sg_text sandbox, template;
    uint64_t mem_bytes, cpu_milli, pids, disk_bytes;
    uint32_t tier;          /* enum sg_l_tier */
    struct sg_texts mounts; /* volume, path, "rw" or "ro", each; where L_MOUNT comes too late */
};
struct sg_msg_l_name { /* ADOPT, DESTROY, FREEZE, THAW, STATS, UNFOLD, RECLAIM */
    struct sg_text sandbox;
};
struct sg_msg_l_net { /* off: its sockets go */
    struct sg_text sandbox;
    uint32_t is_on;
};
struct sg_msg_l_list {
    uint64_t cursor;
};
struct sg_msg_l_welcome {
    uint32_t version, flags;
    struct sg_texts lacking; /* by enum sg_l_tier: why it is not to be had here; "": it is */
};
struct sg_msg_l_cell {
    uint32_t flags, missing, pid; /* missing: controllers, 1 << enum; pid: on the host */
    uint64_t disk_bytes;
    struct sg_text template, identity, user, home, workdir, path; /* identity: of what is in it */
    struct sg_texts env;
};
struct sg_msg_l_stated {
    uint64_t mem_bytes, mem_peak_bytes, mem_limit_bytes, cpu_ns, pids, pids_peak, oom_kills;
    uint64_t disk_bytes, disk_used_bytes;
};
struct sg_msg_l_listed { /* LIST: ids; POOL: "template parked wanted"; TEMPLATES: names */
    uint64_t next;
    struct sg_texts names;
};
struct sg_msg_l_snapshot {
    struct sg_text sandbox, snapshot;
    uint32_t flags;
};
struct sg_msg_l_volume {
    struct sg_text volume;
    uint64_t bytes;
};
struct sg_msg_l_mount {
    struct sg_text sandbox, volume, path;
    uint32_t flags;
};
struct sg_msg_l_forget {
    struct sg_text snapshot;
};
struct sg_msg_l_snapped {
    uint64_t bytes, frozen_ns; /* bytes: that it holds; frozen_ns 0: it was frozen before */
};
struct sg_msg_l_stored {
    uint32_t flags;
    uint64_t total_bytes, free_bytes, errands; /* errands: not done yet */
    uint64_t errors;                           /* that the disk has had, ever */
    struct sg_text source, why;                /* "image", "directory", "tmpfs"; why not */
    uint32_t reclaim;                          /* memory of paused ones goes: enum sg_l_reclaim */
    uint64_t swap_bytes;
    struct sg_text kept_why; /* not all of it, or none */
};
enum sg_rule_file { SG_RULE_FILE_ROUTER, SG_RULE_FILE_INTERCEPT, SG_RULE_FILE_COUNT };
struct sg_msg_l_rules { /* RULES: what the asker has; RULED: what there is, its file if other */
    uint64_t stamp;
    uint32_t which; /* enum sg_rule_file */
};
struct sg_msg_l_identify {
    struct sg_text template;
};
struct sg_msg_l_identified {
    uint64_t stamp; /* of what the name leads to: another after every import or build; never 0 */
    struct sg_text identity; /* the same on every machine that has the same; "": not known */
};
struct sg_msg_l_reclaimed {
    struct sg_text sandbox;
    uint64_t bytes;
};
struct sg_msg_l_ended {
    struct sg_text sandbox;
    uint32_t cause;
    uint64_t oom_kills, cpu_ns; /* cpu: of all its life; UINT64_MAX: not known */
};
