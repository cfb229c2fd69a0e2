/* SPDX-License-Identifier: Apache-2.0 */
/* The small subset of TOML that templates and recipes are written in:
 *
 *   # comment
 *   key = "text"          with \" \\ \n \t
 *   key = true            or any bare word of letters, digits, '-' and '_'
 *   key = [ "a", "b" ]    may go over several lines; each element is reported on its own
 *
 * No tables, no duplicate detection: a reader that takes one key decides what a second one means.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

enum { SG_KV_MAX_KEY = 32, SG_KV_MAX_TEXT = 4096 };

struct sg_kv {
    const char *what;   /* borrows: the file's name, for messages */
    struct sg_str rest; /* borrows */
    unsigned line;
    bool is_in_list;
    char key[SG_KV_MAX_KEY];
    char text[SG_KV_MAX_TEXT]; /* decoded */
    bool is_quoted;
};

void sg_kv_init(struct sg_kv *kv, struct sg_str text, const char *what);

/* 1 with key and text set, 0 at the end, -1 for SG_INVALID with file and line. */
int sg_kv_next(struct sg_kv *kv, struct sg_err *err);

/* The matching writers. Control bytes that cannot be spelled are left out. */
void sg_kv_add_text(struct sg_buf *out, const char *key, const char *text);
void sg_kv_add_word(struct sg_buf *out, const char *key, const char *word);
void sg_kv_add_list(struct sg_buf *out, const char *key, char *const *items, size_t count);
