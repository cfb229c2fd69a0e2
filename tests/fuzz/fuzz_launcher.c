/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of a daemon that was taken over, against what decides and dispatches: decode, permit,
 * handlers. In place of everything that would touch the kernel there is a pretence (a fake edge)
 * that keeps a few boxes and checks what reaches it:
 *
 *   - nothing does before l_hello
 *   - ids are ids, templates are names, limits are within the settings
 *   - every question is answered exactly once, or waits for its box
 *
 * Input: packets, each after its length in two bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/log.h"
#include "engine/reclaim.h"
#include "image/store.h"
#include "image/template.h"
#include "launcher/launcher.h"
#include "launcher/serve.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { MAX_PACKETS = 256 };

static struct sg_launcher *launcher;
static struct sg_tmpl tmpl;
static struct sg_pool pool;
static uint32_t asked;     /* the question in hand */
static unsigned answers;   /* to it */
static bool waits;         /* it is answered later */
static unsigned waiting_n; /* creates in the queue of the pretence */
static struct sg_wish waiting[MAX_PACKETS];

static void must(bool is_so)
{
    if (!is_so)
        abort();
}

static void must_be_permitted(const struct sg_limits *l)
{
    const struct sg_permit *p = &launcher->set.permit;
    must(!l->mem_bytes ||
         (l->mem_bytes >= p->least.mem_bytes && l->mem_bytes <= p->most.mem_bytes));
    must(!l->cpu_milli ||
         (l->cpu_milli >= p->least.cpu_milli && l->cpu_milli <= p->most.cpu_milli));
    must(!l->pids || (l->pids >= p->least.pids && l->pids <= p->most.pids));
    must(!l->disk_bytes ||
         (l->disk_bytes >= p->least.disk_bytes && l->disk_bytes <= p->most.disk_bytes));
}

/* ---- the pretence ---- */

void sg_conn_send(struct sg_launcher *l, struct sg_msg *m, int fd)
{
    (void)l, (void)fd;
    sg_auto_buf out;
    sg_buf_init(&out, SG_CTL_MAX_BYTES);
    must(sg_msg_encode(m, &out, NULL) == 0);
    answers += m->id == asked && m->type != SG_MSG_L_ENDED;
}

void sg_conn_send_all(struct sg_launcher *l, struct sg_msg *m, const int *fds, unsigned n)
{
    (void)fds, (void)n;
    sg_conn_send(l, m, -1);
}

void sg_conn_ok(struct sg_launcher *l, uint32_t id)
{
    struct sg_msg m = { .type = SG_MSG_L_DONE, .id = id };
    sg_conn_send(l, &m, -1);
}

void sg_conn_fail(struct sg_launcher *l, uint32_t id, const struct sg_err *err)
{
    must(err->kind != SG_OK && *err->msg);
    answers += id == asked;
    (void)l;
}

static void free_box(struct sg_box *b)
{
    (void)sg_map_remove(&launcher->by_id, b->record.sandbox);
    launcher->by_slot[b->record.slot] = NULL;
    struct sg_box **at = &launcher->boxes;
    while (*at != b)
        at = &(*at)->all_next;
    *at = b->all_next;
    free(b);
}

const char *sg_oci_lacks(const struct sg_launcher *l)
{
    (void)l;
    return NULL;
}

/* ---- memory of frozen ones ---- */

void sg_reclaim_probe(struct sg_reclaim_host *ret)
{
    *ret = (struct sg_reclaim_host) { .why = "a pretence" };
}

int sg_reclaim_box(struct sg_box *b, struct sg_err *err)
{
    must(launcher->conn.has_hello && sg_id_is_valid(b->record.sandbox, 's'));
    return b->record.slot % 2 ? 0 : sg_fail(err, SG_CONFLICT, "the sandbox is not frozen");
}

void sg_reclaim_stop(struct sg_box *b)
{
    must(sg_id_is_valid(b->record.sandbox, 's'));
}

int sg_pool_take(struct sg_launcher *l, const struct sg_msg_l_create *c, struct sg_box **ret,
                 struct sg_pool **ret_pool, struct sg_err *err)
{
    const char *template = c->template.p;
    const enum sg_l_tier tier = c->tier;
    must(!c->mounts.count || tier == SG_L_TIER_GVISOR);
    must(c->mounts.count % 3 == 0);
    must(l->conn.has_hello && !strchr(template, '/') && *template != '.');
    must(tier == SG_L_TIER_CELL || tier == SG_L_TIER_GVISOR);
    if (strcmp(template, "host") != 0 && strcmp(template, "base") != 0)
        return sg_fail(err, SG_NOT_FOUND, "no such template");
    *ret = NULL;
    *ret_pool = &pool;
    if (template[0] == 'h') /* nothing is parked of it */
        return 0;
    for (uint32_t slot = 0; slot < SG_SLOT_COUNT; slot++)
        if (!l->by_slot[slot]) {
            struct sg_box *b = sg_new(struct sg_box);
            b->launcher = l;
            b->record.slot = slot;
            b->tmpl = &tmpl;
            b->ctl.fd = -1;
            b->all_next = l->boxes;
            l->boxes = l->by_slot[slot] = b;
            *ret = b;
            return 0;
        }
    return 0;
}

