/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a tool call on stdin: refused with a word, or a call whose session is one name and
 * whose answer is JSON with the same arguments, one of them as one word for a shell. */
#include <stdlib.h>

#include "cli/hook.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

/* What a shell makes of it: '...' and \' only. */
static void check_word(const char *quoted, const char *text)
{
    bool is_inside = false;
    for (; *quoted; quoted++) {
        if (*quoted == '\'') {
            is_inside = !is_inside;
        } else if (is_inside) {
            demand(*quoted == *text++);
        } else {
            demand(quoted[0] == '\\' && quoted[1] == '\'' && *text++ == '\'');
            quoted++;
        }
    }
    demand(!is_inside && !*text);
}

static void answer(const struct sg_hook_call *c)
{
    const struct sg_jval *first = c->input ? c->input->list.first : NULL, *v;
    const bool is_text = first && first->kind == SG_J_STRING;
    struct sg_err err = { 0 };
    sg_auto_arena a;
    sg_auto_buf out, word;
    sg_arena_init(&a, 64 << 20);
    sg_buf_init(&out, 64 << 20);
    sg_buf_init(&word, 64 << 20);
    if (is_text)
        sg_hook_quote(&word, first->s.p);
    const struct sg_hook_answer answer = { SG_HOOK_ALLOW, "r", first ? first->key.p : NULL,
                                           first ? sg_buf_cstr(&word) : NULL };
    sg_hook_write(&out, c, &answer);
    demand(!out.has_overflowed);
    demand(sg_json_parse((struct sg_str) { (const char *)out.p, out.n }, &a, &v, &err) == 0);
    v = sg_json_get(sg_json_get(v, "hookSpecificOutput"), "updatedInput");
    demand(!first == !v);
    demand(!v || v->list.n == c->input->list.n);
    if (is_text)
        check_word(sg_buf_cstr(&word), first->s.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sg_hook_call c;
    struct sg_err err = { 0 };
    sg_auto_arena a;
    sg_arena_init(&a, 16 << 20);
    if (sg_hook_read((struct sg_str) { n ? (const char *)p : "", n }, &a, &c, &err) < 0) {
        demand(err.kind == SG_INVALID || err.kind == SG_EXHAUSTED);
        return 0;
    }
    if (c.event == SG_HOOK_OTHER)
        return 0;
    demand(c.session[0] != '.' && !strchr(c.session, '/') && c.cwd[0] == '/');
    answer(&c);
    return 0;
}
