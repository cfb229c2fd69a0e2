/* SPDX-License-Identifier: Apache-2.0 */
/* DNS messages of a sandbox (queries) and of the world (answers). The first byte chooses. What is
 * accepted keeps the promises of wire/dns.h. */
#include <stdlib.h>
#include <string.h>

#include "net/name.h"
#include "wire/dns.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must(bool is_so)
{
    if (!is_so)
        abort();
}

static void must_be_text(const char *name)
{
    must(strlen(name) < SG_DNS_NAME);
    for (; *name; name++)
        must(*name > 0x20 && *name < 0x7f && !(*name >= 'A' && *name <= 'Z'));
}

static void query(const uint8_t *p, size_t n)
{
    static const uint8_t addr[16] = { 198, 18, 1, 0 };
    struct sg_dns_query q;
    uint8_t out[1024];
    const int code = sg_dns_query_parse(p, n, &q);
    if (code < 0)
        return;
    must_be_text(q.name);
    must(q.question_end <= n);
    const struct sg_dns_reply r = { .rcode = code,
                                    .addr = code == 0 && q.type == SG_DNS_A ? addr : NULL,
                                    .ttl_s = 60,
                                    .reason = SG_DNS_EDE_FILTERED,
                                    .text = "because" };
    const size_t m = sg_dns_reply_format(p, &q, &r, out, sizeof out);
    must(m <= sizeof out);
    if (m && code == 0 && q.name[0]) { /* our own answer is one, to the question that was asked */
        struct sg_dns_answer a;
        must(q.class != 1 || sg_dns_answer_parse(out, m, q.id, q.name, q.type, &a, NULL) == 0);
        must(q.class != 1 || q.type != SG_DNS_A || a.count == 1);
    }
}

static void answer(const uint8_t *p, size_t n)
{
    struct sg_dns_answer a;
    const uint16_t id = (uint16_t)(n >= 2 ? p[0] << 8 | p[1] : 0);
    static const uint16_t types[] = { SG_DNS_A, SG_DNS_AAAA };
    for (size_t i = 0; i < 2; i++) {
        if (sg_dns_answer_parse(p, n, id, "example.com", types[i], &a, NULL) < 0)
            continue;
        must(a.count <= SG_DNS_MAX_ADDRS && a.alias_count <= SG_DNS_MAX_ALIASES);
        for (unsigned k = 0; k < a.alias_count; k++)
            must_be_text(a.aliases[k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    if (n == 0)
        return 0;
    if (p[0] & 1)
        query(p + 1, n - 1);
    else
        answer(p + 1, n - 1);
    return 0;
}
