/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of SOCKS 5 (RFC 1928) with a user name and password (RFC 1929): one CONNECT.
 *
 *     sg_socks_begin(&s, &ask, &out);              the greeting is in `out`
 *     loop:  send what is in `out`
 *            read at most sg_socks_wants(&s) bytes
 *            sg_socks_feed(&s, bytes, n, &out)     ON: there is more to send or to read
 *
 * S1. Never a byte more is asked for than the reply has: what comes behind it is the far end's.
 * S2. What two implementations could read differently (a wrong version, a method that was not
 *     offered, an unknown kind of address) is SG_SOCKS_BAD.
 * S3. The password is borrowed, and goes into `out` alone, after the proxy has asked for it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
    SG_SOCKS_TEXT = 255, /* a user name, a password, a name */
    SG_SOCKS_OUT = 3 + 2 * SG_SOCKS_TEXT,
    SG_SOCKS_IN = 4 + 1 + SG_SOCKS_TEXT + 2,
};

struct sg_socks_ask {            /* borrowed for as long as it lasts */
    const char *user, *password; /* user NULL: none is offered; at most SG_SOCKS_TEXT */
    const char *name;            /* NULL: `addr` */
    const uint8_t *addr;
    size_t addr_n; /* 4 or 16 */
    uint16_t port;
};

enum sg_socks_state { SG_SOCKS_METHOD, SG_SOCKS_LOGIN, SG_SOCKS_REPLY, SG_SOCKS_OVER };
enum sg_socks_got { SG_SOCKS_ON, SG_SOCKS_DONE, SG_SOCKS_BAD };

struct sg_socks {
    struct sg_socks_ask ask;
    enum sg_socks_state state;
    uint8_t in[SG_SOCKS_IN];
    size_t n, need;     /* of one reply: what is there, what there must be before it is looked at */
    bool is_far;        /* BAD: the proxy did its part, and the far end could not be reached */
    const char *reason; /* BAD: static, in words */
};

void sg_socks_begin(struct sg_socks *s, const struct sg_socks_ask *ask, struct sg_buf *out);
size_t sg_socks_wants(const struct sg_socks *s); /* 0 when it is over */
/* `n` is at most what it wants. */
enum sg_socks_got sg_socks_feed(struct sg_socks *s, const uint8_t *p, size_t n, struct sg_buf *out);
