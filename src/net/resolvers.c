/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resolvers.h"

#include <string.h>

#include "base/auto.h"
#include "base/banned.h"

enum { HTTPS = 443 };

/* Each with what is below it. The list cannot be complete: mode `filtered` is what closes this. */
static const char *const names[] = {
    "adguard-dns.com",       "cloudflare-dns.com", "controld.com",
    "dns.adguard.com",       "dns.alidns.com",     "dns.google",
    "dns.mullvad.net",       "dns.nextdns.io",     "dns0.eu",
    "doh.libredns.gr",       "doh.opendns.com",    "doh.pub",
    "doh.cleanbrowsing.org", "one.one.one.one",    "quad9.net",
};

static const char *const addresses[] = {
    "1.1.1.1",
    "1.0.0.1",
    "8.8.8.8",
    "8.8.4.4",
    "9.9.9.9",
    "149.112.112.112",
    "208.67.222.222",
    "208.67.220.220",
    "94.140.14.14",
    "94.140.15.15",
    "223.5.5.5",
    "223.6.6.6",
    "2606:4700:4700::1111",
    "2606:4700:4700::1001",
    "2001:4860:4860::8888",
    "2001:4860:4860::8844",
    "2620:fe::fe",
    "2620:fe::9",
};

bool sg_net_is_resolver(const struct sg_target *t)
{
    struct sg_addr a;
    for (size_t i = 0; t->name && i < SG_COUNT(names); i++)
        if (strcmp(t->name, names[i]) == 0 || sg_name_is_below(t->name, names[i]))
            return true;
    for (size_t i = 0; t->addr && t->port == HTTPS && i < SG_COUNT(addresses); i++)
        if (sg_addr_parse(sg_str_of(addresses[i]), &a, NULL) == 0 && sg_addr_is_same(&a, t->addr))
            return true;
    return false;
}
