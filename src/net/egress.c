/* SPDX-License-Identifier: Apache-2.0 */
#include "net/egress.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/banned.h"

void sg_egress_done(struct sg_egress *e)
{
    free(e->address);
    free(e->user);
    free(e->sealed);
    *e = (struct sg_egress) { 0 };
}

static char *copy(const char *text)
{
    return text ? sg_strdup(text) : NULL;
}

void sg_egress_copy(struct sg_egress *to, const struct sg_egress *from)
{
    *to = (struct sg_egress) { copy(from->address), copy(from->user), copy(from->sealed) };
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool sg_egress_is_same(const struct sg_egress *a, const struct sg_egress *b)
{
    return is_same(a->address, b->address) && is_same(a->user, b->user) &&
           is_same(a->sealed, b->sealed);
}

int sg_egress_target(const char *address, struct sg_name *name, struct sg_addr *addr,
                     struct sg_target *ret, struct sg_err *err)
{
    struct sg_target t;
    if (strchr(address, '@')) /* what stands before it is in nobody's log */
        return sg_fail(err, SG_INVALID,
                       "a proxy is HOST:PORT; username and password are members of their own");
    if (sg_target_parse(sg_str_of(address), name, addr, &t, err) < 0)
        return -1;
    if (t.is_udp)
        return sg_fail(err, SG_INVALID, "%s is not HOST:PORT", sg_quote(address).s);
    *ret = t;
    return 0;
}

/* The user name may hold anything, so it is the last. */
char *sg_egress_context(const struct sg_egress *e, const char *org)
{
    return sg_printf("%s egress-proxy %s %s", org, e->address, e->user ? e->user : "");
}
