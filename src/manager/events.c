/* SPDX-License-Identifier: Apache-2.0 */
/* Events: a ring in memory that listeners read at their own pace, and the store behind it.
 *
 * A slot is found by its number (seq % SG_EVENTS_KEPT), and is what was asked for when its seq is:
 * so gaps need no care. After a restart the numbers go on with a jump, because the last events
 * before a crash may not have reached the store though listeners have seen their numbers. Listeners
 * are woken once at the end of a pass, not inside of what caused the event. */
#include "manager/events.h"

#include <string.h>

#include "base/auto.h"
#include "manager/life.h"

#include "base/banned.h"

enum { JUMP = 1024 };

static struct sg_event *slot(struct sg_manager *m, uint64_t seq)
{
    return &m->events.slots[seq % SG_EVENTS_KEPT];
}

static void keep(struct sg_manager *m, const struct sg_event_row *r, const char *type)
{
    struct sg_event *e = slot(m, (uint64_t)r->seq);

    free(e->data);
    *e = (struct sg_event) { .seq = (uint64_t)r->seq, .at_ms = r->at_ms, .type = type };
    e->data = sg_strdup(r->data ? r->data : "{}");
    (void)snprintf(e->org, sizeof e->org, "%s", r->org ? r->org : "");
    (void)snprintf(e->sandbox, sizeof e->sandbox, "%s", r->sandbox ? r->sandbox : "");
    m->events.seq = e->seq;
}

/* ---- adding ---- */

static void wake(struct sg_later *l)
{
    struct sg_event_ring *ring = SG_OWNER(l, struct sg_event_ring, wake);

    for (struct sg_listener *one = ring->listeners; one; one = ring->walk) {
        ring->walk = one->next; /* who leaves moves it on */
        if (one->seen < ring->seq)
            one->wake(one);
    }
    ring->walk = NULL;
}

void sg_events_add(struct sg_manager *m, const struct sg_org *org, const char *sandbox,
                   const char *type, const char *data)
{
    struct sg_event_row row = {
        .seq = (int64_t)m->events.seq + 1,
        .at_ms = sg_manager_unix_ms(),
        .org = org ? org->id.s : "",
        .sandbox = sandbox ? sandbox : "",
        .type = type,
        .data = data ? data : "{}",
    };

    if (m->is_ending)
        return;
    keep(m, &row, type);
    sg_store_add_event(m->store, &row);
    if (m->events.listeners) {
        m->events.wake.call = wake;
        sg_later_call(m->loop, &m->events.wake);
    }
}

void sg_sandbox_event(struct sg_sandbox *s, const char *type, const char *data)
{
    if (!s->is_internal)
        sg_events_add(s->manager, s->org, s->id.s, type, data);
}

/* ---- listening ---- */

void sg_events_listen(struct sg_manager *m, struct sg_listener *l, uint64_t after)
{
    struct sg_event_ring *ring = &m->events;

    l->seen = after > ring->seq ? ring->seq : after;
    l->next = ring->listeners;
    l->link = &ring->listeners;
    l->walk = &ring->walk;
    if (l->next)
        l->next->link = &l->next;
    ring->listeners = l;
    if (l->seen < ring->seq) {
        ring->wake.call = wake;
        sg_later_call(m->loop, &ring->wake);
    }
}

void sg_events_leave(struct sg_listener *l)
{
    if (!l->link)
        return;
    if (*l->walk == l)
        *l->walk = l->next;
    *l->link = l->next;
    if (l->next)
        l->next->link = l->link;
    l->link = NULL;
}

/* A key that was taken back or has run out sees nothing more, also on a stream that is open. */
static bool may_listen(const struct sg_listener *l)
{
    const struct sg_key *k = l->who.key;
    return !k ||
           (k->revoked_ms == 0 && (k->expires_ms == 0 || k->expires_ms > sg_manager_unix_ms()));
}

const struct sg_event *sg_events_next(struct sg_manager *m, struct sg_listener *l)
{
    uint64_t last = m->events.seq;
    uint64_t first = last > SG_EVENTS_KEPT ? last - SG_EVENTS_KEPT + 1 : 1;

    if (l->seen < last && !may_listen(l))
        l->seen = last;
    for (uint64_t seq = l->seen + 1 > first ? l->seen + 1 : first; seq <= last; seq++) {
        const struct sg_event *e = slot(m, seq);
        l->seen = seq;
        if (e->seq != seq || (!l->who.is_operator && strcmp(e->org, l->who.org->id.s) != 0))
            continue;
        if (l->sandbox[0] == '\0' || strcmp(e->sandbox, l->sandbox) == 0)
            return e;
    }
    return NULL;
}

/* ---- over a restart ---- */

static const char *intern(struct sg_manager *m, const char *type)
{
    char *known = sg_map_find(&m->events.types, type);

    if (!known) {
        known = sg_strdup(type);
        sg_map_put(&m->events.types, known, known);
    }
    return known;
}

static bool load_one(void *arg, const struct sg_event_row *r)
{
    struct sg_manager *m = arg;
    keep(m, r, intern(m, r->type ? r->type : ""));
    return true;
}

int sg_events_load(struct sg_manager *m, struct sg_err *err)
{
    struct sg_store_last last;

    sg_map_init(&m->events.types);
    if (sg_store_last(m->store, &last, err) < 0 ||
        sg_store_each_event(m->store, last.event_seq - SG_EVENTS_KEPT, load_one, m, err) < 0)
        return sg_wrap(err, "load the events");
    if (m->events.seq > 0)
        m->events.seq += JUMP;
    return 0;
}

void sg_events_free(struct sg_manager *m)
{
    size_t cursor = 0;

    sg_later_cancel(m->loop, &m->events.wake);
    while (m->events.listeners)
        sg_events_leave(m->events.listeners);
    for (size_t i = 0; i < SG_EVENTS_KEPT; i++)
        free(m->events.slots[i].data);
    for (char *type; (type = sg_map_next(&m->events.types, &cursor));)
        free(type);
    sg_map_done(&m->events.types);
}
