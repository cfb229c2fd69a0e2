/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas: what an organisation may have at once, and how fast it may ask.
 *
 * Q1. Counted on the loop at admission, before anything is written or asked: what is being created
 *     counts, so that parallel creates cannot pass a limit together.
 * Q2. What was charged is in the sandbox (`charged`, `is_counted`) and given back from there, so
 *     that it is given back once and as much as was taken, whatever happened to the limits. */
#include <string.h>

#include "base/auto.h"
#include "manager/life.h"

#include "base/banned.h"

#define NS_PER_S 1000000000u

/* One resource: where it is in limits, quota and organisation. */
static const struct resource {
    const char *name;
    size_t limit, quota, used;
    enum sg_limit_hit hit;
} resources[] = {
#define RESOURCE(name, field, hit)                                                                 \
    {                                                                                              \
        name, offsetof(struct sg_sandbox_limits, field), offsetof(struct sg_quota, field),         \
            offsetof(struct sg_org, field), hit                                                    \
    }
    RESOURCE("memory", mem_bytes, SG_HIT_MEMORY),
    RESOURCE("cpu", cpu_milli, SG_HIT_CPU),
    RESOURCE("disk", disk_bytes, SG_HIT_DISK),
};

static uint64_t *field(void *base, size_t offset)
{
    return (uint64_t *)(void *)((char *)base + offset);
}

static uint64_t value(const void *base, size_t offset)
{
    return *(const uint64_t *)(const void *)((const char *)base + offset);
}

/* ---- one sandbox ---- */

static int fit(const char *name, uint64_t *v, uint64_t usual, uint64_t most, struct sg_err *err)
{
    if (*v == 0)
        *v = most && (usual == 0 || usual > most) ? most : usual;
    if (most && *v > most)
        return sg_fail(err, SG_INVALID, "%s of %llu is over the limit of one sandbox, %llu", name,
                       (unsigned long long)*v, (unsigned long long)most);
    return 0;
}

int sg_quota_fits(const struct sg_manager *m, struct sg_sandbox_limits *l, struct sg_err *err)
{
    const struct sg_sandbox_limits *usual = &m->o.defaults, *most = &m->o.most;

    if (fit("memoryBytes", &l->mem_bytes, usual->mem_bytes, most->mem_bytes, err) < 0 ||
        fit("cpus (in thousandths)", &l->cpu_milli, usual->cpu_milli, most->cpu_milli, err) < 0 ||
        fit("pids", &l->pids, usual->pids, most->pids, err) < 0 ||
        fit("diskBytes", &l->disk_bytes, usual->disk_bytes, most->disk_bytes, err) < 0)
        return -1;
    return 0;
}

/* ---- one organisation ---- */

bool sg_quota_take(uint64_t *tokens_milli, uint64_t *at_ns, uint64_t per_s, uint64_t now_ns)
{
    uint64_t full = per_s * 1000;
    uint64_t passed = now_ns - *at_ns;

    if (*at_ns == 0 || passed >= NS_PER_S) {
        *tokens_milli = full;
        *at_ns = now_ns;
    } else {
        uint64_t gained = passed * per_s / (NS_PER_S / 1000);
        if (gained) { /* less than a thousandth stays in the clock */
            *tokens_milli = *tokens_milli + gained > full ? full : *tokens_milli + gained;
            *at_ns = now_ns;
        }
    }
    if (*tokens_milli < 1000)
        return false;
    *tokens_milli -= 1000;
    return true;
}

static int over(struct sg_manager *m, enum sg_limit_hit hit, struct sg_err *err, const char *what)
{
    m->metrics.hits[hit]++;
    return sg_fail(err, SG_EXHAUSTED, "%s", what);
}

static int check_resource(struct sg_manager *m, const struct sg_org *org, const struct resource *r,
                          uint64_t more, struct sg_err *err)
{
    uint64_t quota = value(&org->quota, r->quota), used = value(org, r->used), sum;

    if (quota == 0)
        return 0;
    if (__builtin_add_overflow(used, more, &sum) || sum > quota) {
        m->metrics.hits[r->hit]++;
        return sg_fail(err, SG_EXHAUSTED,
                       "the organisation's quota of %s is used up: %llu of %llu, %llu asked for",
                       r->name, (unsigned long long)used, (unsigned long long)quota,
                       (unsigned long long)more);
    }
    return 0;
}

