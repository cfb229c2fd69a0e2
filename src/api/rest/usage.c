/* SPDX-License-Identifier: Apache-2.0 */
/* What was used, what it cost, and what may be spent. */
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "store/store.h"
#include "base/banned.h"

enum { HOURS_DEFAULT = 24, HOURS_MAX = 24 * 400, PERCENT_DEFAULT = 80 };
#define AMOUNT_MAX_MILLI UINT64_C(1000000000) /* a million */

static void put_money(struct sg_json *j, const char *key, uint64_t pico)
{
    sg_json_key(j, key);
    sg_json_number(j, sg_money_text(pico).s);
}

void sg_rest_put_cost(struct sg_json *j, const struct sg_prices *p, const struct sg_amounts *a)
{
    put_money(j, "cost", sg_price_of(&p->own, a));
    sg_json_key(j, "elsewhere");
    sg_json_open(j, '{');
    for (unsigned i = 0; i < p->elsewhere_count; i++)
        put_money(j, p->elsewhere[i].name, sg_price_of(&p->elsewhere[i], a));
    sg_json_close(j, '}');
}

void sg_rest_put_amount_members(struct sg_json *j, const struct sg_manager *m,
                                const struct sg_amounts *a)
{
    sg_json_put_i64(j, "cpuMs", (int64_t)(a->cpu_ns / 1000000));
    sg_json_put_i64(j, "memoryMibMs", (int64_t)a->mem_mib_ms);
    sg_json_put_i64(j, "diskMibMs", (int64_t)a->disk_mib_ms);
    sg_json_put_i64(j, "networkBytes", (int64_t)a->net_bytes);
    sg_json_put_i64(j, "wallMs", (int64_t)a->wall_ms);
    sg_rest_put_cost(j, sg_manager_prices(m), a);
    sg_json_put_str(j, "currency", sg_manager_prices(m)->currency);
}

void sg_rest_put_amounts(struct sg_json *j, const struct sg_manager *m, const struct sg_amounts *a)
{
    sg_json_key(j, "usage");
    sg_json_open(j, '{');
    sg_rest_put_amount_members(j, m, a);
    sg_json_close(j, '}');
}

/* ---- usage ---- */

struct usage {
    struct sg_json *j;
    const struct sg_prices *prices;
    unsigned by; /* SG_USAGE_BY_... */
};

static void put_amounts(struct sg_json *j, const struct sg_usage_row *r)
{
    sg_json_put_i64(j, "wallMs", r->wall_ms);
    sg_json_put_i64(j, "cpuMs", r->cpu_ns / 1000000);
    sg_json_put_i64(j, "memoryMibMs", r->mem_mib_ms);
    sg_json_put_i64(j, "diskMibMs", r->disk_mib_ms);
    sg_json_put_i64(j, "allottedCpuMs", r->vcpu_milli_ms / 1000);
    sg_json_put_i64(j, "allottedMemoryMibMs", r->allotted_mib_ms);
    sg_json_put_i64(j, "networkBytesIn", r->net_in);
    sg_json_put_i64(j, "networkBytesOut", r->net_out);
    sg_json_put_i64(j, "execs", r->execs);
    sg_json_put_i64(j, "creates", r->creates);
    sg_json_put_i64(j, "bytesIn", r->bytes_in);
    sg_json_put_i64(j, "bytesOut", r->bytes_out);
}

static bool put_usage(void *arg, const struct sg_usage_row *r)
{
    const struct usage *u = arg;
    struct sg_json *j = u->j;
    struct sg_amounts a;
    sg_json_open(j, '{');
    if (u->by & SG_USAGE_BY_ORG)
        sg_json_put_str(j, "org", r->org);
    if (u->by & SG_USAGE_BY_SANDBOX)
        sg_json_put_str(j, "sandbox", r->sandbox);
    if (u->by & SG_USAGE_BY_TIER)
        sg_json_put_str(j, "tier", r->tier);
    if (u->by & SG_USAGE_BY_OPERATION)
        sg_json_put_str(j, "operation", r->operation);
    if (u->by & SG_USAGE_BY_DAY)
        sg_rest_put_time(j, "day", r->hour * 3600000);
    put_amounts(j, r);
    sg_usage_amounts(r, &a);
    sg_rest_put_cost(j, u->prices, &a);
    sg_json_close(j, '}');
    return true;
}

static int read_by(const char *text, unsigned *ret, struct sg_err *err)
{
    static const char *const names[] = { "org", "sandbox", "day", "tier",
                                         "operation" }; /* in order of bits */
    while (text && *text) {
        const struct sg_str word = { text, strcspn(text, ",") };
        const int at = sg_router_word(names, SG_COUNT(names), "way to sum up", word, err);
        if (at < 0)
            return -1;
        *ret |= 1u << at;
        text += word.n + (text[word.n] == ',');
    }
    return 0;
}

