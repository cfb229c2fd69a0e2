/* SPDX-License-Identifier: Apache-2.0 */
/* ctl/msg: what is encoded comes back, and nothing else is believed. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "check.h"
#include "ctl/entry.h"
#include "ctl/msg.h"
#include "random.h"
#include "base/banned.h"

enum { ROUNDS = 4000, BLOB_BYTES = 4096 };

/* ---- random messages ---- */

/* Text without NUL somewhere in a fixed store, so that the message can borrow it. */
static struct sg_text random_text(struct rng *r, char *store, size_t max)
{
    size_t n = rng_below(r, max + 1);
    for (size_t i = 0; i < n; i++)
        store[i] = (char)(1 + rng_below(r, 255));
    store[n] = '\0';
    return (struct sg_text) { store, n };
}

struct blob {
    char text[24][BLOB_BYTES + 1];
    struct sg_buf lists[4];
};

static void random_field(struct rng *r, const struct sg_field *f, struct sg_msg *m, struct blob *b,
                         unsigned i)
{
    void *at = (char *)m + f->offset;
    switch (f->kind) {
    case SG_FIELD_U32:
        *(uint32_t *)at = (uint32_t)(rng_magnitude(r) % ((uint64_t)f->max + 1));
        return;
    case SG_FIELD_U64:
        *(uint64_t *)at = rng_magnitude(r);
        return;
    case SG_FIELD_TEXT:
        *(struct sg_text *)at = random_text(r, b->text[i % SG_COUNT(b->text)],
                                            f->max < BLOB_BYTES ? f->max : BLOB_BYTES);
        return;
    case SG_FIELD_TEXTS: {
        struct sg_err err;
        char words[6][33], *v[7] = { NULL };
        for (uint64_t k = 0, n = rng_below(r, 7); k < n; k++)
            v[k] = (char *)(uintptr_t)random_text(r, words[k], 32).p;
        sg_buf_clear(&b->lists[i % 4]);
        assert_ok(sg_texts_pack(v, &b->lists[i % 4], at, &err), err);
        return;
    }
    case SG_FIELD_BYTES: {
        size_t n = rng_below(r, BLOB_BYTES);
        for (size_t k = 0; k < n; k++)
            b->text[i % SG_COUNT(b->text)][k] = (char)rng_next(r);
        *(struct sg_bytes *)at =
            (struct sg_bytes) { (const uint8_t *)b->text[i % SG_COUNT(b->text)], n };
        return;
    }
    }
}

static struct sg_msg random_message(struct rng *r, struct blob *b)
{
    struct sg_msg m;
    memset(&m, 0, sizeof m);
    m.type = (enum sg_msg_type)(1 + rng_below(r, SG_MSG_TYPE_COUNT - 1));
    m.id = (uint32_t)rng_magnitude(r);
    m.epoch = (uint32_t)rng_magnitude(r);
    const struct sg_msg_desc *d = &sg_msg_table[m.type];
    for (unsigned i = 0; i < d->field_count; i++)
        random_field(r, &d->fields[i], &m, b, i);
    return m;
}

static void blob_init(struct blob *b)
{
    for (unsigned i = 0; i < SG_COUNT(b->lists); i++)
        sg_buf_init(&b->lists[i], SG_CTL_MAX_BYTES);
}

static void blob_done(struct blob *b)
{
    for (unsigned i = 0; i < SG_COUNT(b->lists); i++)
        sg_buf_done(&b->lists[i]);
}

static void any_message_comes_back_the_same(void **state)
{
    (void)state;
    struct rng r = rng_start("message round trip");
    static struct blob b;
    blob_init(&b);
    for (int i = 0; i < ROUNDS; i++) {
        sg_auto_buf first, second;
        struct sg_err err = { 0 };
        sg_buf_init(&first, SG_CTL_MAX_BYTES);
        sg_buf_init(&second, SG_CTL_MAX_BYTES);
        struct sg_msg m = random_message(&r, &b), back;
        assert_ok(sg_msg_encode(&m, &first, &err), err);
        assert_ok(sg_msg_decode(first.p, first.n, sg_msg_table[m.type].role, &back, &err), err);
        assert_int_equal(back.type, m.type);
        assert_int_equal(back.id, m.id);
        assert_int_equal(back.epoch, m.epoch);
        assert_ok(sg_msg_encode(&back, &second, &err), err);
        assert_int_equal(first.n, second.n);
        assert_memory_equal(first.p, second.p, first.n);
    }
    blob_done(&b);
}

