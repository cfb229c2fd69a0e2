/* SPDX-License-Identifier: Apache-2.0 */
/* The manager as a whole: its beginning, its end, and what everything in it shares. */
#include "manager/manager.h"

#include <sys/random.h>
#include <time.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "base/log.h"
#include "manager/approval.h"
#include "manager/build.h"
#include "manager/life.h"
#include "manager/standby.h"
#include "manager/upload.h"
#include "meter/audit.h"
#include "tier/peer.h"
#include "manager/trace.h"
#include "tier/tier.h"

#include "base/banned.h"

/* ---- beginning ---- */

/* What the launcher has done of what it was asked is not known: from here on no row changes, and
 * the next daemon finishes what the rows say was under way. */
static void launcher_losing(void *arg)
{
    struct sg_manager *m = arg;
    m->is_ending = true;
}

/* They are one service: without the launcher nothing can be done or known, and the next daemon
 * finds everything in the store and in the cells. */
static void launcher_lost(void *arg, const struct sg_err *err)
{
    struct sg_manager *m = arg;

    sg_log(SG_LOG_ERROR, "the launcher is gone", SG_KV("error", err->msg));
    sg_loop_stop(m->loop);
}

static int load(struct sg_manager *m, struct sg_err *err)
{
    if (sg_rules_load(m, err) < 0 || sg_tenant_load(m, err) < 0 || sg_events_load(m, err) < 0 ||
        sg_snapshots_load(m, err) < 0 || sg_built_load(m, err) < 0 || sg_uploads_load(m, err) < 0 ||
        sg_recover_load(m, err) < 0 || sg_approvals_load(m, err) < 0)
        return -1;
    return 0;
}

struct sg_manager *sg_manager_new(struct sg_loop *l, struct sg_store *store, struct sg_audit *audit,
                                  int launcher_fd, const struct sg_manager_options *o,
                                  void (*ready)(void *arg, const struct sg_err *err), void *arg,
                                  struct sg_err *err)
{
    static const struct sg_tier_ops ops = {
        sg_death_launcher, launcher_lost,  launcher_losing,
        sg_net_gate,       sg_traces_link, sg_pause_memory_news
    };
    sg_auto_fd fd = launcher_fd;
    struct sg_manager *m = sg_new(struct sg_manager);

    m->loop = l;
    m->store = store;
    m->audit = audit;
    m->o = *o;
    m->default_template = sg_strdup(o->default_template);
    m->o.default_template = m->default_template;
    m->rules = m->o.rules;
    m->intercept = m->o.intercept;
    m->walls = m->o.walls ? *m->o.walls : sg_walls_today;
    if (o->prices)
        m->prices = *o->prices;
    else
        sg_prices_builtin(&m->prices);
    m->ready = ready;
    m->ready_arg = arg;
    sg_map_init(&m->sandboxes);
    sg_map_init(&m->snapshots);
    if (getrandom(&m->epoch, sizeof m->epoch, 0) != (ssize_t)sizeof m->epoch)
        m->epoch = (uint32_t)sg_manager_unix_ms();
    m->epoch |= 1; /* 0 means any */
    m->o.traces = NULL;
    if ((o->traces && sg_traces_start(m, o->traces, err) < 0) || load(m, err) < 0 ||
        !(m->tier = sg_tier_new(l, sg_take_fd(&fd), &ops, m, err))) {
        sg_manager_free(m);
        return NULL;
    }
    sg_recover_start(m);
    return m;
}

struct sg_loop *sg_manager_loop(const struct sg_manager *m)
{
    return m->loop;
}

const struct sg_manager_options *sg_manager_options(const struct sg_manager *m)
{
    return &m->o;
}

struct sg_store *sg_manager_store(const struct sg_manager *m)
{
    return m->store;
}

/* ---- the store's callbacks ---- */

struct sg_note {
    struct sg_note *next, **link; /* link NULL: the manager has ended */
    void (*done)(void *arg, const struct sg_err *err);
    void *arg;
};

struct sg_note *sg_note_new(struct sg_manager *m, void (*done)(void *arg, const struct sg_err *err),
                            void *arg)
{
    struct sg_note *n = sg_new(struct sg_note);

    *n = (struct sg_note) { m->notes, &m->notes, done, arg };
    if (n->next)
        n->next->link = &n->next;
    m->notes = n;
    return n;
}

void sg_note_done(void *note, const struct sg_err *err)
{
    struct sg_note *n = note;

    if (n->link) {
        *n->link = n->next;
        if (n->next)
            n->next->link = n->link;
        n->done(n->arg, err);
    }
    free(n);
}

/* ---- the end ---- */

static void end_notes(struct sg_manager *m, const struct sg_err *err)
{
    for (struct sg_note *n; (n = m->notes);) {
        m->notes = n->next;
        if (m->notes)
            m->notes->link = &m->notes;
        n->link = NULL; /* freed when the store calls */
        n->done(n->arg, err);
    }
}

