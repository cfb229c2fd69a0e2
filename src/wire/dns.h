/* SPDX-License-Identifier: Apache-2.0 */
/* DNS messages (RFC 1035, 6891, 8914), as much as a resolver needs that answers for a few types.
 *
 * D1. One question a message. Names are lower case, without the last dot; a label with a dot, a
 *     blank, a control character or anything beyond ASCII in it makes the message a bad one.
 * D2. Compressed names lead backwards only, and a bounded number of times.
 * D3. Of an answer counts what belongs to the question: the chain of its aliases, and the addresses
 *     at the end of it. All else is passed over. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    SG_DNS_NAME = 254, /* with its NUL */
    SG_DNS_MAX_UDP = 1232,
    SG_DNS_MAX_QUERY = 512,
    SG_DNS_MAX_ADDRS = 16,
    SG_DNS_MAX_ALIASES = 8,
};
enum { SG_DNS_A = 1, SG_DNS_CNAME = 5, SG_DNS_AAAA = 28, SG_DNS_OPT = 41 };
enum {
    SG_DNS_OK,
    SG_DNS_FORMERR,
    SG_DNS_SERVFAIL,
    SG_DNS_NXDOMAIN,
    SG_DNS_NOTIMP,
    SG_DNS_REFUSED,
};
enum { SG_DNS_EDE_FILTERED = 17, SG_DNS_EDE_NETWORK = 23 };

struct sg_dns_query {
    uint16_t id, type, class;
    bool wants_recursion, has_edns;
    char name[SG_DNS_NAME]; /* "": the root */
    size_t question_end;    /* where in the message the question ends; 0: it has none */
};

/* 0; or the code of the refusal; -1: not even that (too short, or an answer itself). `ret` has what
 * was read so far. */
int sg_dns_query_parse(const uint8_t *p, size_t n, struct sg_dns_query *ret);

struct sg_dns_reply {
    int rcode;
    const uint8_t *addr; /* NULL: none; of 4 or 16 bytes by q->type */
    uint32_t ttl_s;
    uint16_t reason;  /* SG_DNS_EDE_..., 0: none; told to those who understand it */
    const char *text; /* of it, or NULL */
};
/* The reply to the query `p`; returns its length, 0 where `cap` is too small. */
size_t sg_dns_reply_format(const uint8_t *p, const struct sg_dns_query *q,
                           const struct sg_dns_reply *r, uint8_t *out, size_t cap);

/* A question of our own. Returns its length; 0: `name` is none. */
size_t sg_dns_question_format(uint16_t id, const char *name, uint16_t type, uint8_t *out,
                              size_t cap);

struct sg_dns_answer {
    int rcode;
    bool is_truncated;
    unsigned count; /* of addresses */
    uint8_t addrs[SG_DNS_MAX_ADDRS][16];
    uint32_t ttl_s; /* the least on the way; 0 without addresses */
    unsigned alias_count;
    char aliases[SG_DNS_MAX_ALIASES][SG_DNS_NAME];
};
/* SG_INVALID: not the answer to that question. */
int sg_dns_answer_parse(const uint8_t *p, size_t n, uint16_t id, const char *name, uint16_t type,
                        struct sg_dns_answer *ret, struct sg_err *err);
