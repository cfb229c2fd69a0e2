/* SPDX-License-Identifier: Apache-2.0 */
/* Destroying: row "stopping" → the cell is gone → the row is gone → answer.
 *
 * A destroy waits for what is under way and is then never refused; any number of callers wait for
 * the same end. Files that are to be kept are copied first (capture.h). A stop is not waited for:
 * it asks an init that may never answer, so that the connection is cut. Where the launcher cannot
 * end the cell, the callers are told, the row stays, and the reconciler tries again until it is
 * done. */
#include "base/auto.h"
#include "base/log.h"
#include "manager/capture.h"
#include "manager/life.h"
#include "manager/traits.h"

#include "base/banned.h"

#define LEAVE_NS 200000000u

void sg_destroy_forget(struct sg_sandbox *s)
{
    struct sg_manager *m = s->manager;

    m->metrics.destroys++;
    sg_expiry_stop(s);
    sg_health_forget(s);
    sg_usage_forget(s);
    sg_quota_release(s);
    sg_list_remove(s);
    sg_pause_disk_forget(s);
    sg_exec_forget(s, false);
    sg_files_forget(s, false);
    sg_life_bury(s);
}

static void row_gone(struct sg_sandbox *s)
{
    struct sg_err err;

    /* The sandbox is gone, whatever the store says; its row is finished at the next start. */
    if (sg_life_failed(s, &err))
        sg_log(SG_LOG_WARN, "row of a destroyed sandbox stays", SG_KV("sandbox", s->id.s),
               SG_KV("error", err.msg));
    sg_life_event(s, "sandbox.destroyed", "cause", s->cause);
    sg_destroy_forget(s);
    sg_life_answer(&s->life->waiting, NULL, NULL);
    sg_life_answer(&s->life->destroying, NULL, NULL);
}

static void row_removed(void *arg, const struct sg_err *err)
{
    sg_life_got(arg, err);
}

static void cell_gone(struct sg_sandbox *s)
{
    struct sg_life *life = s->life;
    struct sg_err err;

    if (sg_life_failed(s, &err)) {
        (void)sg_wrap(&err, "destroy the sandbox");
        sg_life_cause(s, err.msg);
        sg_log(SG_LOG_ERROR, "sandbox could not be destroyed", SG_KV("sandbox", s->id.s),
               SG_KV("error", err.msg));
        sg_life_answer(&life->destroying, NULL, &err);
        sg_life_end(s, &err);
        return;
    }
    sg_life_expect(s, 1, row_gone);
    sg_store_remove_sandbox(s->manager->store, s->id.s, sg_note_done,
                            sg_note_new(s->manager, row_removed, s));
}

static void row_written(struct sg_sandbox *s)
{
    struct sg_err err;

    /* A full disk is a reason to destroy, not one to keep. */
    if (sg_life_failed(s, &err))
        sg_log(SG_LOG_WARN, "destroy goes on without its row", SG_KV("sandbox", s->id.s),
               SG_KV("error", err.msg));
    sg_cell_end(s, cell_gone);
}

void sg_destroy_begin(struct sg_sandbox *s)
{
    sg_timer_stop(s->manager->loop, &s->life->leave);
    if (sg_capture_begin(s))
        return;
    s->life->wants_end = false;
    s->life->is_ending = true;
    sg_life_begin(s, OP_DESTROY);
    sg_life_must(s, EV_DESTROY);
    if (s->is_brief) { /* its row says so from the beginning */
        sg_cell_end(s, cell_gone);
        return;
    }
    sg_life_expect(s, 1, row_written);
    sg_life_put_row(s, SBX_STOPPING, SG_STORE_NORMAL);
}

int sg_manager_destroy(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb, void *arg,
                       struct sg_err *err)
{
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(s->manager, who, "sandbox.destroy", s, err);
    if (s->life->is_gone)
        return sg_fail(err, SG_NOT_FOUND, "no sandbox '%s'", s->id.s);
    sg_manager_audit(s->manager, who, "sandbox.destroy", s, NULL);
    sg_life_wait(&s->life->destroying, cb, arg);
    s->life->wants_end = true;
    if (s->life->op == OP_STOP)
        sg_cell_cut(s);
    sg_start_stop(s);
    sg_life_settle(s);
    return 0;
}

/* ---- one that nobody waits for ---- */

static void leave(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    sg_life_settle(SG_OWNER(t, struct sg_life, leave)->s);
}

/* The end of a sandbox takes more of the machine than most commands in it: where many come one
 * after the other, those that begin go before those that are over. Not where somebody might be
 * refused because of one that could be gone, or waits for a volume of its. */
void sg_destroy_soon(struct sg_sandbox *s, const struct sg_who *who)
{
    struct sg_manager *m = s->manager;
    struct sg_err err;

    if (s->life->op != OP_NONE || s->mounts.n || !sg_quota_is_ample(s->org, m)) {
        (void)sg_manager_destroy(s, who, NULL, NULL, &err);
        return;
    }
    sg_manager_audit(m, who, "sandbox.destroy", s, NULL);
    s->life->wants_end = true;
    s->life->leave.fire = leave;
    sg_timer_set(m->loop, &s->life->leave, sg_loop_now(m->loop) + LEAVE_NS);
}

/* ---- all of them ---- */

struct all {
    sg_count_cb *cb;
    void *arg;
    unsigned left, count;
    struct sg_err err;
};

static void one_less(struct all *all)
{
    if (--all->left > 0)
        return;
    all->cb(all->arg, all->count, all->err.kind == SG_OK ? NULL : &all->err);
    free(all);
}

static void one_gone(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct all *all = arg;

    (void)s;
    if (!err)
        all->count++;
    else if (all->err.kind == SG_OK)
        all->err = *err;
    one_less(all);
}

int sg_manager_destroy_all(struct sg_manager *m, const struct sg_who *who, sg_count_cb *cb,
                           void *arg, struct sg_err *err)
{
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, "sandbox.destroy_all", NULL, err);

    struct all *all = sg_new(struct all);
    *all = (struct all) { .cb = cb, .arg = arg, .left = 1 };
    for (struct sg_sandbox *s = m->newest; s; s = s->older) {
        if (s->org == who->org && !s->is_internal &&
            sg_manager_destroy(s, who, one_gone, all, err) == 0)
            all->left++; /* no callback comes from inside the call */
    }
    one_less(all);
    return 0;
}
