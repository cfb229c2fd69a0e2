/* SPDX-License-Identifier: Apache-2.0 */
#include "image/kv.h"

#include "base/banned.h"

static const char escapes[][2] = { { '"', '"' }, { '\\', '\\' }, { 'n', '\n' }, { 't', '\t' } };

void sg_kv_init(struct sg_kv *kv, struct sg_str text, const char *what)
{
    *kv = (struct sg_kv) { .what = what, .rest = text, .line = 1 };
}

static int fail(const struct sg_kv *kv, const char *why, struct sg_err *err)
{
    return sg_fail(err, SG_INVALID, "%s:%u: %s", kv->what, kv->line, why);
}

static char peek(const struct sg_kv *kv)
{
    return kv->rest.n ? kv->rest.p[0] : '\0';
}

static void advance(struct sg_kv *kv)
{
    if (peek(kv) == '\n')
        kv->line++;
    kv->rest.p++;
    kv->rest.n--;
}

static bool accept(struct sg_kv *kv, char c)
{
    if (!kv->rest.n || peek(kv) != c)
        return false;
    advance(kv);
    return true;
}

static void skip_blanks(struct sg_kv *kv, bool and_lines)
{
    while (kv->rest.n) {
        char c = peek(kv);
        if (c == '#' && and_lines) {
            while (kv->rest.n && peek(kv) != '\n')
                advance(kv);
        } else if (c == ' ' || c == '\t' || (and_lines && (c == '\n' || c == '\r'))) {
            advance(kv);
        } else {
            return;
        }
    }
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static int read_word(struct sg_kv *kv, char *ret, size_t cap, struct sg_err *err)
{
    size_t n = 0;
    for (; kv->rest.n && is_word(peek(kv)); advance(kv)) {
        if (n + 1 >= cap)
            return fail(kv, "word is too long", err);
        ret[n++] = peek(kv);
    }
    ret[n] = '\0';
    return n ? 0 : fail(kv, "expected a word", err);
}

static int read_quoted(struct sg_kv *kv, struct sg_err *err)
{
    size_t n = 0;
    while (!accept(kv, '"')) {
        char c = peek(kv);
        if (!kv->rest.n || (unsigned char)c < 0x20 || c == 0x7f)
            return fail(kv, "text is not closed by a quote on its line", err);
        advance(kv);
        if (c == '\\') {
            size_t i = 0;
            while (i < sizeof escapes / sizeof escapes[0] && escapes[i][0] != peek(kv))
                i++;
            if (!kv->rest.n || i == sizeof escapes / sizeof escapes[0])
                return fail(kv, "unknown escape", err);
            c = escapes[i][1];
            advance(kv);
        }
        if (n + 1 >= sizeof kv->text)
            return fail(kv, "text is too long", err);
        kv->text[n++] = c;
    }
    kv->text[n] = '\0';
    return 0;
}

static int read_value(struct sg_kv *kv, struct sg_err *err)
{
    kv->is_quoted = accept(kv, '"');
    return kv->is_quoted ? read_quoted(kv, err) : read_word(kv, kv->text, sizeof kv->text, err);
}

static int end_line(struct sg_kv *kv, struct sg_err *err)
{
    skip_blanks(kv, false);
    if (kv->rest.n && peek(kv) != '\n' && peek(kv) != '\r' && peek(kv) != '#')
        return fail(kv, "unexpected text after the value", err);
    return 0;
}

/* Inside "[...]": the next element, or the bracket that ends it. */
static int next_element(struct sg_kv *kv, struct sg_err *err)
{
    skip_blanks(kv, true);
    if (accept(kv, ']')) {
        kv->is_in_list = false;
        return end_line(kv, err);
    }
    if (read_value(kv, err) < 0)
        return -1;
    skip_blanks(kv, true);
    if (!accept(kv, ',') && peek(kv) != ']')
        return fail(kv, "expected ',' or ']' in the list", err);
    return 1;
}

int sg_kv_next(struct sg_kv *kv, struct sg_err *err)
{
    for (;;) {
        if (kv->is_in_list) {
            int got = next_element(kv, err);
            if (got != 0)
                return got;
        }
        skip_blanks(kv, true);
        if (!kv->rest.n)
            return 0;
        if (read_word(kv, kv->key, sizeof kv->key, err) < 0)
            return -1;
        skip_blanks(kv, false);
        if (!accept(kv, '='))
            return fail(kv, "expected '=' after the key", err);
        skip_blanks(kv, false);
        if (accept(kv, '[')) {
            kv->is_in_list = true;
            continue;
        }
        if (read_value(kv, err) < 0 || end_line(kv, err) < 0)
            return -1;
        return 1;
    }
}

static void add_quoted(struct sg_buf *out, const char *text)
{
    sg_buf_add_str(out, "\"");
    for (; *text; text++) {
        size_t i = 0;
        while (i < sizeof escapes / sizeof escapes[0] && escapes[i][1] != *text)
            i++;
        if (i < sizeof escapes / sizeof escapes[0])
            sg_buf_addf(out, "\\%c", escapes[i][0]);
        else if ((unsigned char)*text >= 0x20 && *text != 0x7f)
            sg_buf_add(out, text, 1);
    }
    sg_buf_add_str(out, "\"");
}

void sg_kv_add_text(struct sg_buf *out, const char *key, const char *text)
{
    sg_buf_addf(out, "%s = ", key);
    add_quoted(out, text);
    sg_buf_add_str(out, "\n");
}

void sg_kv_add_word(struct sg_buf *out, const char *key, const char *word)
{
    sg_buf_addf(out, "%s = %s\n", key, word);
}

void sg_kv_add_list(struct sg_buf *out, const char *key, char *const *items, size_t count)
{
    sg_buf_addf(out, "%s = [", key);
    for (size_t i = 0; i < count; i++) {
        sg_buf_add_str(out, i ? ", " : "");
        add_quoted(out, items[i]);
    }
    sg_buf_add_str(out, "]\n");
}