static void a_message_cut_anywhere_or_with_a_tail_is_refused(void **state)
{
    (void)state;
    struct rng r = rng_start("message truncation");
    static struct blob b;
    blob_init(&b);
    for (int i = 0; i < 300; i++) {
        sg_auto_buf bytes;
        struct sg_err err = { 0 };
        sg_buf_init(&bytes, SG_CTL_MAX_BYTES);
        struct sg_msg m = random_message(&r, &b), back;
        assert_ok(sg_msg_encode(&m, &bytes, &err), err);
        for (int k = 0; k < 20; k++) {
            size_t n = rng_below(&r, bytes.n);
            uint8_t *copy = malloc(n ? n : 1); /* exact, for the sanitizer */
            assert_non_null(copy);
            memcpy(copy, bytes.p, n);
            assert_fails(sg_msg_decode(copy, n, SG_ROLE_NONE, &back, &err), err, SG_INVALID);
            free(copy);
        }
        sg_buf_add(&bytes, "", 1);
        if (!bytes.has_overflowed)
            assert_fails(sg_msg_decode(bytes.p, bytes.n, SG_ROLE_NONE, &back, &err), err,
                         SG_INVALID);
    }
    blob_done(&b);
}

static void a_message_of_the_other_direction_is_refused(void **state)
{
    (void)state;
    static const enum sg_msg_role roles[] = { SG_ROLE_REQUEST, SG_ROLE_REPLY,  SG_ROLE_EVENT,
                                              SG_ROLE_ASK,     SG_ROLE_ANSWER, SG_ROLE_NEWS };
    for (unsigned t = SG_MSG_NONE + 1; t < SG_MSG_TYPE_COUNT; t++)
        for (unsigned i = 0; i < SG_COUNT(roles); i++) {
            sg_auto_buf bytes;
            struct sg_err err = { 0 };
            sg_buf_init(&bytes, SG_CTL_MAX_BYTES);
            struct sg_msg m = { .type = (enum sg_msg_type)t }, back;
            assert_ok(sg_msg_encode(&m, &bytes, &err), err);
            bool is_right = sg_msg_table[t].role == roles[i];
            assert_int_equal(sg_msg_decode(bytes.p, bytes.n, roles[i], &back, &err) == 0, is_right);
        }
}

/* ---- limits, exact bytes ---- */

static void the_packet_on_the_wire_is_exactly_this(void **state)
{
    (void)state;
    static const uint8_t wanted[] = "SGL1"
                                    "\x06\0\0\0"
                                    "\x02\x01\0\0"
                                    "\x07\0\0\0"
                                    "\x01\0\0\0u\0"
                                    "\x02\0\0\0/x\0"
                                    "\x41\0\0\0"
                                    "\xa4\x01\0";
    struct sg_msg m = { .type = SG_MSG_OPEN,
                        .id = 258,
                        .epoch = 7,
                        .open = { sg_text_of("u"), sg_text_of("/x"), O_WRONLY | O_CREAT, 0644 } };
    sg_auto_buf bytes;
    struct sg_err err = { 0 };
    sg_buf_init(&bytes, SG_CTL_MAX_BYTES);
    assert_ok(sg_msg_encode(&m, &bytes, &err), err);
    assert_int_equal(bytes.n, sizeof wanted);
    assert_memory_equal(bytes.p, wanted, sizeof wanted);
}

