/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/pool.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "launcher/holder.h"
#include "launcher/launcher.h"
#include "launcher/serve.h"
#include "sys/kfile.h"
#include "base/banned.h"

#define MS UINT64_C(1000000)

/* So many at a time: one builds while the others' own processes do their part. */
enum { MAX_MAKING = 3, MIN_FREE_MIB = 256, MIN_FREE_PART = 32 };

/* After the last one was taken, with more than half of a pool left, and with less. */
static const uint64_t AMPLE_NS = 100 * MS, LEISURE_NS = 5 * MS;
static const uint64_t BURST_NS = 1000 * MS; /* but not longer than that */
static const uint64_t BETWEEN_NS = 1 * MS;  /* one and the next */
enum { LOW_PART = 8 };                      /* of a pool: with less left nobody waits */
static const uint64_t LOOK_NS = 2000 * MS;  /* at pressure and at templates */
static const uint64_t FIRST_PAUSE_NS = 500 * MS, LONGEST_PAUSE_NS = 30000 * MS;

static struct sg_pool *new_pool(struct sg_launcher *l, enum sg_l_tier tier, const char *template,
                                uint64_t pids)
{
    struct sg_pool *p = sg_new(struct sg_pool);
    p->launcher = l;
    p->tier = tier;
    p->pids = pids;
    (void)snprintf(p->template, sizeof p->template, "%s", template);
    p->parked_end = &p->parked;
    p->wishes_end = &p->wishes;
    p->next = l->maker.pools;
    l->maker.pools = p;
    return p;
}

static void free_pool(struct sg_pool *p)
{
    sg_tmpl_unref(p->tmpl);
    free((void *)(uintptr_t)p->mounts.p);
    free(p);
}

static struct sg_pool *find(struct sg_launcher *l, enum sg_l_tier tier, const char *template,
                            uint64_t pids)
{
    for (struct sg_pool *p = l->maker.pools; p; p = p->next)
        if (p->tier == tier && p->pids == pids && !p->mounts.count &&
            strcmp(p->template, template) == 0)
            return p;
    return new_pool(l, tier, template, pids);
}

/* ---- the template ---- */

static void end_parked(struct sg_pool *p, unsigned left)
{
    while (p->parked_count > left)
        sg_box_end(p->parked); /* takes itself off the list */
}

/* `host` is what the machine is right now: it has another directory for every state of it. */
static bool is_current(const struct sg_pool *p)
{
    if (p->tier == SG_L_TIER_DOCKER && !p->tmpl->t.layer) /* an image is the Engine's */
        return true;
    if (strcmp(p->template, "host") != 0)
        return sg_tmpl_is_current(p->launcher, p->tmpl);
    struct sg_err ignored;
    struct sg_tmpl *now = sg_tmpl_open(p->launcher, p->template, &ignored);
    const bool is_same = now && now->ino == p->tmpl->ino && now->dev == p->tmpl->dev;
    sg_tmpl_unref(now);
    return is_same;
}

/* Opens it, and once more when it was replaced: then those parked are of the old one. */
static int look_at_template(struct sg_pool *p, struct sg_err *err)
{
    const uint64_t now = sg_loop_now(p->launcher->loop);
    const bool is_fresh = now - p->looked_ns < LOOK_NS && strcmp(p->template, "host") == 0;
    if (p->tmpl && (is_fresh || is_current(p))) {
        p->looked_ns = now;
        return 0;
    }
    end_parked(p, 0);
    sg_tmpl_unref(sg_take_ptr(&p->tmpl));
    p->tmpl = p->tier == SG_L_TIER_DOCKER ? sg_container_template(p->launcher, p->template)
                                          : sg_tmpl_open(p->launcher, p->template, err);
    p->looked_ns = now;
    return p->tmpl ? 0 : -1;
}

/* ---- making ---- */

static unsigned missing(const struct sg_pool *p)
{
    const struct sg_maker *m = &p->launcher->maker;
    const unsigned wanted = p->wish_count + (m->is_short ? 0 : p->demand.wanted);
    const unsigned have = p->making + p->parked_count;
    return wanted > have ? wanted - have : 0;
}

/* Creates for which nothing is on its way yet. */
static unsigned unmet(const struct sg_pool *p)
{
    return p->wish_count > p->making ? p->wish_count - p->making : 0;
}

/* Who makes one tier's slowly, or fetches an image first, holds up none of another. */
static bool is_busy(const struct sg_launcher *l, enum sg_l_tier tier)
{
    unsigned making = 0;
    for (const struct sg_pool *p = l->maker.pools; p; p = p->next)
        making += p->tier == tier ? p->making : 0;
    return making >= MAX_MAKING;
}

