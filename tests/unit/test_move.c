/* SPDX-License-Identifier: Apache-2.0 */
/* manager/move_file, move_doc: a sandbox in a file. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "check.h"
#include "manager/life.h"
#include "manager/move_doc.h"
#include "manager/move_file.h"
#include "manager/traits.h"
#include "random.h"
#include "base/banned.h"

enum { FILE_MAX = 4 << 20 };
static const char manifest[] = "{\"any\": \"thing\"}";

/* `first`: of the template, where there is one; "": its archive is empty. */
static void make_whole(struct sg_buf *out, const char *first, const uint8_t *data, size_t n,
                       size_t step)
{
    struct sg_move_writer w;
    struct sg_err err = { 0 };
    assert_int_equal(sg_move_writer_init(&w, &err), 0);
    sg_move_put_head(&w, out, first != NULL, manifest, strlen(manifest));
    if (first && *first)
        sg_move_put_piece(&w, out, first, strlen(first));
    if (first)
        sg_move_put_next(&w, out);
    for (size_t at = 0; at < n; at += step)
        sg_move_put_piece(&w, out, data + at, n - at < step ? n - at : step);
    sg_move_put_end(&w, out);
    sg_move_writer_done(&w);
}

static void make(struct sg_buf *out, const uint8_t *data, size_t n, size_t step)
{
    make_whole(out, NULL, data, n, step);
}

/* The manifest and the data of all pieces go to `data`. 0: it was whole; -1. `step`: how much is
 * given at a time. */
static int read_back(const uint8_t *p, size_t n, size_t step, struct sg_buf *data,
                     struct sg_err *err)
{
    struct sg_move_reader r;
    int result = 1;
    assert_int_equal(sg_move_reader_init(&r, err), 0);
    while (n && result > 0) {
        size_t left = step < n ? step : n;
        const uint8_t *at = p;
        enum sg_move_event event = SG_MOVE_MORE;
        if (sg_move_read(&r, &at, &left, &event, err) < 0)
            result = -1;
        n -= (size_t)(at - p);
        p = at;
        if (result > 0 && event == SG_MOVE_MANIFEST)
            sg_buf_add(data, r.text.p, r.text.n);
        if (result > 0 && event == SG_MOVE_DATA)
            sg_buf_add(data, r.data, r.data_n);
        if (result > 0 && event == SG_MOVE_NEXT)
            sg_buf_add_str(data, "|");
        if (result > 0 && event == SG_MOVE_END)
            result = 0;
    }
    if (result > 0)
        result = sg_move_cut(&r, err);
    sg_move_reader_done(&r);
    return result;
}

