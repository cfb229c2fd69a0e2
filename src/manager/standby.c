/* SPDX-License-Identifier: Apache-2.0 */
/* Which sandboxes wait for whom; see standby.h. A place is for one of a build; it is filled, empty
 * for now, or empty until its pause is over. Now and then, and after each claim, places are
 * compared with what is wanted: the templates that were used last, in turns between organisations.
 */
#include "manager/standby.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "manager/built.h"
#include "manager/exec.h"
#include "manager/life.h"
#include "tier/tier.h"

#include "base/banned.h"

#define MS UINT64_C(1000000)
enum { PLACES_MAX = 256, STARTING_MAX = 2 };
static const uint64_t LOOK_NS = 1000 * MS, SOON_NS = 50 * MS;
static const uint64_t FIRST_PAUSE_NS = 1000 * MS, LONGEST_PAUSE_NS = 300000 * MS;

struct place {
    struct place *next;
    char build[SG_BUILD_ID_LEN + 1], template[SG_ID_LEN + 1], box[SG_ID_LEN + 1]; /* box "": none */
    bool is_ready, is_wanted;
    unsigned failures; /* in a row */
    uint64_t stamp;    /* of the base, where the template has no layer of its own; 0: not known */
    uint64_t retry_ns;
    char why[200]; /* of the last one; "": none */
};

struct sg_standbys {
    struct sg_manager *m;
    struct sg_timer clock;
    struct place *places;
    uint64_t taken, failures;
};

/* ---- one place ---- */

static struct sg_sandbox *box_of(const struct sg_manager *m, const struct place *p)
{
    return p->box[0] ? sg_map_find(&m->sandboxes, p->box) : NULL;
}

static void end_box(struct sg_manager *m, struct place *p)
{
    struct sg_sandbox *s = box_of(m, p);
    struct sg_err ignored;
    p->box[0] = '\0';
    p->is_ready = false;
    if (!s || m->is_ending)
        return;
    const struct sg_who us = { .org = s->org, .scopes = SG_SCOPE_ALL };
    (void)sg_manager_destroy(s, &us, NULL, NULL, &ignored);
}

static void failed(struct sg_manager *m, struct place *p, const char *why)
{
    uint64_t pause = LONGEST_PAUSE_NS;
    if (p->failures < 16 && FIRST_PAUSE_NS << p->failures < LONGEST_PAUSE_NS)
        pause = FIRST_PAUSE_NS << p->failures;
    end_box(m, p);
    p->retry_ns = sg_loop_now(m->loop) + pause;
    (void)snprintf(p->why, sizeof p->why, "%s", why);
    m->standbys->failures++;
    sg_log(p->failures++ ? SG_LOG_DEBUG : SG_LOG_WARN,
           "a sandbox with its start command running cannot be kept ready",
           SG_KV("template", p->template), SG_KV("error", why));
}

/* A start command that succeeded has done what it had to; see start.c. */
static const char *trouble(struct sg_sandbox *s)
{
    size_t cursor = 0;
    if (!s)
        return "it ended by itself";
    if (s->state != SBX_RUNNING || s->life->op != OP_NONE || s->life->has_died ||
        s->life->wants_end || s->life->peer_fd < 0)
        return s->cause[0] ? s->cause : "it does not answer";
    for (const char *id; (id = sg_map_next(&s->execs, &cursor));) {
        const struct sg_exec *x = sg_map_find(&s->execs, id);
        if (x->tag && strcmp(x->tag, "start") == 0 && x->ending != SG_EXEC_RUNNING &&
            (x->ending != SG_EXEC_EXIT || x->code != 0))
            return "its start command ended";
    }
    return NULL;
}

struct starting {
    struct sg_manager *m;
    char box[SG_ID_LEN + 1];
};

static void started(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    sg_auto_free struct starting *w = arg;
    (void)s;
    if (w->m->is_ending)
        return;
    for (struct place *p = w->m->standbys->places; p; p = p->next) {
        if (strcmp(p->box, w->box) != 0)
            continue;
        p->is_ready = !err;
        if (err)
            failed(w->m, p, err->msg);
        return;
    }
}

struct looking {
    struct sg_manager *m;
    char build[SG_BUILD_ID_LEN + 1];
};

