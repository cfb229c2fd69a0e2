/* SPDX-License-Identifier: Apache-2.0 */
/* The reader's frame: memory, position, lines, arrays and inline tables. */
#include "config/toml.h"

#include <stdlib.h>

#include "base/auto.h"
#include "config/toml_internal.h"
#include "base/banned.h"

enum { BLOCK_NODES = 32 };

struct sg_toml_block {
    struct sg_toml_block *next;
    struct sg_toml nodes[BLOCK_NODES];
};

struct sg_toml_doc {
    struct sg_toml *root;
    struct sg_toml_block *blocks;
    size_t node_count;
    char *pool;
    size_t pool_used;
};

static const char *const type_names[SG_TOML_TYPE_COUNT] = {
    [SG_TOML_STRING] = "a string", [SG_TOML_INTEGER] = "an integer", [SG_TOML_FLOAT] = "a float",
    [SG_TOML_BOOL] = "a boolean",  [SG_TOML_DATE] = "a date",        [SG_TOML_ARRAY] = "an array",
    [SG_TOML_TABLE] = "a table",
};

const char *sg_toml_type_name(enum sg_toml_type type)
{
    return type_names[type];
}

static uint32_t column_of(struct sg_toml_reader *r, const char *at)
{
    bool is_ahead = r->seen >= r->line_start && r->seen <= at;
    const char *p = is_ahead ? r->seen : r->line_start;
    uint32_t column = is_ahead ? r->seen_column : 1;
    for (; p < at; p++)
        column += ((uint8_t)*p & 0xc0) != 0x80;
    r->seen = p;
    r->seen_column = column;
    return column;
}

int sg_toml_refuse(struct sg_toml_reader *r, const char *at, const char *what)
{
    return sg_fail(r->err, SG_INVALID, "%u:%u: %s", r->line, column_of(r, at), what);
}

struct sg_toml *sg_toml_node(struct sg_toml_reader *r, enum sg_toml_type type, const char *at)
{
    struct sg_toml_doc *doc = r->doc;
    if (doc->node_count >= SG_TOML_MAX_NODES) {
        (void)sg_fail(r->err, SG_EXHAUSTED, "%u:%u: over %d values", r->line, column_of(r, at),
                      SG_TOML_MAX_NODES);
        return NULL;
    }
    if (doc->node_count % BLOCK_NODES == 0) {
        struct sg_toml_block *b = sg_new(struct sg_toml_block);
        b->next = doc->blocks;
        doc->blocks = b;
    }
    struct sg_toml *node = &doc->blocks->nodes[doc->node_count++ % BLOCK_NODES];
    node->type = type;
    node->line = r->line;
    node->column = column_of(r, at);
    return node;
}

char *sg_toml_pool(struct sg_toml_reader *r)
{
    return r->doc->pool + r->doc->pool_used;
}

struct sg_str sg_toml_keep(struct sg_toml_reader *r, char *end)
{
    char *start = sg_toml_pool(r);
    *end = '\0';
    r->doc->pool_used += (size_t)(end - start) + 1;
    return (struct sg_str) { start, (size_t)(end - start) };
}

void sg_toml_skip_blank(struct sg_toml_reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t'))
        r->p++;
}

bool sg_toml_take(struct sg_toml_reader *r, char c)
{
    if (r->p == r->end || *r->p != c)
        return false;
    r->p++;
    return true;
}

bool sg_toml_take_newline(struct sg_toml_reader *r)
{
    size_t left = (size_t)(r->end - r->p);
    size_t n = left >= 1 && r->p[0] == '\n' ? 1 : left >= 2 && memcmp(r->p, "\r\n", 2) == 0 ? 2 : 0;
    if (!n)
        return false;
    r->p += n;
    r->line++;
    r->line_start = r->p;
    return true;
}

static bool at_line_end(const struct sg_toml_reader *r)
{
    size_t left = (size_t)(r->end - r->p);
    return left == 0 || *r->p == '\n' || (left >= 2 && memcmp(r->p, "\r\n", 2) == 0);
}

static int skip_comment(struct sg_toml_reader *r)
{
    if (!sg_toml_take(r, '#'))
        return 0;
    for (; !at_line_end(r); r->p++)
        if (((uint8_t)*r->p < 0x20 && *r->p != '\t') || *r->p == 0x7f)
            return sg_toml_refuse(r, r->p, "control character in a comment");
    return 0;
}

int sg_toml_skip_lines(struct sg_toml_reader *r)
{
    do {
        sg_toml_skip_blank(r);
        if (skip_comment(r) < 0)
            return -1;
    } while (sg_toml_take_newline(r));
    return 0;
}

void sg_toml_add(struct sg_toml *parent, struct sg_toml *child)
{
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
}

