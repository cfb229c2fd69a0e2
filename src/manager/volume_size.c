/* SPDX-License-Identifier: Apache-2.0 */
/* Another size for a volume.
 *
 * What is counted as the organisation's is never less than what the file system allows: to grow,
 * the row says so first, then the limit does; to shrink, the other way round. A crash in between
 * leaves a volume that holds less than its row says, until it is asked for the same again. */
#include <inttypes.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/life.h"
#include "manager/volume.h"
#include "tier/tier.h"

#include "base/banned.h"

struct resize {
    struct sg_manager *m;
    struct sg_volume *v;
    uint64_t before, wanted;
    sg_volume_cb *cb;
    void *arg;
};

static void set_bytes(struct sg_volume *v, uint64_t bytes)
{
    v->org->disk_bytes = v->org->disk_bytes - v->bytes + bytes;
    v->bytes = bytes;
}

static void over(struct resize *r, const struct sg_err *err)
{
    r->v->is_changing = false;
    r->cb(r->arg, err ? NULL : r->v, err);
    free(r);
}

static void row_of_smaller(void *arg, const struct sg_err *err)
{
    over(arg, err);
}

static void smaller(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct resize *r = arg;
    (void)p;
    if (err || r->m->is_ending) {
        over(r, err);
        return;
    }
    set_bytes(r->v, r->wanted);
    sg_volume_put_row(r->m, r->v, SG_VOLUME_READY, row_of_smaller, r);
}

static void larger(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct resize *r = arg;
    (void)p;
    if (err && !r->m->is_ending) {
        set_bytes(r->v, r->before);
        sg_volume_put_row(r->m, r->v, SG_VOLUME_READY, NULL, NULL);
    }
    over(r, err);
}

static void row_of_larger(void *arg, const struct sg_err *err)
{
    struct resize *r = arg;
    if (err) {
        set_bytes(r->v, r->before);
        over(r, err);
        return;
    }
    sg_tier_volume_limit(r->m->tier, r->v->id.s, r->wanted, larger, r);
}

int sg_volume_resize(struct sg_manager *m, const struct sg_who *who, const char *which,
                     uint64_t bytes, sg_volume_cb *cb, void *arg, struct sg_err *err)
{
    char text[24];
    struct sg_volume *v = sg_volume_find(m, who, which, err);
    if (!v)
        return -1;
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, "volume.resize", NULL, err);
    if (v->is_changing)
        return sg_fail(err, SG_CONFLICT, "volume %s is being changed; try again",
                       sg_quote(v->name).s);
    if (sg_volume_check_bytes(m, v->org, bytes, v->bytes, err) < 0)
        return -1;
    struct resize *r = sg_new(struct resize);
    *r = (struct resize) { m, v, v->bytes, bytes, cb, arg };
    v->is_changing = true;
    (void)snprintf(text, sizeof text, "%" PRIu64, bytes);
    sg_manager_audit_value(m, who, "volume.resize", NULL, "bytes", text);
    if (bytes < v->bytes) {
        sg_tier_volume_limit(m->tier, v->id.s, bytes, smaller, r);
        return 0;
    }
    set_bytes(v, bytes);
    sg_volume_put_row(m, v, SG_VOLUME_READY, row_of_larger, r);
    return 0;
}