static void identified(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    sg_auto_free struct looking *w = arg;
    if (w->m->is_ending || err || !p)
        return;
    const uint64_t stamp = p->msg.l_identified.stamp;
    for (struct place *at = w->m->standbys->places; at; at = at->next) {
        if (strcmp(at->build, w->build) != 0)
            continue;
        if (at->stamp && at->stamp != stamp)
            end_box(w->m, at);
        at->stamp = stamp;
    }
}

/* A template without a layer is what its base is, which somebody may have made anew. */
static void look_at_base(struct sg_manager *m, const struct sg_build *build)
{
    if (build->snapshot[0])
        return;
    struct looking *w = sg_new(struct looking);
    w->m = m;
    memcpy(w->build, build->id, sizeof w->build);
    sg_tier_identify(m->tier, build->base, identified, w);
}

static void start(struct sg_manager *m, struct place *p, const struct sg_built *b,
                  const struct sg_build *build)
{
    const struct sg_who us = { .org = b->org, .scopes = SG_SCOPE_ALL };
    const struct sg_create c = {
        .template = build->base,
        .snapshot = build->snapshot[0] ? build->snapshot : NULL,
        .traits = &build->traits,
        .built = b->id.s,
        .limits = build->limits,
        .timeout_ms = m->o.max_timeout_ms,
        .is_internal = true,
        .is_standby = true,
    };
    struct starting *w = sg_new(struct starting);
    struct sg_sandbox *s;
    struct sg_err err = { 0 };
    w->m = m;
    if (sg_manager_create_internal(m, &us, &c, started, w, &s, &err) < 0) {
        free(w);
        failed(m, p, err.msg);
        return;
    }
    memcpy(w->box, s->id.s, sizeof w->box);
    memcpy(p->box, s->id.s, sizeof p->box);
}

/* ---- what is wanted ---- */

/* What the template's name alone leads to, or the newest that any tag leads to. */
static const struct sg_build *current(const struct sg_built *b)
{
    const struct sg_build *found = b->is_going ? NULL : sg_built_tagged(b, "default");
    for (const struct sg_build *one = b->newest; one && !found && !b->is_going; one = one->older)
        for (size_t i = 0; i < b->tag_n; i++)
            if (strcmp(b->tags[i].build, one->id) == 0)
                found = one;
    return found && found->state == SG_BUILD_READY && found->traits.start ? found : NULL;
}

static int64_t used_ms(const struct sg_built *b, const struct sg_build *build)
{
    return b->spawned_ms > build->updated_ms ? b->spawned_ms : build->updated_ms;
}

struct choice {
    const struct sg_built *of;
    const struct sg_build *build;
};

static unsigned count(const struct choice *v, size_t n, const struct sg_org *org,
                      const struct sg_built *of)
{
    unsigned found = 0;
    for (size_t i = 0; i < n; i++)
        found += of ? v[i].of == of : v[i].of->org == org;
    return found;
}

/* The next one: of who has fewest so far, what was used last. */
static bool choose(const struct sg_manager *m, struct choice *v, size_t n)
{
    struct choice best = { 0 };
    unsigned fewest = 0;
    for (const struct sg_built *b = m->built; b; b = b->next) {
        const struct sg_build *build = current(b);
        if (!build || count(v, n, NULL, b) >= m->o.started_each)
            continue;
        const unsigned has = count(v, n, b->org, NULL);
        if (!best.of || has < fewest ||
            (has == fewest && used_ms(b, build) > used_ms(best.of, best.build))) {
            best = (struct choice) { b, build };
            fewest = has;
        }
    }
    v[n] = best;
    return best.of != NULL;
}

static struct place *unclaimed(struct sg_standbys *all, const char *build)
{
    for (struct place *p = all->places; p; p = p->next)
        if (!p->is_wanted && strcmp(p->build, build) == 0)
            return p;
    return NULL;
}

static void mark_wanted(struct sg_manager *m, const struct choice *v, size_t n)
{
    struct sg_standbys *all = m->standbys;
    for (struct place *p = all->places; p; p = p->next)
        p->is_wanted = false;
    for (size_t i = 0; i < n; i++) {
        struct place *p = unclaimed(all, v[i].build->id);
        if (!p) {
            p = sg_new(struct place);
            memcpy(p->build, v[i].build->id, sizeof p->build);
            memcpy(p->template, v[i].of->id.s, sizeof p->template);
            p->next = all->places;
            all->places = p;
        }
        p->is_wanted = true;
    }
}

