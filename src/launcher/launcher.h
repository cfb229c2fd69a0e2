/* SPDX-License-Identifier: Apache-2.0 */
/* sandglass-launcher: the one privileged process of the service.
 *
 * It makes cells, keeps some of them parked, and does to them what the daemon asks, as far as
 * permit.h allows. One thread, one loop; nothing waits but for the kernel.
 *
 *     main.c     settings, the order of starting and ending
 *     listen.c   the service's own sockets, which outlive any daemon
 *     child.c    keeps a program running: daemon.c  sandglassd, gate.c  sandglass-gate,
 *                keeper.c  sandglass-keeper, export.c  sandglass-export, image.c  templates
 *     conn.c     the packets between the two
 *     permit.c   what may be asked                 serve.c   what is done about it
 *     pool.c     which cells are made, for whom    box.c     the life of one cell
 *     container.c  how a box lives that is a container of an Engine    import.c  its images
 *     record.c   what the next launcher must know  adopt.c   what the last one left
 *     vault.c    the storage pool                  hand.c    who waits for the disk
 *     tiers.c    which tiers there are             oci.c     the runtime of tier gvisor
 *     reclaim.c  memory of frozen cells, by a helper that waits for the kernel
 *
 * C1. Every cell has a box, every box has a slot, every slot has a record while its box lives.
 * C2. A box is making, parked, claimed or ending, in that order; it never goes back.
 * C3. What the daemon holds of a cell (its id) is in the record before it is answered. */
#pragma once

#include "base/map.h"
#include "launcher/box.h"
#include "launcher/conn.h"
#include "launcher/daemon.h"
#include "launcher/export.h"
#include "launcher/gate.h"
#include "launcher/image.h"
#include "launcher/import.h"
#include "launcher/keeper.h"
#include "launcher/oci.h"
#include "launcher/permit.h"
#include "launcher/pool.h"
#include "launcher/vault.h"
#include "loop/loop.h"

/* From the settings, fixed at start. */
struct sg_launch {
    char *run_dir, *state_dir;             /* owned */
    char *rules_paths[SG_RULE_FILE_COUNT]; /* owned; NULL: at the default place, if there */
    bool is_rootless;
    struct sg_limits defaults; /* of a parked cell, and where a create says nothing */
    struct sg_permit permit;
    uint64_t max_cells; /* claimed at one time */
    /* Owned. The image of those that name no template but this one, or `host`; "": as that is
     * called. */
    char *docker_image, *docker_template;
};

enum sg_stopping {
    SG_STOP_NOT,
    SG_STOP_LEAVE, /* SIGTERM: claimed cells stay */
    SG_STOP_END,   /* SIGINT: nothing stays */
};

struct sg_launcher {
    struct sg_loop *loop;
    struct sg_launch set;
    int cells_fd;                          /* RUN/cells */
    int init_fd;                           /* the program of every cell's pid 1 */
    struct sg_box *by_slot[SG_SLOT_COUNT]; /* the newest of each slot */
    struct sg_map by_id;                   /* claimed boxes */
    struct sg_box *boxes;                  /* all of them */
    unsigned box_count, claimed_count;
    bool can_freeze, can_reclaim;
    bool is_second; /* the one before us did not end by itself */
    struct sg_maker maker;
    struct sg_vault vault;
    struct sg_reclaimer reclaimer;
    struct sg_oci oci;
    struct sg_packet packet; /* for what a new cell says */
    struct sg_conn conn;
    struct sg_daemon daemon;
    struct sg_gate_link gate;
    struct sg_keeper_link keeper;
    struct sg_imports imports;
    struct sg_export_link export;
    struct sg_image_link images;
    enum sg_stopping stopping;
    struct sg_timer stop_timer;
    struct sg_io parent; /* fd: pidfd of whoever started us */
};

/* Ends the service. Asking for more than was asked before counts; for less does not. */
void sg_launcher_stop(struct sg_launcher *l, enum sg_stopping how);
/* A box is gone: the last one may be what an ending launcher waits for. */
void sg_launcher_box_gone(struct sg_launcher *l);
/* The daemon has ended, and no other will be started. */
void sg_launcher_daemon_gone(struct sg_launcher *l);
