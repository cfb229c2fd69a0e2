/* SPDX-License-Identifier: Apache-2.0 */
/* sandglass-gate: every byte that a sandbox exchanges with the world passes here, or does not.
 *
 *     main.c     settings, confinement, the loop
 *     gate.c     orders of the launcher, questions of the daemon, what is told back
 *     box.c      one sandbox: its sockets, its policy, its names and its allowances
 *     dns.c      answers to its questions for names       names.c    those that come by TCP
 *     resolve.c  our own questions, upstream
 *     flow.c     one connection: judged, dialled          relay.c    joined
 *     sniff.c    what a connection says of itself         web.c      the same for all of HTTP/1
 *     meet.c     connections into other sandboxes of a private network
 *     udp.c      datagrams, where a rule allows them      own.c      is it this machine?
 *     proxy.c    connections that go through a proxy (SOCKS 5)
 *     creds.c    secrets of a sandbox          swap.c     placeholders and values in bytes
 *     term.c     connections that are looked into, whose requests rewrite_*.c writes anew
 *
 * G1. Closed unless told otherwise: a sandbox without sockets reaches nothing, one without a policy
 *     is refused everything, and what cannot be understood is refused.
 * G2. A name is bound to a synthetic address when it is asked for; the real one is looked up and
 *     judged when a connection is made, and that very address is dialled.
 * G3. Nothing a sandbox does holds up another: everything is bounded, and nothing blocks.
 * G4. Whatever is decided is told to the daemon, which keeps the record. */
#pragma once

#include <netinet/in.h>

#include "base/map.h"
#include "ctl/chan.h"
#include "link/listener.h"
#include "loop/loop.h"
#include "net/policy.h"

struct sg_flow;
struct sg_resolver;
struct sg_udp;
struct sg_told;
struct sg_creds;
struct sg_trust;
struct sg_proxy;

/* ---- one sandbox ---- */

enum { SG_BOX_NAMES = 4096, SG_BOX_FLOWS = 2048, SG_BOX_UDP = 64, SG_BOX_LOOKUPS = 64 };

/* A bucket of things that may happen, filled with time. */
struct sg_bucket {
    uint64_t milli, at_ns; /* thousandths of one */
};
/* Takes `n` where there are as many; `rate` a second, as many as `burst` at once. */
bool sg_bucket_take(struct sg_bucket *b, uint64_t rate, uint64_t burst, uint64_t n,
                    uint64_t now_ns);

struct sg_bound { /* a synthetic address and its name */
    uint32_t index;
    char *name; /* owned */
};

/* What a sandbox is called on one of its private networks: "org/db.team.internal". */
struct sg_membership {
    char *key; /* owned */
    struct sg_gate_box *box;
    struct sg_membership *next; /* others that are called the same */
};

struct sg_gate_box {
    struct sg_gate *gate;
    char id[SG_CTL_MAX_TAG + 1];
    bool has_sockets, has_policy;
    struct sg_acceptor tcp;
    struct sg_io udp;
    int link_fd, raw_fds[2]; /* raw: IPv4, IPv6 */
    struct sg_policy policy;
    char org[SG_CTL_MAX_TAG + 1]; /* whose private networks it may be on */
    struct sg_membership memberships[SG_NETNAMES_MAX];
    unsigned membership_count;
    struct sg_policy layers[SG_LAYER_COUNT], coming[SG_LAYER_COUNT]; /* above it; before it is */
    uint32_t coming_mask;                                            /* 1 << layer */
    struct sg_creds *creds, *coming_creds; /* owned; NULL: none; not whole yet (gate/creds.h) */
    unsigned creds_version;
    struct sg_proxy *proxy; /* owned; NULL: none (gate/proxy.h) */
    /* names: the last `bound_cap` that were asked for, by index modulo */
    struct sg_bound **bound; /* owned */
    uint32_t bound_cap, next_index;
    struct sg_map by_name;
    struct sg_flow *flows;
    unsigned flow_count;
    struct sg_udp *udps;
    unsigned udp_count;
    struct sg_question *questions; /* for names, that wait for an answer */
    unsigned question_count;
    struct sg_bucket dns_rate, flow_rate, log_rate;
    int64_t allowance; /* bytes that may pass now (mbps) */
    uint64_t allowance_at_ns;
    uint64_t total_bytes;        /* against max_bytes */
    uint32_t skipped;            /* decisions not told */
    struct sg_msg_g_usage usage; /* since it was last told */
};

enum { SG_GATE_OWN = 64 };
struct sg_own { /* an address that was asked about; until_ns 0: none */
    struct sg_addr addr;
    bool is_own;
    uint64_t until_ns;
};

