/* SPDX-License-Identifier: Apache-2.0 */
/* The runner of operations; see life.h. It knows steps and answers, not what they are about. */
#include "manager/capture.h"
#include "manager/cred.h"
#include "manager/life.h"

#include <assert.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "manager/traits.h"
#include "manager/volume.h"
#include "tier/peer.h"

#include "base/banned.h"

/* ---- who waits ---- */

static void waiters_init(struct sg_waiters *w)
{
    w->head = NULL;
    w->tail = &w->head;
}

void sg_life_wait(struct sg_waiters *w, sg_sandbox_cb *cb, void *arg)
{
    if (!cb)
        return;
    struct sg_waiter *one = sg_new(struct sg_waiter);
    one->cb = cb;
    one->arg = arg;
    *w->tail = one;
    w->tail = &one->next;
}

/* The list is taken off first: who is answered may come back with the next wish. */
void sg_life_answer(struct sg_waiters *w, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_waiter *one = w->head;

    waiters_init(w);
    while (one) {
        struct sg_waiter *next = one->next;
        one->cb(one->arg, err ? NULL : s, err);
        free(one);
        one = next;
    }
}

static void tell(struct sg_later *l)
{
    struct sg_life *life = SG_OWNER(l, struct sg_life, tell);
    struct sg_sandbox *s = life->s;

    sg_life_answer(&life->soon, s, NULL);
    sg_life_drop(s);
}

void sg_life_soon(struct sg_sandbox *s, sg_sandbox_cb *cb, void *arg)
{
    if (!s->life->tell.is_queued)
        sg_life_hold(s);
    sg_life_wait(&s->life->soon, cb, arg);
    sg_later_call(s->manager->loop, &s->life->tell);
}

/* ---- being ---- */

static void bury_now(struct sg_later *l)
{
    struct sg_life *life = SG_OWNER(l, struct sg_life, bury);
    if (life->refs == 0)
        sg_life_free(life->s);
}

struct sg_sandbox *sg_life_new(struct sg_manager *m, struct sg_org *org, const struct sg_id *id)
{
    struct sg_sandbox *s = sg_new(struct sg_sandbox);
    struct sg_life *life = sg_new(struct sg_life);

    s->id = *id;
    s->manager = m;
    s->org = org;
    s->wall = SG_WALL_CELL;
    s->cause = sg_strdup("");
    s->life = life;
    sg_map_init(&s->execs);
    life->s = s;
    life->peer_fd = -1;
    life->bury.call = bury_now;
    life->tell.call = tell;
    waiters_init(&life->waiting);
    waiters_init(&life->destroying);
    waiters_init(&life->soon);
    return s;
}

static void free_texts(char **v)
{
    for (size_t i = 0; v && v[i]; i++)
        free(v[i]);
    free(v);
}

static void leave_graves(struct sg_sandbox *s)
{
    if (s->older)
        s->older->newer = s->newer;
    if (s->newer)
        s->newer->older = s->older;
    else
        s->manager->graves = s->older;
}

void sg_life_free(struct sg_sandbox *s)
{
    struct sg_life *life = s->life;
    struct sg_loop *l = s->manager->loop;

    if (life->is_gone)
        leave_graves(s);
    sg_expiry_stop(s);
    sg_timer_stop(l, &life->clock);
    sg_timer_stop(l, &life->grace);
    sg_timer_stop(l, &life->leave);
    sg_timer_stop(l, &life->keep);
    sg_timer_stop(l, &life->relieve);
    sg_later_cancel(l, &life->bury);
    sg_later_cancel(l, &life->tell);
    sg_peer_free(s->peer);
    sg_samples_free(s);
    sg_map_done(&s->execs);
    sg_pairs_done(&s->metadata);
    sg_pairs_done(&s->env);
    sg_traits_done(&s->traits);
    free(s->built);
    sg_mounts_done(s);
    sg_captures_done(s);
    free(s->template);
    free(s->decision);
    free(s->snapshot);
    free(s->parent);
    free(s->paused_snapshot);
    free(s->paused_files);
    free(life->snapshot_before);
    free(life->keeping);
    free(s->door);
    sg_policy_done(&s->network);
    free(s->previews);
    sg_creds_done(&s->creds);
    free(s->cause);
    free(s->user);
    free(s->home);
    free(s->workdir);
    free(s->identity);
    free(s->path);
    free_texts(s->template_env);
    free(life);
    free(s);
}

void sg_life_bury(struct sg_sandbox *s)
{
    struct sg_manager *m = s->manager;

    s->life->is_gone = true;
    s->newer = NULL;
    s->older = m->graves;
    if (s->older)
        s->older->newer = s;
    m->graves = s;
    if (s->life->refs == 0)
        sg_later_call(s->manager->loop, &s->life->bury);
}

void sg_life_hold(struct sg_sandbox *s)
{
    s->life->refs++;
}

