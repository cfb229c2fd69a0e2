/* SPDX-License-Identifier: Apache-2.0 */
/* A range of 65,536 uids and gids of its own per cell, and with it a slot: a small number that
 * names the cell's cgroups.
 *
 * The claim on a slot is a lock on one byte of one file. The kernel drops it when the last process
 * that holds the descriptor is gone, so a claim cannot outlive a kill -9, and a cgroup whose slot
 * nobody holds is known to be a leftover. Ranges start at 0x70000000, above those that
 * distributions and systemd hand out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { SG_SLOT_COUNT = 4096 };

struct sg_ids {
    uint32_t slot;
    uint32_t first; /* host id that is 0 inside; our own id without root */
    int lock_fd;
};

/* `is_root`: ranges are shared by the whole machine (/run/sandglass); else the slot alone is
 * claimed, below the user's own run directory. */
int sg_ids_claim(bool is_root, struct sg_ids *ret, struct sg_err *err);
void sg_ids_release(struct sg_ids *ids);

/* The host id that is 0 inside the cell of that slot. */
uint32_t sg_ids_first(bool is_root, uint32_t slot);

/* Where the slots are locked: "/run/sandglass", or the user's own run directory. */
void sg_ids_run_dir(bool is_root, char *ret, size_t cap);

/* Claims `slot` if nobody holds it: then what bears its name is a leftover. Else SG_CONFLICT. */
int sg_ids_claim_slot(bool is_root, uint32_t slot, struct sg_ids *ret, struct sg_err *err);
