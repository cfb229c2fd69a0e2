/* SPDX-License-Identifier: Apache-2.0 */
/* What the native door asks of secrets and their use, for fuzz_rest_body.c: texts are whole, and
 * what was not given is not freed. */
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/cred.h"
#include "manager/net.h"
#include "manager/secret.h"
#include "fuzz_demand.h"
#include "base/banned.h"

int sg_creds_read(struct sg_manager *m, const struct sg_who *who, const struct sg_cred_spec *spec,
                  struct sg_cred_set *ret, struct sg_err *err)
{
    (void)m, (void)who, (void)ret;
    for (size_t i = 0; i < spec->use_n; i++) {
        demand(spec->uses[i].secret != NULL);
        check_text(spec->uses[i].secret);
        check_text(spec->uses[i].env);
    }
    return spec->use_n % 2 ? sg_fail(err, SG_CONFLICT, "no further") : 0;
}

void sg_creds_done(struct sg_cred_set *c)
{
    demand(!c->uses && !c->fields);
}

int sg_net_egress(struct sg_manager *m, const struct sg_who *who, const struct sg_egress_spec *spec,
                  struct sg_egress *ret, struct sg_err *err)
{
    (void)m, (void)who;
    demand(spec->address != NULL);
    check_text(spec->address);
    check_text(spec->user);
    check_text(spec->password);
    if (!spec->user)
        return sg_fail(err, SG_INVALID, "no further");
    ret->address = sg_strdup(spec->address);
    return 0;
}

int sg_secret_set(struct sg_manager *m, const struct sg_who *who, const struct sg_secret_spec *spec,
                  sg_secret_cb *cb, void *arg, struct sg_err *err)
{
    (void)m, (void)who, (void)cb, (void)arg;
    check_text(spec->name);
    check_text(spec->value.p);
    demand(spec->has_metadata || !spec->metadata_n);
    for (size_t i = 0; i < spec->hosts_n; i++)
        check_text(spec->hosts[i]);
    for (size_t i = 0; i < spec->metadata_n; i++) {
        check_text(spec->metadata[i].name);
        check_text(spec->metadata[i].value);
    }
    return sg_fail(err, SG_CONFLICT, "no further");
}
