/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox may reach: the same judgement for the gate, which enforces it, and for the
 * manager, which explains it.
 *
 * P1. What no rule allows is refused; without a policy everything is.
 * P2. Addresses that are not public (addr.h) are refused whatever the rules say, unless the
 *     service's own settings name them.
 * P3. A rule that denies beats one that allows; with `allow_first` it is the other way round.
 * P4. Policies lie above each other: what an organisation or a template does not allow, nothing
 *     below it can. The first that refuses, from above, is what decided.
 * P5. A name is judged before it is looked up, and again with the address that it led to.
 * P6. A name of a private network that the sandbox is on (private.h) is allowed by that, in every
 *     mode, by TCP; rules that deny it and what lies above count all the same. */
#pragma once

#include "net/egress.h"
#include "net/private.h"
#include "net/rule.h"

enum sg_net_mode { SG_MODE_NONE, SG_MODE_FILTERED, SG_MODE_OPEN, SG_MODE_COUNT };
enum { SG_POLICY_RULES = 256, SG_POLICY_MBPS_MAX = 100000 };

struct sg_netrules {
    struct sg_netrule *v; /* owned */
    size_t n;
};

struct sg_policy {
    enum sg_net_mode mode;
    bool learns;      /* what no rule allows is let through, and told */
    bool allow_first; /* P3 */
    /* 0: no limit */
    uint64_t mbps, max_bytes, max_connections, connections_per_s;
    struct sg_netrules allow, deny;
    struct sg_netnames networks;
    struct sg_egress egress;       /* of the sandbox's own only */
    const struct sg_policy *above; /* borrows; NULL: none (P4) */
    const char *layer;             /* static: whose it is, in words; NULL: the sandbox's own */
};

const char *sg_net_mode_name(enum sg_net_mode m);
int sg_net_mode_parse(const char *text, enum sg_net_mode *ret,
                      struct sg_err *err); /* aliases too */

/* One more rule. SG_INVALID, SG_EXHAUSTED past SG_POLICY_RULES. */
int sg_netrules_add(struct sg_netrules *r, struct sg_str text, struct sg_err *err);
void sg_policy_done(struct sg_policy *p);
/* Whether anything at all can be reached: else there is nothing for a gate to do. */
bool sg_policy_has_way(const struct sg_policy *p);
/* Contradictions: rules that could never count. */
int sg_policy_check(const struct sg_policy *p, struct sg_err *err);

/* Networks that are reached although they are not public, from the service's settings. */
struct sg_nets {
    struct sg_cidr *v; /* owned */
    size_t n;
};
int sg_nets_add(struct sg_nets *n, struct sg_str text, struct sg_err *err);
void sg_nets_done(struct sg_nets *n);
bool sg_nets_has(const struct sg_nets *n, const struct sg_addr *a);

struct sg_netverdict {
    bool is_allowed, is_learned;
    bool is_by_name;                 /* a rule allows it that is about names */
    char rule[SG_NETRULE_TEXT + 32]; /* what decided: "allow x", "deny y", "mode none" ... */
};
/* `p` NULL: there is none. */
void sg_policy_judge(const struct sg_policy *p, const struct sg_nets *permitted,
                     const struct sg_target *t, struct sg_netverdict *ret);
/* May its connections go through the proxy that is there? The sandbox's own rules are about where
 * they end; but nobody may send them where what lies above does not let them go (P2, P4). */
void sg_policy_judge_egress(const struct sg_policy *p, const struct sg_nets *permitted,
                            const struct sg_target *t, struct sg_netverdict *ret);
/* Does a rule deny this name, wherever it leads? For names on the way: aliases, SNI, Host. */
bool sg_policy_denies_name(const struct sg_policy *p, const char *name, struct sg_netverdict *ret);
/* Does a rule name this address with its port? For servers that are asked for names: others than
 * the gate only where somebody meant it. */
bool sg_policy_names_server(const struct sg_policy *p, const struct sg_target *t);
/* Whether only what a rule allows is, by any of them. */
bool sg_policy_is_filtered(const struct sg_policy *p);
/* The least of a limit of all of them; 0: none. */
uint64_t sg_policy_limit(const struct sg_policy *p, size_t offset);
/* Does it depend on names that a connection itself mentions? */
bool sg_policy_minds_names(const struct sg_policy *p);
