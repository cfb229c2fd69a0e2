/* SPDX-License-Identifier: Apache-2.0 */
/* How a box lives:
 *
 *     make      clone, record, socket, build; then READY comes over the control socket
 *     parked    complete; waits for a claim
 *     claimed   has the id of a sandbox; its control socket is the daemon's
 *     ending    pid 1 is killed or gone: reaped, cgroups removed, socket and record removed, freed
 *
 * The end of pid 1 (its pidfd) is watched from the first moment to the last, whatever the state. */
#include "launcher/box.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "image/store.h"
#include "launcher/launcher.h"
#include "launcher/serve.h"
#include "base/banned.h"

#define MS UINT64_C(1000000)

static const uint64_t MAKING_NS = 15000 * MS, MAKING_NESTED_NS = 90000 * MS,
                      ENDING_LOUD_NS = 5000 * MS;
static const uint64_t FIRST_WAIT_NS = 1 * MS, LONGEST_WAIT_NS = 100 * MS;
static const uint64_t HURRY_NS = 10 * MS; /* one with processor time left is dead long before */
enum { SPARE_BYTES = 16 << 20 };

static void on_ctl(struct sg_io *io, uint32_t events);
static void on_gone(struct sg_io *io, uint32_t events);
static void on_timer(struct sg_timer *t, uint64_t now_ns);

/* ---- making ---- */

static struct sg_box *new_box(struct sg_launcher *l, uint32_t slot)
{
    struct sg_box *b = sg_new(struct sg_box);
    b->launcher = l;
    b->record.slot = slot;
    b->ctl = (struct sg_io) { .fd = -1, .ready = on_ctl };
    b->gone = (struct sg_io) { .fd = -1, .ready = on_gone };
    b->kept.pidfd = b->kept.ids.lock_fd = b->place.ids.lock_fd = -1;
    b->timer.fire = on_timer;
    sg_container_init(b);
    if (l->by_slot[slot])
        l->by_slot[slot]->is_displaced = true;
    l->by_slot[slot] = b;
    b->all_next = l->boxes;
    b->all_link = &l->boxes;
    if (b->all_next)
        b->all_next->all_link = &b->all_next;
    l->boxes = b;
    l->box_count++;
    return b;
}

/* What is left of a box: descriptors that the loop knows, memory, its place in the table. */
static void free_box(struct sg_box *b)
{
    struct sg_launcher *l = b->launcher;
    sg_timer_stop(l->loop, &b->timer);
    (void)sg_io_want(l->loop, &b->gone, 0, NULL);
    sg_io_drop(l->loop, &b->ctl);
    sg_container_free(b);
    if (l->by_slot[b->record.slot] == b)
        l->by_slot[b->record.slot] = NULL;
    *b->all_link = b->all_next;
    if (b->all_next)
        b->all_next->all_link = b->all_link;
    sg_kept_done(&b->kept);
    sg_ids_release(&b->place.ids);
    sg_tmpl_unref(b->tmpl);
    sg_box_forget_questions(b);
    sg_reclaim_forget(b);
    free(b);
    l->box_count--;
    sg_launcher_box_gone(l);
}

/* After the last process that could use it. */
static void remove_disk(struct sg_box *b)
{
    struct sg_vault *v = &b->launcher->vault;
    if (!b->record.disk[0] || !sg_vault_is_open(v))
        return;
    if (b->errand) { /* it is being made */
        sg_errand_forget(sg_take_ptr(&b->errand));
        sg_vault_remove_made(v, SG_VAULT_CELL, b->record.disk);
    } else {
        (void)sg_vault_remove(v, SG_VAULT_CELL, b->record.disk, NULL, NULL);
    }
    b->record.disk[0] = '\0';
}

/* Nobody was promised anything of it: all at once, at the price of a short wait. */
static void abort_making(struct sg_box *b)
{
    struct sg_launcher *l = b->launcher;
    (void)sg_io_want(l->loop, &b->gone, 0, NULL);
    (void)sg_io_want(l->loop, &b->ctl, 0, NULL);
    b->ctl.fd = -1; /* the cell's */
    sg_cell_free(b->cell);
    b->cell = NULL;
    remove_disk(b);
    if (!b->is_displaced)
        sg_record_remove(l->cells_fd, b->record.slot);
    free_box(b);
}

/* The same for a container: somebody else must be asked, and that takes its time. */
static void leave_state(struct sg_box *b);