/* Those who wait come first. */
static struct sg_pool *most_urgent(struct sg_launcher *l)
{
    struct sg_pool *best = NULL;
    for (struct sg_pool *p = l->maker.pools; p; p = p->next) {
        if (!missing(p) || (!unmet(p) && sg_loop_now(l->loop) < p->retry_ns) || is_busy(l, p->tier))
            continue;
        if (!best || unmet(p) > unmet(best))
            best = p;
    }
    return best;
}

static void go_on(struct sg_launcher *l);

static void step(struct sg_launcher *l)
{
    struct sg_pool *p = l->maker.is_off ? NULL : most_urgent(l);
    if (!p)
        return;
    struct sg_err err = { 0 };
    p->making++;
    if (look_at_template(p, &err) < 0 || !sg_box_make(l, p, p->tmpl, &err))
        sg_pool_not_made(p, &err);
    go_on(l);
}

static void step_now(struct sg_later *later)
{
    step(SG_OWNER(later, struct sg_launcher, maker.step));
}

static void step_at_leisure(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    step(SG_OWNER(t, struct sg_launcher, maker.leisure));
}

static void go_on(struct sg_launcher *l)
{
    struct sg_maker *m = &l->maker;
    const uint64_t now = sg_loop_now(l->loop);
    if (m->wish_count) {
        sg_later_call(l->loop, &m->step);
    } else if (!m->is_off && !sg_timer_is_set(&m->leisure)) {
        m->since_ns = now;
        sg_timer_set(l->loop, &m->leisure, now + BETWEEN_NS);
    }
}

/* For those who wait at once. A refill comes a moment later: whoever took the parked one goes on
 * with it now, and would have to share the processor with the making of the next. So do those who
 * take the next ones, as long as there are some. */
static void put_off(struct sg_pool *p)
{
    struct sg_maker *m = &p->launcher->maker;
    struct sg_loop *l = p->launcher->loop;
    const uint64_t now = sg_loop_now(l);
    if (sg_timer_is_set(&m->leisure) && p->parked_count > p->demand.wanted / LOW_PART &&
        now - m->since_ns < BURST_NS)
        sg_timer_set(l, &m->leisure,
                     now + (p->parked_count > p->demand.wanted / 2 ? AMPLE_NS : LEISURE_NS));
}

static struct sg_wish *pop_wish(struct sg_pool *p)
{
    struct sg_wish *w = p->wishes;
    if (!w)
        return NULL;
    p->wishes = w->next;
    if (!p->wishes)
        p->wishes_end = &p->wishes;
    p->wish_count--;
    p->launcher->maker.wish_count--;
    return w;
}

void sg_pool_made(struct sg_pool *p, struct sg_box *b)
{
    p->making--;
    p->pause_ns = 0;
    p->has_complained = false;
    sg_auto_free struct sg_wish *w = pop_wish(p);
    if (w) {
        sg_serve_wish(p->launcher, w, b, NULL);
    } else if (p->mounts.count) { /* nobody else wants it */
        sg_box_end(b);
    } else {
        b->next = NULL;
        b->was_parked = true;
        *p->parked_end = b;
        p->parked_end = &b->next;
        p->parked_count++;
    }
    go_on(p->launcher);
}

void sg_pool_not_made(struct sg_pool *p, const struct sg_err *err)
{
    p->making--;
    p->pause_ns = p->pause_ns ? p->pause_ns * 2 : FIRST_PAUSE_NS;
    if (p->pause_ns > LONGEST_PAUSE_NS)
        p->pause_ns = LONGEST_PAUSE_NS;
    p->retry_ns = sg_loop_now(p->launcher->loop) + p->pause_ns;
    sg_auto_free struct sg_wish *w = pop_wish(p);
    if (w)
        sg_serve_wish(p->launcher, w, NULL, err);
    else
        sg_log(p->has_complained ? SG_LOG_DEBUG : SG_LOG_WARN, "a sandbox cannot be made ahead",
               SG_KV("template", p->template), SG_KV("error", err->msg));
    p->has_complained = true;
    go_on(p->launcher);
}

/* ---- those who ask ---- */

static struct sg_box *pop_parked(struct sg_pool *p)
{
    struct sg_box *b = p->parked;
    if (b)
        sg_pool_drop(p, b);
    return b;
}

