/* SPDX-License-Identifier: Apache-2.0 */
/* Reads documents from stdin, each after a line with its length, and prints one line of JSON for
 * each: {"ok": tree} or {"error": text}. A tree is [type, text], or [type, [children]] with
 * [key, tree] pairs in tables. For toml_against_tomllib.py. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/json.h"
#include "config/toml.h"
#include "base/banned.h"

static void dump(struct sg_json *j, const struct sg_toml *t)
{
    sg_json_open(j, '[');
    sg_json_str(j, sg_toml_type_name(t->type));
    if (t->type == SG_TOML_INTEGER) {
        char text[24];
        (void)snprintf(text, sizeof text, "%" PRId64, t->integer);
        sg_json_str(j, text);
    } else if (t->type != SG_TOML_TABLE && t->type != SG_TOML_ARRAY) {
        sg_json_text(j, t->text);
    } else {
        sg_json_open(j, '[');
        for (const struct sg_toml *child = t->first; child; child = child->next) {
            if (t->type == SG_TOML_TABLE) {
                sg_json_open(j, '[');
                sg_json_text(j, child->key);
            }
            dump(j, child);
            if (t->type == SG_TOML_TABLE)
                sg_json_close(j, ']');
        }
        sg_json_close(j, ']');
    }
    sg_json_close(j, ']');
}

static void answer(struct sg_str text)
{
    struct sg_err err = { 0 };
    sg_auto_toml doc = sg_toml_parse(text, &err);
    sg_auto_buf out;
    sg_buf_init(&out, 64 << 20);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, doc ? "ok" : "error");
    if (doc)
        dump(&j, sg_toml_root(doc));
    else
        sg_json_str(&j, err.msg);
    sg_json_close(&j, '}');
    (void)puts(sg_buf_cstr(&out));
}

int main(void)
{
    size_t n;
    while (scanf("%zu", &n) == 1 && getchar() == '\n') {
        sg_auto_free char *text = sg_alloc(n);
        if (fread(text, 1, n, stdin) != n)
            return 1;
        answer((struct sg_str) { text, n });
    }
    return 0;
}