static void give_up(struct sg_box *b)
{
    struct sg_launcher *l = b->launcher;
    if (b->record.tier != SG_L_TIER_DOCKER) {
        abort_making(b);
        return;
    }
    sg_io_drop(l->loop, &b->ctl);
    leave_state(b);
    sg_timer_stop(l->loop, &b->timer);
    if (b->kept.pidfd >= 0) {
        sg_kept_kill(&b->kept);
        return;
    }
    b->kept.ids = b->place.ids;
    b->place.ids.lock_fd = -1;
    b->kept.is_foreign = true;
    sg_timer_set(l->loop, &b->timer, sg_loop_now(l->loop));
}

static bool is_nested(const struct sg_box *b)
{
    return b->record.tier == SG_L_TIER_GVISOR;
}

static int build(struct sg_box *b, struct sg_err *err)
{
    struct sg_launcher *l = b->launcher;
    if (sg_box_build(b, err) < 0)
        return -1;
    b->ctl.fd = sg_cell_ctl(b->cell);
    b->gone.fd = sg_cell_pidfd(b->cell);
    if (sg_io_want(l->loop, &b->ctl, EPOLLIN, err) < 0 ||
        sg_io_want(l->loop, &b->gone, EPOLLIN, err) < 0)
        return -1;
    sg_timer_set(l->loop, &b->timer,
                 sg_loop_now(l->loop) + (is_nested(b) ? MAKING_NESTED_NS : MAKING_NS));
    return 0;
}

static int start(struct sg_box *b, struct sg_err *err)
{
    b->cell = sg_cell_start_kept(b->launcher->set.is_rootless, &b->place, err);
    return b->cell ? build(b, err) : -1;
}

static void disk_made(void *arg, uint64_t value, const struct sg_err *err)
{
    struct sg_box *b = arg;
    struct sg_pool *p = b->pool;
    struct sg_err own = { 0 };
    (void)value;
    b->errand = NULL;
    if (err)
        b->record.disk[0] = '\0'; /* nothing of it is left */
    if (!err && start(b, &own) == 0)
        return;
    abort_making(b);
    sg_pool_not_made(p, err ? err : &own);
}

/* A name that no other has, nor had: a layer is removed behind its box. */
static void name_disk(struct sg_box *b)
{
    const struct sg_id unique = sg_id_new('d');
    uint64_t hash = 14695981039346656037u;
    for (const char *p = unique.s; *p; p++)
        hash = (hash ^ (uint8_t)*p) * 1099511628211u;
    (void)snprintf(b->record.disk, sizeof b->record.disk, "%u.%016" PRIx64,
                   (unsigned)b->record.slot, hash);
}

/* A layer that begins with a snapshot must hold that, and what an overlay needs of its own, until
 * the claim says how much it may be. */
static uint64_t first_disk_bytes(const struct sg_box *b)
{
    const struct sg_launcher *l = b->launcher;
    uint64_t used, limit, bytes = l->set.defaults.disk_bytes;
    if (b->tmpl->snapshot[0] &&
        sg_vault_use(&l->vault, SG_VAULT_SNAP, b->tmpl->snapshot, &used, &limit, NULL) == 0 &&
        used + SPARE_BYTES > bytes)
        bytes = used + SPARE_BYTES;
    return bytes;
}

/* The record comes before anything that it tells of. */
static int begin_making(struct sg_box *b, struct sg_err *err)
{
    struct sg_launcher *l = b->launcher;
    const struct sg_kept_place *place = &b->place;
    const bool is_container = b->record.tier == SG_L_TIER_DOCKER;
    const bool is_pooled = sg_vault_is_open(&l->vault) && !is_container;
    if (is_pooled && sg_vault_has_room(&l->vault, err) < 0)
        return -1;
    if (is_pooled)
        name_disk(b);
    b->record.state = SG_RECORD_MAKING;
    b->record.template_dev = b->tmpl->dev;
    b->record.template_ino = b->tmpl->ino;
    (void)snprintf(b->record.template, sizeof b->record.template, "%s", b->tmpl->t.name);
    sg_record_set_limits(&b->record, &l->set.defaults);
    if (is_pooled)
        b->record.disk_bytes = first_disk_bytes(b);
    if (is_container)
        return sg_container_make(b, err);
    sg_record_set_cgroup(&b->record, &place->cgroup);
    if (sg_record_write(l->cells_fd, &b->record, err) < 0)
        return -1;
    if (!is_pooled)
        return start(b, err);
    b->errand = sg_vault_make_layer(&l->vault, b->record.disk, b->tmpl->snapshot, b->tmpl->base,
                                    b->record.disk_bytes, disk_made, b);
    return 0;
}

