/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes up to a NUL as an interceptor file, the rest as a tool call: refused with a word, or
 * decided, and then by K1 and K3, and with a path that has neither "." nor ".." in it. */
#include <stdlib.h>

#include "router/intercept.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check_path(const char *path)
{
    if (path[0] != '/')
        abort();
    for (const char *at = path; *at; at += 1 + strcspn(at + 1, "/")) {
        const size_t part = strcspn(at + 1, "/");
        if ((part == 0 && path[1]) || (part == 1 && at[1] == '.') ||
            (part == 2 && at[1] == '.' && at[2] == '.'))
            abort();
    }
}

static void ask(const struct sg_intercept_rules *r, struct sg_str text)
{
    struct sg_interception d;
    struct sg_err err = { 0 };
    sg_auto_arena a;
    const struct sg_jval *v;
    sg_arena_init(&a, 1 << 20);
    if (sg_json_parse(text, &a, &v, &err) < 0)
        return;
    const struct sg_jval *tool = sg_json_get(v, "tool_name");
    const bool is_text = tool && tool->kind == SG_J_STRING;
    const struct sg_tool_call c = { is_text ? tool->s.p : "Bash", "o", "/home/../w",
                                    sg_json_get(v, "tool_input"), "/etc/passwd" };
    if (sg_intercept_decide(r, &c, &d, &err) < 0) {
        if (err.kind != SG_INVALID)
            abort();
        return;
    }
    if (!d.rule && d.action != SG_INTERCEPT_BLOCK)
        abort();
    if (d.path)
        check_path(d.host_path);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sg_err err = { 0 };
    const uint8_t *nul = n ? memchr(p, '\0', n) : NULL;
    const struct sg_str file = { (const char *)p, nul ? (size_t)(nul - p) : n };
    struct sg_intercept_rules *r =
        file.n ? sg_intercept_parse(file, "f", &err) : sg_intercept_builtin(&err);
    if (!r && (err.kind == SG_OK || !err.msg[0]))
        abort();
    if (r && nul)
        ask(r, (struct sg_str) { (const char *)nul + 1, n - file.n - 1 });
    sg_intercept_free(r);
    return 0;
}
