/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/edit.h"

#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "cli/term.h"
#include "base/banned.h"

enum key {
    KEY_NONE,
    KEY_HOME = 1,       /* Ctrl-A */
    KEY_LEFT = 2,       /* Ctrl-B */
    KEY_ABANDON = 3,    /* Ctrl-C */
    KEY_DELETE_END = 4, /* Ctrl-D: deletes; at an empty line, ends */
    KEY_END = 5,
    KEY_RIGHT = 6,
    KEY_KILL = 11,
    KEY_RETURN = 13,
    KEY_NEXT = 14,
    KEY_PREVIOUS = 16,
    KEY_KILL_ALL = 21,
    KEY_KILL_WORD = 23,
    KEY_ESCAPE = 27,
    KEY_BACKSPACE = 127,
    KEY_DELETE = 256,
};

struct edit {
    const char *prompt;
    struct sg_ring *history;
    struct sg_buf *line;
    size_t at;     /* byte at which the cursor is */
    size_t recall; /* of the history; its length: the line itself */
};

static void put(const char *text, size_t n)
{
    while (n) {
        ssize_t written = write(STDOUT_FILENO, text, n);
        if (written <= 0)
            return;
        text += written;
        n -= (size_t)written;
    }
}

static bool is_inside(const struct edit *e, size_t at)
{
    return at < e->line->n && (e->line->p[at] & 0xC0) == 0x80;
}

static size_t before(const struct edit *e, size_t at)
{
    while (at && is_inside(e, --at))
        ;
    return at;
}

static size_t behind(const struct edit *e, size_t at)
{
    at += at < e->line->n;
    while (is_inside(e, at))
        at++;
    return at;
}

static size_t columns(const struct edit *e, size_t from, size_t to)
{
    size_t n = 0;
    for (; from < to; from = behind(e, from))
        n++;
    return n;
}

/* The whole line again: simple, and right for lines that fit. */
static void draw(const struct edit *e)
{
    sg_auto_buf out;
    sg_buf_init(&out, 2ul * SG_EDIT_LINE_MAX);
    sg_buf_addf(&out, "\r%s", e->prompt);
    sg_buf_add(&out, e->line->p, e->line->n);
    sg_buf_add_str(&out, "\033[K");
    const size_t back = columns(e, e->at, e->line->n);
    if (back)
        sg_buf_addf(&out, "\033[%zuD", back);
    put((const char *)out.p, out.n);
}

static void cut(struct edit *e, size_t from, size_t to)
{
    memmove(e->line->p + from, e->line->p + to, e->line->n - to);
    e->line->n -= to - from;
    e->at = from;
}

static void insert(struct edit *e, char c)
{
    if (e->line->n >= SG_EDIT_LINE_MAX || !sg_buf_grow(e->line, 1))
        return;
    memmove(e->line->p + e->at + 1, e->line->p + e->at, e->line->n - e->at);
    e->line->p[e->at++] = (uint8_t)c;
    e->line->n++;
}

static void recall(struct edit *e, bool is_older)
{
    if (is_older ? !e->recall : e->recall >= e->history->n)
        return;
    e->recall = is_older ? e->recall - 1 : e->recall + 1;
    sg_buf_clear(e->line);
    if (e->recall < e->history->n)
        sg_buf_add_str(e->line, sg_ring_get(e->history, e->recall));
    e->at = e->line->n;
}

static int read_byte(void)
{
    unsigned char c;
    return read(STDIN_FILENO, &c, 1) == 1 ? c : -1;
}

/* Behind ESC: "[A", "OA", "[3~". */
static int read_sequence(void)
{
    static const struct {
        char last;
        int key;
    } keys[] = { { 'A', KEY_PREVIOUS }, { 'B', KEY_NEXT }, { 'C', KEY_RIGHT },
                 { 'D', KEY_LEFT },     { 'H', KEY_HOME }, { 'F', KEY_END } };
    int c = read_byte();
    if (c != '[' && c != 'O')
        return KEY_NONE;
    c = read_byte();
    for (size_t i = 0; i < SG_COUNT(keys); i++)
        if (c == keys[i].last)
            return keys[i].key;
    const int first = c;
    while (c >= '0' && c <= ';')
        c = read_byte();
    return c != '~' ? KEY_NONE : first == '3' ? KEY_DELETE : first == '1' ? KEY_HOME : KEY_END;
}

static void kill_word(struct edit *e)
{
    size_t from = e->at;
    while (from && e->line->p[from - 1] == ' ')
        from--;
    while (from && e->line->p[from - 1] != ' ')
        from--;
    cut(e, from, e->at);
}

static void press(struct edit *e, int key)
{
    switch (key) {
    case KEY_HOME:
        e->at = 0;
        break;
    case KEY_END:
        e->at = e->line->n;
        break;
    case KEY_LEFT:
        e->at = before(e, e->at);
        break;
    case KEY_RIGHT:
        e->at = behind(e, e->at);
        break;
    case KEY_PREVIOUS:
    case KEY_NEXT:
        recall(e, key == KEY_PREVIOUS);
        break;
    case KEY_BACKSPACE:
    case 8:
        cut(e, before(e, e->at), e->at);
        break;
    case KEY_DELETE:
    case KEY_DELETE_END: {
        const size_t at = e->at;
        cut(e, at, behind(e, at));
        break;
    }
    case KEY_KILL:
        e->line->n = e->at;
        break;
    case KEY_KILL_ALL:
        cut(e, 0, e->at);
        break;
    case KEY_KILL_WORD:
        kill_word(e);
        break;
    default:
        if (key == '\t' || (key >= 32 && key < 256))
            insert(e, (char)key);
    }
}

static enum sg_edited edit(struct edit *e)
{
    for (;;) {
        draw(e);
        int key = read_byte();
        if (key == KEY_ESCAPE)
            key = read_sequence();
        if (key < 0 || (key == KEY_DELETE_END && !e->line->n))
            return SG_EDITED_END;
        if (key == KEY_ABANDON)
            return SG_EDITED_ABANDONED;
        if (key == KEY_RETURN || key == '\n')
            return SG_EDITED_LINE;
        press(e, key);
    }
}

static enum sg_edited read_plain(struct sg_buf *line)
{
    int c;
    while ((c = read_byte()) >= 0 && c != '\n')
        sg_buf_add(line, &(char) { (char)c }, 1);
    return c < 0 && !line->n ? SG_EDITED_END : SG_EDITED_LINE;
}

enum sg_edited sg_edit_line(const char *prompt, struct sg_ring *history, struct sg_buf *line)
{
    struct edit e = { .prompt = prompt, .history = history, .line = line, .recall = history->n };
    struct sg_term term = { .fd = -1 };
    sg_buf_clear(line);
    if (!sg_term_is_tty(STDIN_FILENO) || !sg_term_is_tty(STDOUT_FILENO))
        return read_plain(line);
    sg_term_raw(&term, STDIN_FILENO);
    const enum sg_edited got = edit(&e);
    sg_term_restore(&term);
    put("\n", 1);
    if (got == SG_EDITED_LINE && line->n)
        sg_ring_add(history, (struct sg_str) { (const char *)line->p, line->n });
    return got;
}
