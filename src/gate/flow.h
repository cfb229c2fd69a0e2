/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of a sandbox, from its arrival to the record of its end.
 *
 *     came      accepted; where it wanted to go is the address that it was accepted at
 *     judged    by name or address; a name is looked up, and every address judged
 *     dialled   while what the client says first is looked at (sniff.h)
 *     joined    bytes pass; those of the client not before it was looked at
 *
 * Each step either goes on or ends the flow, after which it must not be touched. */
#pragma once

#include "gate/gate.h"
#include "gate/resolve.h"
#include "gate/web.h"

struct sg_term;
struct sg_via;

enum { SG_FLOW_ADDRS = 4, SG_HTTP_PORT = 80 };

struct sg_way {  /* one direction */
    int pipe[2]; /* -1: nothing is under way */
    size_t held; /* bytes in it */
    bool has_ended, is_shut;
    uint64_t bytes;
};

struct sg_flow {
    struct sg_gate_box *box;
    struct sg_flow *next, **link;
    struct sg_io client, server;
    struct sg_way up, down; /* up: out of the sandbox */
    struct sg_addr wanted, real;
    uint16_t port;
    char *name; /* owned; NULL: an address as such */
    char *rule; /* owned: what allowed it */
    uint64_t began_ns;
    char peer[SG_CTL_MAX_TAG + 1]; /* the sandbox that it leads into; "": none */
    uint32_t ticket;               /* of the question for that */
    struct sg_lookup lookup;
    struct sg_timer timer; /* until it is dialled; until a refusal was read */
    struct sg_addr addrs[SG_FLOW_ADDRS];
    unsigned addr_count, addr_at;
    struct sg_via *via; /* owned; on its way through a proxy (gate/proxy.h); NULL: it is not */
    struct sg_addr proxy_addr; /* of one that is_via */
    bool is_via, is_far_named; /* far_named: the proxy looks its name up */
    struct sg_web *web;        /* owned; NULL: bytes pass as they are */
    struct sg_buf web_out;     /* of it: what may go on */
    bool is_asking;            /* for an upgrade */
    struct sg_term *term;      /* owned; NULL: it is not looked into (gate/term.h) */
    size_t sniffed;            /* bytes that were looked at */
    int low_mark;              /* SO_RCVLOWAT of the client */
    bool is_learned, is_connected, is_sniffed, is_told;
    bool is_waiting; /* for an allowance */
    struct sg_flow *next_waiting;
};

/* ---- flow.c ---- */

/* Records it and frees it. `why` NULL: it came to its end. */
void sg_flow_end(struct sg_flow *f, const char *why);
/* Records it, once. */
void sg_flow_tell(struct sg_flow *f, bool is_allowed, const char *rule);
/* Turns it down, in words where the client speaks HTTP, and frees it then or later. */
void sg_flow_refuse(struct sg_flow *f, const char *rule, bool speaks_http);

/* Dials; 0, or an errno. `ready` is called when it is connected, or is not. */
int sg_flow_reach(struct sg_flow *f, const struct sg_addr *a, uint16_t port,
                  void (*ready)(struct sg_io *io, uint32_t events));
/* Its `server` is the far end from now on. */
void sg_flow_reached(struct sg_flow *f);

/* The other sandbox's end, for one that waits for it; takes it. */
void sg_flow_met(struct sg_flow *f, int fd);

/* ---- meet.c ---- */

/* A name of a private network, which `rule` allows. */
void sg_flow_meet(struct sg_flow *f, const char *rule);

/* ---- sniff.c ---- */

/* The client has said something. 1: it may go on (is_sniffed). 0: there is more to come. -1: it was
 * refused. */
int sg_flow_sniff(struct sg_flow *f);
/* "" where the names agree; else why not. `said` as it came, perhaps with a port. */
void sg_flow_agrees(const struct sg_flow *f, struct sg_str said, struct sg_netverdict *ret);

/* ---- names.c ---- */

/* Answers questions for names that come by this connection. */
void sg_flow_serve_names(struct sg_flow *f);
void sg_flow_answer_name(struct sg_flow *f, const uint8_t *p, size_t n);
/* Whether that is the very name and port that it was let through for. */
bool sg_flow_is_named(const struct sg_flow *f, struct sg_str said);

/* ---- relay.c ---- */

/* Moves what can be moved and asks the loop for the rest. */
void sg_flow_relay(struct sg_flow *f);
void sg_way_init(struct sg_way *w);
void sg_way_done(struct sg_way *w);
void sg_flow_wait_for_allowance(struct sg_flow *f);
void sg_flow_stop_waiting(struct sg_flow *f);
