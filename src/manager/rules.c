/* SPDX-License-Identifier: Apache-2.0 */
/* The rules in use: the router's, and those on tool calls. The daemon sees no files, so the
 * launcher is asked now and then for each, by the stamp of the one that is known. A file with a
 * mistake changes nothing but the record: the rules before it stay in force, because none would let
 * everything through or nothing. */
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "manager/life.h"
#include "tier/tier.h"

#include "base/banned.h"

#define LOOK_NS 1000000000u

int sg_manager_route(struct sg_manager *m, const struct sg_who *who, const struct sg_ask *a,
                     struct sg_decision *ret, struct sg_err *err)
{
    struct sg_ask own = *a;

    own.org = who->org->id.s;
    return sg_router_decide(m->rules, &m->walls, &own, ret, err);
}

/* ---- tiers ---- */

/* The walls that the launcher can put up. */
static const int tier_of[SG_WALL_COUNT] = {
    [SG_WALL_NONE] = -1,
    [SG_WALL_WASM] = -1,
    [SG_WALL_CELL] = SG_L_TIER_CELL,
    [SG_WALL_DOCKER] = SG_L_TIER_DOCKER,
    [SG_WALL_GVISOR] = SG_L_TIER_GVISOR,
    [SG_WALL_MICROVM] = -1,
    [SG_WALL_REMOTE] = -1,
};

void sg_rules_welcomed(struct sg_manager *m)
{
    for (unsigned w = 0; !m->o.walls && w < SG_WALL_COUNT; w++)
        if (tier_of[w] >= 0)
            m->walls.missing[w] = sg_tier_lacks(m->tier, (enum sg_l_tier)tier_of[w]);
}

int sg_rules_tier(const struct sg_manager *m, enum sg_wall wall, enum sg_l_tier *ret,
                  struct sg_err *err)
{
    if (tier_of[wall] < 0)
        return sg_fail(err, SG_UNSUPPORTED, "tier %s is not built into this service",
                       sg_wall_names[wall]);
    const enum sg_l_tier tier = (enum sg_l_tier)tier_of[wall];
    const char *why = sg_tier_lacks(m->tier, tier);
    if (why)
        return sg_fail(err, SG_UNSUPPORTED, "tier %s is not to be had here: %s",
                       sg_wall_names[wall], why);
    *ret = tier;
    return 0;
}

const char *sg_manager_rules_error(const struct sg_manager *m)
{
    return m->rule_files[SG_RULE_FILE_ROUTER].error;
}

int sg_rules_load(struct sg_manager *m, struct sg_err *err)
{
    if (!m->rules)
        m->rules = sg_rules_builtin(err);
    if (m->rules && !m->intercept)
        m->intercept = sg_intercept_builtin(err);
    return m->rules && m->intercept ? 0 : -1;
}

/* ---- one file of each kind ---- */

/* `text` NULL: there is none, take the built-in ones. *ret_revision is NULL where nothing is new.
 */
typedef int take_fn(struct sg_manager *m, const struct sg_str *text, const char **ret_revision,
                    struct sg_err *err);

static int take_router(struct sg_manager *m, const struct sg_str *text, const char **ret_revision,
                       struct sg_err *err)
{
    struct sg_rules *r = text ? sg_rules_parse(*text, "router.toml", err) : sg_rules_builtin(err);

    if (!r)
        return -1;
    *ret_revision = strcmp(r->revision, m->rules->revision) != 0 ? r->revision : NULL;
    sg_rules_free(m->rules);
    m->rules = r;
    return 0;
}

static int take_intercept(struct sg_manager *m, const struct sg_str *text,
                          const char **ret_revision, struct sg_err *err)
{
    struct sg_intercept_rules *r =
        text ? sg_intercept_parse(*text, "intercept.toml", err) : sg_intercept_builtin(err);

    if (!r)
        return -1;
    *ret_revision = strcmp(r->revision, m->intercept->revision) != 0 ? r->revision : NULL;
    sg_intercept_free(m->intercept);
    m->intercept = r;
    return 0;
}

