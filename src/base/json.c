/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <inttypes.h>

#include "base/banned.h"

void sg_json_init(struct sg_json *j, struct sg_buf *out)
{
    *j = (struct sg_json) { .out = out };
}

static void before_value(struct sg_json *j)
{
    if (j->needs_comma)
        sg_buf_add_str(j->out, ",");
    j->needs_comma = true;
}

void sg_json_open(struct sg_json *j, char bracket)
{
    before_value(j);
    sg_buf_add(j->out, &bracket, 1);
    j->needs_comma = false;
}

void sg_json_close(struct sg_json *j, char bracket)
{
    sg_buf_add(j->out, &bracket, 1);
    j->needs_comma = true;
}

void sg_json_key(struct sg_json *j, const char *key)
{
    sg_json_str(j, key);
    sg_buf_add_str(j->out, ":");
    j->needs_comma = false;
}

static size_t valid_prefix(const char *p, size_t n)
{
    for (size_t width = 1; width <= 4 && width <= n; width++)
        if (sg_utf8_valid(p, width))
            return width;
    return 0;
}

static void add_escaped(struct sg_buf *out, uint8_t c)
{
    static const char shorthand[] = "\bb\ff\nn\rr\tt\"\"\\\\", hex[] = "0123456789abcdef";
    for (size_t i = 0; i + 1 < sizeof shorthand; i += 2)
        if (c == (uint8_t)shorthand[i]) {
            char two[2] = { '\\', shorthand[i + 1] };
            sg_buf_add(out, two, 2);
            return;
        }
    const char six[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };
    sg_buf_add(out, six, sizeof six);
}

void sg_json_text(struct sg_json *j, struct sg_str s)
{
    before_value(j);
    sg_buf_add_str(j->out, "\"");
    size_t start = 0; /* of the run that needs no change */
    for (size_t i = 0; i < s.n;) {
        uint8_t c = (uint8_t)s.p[i];
        bool is_special = c < 0x20 || c == '"' || c == '\\';
        size_t width = is_special ? 1 : valid_prefix(s.p + i, s.n - i);
        if (!is_special && width) {
            i += width;
            continue;
        }
        sg_buf_add(j->out, s.p + start, i - start);
        if (is_special)
            add_escaped(j->out, c);
        else
            sg_buf_add_str(j->out, "\xef\xbf\xbd");
        start = ++i;
    }
    if (s.n > start)
        sg_buf_add(j->out, s.p + start, s.n - start);
    sg_buf_add_str(j->out, "\"");
}

void sg_json_str(struct sg_json *j, const char *s)
{
    if (s)
        sg_json_text(j, sg_str_of(s));
    else
        sg_json_null(j);
}

void sg_json_u64(struct sg_json *j, uint64_t v)
{
    before_value(j);
    sg_buf_addf(j->out, "%" PRIu64, v);
}

void sg_json_i64(struct sg_json *j, int64_t v)
{
    before_value(j);
    sg_buf_addf(j->out, "%" PRId64, v);
}

void sg_json_milli(struct sg_json *j, uint64_t thousandths)
{
    before_value(j);
    unsigned rest = (unsigned)(thousandths % 1000);
    sg_buf_addf(j->out, "%" PRIu64, thousandths / 1000);
    if (rest % 10)
        sg_buf_addf(j->out, ".%03u", rest);
    else if (rest % 100)
        sg_buf_addf(j->out, ".%02u", rest / 10);
    else if (rest)
        sg_buf_addf(j->out, ".%u", rest / 100);
}

void sg_json_number(struct sg_json *j, const char *digits)
{
    before_value(j);
    sg_buf_add_str(j->out, digits);
}

void sg_json_bool(struct sg_json *j, bool v)
{
    before_value(j);
    sg_buf_add_str(j->out, v ? "true" : "false");
}

void sg_json_null(struct sg_json *j)
{
    before_value(j);
    sg_buf_add_str(j->out, "null");
}

void sg_json_put_str(struct sg_json *j, const char *key, const char *value)
{
    sg_json_key(j, key);
    sg_json_str(j, value);
}

void sg_json_put_u64(struct sg_json *j, const char *key, uint64_t value)
{
    sg_json_key(j, key);
    sg_json_u64(j, value);
}

void sg_json_put_i64(struct sg_json *j, const char *key, int64_t value)
{
    sg_json_key(j, key);
    sg_json_i64(j, value);
}

void sg_json_put_bool(struct sg_json *j, const char *key, bool value)
{
    sg_json_key(j, key);
    sg_json_bool(j, value);
}

void sg_json_put_strs(struct sg_json *j, const char *key, const char *const *values)
{
    sg_json_key(j, key);
    sg_json_open(j, '[');
    for (; *values; values++)
        sg_json_str(j, *values);
    sg_json_close(j, ']');
}
