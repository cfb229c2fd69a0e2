/* SPDX-License-Identifier: Apache-2.0 */
/* The router's rules in use. The daemon sees no files, so the launcher is asked now and then for
 * the file, by the stamp of the one that is known. A file with a mistake changes nothing but the
 * record: the rules before it stay in force, because none would let everything through or nothing.
 */
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
    return m->rules_error;
}

int sg_rules_load(struct sg_manager *m, struct sg_err *err)
{
    if (!m->rules)
        m->rules = sg_rules_builtin(err);
    return m->rules ? 0 : -1;
}

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

static void reject(struct sg_manager *m, const struct sg_err *err)
{
    if (strcmp(m->rules_error, err->msg) == 0)
        return;
    (void)snprintf(m->rules_error, sizeof m->rules_error, "%s", err->msg);
    sg_log(SG_LOG_ERROR, "the router's rules stay as they are", SG_KV("error", err->msg));
    tell(m, "router.rejected", "error", err->msg);
}

static void take(struct sg_manager *m, struct sg_rules *rules)
{
    bool is_other = strcmp(rules->revision, m->rules->revision) != 0;

    sg_rules_free(m->rules);
    m->rules = rules;
    m->rules_error[0] = '\0';
    if (is_other) {
        sg_log(SG_LOG_INFO, "the router has other rules", SG_KV("source", rules->source));
        tell(m, "router.reloaded", "revision", rules->revision);
    }
}

static void read_rules(struct sg_manager *m, int fd)
{
    struct sg_err err = { 0 };
    struct sg_rules *rules = NULL;
    sg_auto_buf text;

    sg_buf_init(&text, SG_RULES_MAX_BYTES);
    if (fd < 0)
        rules = sg_rules_builtin(&err);
    else if (sg_buf_read_fd(&text, fd, "the rules", &err) == 0)
        rules =
            sg_rules_parse((struct sg_str) { (const char *)text.p, text.n }, "router.toml", &err);
    if (rules)
        take(m, rules);
    else
        reject(m, &err);
}

static void looked(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_manager *m = arg;

    if (m->is_ending)
        return;
    if (err) {
        reject(m, err);
    } else if (p->msg.l_ruled.stamp != m->rules_stamp) {
        m->rules_stamp = p->msg.l_ruled.stamp;
        read_rules(m, p->fd_count ? p->fds[0] : -1);
    }
    sg_timer_set(m->loop, &m->rules_clock, sg_loop_now(m->loop) + LOOK_NS);
}

static void look(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_manager *m = SG_OWNER(t, struct sg_manager, rules_clock);

    (void)now_ns;
    sg_tier_rules(m->tier, m->rules_stamp, looked, m);
}

void sg_rules_watch(struct sg_manager *m)
{
    m->rules_clock.fire = look;
    if (m->o.watches_rules)
        sg_timer_set(m->loop, &m->rules_clock, sg_loop_now(m->loop));
}