struct sg_box *sg_box_make(struct sg_launcher *l, struct sg_pool *p, struct sg_tmpl *t,
                           struct sg_err *err)
{
    struct sg_kept_place place;
    const struct sg_kept_place *like = l->maker.has_place ? &l->maker.place : NULL;
    if (sg_kept_claim(l->set.is_rootless, like, &place, err) < 0)
        return NULL;
    l->maker.place = place;
    l->maker.has_place = true;
    struct sg_box *b = new_box(l, place.ids.slot);
    b->record.tier = p->tier;
    place.is_nested = is_nested(b);
    b->place = place;
    b->state = SG_BOX_MAKING;
    b->tmpl = p->tier == SG_L_TIER_DOCKER ? sg_tmpl_of_image(t->t.name) : sg_tmpl_ref(t);
    if (p->tier == SG_L_TIER_DOCKER && t->t.layer)
        b->container.source = sg_tmpl_ref(t);
    b->pool = p;
    if (begin_making(b, err) < 0) {
        give_up(b);
        return NULL;
    }
    return b;
}

static void fail_making(struct sg_box *b, const char *what)
{
    struct sg_err err = { 0 };
    struct sg_pool *p = b->pool;
    if (!b->cell || !sg_cell_is_settled(b->cell) || sg_cell_settle(b->cell, &err) == 0)
        sg_fail(&err, SG_INTERNAL, "%s", what);
    give_up(b);
    sg_pool_not_made(p, &err);
}

void sg_box_not_made(struct sg_box *b, const struct sg_err *err)
{
    struct sg_pool *p = b->pool;
    const struct sg_err why = *err;
    give_up(b);
    sg_pool_not_made(p, &why);
}

int sg_box_watch(struct sg_box *b, int fd, struct sg_err *err)
{
    struct sg_launcher *l = b->launcher;
    b->ctl.fd = fd;
    b->gone.fd = b->kept.pidfd;
    return sg_io_want(l->loop, &b->ctl, EPOLLIN, err) < 0 ||
                   sg_io_want(l->loop, &b->gone, EPOLLIN, err) < 0
               ? -1
               : 0;
}

/* READY: pid 1 runs. */
static void ready(struct sg_box *b)
{
    struct sg_err err = { 0 };
    struct sg_pool *p = b->pool;
    (void)sg_io_want(b->launcher->loop, &b->ctl, 0, NULL);
    if (b->record.tier == SG_L_TIER_DOCKER) {
        sg_container_ready(b);
        return;
    }
    if (sg_cell_settle(b->cell, &err) < 0) {
        abort_making(b);
        sg_pool_not_made(p, &err);
        return;
    }
    sg_cell_keep(sg_take_ptr(&b->cell), &b->kept, &b->ctl.fd);
    sg_box_made(b);
}

void sg_box_made(struct sg_box *b)
{
    struct sg_launcher *l = b->launcher;
    struct sg_err err = { 0 };
    struct sg_pool *p = b->pool;
    sg_timer_stop(l->loop, &b->timer);
    b->state = SG_BOX_PARKED;
    b->record.state = SG_RECORD_PARKED;
    b->record.pid = b->kept.pid;
    b->record.start_ticks = b->kept.start_ticks;
    if (!b->kept.is_foreign)
        sg_record_set_cgroup(&b->record, &b->kept.cgroup); /* what is missing is known by now */
    if (sg_record_write(l->cells_fd, &b->record, &err) < 0) {
        sg_box_end(b);
        sg_pool_not_made(p, &err);
        return;
    }
    sg_pool_made(p, b);
}

static void on_ctl(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct sg_box *b = SG_OWNER(io, struct sg_box, ctl);
    struct sg_err err = { 0 };
    struct sg_packet *p = &b->launcher->packet;
    sg_auto_free char *why = NULL;
    switch (sg_chan_recv(io->fd, 1u << SG_ROLE_EVENT | 1u << SG_ROLE_REPLY, false, p, &err)) {
    case SG_RECV_AGAIN:
        return;
    case SG_RECV_MESSAGE:
        if (p->msg.type == SG_MSG_READY) {
            ready(b);
            return;
        }
        if (p->msg.type == SG_MSG_ERROR) /* a runtime's last words */
            why = sg_printf("the runtime failed: %s", p->msg.error.text.p);
        break;
    case SG_RECV_ERROR:
    case SG_RECV_CLOSED:
        break;
    }
    fail_making(b, why ? why : "the sandbox's first process did not report for duty");
}