static struct sg_toml *read_array(struct sg_toml_reader *r)
{
    struct sg_toml *array = sg_toml_node(r, SG_TOML_ARRAY, r->p);
    if (!array)
        return NULL;
    r->p++; /* the bracket */
    for (;;) {
        if (sg_toml_skip_lines(r) < 0)
            return NULL;
        if (sg_toml_take(r, ']'))
            return array;
        struct sg_toml *value = sg_toml_read_value(r);
        if (!value)
            return NULL;
        sg_toml_add(array, value);
        if (sg_toml_skip_lines(r) < 0)
            return NULL;
        if (!sg_toml_take(r, ',') && (r->p == r->end || *r->p != ']')) {
            (void)sg_toml_refuse(r, r->p, "expected ',' or ']' in an array");
            return NULL;
        }
    }
}

static struct sg_toml *read_inline_table(struct sg_toml_reader *r)
{
    struct sg_toml *table = sg_toml_node(r, SG_TOML_TABLE, r->p);
    if (!table)
        return NULL;
    r->p++; /* the brace */
    sg_toml_skip_blank(r);
    bool is_closed = sg_toml_take(r, '}');
    while (!is_closed) {
        sg_toml_skip_blank(r);
        if (sg_toml_read_pair(r, table) < 0)
            return NULL;
        sg_toml_skip_blank(r);
        is_closed = sg_toml_take(r, '}');
        if (!is_closed && !sg_toml_take(r, ',')) {
            (void)sg_toml_refuse(r, r->p, "expected ',' or '}' in an inline table");
            return NULL;
        }
    }
    return table;
}

static struct sg_toml *read_text(struct sg_toml_reader *r)
{
    struct sg_toml *node = sg_toml_node(r, SG_TOML_STRING, r->p);
    if (!node || sg_toml_read_string(r, false, &node->text) < 0)
        return NULL;
    return node;
}

struct sg_toml *sg_toml_read_value(struct sg_toml_reader *r)
{
    if (r->depth >= SG_TOML_MAX_DEPTH) {
        (void)sg_fail(r->err, SG_EXHAUSTED, "%u:%u: nested over %d levels deep", r->line,
                      column_of(r, r->p), SG_TOML_MAX_DEPTH);
        return NULL;
    }
    r->depth++;
    char c = r->p < r->end ? *r->p : '\n';
    struct sg_toml *value = c == '['                ? read_array(r)
                            : c == '{'              ? read_inline_table(r)
                            : c == '"' || c == '\'' ? read_text(r)
                                                    : sg_toml_read_word(r);
    r->depth--;
    return value;
}

static int read_document(struct sg_toml_reader *r)
{
    struct sg_toml *table = r->doc->root;
    for (;;) {
        if (sg_toml_skip_lines(r) < 0)
            return -1;
        if (r->p == r->end)
            return 0;
        if (*r->p == '[' ? sg_toml_read_header(r, &table) < 0 : sg_toml_read_pair(r, table) < 0)
            return -1;
        sg_toml_skip_blank(r);
        if (skip_comment(r) < 0)
            return -1;
        if (!at_line_end(r))
            return sg_toml_refuse(r, r->p, "expected the end of the line");
    }
}

/* The position of the first bad byte is worth the second pass. */
static int refuse_encoding(struct sg_toml_reader *r)
{
    while (r->p < r->end) {
        if (sg_toml_take_newline(r))
            continue;
        size_t width = 1;
        while (width <= 4 && !sg_utf8_valid(r->p, width))
            if (++width > (size_t)(r->end - r->p))
                width = 5;
        if (width > 4)
            break;
        r->p += width;
    }
    return sg_toml_refuse(r, r->p, "not UTF-8");
}

struct sg_toml_doc *sg_toml_parse(struct sg_str text, struct sg_err *err)
{
    if (text.n > SG_TOML_MAX_BYTES) {
        (void)sg_fail(err, SG_EXHAUSTED, "over %d bytes", SG_TOML_MAX_BYTES);
        return NULL;
    }
    sg_auto_toml doc = sg_new(struct sg_toml_doc);
    doc->pool = sg_alloc(2 * text.n + 1);
    const char *p = text.n ? text.p : "";
    struct sg_toml_reader r = { .p = p,
                                .end = p + text.n,
                                .line_start = p,
                                .seen = p,
                                .seen_column = 1,
                                .line = 1,
                                .doc = doc,
                                .err = err };
    r.root = doc->root = sg_toml_node(&r, SG_TOML_TABLE, r.p);
    if (sg_utf8_valid(p, text.n) ? read_document(&r) < 0 : refuse_encoding(&r) < 0)
        return NULL;
    return sg_take_ptr(&doc);
}

void sg_toml_free(struct sg_toml_doc *doc)
{
    if (!doc)
        return;
    while (doc->blocks) {
        struct sg_toml_block *b = doc->blocks;
        doc->blocks = b->next;
        free(b);
    }
    free(doc->pool);
    free(doc);
}

void sg_toml_free_p(struct sg_toml_doc **doc)
{
    sg_toml_free(*doc);
}

const struct sg_toml *sg_toml_root(const struct sg_toml_doc *doc)
{
    return doc->root;
}

const struct sg_toml *sg_toml_find(const struct sg_toml *table, const char *key)
{
    for (const struct sg_toml *t = table->first; t; t = t->next)
        if (sg_str_is(t->key, key))
            return t;
    return NULL;
}