static void drop_unwanted(struct sg_manager *m)
{
    for (struct place **at = &m->standbys->places; *at;) {
        struct place *p = *at;
        if (p->is_wanted) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        end_box(m, p);
        free(p);
    }
}

static void fill(struct sg_manager *m, const struct choice *v, size_t n)
{
    unsigned starting = 0;
    for (struct place *p = m->standbys->places; p; p = p->next) {
        const char *why = p->is_ready ? trouble(box_of(m, p)) : NULL;
        if (why)
            failed(m, p, why);
        starting += p->box[0] && !p->is_ready;
    }
    for (struct place *p = m->standbys->places; p && starting < STARTING_MAX; p = p->next) {
        if (p->box[0] || sg_loop_now(m->loop) < p->retry_ns)
            continue;
        for (size_t i = 0; i < n; i++)
            if (strcmp(v[i].build->id, p->build) == 0) {
                start(m, p, v[i].of, v[i].build);
                starting++;
                break;
            }
    }
}

static void look(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_manager *m = SG_OWNER(t, struct sg_standbys, clock)->m;
    struct choice v[PLACES_MAX + 1];
    size_t n = 0;
    while (!m->is_memory_short && n < m->o.started && n < PLACES_MAX && choose(m, v, n))
        n++;
    mark_wanted(m, v, n);
    drop_unwanted(m);
    for (size_t i = 0; i < n; i++)
        if (!count(v, i, NULL, v[i].of))
            look_at_base(m, v[i].build);
    fill(m, v, n);
    sg_timer_set(m->loop, t, now_ns + LOOK_NS);
}

/* Not at once: whoever took one wants the processor now. */
void sg_standby_soon(struct sg_manager *m)
{
    if (m->standbys && sg_timer_is_set(&m->standbys->clock))
        sg_timer_set(m->loop, &m->standbys->clock, sg_loop_now(m->loop) + SOON_NS);
}

/* ---- taking ---- */

struct sg_sandbox *sg_standby_take(struct sg_manager *m, const struct sg_org *org,
                                   const char *build, enum sg_wall wall)
{
    for (struct place *p = m->standbys ? m->standbys->places : NULL; p; p = p->next) {
        struct sg_sandbox *s = p->is_ready ? box_of(m, p) : NULL;
        if (strcmp(p->build, build) != 0 || !s || s->org != org || s->wall != wall || trouble(s))
            continue;
        p->box[0] = '\0';
        p->is_ready = false;
        p->failures = 0;
        p->why[0] = '\0';
        m->standbys->taken++;
        sg_standby_soon(m);
        return s;
    }
    return NULL;
}

/* ---- how they are ---- */

static bool is_of(struct sg_manager *m, const struct place *p, const struct sg_org *org)
{
    const struct sg_built *b = sg_built_by_id(m, p->template);
    return !org || (b && b->org == org);
}

struct sg_standby_counts sg_standby_counts(struct sg_manager *m, const struct sg_org *org)
{
    struct sg_standby_counts c = { 0 };
    if (!m->standbys)
        return c;
    c.taken = m->standbys->taken;
    c.failures = m->standbys->failures;
    for (const struct place *p = m->standbys->places; p; p = p->next) {
        if (!is_of(m, p, org))
            continue;
        c.wanted++;
        c.ready += p->is_ready;
        c.starting += p->box[0] && !p->is_ready;
        if (!p->is_ready && p->failures > 0) {
            c.failing++;
            c.why = p->why;
        }
    }
    return c;
}

void sg_standby_start(struct sg_manager *m)
{
    m->standbys = sg_new(struct sg_standbys);
    m->standbys->m = m;
    m->standbys->clock.fire = look;
    if (m->o.started && m->o.started_each)
        sg_timer_set(m->loop, &m->standbys->clock, sg_loop_now(m->loop) + SOON_NS);
}

void sg_standby_free(struct sg_manager *m)
{
    if (!m->standbys)
        return;
    sg_timer_stop(m->loop, &m->standbys->clock);
    for (struct place *p; (p = m->standbys->places);) {
        m->standbys->places = p->next;
        free(p);
    }
    free(sg_take_ptr(&m->standbys));
}
