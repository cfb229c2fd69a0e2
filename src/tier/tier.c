/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the launcher.
 *
 * A question is an object in one of three lists: waiting (not sent), open (sent), refused (could
 * not be sent; answered at the end of this pass). It leaves its list, is answered and is freed, in
 * that order, so that a callback may ask again or even end the tier. */
#include "tier/tier.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "tier/peer.h"
#include "tier/tier_internal.h"

#include "base/banned.h"

struct list {
    struct question *head, **tail;
};

struct sg_tier {
    struct sg_loop *loop;
    struct sg_peer *peer;
    struct sg_tier_ops ops;
    void *arg;
    uint32_t epoch, flags;
    char *lacking[SG_L_TIER_COUNT]; /* owned; NULL: there is */
    struct list waiting, open, refused;
    unsigned open_count, total;
    struct sg_later refuse;
    bool is_lost;
    struct sg_err why;
};

static void list_init(struct list *l)
{
    l->head = NULL;
    l->tail = &l->head;
}

static void push(struct list *l, struct question *q)
{
    q->next = NULL;
    q->link = l->tail;
    *l->tail = q;
    l->tail = &q->next;
}

static void unlink_from(struct list *l, struct question *q)
{
    *q->link = q->next;
    if (q->next)
        q->next->link = q->link;
    else
        l->tail = q->link;
}

static struct question *pop(struct list *l)
{
    struct question *q = l->head;

    if (!q)
        return NULL;
    l->head = q->next;
    if (l->head)
        l->head->link = &l->head;
    else
        l->tail = &l->head;
    return q;
}

static void drop_fds(struct question *q)
{
    while (q->fd_count)
        sg_close_p(&q->fds[--q->fd_count]);
}

/* The question is in no list any more. */
static void give(struct question *q, struct sg_packet *p, const struct sg_err *err)
{
    q->tier->total--;
    if (q->cb)
        q->cb(q->arg, p, err);
    drop_fds(q);
    free(q->path);
    sg_buf_done(&q->packed);
    free(q);
}

static void end_all(struct list *l, const struct sg_err *err)
{
    for (struct question *q; (q = pop(l));)
        give(q, NULL, err);
}

/* ---- sending ---- */

static void fill_name(const struct question *q, struct sg_msg *m)
{
    m->l_name.sandbox = sg_text_of(q->sandbox);
}

static void fill_create(const struct question *q, struct sg_msg *m)
{
    m->l_create = (struct sg_msg_l_create) {
        .sandbox = sg_text_of(q->sandbox),
        .template = sg_text_of(q->template),
        .mem_bytes = q->limits.mem_bytes,
        .cpu_milli = q->limits.cpu_milli,
        .pids = q->limits.pids,
        .disk_bytes = q->limits.disk_bytes,
        .tier = q->kind,
        .mounts = q->mounts,
    };
}

static void fill_list(const struct question *q, struct sg_msg *m)
{
    m->l_list.cursor = q->cursor;
}

static void fill_rules(const struct question *q, struct sg_msg *m)
{
    m->l_rules = (struct sg_msg_l_rules) { q->cursor, q->flags };
}

static void fill_identify(const struct question *q, struct sg_msg *m)
{
    m->l_identify.template = sg_text_of(q->template);
}

static void fill_net(const struct question *q, struct sg_msg *m)
{
    m->l_net = (struct sg_msg_l_net) { sg_text_of(q->sandbox), q->is_on };
}

/* The volume's name is where a sandbox's is. */
static void fill_volume(const struct question *q, struct sg_msg *m)
{
    m->l_volume = (struct sg_msg_l_volume) { sg_text_of(q->sandbox), q->cursor };
}

static void fill_mount(const struct question *q, struct sg_msg *m)
{
    m->l_mount =
        (struct sg_msg_l_mount) { sg_text_of(q->sandbox), sg_text_of(q->template),
                                  sg_text_of(q->path), q->is_read_only ? SG_L_READ_ONLY : 0u };
}

static void fill_hello(const struct question *q, struct sg_msg *m)
{
    m->l_hello = (struct sg_msg_l_hello) { SG_CTL_VERSION, q->tier->epoch };
}

