/* SPDX-License-Identifier: Apache-2.0 */
/* What registries and their users write. The first byte says what: 'c' a challenge, 't' an answer
 * with a token, 'r' the name of an image, 'q' a request to sandglass-registry. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "image/oci_ref.h"
#include "registry/registry.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

static void feed_challenge(const char *text)
{
    struct sg_err err;
    struct sg_challenge c;
    if (sg_challenge_parse(text, &c, &err) == 0)
        check(!c.is_bearer || c.realm[0]);
}

static void feed_token(struct sg_str text)
{
    struct sg_err err;
    sg_auto_free char *token = sg_token_parse(text, &err);
    check(!token || (*token && !strpbrk(token, " \r\n")));
}

/* What is in a name goes into a URL as it is. */
static void feed_name(const char *text)
{
    struct sg_err err;
    struct sg_oci_ref r;
    if (sg_oci_ref_parse(text, &r, &err) < 0)
        return;
    check(r.host[0] && r.repository[0] && (r.tag[0] || r.hex.s[0]));
    check(!strpbrk(r.repository, " ?#%@\\:\r\n") && !strstr(r.repository, ".."));
    check(!strpbrk(r.tag, "/ ?#%@\\:\r\n") && !strpbrk(r.host, "/ ?#%@\\\r\n"));
    (void)sg_oci_host_is_loopback(r.host);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    if (n < 1)
        return 0;
    struct sg_err err;
    struct sg_registry_request request;
    const struct sg_str text = { (const char *)p + 1, n - 1 };
    sg_auto_free char *copy = sg_printf("%.*s", (int)text.n, text.p);
    sg_auto_arena a;
    sg_arena_init(&a, SG_OCI_ARENA);
    if (p[0] == 'c')
        feed_challenge(copy);
    else if (p[0] == 't')
        feed_token(text);
    else if (p[0] == 'r')
        feed_name(copy);
    else if (p[0] == 'q')
        (void)sg_registry_request_parse(text, &a, &request, &err);
    return 0;
}
