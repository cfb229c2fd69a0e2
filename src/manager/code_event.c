/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/code_event.h"

#include "base/auto.h"
#include "base/jsonr.h"
#include "base/banned.h"

enum { KEPT_ROOM = 64 << 10 }; /* of a buffer between lines */

/* ---- bytes to lines ---- */

void sg_code_lines_init(struct sg_code_lines *l, size_t max, uint64_t *shared, uint64_t shared_max)
{
    *l = (struct sg_code_lines) { .max = max, .shared = shared, .shared_max = shared_max };
    sg_buf_init(&l->line, max);
}

static void count(struct sg_code_lines *l)
{
    if (l->shared)
        *l->shared += l->line.cap - l->counted;
    l->counted = l->line.cap;
}

/* One large line shall not hold its memory for ever. */
static void start_line(struct sg_code_lines *l)
{
    if (l->line.cap > KEPT_ROOM || l->line.has_overflowed) {
        sg_buf_done(&l->line);
        sg_buf_init(&l->line, l->max);
    }
    sg_buf_clear(&l->line);
    count(l);
}

void sg_code_lines_done(struct sg_code_lines *l)
{
    sg_buf_done(&l->line);
    l->line = (struct sg_buf) { 0 };
    count(l);
}

static void give_up(struct sg_code_lines *l)
{
    l->is_skipping = true;
    start_line(l);
}

void sg_code_lines_gap(struct sg_code_lines *l)
{
    give_up(l);
    l->was_long = l->was_given = false; /* whoever reads knows of the gap */
}

/* Without its line break. */
static void take(struct sg_code_lines *l, const char *p, size_t n)
{
    if (l->is_skipping)
        return;
    sg_buf_add(&l->line, p, n);
    count(l);
    if (l->line.has_overflowed || (l->shared && *l->shared > l->shared_max)) {
        give_up(l);
        l->was_long = true;
    }
}

enum sg_code_line sg_code_lines_next(struct sg_code_lines *l, struct sg_str *in, struct sg_str *ret)
{
    if (l->was_given)
        start_line(l);
    l->was_given = false;
    while (in->n) {
        const char *end = memchr(in->p, '\n', in->n);
        const size_t n = end ? (size_t)(end - in->p) : in->n;
        take(l, in->p, n);
        in->p += n + (end ? 1 : 0);
        in->n -= n + (end ? 1 : 0);
        if (!end)
            break;
        const bool was_skipped = l->is_skipping, was_long = l->was_long;
        l->is_skipping = l->was_long = false;
        if (was_long)
            return SG_CODE_LINE_TOO_LONG;
        if (was_skipped || !l->line.n)
            continue;
        *ret = (struct sg_str) { (const char *)l->line.p, l->line.n };
        l->was_given = true;
        return SG_CODE_LINE;
    }
    return SG_CODE_LINE_MORE;
}

/* ---- a line to an event: one cursor, every step checks the end ---- */

struct scan {
    const char *start, *p, *end;
    unsigned depth;
};

static void skip_space(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\r' || *s->p == '\n'))
        s->p++;
}

static bool is_next(struct scan *s, char c)
{
    const bool is_there = s->p < s->end && *s->p == c;
    s->p += is_there;
    return is_there;
}

static bool skip_hex4(struct scan *s)
{
    for (unsigned i = 0; i < 4; i++, s->p++)
        if (s->p == s->end || !strchr("0123456789abcdefABCDEF", *s->p) || !*s->p)
            return false;
    return true;
}

/* A string; `ret` is what lies between the quotes. */
static bool skip_string(struct scan *s, struct sg_str *ret)
{
    if (!is_next(s, '"'))
        return false;
    const char *from = s->p;
    while (s->p < s->end && *s->p != '"') {
        if ((unsigned char)*s->p < 0x20)
            return false;
        if (*s->p++ != '\\')
            continue;
        if (is_next(s, 'u')) {
            if (!skip_hex4(s))
                return false;
        } else if (s->p == s->end || !*s->p || !strchr("\"\\/bfnrt", *s->p++)) {
            return false;
        }
    }
    *ret = (struct sg_str) { from, (size_t)(s->p - from) };
    return is_next(s, '"');
}

static size_t skip_digits(struct scan *s)
{
    const char *from = s->p;
    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return (size_t)(s->p - from);
}

static bool skip_number(struct scan *s)
{
    (void)is_next(s, '-');
    if (!is_next(s, '0') && !skip_digits(s))
        return false;
    if (is_next(s, '.') && !skip_digits(s))
        return false;
    if (is_next(s, 'e') || is_next(s, 'E')) {
        if (!is_next(s, '+'))
            (void)is_next(s, '-');
        return skip_digits(s) > 0;
    }
    return true;
}

static bool skip_word(struct scan *s, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return false;
    s->p += n;
    return true;
}

static bool skip_value(struct scan *s);