static void fill_snapshot(const struct question *q, struct sg_msg *m)
{
    m->l_snapshot =
        (struct sg_msg_l_snapshot) { sg_text_of(q->sandbox), sg_text_of(q->snapshot), q->flags };
}

static void fill_forget(const struct question *q, struct sg_msg *m)
{
    m->l_forget.snapshot = sg_text_of(q->snapshot);
}

static void fill_none(const struct question *q, struct sg_msg *m)
{
    (void)q;
    m->empty.unused = 0;
}

static const struct ask {
    void (*fill)(const struct question *q, struct sg_msg *m);
    enum sg_msg_type expected;
} asks[SG_MSG_TYPE_COUNT] = {
    [SG_MSG_L_HELLO] = { fill_hello, SG_MSG_L_WELCOME },
    [SG_MSG_L_CREATE] = { fill_create, SG_MSG_L_CELL },
    [SG_MSG_L_ADOPT] = { fill_name, SG_MSG_L_CELL },
    [SG_MSG_L_DESTROY] = { fill_name, SG_MSG_L_DONE },
    [SG_MSG_L_FREEZE] = { fill_name, SG_MSG_L_DONE },
    [SG_MSG_L_THAW] = { fill_name, SG_MSG_L_DONE },
    [SG_MSG_L_RECLAIM] = { fill_name, SG_MSG_L_DONE },
    [SG_MSG_L_LIMIT] = { fill_create, SG_MSG_L_DONE },
    [SG_MSG_L_STATS] = { fill_name, SG_MSG_L_STATED },
    [SG_MSG_L_GAUGE] = { fill_name, SG_MSG_L_GAUGED },
    [SG_MSG_L_LIST] = { fill_list, SG_MSG_L_LISTED },
    [SG_MSG_L_POOL] = { fill_none, SG_MSG_L_LISTED },
    [SG_MSG_L_TEMPLATES] = { fill_none, SG_MSG_L_LISTED },
    [SG_MSG_L_RULES] = { fill_rules, SG_MSG_L_RULED },
    [SG_MSG_L_SNAPSHOT] = { fill_snapshot, SG_MSG_L_SNAPPED },
    [SG_MSG_L_FORGET] = { fill_forget, SG_MSG_L_DONE },
    [SG_MSG_L_SNAPSHOTS] = { fill_list, SG_MSG_L_LISTED },
    [SG_MSG_L_STORAGE] = { fill_none, SG_MSG_L_STORED },
    [SG_MSG_L_NET] = { fill_net, SG_MSG_L_DONE },
    [SG_MSG_L_IDENTIFY] = { fill_identify, SG_MSG_L_IDENTIFIED },
    [SG_MSG_L_IMAGE] = { fill_none, SG_MSG_L_DONE },
    [SG_MSG_L_VOLUME_MAKE] = { fill_volume, SG_MSG_L_DONE },
    [SG_MSG_L_VOLUME_LIMIT] = { fill_volume, SG_MSG_L_DONE },
    [SG_MSG_L_VOLUME_REMOVE] = { fill_volume, SG_MSG_L_DONE },
    [SG_MSG_L_VOLUME_USE] = { fill_volume, SG_MSG_L_STATED },
    [SG_MSG_L_MOUNT] = { fill_mount, SG_MSG_L_DONE },
    [SG_MSG_L_UNFOLD] = { fill_name, SG_MSG_L_DONE },
    [SG_MSG_L_SYNC] = { fill_none, SG_MSG_L_DONE },
};

static void refuse(struct sg_tier *t, struct question *q, const struct sg_err *err)
{
    q->err = *err;
    push(&t->refused, q);
    sg_later_call(t->loop, &t->refuse);
}

static void answered(void *arg, struct sg_packet *p, const struct sg_err *err);

static void pump(struct sg_tier *t)
{
    while (!t->is_lost && t->waiting.head && t->open_count < SG_TIER_WINDOW) {
        struct question *q = pop(&t->waiting);
        struct sg_msg m = { .type = q->type };
        struct sg_err err = { 0 };

        asks[q->type].fill(q, &m);
        if (sg_peer_ask(t->peer, &m, q->fds, q->fd_count, answered, q, &err) < 0) {
            refuse(t, q, &err);
            continue;
        }
        drop_fds(q); /* whoever holds the other ends finds out that this one is gone */
        push(&t->open, q);
        t->open_count++;
    }
}

