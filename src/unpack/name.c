/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/name.h"

#include <string.h>

#include "base/str.h"

#include "base/banned.h"

static int refuse(const char *raw, const char *why, struct sg_err *err)
{
    return sg_fail(err, SG_INVALID, "entry %s %s", sg_quote(raw).s, why);
}

int sg_entry_name_parse(const char *raw, unsigned max_depth, struct sg_entry_name *ret,
                        struct sg_err *err)
{
    if (raw[0] == '/')
        return refuse(raw, "has an absolute name", err);
    struct sg_entry_name out;
    size_t at = 0;
    unsigned depth = 0;
    for (const char *p = raw; *p;) {
        size_t n = strcspn(p, "/");
        struct sg_str part = { p, n };
        p += n;
        p += strspn(p, "/");
        if (n == 0 || sg_str_is(part, "."))
            continue;
        if (sg_str_is(part, ".."))
            return refuse(raw, "has '..' in its name", err);
        if (n > NAME_MAX)
            return refuse(raw, "has a component of more than 255 bytes", err);
        if (++depth > max_depth)
            return refuse(raw, "is nested too deep", err);
        if (n + 2 > sizeof out.path - at)
            return refuse(raw, "has too long a name", err);
        if (at)
            out.path[at++] = '/';
        memcpy(out.path + at, part.p, n);
        at += n;
    }
    out.path[at] = '\0';
    memcpy(ret->path, out.path, at + 1);
    return 0;
}
