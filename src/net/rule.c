/* SPDX-License-Identifier: Apache-2.0 */
#include "net/rule.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/banned.h"

/* ---- HOST and PORTS ---- */

struct parts {
    struct sg_str host, ports; /* ports.p NULL: none */
};

/* A bare IPv6 address has many colons and no port. */
static int split(struct sg_str text, struct parts *ret, struct sg_err *err)
{
    const char *end = text.p + text.n, *colon = memchr(text.p, ':', text.n);
    *ret = (struct parts) { .host = text };
    if (text.n && text.p[0] == '[') {
        const char *close = memchr(text.p, ']', text.n);
        if (!close || (close + 1 < end && close[1] != ':'))
            return sg_fail(err, SG_INVALID, "%s has no end of its bracket", sg_quote_str(text).s);
        ret->host = (struct sg_str) { text.p + 1, (size_t)(close - text.p) - 1 };
        colon = close + 1 < end ? close + 1 : NULL;
    } else if (colon && memchr(colon + 1, ':', (size_t)(end - colon) - 1)) {
        return 0;
    } else if (colon) {
        ret->host.n = (size_t)(colon - text.p);
    }
    if (colon)
        ret->ports = (struct sg_str) { colon + 1, (size_t)(end - colon) - 1 };
    return 0;
}

static int parse_range(struct sg_str s, struct sg_netrule *r, struct sg_err *err)
{
    const char *dash = s.n ? memchr(s.p, '-', s.n) : NULL;
    const size_t n = dash ? (size_t)(dash - s.p) : s.n;
    uint64_t first, last;
    if (sg_parse_u64((struct sg_str) { s.p, n }, 1, 65535, &first, err) < 0)
        return -1;
    last = first;
    if (dash &&
        sg_parse_u64((struct sg_str) { dash + 1, s.n - n - 1 }, first, 65535, &last, err) < 0)
        return -1;
    if (r->port_count == SG_NETRULE_PORTS)
        return sg_fail(err, SG_INVALID, "over %d ports and ranges", SG_NETRULE_PORTS);
    r->ports[r->port_count].first = (uint16_t)first;
    r->ports[r->port_count++].last = (uint16_t)last;
    return 0;
}

static int parse_ports(struct sg_str s, struct sg_netrule *r, struct sg_err *err)
{
    for (size_t i = 0; i <= s.n;) {
        const char *comma = i < s.n ? memchr(s.p + i, ',', s.n - i) : NULL;
        const size_t n = comma ? (size_t)(comma - s.p) - i : s.n - i;
        if (parse_range((struct sg_str) { s.p + i, n }, r, err) < 0)
            return sg_wrap(err, "port");
        i += n + 1;
    }
    return 0;
}

static int parse_host(struct sg_str s, struct sg_netrule *r, struct sg_err *err)
{
    struct sg_name name;
    if (sg_str_is(s, "*")) {
        r->kind = SG_NETRULE_ANY;
        return 0;
    }
    if (sg_cidr_parse(s, &r->cidr, NULL) == 0) {
        r->kind = SG_NETRULE_CIDR;
        return 0;
    }
    if (s.n && memchr(s.p, '/', s.n)) /* what is wrong with it is wrong with a network */
        return sg_cidr_parse(s, &r->cidr, err);
    r->kind = SG_NETRULE_NAME;
    if (s.n > 2 && s.p[0] == '*' && s.p[1] == '.') {
        r->kind = SG_NETRULE_BELOW;
        s = (struct sg_str) { s.p + 2, s.n - 2 };
    }
    if (sg_name_parse(s, &name, err) < 0)
        return -1;
    r->name = sg_strdup(name.s);
    return 0;
}

static int parse(struct sg_str text, struct sg_netrule *r, struct sg_err *err)
{
    static const struct {
        const char *word;
        bool is_udp;
    } protocols[] = { { "tcp:", false }, { "udp:", true } };
    struct parts parts;
    struct sg_str rest = text;
    for (size_t i = 0; i < SG_COUNT(protocols); i++)
        if (text.n > 4 && memcmp(text.p, protocols[i].word, 4) == 0) {
            rest = (struct sg_str) { text.p + 4, text.n - 4 };
            r->is_udp = protocols[i].is_udp;
        }
    if (split(rest, &parts, err) < 0 || parse_host(parts.host, r, err) < 0)
        return -1;
    return parts.ports.p ? parse_ports(parts.ports, r, err) : 0;
}

int sg_netrule_parse(struct sg_str text, struct sg_netrule *ret, struct sg_err *err)
{
    struct sg_netrule r = { 0 };
    if (text.n == 0 || text.n >= SG_NETRULE_TEXT)
        return sg_fail(err, SG_INVALID, "a rule has 1 to %d bytes", SG_NETRULE_TEXT - 1);
    if (parse(text, &r, err) < 0) {
        sg_netrule_done(&r);
        return sg_wrap(err, "rule %s", sg_quote_str(text).s);
    }
    r.text = sg_printf("%.*s", (int)text.n, text.p);
    *ret = r;
    return 0;
}

void sg_netrule_done(struct sg_netrule *r)
{
    free(r->name);
    free(r->text);
    *r = (struct sg_netrule) { 0 };
}

/* ---- matching ---- */

static bool has_port(const struct sg_netrule *r, uint16_t port)
{
    if (!port || !r->port_count)
        return true;
    for (unsigned i = 0; i < r->port_count; i++)
        if (port >= r->ports[i].first && port <= r->ports[i].last)
            return true;
    return false;
}

bool sg_netrule_names_port(const struct sg_netrule *r)
{
    return r->port_count > 0;
}

bool sg_netrule_matches(const struct sg_netrule *r, const struct sg_target *t)
{
    /* A name is asked for before it is known what for. */
    if ((t->port && r->is_udp != t->is_udp) || !has_port(r, t->port))
        return false;
    switch (r->kind) {
    case SG_NETRULE_ANY:
        return true;
    case SG_NETRULE_NAME:
        return t->name && strcmp(t->name, r->name) == 0;
    case SG_NETRULE_BELOW:
        return t->name && sg_name_is_below(t->name, r->name);
    case SG_NETRULE_CIDR:
        return t->addr && sg_cidr_has(&r->cidr, t->addr);
    }
    return false;
}

int sg_target_parse(struct sg_str text, struct sg_name *name, struct sg_addr *addr,
                    struct sg_target *ret, struct sg_err *err)
{
    struct parts parts;
    struct sg_target t = { 0 };
    uint64_t port;
    if (text.n > 4 && memcmp(text.p, "udp:", 4) == 0) {
        t.is_udp = true;
        text = (struct sg_str) { text.p + 4, text.n - 4 };
    }
    if (text.n == 0 || split(text, &parts, err) < 0)
        return sg_fail(err, SG_INVALID, "%s is not HOST:PORT", sg_quote_str(text).s);
    if (!parts.ports.p || sg_parse_u64(parts.ports, 1, 65535, &port, err) < 0)
        return sg_fail(err, SG_INVALID, "%s is not HOST:PORT", sg_quote_str(text).s);
    t.port = (uint16_t)port;
    if (sg_addr_parse(parts.host, addr, NULL) == 0) {
        t.addr = addr;
    } else {
        if (sg_name_parse(parts.host, name, err) < 0)
            return -1;
        t.name = name->s;
    }
    *ret = t;
    return 0;
}
