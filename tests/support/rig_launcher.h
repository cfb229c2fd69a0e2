/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher of a manager's rig (manager_rig.h, which includes it): answers what a real one
 * would, for cells that are sockets. */
#pragma once

static inline void rig_reply(struct rig *r, struct sg_msg *m, uint32_t id, const int *fds,
                             unsigned n)
{
    struct sg_err err;
    m->id = id;
    assert_ok(sg_chan_send(r->launcher.fd, m, fds, n, false, &err), err);
}

static inline struct cell *rig_cell(struct rig *r, const char *id)
{
    for (struct cell *c = r->cells; c; c = c->next) {
        if (strcmp(c->id, id) == 0)
            return c;
    }
    return NULL;
}

static inline void cell_hang_up(struct cell *c)
{
    if (c->init.fd >= 0)
        sg_io_drop(c->rig->loop, &c->init);
}

static inline void rig_remove_cell(struct rig *r, struct cell *c)
{
    struct cell **link = &r->cells;

    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    r->cell_count--;
    cell_hang_up(c);
    free(c);
}

/* Plays init. */
static inline void cell_ready(struct sg_io *io, uint32_t events)
{
    struct cell *c = SG_OWNER(io, struct cell, init);
    sg_auto_packet p;
    struct sg_err err;

    (void)events;
    sg_packet_init(&p);
    if (sg_chan_recv(io->fd, 1u << SG_ROLE_REQUEST, false, &p, &err) != SG_RECV_MESSAGE) {
        cell_hang_up(c);
        return;
    }
    struct sg_msg m = { .type = SG_MSG_OK, .id = p.msg.id };
    if (p.msg.type == SG_MSG_HELLO) {
        assert_true(p.msg.hello.flags & SG_HELLO_KEEP);
        c->epoch = p.msg.hello.epoch;
        if (c->rig->hangs_up_on_hello) {
            cell_hang_up(c);
            return;
        }
    } else if (p.msg.type == SG_MSG_INFO) {
        m.type = SG_MSG_INFOED;
        m.infoed.processes = 1;
    }
    unsigned fd_count = 0;
    if (p.msg.type == SG_MSG_OPEN && c->rig->handed_fd) {
        m.type = SG_MSG_FD;
        fd_count = 1;
    }
    m.epoch = c->epoch;
    assert_ok(sg_chan_send(io->fd, &m, &c->rig->handed_fd, fd_count, false, &err), err);
}

/* A new connection to the cell; its far end is ours. */
static inline int cell_connect(struct cell *c)
{
    int fds[2];
    struct sg_err err;

    cell_hang_up(c);
    assert_ok(sg_chan_pair(fds, &err), err);
    c->init = (struct sg_io) { .fd = fds[1], .ready = cell_ready };
    if (!c->is_frozen && !c->is_mute)
        assert_ok(sg_io_want(c->rig->loop, &c->init, EPOLLIN, &err), err);
    return fds[0];
}

static inline void cell_freeze(struct cell *c, bool is_frozen)
{
    struct sg_err err;
    c->is_frozen = is_frozen;
    if (c->init.fd >= 0 && !c->is_mute)
        assert_ok(sg_io_want(c->rig->loop, &c->init, is_frozen ? 0 : EPOLLIN, &err), err);
}

static inline void reply_cell(struct rig *r, struct cell *c, uint32_t id)
{
    sg_auto_fd fd = cell_connect(c);
    struct sg_msg m = { .type = SG_MSG_L_CELL };

    m.l_cell = (struct sg_msg_l_cell) {
        .flags = SG_L_PARKED | (r->has_pool ? SG_L_POOL : 0u),
        .pid = 4242,
        .template = sg_text_of(c->template),
        .user = sg_text_of("user"),
        .home = sg_text_of("/home/user"),
        .workdir = sg_text_of("/workspace"),
        .path = sg_text_of("/bin"),
    };
    rig_reply(r, &m, id, &fd, 1);
}

/* As a v2 host has them where `cpu` is lines, as a v1 host where it is a number. */
static inline void reply_gauges(struct rig *r, uint32_t id)
{
    char mem[24];
    (void)snprintf(mem, sizeof mem, "%llu\n", (unsigned long long)r->mem_bytes);
    const char *const texts[SG_L_GAUGE_COUNT] = { r->cpu_gauge ? r->cpu_gauge : "", mem, mem };
    int fds[SG_L_GAUGE_COUNT];
    struct sg_msg m = { .type = SG_MSG_L_GAUGED };

    for (unsigned i = 0; i < SG_L_GAUGE_COUNT; i++) {
        fds[i] = memfd_create("gauge", MFD_CLOEXEC);
        assert_int_equal(write(fds[i], texts[i], strlen(texts[i])), strlen(texts[i]));
    }
    rig_reply(r, &m, id, fds, SG_L_GAUGE_COUNT);
    for (unsigned i = 0; i < SG_L_GAUGE_COUNT; i++)
        (void)close(fds[i]);
}