static const struct {
    const char *reloaded, *rejected, *stays, *other;
    take_fn *take;
} kinds[SG_RULE_FILE_COUNT] = {
    [SG_RULE_FILE_ROUTER] = { "router.reloaded", "router.rejected",
                              "the router's rules stay as they are", "the router has other rules",
                              take_router },
    [SG_RULE_FILE_INTERCEPT] = { "intercept.reloaded", "intercept.rejected",
                                 "the rules on tool calls stay as they are",
                                 "there are other rules on tool calls", take_intercept },
};

/* ---- others in their place ---- */

static void tell(struct sg_manager *m, const char *type, const char *key, const char *value)
{
    sg_auto_buf data;
    struct sg_json j;

    sg_buf_init(&data, 4096);
    sg_json_init(&j, &data);
    sg_json_open(&j, '{');
    sg_json_key(&j, key);
    sg_json_str(&j, value);
    sg_json_close(&j, '}');
    sg_events_add(m, NULL, NULL, type, sg_buf_cstr(&data));
    sg_manager_audit(m, NULL, type, NULL, sg_buf_cstr(&data));
}

static void reject(struct sg_rules_watch *w, const struct sg_err *err)
{
    if (strcmp(w->error, err->msg) == 0)
        return;
    (void)snprintf(w->error, sizeof w->error, "%s", err->msg);
    sg_log(SG_LOG_ERROR, kinds[w->which].stays, SG_KV("error", err->msg));
    tell(w->manager, kinds[w->which].rejected, "error", err->msg);
}

static void read_rules(struct sg_rules_watch *w, int fd)
{
    struct sg_err err = { 0 };
    const char *revision = NULL;
    sg_auto_buf text;

    sg_buf_init(&text, SG_RULES_MAX_BYTES);
    int got = fd < 0 ? 0 : sg_buf_read_fd(&text, fd, "the rules", &err);
    const struct sg_str all = { (const char *)text.p, text.n };
    if (got == 0)
        got = kinds[w->which].take(w->manager, fd < 0 ? NULL : &all, &revision, &err);
    if (got < 0) {
        reject(w, &err);
        return;
    }
    w->error[0] = '\0';
    if (revision) {
        sg_log(SG_LOG_INFO, kinds[w->which].other, SG_KV("revision", revision));
        tell(w->manager, kinds[w->which].reloaded, "revision", revision);
    }
}

static void looked(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_rules_watch *w = arg;
    struct sg_manager *m = w->manager;

    if (m->is_ending)
        return;
    if (err) {
        reject(w, err);
    } else if (p->msg.l_ruled.stamp != w->stamp) {
        w->stamp = p->msg.l_ruled.stamp;
        read_rules(w, p->fd_count ? p->fds[0] : -1);
    }
    sg_timer_set(m->loop, &w->clock, sg_loop_now(m->loop) + LOOK_NS);
}

static void look(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_rules_watch *w = SG_OWNER(t, struct sg_rules_watch, clock);

    (void)now_ns;
    sg_tier_rules(w->manager->tier, w->which, w->stamp, looked, w);
}

void sg_rules_watch(struct sg_manager *m)
{
    for (unsigned i = 0; i < SG_RULE_FILE_COUNT; i++) {
        struct sg_rules_watch *w = &m->rule_files[i];
        w->manager = m;
        w->which = (enum sg_rule_file)i;
        w->clock.fire = look;
        if (m->o.watches_rules)
            sg_timer_set(m->loop, &w->clock, sg_loop_now(m->loop));
    }
}

void sg_rules_done(struct sg_manager *m)
{
    for (unsigned i = 0; i < SG_RULE_FILE_COUNT; i++)
        sg_timer_stop(m->loop, &m->rule_files[i].clock);
}
