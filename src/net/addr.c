/* SPDX-License-Identifier: Apache-2.0 */
#include "net/addr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/banned.h"

enum { V4_BITS = 96 };
static const uint8_t MAPPED[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

bool sg_addr_is_v4(const struct sg_addr *a)
{
    return memcmp(a->b, MAPPED, sizeof MAPPED) == 0;
}

bool sg_addr_is_same(const struct sg_addr *a, const struct sg_addr *b)
{
    return memcmp(a->b, b->b, sizeof a->b) == 0;
}

struct sg_addr sg_addr_v4(uint32_t v)
{
    struct sg_addr a;
    const uint8_t four[4] = { (uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8),
                              (uint8_t)v };
    memcpy(a.b, MAPPED, sizeof MAPPED);
    memcpy(a.b + 12, four, sizeof four);
    return a;
}

uint32_t sg_addr_to_v4(const struct sg_addr *a)
{
    return (uint32_t)a->b[12] << 24 | (uint32_t)a->b[13] << 16 | (uint32_t)a->b[14] << 8 | a->b[15];
}

int sg_addr_parse(struct sg_str text, struct sg_addr *ret, struct sg_err *err)
{
    char copy[SG_ADDR_TEXT] = "";
    struct in_addr four;
    if (text.n < sizeof copy && !memchr(text.p, 0, text.n)) {
        memcpy(copy, text.p, text.n);
        if (inet_pton(AF_INET, copy, &four) == 1) {
            *ret = sg_addr_v4(ntohl(four.s_addr));
            return 0;
        }
        if (inet_pton(AF_INET6, copy, ret->b) == 1)
            return 0;
    }
    return sg_fail(err, SG_INVALID, "%s is no address", sg_quote_str(text).s);
}

void sg_addr_format(const struct sg_addr *a, char ret[SG_ADDR_TEXT])
{
    const bool is_v4 = sg_addr_is_v4(a);
    if (!inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? a->b + 12 : a->b, ret, SG_ADDR_TEXT))
        ret[0] = '\0';
}

unsigned sg_addr_to_sock(const struct sg_addr *a, uint16_t port, struct sockaddr_storage *ret)
{
    memset(ret, 0, sizeof *ret);
    if (sg_addr_is_v4(a)) {
        struct sockaddr_in *four = (struct sockaddr_in *)ret;
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        memcpy(&four->sin_addr, a->b + 12, 4);
        return sizeof *four;
    }
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    memcpy(&six->sin6_addr, a->b, 16);
    return sizeof *six;
}

bool sg_addr_of_sock(const struct sockaddr_storage *s, struct sg_addr *ret, uint16_t *ret_port)
{
    if (s->ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)s;
        *ret = sg_addr_v4(ntohl(four->sin_addr.s_addr));
        *ret_port = ntohs(four->sin_port);
        return true;
    }
    if (s->ss_family != AF_INET6)
        return false;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)s;
    memcpy(ret->b, &six->sin6_addr, 16);
    *ret_port = ntohs(six->sin6_port);
    return true;
}

/* ---- networks ---- */

static void clear_behind(struct sg_cidr *c)
{
    for (unsigned i = 0; i < sizeof c->addr.b; i++) {
        const unsigned at = i * 8;
        if (c->bits <= at)
            c->addr.b[i] = 0;
        else if (c->bits < at + 8)
            c->addr.b[i] &= (uint8_t)(0xff << (at + 8 - c->bits));
    }
}