static inline void make_cell(struct rig *r, const char *sandbox, const char *template,
                             const struct sg_msg_l_create *l, uint32_t id)
{
    struct cell *c = sg_new(struct cell);

    assert_null(rig_cell(r, sandbox));
    *c = (struct cell) { .next = r->cells, .rig = r, .init = { .fd = -1 } };
    (void)snprintf(c->id, sizeof c->id, "%s", sandbox);
    (void)snprintf(c->template, sizeof c->template, "%s", template);
    c->limits = (struct sg_tier_limits) { l->mem_bytes, l->cpu_milli, l->pids, l->disk_bytes };
    r->cells = c;
    if (++r->cell_count > r->cell_most)
        r->cell_most = r->cell_count;
    reply_cell(r, c, id);
}

static inline void hold(struct rig *r, const struct sg_msg *m)
{
    struct held *h = sg_new(struct held), **tail = &r->held;

    *h = (struct held) { .id = m->id, .create = m->l_create };
    (void)snprintf(h->sandbox, sizeof h->sandbox, "%s", m->l_create.sandbox.p);
    (void)snprintf(h->template, sizeof h->template, "%s", m->l_create.template.p);
    while (*tail)
        tail = &(*tail)->next;
    *tail = h;
}

static inline void rig_release(struct rig *r)
{
    r->holds_creates = false;
    while (r->held) {
        struct held *h = r->held;
        r->held = h->next;
        make_cell(r, h->sandbox, h->template, &h->create, h->id);
        free(h);
    }
}

/* Ids in pages of RIG_PAGE; the cursor is the number of those that were told. */
static inline void reply_list(struct rig *r, uint64_t cursor, uint32_t id)
{
    char *names[RIG_PAGE + 1] = { 0 };
    sg_auto_buf store;
    struct sg_msg m = { .type = SG_MSG_L_LISTED };
    struct sg_err err;
    uint64_t i = 0;

    for (struct cell *c = r->cells; c; c = c->next, i++) {
        if (i >= cursor && i < cursor + RIG_PAGE)
            names[i - cursor] = c->id;
    }
    sg_buf_init(&store, SG_CTL_MAX_BYTES);
    assert_ok(sg_texts_pack(names, &store, &m.l_listed.names, &err), err);
    m.l_listed.next = i > cursor + RIG_PAGE ? cursor + RIG_PAGE : 0;
    rig_reply(r, &m, id, NULL, 0);
}

static inline void reply_names(struct rig *r, const char *name, uint32_t id)
{
    char *names[] = { (char *)(uintptr_t)name, NULL };
    sg_auto_buf store;
    struct sg_msg m = { .type = SG_MSG_L_LISTED };
    struct sg_err err;

    sg_buf_init(&store, SG_CTL_MAX_BYTES);
    assert_ok(sg_texts_pack(names, &store, &m.l_listed.names, &err), err);
    rig_reply(r, &m, id, NULL, 0);
}

static inline void reply_failed(struct rig *r, enum sg_kind kind, const char *text, uint32_t id)
{
    struct sg_msg m = { .type = SG_MSG_L_FAILED };
    m.error = (struct sg_msg_error) { .kind = kind, .text = sg_text_of(text) };
    rig_reply(r, &m, id, NULL, 0);
}

