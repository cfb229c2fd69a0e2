/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of builds: snapshots with a key, which a later build finds again; see build.h. */
#include <string.h>

#include "manager/build.h"
#include "manager/capture.h"
#include "manager/life.h"
#include "manager/snapshot.h"

#include "base/banned.h"

enum { LAYERS_MAX = 256 }; /* of an organisation, beside those that are needed */
#define KEPT_MS (INT64_C(86400000) * SG_LAYER_DAYS)

struct sg_snapshot *sg_layer_find(struct sg_manager *m, const struct sg_org *org, const char *key)
{
    for (struct sg_snapshot *t = m->newest_snapshot; t; t = t->older)
        if (t->org == org && t->state == SG_SNAPSHOT_READY && strcmp(t->layer, key) == 0)
            return t;
    return NULL;
}

/* Those of good builds, of builds under way, and of sandboxes. */
static bool is_needed(const struct sg_manager *m, const struct sg_snapshot *t)
{
    for (const struct sg_built *b = m->built; b; b = b->next)
        for (const struct sg_build *one = b->org == t->org ? b->newest : NULL; one;
             one = one->older)
            if (one->work || strcmp(one->snapshot, t->id.s) == 0)
                return true;
    return sg_snapshot_users(m, t) > 0;
}

bool sg_layer_is_free(const struct sg_manager *m, const struct sg_snapshot *t)
{
    return t->layer[0] && t->state == SG_SNAPSHOT_READY && !is_needed(m, t);
}

/* The one that was used longest ago, of those that may go; and how many there are. */
static struct sg_snapshot *oldest(struct sg_manager *m, const struct sg_org *org, unsigned *ret_n)
{
    struct sg_snapshot *found = NULL;
    *ret_n = 0;
    for (struct sg_snapshot *t = m->newest_snapshot; t; t = t->older) {
        if (t->org != org || !sg_layer_is_free(m, t))
            continue;
        ++*ret_n;
        if (!found || t->used_ms < found->used_ms)
            found = t;
    }
    return found;
}

void sg_layers_trim(struct sg_manager *m)
{
    size_t cursor = 0;
    const int64_t now = sg_manager_unix_ms();
    const struct sg_who us = { .is_operator = true, .scopes = SG_SCOPE_ALL };
    for (const struct sg_org *org; (org = sg_org_next(m, &us, &cursor));) {
        unsigned n;
        struct sg_snapshot *t;
        while ((t = oldest(m, org, &n)) && (n > LAYERS_MAX || now - t->used_ms > KEPT_MS))
            sg_snapshot_remove_hidden(m, t);
    }
}

void sg_layers_forget_org(struct sg_manager *m, const struct sg_org *org)
{
    for (struct sg_snapshot *t = m->newest_snapshot, *older; t; t = older) {
        older = t->older;
        if (t->org == org && t->layer[0] && t->state == SG_SNAPSHOT_READY)
            sg_snapshot_remove_hidden(m, t);
    }
}
