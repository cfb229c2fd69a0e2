/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/intercept.h"
#include "manager/life.h"

#include "base/banned.h"

struct waiter {
    struct waiter *next;
    sg_sandbox_cb *cb;
    void *arg;
};

struct sg_session { /* whose sandbox is being made */
    struct sg_manager *m;
    const struct sg_org *org;
    char name[SG_SESSION_MAX + 1];
    struct waiter *waiters; /* owned */
    struct sg_session *next;
};

static struct sg_sandbox *find(struct sg_manager *m, const struct sg_who *who, const char *name)
{
    for (struct sg_sandbox *s = m->newest; s; s = s->older) {
        const char *value = sg_pair_value(&s->metadata, SG_SESSION_KEY);
        if (s->org == who->org && value && strcmp(value, name) == 0 && s->state == SBX_RUNNING)
            return s;
    }
    return NULL;
}

static void made(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_session *n = arg, **link = &n->m->sessions;

    while (*link != n)
        link = &(*link)->next;
    *link = n->next;
    for (struct waiter *w; (w = n->waiters);) {
        n->waiters = w->next;
        w->cb(w->arg, s, err);
        free(w);
    }
    free(n);
}

static void add_waiter(struct sg_session *n, sg_sandbox_cb *cb, void *arg)
{
    struct waiter *w = sg_new(struct waiter);

    *w = (struct waiter) { n->waiters, cb, arg };
    n->waiters = w;
}

static int make(struct sg_manager *m, const struct sg_who *who, const char *name, const char *root,
                sg_sandbox_cb *cb, void *arg, struct sg_err *err)
{
    struct sg_pair pairs[] = { { (char *)SG_SESSION_KEY, (char *)name },
                               { (char *)SG_ROOT_KEY, (char *)root } };
    const struct sg_intercept_rules *r = m->intercept;
    struct sg_ask ask;
    sg_ask_init(&ask, r->sandbox.operation);
    const struct sg_create c = {
        .template = r->sandbox.template,
        .timeout_ms = r->sandbox.lifetime_ms,
        .metadata = pairs,
        .metadata_n = SG_COUNT(pairs),
        .ask = &ask,
    };
    struct sg_session *n = sg_new(struct sg_session);

    *n = (struct sg_session) { .m = m, .org = who->org, .next = m->sessions };
    (void)snprintf(n->name, sizeof n->name, "%s", name);
    m->sessions = n;
    if (sg_manager_create(m, who, &c, made, n, err) < 0) {
        m->sessions = n->next;
        free(n);
        return -1;
    }
    add_waiter(n, cb, arg);
    return 0;
}

int sg_session_sandbox(struct sg_manager *m, const struct sg_who *who, const char *session,
                       const char *root, sg_sandbox_cb *cb, void *arg, struct sg_err *err)
{
    struct sg_sandbox *s = find(m, who, session);

    if (s) /* its time begins anew */
        return sg_manager_set_timeout(s, who, m->intercept->sandbox.lifetime_ms, cb, arg, err);
    for (struct sg_session *n = m->sessions; n; n = n->next)
        if (n->org == who->org && strcmp(n->name, session) == 0) {
            add_waiter(n, cb, arg);
            return 0;
        }
    return make(m, who, session, root, cb, arg, err);
}
