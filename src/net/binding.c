/* SPDX-License-Identifier: Apache-2.0 */
#include "net/binding.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/banned.h"

enum { CONTEXT_MAX = 16 << 10 };

int sg_binding_add(struct sg_binding *b, struct sg_str host, struct sg_err *err)
{
    struct sg_netrule one;
    if (b->n == SG_BINDING_HOSTS)
        return sg_fail(err, SG_EXHAUSTED, "a secret has at most %d hosts", SG_BINDING_HOSTS);
    if (sg_netrule_parse(host, &one, err) < 0)
        return -1;
    if ((one.kind != SG_NETRULE_NAME && one.kind != SG_NETRULE_BELOW) || one.is_udp) {
        sg_netrule_done(&one);
        return sg_fail(err, SG_INVALID,
                       "%s is no host for a secret: a name, or *.name for all below it, perhaps "
                       "with a port",
                       sg_quote_str(host).s);
    }
    struct sg_netrule *v = reallocarray(b->v, b->n + 1, sizeof *v);
    if (!v)
        abort(); /* as sg_alloc() */
    b->v = v;
    b->v[b->n++] = one;
    return 0;
}

void sg_binding_done(struct sg_binding *b)
{
    for (size_t i = 0; i < b->n; i++)
        sg_netrule_done(&b->v[i]);
    free(b->v);
    *b = (struct sg_binding) { 0 };
}

bool sg_binding_has(const struct sg_binding *b, const char *name, uint16_t port)
{
    for (size_t i = 0; i < b->n; i++)
        if (sg_binding_fit(&b->v[i], name, port))
            return true;
    return false;
}

size_t sg_binding_fit(const struct sg_netrule *r, const char *name, uint16_t port)
{
    const struct sg_target t = { .name = name, .port = port };
    if (!sg_netrule_matches(r, &t))
        return 0;
    /* An exact name beats every wildcard, the longer wildcard the shorter. */
    return 1 + (r->name ? strlen(r->name) : 0) + (r->kind == SG_NETRULE_NAME ? SG_NAME_MAX : 0);
}

char *sg_binding_context(const struct sg_binding *b, const char *id)
{
    sg_auto_buf text;
    sg_buf_init(&text, CONTEXT_MAX);
    if (!b->n)
        return sg_strdup(id);
    sg_buf_addf(&text, "%s %s", id, b->allows_plain ? "plain" : "tls");
    for (size_t i = 0; i < b->n; i++)
        sg_buf_addf(&text, " %s", b->v[i].text);
    return sg_strdup(sg_buf_cstr(&text));
}