void sg_pool_drop(struct sg_pool *p, struct sg_box *b)
{
    for (struct sg_box **at = &p->parked; *at; at = &(*at)->next) {
        if (*at != b)
            continue;
        *at = b->next;
        if (p->parked_end == &b->next)
            p->parked_end = at;
        p->parked_count--;
        break;
    }
    go_on(p->launcher);
}

static struct sg_pool *pool_for(struct sg_launcher *l, const struct sg_msg_l_create *c)
{
    const bool is_usual = c->tier != SG_L_TIER_GVISOR || c->pids == l->set.defaults.pids;
    const uint64_t pids = is_usual ? 0 : c->pids;
    if (!c->mounts.count)
        return find(l, c->tier, c->template.p, pids);
    struct sg_pool *p = new_pool(l, c->tier, c->template.p, pids);
    uint8_t *copy = sg_alloc(c->mounts.n);
    memcpy(copy, c->mounts.p, c->mounts.n);
    p->mounts = (struct sg_texts) { copy, c->mounts.n, c->mounts.count };
    return p;
}

int sg_pool_take(struct sg_launcher *l, const struct sg_msg_l_create *c, struct sg_box **ret,
                 struct sg_pool **ret_pool, struct sg_err *err)
{
    if (c->tier == SG_L_TIER_DOCKER && sg_id_is_valid(c->template.p, 't'))
        return sg_fail(err, SG_UNSUPPORTED, "a snapshot cannot be a container: tier cell can");
    struct sg_pool *p = pool_for(l, c);
    if (look_at_template(p, err) < 0)
        return -1;
    sg_demand_take(&p->demand, sg_loop_now(l->loop));
    *ret = p->wishes ? NULL : pop_parked(p);
    put_off(p);
    *ret_pool = p;
    return 0;
}

void sg_pool_wait(struct sg_pool *p, const struct sg_wish *w)
{
    struct sg_wish *own = sg_new(struct sg_wish);
    *own = *w;
    own->next = NULL;
    *p->wishes_end = own;
    p->wishes_end = &own->next;
    p->wish_count++;
    p->launcher->maker.wish_count++;
    go_on(p->launcher);
}

static struct sg_wish **find_wish(const struct sg_launcher *l, const char *sandbox,
                                  struct sg_pool **ret_pool)
{
    for (struct sg_pool *p = l->maker.pools; p; p = p->next)
        for (struct sg_wish **at = &p->wishes; *at; at = &(*at)->next)
            if (strcmp((*at)->sandbox, sandbox) == 0) {
                *ret_pool = p;
                return at;
            }
    return NULL;
}

bool sg_maker_has_wish(const struct sg_launcher *l, const char *sandbox)
{
    struct sg_pool *p;
    return find_wish(l, sandbox, &p) != NULL;
}

bool sg_maker_forget(struct sg_launcher *l, const char *sandbox, uint32_t *ret_id)
{
    struct sg_pool *p;
    struct sg_wish **at = find_wish(l, sandbox, &p);
    if (!at)
        return false;
    sg_auto_free struct sg_wish *w = *at;
    *ret_id = w->id;
    *at = w->next;
    if (p->wishes_end == &w->next)
        p->wishes_end = at;
    p->wish_count--;
    p->launcher->maker.wish_count--;
    return true;
}

void sg_maker_forget_all(struct sg_launcher *l)
{
    for (struct sg_pool *p = l->maker.pools; p; p = p->next)
        for (struct sg_wish *w; (w = pop_wish(p));)
            free(w);
}

/* ---- looking after it ---- */

/* A parked cell is memory that somebody could use. */
static bool is_memory_short(void)
{
    char text[4096];
    uint64_t kib[2] = { UINT64_MAX, UINT64_MAX };
    static const char *const keys[] = { "\nMemAvailable:", "MemTotal:" };
    if (sg_file_read(AT_FDCWD, "/proc/meminfo", text, sizeof text, NULL) < 0)
        return false;
    for (size_t i = 0; i < SG_COUNT(keys); i++) {
        const char *p = strstr(text, keys[i]);
        if (!p)
            return false;
        p += strlen(keys[i]);
        p += strspn(p, " ");
        if (sg_parse_u64((struct sg_str) { p, strspn(p, "0123456789") }, 0, UINT64_MAX, &kib[i],
                         NULL) < 0)
            return false;
    }
    uint64_t least = (uint64_t)MIN_FREE_MIB << 10;
    if (kib[1] / MIN_FREE_PART < least)
        least = kib[1] / MIN_FREE_PART;
    return kib[0] < least;
}