/* ---- claimed ---- */

int sg_box_claim(struct sg_box *b, const char *sandbox, const struct sg_limits *limits,
                 struct sg_err *err)
{
    struct sg_launcher *l = b->launcher;
    const struct sg_limits all = sg_box_limits_of(b, limits);
    b->state = SG_BOX_CLAIMED;
    b->pool = NULL;
    b->record.state = SG_RECORD_CLAIMED;
    (void)snprintf(b->record.sandbox, sizeof b->record.sandbox, "%s", sandbox);
    sg_record_set_limits(&b->record, &all);
    sg_map_put(&l->by_id, b->record.sandbox, b);
    l->claimed_count++;
    b->is_pinned = sg_templates_is_image(b->tmpl->base); /* it has nothing else to stay for */
    if ((!b->is_pinned || sg_tmpl_pin(b->tmpl, sandbox, err) == 0) &&
        sg_record_write(l->cells_fd, &b->record, err) == 0 &&
        sg_box_apply_limits(b, &all, err) == 0)
        return 0;
    sg_box_end(b);
    return -1;
}

struct sg_box *sg_box_adopt(struct sg_launcher *l, const struct sg_record *r, struct sg_err *err)
{
    struct sg_kept kept;
    struct sg_kept_note note;
    sg_record_note(r, &note);
    if (sg_kept_adopt(l->set.is_rootless, &note, &kept, err) < 0)
        return NULL;
    struct sg_box *b = new_box(l, r->slot);
    b->kept = kept;
    b->record = *r;
    b->gone.fd = kept.pidfd;
    b->state = SG_BOX_PARKED;
    if (r->state == SG_RECORD_CLAIMED) {
        b->state = SG_BOX_CLAIMED;
        sg_map_put(&l->by_id, b->record.sandbox, b);
        l->claimed_count++;
        b->tmpl = r->container[0]
                      ? sg_tmpl_of_image(r->template)
                      : sg_tmpl_reopen(l, r->template, r->template_dev, r->template_ino);
        b->is_pinned = b->tmpl->t.lock_fd >= 0 &&
                       sg_templates_is_pinned(b->tmpl->t.lock_fd, b->record.sandbox);
        if (r->container[0])
            sg_container_adopt(b);
    }
    if (sg_io_want(l->loop, &b->gone, EPOLLIN, err) < 0)
        sg_log(SG_LOG_ERROR, "the end of a sandbox will go unnoticed",
               SG_KV("sandbox", r->sandbox));
    return b;
}

/* ---- ending ---- */

static void leave_state(struct sg_box *b)
{
    struct sg_launcher *l = b->launcher;
    if (b->state == SG_BOX_PARKED && b->pool)
        sg_pool_drop(b->pool, b);
    b->pool = NULL;
    if (b->state == SG_BOX_CLAIMED) {
        sg_gate_detach(b);
        (void)sg_map_remove(&l->by_id, b->record.sandbox);
        l->claimed_count--;
        if (b->is_pinned)
            sg_tmpl_unpin(b->tmpl, b->record.sandbox);
    }
    sg_reclaim_stop(b);
    struct sg_err err = { 0 };
    sg_fail(&err, SG_NOT_FOUND, "the sandbox has ended");
    if (b->snapshot.is_on)
        sg_box_snapshot_drop(b, &err);
    if (b->is_freezing)
        sg_box_freeze_answer(b, &err);
    b->state = SG_BOX_ENDING;
    b->wait_ns = FIRST_WAIT_NS;
    b->deadline_ns = sg_loop_now(l->loop) + ENDING_LOUD_NS;
}

/* Of a leftover the process is not known: while the slot is held, it may still be that one. */
static int remove_traces(struct sg_box *b, struct sg_err *err)
{
    if (b->is_displaced) {
        remove_disk(b);
        return 0;
    }
    if (sg_kept_finish(&b->kept, err) < 0)
        return -1;
    if (b->kept.pidfd < 0 && b->kept.has_lost_slot) {
        b->kept.has_lost_slot = false;
        return sg_fail(err, SG_CONFLICT, "slot %u is in use", (unsigned)b->record.slot);
    }
    remove_disk(b);
    sg_record_remove(b->launcher->cells_fd, b->record.slot);
    return 0;
}

