/* SPDX-License-Identifier: Apache-2.0 */
/* The claim of a sandbox that has waited, as the one operation of a create: row, limits, network
 * and the processor time that it has used so far, all asked for at once. */
#include <string.h>

#include "manager/create_internal.h"
#include "manager/standby.h"
#include "tier/tier.h"

#include "base/banned.h"

/* S4: whatever went wrong with this one, a fresh one may do. */
static void claimed(struct sg_sandbox *s)
{
    struct sg_err ignored;
    if (!sg_life_failed(s, &ignored) && !s->life->has_died) {
        sg_create_running(s);
        return;
    }
    s->was_parked = false;
    sg_life_must(s, EV_FAIL);
    sg_life_must(s, EV_RETRY);
    sg_cell_end(s, sg_create_attempt);
}

/* What it used while it waited is nobody's. */
static void looked(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_sandbox *s = arg;
    if (p && !err) {
        s->life->usage_cpu_ns = p->msg.l_stated.cpu_ns == UINT64_MAX ? 0 : p->msg.l_stated.cpu_ns;
        s->life->oom_kills =
            p->msg.l_stated.oom_kills == UINT64_MAX ? 0 : p->msg.l_stated.oom_kills;
    }
    sg_life_got(s, err);
}

static void become_theirs(struct sg_sandbox *s, const struct sg_sandbox_limits *limits)
{
    const uint64_t disk = s->limits.disk_bytes; /* as the pool gave it, where nobody says more */
    s->limits = *limits;
    if (!s->limits.disk_bytes)
        s->limits.disk_bytes = disk;
    s->is_internal = s->is_standby = false;
    s->was_parked = true;
    s->started_ms = sg_manager_unix_ms();
    s->life->is_known = false;
    s->life->labels.is_read = false;
    s->life->usage_at_ns = sg_loop_now(s->manager->loop);
    sg_expiry_renew(s);
    sg_expiry_update(s);
}

void sg_standby_claim(struct sg_sandbox *s, const struct sg_sandbox_limits *limits)
{
    struct sg_tier *tier = s->manager->tier;
    const struct sg_sandbox_limits had = s->limits;
    become_theirs(s, limits);
    const bool is_other = memcmp(&had, &s->limits, sizeof had) != 0;
    sg_life_begin(s, OP_CREATE);
    sg_life_expect(s, 2 + is_other + sg_net_answers(s), claimed);
    if (is_other) {
        const struct sg_tier_limits to = sg_cell_limits(&s->limits);
        sg_tier_limit(tier, s->id.s, &to, sg_life_tier_answer, s);
    }
    sg_tier_stats(tier, s->id.s, looked, s);
    sg_life_put_row(s, SBX_RUNNING, SG_STORE_NORMAL);
    sg_net_open(s);
}
