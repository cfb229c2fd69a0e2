/* SPDX-License-Identifier: Apache-2.0 */
/* Which cells are made, and for whom.
 *
 * O1. A cell in the making belongs to its template, not to a request: when it is ready it goes to
 *     the create that has waited longest, or is parked. So a burst of creates takes what a refill
 *     had begun, and a create that was given up is no waste.
 * O2. One step a pass of the loop: between two of them requests are served.
 * O3. A pool is keyed by tier and template only, never by size: limits are written at the claim.
 *     Two things cannot be: how many processes a kernel behind a further wall runs, and which
 *     volumes it has. Whoever wants another number than the usual, or volumes, waits in a pool of
 *     its own, in which nothing is kept ready.
 * O4. A pool grows where bursts take more than it has (demand.h), but only one that the settings
 *     name, and only of cells: whoever parks a container pays for a kernel or an Engine with it.
 * O5. Parked cells give way when memory is short, and when their template is replaced. */
#pragma once

#include <stdbool.h>

#include "launcher/box.h"
#include "launcher/demand.h"
#include "launcher/tmpl.h"
#include "loop/loop.h"

struct sg_launcher;

/* A create that waits. */
struct sg_wish {
    uint32_t id; /* of the question */
    char sandbox[SG_CTL_MAX_TAG + 1];
    struct sg_limits limits; /* 0: the usual */
    struct sg_wish *next;
};

struct sg_pool {
    struct sg_launcher *launcher;
    enum sg_l_tier tier;
    char template[SG_RECORD_TEMPLATE_MAX + 1];
    uint64_t pids; /* behind a further wall; 0: the usual */
    /* The same: of one create, and of no other. Owned; as of L_CREATE. */
    struct sg_texts mounts;
    struct sg_demand demand; /* how many are kept ready */
    struct sg_tmpl *tmpl;    /* NULL: not open */
    uint64_t looked_ns;      /* when it was seen to be current */
    struct sg_box *parked, **parked_end;
    unsigned parked_count, making;
    struct sg_wish *wishes, **wishes_end; /* owned */
    unsigned wish_count;
    uint64_t retry_ns, pause_ns; /* after a failure */
    bool has_complained;         /* once is enough, until it works again */
    struct sg_pool *next;
};

struct sg_maker {
    struct sg_pool *pools; /* owned */
    unsigned wish_count;   /* of all pools */
    struct sg_later step;
    struct sg_timer leisure;
    uint64_t since_ns;     /* `leisure` is waited for */
    struct sg_timer timer; /* looks after pressure, templates, and those that failed */
    bool is_short;         /* of memory: nothing is parked */
    bool is_off;           /* the launcher is ending */
    /* Of the last cell that was begun, lately: the next one's is beside it. Its claim is not ours.
     */
    struct sg_kept_place place;
    bool has_place;
};

/* `list` is that of the setting: "[TIER:]TEMPLATE=NUMBER"; `most`: how far a pool may grow. */
int sg_maker_init(struct sg_launcher *l, char *const *list, size_t n, unsigned most,
                  struct sg_err *err);
void sg_maker_begin(struct sg_launcher *l);
/* What could not be made before may be to be had now. */
void sg_maker_look(struct sg_launcher *l);
/* No more cells: ends the parked ones and those in the making, forgets what waits. */
void sg_maker_end(struct sg_launcher *l);
void sg_maker_done(struct sg_launcher *l); /* no box is left */

/* A parked box of the tier and template, or NULL: then `ret_pool` is where to wait. SG_NOT_FOUND:
 * there is no such template. */
int sg_pool_take(struct sg_launcher *l, const struct sg_msg_l_create *c, struct sg_box **ret,
                 struct sg_pool **ret_pool, struct sg_err *err);
void sg_pool_wait(struct sg_pool *p, const struct sg_wish *w); /* copies */

bool sg_maker_has_wish(const struct sg_launcher *l, const char *sandbox);
/* Forgets a create that waits. False: there is none. */
bool sg_maker_forget(struct sg_launcher *l, const char *sandbox, uint32_t *ret_id);
void sg_maker_forget_all(struct sg_launcher *l);

/* From box.c: what became of a box in the making. A made one is parked. */
void sg_pool_made(struct sg_pool *p, struct sg_box *b);
void sg_pool_not_made(struct sg_pool *p, const struct sg_err *err);
/* A parked one is ending. */
void sg_pool_drop(struct sg_pool *p, struct sg_box *b);
