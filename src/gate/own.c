/* SPDX-License-Identifier: Apache-2.0 */
/* Is an address one of this machine's own? The kernel is asked by a datagram socket: one that is
 * connected has chosen its own address and sent nothing, and to an address of this machine it comes
 * from that same address. Answers are kept for a second: it costs four calls, on the way of every
 * connection. */
#include <sys/socket.h>

#include "base/auto.h"
#include "base/hash.h"
#include "gate/gate.h"
#include "base/banned.h"

static const uint64_t KEPT_NS = 1000000000;

static bool ask_kernel(const struct sg_addr *a)
{
    struct sockaddr_storage to, from = { 0 };
    socklen_t n = sg_addr_to_sock(a, 9, &to), m = sizeof from;
    struct sg_addr source;
    uint16_t port;
    sg_auto_fd fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true; /* who cannot look does not dial */
    if (connect(fd, (struct sockaddr *)&to, n) < 0)
        return false; /* there is no way there at all */
    return getsockname(fd, (struct sockaddr *)&from, &m) < 0 ||
           !sg_addr_of_sock(&from, &source, &port) || sg_addr_is_same(&source, a);
}

bool sg_gate_is_own(struct sg_gate *g, const struct sg_addr *a)
{
    const uint64_t now = sg_loop_now(g->loop);
    struct sg_own *o = &g->own[sg_hash_add(SG_HASH_START, a->b, sizeof a->b) % SG_GATE_OWN];
    if (o->until_ns <= now || !sg_addr_is_same(&o->addr, a))
        *o = (struct sg_own) { *a, ask_kernel(a), now + KEPT_NS };
    return o->is_own;
}
