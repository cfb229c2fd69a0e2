/* SPDX-License-Identifier: Apache-2.0 */
/* image/oci: documents of images, by example; the fuzzer has the rest. */
#include <string.h>

#include "base/auto.h"
#include "check.h"
#include "image/oci.h"
#include "base/banned.h"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define LAYER(type)                                                                                \
    "{\"schemaVersion\":2,\"config\":{\"digest\":\"sha256:" A64 "\",\"size\":3},"                  \
    "\"layers\":[{\"mediaType\":\"" type "\",\"digest\":\"sha256:" B64 "\",\"size\":5}]}"

static void reads_a_manifest(void **state)
{
    (void)state;
    struct sg_err err;
    struct sg_oci_doc doc;
    sg_auto_arena a;
    sg_arena_init(&a, SG_OCI_ARENA);
    assert_int_equal(
        sg_oci_doc_parse(sg_str_of(LAYER("application/vnd.oci.image.layer.v1.tar+zstd")), &a, &doc,
                         &err),
        0);
    assert_false(doc.is_index);
    assert_int_equal(doc.n, 1);
    assert_string_equal(doc.items[0].hex.s, B64);
    assert_int_equal(doc.items[0].size, 5);
    assert_string_equal(doc.config.hex.s, A64);
}

static void refuses_what_is_no_image(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
        enum sg_kind kind;
    } rows[] = {
        { "[]", "not an object", SG_INVALID },
        { "{\"schemaVersion\":1,\"fsLayers\":[]}", "schema 2", SG_UNSUPPORTED },
        { "{\"schemaVersion\":2}", "'config' is missing", SG_INVALID },
        { "{\"schemaVersion\":2,\"manifests\":{}}", "'manifests' is not a list", SG_INVALID },
        { "{\"schemaVersion\":2,\"manifests\":[{\"digest\":\"md5:1\",\"size\":1}]}", "not a digest",
          SG_INVALID },
        { "{\"schemaVersion\":2,\"manifests\":[{\"digest\":\"sha512:1\",\"size\":1}]}",
          "not SHA-256", SG_UNSUPPORTED },
        { "{\"schemaVersion\":2,\"manifests\":[{\"digest\":\"sha256:" A64 "\",\"size\":-1}]}",
          "'size' is not a number of bytes", SG_INVALID },
        { LAYER("application/vnd.cncf.helm.chart"), "not a layer of files", SG_UNSUPPORTED },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        struct sg_err err;
        struct sg_oci_doc doc;
        sg_auto_arena a;
        sg_arena_init(&a, SG_OCI_ARENA);
        assert_int_equal(sg_oci_doc_parse(sg_str_of(rows[i].text), &a, &doc, &err), -1);
        assert_non_null(strstr(err.msg, rows[i].why));
        assert_int_equal(err.kind, rows[i].kind);
    }
}

static struct sg_oci_desc item(const char *arch, const char *variant, const char *name,
                               const char *hex)
{
    struct sg_oci_desc d = { .media_type = "", .names = { name } };
    if (arch)
        d.platform = (struct sg_oci_platform) { "linux", arch, variant };
    memcpy(d.hex.s, hex, SG_OCI_HEX);
    return d;
}

static void chooses_by_platform_then_by_name(void **state)
{
    (void)state;
    struct sg_err err;
    struct sg_oci_desc items[] = {
        item("arm", "v7", NULL, A64),
        item("arm", "v6", NULL, B64),
        item("amd64", "", "docker.io/library/app:1", B64),
    };
    const struct sg_oci_doc index = { .is_index = true, .items = items, .n = SG_COUNT(items) };
    const struct sg_oci_desc *got;
    const struct sg_oci_platform v6 = { "linux", "arm", "v6" }, arm = { "linux", "arm", NULL },
                                 amd = { "linux", "amd64", NULL }, ppc = { "linux", "ppc", NULL };
    assert_int_equal(sg_oci_index_choose(&index, &v6, NULL, &got, &err), 0);
    assert_ptr_equal(got, &items[1]);
    assert_int_equal(sg_oci_index_choose(&index, &arm, NULL, &got, &err), 0);
    assert_ptr_equal(got, &items[0]);
    assert_int_equal(sg_oci_index_choose(&index, &amd, "app:1", &got, &err), 0);
    assert_ptr_equal(got, &items[2]);
    assert_int_equal(sg_oci_index_choose(&index, &amd, "pp:1", &got, &err), -1);
    assert_int_equal(sg_oci_index_choose(&index, &ppc, NULL, &got, &err), -1);
    assert_int_equal(err.kind, SG_NOT_FOUND);
}

static void parses_platforms(void **state)
{
    (void)state;
    static const struct {
        const char *text, *os, *arch, *variant;
    } rows[] = {
        { "arm64", "linux", "arm64", NULL },      { "linux/amd64", "linux", "amd64", NULL },
        { "linux/arm/v7", "linux", "arm", "v7" }, { "", NULL, NULL, NULL },
        { "linux/", NULL, NULL, NULL },           { "a/b/c/d", NULL, NULL, NULL },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        struct sg_err err;
        struct sg_oci_platform p = { 0 };
        sg_auto_arena a;
        sg_arena_init(&a, 4096);
        assert_int_equal(sg_oci_platform_parse(rows[i].text, &a, &p, &err), rows[i].os ? 0 : -1);
        if (!rows[i].os)
            continue;
        assert_string_equal(p.os, rows[i].os);
        assert_string_equal(p.arch, rows[i].arch);
        assert_string_equal(p.variant ? p.variant : "", rows[i].variant ? rows[i].variant : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_manifest),
        cmocka_unit_test(refuses_what_is_no_image),
        cmocka_unit_test(chooses_by_platform_then_by_name),
        cmocka_unit_test(parses_platforms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
