/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy of a policy as JSON: of a door with a password, of a row with the box. */
#include <stddef.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "manager/net.h"

#include "base/banned.h"

#define AT(f) offsetof(struct sg_egress_spec, f)
static const struct sg_jfield asked_fields[] = {
    { "address", SG_JT_STRING, AT(address), 0, 0, true },
    { "username", SG_JT_STRING, AT(user), 0, 0, false },
    { "password", SG_JT_STRING, AT(password), 0, 0, false },
};
#undef AT

int sg_net_egress_ask(struct sg_manager *m, const struct sg_who *who, const struct sg_jval *v,
                      struct sg_egress *ret, struct sg_err *err)
{
    struct sg_egress_spec spec = { 0 };
    if (sg_json_read(v, asked_fields, SG_COUNT(asked_fields), &spec, err) < 0)
        return sg_wrap(err, "egressProxy");
    return sg_net_egress(m, who, &spec, ret, err);
}

/* ---- of a row ---- */

#define AT(f) offsetof(struct sg_egress, f)
static const struct sg_jfield row_fields[] = {
    { "address", SG_JT_STRING, AT(address), 0, 0, true },
    { "username", SG_JT_STRING, AT(user), 0, 0, false },
    { "sealed", SG_JT_STRING, AT(sealed), 0, 0, false },
};
#undef AT

int sg_net_egress_load(const struct sg_jval *v, struct sg_egress *ret, struct sg_err *err)
{
    struct sg_egress found = { 0 }; /* its texts are the arena's */
    struct sg_name name;
    struct sg_addr addr;
    struct sg_target t;
    if (sg_json_read(v, row_fields, SG_COUNT(row_fields), &found, err) < 0 ||
        sg_egress_target(found.address, &name, &addr, &t, err) < 0)
        return sg_wrap(err, "egressProxy");
    sg_egress_copy(ret, &found);
    return 0;
}

void sg_net_egress_put(struct sg_json *j, const struct sg_egress *e, bool is_row)
{
    sg_json_key(j, "egressProxy");
    sg_json_open(j, '{');
    sg_json_key(j, "address");
    sg_json_str(j, e->address);
    if (e->user) {
        sg_json_key(j, "username");
        sg_json_str(j, e->user);
    }
    if (e->sealed && is_row) {
        sg_json_key(j, "sealed");
        sg_json_str(j, e->sealed);
    }
    sg_json_close(j, '}');
}
