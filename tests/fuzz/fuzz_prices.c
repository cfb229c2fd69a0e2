/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file of prices: refused with a word, or accepted, and then money is a number. */
#include <stdlib.h>
#include <string.h>

#include "meter/price.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sg_err err = { 0 };
    struct sg_prices prices;
    const struct sg_amounts some = { 1, 2, 3, 4, 5, 6, 7, 8 };
    if (sg_prices_parse((struct sg_str) { (const char *)p, n }, "f", &prices, &err) < 0) {
        if (err.kind == SG_OK || !err.msg[0])
            abort();
        return 0;
    }
    const struct sg_money_text t = sg_money_text(sg_price_of(&prices.own, &some));
    if (!t.s[0] || strspn(t.s, "0123456789.") != strlen(t.s))
        abort();
    for (unsigned i = 0; i < prices.elsewhere_count; i++)
        if (!prices.elsewhere[i].name[0])
            abort();
    return 0;
}
