/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/move.h"

#include "manager/life.h"
#include "manager/move_internal.h"
#include "base/banned.h"

int sg_move_enter(struct sg_move *v, struct sg_manager *m, struct sg_org *org, struct sg_err *err)
{
    if (m->is_ending || !m->is_ready)
        return sg_fail(err, SG_UNAVAILABLE, "the service is %s",
                       m->is_ending ? "ending" : "starting");
    if (org->moves >= SG_MOVES_MAX)
        return sg_fail(err, SG_EXHAUSTED, "%d exports and imports are under way: wait for one",
                       SG_MOVES_MAX);
    org->moves++;
    v->m = m;
    v->org = org;
    v->next = m->moves;
    v->link = &m->moves;
    if (v->next)
        v->next->link = &v->next;
    m->moves = v;
    return 0;
}

void sg_move_leave(struct sg_move *v)
{
    v->org->moves--;
    *v->link = v->next;
    if (v->next)
        v->next->link = v->link;
}

void sg_move_destroy(struct sg_move *v, struct sg_id *id)
{
    const struct sg_who us = { .org = v->org, .scopes = SG_SCOPE_ALL, .is_operator = true };
    struct sg_sandbox *s = id->s[0] ? sg_map_find(&v->m->sandboxes, id->s) : NULL;
    if (s && !v->m->is_ending)
        (void)sg_manager_destroy(s, &us, NULL, NULL, NULL);
    id->s[0] = '\0';
}

void sg_move_forget(struct sg_move *v, char *id)
{
    struct sg_snapshot *t = *id ? sg_map_find(&v->m->snapshots, id) : NULL;
    if (t && !v->m->is_ending)
        sg_snapshot_remove_hidden(v->m, t);
    *id = '\0';
}

struct sg_sandbox *sg_move_box(struct sg_move *v, const struct sg_id *id, struct sg_err *err)
{
    struct sg_sandbox *s = sg_map_find(&v->m->sandboxes, id->s);
    if (s && s->state == SBX_RUNNING && s->peer)
        return s;
    (void)sg_fail(err, SG_UNAVAILABLE, "the sandbox that the files pass through has ended");
    return NULL;
}

void sg_moves_end(struct sg_manager *m, const struct sg_err *err)
{
    while (m->moves)
        m->moves->end(m->moves, err);
}