/* Of snapshots there may be any number, most of them used once. */
static void drop_idle(struct sg_launcher *l)
{
    for (struct sg_pool **at = &l->maker.pools; *at;) {
        struct sg_pool *p = *at;
        if (p->demand.wanted || p->parked || p->making || p->wishes) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        free_pool(p);
    }
}

static void look_after(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_launcher *l = SG_OWNER(t, struct sg_launcher, maker.timer);
    const bool is_short = is_memory_short();
    l->maker.has_place = false; /* we may have been moved to another cgroup */
    if (is_short != l->maker.is_short)
        sg_log(SG_LOG_WARN,
               is_short ? "memory is short: nothing is parked" : "memory is there again");
    l->maker.is_short = is_short;
    for (struct sg_pool *p = l->maker.pools; p; p = p->next) {
        sg_demand_look(&p->demand, now_ns);
        if (is_short)
            end_parked(p, 0);
        else if (p->tmpl && !is_current(p)) {
            end_parked(p, 0);
            sg_tmpl_unref(sg_take_ptr(&p->tmpl));
        } else {
            end_parked(p, p->demand.wanted);
        }
    }
    drop_idle(l);
    sg_import_look(l, now_ns);
    sg_image_tidy(l);
    go_on(l);
    sg_timer_set(l->loop, t, now_ns + LOOK_NS);
}

/* ---- start and end ---- */

/* "TIER:TEMPLATE", or a template of cells. */
static const char *split_tier(const char *text, enum sg_l_tier *ret)
{
    for (unsigned i = 0; i < SG_L_TIER_COUNT; i++) {
        const size_t n = strlen(sg_tiers[i].name);
        if (strncmp(text, sg_tiers[i].name, n) == 0 && text[n] == ':') {
            *ret = (enum sg_l_tier)i;
            return text + n + 1;
        }
    }
    *ret = SG_L_TIER_CELL;
    return text;
}

int sg_maker_init(struct sg_launcher *l, char *const *list, size_t n, unsigned most,
                  struct sg_err *err)
{
    l->maker.step.call = step_now;
    l->maker.leisure.fire = step_at_leisure;
    l->maker.timer.fire = look_after;
    for (size_t i = 0; i < n; i++) {
        const char *eq = strrchr(list[i], '=');
        uint64_t count = 0;
        if (!eq || sg_parse_u64(sg_str_of(eq + 1), 0, SG_SLOT_COUNT, &count, err) < 0)
            return sg_fail(err, SG_INVALID,
                           "serve.pool: %s is not [TIER:]TEMPLATE=NUMBER (up to %d)",
                           sg_quote(list[i]).s, SG_SLOT_COUNT);
        sg_auto_free char *text = sg_printf("%.*s", (int)(eq - list[i]), list[i]);
        enum sg_l_tier tier;
        const char *name = split_tier(text, &tier);
        if (strcmp(name, "host") != 0 && tier != SG_L_TIER_DOCKER &&
            sg_template_check_name(name, err) < 0)
            return sg_wrap(err, "serve.pool");
        sg_demand_init(&find(l, tier, name, 0)->demand, (unsigned)count,
                       count && tier == SG_L_TIER_CELL ? most : 0);
    }
    return 0;
}

void sg_maker_begin(struct sg_launcher *l)
{
    go_on(l);
    sg_timer_set(l->loop, &l->maker.timer, sg_loop_now(l->loop) + LOOK_NS);
}

void sg_maker_look(struct sg_launcher *l)
{
    for (struct sg_pool *p = l->maker.pools; p; p = p->next)
        p->retry_ns = 0;
    if (sg_timer_is_set(&l->maker.timer)) /* it has begun */
        go_on(l);
}

void sg_maker_end(struct sg_launcher *l)
{
    l->maker.is_off = true;
    sg_timer_stop(l->loop, &l->maker.timer);
    sg_timer_stop(l->loop, &l->maker.leisure);
    sg_maker_forget_all(l);
    for (struct sg_pool *p = l->maker.pools; p; p = p->next)
        end_parked(p, 0);
    for (struct sg_box *b = l->boxes, *next; b; b = next) {
        next = b->all_next;
        if (b->state == SG_BOX_MAKING)
            sg_box_end(b);
    }
}

void sg_maker_done(struct sg_launcher *l)
{
    sg_later_cancel(l->loop, &l->maker.step);
    for (struct sg_pool *p; (p = l->maker.pools);) {
        l->maker.pools = p->next;
        free_pool(p);
    }
}
