/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/banned.h"

static const char *const kind_names[SG_KIND_COUNT] = {
    [SG_OK] = "ok",
    [SG_INVALID] = "invalid",
    [SG_NOT_FOUND] = "not_found",
    [SG_CONFLICT] = "conflict",
    [SG_DENIED] = "denied",
    [SG_EXHAUSTED] = "exhausted",
    [SG_UNSUPPORTED] = "unsupported",
    [SG_TIMEOUT] = "timeout",
    [SG_UNAVAILABLE] = "unavailable",
    [SG_INTERNAL] = "internal",
};

static const struct {
    int sys;
    enum sg_kind kind;
} kinds[] = {
    { ENOENT, SG_NOT_FOUND },     { ENOTDIR, SG_NOT_FOUND },      { ESRCH, SG_NOT_FOUND },
    { EEXIST, SG_CONFLICT },      { EBUSY, SG_CONFLICT },         { ENOTEMPTY, SG_CONFLICT },
    { ETXTBSY, SG_CONFLICT },     { EACCES, SG_DENIED },          { EPERM, SG_DENIED },
    { EROFS, SG_DENIED },         { ENOSPC, SG_EXHAUSTED },       { EDQUOT, SG_EXHAUSTED },
    { ENOMEM, SG_EXHAUSTED },     { EMFILE, SG_EXHAUSTED },       { ENFILE, SG_EXHAUSTED },
    { EFBIG, SG_EXHAUSTED },      { E2BIG, SG_EXHAUSTED },        { EMSGSIZE, SG_EXHAUSTED },
    { ENOSYS, SG_UNSUPPORTED },   { EOPNOTSUPP, SG_UNSUPPORTED }, { ENODEV, SG_UNSUPPORTED },
    { ETIMEDOUT, SG_TIMEOUT },    { EAGAIN, SG_UNAVAILABLE },     { ECONNREFUSED, SG_UNAVAILABLE },
    { EPIPE, SG_UNAVAILABLE },    { ECONNRESET, SG_UNAVAILABLE }, { EINVAL, SG_INVALID },
    { ENAMETOOLONG, SG_INVALID }, { ELOOP, SG_INVALID },          { EISDIR, SG_INVALID },
    { ENOEXEC, SG_INVALID },      { EXDEV, SG_INVALID },
};

enum sg_kind sg_kind_of_errno(int sys)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].sys == sys)
            return kinds[i].kind;
    return SG_INTERNAL;
}

const char *sg_kind_name(enum sg_kind kind)
{
    return (unsigned)kind < SG_KIND_COUNT ? kind_names[kind] : "unknown";
}

__attribute__((format(printf, 5, 0))) static void set_v(struct sg_err *err, enum sg_kind kind,
                                                        int sys, const char *where, const char *fmt,
                                                        va_list ap)
{
    if (!err)
        return;
    err->kind = kind;
    err->sys = sys;
    err->where = where;
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    if (sys && n >= 0 && (size_t)n < sizeof err->msg)
        (void)snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %s", strerror(sys));
}

int sg_err_set_(struct sg_err *err, enum sg_kind kind, int sys, const char *where, const char *fmt,
                ...)
{
    va_list ap;
    va_start(ap, fmt);
    set_v(err, kind, sys, where, fmt, ap);
    va_end(ap);
    return -1;
}

int sg_err_set_sys_(struct sg_err *err, const char *where, const char *fmt, ...)
{
    int sys = errno;
    va_list ap;
    va_start(ap, fmt);
    set_v(err, sg_kind_of_errno(sys), sys, where, fmt, ap);
    va_end(ap);
    return -1;
}

int sg_err_wrap_(struct sg_err *err, const char *fmt, ...)
{
    if (!err)
        return -1;
    char inner[sizeof err->msg];
    memcpy(inner, err->msg, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->msg)
        (void)snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %s", inner);
    return -1;
}