int sg_cidr_parse(struct sg_str text, struct sg_cidr *ret, struct sg_err *err)
{
    const char *slash = text.n ? memchr(text.p, '/', text.n) : NULL;
    const size_t n = slash ? (size_t)(slash - text.p) : text.n;
    struct sg_cidr c = { .bits = 128 };
    uint64_t bits;
    if (sg_addr_parse((struct sg_str) { text.p, n }, &c.addr, err) < 0)
        return sg_fail(err, SG_INVALID, "%s is no address or network", sg_quote_str(text).s);
    /* "::ffff:0:0/96" is all of IPv4, written as IPv6. */
    const bool is_v4 = sg_addr_is_v4(&c.addr) && !memchr(text.p, ':', n);
    if (slash) {
        const struct sg_str rest = { slash + 1, text.n - n - 1 };
        if (sg_parse_u64(rest, 0, is_v4 ? 32 : 128, &bits, err) < 0)
            return sg_fail(err, SG_INVALID, "%s is no network: its prefix is 0 to %d",
                           sg_quote_str(text).s, is_v4 ? 32 : 128);
        c.bits = (uint8_t)(bits + (is_v4 ? V4_BITS : 0));
    }
    clear_behind(&c);
    *ret = c;
    return 0;
}

/* "::/0" is IPv6: IPv4 addresses are in networks that were written as such. */
bool sg_cidr_has(const struct sg_cidr *c, const struct sg_addr *a)
{
    if (c->bits < V4_BITS && sg_addr_is_v4(a))
        return false;
    const unsigned whole = c->bits / 8, rest = c->bits % 8;
    if (memcmp(c->addr.b, a->b, whole) != 0)
        return false;
    return !rest || ((c->addr.b[whole] ^ a->b[whole]) & (0xff << (8 - rest)) & 0xff) == 0;
}

/* The registries of special addresses (RFC 6890 and its successors), and where clouds keep what
 * their machines may know. */
static const struct {
    const char *network, *what;
} specials[] = {
    { "169.254.169.254", "metadata" },
    { "169.254.170.2", "metadata" },
    { "fd00:ec2::254", "metadata" },
    { "fd20:ce::254", "metadata" },
    { "100.100.100.200", "metadata" },
    { "168.63.129.16", "metadata" },
    { "192.0.0.192", "metadata" },
    { "0.0.0.0/8", "unspecified" },
    { "127.0.0.0/8", "loopback" },
    { "10.0.0.0/8", "private" },
    { "172.16.0.0/12", "private" },
    { "192.168.0.0/16", "private" },
    { "100.64.0.0/10", "private" },
    { "169.254.0.0/16", "link-local" },
    { "198.18.0.0/15", "synthetic" },
    { "192.0.0.0/24", "reserved" },
    { "192.0.2.0/24", "documentation" },
    { "198.51.100.0/24", "documentation" },
    { "203.0.113.0/24", "documentation" },
    { "192.88.99.0/24", "translated" },
    { "224.0.0.0/4", "multicast" },
    { "240.0.0.0/4", "reserved" },
    { "::", "unspecified" },
    { "::1", "loopback" },
    { "::/96", "translated" },
    { "64:ff9b::/96", "translated" },
    { "64:ff9b:1::/48", "translated" },
    { "100::/64", "reserved" },
    { "2001::/32", "translated" },
    { "2001::/23", "reserved" },
    { "2001:db8::/32", "documentation" },
    { "3fff::/20", "documentation" },
    { "2002::/16", "translated" },
    { "5f00::/16", "reserved" },
    { "fc00::/7", "private" },
    { "fe80::/10", "link-local" },
    { "fec0::/10", "private" },
    { "ff00::/8", "multicast" },
};

/* Parsed once: a decision looks through all of them. */
const char *sg_addr_special(const struct sg_addr *a)
{
    static struct sg_cidr parsed[SG_COUNT(specials)];
    static bool is_parsed;
    for (size_t i = 0; !is_parsed && i < SG_COUNT(specials); i++)
        if (sg_cidr_parse(sg_str_of(specials[i].network), &parsed[i], NULL) < 0)
            return "unknown";
    is_parsed = true;
    for (size_t i = 0; i < SG_COUNT(specials); i++)
        if (sg_cidr_has(&parsed[i], a))
            return specials[i].what;
    return NULL;
}
