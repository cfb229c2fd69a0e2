/* SPDX-License-Identifier: Apache-2.0 */
/* Approvals in the store, and back from it after a restart: what is pending goes on, with the time
 * that is left of it; what ended meanwhile ends as expired. */
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/approval.h"
#include "manager/life.h"
#include "store/store.h"

#include "base/banned.h"

static void written(void *arg, const struct sg_err *err)
{
    struct sg_approval *a = arg;

    if (!a->manager->is_ending) /* else whoever waits was told */
        sg_approval_written(a, err);
}

void sg_approval_write(struct sg_approval *a, bool is_durable)
{
    const struct sg_approval_row r = {
        .id = a->id.s,
        .org = a->org->id.s,
        .state = sg_approval_state_names[a->state],
        .operation = a->operation,
        .summary = a->summary,
        .subject = a->subject,
        .reason = a->reason,
        .asker = a->asker,
        .decider = a->decider,
        .created_ms = a->created_ms,
        .expires_ms = a->expires_ms,
        .decided_ms = a->decided_ms,
        .used_ms = a->used_ms,
    };
    a->is_writing = true;
    sg_store_put_approval(a->manager->store, &r, is_durable ? SG_STORE_FULL : SG_STORE_NORMAL,
                          sg_note_done, sg_note_new(a->manager, written, a));
}

/* ---- after a restart ---- */

static int state_of(const char *name)
{
    for (int i = 0; name && i < SG_APPROVAL_STATE_COUNT; i++)
        if (strcmp(name, sg_approval_state_names[i]) == 0)
            return i;
    return -1;
}

static bool load_one(void *arg, const struct sg_approval_row *r)
{
    struct sg_manager *m = arg;
    struct sg_org *org = r->org ? sg_map_find(&m->orgs, r->org) : NULL;
    const int state = state_of(r->state);

    if (!org || state < 0 || !r->operation || !r->summary || !sg_id_is_valid(r->id, 'a')) {
        sg_store_remove_approval(m->store, r->id);
        return true;
    }
    struct sg_approval *a = sg_new(struct sg_approval);
    *a = (struct sg_approval) { .org = org, .manager = m, .state = (enum sg_approval_state)state };
    memcpy(a->id.s, r->id, sizeof a->id.s);
    a->operation = sg_strdup(r->operation);
    a->summary = sg_strdup(r->summary);
    a->reason = r->reason ? sg_strdup(r->reason) : NULL;
    (void)snprintf(a->subject, sizeof a->subject, "%s", r->subject ? r->subject : "");
    (void)snprintf(a->asker, sizeof a->asker, "%s", r->asker ? r->asker : "");
    (void)snprintf(a->decider, sizeof a->decider, "%s", r->decider ? r->decider : "");
    a->created_ms = r->created_ms;
    a->expires_ms = r->expires_ms;
    a->decided_ms = r->decided_ms;
    a->used_ms = r->used_ms;
    sg_approval_add(m, a);
    if (a->state == SG_APPROVAL_PENDING)
        sg_approval_arm(a);
    return true;
}

int sg_approvals_load(struct sg_manager *m, struct sg_err *err)
{
    if (sg_store_each_approval(m->store, load_one, m, err) < 0)
        return sg_wrap(err, "load the approvals");
    return 0;
}
