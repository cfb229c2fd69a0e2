/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/budget.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/log.h"
#include "manager/life.h"
#include "tier/tier.h"
#include "base/banned.h"

enum { HOURS_A_DAY = 24, S_AN_HOUR = 3600, MS_AN_HOUR = 3600000 };

const char *const sg_period_names[SG_PERIOD_COUNT] = { "day", "month", "total" };
const char *const sg_spent_names[SG_SPENT_COUNT] = { "warn", "pause", "refuse" };

const struct sg_prices *sg_manager_prices(const struct sg_manager *m)
{
    return &m->prices;
}

/* ---- text ---- */

char *sg_budget_text(const struct sg_budget *b)
{
    sg_auto_buf out;
    struct sg_json j;

    sg_buf_init(&out, 1024);
    if (!b->pico)
        return NULL;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "pico");
    sg_json_u64(&j, b->pico);
    sg_json_key(&j, "amount"); /* for people */
    sg_json_str(&j, sg_money_text(b->pico).s);
    sg_json_key(&j, "period");
    sg_json_str(&j, sg_period_names[b->period]);
    sg_json_key(&j, "action");
    sg_json_str(&j, sg_spent_names[b->action]);
    sg_json_key(&j, "warnPercent");
    sg_json_u64(&j, b->warn_percent);
    sg_json_close(&j, '}');
    return sg_strdup(sg_buf_cstr(&out));
}

static int find_word(const char *const *words, int count, const char *word)
{
    for (int i = 0; word && i < count; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return count - 1;
}

void sg_budget_load(const char *text, struct sg_budget *ret)
{
#define AT(f) offsetof(struct raw, f)
    struct raw {
        uint64_t pico, warn;
        const char *amount, *period, *action;
    } raw = { 0 };
    static const struct sg_jfield fields[] = {
        { "pico", SG_JT_U64, AT(pico), 0, UINT64_MAX, true },
        { "amount", SG_JT_STRING, AT(amount), 0, 0, false },
        { "period", SG_JT_STRING, AT(period), 0, 0, false },
        { "action", SG_JT_STRING, AT(action), 0, 0, false },
        { "warnPercent", SG_JT_U64, AT(warn), 0, 100, false },
    };
#undef AT
    sg_auto_arena a;
    const struct sg_jval *v;
    struct sg_err err;

    sg_arena_init(&a, 64 << 10);
    if (!text || sg_json_parse(sg_str_of(text), &a, &v, &err) < 0 ||
        sg_json_read(v, fields, SG_COUNT(fields), &raw, &err) < 0)
        return;
    *ret = (struct sg_budget) {
        .pico = raw.pico,
        .period = (enum sg_period)find_word(sg_period_names, SG_PERIOD_COUNT, raw.period),
        .action = (enum sg_spent)find_word(sg_spent_names, SG_SPENT_COUNT, raw.action),
        .warn_percent = raw.warn,
    };
}

/* ---- periods, in UTC ---- */

static int64_t period_begins(enum sg_period p, int64_t hour)
{
    const time_t now = (time_t)(hour * S_AN_HOUR);
    struct tm tm;

    if (p == SG_PERIOD_TOTAL || !gmtime_r(&now, &tm))
        return 0;
    if (p == SG_PERIOD_DAY)
        return hour / HOURS_A_DAY * HOURS_A_DAY;
    tm.tm_mday = 1;
    tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
    return (int64_t)timegm(&tm) / S_AN_HOUR;
}

int64_t sg_budget_ends_ms(const struct sg_org *o)
{
    const int64_t a_month = (int64_t)31 * HOURS_A_DAY;
    switch (o->budget.period) {
    case SG_PERIOD_DAY:
        return (o->spent_from_hour + HOURS_A_DAY) * MS_AN_HOUR;
    case SG_PERIOD_MONTH: /* 31 days after its first there is always the next one */
        return period_begins(SG_PERIOD_MONTH, o->spent_from_hour + a_month) * MS_AN_HOUR;
    case SG_PERIOD_TOTAL:
    case SG_PERIOD_COUNT:
        break;
    }
    return 0;
}

/* ---- what was spent ---- */

uint64_t sg_org_spent(const struct sg_manager *m, const struct sg_org *o)
{
    return sg_price_of(&m->prices.own, &o->spent);
}

static bool add_row(void *arg, const struct sg_usage_row *r)
{
    struct sg_amounts a;
    sg_usage_amounts(r, &a);
    sg_amounts_add(arg, &a);
    return true;
}

/* What holds already is not told again. */
static unsigned state_of(const struct sg_manager *m, const struct sg_org *o)
{
    const uint64_t spent = sg_org_spent(m, o);
    const unsigned __int128 warn_at =
        (unsigned __int128)o->budget.pico * o->budget.warn_percent / 100;

    return (spent >= o->budget.pico ? SG_BUDGET_EXHAUSTED : 0u) |
           (o->budget.warn_percent && spent >= warn_at ? SG_BUDGET_WARNED : 0u);
}

static void tell(struct sg_manager *m, struct sg_org *o, const char *type)
{
    const int64_t ends_ms = sg_budget_ends_ms(o);
    sg_auto_buf out;
    struct sg_json j;

    sg_buf_init(&out, 2048);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "amount");
    sg_json_number(&j, sg_money_text(o->budget.pico).s);
    sg_json_key(&j, "spent");
    sg_json_number(&j, sg_money_text(sg_org_spent(m, o)).s);
    sg_json_key(&j, "currency");
    sg_json_str(&j, m->prices.currency);
    sg_json_key(&j, "period");
    sg_json_str(&j, sg_period_names[o->budget.period]);
    sg_json_key(&j, "action");
    sg_json_str(&j, sg_spent_names[o->budget.action]);
    if (ends_ms) {
        sg_json_key(&j, "endsAtMs");
        sg_json_i64(&j, ends_ms);
    }
    sg_json_close(&j, '}');
    sg_events_add(m, o, NULL, type, sg_buf_cstr(&out));
    sg_manager_audit_of(m, NULL, o, type, sg_buf_cstr(&out));
}

