/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON writer: straight into a buffer, no tree. Commas are placed for you; a key comes before
 * each value inside an object. Text that is not UTF-8 has each bad byte replaced by U+FFFD. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct sg_json {
    struct sg_buf *out; /* borrows */
    bool needs_comma;
};

void sg_json_init(struct sg_json *j, struct sg_buf *out);

void sg_json_open(struct sg_json *j, char bracket);  /* '{' or '[' */
void sg_json_close(struct sg_json *j, char bracket); /* '}' or ']' */
void sg_json_key(struct sg_json *j, const char *key);

void sg_json_str(struct sg_json *j, const char *s); /* NULL writes null */
void sg_json_text(struct sg_json *j, struct sg_str s);
void sg_json_u64(struct sg_json *j, uint64_t v);
void sg_json_i64(struct sg_json *j, int64_t v);
void sg_json_milli(struct sg_json *j, uint64_t thousandths); /* 1500 -> 1.5 */
void sg_json_number(struct sg_json *j, const char *digits);  /* a number as it is */
void sg_json_bool(struct sg_json *j, bool v);
void sg_json_null(struct sg_json *j);

/* A key and its value. */
void sg_json_put_str(struct sg_json *j, const char *key, const char *value);
void sg_json_put_strs(struct sg_json *j, const char *key, const char *const *values); /* to NULL */
void sg_json_put_u64(struct sg_json *j, const char *key, uint64_t value);
void sg_json_put_i64(struct sg_json *j, const char *key, int64_t value);
void sg_json_put_bool(struct sg_json *j, const char *key, bool value);