int sg_rest_usage(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "hours", "by", NULL };
    unsigned by = 0;
    uint64_t hours = HOURS_DEFAULT;
    if (sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_u64(c, "hours", 1, HOURS_MAX, &hours, err) < 0 ||
        read_by(sg_call_query(c, "by"), &by, err) < 0)
        return -1;
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "usage");
    struct usage u = { &j, sg_manager_prices(c->manager),
                       by ? by : SG_USAGE_BY_ORG | SG_USAGE_BY_SANDBOX };
    const int64_t from = (int64_t)time(NULL) / 3600 - (int64_t)hours;
    const char *org = c->who.is_operator ? NULL : c->who.org->id.s;
    if (sg_store_sum_usage(sg_manager_store(c->manager), org, from, u.by, put_usage, &u, err) < 0)
        return -1;
    sg_json_close(&j, ']');
    sg_json_put_str(&j, "currency", u.prices->currency);
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

/* ---- budgets ---- */

static void put_budget(struct sg_json *j, const struct sg_manager *m, const struct sg_org *o)
{
    const struct sg_budget *b = &o->budget;
    const uint64_t spent = sg_org_spent(m, o);
    static const char *const states[] = { "within", "warned", "exhausted", "exhausted" };
    sg_json_open(j, '{');
    sg_json_put_str(j, "org", o->id.s);
    put_money(j, "amount", b->pico);
    sg_json_put_str(j, "currency", sg_manager_prices(m)->currency);
    sg_json_put_str(j, "period", sg_period_names[b->period]);
    sg_json_put_str(j, "action", sg_spent_names[b->action]);
    sg_json_put_i64(j, "warnPercent", (int64_t)b->warn_percent);
    put_money(j, "spent", spent);
    put_money(j, "left", spent < b->pico ? b->pico - spent : 0);
    sg_json_put_str(j, "state", states[o->budget_state & 3]);
    sg_rest_put_time(j, "endsAt", sg_budget_ends_ms(o));
    sg_json_close(j, '}');
}

static void reply_budget(void *arg, const struct sg_org *o, const struct sg_err *err)
{
    struct sg_call *c = arg;
    if (!o) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_buf out;
    sg_buf_init(&out, 4096);
    struct sg_json j;
    sg_json_init(&j, &out);
    put_budget(&j, c->manager, o);
    sg_reply_json(c, 200, &out);
}

int sg_rest_budget_list(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "budgets");
    size_t cursor = 0;
    for (const struct sg_org *o; (o = sg_org_next(c->manager, &c->who, &cursor));)
        if (o->budget.pico)
            put_budget(&j, c->manager, o);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

int sg_rest_budget_get(struct sg_call *c, struct sg_err *err)
{
    const struct sg_org *o = sg_org_find(c->manager, &c->who, sg_call_param(c, "org"), err);
    if (!o)
        return -1;
    if (!o->budget.pico)
        return sg_fail(err, SG_NOT_FOUND, "the organisation has no budget");
    reply_budget(c, o, NULL);
    return 0;
}

struct body {
    uint64_t amount_milli, warn_percent;
    const char *period, *action;
};
#define AT(f) offsetof(struct body, f)
static const struct sg_jfield fields[] = {
    { "amount", SG_JT_MILLI, AT(amount_milli), 1, AMOUNT_MAX_MILLI, true },
    { "period", SG_JT_STRING, AT(period), 0, 0, false },
    { "action", SG_JT_STRING, AT(action), 0, 0, false },
    { "warnPercent", SG_JT_U64, AT(warn_percent), 0, 100, false },
};
#undef AT

int sg_rest_budget_set(struct sg_call *c, struct sg_err *err)
{
    struct body b = { .warn_percent = PERCENT_DEFAULT, .period = "month", .action = "refuse" };
    const struct sg_jval *body;
    if (sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, SG_COUNT(fields), &b, err) < 0)
        return -1;
    const int period =
        sg_router_word(sg_period_names, SG_PERIOD_COUNT, "period", sg_str_of(b.period), err);
    const int action = period < 0 ? -1
                                  : sg_router_word(sg_spent_names, SG_SPENT_COUNT, "action",
                                                   sg_str_of(b.action), err);
    if (action < 0)
        return -1;
    const struct sg_budget budget = { .pico = b.amount_milli * (SG_PICO / 1000),
                                      .period = (enum sg_period)period,
                                      .action = (enum sg_spent)action,
                                      .warn_percent = b.warn_percent };
    return sg_org_set_budget(c->manager, &c->who, sg_call_param(c, "org"), &budget, reply_budget, c,
                             err);
}

static void removed(void *arg, const struct sg_org *o, const struct sg_err *err)
{
    (void)o;
    sg_rest_reply_done(arg, err);
}

int sg_rest_budget_remove(struct sg_call *c, struct sg_err *err)
{
    return sg_org_set_budget(c->manager, &c->who, sg_call_param(c, "org"), NULL, removed, c, err);
}
