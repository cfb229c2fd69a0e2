/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "check.h"
#include "wire/multipart.h"
#include "base/banned.h"

static const char type[] = "multipart/form-data; boundary=\"xYz\"";

/* "[name|filename|type:data]", "." at the end, "!" where it is malformed, "?" where it is not over.
 */
static void read_all(const char *text, size_t step, struct sg_buf *log)
{
    static struct sg_multipart m;
    struct sg_err err = { 0 };
    size_t n = strlen(text);
    sg_auto_free char *copy = sg_strdup(text);
    assert_ok(sg_multipart_init(&m, type, &err), err);
    for (size_t at = 0; at < n; at += step) {
        struct sg_input in = { (uint8_t *)copy + at, n - at < step ? n - at : step }, got;
        for (bool is_on = true; is_on;) {
            switch (sg_multipart_next(&m, &in, &got, &err)) {
            case SG_MULTIPART_MORE:
                is_on = false;
                break;
            case SG_MULTIPART_PART:
                sg_buf_addf(log, "[%s|%s|%s:", m.name, m.filename ? m.filename : "-",
                            m.type ? m.type : "-");
                break;
            case SG_MULTIPART_DATA:
                assert_true(got.n > 0);
                sg_buf_add(log, got.p, got.n);
                break;
            case SG_MULTIPART_PART_END:
                sg_buf_add_str(log, "]");
                break;
            case SG_MULTIPART_END:
                sg_buf_add_str(log, ".");
                return;
            case SG_MULTIPART_BAD:
                sg_buf_add_str(log, "!");
                return;
            }
        }
    }
    sg_buf_add_str(log, "?");
}

static void assert_read(const char *text, const char *want)
{
    for (size_t step = 1; step <= strlen(text); step++) {
        sg_auto_buf log;
        sg_buf_init(&log, 100000);
        read_all(text, step, &log);
        assert_string_equal(sg_buf_cstr(&log), want);
    }
}

#define NAMED(name) "Content-Disposition: form-data; name=\"" name "\"\r\n\r\n"

static void reads_the_parts_of_a_form(void **state)
{
    (void)state;
    assert_read(
        "--xYz\r\n" NAMED(
            "a") "one\r\n--xYz\r\n"
                 "content-type: text/plain\r\nX-Other: y\r\n"
                 "content-disposition: form-data; filename=\"q\\\"\\\\.txt\"; name=file\r\n\r\n"
                 "two\r\nlines\r\n--xYz--\r\nepilogue",
        "[a|-|-:one][file|q\"\\.txt|text/plain:two\r\nlines].");
    assert_read("preamble\r\n--xYz\r\n" NAMED("") "\r\n--xYz--", "[|-|-:].");
    assert_read("--xYz\r\nContent-Disposition: form-data; name=f; filename=x; "
                "filename*=UTF-8''%c3%a9%20y\r\n\r\nz\r\n--xYz--",
                "[f|\xc3\xa9 y|-:z].");
    assert_read("--xYz--", ".");
}

static void what_only_looks_like_the_delimiter_is_data(void **state)
{
    (void)state;
    assert_read("--xYz\r\n" NAMED("a") "\r\r\n\r\n-\r\n--\r\n--x\r\n--xY\r\r\n--xYz--",
                "[a|-|-:\r\r\n\r\n-\r\n--\r\n--x\r\n--xY\r].");
    assert_read("--xYz\r\n" NAMED("a") "--xYz\n--xYz\r\n--xYz--", "[a|-|-:--xYz\n--xYz].");
}

static void refuses_what_is_malformed_and_tells_what_is_cut(void **state)
{
    (void)state;
    assert_read("--xYz\n", "!");
    assert_read("--xYzz\r\n", "!");
    assert_read("--xYz-x", "!");
    assert_read("--xYz\r\n\r\ndata", "!");                               /* no name */
    assert_read("--xYz\r\nContent-Disposition: form-data\r\n\r\n", "!"); /* no name */
    assert_read("--xYz\r\nContent-Disposition: attachment; name=a\r\n\r\n", "!");
    assert_read("--xYz\r\nContent-Disposition: form-data; name=\"a\r\n\r\n", "!");
    assert_read("--xYz\r\nContent-Disposition: form-data; name=\"\xff\"\r\n\r\n", "!");
    assert_read("--xYz\r\nContent-Disposition: form-data; name=f; filename*=utf-8''%00\r\n\r\n",
                "!");
    assert_read("--xYz\r\nBad Name: x\r\n" NAMED("a"), "!");
    assert_read("--xYz\r\nX: y\n" NAMED("a"), "!");
    assert_read("--xYz\r\n" NAMED("a") "one", "[a|-|-:one?");
    assert_read("--xYz\r\n" NAMED("a") "one\r\n--xYz-", "[a|-|-:one]?");
    assert_read("no form at all", "?");
}

static void the_head_of_a_part_is_bounded(void **state)
{
    (void)state;
    sg_auto_buf b, log;
    sg_buf_init(&b, 100000);
    sg_buf_init(&log, 100000);
    sg_buf_add_str(&b, "--xYz\r\n");
    while (b.n < SG_MULTIPART_MAX_HEAD)
        sg_buf_add_str(&b, "X: y\r\n");
    sg_buf_add_str(&b, NAMED("a"));
    read_all(sg_buf_cstr(&b), b.n, &log);
    assert_string_equal(sg_buf_cstr(&log), "!");
}

#define TOO_LONG                                                                                   \
    "multipart/form-data; boundary="                                                               \
    "0123456789012345678901234567890123456789012345678901234567890123456789x"

static void wants_a_boundary_that_can_be_one(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "text/plain",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"a",
        "multipart/form-data; boundary=a\rb",
        "multipart/form-data; boundary=\"a \"",
        "multipart/mixed; boundary=a",
        TOO_LONG,
    };
    static struct sg_multipart m;
    struct sg_err err;
    for (size_t i = 0; i < SG_COUNT(bad); i++)
        assert_fails(sg_multipart_init(&m, bad[i], &err), err, SG_INVALID);
    assert_fails(sg_multipart_init(&m, NULL, &err), err, SG_INVALID);
    assert_ok(sg_multipart_init(&m, "Multipart/Form-Data;charset=x; Boundary=----a'b", &err), err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_parts_of_a_form),
        cmocka_unit_test(what_only_looks_like_the_delimiter_is_data),
        cmocka_unit_test(refuses_what_is_malformed_and_tells_what_is_cut),
        cmocka_unit_test(the_head_of_a_part_is_bounded),
        cmocka_unit_test(wants_a_boundary_that_can_be_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
