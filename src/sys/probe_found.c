/* SPDX-License-Identifier: Apache-2.0 */
/* What a row says. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sys/probe.h"
#include "base/banned.h"

void sg_found(struct sg_finding *f, enum sg_verdict v, const char *fmt, ...)
{
    f->verdict = v;
    va_list ap;
    va_start(ap, fmt);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): clang 14 does not see va_start here */
    (void)vsnprintf(f->detail, sizeof f->detail, fmt, ap);
    va_end(ap);
}

void sg_found_it(struct sg_finding *f)
{
    f->verdict = SG_HAVE_IT;
}

void sg_found_errno(struct sg_finding *f, const char *what)
{
    f->verdict = SG_HAVE_NOT;
    (void)snprintf(f->detail, sizeof f->detail, "%s: %s", what, strerror(errno));
}

void sg_found_fix(struct sg_finding *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): the same */
    (void)vsnprintf(f->fix, sizeof f->fix, fmt, ap);
    va_end(ap);
}