void sg_pool_wait(struct sg_pool *p, const struct sg_wish *w)
{
    must(p == &pool && sg_id_is_valid(w->sandbox, 's'));
    must_be_permitted(&w->limits);
    waiting[waiting_n++] = *w;
    waits = true;
}

bool sg_maker_has_wish(const struct sg_launcher *l, const char *sandbox)
{
    (void)l;
    for (unsigned i = 0; i < waiting_n; i++)
        if (strcmp(waiting[i].sandbox, sandbox) == 0)
            return true;
    return false;
}

bool sg_maker_forget(struct sg_launcher *l, const char *sandbox, uint32_t *ret_id)
{
    (void)l;
    for (unsigned i = 0; i < waiting_n; i++)
        if (strcmp(waiting[i].sandbox, sandbox) == 0) {
            /* Its own question may have the same number; it is another one. */
            *ret_id = waiting[i].id == asked ? asked + 1 : waiting[i].id;
            waiting[i] = waiting[--waiting_n];
            return true;
        }
    return false;
}

void sg_maker_forget_all(struct sg_launcher *l)
{
    (void)l;
    waiting_n = 0;
}

int sg_box_claim(struct sg_box *b, const char *sandbox, const struct sg_limits *limits,
                 struct sg_err *err)
{
    must(sg_id_is_valid(sandbox, 's') && !sg_map_find(&launcher->by_id, sandbox));
    must_be_permitted(limits);
    (void)snprintf(b->record.sandbox, sizeof b->record.sandbox, "%s", sandbox);
    if (limits->pids == 13) {
        free_box(b);
        return sg_fail(err, SG_CONFLICT, "an unlucky number");
    }
    b->state = SG_BOX_CLAIMED;
    sg_map_put(&launcher->by_id, b->record.sandbox, b);
    return 0;
}

int sg_box_set_limits(struct sg_box *b, const struct sg_limits *limits, struct sg_err *err)
{
    (void)b;
    must_be_permitted(limits);
    return limits->pids == 13 ? sg_fail(err, SG_CONFLICT, "an unlucky number") : 0;
}

void sg_export_join(struct sg_launcher *l)
{
    (void)l;
}

void sg_gate_join(struct sg_launcher *l)
{
    must(l->conn.has_hello);
}

int sg_gate_attach(struct sg_box *b, struct sg_err *err)
{
    (void)err;
    must(b->state == SG_BOX_CLAIMED);
    b->has_net = true;
    return 0;
}

void sg_gate_detach(struct sg_box *b)
{
    b->has_net = false;
}

int sg_box_connect(const struct sg_box *b, struct sg_err *err)
{
    (void)b;
    return sg_fail(err, SG_UNAVAILABLE, "nobody is inside");
}

void sg_box_freeze(struct sg_box *b, uint32_t id)
{
    must(b->state == SG_BOX_CLAIMED);
    sg_conn_ok(b->launcher, id);
}

void sg_box_await_end(struct sg_box *b, uint32_t id)
{
    (void)b;
    must(id == asked);
    waits = true;
}

void sg_box_end(struct sg_box *b)
{
    free_box(b);
}

void sg_box_forget_questions(struct sg_box *b)
{
    (void)b;
}

int sg_tmpl_fill_cell(const struct sg_tmpl *t, struct sg_buf *env, struct sg_msg_l_cell *ret,
                      struct sg_err *err)
{
    char *none[] = { NULL };
    must(t == &tmpl);
    return sg_texts_pack(none, env, &ret->env, err);
}

int sg_tmpl_identify(const struct sg_launcher *l, const char *name, uint64_t *ret,
                     char identity[SG_TMPL_NAME_MAX + 1], struct sg_err *err)
{
    must(l == launcher && (strcmp(name, "host") == 0 || sg_templates_is_image(name) ||
                           sg_template_check_name(name, err) == 0));
    *ret = 1;
    identity[0] = '\0';
    return 0;
}

int sg_serve_image(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    must(l == launcher && m->id == asked);
    return sg_fail(err, SG_EXHAUSTED, "enough of them are at work");
}

int sg_kept_thaw(struct sg_kept *k, struct sg_err *err)
{
    (void)k, (void)err;
    return 0;
}

int sg_kept_report(const struct sg_kept *k, struct sg_kept_report *ret, struct sg_err *err)
{
    (void)k, (void)err;
    memset(ret, 0, sizeof *ret);
    return 0;
}

int sg_cgroup_gauges(const struct sg_cgroup *g, int ret[SG_L_GAUGE_COUNT], struct sg_err *err)
{
    (void)g, (void)err;
    for (unsigned i = 0; i < SG_L_GAUGE_COUNT; i++)
        ret[i] = -1;
    return 0;
}

uint64_t sg_kept_oom_kills(const struct sg_kept *k)
{
    (void)k;
    return 0;
}

uint64_t sg_kept_cpu_ns(const struct sg_kept *k)
{
    (void)k;
    return 0;
}

bool sg_kept_may_be_killed(const struct sg_kept *k)
{
    (void)k;
    return true;
}

