/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox in a file, from anybody. The first byte says in which steps the rest is given: in
 * whatever steps, it is told the same. What ends well has a digest that was right, so that no
 * change of a byte ends well; a manifest that is taken is written and read again as the same. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "manager/move_doc.h"
#include "manager/move_file.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

struct told {
    struct sg_buf manifest, data;
    bool is_whole, has_failed;
    enum sg_kind kind;
    size_t used;
};

static void demand(bool is_so)
{
    if (!is_so)
        abort();
}

static void check_manifest(struct sg_str text)
{
    struct sg_move_doc d = { 0 }, back = { 0 };
    struct sg_err err = { 0 };
    sg_auto_buf first, second;
    sg_buf_init(&first, 8 * SG_MOVE_MANIFEST_MAX);
    sg_buf_init(&second, 8 * SG_MOVE_MANIFEST_MAX);
    if (sg_move_doc_read(text, &d, &err) < 0) {
        demand(err.kind != SG_OK && err.msg[0]);
        return;
    }
    sg_move_doc_put(&d, &first);
    demand(sg_move_doc_read((struct sg_str) { (char *)first.p, first.n }, &back, &err) == 0);
    sg_move_doc_put(&back, &second);
    demand(first.n == second.n && memcmp(first.p, second.p, first.n) == 0);
    sg_move_doc_done(&d);
    sg_move_doc_done(&back);
}

static void read_all(const uint8_t *p, size_t n, size_t step, struct told *t)
{
    struct sg_move_reader r;
    struct sg_err err = { 0 };
    const size_t all = n;
    demand(sg_move_reader_init(&r, &err) == 0);
    while (n && !t->is_whole && !t->has_failed) {
        size_t left = step < n ? step : n;
        const uint8_t *at = p;
        enum sg_move_event event = SG_MOVE_MORE;
        t->has_failed = sg_move_read(&r, &at, &left, &event, &err) < 0;
        n -= (size_t)(at - p);
        p = at;
        if (t->has_failed)
            break;
        if (event == SG_MOVE_MANIFEST)
            sg_buf_add(&t->manifest, r.text.p, r.text.n);
        if (event == SG_MOVE_DATA)
            sg_buf_add(&t->data, r.data, r.data_n);
        t->is_whole = event == SG_MOVE_END;
    }
    if (!t->is_whole && !t->has_failed)
        demand(sg_move_cut(&r, &err) == -1 && err.kind == SG_INVALID);
    t->kind = err.kind;
    t->used = all - n;
    sg_move_reader_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct told a = { 0 }, b = { 0 };
    if (n < 1)
        return 0;
    struct told *both[] = { &a, &b };
    for (unsigned i = 0; i < 2; i++) {
        sg_buf_init(&both[i]->manifest, SG_MOVE_MANIFEST_MAX);
        sg_buf_init(&both[i]->data, n);
    }
    read_all(p + 1, n - 1, SIZE_MAX, &a);
    read_all(p + 1, n - 1, 1 + (size_t)p[0], &b);
    demand(a.is_whole == b.is_whole && a.has_failed == b.has_failed && a.kind == b.kind);
    demand(!a.is_whole || a.used == b.used);
    demand(a.manifest.n == b.manifest.n && a.data.n == b.data.n);
    if (a.data.n)
        demand(memcmp(a.data.p, b.data.p, a.data.n) == 0);
    if (a.manifest.n)
        check_manifest((struct sg_str) { (const char *)a.manifest.p, a.manifest.n });
    for (unsigned i = 0; i < 2; i++) {
        sg_buf_done(&both[i]->manifest);
        sg_buf_done(&both[i]->data);
    }
    return 0;
}
