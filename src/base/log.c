/* SPDX-License-Identifier: Apache-2.0 */
/* The level and the program's name are the only global state of the programs: everything may log,
 * and a parameter through every call would say nothing. */
#include "base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "base/banned.h"

enum { MAX_LINE = 8192 };

static const char *const names[] = { "debug", "info", "warn", "error" };

static const char *log_program = "sandglass";
static enum sg_log_level log_level = SG_LOG_INFO;
static bool is_for_people;

void sg_log_init(const char *program, const char *level)
{
    log_program = program;
    is_for_people = isatty(STDERR_FILENO);
    for (unsigned i = 0; level && i < SG_COUNT(names); i++)
        if (strcmp(names[i], level) == 0)
            log_level = (enum sg_log_level)i;
}

void sg_log_level_set(enum sg_log_level level)
{
    log_level = level;
}

bool sg_log_has(enum sg_log_level level)
{
    return level >= log_level;
}

static void add_time(struct sg_buf *b, bool has_date)
{
    struct timespec t;
    struct tm tm;
    char text[40];
    (void)clock_gettime(CLOCK_REALTIME, &t);
    size_t n = gmtime_r(&t.tv_sec, &tm) ? strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm) : 0;
    size_t skip = has_date || n < sizeof "hh:mm:ss" ? 0 : n - (sizeof "hh:mm:ss" - 1);
    sg_buf_add(b, text + skip, n - skip);
    sg_buf_addf(b, ".%03ld", t.tv_nsec / 1000000);
}

static void write_json(struct sg_buf *b, enum sg_log_level level, const char *what, va_list pairs)
{
    struct sg_json j;
    sg_auto_buf when;
    sg_buf_init(&when, 64);
    add_time(&when, true);
    sg_buf_add_str(&when, "Z");
    sg_json_init(&j, b);
    sg_json_open(&j, '{');
    sg_json_key(&j, "time");
    sg_json_str(&j, sg_buf_cstr(&when));
    sg_json_key(&j, "level");
    sg_json_str(&j, names[level]);
    sg_json_key(&j, "program");
    sg_json_str(&j, log_program);
    sg_json_key(&j, "message");
    sg_json_str(&j, what);
    for (const char *key; (key = va_arg(pairs, const char *));) {
        const char *value = va_arg(pairs, const char *);
        if (!value)
            continue;
        sg_json_key(&j, key);
        sg_json_str(&j, value);
    }
    sg_json_close(&j, '}');
}

/* As it is where it is one plain word, else in quotes; what could drive a terminal is escaped. */
static void add_value(struct sg_buf *b, const char *value)
{
    size_t n = strlen(value);
    bool is_word = n > 0 && !strchr(value, ' ');
    for (size_t i = 0, width; is_word && i < n; i += width) {
        width = sg_plain_width(value + i, n - i);
        is_word = width > 0;
    }
    if (is_word) {
        sg_buf_add(b, value, n);
        return;
    }
    sg_buf_add_str(b, "'");
    for (size_t i = 0; i < n;) {
        size_t width = sg_plain_width(value + i, n - i);
        if (width)
            sg_buf_add(b, value + i, width);
        else
            sg_buf_addf(b, "\\x%02x", (unsigned char)value[i]);
        i += width ? width : 1;
    }
    sg_buf_add_str(b, "'");
}

static void write_text(struct sg_buf *b, enum sg_log_level level, const char *what, va_list pairs)
{
    add_time(b, false);
    sg_buf_addf(b, " %-5s %s: %s", names[level], log_program, what);
    for (const char *key; (key = va_arg(pairs, const char *));) {
        const char *value = va_arg(pairs, const char *);
        if (!value)
            continue;
        sg_buf_addf(b, " %s=", key);
        add_value(b, value);
    }
}

void sg_log_(enum sg_log_level level, const char *what, ...)
{
    if (level < log_level)
        return;
    sg_auto_buf b;
    sg_buf_init(&b, MAX_LINE);
    va_list pairs;
    va_start(pairs, what);
    (is_for_people ? write_text : write_json)(&b, level, what, pairs);
    va_end(pairs);
    if (b.has_overflowed) { /* a cut line would be no JSON: say only what happened */
        sg_buf_clear(&b);
        struct sg_json j;
        sg_json_init(&j, &b);
        sg_json_open(&j, '{');
        sg_json_key(&j, "level");
        sg_json_str(&j, names[level]);
        sg_json_key(&j, "message");
        sg_json_str(&j, what);
        sg_json_close(&j, '}');
    }
    sg_buf_add_str(&b, "\n");
    (void)!write(STDERR_FILENO, b.p, b.n);
}
