/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/netsock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "ctl/msg.h"
#include "base/banned.h"

enum { BACKLOG = 4096, LOOPBACK_INDEX = 1, UDP_BYTES = 1 << 20, PACKET_BYTES = 500 << 10 };
enum { GSO_IPV4_MAX_SIZE = 63 }; /* IFLA_GSO_IPV4_MAX_SIZE, since 6.3 */
enum { ADDS = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK };

/* ---- routes and an address ---- */

struct request {
    struct nlmsghdr head;
    union {
        struct rtmsg route;
        struct ifaddrmsg address;
        struct ifinfomsg link;
    };
    uint8_t attributes[64];
};

static void add_attribute(struct request *r, uint16_t type, const void *p, size_t n)
{
    struct rtattr *a = (struct rtattr *)(void *)((uint8_t *)r + NLMSG_ALIGN(r->head.nlmsg_len));
    a->rta_type = type;
    a->rta_len = (uint16_t)RTA_LENGTH(n);
    memcpy(RTA_DATA(a), p, n);
    r->head.nlmsg_len = (uint32_t)(NLMSG_ALIGN(r->head.nlmsg_len) + a->rta_len);
}

static int ask(int nl, const struct request *r, const char *what, struct sg_err *err)
{
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        uint8_t rest[256];
    } answer = { 0 };
    if (send(nl, r, r->head.nlmsg_len, 0) < 0 || recv(nl, &answer, sizeof answer, 0) < 0)
        return sg_fail_sys(err, "ask for %s", what);
    if (answer.head.nlmsg_type != NLMSG_ERROR || answer.error.error == 0)
        return 0;
    errno = -answer.error.error;
    return sg_fail_sys(err, "add %s", what);
}

/* local default dev lo: all addresses are ours, and what goes out comes from the loopback address.
 * Without that source a reply would be addressed to the foreign address, and led to us again. */
static int add_route(int nl, uint8_t family, struct sg_err *err)
{
    struct request r = { .head = { .nlmsg_len = NLMSG_LENGTH(sizeof r.route),
                                   .nlmsg_type = RTM_NEWROUTE,
                                   .nlmsg_flags = ADDS },
                         .route = { .rtm_family = family,
                                    .rtm_table = RT_TABLE_LOCAL,
                                    .rtm_type = RTN_LOCAL,
                                    .rtm_scope = RT_SCOPE_HOST,
                                    .rtm_protocol = RTPROT_STATIC } };
    const uint32_t device = LOOPBACK_INDEX;
    const struct in_addr four = { htonl(INADDR_LOOPBACK) };
    const bool is_four = family == AF_INET;
    add_attribute(&r, RTA_OIF, &device, sizeof device);
    add_attribute(&r, RTA_PREFSRC, is_four ? (const void *)&four : (const void *)&in6addr_loopback,
                  is_four ? sizeof four : sizeof in6addr_loopback);
    return ask(nl, &r, "a route", err);
}

/* An address that is not loopback's: resolvers that ask only for what the machine could use
 * (AI_ADDRCONFIG) would find that it can use nothing. IPv4, as what names are bound to. */
static int add_address(int nl, struct sg_err *err)
{
    struct request r = { .head = { .nlmsg_len = NLMSG_LENGTH(sizeof r.address),
                                   .nlmsg_type = RTM_NEWADDR,
                                   .nlmsg_flags = ADDS },
                         .address = { .ifa_family = AF_INET,
                                      .ifa_prefixlen = 32,
                                      .ifa_scope = RT_SCOPE_HOST,
                                      .ifa_index = LOOPBACK_INDEX } };
    const struct in_addr own = { htonl(SG_LEAD_OWN_ADDRESS) };
    add_attribute(&r, IFA_LOCAL, &own, sizeof own);
    return ask(nl, &r, "an address", err);
}

/* Between a sandbox and the gate packets may be as large as the kernel can have them: they never
 * leave the machine, and each costs its way through the stack. Older kernels keep theirs. */
static void enlarge_packets(int nl)
{
    struct request r = { .head = { .nlmsg_len = NLMSG_LENGTH(sizeof r.link),
                                   .nlmsg_type = RTM_NEWLINK,
                                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK },
                         .link = { .ifi_index = LOOPBACK_INDEX } };
    struct sg_err ignored;
    const uint32_t bytes = PACKET_BYTES;
    add_attribute(&r, IFLA_GSO_MAX_SIZE, &bytes, sizeof bytes);
    add_attribute(&r, GSO_IPV4_MAX_SIZE, &bytes, sizeof bytes);
    (void)ask(nl, &r, "larger packets", &ignored);
}

