/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel says. The input is a journal's bytes, cut into pieces by its own first byte:
 * however it is cut, the lines are the same; a line is within its bound; what is handed on of an
 * event is JSON again where the strict reader took it, and is the same but for the id. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/jsonr.h"
#include "manager/code_event.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { LINE_MAX_ = 4096, SHARED_MAX = 1 << 16 };

static void demand(bool is_so)
{
    if (!is_so)
        abort();
}

static void check_event(struct sg_str line)
{
    struct sg_code_event e;
    const struct sg_jval *whole, *given;
    sg_auto_arena a;
    sg_auto_buf out;
    sg_arena_init(&a, 8 << 20);
    sg_buf_init(&out, LINE_MAX_);
    const bool is_json = sg_json_parse(line, &a, &whole, NULL) == 0;
    if (sg_code_event_read(line, &e, NULL) < 0) {
        const struct sg_jval *type = is_json ? sg_json_get(whole, "type") : NULL;
        demand(!type || type->kind != SG_J_STRING);
        return;
    }
    demand(e.id_from <= e.id_to && e.id_to <= line.n);
    sg_code_event_put(&out, line, &e);
    demand(!out.has_overflowed);
    const struct sg_str text = { (const char *)out.p, out.n };
    struct sg_code_event again;
    demand(sg_code_event_read(text, &again, NULL) == 0 && again.type == e.type && !again.id.n);
    if (!is_json)
        return;
    demand(sg_json_parse(text, &a, &given, NULL) == 0 && !sg_json_get(given, "id"));
    const size_t ids = sg_json_get(whole, "id") ? 1 : 0;
    demand(given->list.n + ids == whole->list.n);
}

/* The lines of all of it, joined; `step` bytes at a time. */
static void gather(struct sg_str all, size_t step, struct sg_buf *out)
{
    uint64_t shared = 0;
    struct sg_code_lines l;
    sg_code_lines_init(&l, LINE_MAX_, &shared, SHARED_MAX);
    while (all.n) {
        struct sg_str in = { all.p, all.n < step ? all.n : step }, line;
        all.p += in.n;
        all.n -= in.n;
        for (enum sg_code_line got;
             (got = sg_code_lines_next(&l, &in, &line)) != SG_CODE_LINE_MORE;) {
            if (got == SG_CODE_LINE) {
                demand(line.n && line.n <= LINE_MAX_ && !memchr(line.p, '\n', line.n));
                check_event(line);
                sg_buf_add(out, line.p, line.n);
            }
            sg_buf_add(out, got == SG_CODE_LINE ? "\n" : "!", 1);
        }
        demand(shared <= SHARED_MAX);
    }
    sg_code_lines_done(&l);
    demand(shared == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    if (!n)
        return 0;
    const struct sg_str all = { (const char *)p + 1, n - 1 };
    sg_auto_buf whole, pieces;
    sg_buf_init(&whole, 4 * n + 16);
    sg_buf_init(&pieces, 4 * n + 16);
    gather(all, all.n ? all.n : 1, &whole);
    gather(all, 1 + p[0] % 64u, &pieces);
    demand(whole.n == pieces.n && (!whole.n || memcmp(whole.p, pieces.p, whole.n) == 0));
    return 0;
}
