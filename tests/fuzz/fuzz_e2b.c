/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of the E2B door: what is kept with a sandbox reads the same after another round, network
 * settings are refused or kept, and a signature is one or none. */
#include <stdlib.h>
#include <string.h>

#include "api/e2b/network.h"
#include "api/e2b/sign.h"
#include "base/auto.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check_record(char *text)
{
    sg_auto_arena arena;
    sg_arena_init(&arena, 32 << 20);
    struct sg_sandbox s = { .id = { "sandboxandboxandboxa" }, .door = text };
    struct sg_e2b_record r, again;
    if (!sg_e2b_record(&s, &arena, &r))
        return;
    s.door = sg_e2b_record_text(&arena, &r);
    if (!s.door)
        return; /* too large to be kept */
    if (!sg_e2b_record(&s, &arena, &again) || strcmp(r.traffic, again.traffic) != 0 ||
        strcmp(r.mask, again.mask) != 0 || strcmp(r.token, again.token) != 0 ||
        r.resumes != again.resumes || !r.network != !again.network)
        abort();
}

static void check_network(struct sg_str text)
{
    sg_auto_arena arena;
    sg_arena_init(&arena, 32 << 20);
    struct sg_e2b_record r = { .token = "", .traffic = "", .mask = "" };
    const struct sg_jval *v;
    if (sg_json_parse(text, &arena, &v, NULL) == 0 && sg_e2b_network_check(v, &r, NULL) == 0 &&
        strpbrk(r.mask, "\r\n /"))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    sg_auto_free char *text = sg_alloc(n + 1);
    char signature[SG_E2B_SIGNATURE_LEN + 1];
    if (n)
        memcpy(text, p, n);
    check_record(text);
    check_network((struct sg_str) { text, n });
    sg_e2b_sign(text, "read", text, text, n % 2 ? text : NULL, signature);
    if (signature[0] && strlen(signature) != SG_E2B_SIGNATURE_LEN)
        abort();
    return 0;
}