static void end_sandbox(struct sg_sandbox *s, const struct sg_err *err)
{
    sg_life_answer(&s->life->waiting, NULL, err);
    sg_life_answer(&s->life->destroying, NULL, err);
    sg_life_answer(&s->life->soon, NULL, err);
    sg_health_forget(s);
    sg_usage_forget(s);
    sg_exec_forget(s, true);
    sg_files_forget(s, true);
}

void sg_manager_free(struct sg_manager *m)
{
    struct sg_err err = { 0 };

    if (!m)
        return;
    (void)sg_fail(&err, SG_UNAVAILABLE, "the service is ending");
    m->is_ending = true;
    sg_timer_stop(m->loop, &m->usage);
    sg_timer_stop(m->loop, &m->gc);
    sg_timer_stop(m->loop, &m->samples);
    sg_standby_free(m);
    sg_rules_done(m);
    sg_timer_stop(m->loop, &m->reconcile);
    sg_moves_end(m, &err);
    for (struct sg_sandbox *s = m->newest; s; s = s->older)
        end_sandbox(s, &err);
    sg_tier_free(m->tier);
    sg_net_free(m, &err);
    sg_traces_free(m);
    sg_reconcile_free(m);
    sg_recover_free(m);
    sg_refusals_sum(m);
    sg_approvals_end(m, &err);
    if (m->free_tasks) /* after everything that may answer one */
        m->free_tasks(m);
    end_notes(m, &err); /* the last: those before may have written something */
    sg_approvals_free(m);
    for (struct sg_sandbox *s = m->newest, *older; s; s = older) {
        older = s->older;
        sg_life_free(s);
    }
    while (m->graves)
        sg_life_free(m->graves);
    sg_map_done(&m->sandboxes);
    sg_builds_end(m);
    sg_built_free_all(m);
    sg_uploads_free(m);
    sg_snapshots_free(m);
    sg_events_free(m);
    sg_tenant_free(m);
    for (size_t i = 0; i < m->pool_n; i++)
        free(m->pool[i]);
    free(m->pool);
    sg_rules_free(m->rules);
    sg_intercept_free(m->intercept);
    free(m->default_template);
    free(m);
}

/* ---- shared ---- */

int64_t sg_manager_unix_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void audit(struct sg_manager *m, const struct sg_who *who, const struct sg_org *org,
                  const char *action, const struct sg_sandbox *s, const char *detail)
{
    const bool is_ours = s && s->is_internal; /* what is done in it is told, its own life is not */
    struct sg_audit_entry e = {
        .org = org ? org->id.s : NULL,
        .actor = !who               ? "manager"
                 : who->key         ? who->key->id.s
                 : who->is_operator ? "operator"
                                    : "token", /* of the sandbox itself */
        .action = action,
        .sandbox = s && !is_ours ? s->id.s : NULL,
        .detail = detail,
        .request = who ? who->request_id : NULL,
    };

    if (m->audit && !(is_ours && sg_starts_with(action, "sandbox.")))
        sg_audit_add(m->audit, &e, sg_manager_unix_ms());
}

void sg_manager_audit(struct sg_manager *m, const struct sg_who *who, const char *action,
                      const struct sg_sandbox *s, const char *detail)
{
    audit(m, who, s ? s->org : who ? who->org : NULL, action, s, detail);
}

void sg_manager_audit_of(struct sg_manager *m, const struct sg_who *who, const struct sg_org *org,
                         const char *action, const char *detail)
{
    audit(m, who, org, action, NULL, detail);
}

void sg_manager_audit_value(struct sg_manager *m, const struct sg_who *who, const char *action,
                            const struct sg_sandbox *s, const char *key, const char *value)
{
    sg_auto_buf detail;
    struct sg_json j;

    sg_buf_init(&detail, 4096);
    sg_json_init(&j, &detail);
    sg_json_open(&j, '{');
    sg_json_key(&j, key);
    sg_json_str(&j, value);
    sg_json_close(&j, '}');
    sg_manager_audit(m, who, action, s, sg_buf_cstr(&detail));
}

/* ---- names that the launcher knows ---- */

struct names {
    sg_names_cb *cb;
    void *arg;
};

static void named(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct names *n = arg;
    const char **v = NULL;
    size_t count = 0;
    struct sg_text one;

    if (!err) {
        struct sg_texts list = p->msg.l_listed.names;
        v = sg_alloc((list.count + 1) * sizeof *v);
        while (sg_text_next(&list, &one))
            v[count++] = one.p;
    }
    n->cb(n->arg, v, count, err);
    free(v);
    free(n);
}

static struct names *names_new(sg_names_cb *cb, void *arg)
{
    struct names *n = sg_new(struct names);
    *n = (struct names) { cb, arg };
    return n;
}

int sg_manager_pool(struct sg_manager *m, sg_names_cb *cb, void *arg, struct sg_err *err)
{
    (void)err;
    sg_tier_pool(m->tier, named, names_new(cb, arg));
    return 0;
}

int sg_manager_templates(struct sg_manager *m, sg_names_cb *cb, void *arg, struct sg_err *err)
{
    (void)err;
    sg_tier_templates(m->tier, named, names_new(cb, arg));
    return 0;
}
