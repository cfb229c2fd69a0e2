/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed boxes: whoever opens them gets them from the less trusted side. The input is tried as a
 * box's text, and as a change to a box that was closed properly, which then must stay shut. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "seal/seal.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const struct sg_seal_key own = { "a private key is 32 bytes of it" };
static const struct sg_str context = { "org/id/1", 8 };

static bool opens(const char *sealed, struct sg_buf *ret)
{
    struct sg_err err = { 0 };
    const int got = sg_unseal(&own, context, sealed, ret, &err);
    if (got < 0 && (err.kind == SG_OK || !err.msg[0] || ret->n))
        abort();
    return got == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static char *closed;
    struct sg_seal_key public;
    struct sg_err err;
    sg_auto_buf out, again;
    sg_buf_init(&out, SG_SEAL_MAX);
    sg_buf_init(&again, SG_SEAL_MAX);
    if (sg_seal_public(&own, &public, &err) < 0)
        abort();
    if (!closed)
        closed = sg_seal(&public, context, sg_str_of("the value"), &err);
    sg_auto_free char *text = sg_alloc(n + 1);
    memcpy(text, p, n);
    (void)sg_seal_is_for(text, &public);
    (void)opens(text, &out);
    sg_buf_clear(&out);

    if (n < 2)
        return 0;
    sg_auto_free char *changed = sg_strdup(closed);
    char *at = &changed[((size_t)p[0] << 8 | p[1]) % strlen(changed)];
    const char was = *at;
    *at = n > 2 && p[2] ? (char)p[2] : 'A';
    if (opens(changed, &again) && *at != was && was != '=' && *at != '=') {
        /* Only the unused bits of base64's last character may differ. */
        if (at < changed + strlen(changed) - 4)
            abort();
    }
    return 0;
}
