/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/socks.h"

#include <assert.h>
#include <string.h>

#include "base/auto.h"
#include "base/banned.h"

enum { VERSION = 5, LOGIN_VERSION = 1, CONNECT = 1 };
enum { METHOD_NONE = 0, METHOD_LOGIN = 2, METHOD_REFUSED = 0xff };
enum { KIND_V4 = 1, KIND_NAME = 3, KIND_V6 = 4 };
enum { SHORT_REPLY = 2, REPLY_HEAD = 5, PORT = 2 }; /* head: with the first byte of the address */

static void put(struct sg_buf *out, unsigned byte)
{
    const uint8_t b = (uint8_t)byte;
    sg_buf_add(out, &b, 1);
}

/* A length and as many bytes. */
static void put_text(struct sg_buf *out, const char *text)
{
    const size_t n = strnlen(text, SG_SOCKS_TEXT);
    put(out, (unsigned)n);
    sg_buf_add(out, text, n);
}

static void expect(struct sg_socks *s, enum sg_socks_state state, size_t need)
{
    s->state = state;
    s->n = 0;
    s->need = need;
}

void sg_socks_begin(struct sg_socks *s, const struct sg_socks_ask *ask, struct sg_buf *out)
{
    *s = (struct sg_socks) { .ask = *ask };
    expect(s, SG_SOCKS_METHOD, SHORT_REPLY);
    put(out, VERSION);
    put(out, ask->user ? 2 : 1);
    put(out, METHOD_NONE);
    if (ask->user)
        put(out, METHOD_LOGIN);
}

size_t sg_socks_wants(const struct sg_socks *s)
{
    return s->need - s->n;
}

static enum sg_socks_got bad(struct sg_socks *s, const char *reason)
{
    expect(s, SG_SOCKS_OVER, 0);
    s->reason = reason;
    return SG_SOCKS_BAD;
}

/* ---- what we say ---- */

static enum sg_socks_got log_in(struct sg_socks *s, struct sg_buf *out)
{
    put(out, LOGIN_VERSION);
    put_text(out, s->ask.user);
    put_text(out, s->ask.password ? s->ask.password : "");
    expect(s, SG_SOCKS_LOGIN, SHORT_REPLY);
    return SG_SOCKS_ON;
}

static enum sg_socks_got ask_for(struct sg_socks *s, struct sg_buf *out)
{
    const struct sg_socks_ask *a = &s->ask;
    put(out, VERSION);
    put(out, CONNECT);
    put(out, 0);
    if (a->name) {
        put(out, KIND_NAME);
        put_text(out, a->name);
    } else {
        put(out, a->addr_n == 4 ? KIND_V4 : KIND_V6);
        sg_buf_add(out, a->addr, a->addr_n);
    }
    put(out, a->port >> 8);
    put(out, a->port & 0xff);
    expect(s, SG_SOCKS_REPLY, SHORT_REPLY);
    return SG_SOCKS_ON;
}

/* ---- what the proxy says ---- */

static enum sg_socks_got method(struct sg_socks *s, struct sg_buf *out)
{
    if (s->in[0] != VERSION)
        return bad(s, "it does not speak SOCKS 5");
    if (s->in[1] == METHOD_REFUSED)
        return bad(s, s->ask.user ? "it takes no user name and password"
                                  : "it wants a user name and password");
    if (s->in[1] == METHOD_LOGIN && s->ask.user)
        return log_in(s, out);
    if (s->in[1] == METHOD_NONE)
        return ask_for(s, out);
    return bad(s, "it chose a method that was not offered");
}

static enum sg_socks_got logged_in(struct sg_socks *s, struct sg_buf *out)
{
    if (s->in[0] != LOGIN_VERSION)
        return bad(s, "its answer to the password cannot be read");
    if (s->in[1] != 0)
        return bad(s, "it did not accept the user name and password");
    return ask_for(s, out);
}

/* Of the address that it was bound to, which is of no use to us: only its length is. */
static size_t address_bytes(const uint8_t head[REPLY_HEAD])
{
    switch (head[3]) {
    case KIND_V4:
        return 4;
    case KIND_V6:
        return 16;
    case KIND_NAME:
        return 1 + (size_t)head[4];
    default:
        return 0;
    }
}

static enum sg_socks_got refused(struct sg_socks *s)
{
    static const char *const words[] = {
        [1] = "it failed",           [2] = "its own rules do not allow the connection",
        [3] = "network unreachable", [4] = "host unreachable",
        [5] = "connection refused",  [6] = "the time to live ran out",
        [7] = "it cannot connect",   [8] = "it does not take this kind of address",
    };
    const uint8_t code = s->in[1];
    const bool is_known = code < SG_COUNT(words);
    const enum sg_socks_got got = bad(s, is_known ? words[code] : "it failed, for no known reason");
    s->is_far = code >= 3 && code <= 6;
    return got;
}

static enum sg_socks_got replied(struct sg_socks *s)
{
    if (s->in[0] != VERSION)
        return bad(s, "its answer cannot be read");
    if (s->in[1] != 0) /* some say nothing more, and leave */
        return refused(s);
    if (s->n < REPLY_HEAD) {
        s->need = REPLY_HEAD;
        return SG_SOCKS_ON;
    }
    const size_t address = address_bytes(s->in);
    if (!address || s->in[2] != 0)
        return bad(s, "its answer cannot be read");
    s->need = REPLY_HEAD - 1 + address + PORT;
    if (s->n < s->need)
        return SG_SOCKS_ON;
    expect(s, SG_SOCKS_OVER, 0);
    return SG_SOCKS_DONE;
}

enum sg_socks_got sg_socks_feed(struct sg_socks *s, const uint8_t *p, size_t n, struct sg_buf *out)
{
    assert(n <= sg_socks_wants(s));
    memcpy(s->in + s->n, p, n);
    s->n += n;
    if (s->n < s->need)
        return SG_SOCKS_ON;
    switch (s->state) {
    case SG_SOCKS_METHOD:
        return method(s, out);
    case SG_SOCKS_LOGIN:
        return logged_in(s, out);
    case SG_SOCKS_REPLY:
        return replied(s);
    case SG_SOCKS_OVER:
        break;
    }
    return bad(s, "it was over");
}
