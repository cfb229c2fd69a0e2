/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of the gate; part of ctl/msg.h. */
#pragma once

#include "ctl/text.h"

enum {            /* G_ATTACH: the sandbox's sockets, made inside its namespace, in this order */
       SG_G_TCP,  /* listens: connections to any address and port */
       SG_G_UDP,  /* datagrams to any address and port */
       SG_G_LINK, /* holds the program that leads them there */
       SG_G_RAW4, /* answers to datagrams, from the address that was asked */
       SG_G_RAW6,
       SG_G_FD_COUNT,
};
enum { SG_G_LEARNS = 1, SG_G_ALLOW_FIRST = 2 }; /* G_POLICY flags */
enum sg_net_layer { SG_LAYER_OWN, SG_LAYER_TEMPLATE, SG_LAYER_ORG, SG_LAYER_COUNT };
enum { SG_G_UDP_FLOW = 1, SG_G_LEARNED = 2, SG_G_DNS_QUERY = 4 }; /* G_DECISION flags */
struct sg_msg_g_policy {
    struct sg_text sandbox;
    uint32_t mode, flags; /* mode: enum sg_net_mode */
    uint32_t layer;       /* enum sg_net_layer: those above are kept for the sandbox's own */
    uint32_t above;       /* of its own: which were sent before it, 1 << layer */
    uint64_t mbps, max_bytes, max_connections, connections_per_s;
    struct sg_texts allow, deny;
    struct sg_texts networks;                    /* private ones that it is on */
    struct sg_text org, name;                    /* whose they are; what it is called on them */
    struct sg_text proxy, proxy_user, proxy_box; /* net/egress.h; "": none */
};
/* One part of a sandbox's credentials; from FIRST to LAST they are a set (gate/creds.h). */
enum { SG_G_FIRST = 1, SG_G_LAST = 2, SG_G_PLAIN = 4 }; /* PLAIN: also without TLS */
enum { SG_G_CRED_NONE, SG_G_CRED_SECRET, SG_G_CRED_FIELD };
struct sg_msg_g_cred {
    struct sg_text sandbox;
    uint32_t kind, flags;
    struct sg_text name;   /* SECRET: the placeholder; FIELD: its name */
    struct sg_text value;  /* SECRET: sealed; FIELD: with placeholders */
    struct sg_text id;     /* SECRET: "organisation/id/version" */
    struct sg_texts hosts; /* SECRET: its binding; FIELD: one */
};
enum { SG_G_RULE_MAX = 352 };
struct sg_msg_g_decision {
    struct sg_text sandbox;
    uint32_t is_allowed, flags, port, skipped; /* skipped: decisions that were too many to tell */
    uint64_t at_ms, duration_ms, bytes_out, bytes_in;
    struct sg_text name, address, rule;
};
/* A connection into another sandbox of a network. G_MET answers it, with a socket or with why not.
 */
struct sg_msg_g_meet {
    struct sg_text sandbox, to; /* whose connection it is; where it goes */
    uint32_t ticket, port;
};
struct sg_msg_g_met {
    struct sg_text sandbox, to;
    uint32_t ticket, sys; /* sys: of a failure, which has no descriptor */
};
struct sg_msg_g_usage { /* since the last one */
    struct sg_text sandbox;
    uint64_t bytes_out, bytes_in, connections, refused;
};
