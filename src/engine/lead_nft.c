/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of nftables, as the netlink messages that they are:
 *
 *     table inet sandglass { flags owner
 *         chain in { type filter hook prerouting priority mangle; policy drop
 *             ip daddr 127.0.0.0/8 accept
 *             ip daddr 198.18.0.2 accept
 *             ip6 daddr ::1 accept
 *             meta l4proto tcp tproxy to :PORT accept
 *             meta l4proto udp tproxy to :PORT accept } }
 *
 * What a process sends to an address that is local by route comes back in by the loopback device,
 * and through `prerouting`. A table with an owner goes with the socket that made it (Linux 5.12).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/auto.h"
#include "base/buf.h"
#include "engine/lead.h"
#include "base/banned.h"

enum { BATCH_MAX = 4096, PRIORITY = -150, FOUR_TO = 16, SIX_TO = 24, PATIENCE_S = 5 };
enum { ADDS = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK };
static const char table[] = "sandglass", chain[] = "in";

struct batch {
    struct sg_buf b;
    size_t message; /* where the one that is written begins */
    unsigned count; /* of those that are answered */
};

/* ---- messages and attributes ---- */

static void pad(struct sg_buf *b)
{
    static const uint8_t zero[NLMSG_ALIGNTO] = { 0 };
    sg_buf_add(b, zero, NLMSG_ALIGN(b->n) - b->n);
}

static void begin(struct batch *t, uint16_t type, uint16_t flags, uint8_t family, uint16_t res_id)
{
    const struct nlmsghdr head = { .nlmsg_type = type,
                                   .nlmsg_flags = flags,
                                   .nlmsg_seq = t->count };
    const struct nfgenmsg general = { .nfgen_family = family, .res_id = htons(res_id) };
    t->message = t->b.n;
    sg_buf_add(&t->b, &head, sizeof head);
    sg_buf_add(&t->b, &general, sizeof general);
}

static void begin_nft(struct batch *t, uint16_t type, uint16_t flags)
{
    begin(t, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, NFPROTO_INET, 0);
    t->count++;
}

static void end(struct batch *t)
{
    pad(&t->b);
    const uint32_t n = (uint32_t)(t->b.n - t->message);
    if (t->b.n >= t->message + sizeof n)
        memcpy(t->b.p + t->message, &n, sizeof n); /* nlmsg_len is the first */
}

static void put(struct batch *t, uint16_t type, const void *p, size_t n)
{
    const struct nlattr a = { .nla_len = (uint16_t)(sizeof a + n), .nla_type = type };
    sg_buf_add(&t->b, &a, sizeof a);
    sg_buf_add(&t->b, p, n);
    pad(&t->b);
}

static void put_text(struct batch *t, uint16_t type, const char *text)
{
    put(t, type, text, strlen(text) + 1);
}

static void put_u32(struct batch *t, uint16_t type, uint32_t value)
{
    const uint32_t big = htonl(value);
    put(t, type, &big, sizeof big);
}

static size_t open_nest(struct batch *t, uint16_t type)
{
    const size_t at = t->b.n;
    put(t, NLA_F_NESTED | type, "", 0);
    return at;
}

static void close_nest(struct batch *t, size_t at)
{
    const uint16_t n = (uint16_t)(t->b.n - at);
    if (t->b.n >= at + sizeof n)
        memcpy(t->b.p + at, &n, sizeof n); /* nla_len is the first */
}

/* ---- expressions ---- */

static size_t open_expr(struct batch *t, const char *name, size_t *ret_data)
{
    const size_t at = open_nest(t, NFTA_LIST_ELEM);
    put_text(t, NFTA_EXPR_NAME, name);
    *ret_data = open_nest(t, NFTA_EXPR_DATA);
    return at;
}

static void close_expr(struct batch *t, size_t at, size_t data)
{
    close_nest(t, data);
    close_nest(t, at);
}

static void put_value(struct batch *t, uint16_t type, const void *p, size_t n)
{
    const size_t at = open_nest(t, type);
    put(t, NFTA_DATA_VALUE, p, n);
    close_nest(t, at);
}

