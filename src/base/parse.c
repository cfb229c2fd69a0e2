/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include <inttypes.h>
#include <stdbool.h>
#include <strings.h>

#include "base/auto.h"
#include "base/banned.h"

struct unit {
    const char *name;
    uint64_t num; /* value = number * num / den */
};

static const struct unit byte_units[] = {
    { "", 1 },
    { "b", 1 },
    { "k", 1ULL << 10 },
    { "kb", 1ULL << 10 },
    { "kib", 1ULL << 10 },
    { "m", 1ULL << 20 },
    { "mb", 1ULL << 20 },
    { "mib", 1ULL << 20 },
    { "g", 1ULL << 30 },
    { "gb", 1ULL << 30 },
    { "gib", 1ULL << 30 },
    { "t", 1ULL << 40 },
    { "tb", 1ULL << 40 },
    { "tib", 1ULL << 40 },
};
static const struct unit time_units[] = {
    { "", 1000 },     { "ms", 1 },      { "s", 1000 },     { "m", 60000 },
    { "min", 60000 }, { "h", 3600000 }, { "d", 86400000 },
};
static const struct unit milli_units[] = { { "", 1000 } };

/* Reads "digits[.digits]" as whole * 10^9 fraction; returns the bytes used, 0 when there is none.
 */
static size_t read_number(struct sg_str s, uint64_t *ret_whole, uint64_t *ret_nano)
{
    uint64_t whole = 0, nano = 0, scale = 100000000;
    size_t i = 0;
    for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++)
        if (__builtin_mul_overflow(whole, 10u, &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(s.p[i] - '0'), &whole))
            return 0;
    if (i == 0)
        return 0;
    if (i + 1 < s.n && s.p[i] == '.' && s.p[i + 1] >= '0' && s.p[i + 1] <= '9')
        for (i++; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++) {
            nano += (uint64_t)(s.p[i] - '0') * scale;
            scale /= 10;
        }
    *ret_whole = whole;
    *ret_nano = nano;
    return i;
}

static const struct unit *find_unit(const struct unit *units, size_t count, struct sg_str name)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(units[i].name) == name.n && strncasecmp(units[i].name, name.p, name.n) == 0)
            return &units[i];
    return NULL;
}

static int parse_with_units(struct sg_str s, const struct unit *units, size_t count,
                            const char *example, uint64_t min, uint64_t max, uint64_t *ret,
                            struct sg_err *err)
{
    uint64_t whole, nano, value;
    size_t used = read_number(s, &whole, &nano);
    const struct unit *unit =
        used ? find_unit(units, count, (struct sg_str) { s.p + used, s.n - used }) : NULL;
    if (!unit)
        return sg_fail(err, SG_INVALID, "%s is not a value like %s", sg_quote_str(s).s, example);
    __extension__ unsigned __int128 fraction = (unsigned __int128)nano * unit->num / 1000000000u;
    if (__builtin_mul_overflow(whole, unit->num, &value) ||
        __builtin_add_overflow(value, (uint64_t)fraction, &value) || value < min || value > max)
        return sg_fail(err, SG_INVALID, "%s is not between %" PRIu64 " and %" PRIu64,
                       sg_quote_str(s).s, min / units[0].num, max / units[0].num);
    *ret = value;
    return 0;
}

int sg_parse_bytes(struct sg_str s, uint64_t min, uint64_t max, uint64_t *ret, struct sg_err *err)
{
    return parse_with_units(s, byte_units, SG_COUNT(byte_units), "'512m' or '1.5g'", min, max, ret,
                            err);
}

int sg_parse_duration_ms(struct sg_str s, uint64_t min, uint64_t max, uint64_t *ret,
                         struct sg_err *err)
{
    return parse_with_units(s, time_units, SG_COUNT(time_units), "'300s' or '5m'", min, max, ret,
                            err);
}

int sg_parse_milli(struct sg_str s, uint64_t min, uint64_t max, uint64_t *ret, struct sg_err *err)
{
    return parse_with_units(s, milli_units, SG_COUNT(milli_units), "'0.5' or '2'", min, max, ret,
                            err);
}

int sg_parse_u64(struct sg_str s, uint64_t min, uint64_t max, uint64_t *ret, struct sg_err *err)
{
    uint64_t v = 0;
    bool is_number = s.n > 0;
    for (size_t i = 0; is_number && i < s.n; i++)
        is_number = s.p[i] >= '0' && s.p[i] <= '9' && !__builtin_mul_overflow(v, 10u, &v) &&
                    !__builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v);
    if (!is_number)
        return sg_fail(err, SG_INVALID, "%s is not a whole number", sg_quote_str(s).s);
    if (v < min || v > max)
        return sg_fail(err, SG_INVALID, "%s is not between %" PRIu64 " and %" PRIu64,
                       sg_quote_str(s).s, min, max);
    *ret = v;
    return 0;
}
