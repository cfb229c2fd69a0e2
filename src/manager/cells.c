/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the launcher, page by page, for the sandboxes of its cells. */
#include "base/auto.h"
#include "manager/life.h"
#include "tier/tier.h"

#include "base/banned.h"

struct listing {
    struct sg_manager *m;
    struct sg_cells cells;
    sg_cells_cb *cb;
};

static void end(struct listing *l, const struct sg_err *err)
{
    size_t cursor = 0;

    l->cb(l->m, err ? NULL : &l->cells, err);
    for (char *id; (id = sg_map_next(&l->cells.ids, &cursor));)
        free(id);
    sg_map_done(&l->cells.ids);
    free(l);
}

static void page(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct listing *l = arg;
    struct sg_text one;

    if (err) {
        end(l, err);
        return;
    }
    struct sg_msg_l_listed listed = p->msg.l_listed;
    while (sg_text_next(&listed.names, &one)) {
        char *id = sg_map_find(&l->cells.ids, one.p) ? NULL : sg_strdup(one.p);
        if (id)
            sg_map_put(&l->cells.ids, id, id);
    }
    if (listed.next)
        sg_tier_list(l->m->tier, listed.next, page, l);
    else
        end(l, NULL);
}

void sg_cells_list(struct sg_manager *m, sg_cells_cb *cb)
{
    struct listing *l = sg_new(struct listing);

    l->m = m;
    l->cb = cb;
    sg_map_init(&l->cells.ids);
    sg_tier_list(m->tier, 0, page, l);
}