/* Behind the opening bracket. */
static bool skip_list(struct scan *s, bool is_object)
{
    const char close = is_object ? '}' : ']';
    struct sg_str key;
    skip_space(s);
    if (is_next(s, close))
        return true;
    do {
        skip_space(s);
        if (is_object) {
            if (!skip_string(s, &key))
                return false;
            skip_space(s);
            if (!is_next(s, ':'))
                return false;
        }
        if (!skip_value(s))
            return false;
        skip_space(s);
    } while (is_next(s, ','));
    return is_next(s, close);
}

static bool skip_value(struct scan *s)
{
    struct sg_str text;
    skip_space(s);
    if (s->p == s->end)
        return false;
    switch (*s->p) {
    case '"':
        return skip_string(s, &text);
    case '{':
    case '[': {
        const bool is_object = *s->p++ == '{';
        if (++s->depth > SG_J_MAX_DEPTH)
            return false;
        const bool is_right = skip_list(s, is_object);
        s->depth--;
        return is_right;
    }
    case 't':
        return skip_word(s, "true");
    case 'f':
        return skip_word(s, "false");
    case 'n':
        return skip_word(s, "null");
    default:
        return skip_number(s);
    }
}

static enum sg_code_type type_of(struct sg_str name)
{
    static const char *const names[] = {
        [SG_CODE_T_READY] = "ready",           [SG_CODE_T_COUNT] = "number_of_executions",
        [SG_CODE_T_STDOUT] = "stdout",         [SG_CODE_T_STDERR] = "stderr",
        [SG_CODE_T_RESULT] = "result",         [SG_CODE_T_ERROR] = "error",
        [SG_CODE_T_OVER] = "end_of_execution",
    };
    for (unsigned i = 0; i < SG_COUNT(names); i++)
        if (sg_str_is(name, names[i]))
            return i;
    return SG_CODE_T_OTHER;
}

struct members {
    struct sg_code_event e;
    bool has_type, was_twice;
};

/* A text of the outermost object. */
static void take_member(struct members *m, struct sg_str key, struct sg_str text)
{
    if (sg_str_is(key, "type")) {
        m->was_twice |= m->has_type;
        m->has_type = true;
        m->e.type = type_of(text);
    } else if (sg_str_is(key, "name")) {
        m->e.name = text;
    } else if (sg_str_is(key, "value")) {
        m->e.value = text;
    }
}

/* `from`: where its key begins, or the comma before it. */
static void take_id(struct members *m, const struct scan *s, const char *from, struct sg_str id)
{
    m->was_twice |= m->e.id_to > m->e.id_from;
    m->e.id = id;
    m->e.id_from = (size_t)(from - s->start);
    m->e.id_to = (size_t)(s->p - s->start);
}

static bool read_members(struct scan *s, struct members *m)
{
    const char *comma = NULL; /* before the member; NULL: it is the first */
    skip_space(s);
    if (!is_next(s, '{'))
        return false;
    skip_space(s);
    if (is_next(s, '}'))
        return true;
    for (;;) {
        struct sg_str key, text = { 0 };
        skip_space(s);
        const char *from = s->p;
        if (!skip_string(s, &key))
            return false;
        skip_space(s);
        if (!is_next(s, ':'))
            return false;
        skip_space(s);
        const bool is_text = s->p < s->end && *s->p == '"';
        if (is_text ? !skip_string(s, &text) : !skip_value(s))
            return false;
        if (sg_str_is(key, "id")) {
            take_id(m, s, comma ? comma : from, text);
            skip_space(s);
            if (!comma && s->p < s->end && *s->p == ',') /* goes with the comma behind it */
                m->e.id_to = (size_t)(s->p + 1 - s->start);
        } else if (is_text) {
            take_member(m, key, text);
        }
        skip_space(s);
        comma = s->p;
        if (!is_next(s, ','))
            return is_next(s, '}');
    }
}

int sg_code_event_read(struct sg_str line, struct sg_code_event *ret, struct sg_err *err)
{
    struct scan s = { line.p, line.p, line.p + line.n, 1 };
    struct members m = { 0 };
    if (!sg_utf8_valid(line.p, line.n))
        return sg_fail(err, SG_INVALID, "an event is UTF-8");
    const bool is_right = read_members(&s, &m);
    skip_space(&s);
    if (!is_right || s.p != s.end)
        return sg_fail(err, SG_INVALID, "no JSON object: byte %zu", (size_t)(s.p - s.start));
    if (!m.has_type || m.was_twice)
        return sg_fail(err, SG_INVALID, "an event has one type, and at most one id");
    *ret = m.e;
    return 0;
}

void sg_code_event_put(struct sg_buf *out, struct sg_str line, const struct sg_code_event *e)
{
    sg_buf_add(out, line.p, e->id_from);
    sg_buf_add(out, line.p + e->id_to, line.n - e->id_to);
}