static void what_is_written_is_read_however_it_is_cut(void **state)
{
    (void)state;
    struct rng r = rng_start("moved files");
    for (unsigned i = 0; i < 60; i++) {
        sg_auto_buf in, file, out;
        sg_buf_init(&in, FILE_MAX);
        sg_buf_init(&file, FILE_MAX);
        sg_buf_init(&out, FILE_MAX);
        const size_t n = rng_below(&r, 3) ? rng_below(&r, 5000) : rng_below(&r, 300000);
        for (size_t k = 0; k < n; k++) {
            const uint8_t byte = (uint8_t)rng_below(&r, 256);
            sg_buf_add(&in, &byte, 1);
        }
        struct sg_err err = { 0 };
        make(&file, in.p, in.n, 1 + rng_below(&r, 70000));
        if (read_back(file.p, file.n, 1 + rng_below(&r, 9000), &out, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(out.n, strlen(manifest) + in.n);
        assert_memory_equal(out.p, manifest, strlen(manifest));
        if (in.n)
            assert_memory_equal(out.p + strlen(manifest), in.p, in.n);
    }
}

static void a_file_that_stops_anywhere_is_said_to_be_cut(void **state)
{
    (void)state;
    sg_auto_buf file, out;
    sg_buf_init(&file, FILE_MAX);
    sg_buf_init(&out, FILE_MAX);
    make(&file, (const uint8_t *)"some bytes", 10, 4);
    for (size_t n = 0; n < file.n; n++) {
        struct sg_err err = { 0 };
        assert_fails(read_back(file.p, n, 7, &out, &err), err, SG_INVALID);
        assert_non_null(strstr(err.msg, n < SG_MOVE_HEAD_BYTES ? "no file of" : "cut off"));
    }
}

static void a_file_with_any_byte_changed_is_refused(void **state)
{
    (void)state;
    sg_auto_buf file, out;
    sg_buf_init(&file, FILE_MAX);
    sg_buf_init(&out, FILE_MAX);
    make(&file, (const uint8_t *)"some bytes", 10, 4);
    for (size_t i = 0; i < file.n; i++) {
        struct sg_err err = { 0 };
        file.p[i] ^= 0x40;
        if (read_back(file.p, file.n, SIZE_MAX, &out, &err) == 0)
            fail_msg("byte %zu was changed, and nobody saw it", i);
        file.p[i] ^= 0x40;
    }
}

static void a_later_version_is_told_apart_from_garbage(void **state)
{
    (void)state;
    sg_auto_buf file, out;
    struct sg_err err = { 0 };
    sg_buf_init(&file, FILE_MAX);
    sg_buf_init(&out, FILE_MAX);
    make(&file, (const uint8_t *)"x", 1, 1);
    file.p[8] = SG_MOVE_VERSION_WHOLE + 1;
    assert_fails(read_back(file.p, file.n, SIZE_MAX, &out, &err), err, SG_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "version 3"));
}

static void a_whole_file_has_two_archives_however_it_is_cut(void **state)
{
    (void)state;
    static const char *const firsts[] = { "", "the template" };
    for (unsigned i = 0; i < SG_COUNT(firsts); i++)
        for (size_t step = 1; step < 40; step++) {
            sg_auto_buf file, out;
            struct sg_err err = { 0 };
            sg_auto_free char *wanted = sg_printf("%s%s|some bytes", manifest, firsts[i]);
            sg_buf_init(&file, FILE_MAX);
            sg_buf_init(&out, FILE_MAX);
            make_whole(&file, firsts[i], (const uint8_t *)"some bytes", 10, 4);
            if (read_back(file.p, file.n, step, &out, &err) < 0)
                fail_msg("%s", err.msg);
            assert_string_equal(sg_buf_cstr(&out), wanted);
        }
}

static void a_file_that_says_to_be_whole_and_is_not_is_refused(void **state)
{
    (void)state;
    sg_auto_buf file, out;
    struct sg_err err = { 0 };
    sg_buf_init(&file, FILE_MAX);
    sg_buf_init(&out, FILE_MAX);
    make(&file, (const uint8_t *)"some bytes", 10, 4);
    file.p[8] = SG_MOVE_VERSION_WHOLE;
    assert_fails(read_back(file.p, file.n, SIZE_MAX, &out, &err), err, SG_INVALID);
}

static void a_template_without_a_name_is_that_of_a_whole_file_alone(void **state)
{
    (void)state;
    static const char unnamed[] = ".image-0123456789012345678901234567890123456789";
    struct sg_move_doc d = { .is_whole = true, .template_bytes = 7, .template_sudo = true }, back;
    struct sg_err err = { 0 };
    sg_auto_buf text;
    sg_buf_init(&text, SG_MOVE_MANIFEST_MAX);
    (void)snprintf(d.template, sizeof d.template, "%s", unnamed);
    sg_move_doc_put(&d, &text);
    assert_ok(sg_move_doc_read(sg_str_of(sg_buf_cstr(&text)), &back, &err), err);
    assert_true(back.is_whole && back.template_sudo && back.template_bytes == 7);
    assert_string_equal(back.template, unnamed);
    sg_move_doc_done(&back);
    d.is_whole = false;
    sg_buf_clear(&text);
    sg_move_doc_put(&d, &text);
    assert_fails(sg_move_doc_read(sg_str_of(sg_buf_cstr(&text)), &back, &err), err, SG_INVALID);
}

static void a_manifest_comes_back_the_same(void **state)
{
    (void)state;
    static const struct sg_pair pairs[] = { { (char *)"NAME", (char *)"a \"value\"" } };
    struct sg_move_doc d = { .has_settings = true,
                             .pauses = true,
                             .limits = { 1 << 28, 1500, 99, 1 << 30 },
                             .timeout_ms = 60000,
                             .checkpoint_every = 3 },
                       back;
    struct sg_err err = { 0 };
    sg_auto_buf text;
    sg_buf_init(&text, SG_MOVE_MANIFEST_MAX);
    (void)snprintf(d.template, sizeof d.template, "base");
    (void)snprintf(d.identity, sizeof d.identity, "0123abcd");
    sg_pairs_copy(&d.env, pairs, 1);
    sg_pairs_copy(&d.metadata, pairs, 1);
    sg_traits_set(&d.traits.workdir, "/srv");
    sg_move_doc_put(&d, &text);
    if (sg_move_doc_read(sg_str_of(sg_buf_cstr(&text)), &back, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(back.template, "base");
    assert_string_equal(back.identity, "0123abcd");
    assert_true(back.has_settings && back.pauses && !back.drops_memory && !back.has_network);
    assert_memory_equal(&back.limits, &d.limits, sizeof d.limits);
    assert_int_equal(back.timeout_ms, 60000);
    assert_int_equal(back.checkpoint_every, 3);
    assert_string_equal(back.env.v[0].value, "a \"value\"");
    assert_string_equal(back.traits.workdir, "/srv");
    sg_move_doc_done(&d);
    sg_move_doc_done(&back);
}

static void a_manifest_that_makes_no_sense_says_what(void **state)
{
    (void)state;
#define WITH(more) "{\"files\":\"layer\",\"architecture\":\"" ARCH "\"," more "}"
#if defined(__x86_64__)
#define ARCH "x86_64"
#else
#define ARCH "aarch64"
#endif
    static const struct {
        const char *text;
        enum sg_kind kind;
        const char *words;
    } rows[] = {
        { "[]", SG_INVALID, "object" },
        { "{\"files\":\"layer\"}", SG_INVALID, "architecture" },
        { WITH("\"template\":\"../x\",\"templateIdentity\":\"\""), SG_INVALID, "template name" },
        { WITH("\"template\":\"base\",\"templateIdentity\":\"\",\"token\":\"x\""), SG_INVALID,
          "token" },
        { WITH("\"template\":\"base\",\"templateIdentity\":\"\",\"settings\":{\"env\":{\"A=B\":"
               "\"x\"}}"),
          SG_INVALID, "env" },
        { "{\"files\":\"memory\",\"architecture\":\"" ARCH
          "\",\"template\":\"base\",\"templateIdentity\":\"\"}",
          SG_UNSUPPORTED, "memory" },
        { "{\"files\":\"layer\",\"architecture\":\"vax\",\"template\":\"base\","
          "\"templateIdentity\":\"\"}",
          SG_UNSUPPORTED, "vax" },
    };
    for (unsigned i = 0; i < SG_COUNT(rows); i++) {
        struct sg_move_doc d;
        struct sg_err err = { 0 };
        assert_fails(sg_move_doc_read(sg_str_of(rows[i].text), &d, &err), err, rows[i].kind);
        if (!strstr(err.msg, rows[i].words))
            fail_msg("'%s' does not speak of '%s'", err.msg, rows[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_however_it_is_cut),
        cmocka_unit_test(a_file_that_stops_anywhere_is_said_to_be_cut),
        cmocka_unit_test(a_file_with_any_byte_changed_is_refused),
        cmocka_unit_test(a_later_version_is_told_apart_from_garbage),
        cmocka_unit_test(a_whole_file_has_two_archives_however_it_is_cut),
        cmocka_unit_test(a_file_that_says_to_be_whole_and_is_not_is_refused),
        cmocka_unit_test(a_template_without_a_name_is_that_of_a_whole_file_alone),
        cmocka_unit_test(a_manifest_comes_back_the_same),
        cmocka_unit_test(a_manifest_that_makes_no_sense_says_what),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