static void judge(struct sg_manager *m, struct sg_org *o)
{
    const unsigned state = state_of(m, o), fresh = state & ~o->budget_state;

    o->budget_state = state;
    if (fresh & SG_BUDGET_EXHAUSTED)
        tell(m, o, "budget.exhausted");
    else if (fresh & SG_BUDGET_WARNED)
        tell(m, o, "budget.warning");
}

void sg_budget_begin(struct sg_manager *m, struct sg_org *o)
{
    struct sg_err err;
    const bool was_told = o->budget_state != 0 || !m->is_ready;

    o->spent = (struct sg_amounts) { 0 };
    o->budget_state = 0;
    o->spent_from_hour = period_begins(o->budget.period, sg_manager_unix_ms() / MS_AN_HOUR);
    if (sg_store_sum_usage(m->store, o->id.s, o->spent_from_hour, 0, add_row, &o->spent, &err) < 0)
        sg_log(SG_LOG_ERROR, "what was spent of a budget is not known", SG_KV("org", o->id.s),
               SG_KV("error", err.msg));
    if (was_told)
        o->budget_state = state_of(m, o);
    else
        judge(m, o);
}

void sg_budget_used(struct sg_manager *m, struct sg_org *o, const struct sg_amounts *a)
{
    if (!o->budget.pico)
        return;
    sg_amounts_add(&o->spent, a);
    judge(m, o);
}

/* ---- what follows ---- */

int sg_budget_admit(struct sg_manager *m, struct sg_org *o, struct sg_err *err)
{
    static const char *const words[SG_PERIOD_COUNT][2] = {
        [SG_PERIOD_DAY] = { "today (UTC)", "wait for tomorrow, or " },
        [SG_PERIOD_MONTH] = { "this month (UTC)", "wait for the next one, or " },
        [SG_PERIOD_TOTAL] = { "in all", "" },
    };

    if (!o->budget.pico || o->budget.action == SG_SPENT_WARN ||
        !(o->budget_state & SG_BUDGET_EXHAUSTED))
        return 0;
    m->metrics.hits[SG_HIT_BUDGET]++;
    return sg_fail(err, SG_EXHAUSTED,
                   "the organisation's budget is used up: %s of %s %s %s; %sraise it: sandglass "
                   "orgs budget %s AMOUNT",
                   sg_money_text(sg_org_spent(m, o)).s, sg_money_text(o->budget.pico).s,
                   m->prices.currency, words[o->budget.period][0], words[o->budget.period][1],
                   o->id.s);
}

static void pause_all(struct sg_manager *m, const struct sg_org *o)
{
    if (!(sg_tier_flags(m->tier) & SG_L_FREEZER))
        return;
    for (struct sg_sandbox *s = m->oldest, *next; s; s = next) {
        next = s->newer;
        if (s->org != o || s->state != SBX_RUNNING || s->life->op != OP_NONE || s->is_internal ||
            !s->life->has_cell || s->life->has_died)
            continue;
        sg_manager_audit_value(m, NULL, "sandbox.pause", s, "why", "budget");
        sg_pause_begin(s);
    }
}

void sg_budget_tick(struct sg_manager *m)
{
    const int64_t hour = sg_manager_unix_ms() / MS_AN_HOUR;
    size_t cursor = 0;

    for (struct sg_org *o; (o = sg_map_next(&m->orgs, &cursor));) {
        if (!o->budget.pico)
            continue;
        if (period_begins(o->budget.period, hour) != o->spent_from_hour) {
            o->budget_state = 0;
            sg_budget_begin(m, o);
        }
        if (o->budget.action == SG_SPENT_PAUSE && o->budget_state & SG_BUDGET_EXHAUSTED)
            pause_all(m, o);
    }
}