static void refuse_later(struct sg_later *l)
{
    struct sg_tier *t = SG_OWNER(l, struct sg_tier, refuse);

    for (struct question *q; (q = pop(&t->refused));)
        give(q, NULL, &q->err);
}

/* ---- answers ---- */

/* A cell without its descriptor is no cell. */
static int check_answer(const struct question *q, const struct sg_packet *p, struct sg_err *err)
{
    const char *name = sg_msg_table[p->msg.type].name;

    if (p->msg.type != q->expected)
        return sg_fail(err, SG_INTERNAL, "the launcher answered %s with %s",
                       sg_msg_table[q->type].name, name);
    if (q->expected == SG_MSG_L_CELL && p->fd_count != 1)
        return sg_fail(err, SG_INTERNAL, "the launcher sent a cell without its connection");
    if (q->expected == SG_MSG_L_GAUGED && p->fd_count != SG_L_GAUGE_COUNT)
        return sg_fail(err, SG_INTERNAL, "the launcher sent %u gauges of %d", p->fd_count,
                       SG_L_GAUGE_COUNT);
    if (q->expected == SG_MSG_L_WELCOME && p->msg.l_welcome.version != SG_CTL_VERSION)
        return sg_fail(err, SG_UNSUPPORTED, "the launcher speaks version %u, not %u",
                       p->msg.l_welcome.version, (unsigned)SG_CTL_VERSION);
    return 0;
}

/* A launcher that says nothing of a tier does not know it. */
static void take_welcome(struct sg_tier *t, const struct sg_msg_l_welcome *w)
{
    struct sg_texts list = w->lacking;
    struct sg_text why;

    t->flags = w->flags;
    for (unsigned i = 0; i < SG_L_TIER_COUNT; i++) {
        bool is_told = sg_text_next(&list, &why), is_there = is_told ? !why.n : i == SG_L_TIER_CELL;
        free(t->lacking[i]);
        t->lacking[i] = is_there ? NULL : sg_strdup(is_told ? why.p : "the launcher has none");
    }
}

static void answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct question *q = arg;
    struct sg_tier *t = q->tier;
    struct sg_err wrong = { 0 };

    unlink_from(&t->open, q);
    t->open_count--;
    if (p && check_answer(q, p, &wrong) < 0) {
        p = NULL;
        err = &wrong;
    }
    if (p && q->type == SG_MSG_L_HELLO)
        take_welcome(t, &p->msg.l_welcome);
    /* Somebody else was quicker: what was wanted is so. */
    if (!p && q->type == SG_MSG_L_DESTROY && err->kind == SG_NOT_FOUND)
        err = NULL;
    pump(t);
    give(q, p, err);
}

static void news(void *arg, struct sg_packet *p)
{
    struct sg_tier *t = arg;
    if (p->msg.type == SG_MSG_L_ENDED)
        t->ops.ended(t->arg, &p->msg.l_ended);
    else if (p->msg.type == SG_MSG_L_RECLAIMED && t->ops.reclaimed)
        t->ops.reclaimed(t->arg, &p->msg.l_reclaimed);
    else if (p->msg.type == SG_MSG_L_GATE && t->ops.gate && p->fd_count == 1)
        t->ops.gate(t->arg, sg_packet_take_fd(p, 0));
    else if (p->msg.type == SG_MSG_L_EXPORT && t->ops.exporter && p->fd_count == 1)
        t->ops.exporter(t->arg, sg_packet_take_fd(p, 0));
}

static void losing(void *arg)
{
    struct sg_tier *t = arg;
    if (t->ops.losing)
        t->ops.losing(t->arg);
}

static void lost(void *arg, const struct sg_err *err)
{
    struct sg_tier *t = arg;

    t->is_lost = true;
    t->why = *err;
    t->why.kind = SG_UNAVAILABLE;
    end_all(&t->waiting, &t->why);
    t->ops.lost(t->arg, &t->why);
}

/* ---- life ---- */

