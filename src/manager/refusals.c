/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals in the audit record.
 *
 * Whoever may not do a thing can try it ten thousand times a second, and the record must not grow
 * at their will. An organisation has so many records of refusals a second; those beyond are
 * counted, and the count becomes one record a little later. What was permitted has one record
 * each, always. */
#include <stdio.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "manager/life.h"
#include "meter/audit.h"

#include "base/banned.h"

enum { RECORDS_PER_S = 10 };
#define SUM_NS 10000000000u

static void sum_up(struct sg_manager *m, struct sg_org *o)
{
    char detail[48];

    if (!o->refusals_left_out)
        return;
    (void)snprintf(detail, sizeof detail, "{\"more\":%llu}",
                   (unsigned long long)o->refusals_left_out);
    o->refusals_left_out = 0;
    sg_audit_add(m->audit,
                 &(struct sg_audit_entry) {
                     .org = o->id.s, .actor = "manager", .action = "denied", .detail = detail },
                 sg_manager_unix_ms());
}

void sg_refusals_sum(struct sg_manager *m)
{
    size_t cursor = 0;

    sg_timer_stop(m->loop, &m->refusals);
    for (struct sg_org *o; (o = sg_map_next(&m->orgs, &cursor));)
        sum_up(m, o);
    for (struct sg_org *o = m->dead_orgs; o; o = o->next_dead)
        sum_up(m, o);
}

static void sum_is_due(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    sg_refusals_sum(SG_OWNER(t, struct sg_manager, refusals));
}

/* False: it was only counted. */
static bool has_room(struct sg_manager *m, struct sg_org *o)
{
    if (!o || sg_quota_take(&o->refusal_tokens_milli, &o->refused_at_ns, RECORDS_PER_S,
                            sg_loop_now(m->loop)))
        return true;
    o->refusals_left_out++;
    m->refusals.fire = sum_is_due;
    if (!sg_timer_is_set(&m->refusals))
        sg_timer_set(m->loop, &m->refusals, sg_loop_now(m->loop) + SUM_NS);
    return false;
}

int sg_manager_denied(struct sg_manager *m, const struct sg_who *who, const char *action,
                      const struct sg_sandbox *s, const struct sg_err *err)
{
    sg_auto_buf detail;
    struct sg_json j;

    sg_buf_init(&detail, 4096);
    m->metrics.errors[err->kind]++;
    /* Over a quota is no attempt at anything, and comes a thousand times a second. */
    if (err->kind != SG_DENIED || !m->audit || !has_room(m, s ? s->org : who->org))
        return -1;
    sg_json_init(&j, &detail);
    sg_json_open(&j, '{');
    sg_json_key(&j, "action");
    sg_json_str(&j, action);
    sg_json_key(&j, "error");
    sg_json_str(&j, err->msg);
    sg_json_close(&j, '}');
    sg_manager_audit(m, who, "denied", s, sg_buf_cstr(&detail));
    return -1;
}
