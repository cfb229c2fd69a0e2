/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/dns.h"

#include <string.h>

#include "base/banned.h"

enum { HEAD = 12, CLASS_IN = 1, LABEL_MAX = 63, MAX_JUMPS = 32, MAX_RECORDS = 128 };
enum { FLAG_QR = 0x8000, FLAG_OPCODE = 0x7800, FLAG_TC = 0x0200, FLAG_RD = 0x0100, FLAG_RA = 0x80 };
enum { OPTION_EDE = 15, ANY_CLASS = 255 };

static uint16_t get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(uint8_t *p, unsigned v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

/* ---- names ---- */

static bool is_fine(uint8_t c)
{
    return c > 0x20 && c < 0x7f && c != '.' && c != '\\';
}

static int copy_label(const uint8_t *p, size_t n, char *out, size_t *at)
{
    if (*at + n + 1 >= SG_DNS_NAME)
        return -1;
    if (*at)
        out[(*at)++] = '.';
    for (size_t i = 0; i < n; i++) {
        if (!is_fine(p[i]))
            return -1;
        out[(*at)++] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] + ('a' - 'A') : p[i]);
    }
    return 0;
}

/* The name at `*off`, which is then behind it. */
static int read_name(const uint8_t *p, size_t n, bool may_jump, size_t *off, char *out)
{
    size_t at = 0, here = *off, limit = n;
    for (unsigned jumps = 0;;) {
        if (here >= limit)
            return -1;
        const uint8_t c = p[here];
        if (c == 0) {
            if (!jumps)
                *off = here + 1;
            out[at] = '\0';
            return 0;
        }
        if (c >= 0xc0) {
            if (!may_jump || here + 2 > n || ++jumps > MAX_JUMPS)
                return -1;
            const size_t to = get16(p + here) & 0x3fffu;
            if (jumps == 1)
                *off = here + 2;
            if (to >= here || to < HEAD) /* backwards only: it must end */
                return -1;
            limit = here;
            here = to;
            continue;
        }
        if (c > LABEL_MAX || here + 1 + c > limit || copy_label(p + here + 1, c, out, &at) < 0)
            return -1;
        here += 1u + c;
    }
}

static size_t write_name(const char *name, uint8_t *out, size_t cap)
{
    size_t at = 0;
    while (*name) {
        const size_t n = strcspn(name, ".");
        if (n == 0 || n > LABEL_MAX || at + n + 2 > cap)
            return 0;
        out[at++] = (uint8_t)n;
        memcpy(out + at, name, n);
        at += n;
        name += n + (name[n] == '.');
    }
    if (at + 1 > cap)
        return 0;
    out[at++] = 0;
    return at;
}

/* ---- queries ---- */

/* The OPT record, if any, among what follows the question. */
static int look_for_edns(const uint8_t *p, size_t n, size_t off, unsigned count,
                         struct sg_dns_query *q)
{
    for (unsigned i = 0; i < count; i++) {
        char owner[SG_DNS_NAME];
        if (read_name(p, n, false, &off, owner) < 0 || n - off < 10)
            return SG_DNS_FORMERR;
        const uint16_t type = get16(p + off), length = get16(p + off + 8);
        if (length > n - off - 10 || (type == SG_DNS_OPT && (q->has_edns || owner[0])))
            return SG_DNS_FORMERR;
        q->has_edns |= type == SG_DNS_OPT;
        off += 10u + length;
    }
    return off == n ? 0 : SG_DNS_FORMERR;
}

int sg_dns_query_parse(const uint8_t *p, size_t n, struct sg_dns_query *ret)
{
    struct sg_dns_query q = { 0 };
    *ret = q;
    if (n < HEAD || get16(p + 2) & FLAG_QR)
        return -1;
    q.id = get16(p);
    q.wants_recursion = get16(p + 2) & FLAG_RD;
    *ret = q;
    if (get16(p + 2) & FLAG_OPCODE)
        return SG_DNS_NOTIMP;
    size_t off = HEAD;
    if (n > SG_DNS_MAX_QUERY || get16(p + 4) != 1 || get16(p + 6) || get16(p + 8) ||
        get16(p + 10) > 2 || read_name(p, n, false, &off, q.name) < 0 || n - off < 4)
        return SG_DNS_FORMERR;
    q.type = get16(p + off);
    q.class = get16(p + off + 2);
    q.question_end = off + 4;
    *ret = q;
    int code = look_for_edns(p, n, q.question_end, get16(p + 10), &q);
    *ret = q;
    if (code == 0 && q.class != CLASS_IN && q.class != ANY_CLASS)
        code = SG_DNS_REFUSED;
    return code;
}

static size_t put_address(const struct sg_dns_query *q, const struct sg_dns_reply *r, uint8_t *out)
{
    const size_t n = q->type == SG_DNS_A ? 4 : 16;
    put16(out, 0xc000 | HEAD);
    put16(out + 2, q->type);
    put16(out + 4, CLASS_IN);
    put16(out + 6, r->ttl_s >> 16);
    put16(out + 8, r->ttl_s & 0xffff);
    put16(out + 10, (unsigned)n);
    memcpy(out + 12, r->addr, n);
    return 12 + n;
}

static size_t put_edns(const struct sg_dns_reply *r, uint8_t *out)
{
    const size_t text = r->text ? strnlen(r->text, 200) : 0;
    const size_t option = r->reason ? 6 + text : 0;
    out[0] = 0;
    put16(out + 1, SG_DNS_OPT);
    put16(out + 3, SG_DNS_MAX_UDP);
    memset(out + 5, 0, 4);
    put16(out + 9, (unsigned)option);
    if (option) {
        put16(out + 11, OPTION_EDE);
        put16(out + 13, (unsigned)(2 + text));
        put16(out + 15, r->reason);
        if (text)
            memcpy(out + 17, r->text, text);
    }
    return 11 + option;
}

