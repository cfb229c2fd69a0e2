/* SPDX-License-Identifier: Apache-2.0 */
#include "base/auto.h"

#include <stdarg.h>
#include <string.h>

#include "base/banned.h"

void *sg_alloc(size_t n)
{
    void *p = calloc(1, n ? n : 1);
    if (!p)
        abort();
    return p;
}

char *sg_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(sg_alloc(n), s, n);
}

char *sg_printf(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&s, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    return s;
}