uint64_t sg_limits_disk_bytes(const struct sg_limits *l)
{
    return l->disk_bytes;
}

/* ---- the pretended storage pool ---- */

bool sg_vault_is_open(const struct sg_vault *v)
{
    (void)v;
    return true;
}

int sg_vault_has_room(const struct sg_vault *v, struct sg_err *err)
{
    (void)v;
    return launcher->by_slot[50] ? sg_fail(err, SG_EXHAUSTED, "the pool is full") : 0;
}

const char *sg_vault_source_name(const struct sg_vault *v)
{
    (void)v;
    return "image";
}

unsigned sg_hands_busy(const struct sg_hands *h)
{
    (void)h;
    return 0;
}

int sg_vault_base_of(const struct sg_vault *v, const char *snapshot,
                     char ret[SG_ERRAND_NAME_MAX + 1], struct sg_err *err)
{
    (void)v, (void)ret;
    must(launcher->conn.has_hello && sg_id_is_valid(snapshot, 't'));
    return sg_fail(err, SG_NOT_FOUND, "no such snapshot");
}

struct sg_errand *sg_vault_remove(struct sg_vault *v, enum sg_vault_kind kind, const char *name,
                                  sg_vault_done *done, void *arg)
{
    (void)v, (void)done;
    must(kind == SG_VAULT_SNAP && sg_id_is_valid(name, 't'));
    free(arg);
    waits = true;
    return NULL;
}

void sg_vault_list(const struct sg_vault *v, enum sg_vault_kind kind,
                   void (*each)(void *arg, const char *name), void *arg)
{
    (void)v;
    must(kind == SG_VAULT_SNAP);
    each(arg, "tabcdefghij012345678");
}

int sg_serve_volume(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    must(l->conn.has_hello);
    if (m->type == SG_MSG_L_MOUNT) {
        const char *path = m->l_mount.path.p;
        must(sg_id_is_valid(m->l_mount.sandbox.p, 's') && sg_id_is_valid(m->l_mount.volume.p, 'v'));
        must(path[0] == '/' && path[1] && !strstr(path, "//") && !strstr(path, "/../"));
    } else if (m->type != SG_MSG_L_SYNC) {
        must(sg_id_is_valid(m->l_volume.volume.p, 'v'));
    }
    return sg_fail(err, SG_UNSUPPORTED, "there is no storage pool");
}

void sg_tmpl_unpin_begin(const struct sg_launcher *l, const char *base, const char *snapshot)
{
    (void)l, (void)base, (void)snapshot;
}

void sg_tmpl_unpin_end(const struct sg_launcher *l, const char *base, const char *snapshot,
                       bool is_gone)
{
    (void)l, (void)base, (void)snapshot, (void)is_gone;
}

void sg_box_snapshot(struct sg_box *b, uint32_t id, const char *name, bool stays_frozen)
{
    (void)stays_frozen;
    must(b->state == SG_BOX_CLAIMED && id == asked && sg_id_is_valid(name, 't'));
    waits = true;
}

int sg_box_disk_use(const struct sg_box *b, uint64_t *ret_used, uint64_t *ret_limit,
                    struct sg_err *err)
{
    (void)b, (void)ret_used, (void)ret_limit;
    return sg_fail(err, SG_NOT_FOUND, "no disk");
}

void sg_io_drop(struct sg_loop *l, struct sg_io *io)
{
    (void)l;
    io->fd = -1;
}

/* ---- the target ---- */

static void set_up(void)
{
    static char nowhere[] = "/nonexistent";
    launcher = sg_new(struct sg_launcher);
    launcher->set.state_dir = nowhere;
    launcher->set.permit.least = (struct sg_limits) { 4u << 20, 10, 2, 1u << 20, 0, false };
    launcher->set.permit.most = (struct sg_limits) { 1u << 30, 4000, 1000, 1u << 30, 0, false };
    launcher->set.max_cells = 100;
    sg_map_init(&launcher->by_id);
    waiting_n = 0;
    sg_log_level_set(SG_LOG_ERROR);
}

static void tear_down(void)
{
    sg_serve_daemon_lost(launcher);
    while (launcher->boxes)
        free_box(launcher->boxes);
    sg_map_done(&launcher->by_id);
    free(launcher);
}

static void ask(const uint8_t *p, size_t n)
{
    struct sg_msg m;
    if (sg_msg_decode(p, n, SG_ROLE_ASK, &m, NULL) < 0)
        return;
    asked = m.id;
    answers = 0;
    waits = false;
    sg_serve(launcher, &m);
    must(answers + waits == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    set_up();
    for (unsigned i = 0; i < MAX_PACKETS && n >= 2; i++) {
        size_t len = (size_t)p[0] | (size_t)p[1] << 8;
        p += 2;
        n -= 2;
        len = len < n ? len : n;
        uint8_t *copy = malloc(len ? len : 1); /* so that one byte too many is seen */
        must(copy != NULL);
        memcpy(copy, p, len);
        ask(copy, len);
        free(copy);
        p += len;
        n -= len;
    }
    tear_down();
    return 0;
}
