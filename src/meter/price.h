/* SPDX-License-Identifier: Apache-2.0 */
/* Prices: amounts of use become money. Money is in millionths of a millionth of the currency, so
 * that the smallest price and the smallest use are still whole numbers; sums stop at the largest.
 *
 * Amounts are added up first and priced then: nothing is lost by rounding many small ones. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct sg_amounts {
    uint64_t cpu_ns, mem_mib_ms;             /* used, held */
    uint64_t vcpu_milli_ms, allotted_mib_ms; /* there for it while it was not paused */
    uint64_t disk_mib_ms, wall_ms, net_bytes, creates;
};
void sg_amounts_add(struct sg_amounts *to, const struct sg_amounts *a);

enum { SG_RATES = 8, SG_ELSEWHERE_MAX = 8, SG_PRICES_MAX_BYTES = 64 << 10 };
#define SG_PRICES_DEFAULT_PATH "/etc/sandglass/prices.toml"
#define SG_PICO                UINT64_C(1000000000000)

struct sg_price {
    char name[32];           /* "own", or whose */
    uint64_t pico[SG_RATES]; /* a unit each: price.c */
};
struct sg_prices {
    char currency[8];
    struct sg_price own, elsewhere[SG_ELSEWHERE_MAX];
    unsigned elsewhere_count;
};

/* policy/prices.toml is what it reads. SG_INVALID with file, line and column. */
int sg_prices_parse(struct sg_str text, const char *source, struct sg_prices *ret,
                    struct sg_err *err);
void sg_prices_builtin(struct sg_prices *ret);

uint64_t sg_price_of(const struct sg_price *p, const struct sg_amounts *a); /* pico */

struct sg_money_text {
    char s[40];
};
/* "0.000014": a JSON number without needless zeros. */
struct sg_money_text sg_money_text(uint64_t pico);