static void fields_over_their_ceiling_are_neither_sent_nor_believed(void **state)
{
    (void)state;
    static char path[SG_CTL_MAX_PATH + 2];
    memset(path, 'a', SG_CTL_MAX_PATH + 1);
    sg_auto_buf bytes;
    struct sg_err err = { 0 };
    struct sg_msg m = { .type = SG_MSG_STAT, .stat = { .path = sg_text_of(path) } }, back;
    sg_buf_init(&bytes, SG_CTL_MAX_BYTES);
    assert_fails(sg_msg_encode(&m, &bytes, &err), err, SG_EXHAUSTED);
    m.stat.path.n = SG_CTL_MAX_PATH;
    path[SG_CTL_MAX_PATH] = '\0';
    sg_buf_clear(&bytes);
    assert_ok(sg_msg_encode(&m, &bytes, &err), err);
    assert_ok(sg_msg_decode(bytes.p, bytes.n, SG_ROLE_REQUEST, &back, &err), err);
    struct sg_msg big = { .type = SG_MSG_SIGNAL, .signal = { .signal = 65 } };
    assert_fails(sg_msg_encode(&big, &bytes, &err), err, SG_INVALID);
    sg_buf_clear(&bytes);
    big.signal.signal = 64;
    assert_ok(sg_msg_encode(&big, &bytes, &err), err);
    bytes.p[SG_CTL_HEAD_BYTES + 4] = 65; /* signal, after pid */
    assert_fails(sg_msg_decode(bytes.p, bytes.n, SG_ROLE_REQUEST, &back, &err), err, SG_INVALID);
}

static void text_with_a_nul_or_without_its_terminator_is_refused(void **state)
{
    (void)state;
    sg_auto_buf bytes;
    struct sg_err err = { 0 };
    struct sg_msg m = { .type = SG_MSG_STAT, .stat = { .path = { "a\0b", 3 } } }, back;
    sg_buf_init(&bytes, SG_CTL_MAX_BYTES);
    assert_fails(sg_msg_encode(&m, &bytes, &err), err, SG_INVALID);
    m.stat.path = sg_text_of("a/b");
    sg_buf_clear(&bytes);
    assert_ok(sg_msg_encode(&m, &bytes, &err), err);
    size_t at = SG_CTL_HEAD_BYTES + 5 + 4 + 1; /* the slash: after the empty user, a length, 'a' */
    assert_int_equal(bytes.p[at], '/');
    bytes.p[at] = 0;
    assert_fails(sg_msg_decode(bytes.p, bytes.n, SG_ROLE_REQUEST, &back, &err), err, SG_INVALID);
    bytes.p[at] = '/';
    bytes.p[at + 2] = 'x'; /* the terminator */
    assert_fails(sg_msg_decode(bytes.p, bytes.n, SG_ROLE_REQUEST, &back, &err), err, SG_INVALID);
}

static void a_message_over_the_packet_size_is_refused(void **state)
{
    (void)state;
    static uint8_t zeros[SG_CTL_MAX_BYTES + 1];
    sg_auto_buf bytes;
    struct sg_err err = { 0 };
    struct sg_msg m = { .type = SG_MSG_LISTED, .listed = { 0, { zeros, SG_CTL_MAX_BYTES } } }, back;
    sg_buf_init(&bytes, 2 * SG_CTL_MAX_BYTES);
    assert_fails(sg_msg_encode(&m, &bytes, &err), err, SG_EXHAUSTED);
    assert_fails(sg_msg_decode(zeros, sizeof zeros, SG_ROLE_NONE, &back, &err), err, SG_INVALID);
}

static void a_list_is_walked_to_its_end(void **state)
{
    (void)state;
    char *const words[] = { "one", "", "three", NULL };
    sg_auto_buf store;
    struct sg_err err = { 0 };
    struct sg_texts list;
    struct sg_text t;
    sg_buf_init(&store, 100);
    assert_ok(sg_texts_pack(words, &store, &list, &err), err);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(sg_text_next(&list, &t));
        assert_string_equal(t.p, words[i]);
    }
    assert_false(sg_text_next(&list, &t));
}

/* ---- directory entries ---- */