static void load_meta(struct batch *t, uint32_t key)
{
    size_t data, at = open_expr(t, "meta", &data);
    put_u32(t, NFTA_META_KEY, key);
    put_u32(t, NFTA_META_DREG, NFT_REG_1);
    close_expr(t, at, data);
}

static void load_header(struct batch *t, uint32_t offset, uint32_t n)
{
    size_t data, at = open_expr(t, "payload", &data);
    put_u32(t, NFTA_PAYLOAD_DREG, NFT_REG_1);
    put_u32(t, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
    put_u32(t, NFTA_PAYLOAD_OFFSET, offset);
    put_u32(t, NFTA_PAYLOAD_LEN, n);
    close_expr(t, at, data);
}

static void must_be(struct batch *t, const void *p, size_t n)
{
    size_t data, at = open_expr(t, "cmp", &data);
    put_u32(t, NFTA_CMP_SREG, NFT_REG_1);
    put_u32(t, NFTA_CMP_OP, NFT_CMP_EQ);
    put_value(t, NFTA_CMP_DATA, p, n);
    close_expr(t, at, data);
}

static void set_register(struct batch *t, const void *p, size_t n)
{
    size_t data, at = open_expr(t, "immediate", &data);
    put_u32(t, NFTA_IMMEDIATE_DREG, NFT_REG_1);
    put_value(t, NFTA_IMMEDIATE_DATA, p, n);
    close_expr(t, at, data);
}

static void accept_it(struct batch *t)
{
    size_t data, at = open_expr(t, "immediate", &data);
    put_u32(t, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    const size_t value = open_nest(t, NFTA_IMMEDIATE_DATA);
    const size_t verdict = open_nest(t, NFTA_DATA_VERDICT);
    put_u32(t, NFTA_VERDICT_CODE, NF_ACCEPT);
    close_nest(t, verdict);
    close_nest(t, value);
    close_expr(t, at, data);
}

/* ---- rules ---- */

static size_t open_rule(struct batch *t)
{
    begin_nft(t, NFT_MSG_NEWRULE, ADDS | NLM_F_APPEND);
    put_text(t, NFTA_RULE_TABLE, table);
    put_text(t, NFTA_RULE_CHAIN, chain);
    return open_nest(t, NFTA_RULE_EXPRESSIONS);
}

static void close_rule(struct batch *t, size_t at)
{
    accept_it(t);
    close_nest(t, at);
    end(t);
}

/* What goes to an address that begins so is left alone. */
static void add_own(struct batch *t, uint8_t family, const void *p, size_t n)
{
    const size_t at = open_rule(t);
    load_meta(t, NFT_META_NFPROTO);
    must_be(t, &family, sizeof family);
    load_header(t, family == NFPROTO_IPV4 ? FOUR_TO : SIX_TO, (uint32_t)n);
    must_be(t, p, n);
    close_rule(t, at);
}

static void add_lead(struct batch *t, uint8_t protocol, uint16_t port)
{
    const uint16_t big = htons(port);
    const size_t at = open_rule(t);
    size_t data;
    load_meta(t, NFT_META_L4PROTO);
    must_be(t, &protocol, sizeof protocol);
    set_register(t, &big, sizeof big);
    const size_t expr = open_expr(t, "tproxy", &data);
    put_u32(t, NFTA_TPROXY_FAMILY, NFPROTO_UNSPEC);
    put_u32(t, NFTA_TPROXY_REG_PORT, NFT_REG_1);
    close_expr(t, expr, data);
    close_rule(t, at);
}

static void add_table(struct batch *t)
{
    begin_nft(t, NFT_MSG_NEWTABLE, ADDS);
    put_text(t, NFTA_TABLE_NAME, table);
    put_u32(t, NFTA_TABLE_FLAGS, NFT_TABLE_F_OWNER);
    end(t);
    begin_nft(t, NFT_MSG_NEWCHAIN, ADDS);
    put_text(t, NFTA_CHAIN_TABLE, table);
    put_text(t, NFTA_CHAIN_NAME, chain);
    const size_t hook = open_nest(t, NFTA_CHAIN_HOOK);
    put_u32(t, NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING);
    put_u32(t, NFTA_HOOK_PRIORITY, (uint32_t)PRIORITY);
    close_nest(t, hook);
    put_u32(t, NFTA_CHAIN_POLICY, NF_DROP);
    put_text(t, NFTA_CHAIN_TYPE, "filter");
    end(t);
}

static void fill(struct batch *t, uint16_t tcp, uint16_t udp)
{
    const uint8_t loopback = 127;
    const struct in_addr own = { htonl(SG_LEAD_OWN_ADDRESS) };
    begin(t, NFNL_MSG_BATCH_BEGIN, NLM_F_REQUEST, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    end(t);
    add_table(t);
    add_own(t, NFPROTO_IPV4, &loopback, sizeof loopback);
    add_own(t, NFPROTO_IPV4, &own, sizeof own);
    add_own(t, NFPROTO_IPV6, &in6addr_loopback, sizeof in6addr_loopback);
    add_lead(t, IPPROTO_TCP, tcp);
    add_lead(t, IPPROTO_UDP, udp);
    begin(t, NFNL_MSG_BATCH_END, NLM_F_REQUEST, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    end(t);
}

/* ---- all of it ---- */

static int fail_nft(int error, struct sg_err *err)
{
    static const int unsupported[] = { EPERM, EACCES, ENOENT, EOPNOTSUPP, EPROTONOSUPPORT, EINVAL };
    errno = error;
    for (size_t i = 0; i < SG_COUNT(unsupported); i++)
        if (error == unsupported[i])
            return sg_fail(err, SG_UNSUPPORTED,
                           "rules that lead connections to the gate: this kernel does not permit "
                           "them (nftables with tproxy, Linux 5.12): %s",
                           strerror(error));
    return sg_fail_sys(err, "add rules that lead connections to the gate");
}

/* Every message is answered; the first that is refused says why all of them were. */
static int await(int nl, unsigned count, struct sg_err *err)
{
    _Alignas(struct nlmsghdr) uint8_t in[8192];
    while (count > 0) {
        const ssize_t n = recv(nl, in, sizeof in, 0);
        if (n < 0)
            return sg_fail_sys(err, "read the answer of nftables");
        size_t left = (size_t)n;
        for (const struct nlmsghdr *h = (const void *)in; NLMSG_OK(h, left);
             h = NLMSG_NEXT(h, left)) {
            const struct nlmsgerr *e = NLMSG_DATA(h);
            if (h->nlmsg_type != NLMSG_ERROR)
                continue;
            if (e->error)
                return fail_nft(-e->error, err);
            count--;
        }
    }
    return 0;
}

static int port_of(int fd, uint16_t *ret, struct sg_err *err)
{
    struct sockaddr_in6 at = { 0 };
    socklen_t n = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &n) < 0)
        return sg_fail_sys(err, "ask for a socket's port");
    *ret = ntohs(at.sin6_port);
    return 0;
}

int sg_lead_nft(int tcp_fd, int udp_fd, struct sg_err *err)
{
    const struct timeval patience = { .tv_sec = PATIENCE_S };
    struct batch t = { 0 };
    uint16_t tcp, udp;
    if (port_of(tcp_fd, &tcp, err) < 0 || port_of(udp_fd, &udp, err) < 0)
        return -1;
    sg_auto_fd nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    if (nl < 0)
        return fail_nft(errno, err);
    sg_buf_init(&t.b, BATCH_MAX);
    fill(&t, tcp, udp);
    int got = sg_buf_check(&t.b, "rules", err);
    (void)setsockopt(nl, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (got == 0 && send(nl, t.b.p, t.b.n, 0) < 0)
        got = fail_nft(errno, err);
    if (got == 0)
        got = await(nl, t.count, err);
    sg_buf_done(&t.b);
    return got < 0 ? -1 : sg_take_fd(&nl);
}
