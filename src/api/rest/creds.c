/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets that a sandbox may use: asked for at its creation, and shown by their names. */
#include <stddef.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "manager/cred.h"
#include "manager/secret.h"
#include "base/banned.h"

#define AT(f) offsetof(struct sg_cred_use_spec, f)
static const struct sg_jfield use_fields[] = {
    { "name", SG_JT_STRING, AT(secret), 0, 0, true },
    { "env", SG_JT_STRING, AT(env), 0, 0, false },
};
#undef AT

int sg_rest_creds(struct sg_call *c, const struct sg_jval *v, struct sg_cred_set *ret,
                  struct sg_err *err)
{
    struct sg_cred_spec spec = { 0 };
    if (!v)
        return 0;
    struct sg_cred_use_spec *uses = sg_arena_alloc(&c->arena, (v->list.n + 1) * sizeof *uses);
    if (!uses)
        return sg_fail(err, SG_EXHAUSTED, "secrets is too large");
    for (const struct sg_jval *one = v->list.first; one; one = one->next) {
        uses[spec.use_n] = (struct sg_cred_use_spec) { 0 };
        if (sg_json_read(one, use_fields, SG_COUNT(use_fields), &uses[spec.use_n++], err) < 0)
            return sg_wrap(err, "secrets");
    }
    spec.uses = uses;
    return sg_creds_read(c->manager, &c->who, &spec, ret, err);
}

void sg_rest_put_creds(struct sg_json *j, const struct sg_sandbox *s)
{
    if (!s->creds.use_n)
        return;
    sg_json_key(j, "secrets");
    sg_json_open(j, '[');
    for (size_t i = 0; i < s->creds.use_n; i++) {
        const struct sg_cred_use *u = &s->creds.uses[i];
        const struct sg_secret *one = sg_secret_named(s->manager, s->org, u->secret);
        sg_json_open(j, '{');
        sg_json_key(j, "name");
        sg_json_str(j, one ? one->name : u->secret); /* one that was removed */
        if (u->env) {
            sg_json_key(j, "env");
            sg_json_str(j, u->env);
        }
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
}
