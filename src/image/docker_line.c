/* SPDX-License-Identifier: Apache-2.0 */
#include "image/docker_line.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/banned.h"

enum { WORD_MAX = 64 };

struct reading {
    struct sg_str left;
    unsigned number; /* of the line that comes next */
    char escape;
};

static bool next(struct reading *r, struct sg_str *ret)
{
    if (!r->left.n)
        return false;
    const char *end = memchr(r->left.p, '\n', r->left.n);
    size_t n = end ? (size_t)(end - r->left.p) : r->left.n;
    const size_t used = n + (end != NULL);
    *ret = (struct sg_str) { r->left.p, n };
    r->left = (struct sg_str) { r->left.p + used, r->left.n - used };
    r->number++;
    if (ret->n && ret->p[ret->n - 1] == '\r')
        ret->n--;
    return true;
}

static struct sg_str trim(struct sg_str s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = (struct sg_str) { s.p + 1, s.n - 1 };
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* "# escape=`" among the comments at the very top. */
static char find_escape(struct sg_str text)
{
    struct reading r = { .left = text };
    static const char key[] = "escape";
    struct sg_str line;
    while (next(&r, &line)) {
        line = trim(line);
        if (!line.n || line.p[0] != '#')
            break;
        line = trim((struct sg_str) { line.p + 1, line.n - 1 });
        const char *equals = line.n ? memchr(line.p, '=', line.n) : NULL;
        if (!equals) /* an ordinary comment ends the directives */
            break;
        const struct sg_str name = trim((struct sg_str) { line.p, (size_t)(equals - line.p) });
        const struct sg_str value =
            trim((struct sg_str) { equals + 1, line.n - (size_t)(equals + 1 - line.p) });
        if (name.n == strlen(key) && strncasecmp(name.p, key, name.n) == 0 && value.n == 1 &&
            value.p[0] == '`')
            return '`';
    }
    return '\\';
}

/* "<<EOF", "<<-EOF", "<<'EOF'" in a line of RUN, COPY or ADD; its word, or "". */
static void heredoc_of(const char *text, char word[WORD_MAX], bool *ret_is_bare,
                       bool *ret_strips_tabs)
{
    const char *at = strstr(text, "<<");
    word[0] = '\0';
    if (!at || at[2] == '<' ||
        (strncasecmp(text, "RUN", 3) != 0 && strncasecmp(text, "COPY", 4) != 0 &&
         strncasecmp(text, "ADD", 3) != 0))
        return;
    const char *from = at + 2;
    *ret_strips_tabs = *from == '-';
    from += *from == '-';
    const char quote = *from == '"' || *from == '\'' ? *from++ : '\0';
    size_t n = 0;
    while (isalnum((unsigned char)from[n]) || from[n] == '_')
        n++;
    if (!n || n >= WORD_MAX || isdigit((unsigned char)from[0]) || (quote && from[n] != quote))
        return;
    memcpy(word, from, n);
    word[n] = '\0';
    const char *before = text + strcspn(text, " \t");
    before += strspn(before, " \t");
    const char *after = from + n + (quote != '\0');
    *ret_is_bare = before == at && !after[strspn(after, " \t")];
}

/* Lines up to the word, into `out`. */
static int read_heredoc(struct reading *r, const char *word, bool strips_tabs, unsigned number,
                        struct sg_buf *out, struct sg_err *err)
{
    struct sg_str line;
    while (next(r, &line)) {
        while (strips_tabs && line.n && line.p[0] == '\t')
            line = (struct sg_str) { line.p + 1, line.n - 1 };
        if (sg_str_is(line, word))
            return 0;
        sg_buf_add(out, line.p, line.n);
        sg_buf_add(out, "\n", 1);
    }
    return sg_fail(err, SG_INVALID, "line %u: the here-document has no end: no line is %s", number,
                   sg_quote(word).s);
}

static int gather_heredoc(struct sg_arena *a, struct reading *r, struct sg_docker_line *line,
                          struct sg_err *err)
{
    char word[WORD_MAX];
    bool is_bare = false, strips = false;
    sg_auto_buf out;
    sg_buf_init(&out, SG_DOCKER_MAX_BYTES);
    heredoc_of(line->text, word, &is_bare, &strips);
    if (!word[0])
        return 0;
    if (!is_bare) { /* the shell reads it itself */
        const char *command = line->text + strcspn(line->text, " \t");
        sg_buf_add_str(&out, command + strspn(command, " \t"));
        sg_buf_add(&out, "\n", 1);
    }
    if (read_heredoc(r, word, strips, line->number, &out, err) < 0)
        return -1;
    if (!is_bare)
        sg_buf_addf(&out, "%s\n", word);
    line->heredoc = sg_arena_copy(a, out.n ? (const char *)out.p : "", out.n);
    return line->heredoc && !out.has_overflowed
               ? 0
               : sg_fail(err, SG_INVALID, "line %u: it is too long", line->number);
}

/* One instruction, over as many lines as it takes; 0 at the end. */
static int gather(struct reading *r, struct sg_buf *out, unsigned *ret_number)
{
    struct sg_str line;
    bool goes_on = false;
    sg_buf_clear(out);
    while (next(r, &line)) {
        const struct sg_str bare = trim(line);
        if (!bare.n || bare.p[0] == '#') /* also between continued lines */
            continue;
        if (!goes_on)
            *ret_number = r->number;
        struct sg_str body = goes_on ? line : bare;
        while (body.n && (body.p[body.n - 1] == ' ' || body.p[body.n - 1] == '\t'))
            body.n--;
        goes_on = body.n && body.p[body.n - 1] == r->escape;
        sg_buf_add(out, body.p, body.n - goes_on);
        if (!goes_on)
            return 1;
    }
    return out->n > 0;
}

int sg_docker_lines(struct sg_arena *a, struct sg_str text,
                    int (*take)(void *arg, const struct sg_docker_line *line, struct sg_err *err),
                    void *arg, struct sg_err *err)
{
    struct reading r = { .left = text };
    unsigned number = 1;
    sg_auto_buf out;
    sg_buf_init(&out, SG_DOCKER_MAX_BYTES);
    if (text.n > SG_DOCKER_MAX_BYTES)
        return sg_fail(err, SG_INVALID, "line 1: the file is over 1 MiB");
    if (text.n && memchr(text.p, '\0', text.n))
        return sg_fail(err, SG_INVALID, "line 1: the file holds a NUL byte");
    if (text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
        r.left = (struct sg_str) { text.p + 3, text.n - 3 };
    r.escape = find_escape(r.left);
    while (gather(&r, &out, &number)) {
        const struct sg_str whole = trim((struct sg_str) { (const char *)out.p, out.n });
        struct sg_docker_line line = { .number = number, .escape = r.escape };
        line.text = sg_arena_copy(a, whole.p, whole.n);
        if (!line.text)
            return sg_fail(err, SG_INVALID, "line %u: it is too long", number);
        if (gather_heredoc(a, &r, &line, err) < 0 || take(arg, &line, err) < 0)
            return -1;
    }
    return 0;
}
