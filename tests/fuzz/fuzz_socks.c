/* SPDX-License-Identifier: Apache-2.0 */
/* What a proxy says. The first byte chooses what is asked for, the others are its words: cut in any
 * way they come to the same end, no more is asked for than an answer has, and a password is said
 * only after the proxy asked for it. */
#include <stdlib.h>
#include <string.h>

#include "wire/socks.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

struct end {
    enum sg_socks_got got;
    size_t used;
    uint8_t out[2048];
    size_t out_n;
    const char *reason;
};

static void must(bool is_so)
{
    if (!is_so)
        abort();
}

static void run(const struct sg_socks_ask *ask, const uint8_t *p, size_t n, size_t step,
                struct end *ret)
{
    struct sg_socks s;
    sg_auto_buf out;
    size_t at = 0;
    sg_buf_init(&out, sizeof ret->out);
    *ret = (struct end) { .got = SG_SOCKS_ON };
    sg_socks_begin(&s, ask, &out);
    while (ret->got == SG_SOCKS_ON && at < n) {
        size_t piece = sg_socks_wants(&s);
        must(piece > 0 && piece <= SG_SOCKS_IN);
        piece = piece < step ? piece : step;
        piece = piece < n - at ? piece : n - at;
        ret->got = sg_socks_feed(&s, p + at, piece, &out);
        at += piece;
    }
    must(!out.has_overflowed);
    must((ret->got == SG_SOCKS_BAD) == (s.reason != NULL));
    must(ret->got == SG_SOCKS_ON || sg_socks_wants(&s) == 0);
    memcpy(ret->out, out.p, out.n);
    ret->out_n = out.n;
    ret->used = at;
    ret->reason = s.reason;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static const uint8_t addr[16] = { 0x26 };
    if (!n)
        return 0;
    const bool has_login = p[0] & 1, has_name = p[0] & 2;
    const struct sg_socks_ask ask = { .user = has_login ? "user" : NULL,
                                      .password = has_login ? "password" : NULL,
                                      .name = has_name ? "example.com" : NULL,
                                      .addr = addr,
                                      .addr_n = p[0] & 4 ? 16 : 4,
                                      .port = 443 };
    struct end whole, cut;
    run(&ask, p + 1, n - 1, SG_SOCKS_IN, &whole);
    run(&ask, p + 1, n - 1, 1 + (size_t)(p[0] >> 4), &cut);
    must(whole.got == cut.got && whole.used == cut.used && whole.out_n == cut.out_n &&
         memcmp(whole.out, cut.out, cut.out_n) == 0 && whole.reason == cut.reason);
    const bool was_asked = has_login && n > 2 && p[1] == 5 && p[2] == 2;
    must(was_asked || !memmem(whole.out, whole.out_n, "password", 8));
    return 0;
}