void sg_life_drop(struct sg_sandbox *s)
{
    assert(s->life->refs > 0);
    s->life->refs--;
    if (s->life->is_gone && s->life->refs == 0)
        sg_later_call(s->manager->loop, &s->life->bury);
}

/* ---- steps ---- */

void sg_life_begin(struct sg_sandbox *s, enum sg_op op)
{
    assert(s->life->op == OP_NONE && s->life->open == 0);
    s->life->op = op;
    s->life->began_ns = sg_loop_now(s->manager->loop);
}

void sg_life_expect(struct sg_sandbox *s, unsigned n, void (*next)(struct sg_sandbox *s))
{
    s->life->open += n;
    s->life->refs += n;
    s->life->next = next;
}

void sg_life_got(struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_life *life = s->life;

    assert(life->open > 0);
    life->open--;
    if (err && life->err.kind == SG_OK)
        life->err = *err;
    if (life->open == 0 && !s->manager->is_ending)
        life->next(s);
    sg_life_drop(s);
}

bool sg_life_failed(const struct sg_sandbox *s, struct sg_err *ret)
{
    struct sg_life *life = s->life;

    if (life->err.kind == SG_OK)
        return false;
    *ret = life->err;
    life->err = (struct sg_err) { 0 };
    return true;
}

void sg_life_end(struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_life *life = s->life;

    life->op = OP_NONE;
    life->settled_ns = sg_loop_now(s->manager->loop);
    sg_timer_stop(s->manager->loop, &life->clock);
    if (err)
        s->manager->metrics.errors[err->kind]++;
    sg_life_answer(&life->waiting, s, err);
    sg_life_settle(s);
}

void sg_life_settle(struct sg_sandbox *s)
{
    struct sg_life *life = s->life;

    if (life->op != OP_NONE || life->is_gone || s->manager->is_ending)
        return;
    if (life->wants_end)
        sg_destroy_begin(s);
    else if (life->has_died)
        sg_death_begin(s);
    else if (life->has_expired)
        sg_expiry_act(s);
}

/* ---- state ---- */

int sg_life_apply(struct sg_sandbox *s, enum sg_state_event e, struct sg_err *err)
{
    if (sg_state_next(s->state, e, &s->state, err) < 0)
        return -1;
    sg_expiry_update(s);
    sg_cell_keep_time(s);
    sg_pause_keep_update(s);
    sg_pause_memory_update(s);
    return 0;
}

void sg_life_must(struct sg_sandbox *s, enum sg_state_event e)
{
    struct sg_err err = { 0 };
    if (sg_life_apply(s, e, &err) < 0)
        sg_log(SG_LOG_ERROR, "state machine refused what happened", SG_KV("sandbox", s->id.s),
               SG_KV("error", err.msg));
}

void sg_life_cause(struct sg_sandbox *s, const char *cause)
{
    free(s->cause);
    s->cause = sg_strdup(cause);
}

/* ---- answers of others ---- */

static void row_written(void *arg, const struct sg_err *err)
{
    sg_life_got(arg, err);
}

void sg_life_put_row(struct sg_sandbox *s, enum sg_state state, enum sg_store_mode mode)
{
    sg_row_put(s, state, mode, sg_note_done, sg_note_new(s->manager, row_written, s));
}

struct save {
    struct sg_sandbox *s;
    sg_sandbox_cb *cb;
    void *arg;
};

static void saved(void *arg, const struct sg_err *err)
{
    struct save *save = arg;

    save->cb(save->arg, err ? NULL : save->s, err);
    sg_life_drop(save->s);
    free(save);
}

void sg_life_save(struct sg_sandbox *s, sg_sandbox_cb *cb, void *arg)
{
    struct save *save = sg_new(struct save);

    *save = (struct save) { s, cb, arg };
    sg_life_hold(s);
    sg_row_put(s, s->life->row_state, SG_STORE_NORMAL, sg_note_done,
               sg_note_new(s->manager, saved, save));
}

void sg_life_tier_answer(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    (void)p;
    sg_life_got(arg, err);
}

/* ---- for others ---- */

void sg_life_event(struct sg_sandbox *s, const char *type, const char *key, const char *value)
{
    sg_auto_buf data;
    struct sg_json j;

    sg_buf_init(&data, 4096);
    sg_json_init(&j, &data);
    sg_json_open(&j, '{');
    sg_json_key(&j, key);
    sg_json_str(&j, value);
    sg_json_close(&j, '}');
    sg_sandbox_event(s, type, sg_buf_cstr(&data));
}

int sg_sandbox_demand_running(const struct sg_sandbox *s, struct sg_err *err)
{
    if (s->state != SBX_RUNNING)
        return sg_fail(err, SG_CONFLICT, "the sandbox is %s", sg_state_name(s->state));
    if (!s->peer || s->life->peer_fd < 0)
        return sg_fail(err, SG_UNAVAILABLE, "the sandbox is not connected");
    return 0;
}
