/* SPDX-License-Identifier: Apache-2.0 */
#include "config/mapping.h"

#include "base/banned.h"

static int split(const char *text, const char *shape, struct sg_mapping *ret, struct sg_err *err)
{
    const char *colon = strchr(text, ':');
    if (!colon || colon == text || !colon[1])
        return sg_fail(err, SG_INVALID, "%s is not %s", sg_quote(text).s, shape);
    *ret = (struct sg_mapping) { .source = { text, (size_t)(colon - text) },
                                 .target = sg_str_of(colon + 1) };
    return 0;
}

int sg_mapping_parse_copy(const char *text, struct sg_mapping *ret, struct sg_err *err)
{
    return split(text, "SRC:DST", ret, err);
}

/* What follows the target's colon. A word that is not known would be a mode that does not hold, so
 * it is never taken for a part of the path. */
static int take_mode(struct sg_mapping *m, struct sg_err *err)
{
    const char *colon = memchr(m->target.p, ':', m->target.n);
    if (!colon)
        return 0;
    struct sg_str mode = sg_str_of(colon + 1);
    if (!sg_str_is(mode, "ro") && !sg_str_is(mode, "rw"))
        return sg_fail(err, SG_INVALID, "%s is not ro or rw (a path inside cannot hold a colon)",
                       sg_quote_str(mode).s);
    m->is_read_only = sg_str_is(mode, "ro");
    m->target.n = (size_t)(colon - m->target.p);
    return 0;
}

static struct sg_str next_part(struct sg_str *rest)
{
    while (rest->n && rest->p[0] == '/')
        *rest = (struct sg_str) { rest->p + 1, rest->n - 1 };
    const char *slash = rest->n ? memchr(rest->p, '/', rest->n) : NULL;
    struct sg_str part = { rest->p, slash ? (size_t)(slash - rest->p) : rest->n };
    *rest = (struct sg_str) { rest->p + part.n, rest->n - part.n };
    return part;
}

/* The kernel's own directories are made anew for each cell, and part of its walls. */
static int check_target(struct sg_str target, struct sg_err *err)
{
    struct sg_str rest = target;
    const struct sg_str first = next_part(&rest);
    if (first.n == 0)
        return sg_fail(err, SG_INVALID, "cannot replace the root: use --template DIR");
    size_t count = 0;
    for (struct sg_str part = first; part.n; part = next_part(&rest), count++)
        if (sg_str_is(part, ".") || sg_str_is(part, ".."))
            return sg_fail(err, SG_INVALID, "%s: no '.' or '..' in a path inside",
                           sg_quote_str(target).s);
    if (sg_str_is(first, "proc") || sg_str_is(first, "sys") ||
        (sg_str_is(first, "dev") && count == 1))
        return sg_fail(err, SG_INVALID, "%s belongs to the sandbox itself", sg_quote_str(target).s);
    return 0;
}

int sg_mapping_parse_bind(const char *text, struct sg_mapping *ret, struct sg_err *err)
{
    struct sg_mapping m;
    if (split(text, "SRC:DST[:ro|:rw]", &m, err) < 0 || take_mode(&m, err) < 0)
        return -1;
    if (m.target.n == 0 || m.target.p[0] != '/')
        return sg_fail(err, SG_INVALID, "%s: the path inside must be absolute", sg_quote(text).s);
    if (check_target(m.target, err) < 0)
        return -1;
    *ret = m;
    return 0;
}
