/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-encoding, queries and base64: what decodes must survive another round. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "wire/base64.h"
#include "wire/url.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check_decode(struct sg_str in, bool plus_is_space)
{
    sg_auto_free char *out = malloc(in.n + 1), *again = NULL;
    if (!out)
        abort();
    int n = sg_url_decode(in, plus_is_space, out, NULL);
    if (n < 0)
        return;
    if ((size_t)n > in.n || strlen(out) != (size_t)n)
        abort();
    sg_auto_buf encoded;
    sg_buf_init(&encoded, 4 * in.n + 1);
    sg_url_encode(&encoded, (struct sg_str) { out, (size_t)n }, false);
    again = malloc(encoded.n + 1);
    struct sg_str text = { (const char *)encoded.p, encoded.n };
    if (!again || sg_url_decode(text, plus_is_space, again, NULL) != n || strcmp(out, again) != 0)
        abort();
}

static void check_query(struct sg_str in)
{
    struct sg_str name, value;
    size_t taken = 0;
    while (sg_query_next(&in, &name, &value)) {
        taken += name.n + value.n;
        check_decode(name, true);
        check_decode(value, true);
    }
    if (in.n || taken > SIZE_MAX / 2)
        abort();
}

static void check_base64(struct sg_str in)
{
    sg_auto_buf bytes, text;
    sg_buf_init(&bytes, in.n + 1);
    sg_buf_init(&text, 2 * in.n + 4);
    if (sg_base64_decode(&bytes, in, NULL) < 0)
        return;
    sg_base64_encode(&text, bytes.p, bytes.n);
    if (text.n != in.n || (in.n && memcmp(text.p, in.p, in.n) != 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sg_str in = { (const char *)p, n };
    check_decode(in, false);
    check_query(in);
    check_base64(in);
    return 0;
}