static void finish(struct sg_box *b, uint64_t now_ns)
{
    struct sg_launcher *l = b->launcher;
    struct sg_err err = { 0 };
    if ((b->record.container[0] && !sg_container_is_over(b)) || sg_reclaim_is_at(b))
        return; /* who is at it looks again */
    if (remove_traces(b, &err) < 0) {
        if (now_ns >= b->deadline_ns && !b->has_been_told) {
            b->has_been_told = true;
            sg_log(SG_LOG_WARN, "what is left of a sandbox cannot be removed yet",
                   SG_KV("sandbox", b->record.sandbox), SG_KV("error", err.msg));
        }
        sg_timer_set(l->loop, &b->timer, now_ns + b->wait_ns);
        b->wait_ns = b->wait_ns < LONGEST_WAIT_NS ? b->wait_ns * 2 : b->wait_ns;
        return;
    }
    for (struct sg_waiter *w = b->waiters; w; w = w->next)
        sg_conn_ok(l, w->id);
    free_box(b);
}

static void on_gone(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct sg_box *b = SG_OWNER(io, struct sg_box, gone);
    b->is_gone = true;
    if (b->state == SG_BOX_MAKING) {
        fail_making(b, "the sandbox's first process ended before it was ready");
        return;
    }
    (void)sg_io_want(b->launcher->loop, io, 0, NULL); /* it stays readable for ever */
    if (b->state == SG_BOX_CLAIMED)
        sg_serve_ended(b->launcher, b);
    if (b->state != SG_BOX_ENDING)
        leave_state(b);
    finish(b, sg_loop_now(b->launcher->loop));
}

void sg_box_look_again(struct sg_box *b)
{
    sg_timer_set(b->launcher->loop, &b->timer, sg_loop_now(b->launcher->loop));
}

void sg_box_end(struct sg_box *b)
{
    if (b->state == SG_BOX_ENDING)
        return;
    if (b->state == SG_BOX_MAKING) {
        give_up(b);
        return;
    }
    leave_state(b);
    sg_io_drop(b->launcher->loop, &b->ctl);
    sg_kept_kill(&b->kept);
    if (!b->record.container[0])
        sg_timer_set(b->launcher->loop, &b->timer, sg_loop_now(b->launcher->loop) + HURRY_NS);
}

/* From here on nobody holds its template, until the next launcher does. */
void sg_box_leave(struct sg_box *b)
{
    if (b->state == SG_BOX_CLAIMED && sg_vault_is_open(&b->launcher->vault))
        (void)sg_tmpl_pin(b->tmpl, b->record.sandbox, NULL);
    free_box(b);
}

struct sg_box *sg_box_of_leftover(struct sg_launcher *l, const struct sg_record *r)
{
    struct sg_box *b = new_box(l, r->slot);
    struct sg_kept_note note;
    sg_record_note(r, &note);
    b->kept.ids = (struct sg_ids) { .slot = r->slot, .lock_fd = -1 };
    b->kept.cgroup = note.cgroup;
    b->kept.is_rootless = l->set.is_rootless;
    memcpy(b->record.disk, r->disk, sizeof b->record.disk);
    memcpy(b->record.container, r->container, sizeof b->record.container);
    b->record.tier = r->tier;
    b->kept.is_foreign = note.is_foreign;
    leave_state(b);
    sg_timer_set(l->loop, &b->timer, sg_loop_now(l->loop));
    return b;
}

void sg_box_await_end(struct sg_box *b, uint32_t id)
{
    struct sg_waiter *w = sg_new(struct sg_waiter);
    w->id = id;
    w->next = b->waiters;
    b->waiters = w;
}

void sg_box_forget_questions(struct sg_box *b)
{
    while (b->waiters) {
        struct sg_waiter *w = b->waiters;
        b->waiters = w->next;
        free(w);
    }
    if (b->snapshot.is_on)
        sg_box_snapshot_drop(b, NULL);
    if (b->is_freezing) { /* it freezes all the same; the next daemon asks again */
        b->is_freezing = false;
        sg_timer_stop(b->launcher->loop, &b->timer);
    }
}

/* The end of a container is another's work, and told by it. */
static bool is_dying(const struct sg_box *b)
{
    return !b->is_gone && b->kept.pidfd >= 0 && !b->record.container[0];
}

static void on_timer(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_box *b = SG_OWNER(t, struct sg_box, timer);
    if (b->state == SG_BOX_MAKING)
        fail_making(b, "the sandbox was not ready in time");
    else if (b->state == SG_BOX_ENDING && is_dying(b))
        sg_kept_hurry(&b->kept);
    else if (b->state == SG_BOX_ENDING)
        finish(b, now_ns);
    else if (b->is_freezing)
        sg_box_freeze_look(b, now_ns);
}