static inline void launcher_answer(struct rig *r, const struct sg_msg *q, struct cell *c)
{
    struct sg_msg m = { .type = SG_MSG_L_DONE };

    switch ((unsigned)q->type) {
    case SG_MSG_L_HELLO:
        m.type = SG_MSG_L_WELCOME;
        m.l_welcome.version = SG_CTL_VERSION;
        m.l_welcome.flags = SG_L_FREEZER | r->more_flags | (r->has_pool ? SG_L_POOL : 0u);
        break;
    case SG_MSG_L_CREATE:
        if (r->holds_creates)
            hold(r, q);
        else
            make_cell(r, q->l_create.sandbox.p, q->l_create.template.p, &q->l_create, q->id);
        return;
    case SG_MSG_L_ADOPT:
        reply_cell(r, c, q->id);
        return;
    case SG_MSG_L_DESTROY:
        rig_remove_cell(r, c);
        break;
    case SG_MSG_L_FREEZE:
    case SG_MSG_L_THAW:
        cell_freeze(c, q->type == SG_MSG_L_FREEZE);
        break;
    case SG_MSG_L_LIMIT:
        c->limits = (struct sg_tier_limits) { q->l_create.mem_bytes, q->l_create.cpu_milli,
                                              q->l_create.pids, q->l_create.disk_bytes };
        break;
    case SG_MSG_L_STATS:
        m.type = SG_MSG_L_STATED;
        m.l_stated = (struct sg_msg_l_stated) {
            .mem_bytes = r->mem_bytes, .cpu_ns = r->cpu_ns, .pids = 3, .oom_kills = r->oom_kills
        };
        break;
    case SG_MSG_L_GAUGE:
        reply_gauges(r, q->id);
        return;
    case SG_MSG_L_LIST:
        reply_list(r, q->l_list.cursor, q->id);
        return;
    case SG_MSG_L_POOL:
        reply_names(r, "base 2 4", q->id);
        return;
    case SG_MSG_L_SNAPSHOTS:
        m.type = SG_MSG_L_LISTED;
        break;
    case SG_MSG_L_SNAPSHOT:
        assert_true(c->is_frozen && q->l_snapshot.flags == SG_L_STAY_FROZEN);
        m.type = SG_MSG_L_SNAPPED;
        if (r->holds_snapshots && (r->held_snapshot = q->id))
            return;
        r->snapshots++;
        break;
    case SG_MSG_L_FORGET:
        r->snapshots--;
        break;
    case SG_MSG_L_STORAGE:
        m.type = SG_MSG_L_STORED;
        break;
    case SG_MSG_L_RECLAIM:
    case SG_MSG_L_VOLUME_MAKE:
    case SG_MSG_L_VOLUME_LIMIT:
    case SG_MSG_L_VOLUME_REMOVE:
    case SG_MSG_L_MOUNT:
    case SG_MSG_L_SYNC:
    case SG_MSG_L_NET:
        break;
    case SG_MSG_L_TEMPLATES:
        reply_names(r, "base", q->id);
        return;
    default:
        fail_msg("the launcher was asked %s", sg_msg_table[q->type].name);
    }
    rig_reply(r, &m, q->id, NULL, 0);
}

static inline void launcher_take(struct rig *r, const struct sg_msg *q)
{
    bool has_name = q->type != SG_MSG_L_HELLO && q->type != SG_MSG_L_LIST &&
                    q->type != SG_MSG_L_SNAPSHOTS && q->type != SG_MSG_L_POOL &&
                    q->type != SG_MSG_L_TEMPLATES && q->type != SG_MSG_L_FORGET &&
                    q->type != SG_MSG_L_STORAGE &&
                    !(q->type >= SG_MSG_L_VOLUME_MAKE && q->type <= SG_MSG_L_SYNC &&
                      q->type != SG_MSG_L_MOUNT) &&
                    q->type != SG_MSG_L_VOLUME_LIMIT;
    const char *id = has_name ? q->l_name.sandbox.p : ""; /* L_CREATE begins with it, too */
    struct cell *c = rig_cell(r, id);

    r->asked[q->type]++;
    if (has_name && r->looks_into_store) {
        struct row_find f = rig_row(r, id);
        memcpy(r->row_seen[q->type], f.state, sizeof f.state);
    }
    if (r->fails[q->type]) {
        r->fails[q->type]--;
        reply_failed(r, r->fail_kind, "the test wants it so", q->id);
    } else if (has_name && !c && q->type != SG_MSG_L_CREATE) {
        reply_failed(r, SG_NOT_FOUND, "no such cell", q->id);
    } else {
        launcher_answer(r, q, c);
    }
}

static inline void launcher_ready(struct sg_io *io, uint32_t events)
{
    struct rig *r = SG_OWNER(io, struct rig, launcher);
    sg_auto_packet p;
    struct sg_err err;

    (void)events;
    sg_packet_init(&p);
    if (sg_chan_recv(io->fd, 1u << SG_ROLE_ASK, false, &p, &err) == SG_RECV_MESSAGE)
        launcher_take(r, &p.msg);
    else
        sg_io_drop(r->loop, io);
}

/* The cell's pid 1 ends: the connection goes, and the launcher tells. */
static inline void rig_kill_cell(struct rig *r, const char *id, uint32_t cause, bool tells)
{
    struct cell *c = rig_cell(r, id);
    struct sg_msg m = { .type = SG_MSG_L_ENDED };

    assert_non_null(c);
    m.l_ended = (struct sg_msg_l_ended) { .sandbox = sg_text_of(id), .cause = cause };
    cell_hang_up(c);
    if (tells)
        rig_reply(r, &m, 0, NULL, 0);
}
