/* SPDX-License-Identifier: Apache-2.0 */
/* Where a secret may go: names of hosts, perhaps with ports, and whether also without TLS. The
 * binding is part of what the secret's box is sealed with (seal/seal.h): whoever takes over the
 * daemon can hand the gate boxes, but none with other hosts. */
#pragma once

#include "net/rule.h"

enum { SG_BINDING_HOSTS = 32 };

struct sg_binding {
    struct sg_netrule *v; /* owned; names and what is below them, never addresses */
    size_t n;
    bool allows_plain;
};

/* One more: "api.example.com", "*.example.com", "api.example.com:8443". */
int sg_binding_add(struct sg_binding *b, struct sg_str host, struct sg_err *err);
void sg_binding_done(struct sg_binding *b);
bool sg_binding_has(const struct sg_binding *b, const char *name, uint16_t port);

/* What the box of a secret is bound to. Returns owned. `id` is "organisation/id/version". */
char *sg_binding_context(const struct sg_binding *b, const char *id);
/* How exactly the rule names the host: the larger the better; 0: not at all. */
size_t sg_binding_fit(const struct sg_netrule *r, const char *name, uint16_t port);
