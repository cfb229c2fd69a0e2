/* SPDX-License-Identifier: Apache-2.0 */
/* Policy documents: what is read is written as a document that reads the same, and judges the same.
 * Whatever it says, an address that is not public is refused. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "manager/net.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must(bool is_so)
{
    if (!is_so)
        abort();
}

static bool judge(const struct sg_policy *p, const char *to)
{
    struct sg_name name;
    struct sg_addr addr;
    struct sg_target t;
    struct sg_netverdict v;
    must(sg_target_parse(sg_str_of(to), &name, &addr, &t, NULL) == 0);
    sg_policy_judge(p, NULL, &t, &v);
    return v.is_allowed;
}

static void check(const struct sg_policy *p)
{
    static const char *const never[] = { "10.0.0.1:443", "[::1]:80", "169.254.169.254:80",
                                         "[::ffff:127.0.0.1]:80" };
    static const char *const some[] = {
        "example.com:443",     "a.example.com:80",      "1.1.1.1:53",
        "udp:example.com:123", "db.team.internal:5432", "udp:db.team.internal:53"
    };
    sg_auto_buf out;
    sg_auto_arena a;
    struct sg_json j;
    const struct sg_jval *v;
    struct sg_policy again;
    for (size_t i = 0; i < 4; i++)
        must(!judge(p, never[i]));
    sg_buf_init(&out, 1 << 20);
    sg_arena_init(&a, 1 << 22);
    sg_json_init(&j, &out);
    sg_net_put(&j, p);
    must(sg_json_parse((struct sg_str) { (const char *)out.p, out.n }, &a, &v, NULL) == 0);
    must(sg_net_read(v, &again, NULL) == 0);
    for (size_t i = 0; i < SG_COUNT(some); i++)
        must(judge(p, some[i]) == judge(&again, some[i]));
    sg_policy_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    sg_auto_arena a;
    const struct sg_jval *v;
    struct sg_policy policy;
    sg_arena_init(&a, 1 << 22);
    if (sg_json_parse((struct sg_str) { (const char *)p, n }, &a, &v, NULL) < 0 ||
        sg_net_read(v, &policy, NULL) < 0)
        return 0;
    check(&policy);
    sg_policy_done(&policy);
    return 0;
}
