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

static bool drop_suffix(struct sg_str *s, const char *suffix)
{
    size_t n = strlen(suffix);
    if (s->n < n || memcmp(s->p + s->n - n, suffix, n) != 0)
        return false;
    s->n -= n;
    return true;
}

int sg_mapping_parse_bind(const char *text, struct sg_mapping *ret, struct sg_err *err)
{
    struct sg_mapping m;
    if (split(text, "SRC:DST[:ro]", &m, err) < 0)
        return -1;
    m.is_read_only = drop_suffix(&m.target, ":ro");
    if (!m.is_read_only)
        (void)drop_suffix(&m.target, ":rw");
    if (m.target.n == 0 || m.target.p[0] != '/')
        return sg_fail(err, SG_INVALID, "%s: the path inside must be absolute", sg_quote(text).s);
    *ret = m;
    return 0;
}
