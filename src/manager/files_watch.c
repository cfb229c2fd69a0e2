/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: init numbers them, we keep who wants to know. */
#include "base/auto.h"
#include "manager/files_internal.h"
#include "tier/peer.h"
#include "base/banned.h"

struct sg_watch_sub {
    struct sg_watch_sub *next, **link;
    struct sg_sandbox *s;
    uint32_t id;  /* init's; 0: not answered yet */
    bool is_told; /* whoever asked knows of it */
    sg_watch_changed *changed;
    sg_watch_cb *cb;
    void *arg;
};

static void free_watch(struct sg_watch_sub *w)
{
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    sg_sandbox_work_end(w->s);
    free(w);
}

static void watched(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_watch_sub *w = arg;
    struct sg_err own;
    if (p && p->msg.type == SG_MSG_WATCHED) {
        w->id = p->msg.watched.watch;
        w->is_told = true;
        w->cb(w->arg, w, NULL);
        return;
    }
    if (p)
        (void)sg_fail(&own, SG_UNAVAILABLE, "init gave no sensible answer");
    sg_watch_cb *cb = w->cb;
    void *cb_arg = w->arg;
    free_watch(w);
    cb(cb_arg, NULL, p ? &own : err);
}

int sg_files_watch(struct sg_sandbox *s, const struct sg_who *who, const char *user,
                   const char *path, bool is_recursive, sg_watch_changed *changed, sg_watch_cb *cb,
                   void *arg, struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_WATCH,
                        .watch = { sg_text_of(user ? user : ""), sg_text_of(path),
                                   is_recursive ? SG_WATCH_RECURSIVE : 0 } };
    struct sg_files_set *set = sg_files_set(s);
    struct sg_watch_sub *w = sg_new(struct sg_watch_sub);
    *w = (struct sg_watch_sub) { .s = s, .changed = changed, .cb = cb, .arg = arg };
    if (sg_files_ask(s, who, &m, NULL, 0, watched, w, err) < 0) {
        free(w);
        return -1;
    }
    w->next = set->watches;
    w->link = &set->watches;
    if (w->next)
        w->next->link = &w->next;
    set->watches = w;
    sg_sandbox_work_begin(s);
    return 0;
}

static void tell_unwatch(struct sg_sandbox *s, uint32_t id)
{
    struct sg_msg m = { .type = SG_MSG_UNWATCH, .unwatch = { id } };
    struct sg_err err;
    if (s->peer)
        (void)sg_peer_ask(s->peer, &m, NULL, 0, NULL, NULL, &err);
}

void sg_files_unwatch(struct sg_watch_sub *w)
{
    tell_unwatch(w->s, w->id);
    free_watch(w);
}

/* One at most has the number: what a callback does to the list does not matter then. */
void sg_files_news(struct sg_sandbox *s, struct sg_packet *p)
{
    if (p->msg.type == SG_MSG_WATCHED) { /* whoever asked was told that it takes too long */
        tell_unwatch(s, p->msg.watched.watch);
        return;
    }
    const struct sg_msg_changed *c = &p->msg.changed;
    for (struct sg_watch_sub *w = sg_files_set(s)->watches; w; w = w->next)
        if (w->is_told && w->id == c->watch) {
            w->changed(w->arg, c->path.p, c->what);
            return;
        }
}

/* Those who wait for an answer have had it by now (manager_internal.h, I3). */
void sg_watches_end(struct sg_sandbox *s)
{
    struct sg_files_set *set = sg_files_set(s);
    for (struct sg_watch_sub *w; (w = set->watches);) {
        set->watches = w->next;
        if (w->next)
            w->next->link = &set->watches;
        sg_sandbox_work_end(s);
        w->changed(w->arg, NULL, 0);
        free(w);
    }
}
