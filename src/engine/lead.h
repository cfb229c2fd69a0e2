/* SPDX-License-Identifier: Apache-2.0 */
/* What comes to any address of the network namespace that the caller is in, led to two sockets of
 * ours, before any that the sandbox opens itself; 127.0.0.0/8 and ::1 stay the sandbox's. Where it
 * wanted to go is what the sockets are told (the local address of what is accepted, the original
 * destination of a datagram).
 *
 *     LOOKUP    a program at the lookup of sockets (sk_lookup). It needs root.
 *     NFT       rules of nftables (tproxy), which an ordinary user may make in a namespace of his
 *               own. The sockets must be transparent.
 *
 * L1. The descriptor that comes back is what keeps it there: when the last copy of it is closed,
 *     whoever held it and however that ended, nothing is led anywhere. */
#pragma once

#include "base/err.h"

enum sg_lead { SG_LEAD_AUTO, SG_LEAD_LOOKUP, SG_LEAD_NFT, SG_LEAD_COUNT };
extern const char *const sg_lead_names[SG_LEAD_COUNT + 1]; /* NULL at the end */

/* An address that is the namespace's own beside the loopback ones: 198.18.0.2, of the range that no
 * name gets (gate/box.c). */
#define SG_LEAD_OWN_ADDRESS 0xc6120002u

/* Returns owned. SG_UNSUPPORTED: this kernel does not permit it. */
int sg_lead_lookup(int tcp_fd, int udp_fd, struct sg_err *err);
int sg_lead_nft(int tcp_fd, int udp_fd, struct sg_err *err);
