/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/banned.h"

enum { MAX_BYTES = 64 << 20, GAP = 2 };

static void add_clean(struct sg_buf *out, struct sg_str text, const char *plain)
{
    for (size_t i = 0; i < text.n;) {
        size_t width = sg_plain_width(text.p + i, text.n - i);
        if (width || (text.p[i] && strchr(plain, text.p[i])))
            sg_buf_add(out, text.p + i, width ? width : 1);
        else
            sg_buf_addf(out, "\\x%02x", (unsigned char)text.p[i]);
        i += width ? width : 1;
    }
}

void sg_add_clean(struct sg_buf *out, const char *text)
{
    add_clean(out, sg_str_of(text), "'\\");
}

void sg_add_clean_lines(struct sg_buf *out, struct sg_str text)
{
    add_clean(out, text, "'\\\n\t");
}

/* Characters, not bytes. Wide ones count as one: nobody's id has them. */
static size_t width_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

void sg_table_add(struct sg_table *t, const char *cell)
{
    size_t start = t->cells.n;
    sg_add_clean(&t->cells, *cell ? cell : "-");
    sg_buf_add(&t->cells, "", 1);
    if (t->cells.has_overflowed)
        return;
    size_t width = width_of((const char *)t->cells.p + start);
    if (width > t->widths[t->column])
        t->widths[t->column] = width;
    t->column = (t->column + 1) % t->columns;
}

void sg_table_addf(struct sg_table *t, const char *fmt, ...)
{
    char cell[256];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(cell, sizeof cell, fmt, ap);
    va_end(ap);
    sg_table_add(t, cell);
}

void sg_table_init_(struct sg_table *t, const char *name, ...)
{
    *t = (struct sg_table) { 0 };
    sg_buf_init(&t->cells, MAX_BYTES);
    va_list names;
    va_start(names, name);
    for (const char *i = name; i; i = va_arg(names, const char *))
        t->columns++;
    va_end(names);
    assert(t->columns <= SG_TABLE_MAX_COLUMNS);
    va_start(names, name);
    for (const char *i = name; i; i = va_arg(names, const char *))
        sg_table_add(t, i);
    va_end(names);
}

void sg_table_done(struct sg_table *t)
{
    sg_buf_done(&t->cells);
}

void sg_table_print(const struct sg_table *t, struct sg_buf *out)
{
    unsigned column = 0;
    for (size_t at = 0; at < t->cells.n;) {
        const char *cell = (const char *)t->cells.p + at;
        size_t width = width_of(cell);
        at += strlen(cell) + 1;
        sg_buf_add_str(out, cell);
        column++;
        if (column == t->columns) {
            sg_buf_add_str(out, "\n");
            column = 0;
            continue;
        }
        sg_buf_addf(out, "%*s", (int)(t->widths[column - 1] - width) + GAP, "");
    }
}

/* ---- short texts ---- */

struct sg_short sg_short_bytes(uint64_t bytes)
{
    static const char units[] = "bkmgtp";
    struct sg_short s;
    unsigned unit = 0;
    uint64_t tenths = bytes;
    if (bytes < 1024) {
        (void)snprintf(s.s, sizeof s.s, "%" PRIu64, bytes);
        return s;
    }
    for (tenths = bytes / 1024 * 10 + bytes % 1024 * 10 / 1024, unit = 1;
         tenths >= 10240 && units[unit + 1]; unit++)
        tenths /= 1024;
    if (tenths < 100)
        (void)snprintf(s.s, sizeof s.s, "%" PRIu64 ".%u%c", tenths / 10, (unsigned)(tenths % 10),
                       units[unit]);
    else
        (void)snprintf(s.s, sizeof s.s, "%" PRIu64 "%c", tenths / 10, units[unit]);
    return s;
}

static bool read_time(const char *text, time_t *ret)
{
    static const struct {
        size_t at, n;
    } parts[] = { { 0, 4 }, { 5, 2 }, { 8, 2 }, { 11, 2 }, { 14, 2 }, { 17, 2 } };
    uint64_t v[SG_COUNT(parts)];
    if (strlen(text) < strlen("2026-01-01T00:00:00"))
        return false;
    for (size_t i = 0; i < SG_COUNT(parts); i++)
        if (sg_parse_u64((struct sg_str) { text + parts[i].at, parts[i].n }, 0, 9999, &v[i], NULL) <
            0)
            return false;
    struct tm tm = { .tm_year = (int)v[0] - 1900,
                     .tm_mon = (int)v[1] - 1,
                     .tm_mday = (int)v[2],
                     .tm_hour = (int)v[3],
                     .tm_min = (int)v[4],
                     .tm_sec = (int)v[5] };
    *ret = timegm(&tm);
    return true;
}

static struct sg_short span(long seconds)
{
    static const struct {
        long seconds;
        char unit;
    } units[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
    struct sg_short s = { "0s" };
    for (size_t i = 0; i < SG_COUNT(units); i++)
        if (seconds >= units[i].seconds) {
            (void)snprintf(s.s, sizeof s.s, "%ld%c", seconds / units[i].seconds, units[i].unit);
            break;
        }
    return s;
}

struct sg_short sg_short_since(const char *rfc3339)
{
    time_t at;
    if (!read_time(rfc3339, &at))
        return (struct sg_short) { "-" };
    return span((long)(time(NULL) - at));
}

struct sg_short sg_short_until(const char *rfc3339)
{
    time_t at;
    if (!read_time(rfc3339, &at))
        return (struct sg_short) { "-" };
    return span((long)(at - time(NULL)));
}