struct sg_gate {
    struct sg_loop *loop;
    struct sg_io launcher, daemon;
    struct sg_packet packet;
    struct sg_buf out;
    struct sg_told *told, **told_end; /* owned: what waits for the daemon */
    unsigned told_count;
    struct sg_map boxes;
    struct sg_map members; /* first of each key (struct sg_membership) */
    struct sg_nets permitted;
    struct sg_resolver *resolver;
    struct sg_timer usage, refill, telling;
    struct sg_own own[SG_GATE_OWN];
    struct sg_trust *trust;  /* owned (gate/term.h) */
    struct sg_flow *waiting; /* for an allowance */
    uint64_t lost;           /* decisions that nobody could be told of */
};

/* ---- gate.c ---- */

struct sg_gate_options {
    int launcher_fd;
    struct sg_trust *trust;                 /* taken */
    char *const *resolvers, *const *permit; /* texts */
    size_t resolver_count, permit_count;
};
struct sg_gate *sg_gate_new(struct sg_loop *l, const struct sg_gate_options *o, struct sg_err *err);
void sg_gate_free(struct sg_gate *g);

/* What is told of one decision. `v` NULL: it was allowed by `rule`. */
struct sg_decision {
    bool is_allowed, is_learned, is_udp, is_question;
    const char *name; /* or NULL */
    const struct sg_addr *addr;
    uint16_t port;
    const char *rule;
    uint64_t began_ns, bytes_out, bytes_in;
};
void sg_gate_tell(struct sg_gate_box *b, const struct sg_decision *d);
/* Asks the daemon for a connection into another sandbox; sg_gate_met() has the answer. False: there
 * is no daemon for now. */
bool sg_gate_ask_meet(struct sg_gate_box *b, const char *to, uint32_t ticket, uint16_t port);

/* ---- box.c ---- */

struct sg_gate_box *sg_gate_box_find(struct sg_gate *g, const char *id, bool makes);
/* Takes the descriptors. */
int sg_gate_box_attach(struct sg_gate_box *b, struct sg_packet *p, struct sg_err *err);
void sg_gate_box_free(struct sg_gate_box *b);
int sg_gate_box_policy(struct sg_gate_box *b, const struct sg_msg_g_policy *m, struct sg_err *err);
const struct sg_policy *sg_gate_box_rules(const struct sg_gate_box *b); /* NULL: none */

/* Whether `a` is of the synthetic range; `ret_name`: what it is bound to, or NULL. */
bool sg_gate_box_name_of(const struct sg_gate_box *b, const struct sg_addr *a,
                         const char **ret_name);
struct sg_addr sg_gate_box_bind(struct sg_gate_box *b, const char *name);

/* How much may pass now, at most `wanted`; 0: later. */
size_t sg_gate_box_allow(struct sg_gate_box *b, size_t wanted);
void sg_gate_box_count(struct sg_gate_box *b, uint64_t out, uint64_t in);
bool sg_gate_box_is_spent(const struct sg_gate_box *b); /* max_bytes */

/* ---- dns.c, udp.c ---- */

struct sg_datagram {
    struct sg_addr from, to;
    uint16_t from_port, to_port;
    const uint8_t *p;
    size_t n;
    struct sg_flow *stream; /* a question that came by TCP; NULL: a datagram it is */
};
void sg_gate_dns(struct sg_gate_box *b, const struct sg_datagram *d);
void sg_gate_dns_forget(struct sg_gate_box *b);
void sg_gate_dns_hang_up(const struct sg_flow *f); /* nobody there to answer any more */
/* Whether a rule names the very server: then it is asked, and not we. */
bool sg_gate_asks_server(const struct sg_gate_box *b, const struct sg_addr *a, bool is_udp);

void sg_gate_udp_ready(struct sg_io *io, uint32_t events); /* of a box's `udp` */
/* A datagram into the sandbox, from whatever address. */
void sg_gate_udp_send(const struct sg_gate_box *b, const struct sg_datagram *d);
void sg_gate_udp_recheck(struct sg_gate_box *b); /* the policy has changed */
void sg_gate_udp_forget(struct sg_gate_box *b);

/* ---- flow.c ---- */

void sg_gate_flow_came(struct sg_acceptor *a, int fd);
void sg_gate_flow_recheck(struct sg_gate_box *b);
void sg_gate_flow_reroute(struct sg_gate_box *b); /* another proxy, or none: what goes out ends */
void sg_gate_flow_forget(struct sg_gate_box *b);

/* ---- meet.c ---- */

/* Whether the name is of a private network that it is on. */
bool sg_gate_is_private(const struct sg_gate_box *b, const char *name);
/* Who is called that there; NULL: `ret` says why nobody is. */
const struct sg_gate_box *sg_gate_member(const struct sg_gate_box *b, const char *name,
                                         struct sg_netverdict *ret);
void sg_gate_met(struct sg_gate *g, struct sg_packet *p);
/* Its policy or its sockets have changed, or it ends: who is with one that is no longer there is
 * parted from it. */
void sg_gate_meet_changed(struct sg_gate_box *b);
void sg_gate_meet_leave(struct sg_gate_box *b);

/* ---- own.c ---- */

/* Whether the address is one of this machine's own. */
bool sg_gate_is_own(struct sg_gate *g, const struct sg_addr *a);
