/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of images. The first byte says which: 'm' an index or a manifest, 'c' a configuration,
 * 's' the list of `docker save`, 'i' what one of our programs tells another, 'p' a platform. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "image/oci.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

static void check_hex(const struct sg_oci_hex *hex)
{
    check(sg_oci_is_hex(sg_str_of(hex->s)));
}

static void feed_doc(struct sg_str text, struct sg_arena *a)
{
    struct sg_err err;
    struct sg_oci_doc doc;
    const struct sg_oci_platform own = { "linux", "amd64", "v2" };
    const struct sg_oci_desc *chosen;
    if (sg_oci_doc_parse(text, a, &doc, &err) < 0)
        return;
    for (size_t i = 0; i < doc.n; i++) {
        check_hex(&doc.items[i].hex);
        check(doc.items[i].media_type != NULL);
    }
    if (!doc.is_index)
        check_hex(&doc.config.hex);
    else if (sg_oci_index_choose(&doc, &own, NULL, &chosen, &err) == 0 ||
             sg_oci_index_choose(&doc, &own, "latest", &chosen, &err) == 0)
        check(chosen >= doc.items && chosen < doc.items + doc.n);
}

static void feed_config(struct sg_str text, struct sg_arena *a)
{
    struct sg_err err;
    struct sg_oci_config c;
    const struct sg_oci_platform own = sg_oci_platform_own();
    if (sg_oci_config_parse(text, a, &c, &err) < 0)
        return;
    for (size_t i = 0; i < c.n; i++)
        check_hex(&c.diffs[i]);
    check(c.env && c.entrypoint && c.cmd && c.user && c.workdir);
    (void)sg_oci_config_check(&c, &own, 1, &err);
}

/* What was read is written, and read again the same. */
static void feed_image(struct sg_str text, struct sg_arena *a)
{
    struct sg_err err;
    const struct sg_jval *v;
    struct sg_oci_image image, again;
    if (sg_json_parse(text, a, &v, &err) < 0 || sg_oci_image_parse(v, a, &image, &err) < 0)
        return;
    sg_auto_buf out;
    sg_buf_init(&out, SG_OCI_MAX_DOC);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_oci_image_format(&image, &j);
    if (out.has_overflowed)
        return;
    check(sg_json_parse((struct sg_str) { (const char *)out.p, out.n }, a, &v, &err) == 0);
    check(sg_oci_image_parse(v, a, &again, &err) == 0);
    check(again.n == image.n && strcmp(again.config.s, image.config.s) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    if (n < 1)
        return 0;
    struct sg_err err;
    struct sg_oci_saved saved;
    struct sg_oci_platform platform;
    const struct sg_str text = { (const char *)p + 1, n - 1 };
    sg_auto_arena a;
    sg_arena_init(&a, SG_OCI_ARENA);
    if (p[0] == 'm')
        feed_doc(text, &a);
    else if (p[0] == 'c')
        feed_config(text, &a);
    else if (p[0] == 's')
        (void)sg_oci_saved_parse(text, NULL, &a, &saved, &err);
    else if (p[0] == 'i')
        feed_image(text, &a);
    else if (p[0] == 'p') {
        sg_auto_free char *copy = sg_printf("%.*s", (int)text.n, text.p);
        if (sg_oci_platform_parse(copy, &a, &platform, &err) == 0)
            check(platform.os && *platform.os && platform.arch && *platform.arch);
    }
    return 0;
}
