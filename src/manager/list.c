/* SPDX-License-Identifier: Apache-2.0 */
/* All sandboxes, newest first: finding, listing, paging.
 *
 * A page begins after the sandbox that the caller saw last. That one may be gone by now, so the
 * places of the last SG_GONE_KEPT that went are remembered; a cursor that is older than that, or
 * was never a sandbox, gives an empty page rather than the first one again. */
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/life.h"

#include "base/banned.h"

static void link_newest(struct sg_sandbox *s)
{
    struct sg_manager *m = s->manager;

    s->seq = ++m->sandbox_seq;
    s->older = m->newest;
    s->newer = NULL;
    if (m->newest)
        m->newest->newer = s;
    else
        m->oldest = s;
    m->newest = s;
}

static void link_out(struct sg_sandbox *s)
{
    struct sg_manager *m = s->manager;

    if (s->newer)
        s->newer->older = s->older;
    else
        m->newest = s->older;
    if (s->older)
        s->older->newer = s->newer;
    else
        m->oldest = s->newer;
}

void sg_list_add(struct sg_sandbox *s)
{
    link_newest(s);
    sg_map_put(&s->manager->sandboxes, s->id.s, s);
}

void sg_list_renew(struct sg_sandbox *s)
{
    link_out(s);
    link_newest(s);
}

void sg_list_remove(struct sg_sandbox *s)
{
    struct sg_manager *m = s->manager;
    struct sg_gone *gone = &m->gone[m->gone_at++ % SG_GONE_KEPT];

    memcpy(gone->id, s->id.s, sizeof gone->id);
    gone->org = s->org;
    gone->seq = s->seq;
    gone->at_ns = sg_loop_now(m->loop);
    link_out(s);
    (void)sg_map_remove(&m->sandboxes, s->id.s);
}

const struct sg_gone *sg_list_gone(const struct sg_manager *m, const char *id)
{
    for (size_t i = 0; i < SG_GONE_KEPT; i++) {
        if (strcmp(m->gone[i].id, id) == 0)
            return &m->gone[i];
    }
    return NULL;
}

static bool is_visible(const struct sg_sandbox *s, const struct sg_who *who)
{
    return !s->is_internal && !s->is_leaving && (who->is_operator || s->org == who->org);
}

struct sg_sandbox *sg_manager_find(struct sg_manager *m, const struct sg_who *who, const char *id,
                                   struct sg_err *err)
{
    struct sg_sandbox *s = sg_map_find(&m->sandboxes, id);

    if (!s || !is_visible(s, who)) {
        (void)sg_fail(err, SG_NOT_FOUND, "no sandbox %s", sg_quote(id).s);
        return NULL;
    }
    sg_sandbox_touch(s);
    return s;
}

const char *sg_pair_value(const struct sg_pairs *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->v[i].name, name) == 0)
            return p->v[i].value;
    }
    return NULL;
}

static bool is_asked_for(const struct sg_sandbox *s, const struct sg_list_query *q)
{
    if (q->states && !(q->states & 1u << s->state))
        return false;
    for (size_t i = 0; i < q->metadata_n; i++) {
        const char *value = sg_pair_value(&s->metadata, q->metadata[i].name);
        if (!value || strcmp(value, q->metadata[i].value) != 0)
            return false;
    }
    return true;
}

/* The newest that is older than the cursor. Another's sandbox is none: its place would tell that it
 * is there. */
static struct sg_sandbox *first_of_page(const struct sg_manager *m, const struct sg_who *who,
                                        const char *after)
{
    if (!after)
        return m->newest;
    const struct sg_sandbox *seen = sg_map_find(&m->sandboxes, after);
    if (seen)
        return is_visible(seen, who) ? seen->older : NULL;
    const struct sg_gone *gone = after[0] ? sg_list_gone(m, after) : NULL;
    if (gone && !who->is_operator && gone->org != who->org)
        gone = NULL;
    struct sg_sandbox *s = gone ? m->newest : NULL;
    while (s && s->seq > gone->seq)
        s = s->older;
    return s;
}

size_t sg_manager_list(struct sg_manager *m, const struct sg_who *who,
                       const struct sg_list_query *q, struct sg_sandbox **ret, bool *ret_more)
{
    size_t n = 0;

    *ret_more = false;
    for (struct sg_sandbox *s = first_of_page(m, who, q->after); s; s = s->older) {
        if (!is_visible(s, who) || !is_asked_for(s, q))
            continue;
        if (n == q->limit) {
            *ret_more = true;
            break;
        }
        ret[n++] = s;
    }
    return n;
}
