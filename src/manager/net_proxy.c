/* SPDX-License-Identifier: Apache-2.0 */
/* The proxy of a policy (net/egress.h), as a door asks for it: checked, and its password sealed in
 * that very call. */
#include <string.h>

#include "base/auto.h"
#include "manager/life.h"
#include "manager/net.h"
#include "seal/seal.h"

#include "base/banned.h"

/* What can be said now; a name is judged by the gate, at each dial. */
static int check_address(const struct sg_manager *m, const char *address, struct sg_err *err)
{
    struct sg_name name;
    struct sg_addr addr;
    struct sg_target t;
    if (sg_egress_target(address, &name, &addr, &t, err) < 0)
        return -1;
    const char *special = t.addr ? sg_addr_special(t.addr) : NULL;
    if (special && !(m->o.permitted && sg_nets_has(m->o.permitted, t.addr)))
        return sg_fail(err, SG_INVALID, "%s is %s; gate.permit of the service's settings allows it",
                       sg_quote(address).s, special);
    return 0;
}

static int check_login(const struct sg_egress_spec *spec, struct sg_err *err)
{
    const size_t user = spec->user ? strlen(spec->user) : 0;
    if (spec->password && !spec->user)
        return sg_fail(err, SG_INVALID, "a password needs a username");
    if (spec->user && (!user || user > SG_EGRESS_TEXT ||
                       (spec->password && strlen(spec->password) > SG_EGRESS_TEXT)))
        return sg_fail(err, SG_INVALID, "username and password have at most %d bytes",
                       SG_EGRESS_TEXT);
    return 0;
}

/* From here on nobody in this process has the password. */
static int seal(const struct sg_manager *m, const struct sg_who *who, const char *password,
                struct sg_egress *e, struct sg_err *err)
{
    if (!m->o.seal_to)
        return sg_fail(err, SG_UNSUPPORTED, "this server has no key to seal passwords with");
    sg_auto_free char *context = sg_egress_context(e, who->org->id.s);
    e->sealed = sg_seal(m->o.seal_to, sg_str_of(context), sg_str_of(password), err);
    return e->sealed ? 0 : -1;
}

int sg_net_egress(struct sg_manager *m, const struct sg_who *who, const struct sg_egress_spec *spec,
                  struct sg_egress *ret, struct sg_err *err)
{
    struct sg_egress e = { 0 };
    if (!sg_manager_has_gate(m))
        return sg_fail(err, SG_UNSUPPORTED,
                       "there is no gate on this host (see 'sandglass doctor'): egressProxy cannot "
                       "be used");
    if (check_address(m, spec->address, err) < 0 || check_login(spec, err) < 0)
        return sg_wrap(err, "egressProxy");
    e.address = sg_strdup(spec->address);
    e.user = spec->user ? sg_strdup(spec->user) : NULL;
    if (e.user && seal(m, who, spec->password ? spec->password : "", &e, err) < 0) {
        sg_egress_done(&e);
        return sg_wrap(err, "egressProxy");
    }
    *ret = e;
    return 0;
}