/* A kernel without IPv6 has no such sockets either: nothing can come that way. Nor where an Engine
 * has switched it off inside, which is told as EACCES. */
static int add_routes(struct sg_err *err)
{
    sg_auto_fd nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (nl < 0)
        return sg_fail_sys(err, "make a socket for routes");
    struct sg_err why = { 0 };
    enlarge_packets(nl);
    if (add_address(nl, err) < 0 || add_route(nl, AF_INET, err) < 0)
        return -1;
    if (add_route(nl, AF_INET6, &why) < 0 && why.sys != EACCES) {
        *err = why;
        return -1;
    }
    return 0;
}

/* ---- sockets: IPv6 ones that take IPv4 as well ---- */

/* Rules of nftables lead only to sockets that say they take what is for others. */
static int make_socket(int type, enum sg_lead how, int *ret, struct sg_err *err)
{
    const struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
    const int off = 0, on = 1;
    sg_auto_fd fd = socket(AF_INET6, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) < 0 ||
        (how == SG_LEAD_NFT &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, &on, sizeof on) < 0) ||
        bind(fd, (const struct sockaddr *)&any, sizeof any) < 0)
        return sg_fail_sys(err, "make a socket");
    *ret = sg_take_fd(&fd);
    return 0;
}

/* Options of the listener are those of what is accepted from it. */
static int make_tcp(enum sg_lead how, int *ret, struct sg_err *err)
{
    const int on = 1;
    sg_auto_fd fd = -1;
    if (make_socket(SOCK_STREAM, how, &fd, err) < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) < 0 || listen(fd, BACKLOG) < 0)
        return sg_fail_sys(err, "listen");
    *ret = sg_take_fd(&fd);
    return 0;
}

static int make_udp(enum sg_lead how, int *ret, struct sg_err *err)
{
    static const struct {
        int level, option;
    } wanted[] = { { IPPROTO_IPV6, IPV6_RECVORIGDSTADDR }, { IPPROTO_IP, IP_RECVORIGDSTADDR } };
    const int on = 1, bytes = UDP_BYTES;
    sg_auto_fd fd = -1;
    if (make_socket(SOCK_DGRAM, how, &fd, err) < 0)
        return -1;
    for (size_t i = 0; i < SG_COUNT(wanted); i++)
        if (setsockopt(fd, wanted[i].level, wanted[i].option, &on, sizeof on) < 0)
            return sg_fail_sys(err, "ask for destinations");
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    *ret = sg_take_fd(&fd);
    return 0;
}

static int make_raw(int family, int *ret, struct sg_err *err)
{
    *ret = socket(family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_RAW);
    if (*ret < 0)
        return sg_fail_sys(err, "make a raw socket");
    /* It only sends; what it would receive is nobody's. */
    (void)shutdown(*ret, SHUT_RD);
    return 0;
}

/* ---- all of it ---- */

static int lead(enum sg_lead how, const int *fds, struct sg_err *err)
{
    return (how == SG_LEAD_NFT ? sg_lead_nft : sg_lead_lookup)(fds[SG_G_TCP], fds[SG_G_UDP], err);
}

static int fill(enum sg_lead how, int *fds, struct sg_err *err)
{
    if (add_routes(err) < 0 || make_tcp(how, &fds[SG_G_TCP], err) < 0 ||
        make_udp(how, &fds[SG_G_UDP], err) < 0 || make_raw(AF_INET, &fds[SG_G_RAW4], err) < 0 ||
        make_raw(AF_INET6, &fds[SG_G_RAW6], err) < 0)
        return -1;
    fds[SG_G_LINK] = lead(how, fds, err);
    return fds[SG_G_LINK] < 0 ? -1 : 0;
}

int sg_netsock_make(enum sg_lead how, int *ret_fds, struct sg_err *err)
{
    int fds[SG_G_FD_COUNT];
    for (unsigned i = 0; i < SG_G_FD_COUNT; i++)
        fds[i] = -1;
    const int ret = fill(how, fds, err);
    for (unsigned i = 0; i < SG_G_FD_COUNT; i++) {
        if (ret < 0)
            sg_close_p(&fds[i]);
        else
            ret_fds[i] = fds[i];
    }
    return ret;
}

int sg_netsock_make_in(enum sg_lead how, int own_net_fd, int pidfd, int *ret_fds,
                       struct sg_err *err)
{
    if (setns(pidfd, CLONE_NEWNET) < 0)
        return sg_fail_sys(err, "enter the sandbox's network namespace");
    const int ret = sg_netsock_make(how, ret_fds, err);
    if (setns(own_net_fd, CLONE_NEWNET) < 0)
        abort(); /* whatever we did next, we would do in there */
    return ret;
}