struct sg_tier *sg_tier_new(struct sg_loop *l, int fd, const struct sg_tier_ops *ops, void *arg,
                            struct sg_err *err)
{
    static const struct sg_peer_ops peer_ops = {
        .answer_role = SG_ROLE_ANSWER,
        .news_role = SG_ROLE_NEWS,
        .news = news,
        .lost = lost,
        .losing = losing,
    };
    struct sg_tier *t = sg_new(struct sg_tier);

    *t =
        (struct sg_tier) { .loop = l, .ops = *ops, .arg = arg, .refuse = { .call = refuse_later } };
    list_init(&t->waiting);
    list_init(&t->open);
    list_init(&t->refused);
    t->peer = sg_peer_new(l, fd, 0, &peer_ops, t, err);
    if (!t->peer) {
        free(t);
        return NULL;
    }
    return t;
}

void sg_tier_free(struct sg_tier *t)
{
    struct sg_err err = { 0 };

    if (!t)
        return;
    t->is_lost = true; /* who asks again from a callback is refused at once */
    (void)sg_fail(&err, SG_UNAVAILABLE, "the service is ending");
    t->why = err;
    sg_peer_free(t->peer);
    end_all(&t->open, &err);
    end_all(&t->waiting, &err);
    end_all(&t->refused, &err);
    sg_later_cancel(t->loop, &t->refuse);
    for (unsigned i = 0; i < SG_L_TIER_COUNT; i++)
        free(t->lacking[i]);
    free(t);
}

uint32_t sg_tier_flags(const struct sg_tier *t)
{
    return t->flags;
}

unsigned sg_tier_waiting(const struct sg_tier *t)
{
    return t->total;
}

/* ---- the questions ---- */

struct question *sg_tier_question(struct sg_tier *t, enum sg_msg_type type, const char *sandbox,
                                  sg_tier_answer *cb, void *arg)
{
    struct question *q = sg_new(struct question);

    q->tier = t;
    q->type = type;
    q->expected = asks[type].expected;
    q->cb = cb;
    q->arg = arg;
    sg_buf_init(&q->packed, SG_CTL_MAX_BYTES);
    (void)snprintf(q->sandbox, sizeof q->sandbox, "%s", sandbox);
    return q;
}

void sg_tier_send(struct question *q)
{
    struct sg_tier *t = q->tier;

    t->total++;
    if (t->is_lost) {
        refuse(t, q, &t->why);
        return;
    }
    push(&t->waiting, q);
    pump(t);
}

void sg_tier_hello(struct sg_tier *t, uint32_t epoch, sg_tier_answer *cb, void *arg)
{
    t->epoch = epoch;
    sg_tier_send(sg_tier_question(t, SG_MSG_L_HELLO, "", cb, arg));
}

const char *sg_tier_lacks(const struct sg_tier *t, enum sg_l_tier tier)
{
    return t->lacking[tier];
}

void sg_tier_create(struct sg_tier *t, enum sg_l_tier tier, const char *sandbox,
                    const char *template, const struct sg_tier_limits *limits, char *const *mounts,
                    sg_tier_answer *cb, void *arg)
{
    struct question *q = sg_tier_question(t, SG_MSG_L_CREATE, sandbox, cb, arg);
    struct sg_err err = { 0 };

    q->kind = tier;
    (void)snprintf(q->template, sizeof q->template, "%s", template);
    q->limits = *limits;
    if (mounts && sg_texts_pack(mounts, &q->packed, &q->mounts, &err) < 0) {
        t->total++;
        refuse(t, q, &err);
        return;
    }
    sg_tier_send(q);
}

void sg_tier_limit(struct sg_tier *t, const char *sandbox, const struct sg_tier_limits *limits,
                   sg_tier_answer *cb, void *arg)
{
    struct question *q = sg_tier_question(t, SG_MSG_L_LIMIT, sandbox, cb, arg);

    q->limits = *limits;
    sg_tier_send(q);
}

void sg_tier_adopt(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg)
{
    sg_tier_send(sg_tier_question(t, SG_MSG_L_ADOPT, sandbox, cb, arg));
}

