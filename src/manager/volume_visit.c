/* SPDX-License-Identifier: Apache-2.0 */
/* Our own sandbox that shows a volume. In no list, of no quota, and its row never says more than
 * "creating", so that the next start removes it: nobody was told of it. */
#include <string.h>

#include "base/auto.h"
#include "manager/life.h"
#include "manager/volume.h"

#include "base/banned.h"

enum { IDLE_MS = 10000, VISITORS_MAX = 64 };

static unsigned count(const struct sg_manager *m)
{
    unsigned n = 0;
    for (const struct sg_sandbox *s = m->newest; s; s = s->older)
        n += s->is_internal && !s->is_standby;
    return n;
}

static struct sg_sandbox *make(struct sg_manager *m, struct sg_volume *v)
{
    struct sg_err ignored;
    v->visitor = sg_id_new('s');
    struct sg_sandbox *s = sg_life_new(m, v->org, &v->visitor);
    s->state = SBX_CREATING;
    s->is_internal = true;
    s->template = sg_strdup("host"); /* always there */
    (void)sg_quota_fits(m, &s->limits, &ignored);
    s->idle_ms = IDLE_MS;
    s->created_ms = sg_manager_unix_ms();
    sg_mounts_add(s, v->id.s, SG_CTL_VIEW, false);
    sg_list_add(s);
    sg_create_begin(s);
    return s;
}

int sg_volume_visit(struct sg_manager *m, struct sg_volume *v, sg_sandbox_cb *cb, void *arg,
                    struct sg_err *err)
{
    struct sg_sandbox *s = v->visitor.s[0] ? sg_map_find(&m->sandboxes, v->visitor.s) : NULL;
    if (s && s->state == SBX_RUNNING && s->peer) {
        sg_sandbox_touch(s);
        cb(arg, s, NULL);
        return 0;
    }
    if (s && s->state != SBX_CREATING) { /* it died, or is on its way out */
        const struct sg_who us = { .org = v->org, .scopes = SG_SCOPE_ALL, .is_operator = true };
        (void)sg_manager_destroy(s, &us, NULL, NULL, NULL);
        s = NULL;
    }
    if (!s) {
        if (m->is_ending || !m->is_ready)
            return sg_fail(err, SG_UNAVAILABLE, "the service is %s",
                           m->is_ending ? "ending" : "starting");
        if (count(m) >= VISITORS_MAX)
            return sg_fail(err, SG_EXHAUSTED, "too many volumes are in use at once");
        s = make(m, v);
    }
    sg_life_wait(&s->life->waiting, cb, arg);
    return 0;
}

struct sg_sandbox *sg_volume_visitor(struct sg_manager *m, const struct sg_who *who,
                                     const char *which, struct sg_err *err)
{
    const struct sg_volume *v = sg_volume_find(m, who, which, err);
    struct sg_sandbox *s = v ? sg_map_find(&m->sandboxes, v->visitor.s) : NULL;
    if (v && !s)
        (void)sg_fail(err, SG_UNAVAILABLE, "the volume's files are out of reach; try again");
    if (s)
        sg_sandbox_touch(s);
    return s;
}

void sg_volume_touch(struct sg_manager *m, const struct sg_volume *v)
{
    struct sg_sandbox *s = v->visitor.s[0] ? sg_map_find(&m->sandboxes, v->visitor.s) : NULL;
    if (s)
        sg_sandbox_touch(s);
}