size_t sg_dns_reply_format(const uint8_t *p, const struct sg_dns_query *q,
                           const struct sg_dns_reply *r, uint8_t *out, size_t cap)
{
    enum { MOST_ADDED = 28 + 17 + 200 };
    size_t at = q->question_end ? q->question_end : HEAD;
    if (at + MOST_ADDED > cap)
        return 0;
    if (q->question_end)
        memcpy(out, p, at);
    memset(out + 4, 0, 8);
    put16(out, q->id);
    put16(out + 2,
          FLAG_QR | FLAG_RA | (q->wants_recursion ? FLAG_RD : 0u) | ((unsigned)r->rcode & 15u));
    put16(out + 4, q->question_end ? 1 : 0);
    if (r->addr) {
        put16(out + 6, 1);
        at += put_address(q, r, out + at);
    }
    if (q->has_edns) {
        put16(out + 10, 1);
        at += put_edns(r, out + at);
    }
    return at;
}

/* ---- our own questions ---- */

size_t sg_dns_question_format(uint16_t id, const char *name, uint16_t type, uint8_t *out,
                              size_t cap)
{
    static const uint8_t opt[] = {
        0, 0, SG_DNS_OPT, SG_DNS_MAX_UDP >> 8, SG_DNS_MAX_UDP & 0xff, 0, 0, 0, 0, 0, 0
    };
    if (cap < HEAD + 4 + sizeof opt)
        return 0;
    memset(out, 0, HEAD);
    put16(out, id);
    put16(out + 2, FLAG_RD);
    put16(out + 4, 1);
    put16(out + 10, 1);
    size_t n = write_name(name, out + HEAD, cap - HEAD - 4 - sizeof opt);
    if (n == 0)
        return 0;
    n += HEAD;
    put16(out + n, type);
    put16(out + n + 2, CLASS_IN);
    memcpy(out + n + 4, opt, sizeof opt);
    return n + 4 + sizeof opt;
}

/* ---- answers ---- */

struct record {
    char owner[SG_DNS_NAME];
    uint16_t type, class, length;
    uint32_t ttl_s;
    size_t data; /* where it is */
};

static int read_record(const uint8_t *p, size_t n, size_t *off, struct record *ret)
{
    if (read_name(p, n, true, off, ret->owner) < 0 || n - *off < 10)
        return -1;
    const uint8_t *at = p + *off;
    ret->type = get16(at);
    ret->class = get16(at + 2);
    ret->ttl_s = (uint32_t)get16(at + 4) << 16 | get16(at + 6);
    ret->length = get16(at + 8);
    ret->data = *off + 10;
    if (ret->length > n - ret->data)
        return -1;
    *off = ret->data + ret->length;
    return 0;
}

/* One walk over the records: what belongs to `wanted` is taken. True: it is an alias, of which
 * `wanted` is now the target. */
static bool walk(const uint8_t *p, size_t n, size_t off, unsigned count, uint16_t type,
                 char *wanted, struct sg_dns_answer *a)
{
    struct record r;
    const size_t size = type == SG_DNS_A ? 4 : 16;
    for (unsigned i = 0; i < count && read_record(p, n, &off, &r) == 0; i++) {
        size_t at = r.data;
        if (r.class != CLASS_IN || strcmp(r.owner, wanted) != 0)
            continue;
        if (r.ttl_s < a->ttl_s && (r.type == type || r.type == SG_DNS_CNAME))
            a->ttl_s = r.ttl_s;
        if (r.type == type && r.length == size && a->count < SG_DNS_MAX_ADDRS)
            memcpy(a->addrs[a->count++], p + r.data, size);
        if (r.type == SG_DNS_CNAME && a->alias_count < SG_DNS_MAX_ALIASES &&
            read_name(p, r.data + r.length, true, &at, a->aliases[a->alias_count]) == 0) {
            memcpy(wanted, a->aliases[a->alias_count++], SG_DNS_NAME);
            return true;
        }
    }
    return false;
}

int sg_dns_answer_parse(const uint8_t *p, size_t n, uint16_t id, const char *name, uint16_t type,
                        struct sg_dns_answer *ret, struct sg_err *err)
{
    char wanted[SG_DNS_NAME] = "";
    size_t off = HEAD;
    if (n < HEAD || get16(p) != id || !(get16(p + 2) & FLAG_QR) || get16(p + 4) != 1 ||
        read_name(p, n, false, &off, wanted) < 0 || n - off < 4 || strcmp(wanted, name) != 0 ||
        get16(p + off) != type || get16(p + off + 2) != CLASS_IN)
        return sg_fail(err, SG_INVALID, "not the answer to that question");
    *ret = (struct sg_dns_answer) { .rcode = get16(p + 2) & 15,
                                    .is_truncated = get16(p + 2) & FLAG_TC,
                                    .ttl_s = UINT32_MAX };
    unsigned count = get16(p + 6);
    if (count > MAX_RECORDS)
        count = MAX_RECORDS;
    for (unsigned i = 0; i <= SG_DNS_MAX_ALIASES; i++)
        if (!walk(p, n, off + 4, count, type, wanted, ret))
            break;
    if (!ret->count)
        ret->ttl_s = 0;
    return 0;
}
