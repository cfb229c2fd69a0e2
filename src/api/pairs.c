/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/call.h"
#include "manager/sandbox.h"
#include "base/banned.h"

int sg_call_pairs(struct sg_call *c, const struct sg_jval *v, const char *what,
                  struct sg_pair **ret, size_t *ret_n, struct sg_err *err)
{
    if (!v)
        return 0;
    if (v->kind != SG_J_OBJECT)
        return sg_fail(err, SG_INVALID, "%s must be an object", what);
    struct sg_pair *pairs = sg_arena_alloc(&c->arena, (v->list.n + 1) * sizeof *pairs);
    if (!pairs)
        return sg_fail(err, SG_EXHAUSTED, "%s has too many members", what);
    size_t n = 0;
    for (const struct sg_jval *m = v->list.first; m; m = m->next, n++) {
        if (m->kind != SG_J_STRING || memchr(m->s.p, 0, m->s.n))
            return sg_fail(err, SG_INVALID, "%s.%s must be a string without NUL", what,
                           sg_quote_str(m->key).s);
        pairs[n].name = sg_arena_copy(&c->arena, m->key.p, m->key.n);
        pairs[n].value = sg_arena_copy(&c->arena, m->s.p, m->s.n);
        if (!pairs[n].name || !pairs[n].value)
            return sg_fail(err, SG_EXHAUSTED, "%s is too large", what);
    }
    *ret = pairs;
    *ret_n = n;
    return 0;
}