void sg_tier_destroy(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg)
{
    sg_tier_send(sg_tier_question(t, SG_MSG_L_DESTROY, sandbox, cb, arg));
}

void sg_tier_freeze(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg)
{
    sg_tier_send(sg_tier_question(t, SG_MSG_L_FREEZE, sandbox, cb, arg));
}

void sg_tier_thaw(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg)
{
    sg_tier_send(sg_tier_question(t, SG_MSG_L_THAW, sandbox, cb, arg));
}

void sg_tier_reclaim(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg)
{
    sg_tier_send(sg_tier_question(t, SG_MSG_L_RECLAIM, sandbox, cb, arg));
}

void sg_tier_net(struct sg_tier *t, const char *sandbox, bool is_on, sg_tier_answer *cb, void *arg)
{
    struct question *q = sg_tier_question(t, SG_MSG_L_NET, sandbox, cb, arg);

    q->is_on = is_on;
    sg_tier_send(q);
}

void sg_tier_unfold(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg)
{
    sg_tier_send(sg_tier_question(t, SG_MSG_L_UNFOLD, sandbox, cb, arg));
}

void sg_tier_stats(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg)
{
    sg_tier_send(sg_tier_question(t, SG_MSG_L_STATS, sandbox, cb, arg));
}

void sg_tier_gauge(struct sg_tier *t, const char *sandbox, sg_tier_answer *cb, void *arg)
{
    sg_tier_send(sg_tier_question(t, SG_MSG_L_GAUGE, sandbox, cb, arg));
}

void sg_tier_snapshot(struct sg_tier *t, const char *sandbox, const char *snapshot, uint32_t flags,
                      sg_tier_answer *cb, void *arg)
{
    struct question *q = sg_tier_question(t, SG_MSG_L_SNAPSHOT, sandbox, cb, arg);

    (void)snprintf(q->snapshot, sizeof q->snapshot, "%s", snapshot);
    q->flags = flags;
    sg_tier_send(q);
}

void sg_tier_forget(struct sg_tier *t, const char *snapshot, sg_tier_answer *cb, void *arg)
{
    struct question *q = sg_tier_question(t, SG_MSG_L_FORGET, "", cb, arg);

    (void)snprintf(q->snapshot, sizeof q->snapshot, "%s", snapshot);
    sg_tier_send(q);
}

void sg_tier_snapshots(struct sg_tier *t, uint64_t cursor, sg_tier_answer *cb, void *arg)
{
    struct question *q = sg_tier_question(t, SG_MSG_L_SNAPSHOTS, "", cb, arg);

    q->cursor = cursor;
    sg_tier_send(q);
}

void sg_tier_storage(struct sg_tier *t, sg_tier_answer *cb, void *arg)
{
    sg_tier_send(sg_tier_question(t, SG_MSG_L_STORAGE, "", cb, arg));
}

void sg_tier_list(struct sg_tier *t, uint64_t cursor, sg_tier_answer *cb, void *arg)
{
    struct question *q = sg_tier_question(t, SG_MSG_L_LIST, "", cb, arg);

    q->cursor = cursor;
    sg_tier_send(q);
}

void sg_tier_pool(struct sg_tier *t, sg_tier_answer *cb, void *arg)
{
    sg_tier_send(sg_tier_question(t, SG_MSG_L_POOL, "", cb, arg));
}

void sg_tier_templates(struct sg_tier *t, sg_tier_answer *cb, void *arg)
{
    sg_tier_send(sg_tier_question(t, SG_MSG_L_TEMPLATES, "", cb, arg));
}

void sg_tier_identify(struct sg_tier *t, const char *template, sg_tier_answer *cb, void *arg)
{
    struct question *q = sg_tier_question(t, SG_MSG_L_IDENTIFY, "", cb, arg);

    (void)snprintf(q->template, sizeof q->template, "%s", template);
    sg_tier_send(q);
}

void sg_tier_rules(struct sg_tier *t, enum sg_rule_file which, uint64_t stamp, sg_tier_answer *cb,
                   void *arg)
{
    struct question *q = sg_tier_question(t, SG_MSG_L_RULES, "", cb, arg);

    q->flags = which;
    q->cursor = stamp;
    sg_tier_send(q);
}
