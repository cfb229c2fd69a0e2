/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/hello.h"

#include <string.h>

#include "base/banned.h"

enum { RECORD_HANDSHAKE = 22, CLIENT_HELLO = 1, RECORD_HEAD = 5, MESSAGE_HEAD = 4 };
enum { RECORD_MAX = 1 << 14 };
enum { EXT_SERVER_NAME = 0, EXT_ENCRYPTED = 0xfe0d, NAME_HOST = 0 };

struct reader {
    const uint8_t *p;
    size_t n;
};

static bool take(struct reader *r, size_t n, struct reader *ret)
{
    if (n > r->n)
        return false;
    *ret = (struct reader) { r->p, n };
    r->p += n;
    r->n -= n;
    return true;
}

static bool take_number(struct reader *r, unsigned bytes, size_t *ret)
{
    struct reader v;
    if (!take(r, bytes, &v))
        return false;
    *ret = 0;
    for (unsigned i = 0; i < bytes; i++)
        *ret = *ret << 8 | v.p[i];
    return true;
}

/* A vector: its length in so many bytes, then itself. */
static bool take_vector(struct reader *r, unsigned bytes, struct reader *ret)
{
    size_t n;
    return take_number(r, bytes, &n) && take(r, n, ret);
}

/* Exactly one name, of a host: clients never send others, and servers differ over more. */
static bool read_server_name(struct reader ext, struct sg_hello *h)
{
    struct reader list, name;
    size_t type;
    if (h->has_name || !take_vector(&ext, 2, &list) || ext.n || !take_number(&list, 1, &type) ||
        type != NAME_HOST || !take_vector(&list, 2, &name) || list.n)
        return false;
    if (name.n == 0 || name.n >= sizeof h->name || memchr(name.p, 0, name.n))
        return false;
    memcpy(h->name, name.p, name.n);
    h->name[name.n] = '\0';
    h->has_name = true;
    return true;
}

static bool read_body(struct reader body, struct sg_hello *h)
{
    struct reader skipped, extensions, ext;
    if (!take(&body, 2 + 32, &skipped) || !take_vector(&body, 1, &skipped) ||
        !take_vector(&body, 2, &skipped) || !take_vector(&body, 1, &skipped))
        return false;
    if (body.n == 0) /* before there were extensions */
        return true;
    if (!take_vector(&body, 2, &extensions) || body.n)
        return false;
    while (extensions.n) {
        size_t type;
        if (!take_number(&extensions, 2, &type) || !take_vector(&extensions, 2, &ext))
            return false;
        if (type == EXT_SERVER_NAME && !read_server_name(ext, h))
            return false;
        h->has_encrypted |= type == EXT_ENCRYPTED;
    }
    return true;
}

/* The handshake bytes of all records so far, in one piece. */
static enum sg_hello_got join(const uint8_t *p, size_t n, uint8_t *out, size_t *ret_n)
{
    struct reader in = { p, n };
    *ret_n = 0;
    while (in.n >= RECORD_HEAD) {
        const size_t length = (size_t)in.p[3] << 8 | in.p[4];
        if (in.p[0] != RECORD_HANDSHAKE || in.p[1] != 3 || length == 0 || length > RECORD_MAX)
            return SG_HELLO_BAD;
        const size_t here = in.n - RECORD_HEAD < length ? in.n - RECORD_HEAD : length;
        if (here > SG_HELLO_MAX - *ret_n)
            return SG_HELLO_BAD;
        memcpy(out + *ret_n, in.p + RECORD_HEAD, here);
        *ret_n += here;
        in.p += RECORD_HEAD + here;
        in.n -= RECORD_HEAD + here;
        if (*ret_n >= MESSAGE_HEAD) {
            const size_t whole = (size_t)out[1] << 16 | (size_t)out[2] << 8 | out[3];
            if (out[0] != CLIENT_HELLO || whole > SG_HELLO_MAX - MESSAGE_HEAD)
                return SG_HELLO_BAD;
            if (*ret_n >= whole + MESSAGE_HEAD) {
                *ret_n = whole + MESSAGE_HEAD;
                return SG_HELLO_DONE;
            }
        }
        if (here < length)
            break;
    }
    return n >= 1 && p[0] != RECORD_HANDSHAKE ? SG_HELLO_BAD : SG_HELLO_MORE;
}

enum sg_hello_got sg_hello_parse(const uint8_t *p, size_t n, struct sg_hello *ret)
{
    uint8_t message[SG_HELLO_MAX];
    size_t m;
    *ret = (struct sg_hello) { 0 };
    enum sg_hello_got got = join(p, n, message, &m);
    if (got != SG_HELLO_DONE)
        return got;
    const struct reader body = { message + MESSAGE_HEAD, m - MESSAGE_HEAD };
    return read_body(body, ret) ? SG_HELLO_DONE : SG_HELLO_BAD;
}