int sg_quota_admit(struct sg_manager *m, struct sg_org *org, const struct sg_sandbox_limits *l,
                   struct sg_err *err)
{
    if (m->o.max_sandboxes && m->charged >= m->o.max_sandboxes)
        return over(m, SG_HIT_MAX_SANDBOXES, err, "this server has as many sandboxes as it may");
    if (org->quota.sandboxes && org->sandboxes >= org->quota.sandboxes)
        return over(m, SG_HIT_SANDBOXES, err,
                    "the organisation has as many sandboxes as it may; destroy some first");
    for (size_t i = 0; i < SG_COUNT(resources); i++) {
        const struct resource *r = &resources[i];
        uint64_t more = value(l, r->limit);
        if (more == 0 && value(&org->quota, r->quota))
            return sg_fail(err, SG_INVALID,
                           "the organisation has a quota of %s: the sandbox needs a limit",
                           r->name);
        if (check_resource(m, org, r, more, err) < 0)
            return -1;
    }
    if (org->quota.creates_per_s && !sg_quota_take(&org->create_tokens_milli, &org->tokens_at_ns,
                                                   org->quota.creates_per_s, sg_loop_now(m->loop)))
        return over(m, SG_HIT_CREATE_RATE, err,
                    "the organisation creates sandboxes faster than it may; try again in a second");
    return 0;
}

bool sg_quota_is_ample(const struct sg_org *org, const struct sg_manager *m)
{
    bool is_ample = (!m->o.max_sandboxes || m->charged < m->o.max_sandboxes / 2) &&
                    (!org->quota.sandboxes || org->sandboxes < org->quota.sandboxes / 2);
    for (size_t i = 0; i < SG_COUNT(resources); i++) {
        const uint64_t quota = value(&org->quota, resources[i].quota);
        is_ample = is_ample && (!quota || value(org, resources[i].used) < quota / 2);
    }
    return is_ample;
}

/* ---- taking and giving back ---- */

static void add(struct sg_org *org, const struct sg_sandbox_limits *l)
{
    for (size_t i = 0; i < SG_COUNT(resources); i++)
        *field(org, resources[i].used) += value(l, resources[i].limit);
}

static void subtract(struct sg_org *org, const struct sg_sandbox_limits *l)
{
    for (size_t i = 0; i < SG_COUNT(resources); i++)
        *field(org, resources[i].used) -= value(l, resources[i].limit);
}

void sg_quota_charge(struct sg_sandbox *s)
{
    struct sg_life *life = s->life;

    if (!life->is_counted) {
        life->is_counted = true;
        s->org->sandboxes++;
        s->manager->charged++;
    }
    subtract(s->org, &life->charged);
    life->charged = s->limits;
    add(s->org, &life->charged);
}

int sg_quota_change(struct sg_sandbox *s, const struct sg_sandbox_limits *to, struct sg_err *err)
{
    for (size_t i = 0; i < SG_COUNT(resources); i++) {
        const struct resource *r = &resources[i];
        uint64_t was = value(&s->life->charged, r->limit), want = value(to, r->limit);
        if (want > was && check_resource(s->manager, s->org, r, want - was, err) < 0)
            return -1;
    }
    subtract(s->org, &s->life->charged);
    s->life->charged = *to;
    add(s->org, &s->life->charged);
    return 0;
}

void sg_quota_reduce(struct sg_sandbox *s)
{
    subtract(s->org, &s->life->charged);
    s->life->charged = (struct sg_sandbox_limits) { 0 };
}

void sg_quota_release(struct sg_sandbox *s)
{
    sg_quota_reduce(s);
    if (s->life->is_counted) {
        s->life->is_counted = false;
        s->org->sandboxes--;
        s->manager->charged--;
    }
}
