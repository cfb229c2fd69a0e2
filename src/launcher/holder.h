/* SPDX-License-Identifier: Apache-2.0 */
/* Tiers, as the launcher has them: who makes and holds the sandboxes of each.
 *
 * A tier is a row of sg_tiers: its name, why it is not to be had here, and its holder. A holder
 * answers the daemon's questions about one sandbox, each after permit.h let it pass. Several tiers
 * may share one: cells and what an OCI runtime keeps are boxes (box.h), and differ in how they are
 * made. docs/design/tiers.md says how to add one.
 *
 * D1. A create goes to the holder of the tier that it names, every other question to the holder
 *     that has the sandbox; one that nobody has is answered as not found.
 * D2. A holder answers every question exactly once (sg_conn_send(), sg_conn_ok(), sg_conn_fail()),
 *     now or later, or fails and is answered for.
 * D3. The daemon learns of the tiers that are missing with the welcome, each with its reason; a
 *     create of one of those fails with the same words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ctl/msg.h"

struct sg_launcher;

struct sg_holder {
    /* Making, claimed or ending. */
    bool (*has)(const struct sg_launcher *l, const char *sandbox);
    /* L_CREATE, L_ADOPT, L_DESTROY, L_FREEZE, L_THAW, L_LIMIT, L_STATS, L_GAUGE, L_NET, L_SNAPSHOT,
     * L_MOUNT, L_UNFOLD, L_RECLAIM. */
    int (*answer)(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err);
    /* Ids of those that are claimed, from `*cursor` on; borrowed until the loop runs on. Sets it to
     * where to go on, 0: that was all. What comes and goes meanwhile neither hides nor repeats the
     * others. */
    size_t (*list)(const struct sg_launcher *l, uint64_t *cursor, char **names, size_t max);
    /* Nobody waits for an answer any more. */
    void (*daemon_lost)(struct sg_launcher *l);
};

extern const struct sg_holder sg_boxes; /* serve_box.c */

struct sg_tier_row {
    const char *name;
    const struct sg_holder *holder; /* NULL: this version has none */
    /* Why it is not to be had on this host, as set up; NULL: it is. The text outlives the call. */
    const char *(*lacks)(const struct sg_launcher *l);
};

extern const struct sg_tier_row sg_tiers[SG_L_TIER_COUNT];

/* NULL: it is to be had. */
const char *sg_tier_missing(const struct sg_launcher *l, enum sg_l_tier tier);
