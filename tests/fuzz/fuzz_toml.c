/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as TOML: a tree whose texts are UTF-8 and terminated, or an error with a message. */
#include <stdlib.h>

#include "config/toml.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static size_t walk(const struct sg_toml *t)
{
    size_t seen = 1;
    bool has_children = t->type == SG_TOML_TABLE || t->type == SG_TOML_ARRAY;
    if (!has_children && (!sg_utf8_valid(t->text.p, t->text.n) || t->text.p[t->text.n] != '\0'))
        abort();
    for (const struct sg_toml *c = t->first; c; c = c->next) {
        if (!has_children || (t->type == SG_TOML_TABLE && !sg_utf8_valid(c->key.p, c->key.n)))
            abort();
        seen += walk(c);
    }
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sg_err err = { 0 };
    sg_auto_toml doc = sg_toml_parse((struct sg_str) { (const char *)p, n }, &err);
    if (doc ? walk(sg_toml_root(doc)) > SG_TOML_MAX_NODES : err.kind == SG_OK || !err.msg[0])
        abort();
    return 0;
}