static void entries_come_back_and_bad_names_are_rubbish(void **state)
{
    (void)state;
    static const char *const bad[] = { "", ".", "..", "a/b" };
    sg_auto_buf page;
    struct sg_entry e = { 0100644, 1, 2, SG_ENTRY_LABELLED, 3, 4, sg_text_of("name") }, back;
    bool is_bad;
    sg_buf_init(&page, 1000);
    sg_entry_put(&page, &e);
    e.name = sg_text_of("..x");
    sg_entry_put(&page, &e);
    struct sg_bytes rest = { page.p, page.n };
    assert_true(sg_entry_next(&rest, &back, &is_bad));
    assert_string_equal(back.name.p, "name");
    assert_int_equal(back.mode, 0100644);
    assert_int_equal(back.mtime_ns, 4);
    assert_int_equal(back.flags, SG_ENTRY_LABELLED);
    assert_true(sg_entry_next(&rest, &back, &is_bad));
    assert_string_equal(back.name.p, "..x");
    assert_false(sg_entry_next(&rest, &back, &is_bad));
    assert_false(is_bad);
    for (size_t n = 1; n < page.n; n++) {
        struct sg_bytes cut = { page.p, n };
        while (sg_entry_next(&cut, &back, &is_bad))
            ;
        assert_int_equal(is_bad, n != 36 + 4 + 1); /* the first entry's own end is a fine place */
    }
    for (unsigned i = 0; i < SG_COUNT(bad); i++) {
        sg_buf_clear(&page);
        e.name = sg_text_of(bad[i]);
        sg_entry_put(&page, &e);
        rest = (struct sg_bytes) { page.p, page.n };
        assert_false(sg_entry_next(&rest, &back, &is_bad));
        assert_true(is_bad);
    }
}

/* ---- the documentation ---- */

/* The row that docs/design/control.md must have for a message. */
static void describe(const struct sg_msg_desc *d, struct sg_buf *out)
{
    static const char *const roles[] = {
        "none",       "request",       "reply",       "event",       "ask",          "answer",
        "news",       "order",         "gate ask",    "gate answer", "gate news",    "join",
        "keeper ask", "keeper answer", "keeper news", "export ask",  "export answer"
    };
    static const char *const kinds[] = { "u32", "u64", "text", "texts", "bytes" };
    sg_buf_addf(out, "\n| `%s` | %s | %u | ", d->name, roles[d->role], d->max_fds);
    for (unsigned i = 0; i < d->field_count; i++)
        sg_buf_addf(out, "%s`%s` %s", i ? ", " : "", d->fields[i].name, kinds[d->fields[i].kind]);
    sg_buf_addf(out, "%s|\n", d->field_count ? " " : "");
}

static void the_documentation_lists_every_message_as_it_is(void **state)
{
    (void)state;
    const char *source = getenv("SANDGLASS_SOURCE");
    if (!source)
        skip();
    sg_auto_free char *path = sg_printf("%s/docs/design/control.md", source);
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    sg_auto_buf page;
    struct sg_err err = { 0 };
    sg_buf_init(&page, 1 << 20);
    assert_true(fd >= 0);
    assert_ok(sg_buf_read_fd(&page, fd, path, &err), err);
    unsigned rows = 0;
    for (const char *p = sg_buf_cstr(&page); (p = strstr(p, "\n| `")); p++)
        rows++;
    assert_int_equal(rows, SG_MSG_TYPE_COUNT - 1);
    for (unsigned i = 1; i < SG_MSG_TYPE_COUNT; i++) {
        sg_auto_buf row;
        sg_buf_init(&row, 1000);
        describe(&sg_msg_table[i], &row);
        if (!strstr(sg_buf_cstr(&page), sg_buf_cstr(&row)))
            fail_msg("docs/design/control.md needs this row:%s", sg_buf_cstr(&row));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_message_comes_back_the_same),
        cmocka_unit_test(a_message_cut_anywhere_or_with_a_tail_is_refused),
        cmocka_unit_test(a_message_of_the_other_direction_is_refused),
        cmocka_unit_test(the_packet_on_the_wire_is_exactly_this),
        cmocka_unit_test(fields_over_their_ceiling_are_neither_sent_nor_believed),
        cmocka_unit_test(text_with_a_nul_or_without_its_terminator_is_refused),
        cmocka_unit_test(a_message_over_the_packet_size_is_refused),
        cmocka_unit_test(a_list_is_walked_to_its_end),
        cmocka_unit_test(entries_come_back_and_bad_names_are_rubbish),
        cmocka_unit_test(the_documentation_lists_every_message_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
