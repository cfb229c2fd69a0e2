/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a sandbox: its policy, the gate that enforces it, and the record of what the gate
 * decided.
 *
 * A policy is the name of a mode, or a JSON object in which everything may be left out:
 *
 *     {"mode":"filtered","allow":["pypi.org:443","*.pythonhosted.org:443"],"deny":["10.0.0.0/8"],
 *      "networks":["team"],"name":"db","learn":false,"mbps":50,"maxBytes":1e9,
 *      "maxConnections":200,"connectionsPerSecond":20,
 *      "egressProxy":{"address":"proxy.example.com:1080","username":"u","password":"p"}}
 *
 * X1. The row says what is to be before the gate is told; a gate that is not there is told when it
 *     is, and refuses everything until then.
 * X2. Neither daemon nor gate keeps a policy that the other does not have: a new gate is told all
 *     of them, a new daemon tells them all again. */
#pragma once

#include "ctl/msg.h"
#include "manager/manager.h"
#include "net/policy.h"

struct sg_jval;
struct sg_json;

/* As a row has it. SG_INVALID names what is wrong. `ret` is the caller's to end. */
int sg_net_read(const struct sg_jval *v, struct sg_policy *ret, struct sg_err *err);
/* As a door has it: a password in it is sealed here, and is the caller's to overwrite then. */
int sg_net_ask(struct sg_manager *m, const struct sg_who *who, const struct sg_jval *v,
               struct sg_policy *ret, struct sg_err *err);
void sg_net_put(struct sg_json *j, const struct sg_policy *p);     /* the object, to show */
void sg_net_put_row(struct sg_json *j, const struct sg_policy *p); /* to keep: with the box */
void sg_net_copy(struct sg_policy *to, const struct sg_policy *from);

/* ---- net_proxy.c, net_egress.c: a proxy ---- */

struct sg_egress_spec {
    const char *address, *user, *password; /* borrowed; NULL: none */
};
/* `ret` is the caller's to end. SG_INVALID; SG_UNSUPPORTED where there is no gate. */
int sg_net_egress(struct sg_manager *m, const struct sg_who *who, const struct sg_egress_spec *spec,
                  struct sg_egress *ret, struct sg_err *err);
int sg_net_egress_ask(struct sg_manager *m, const struct sg_who *who, const struct sg_jval *v,
                      struct sg_egress *ret, struct sg_err *err);
int sg_net_egress_load(const struct sg_jval *v, struct sg_egress *ret, struct sg_err *err);
void sg_net_egress_put(struct sg_json *j, const struct sg_egress *e, bool is_row);

/* ---- net_layer.c: what lies above ---- */

/* NULL: there is none (any more). */
typedef void sg_netlayer_cb(void *arg, const struct sg_policy *p, const struct sg_err *err);
/* SG_DENIED unless it is the operator. `p` NULL: none any more. Copies. The gate has been told by
 * the time of the callback. */
int sg_manager_set_netlayer(struct sg_manager *m, const struct sg_who *who, enum sg_net_layer kind,
                            const char *name, const struct sg_policy *p, sg_netlayer_cb *cb,
                            void *arg, struct sg_err *err);
const struct sg_policy *sg_netlayer_find(const struct sg_manager *m, enum sg_net_layer kind,
                                         const char *name);

/* ---- net.c ---- */

/* Whether sandboxes can have a network on this host at all. */
bool sg_manager_has_gate(const struct sg_manager *m);

/* From then on. Copies. */
int sg_manager_set_network(struct sg_sandbox *s, const struct sg_who *who,
                           const struct sg_policy *p, sg_sandbox_cb *cb, void *arg,
                           struct sg_err *err);

/* What would be decided about "host:port" (or "udp:host:port"). */
int sg_manager_net_explain(struct sg_sandbox *s, const struct sg_who *who, const char *to,
                           struct sg_netverdict *ret, struct sg_err *err);

/* What was decided, oldest first, after `after_seq`; the last `limit` of them where that is 0. */
struct sg_connection_row;
int sg_manager_connections(struct sg_sandbox *s, const struct sg_who *who, int64_t after_seq,
                           unsigned limit,
                           bool (*row)(void *arg, const struct sg_connection_row *r), void *arg,
                           struct sg_err *err);
/* The rules that would have sufficed for what was let through and recorded. */
int sg_manager_net_learned(struct sg_sandbox *s, const struct sg_who *who, struct sg_policy *ret,
                           struct sg_err *err);
