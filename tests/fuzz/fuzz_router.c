/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a rule file: refused with a word, or accepted, and then no question gets a wall that
 * is below the floor of its rule. */
#include <stdlib.h>

#include "router/router.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void ask_all(const struct sg_rules *r)
{
    const struct sg_walls all = { { NULL } };
    for (size_t i = 0; i < r->operation_count; i++) {
        struct sg_ask a;
        struct sg_decision d;
        struct sg_err err = { 0 };
        sg_ask_init(&a, r->operations[i].name);
        if (sg_router_decide(r, &all, &a, &d, &err) < 0) {
            if (err.kind != SG_DENIED)
                abort();
            continue;
        }
        if (d.is_allowed && sg_wall_strength(d.wall) < sg_wall_strength(d.rule->floor))
            abort();
        if ((sg_decision_error(&d, &err) < 0) == d.is_allowed)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sg_err err = { 0 };
    struct sg_rules *r = sg_rules_parse((struct sg_str) { (const char *)p, n }, "f", &err);
    if (!r && (err.kind == SG_OK || !err.msg[0]))
        abort();
    if (r)
        ask_all(r);
    sg_rules_free(r);
    return 0;
}
