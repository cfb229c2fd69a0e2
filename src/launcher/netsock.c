/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/netsock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "ctl/msg.h"
#include "base/banned.h"

enum { BACKLOG = 4096, LOOPBACK_INDEX = 1, UDP_BYTES = 1 << 20 };
enum { ADDS = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK };
#define OWN_ADDRESS 0xc6120002u /* 198.18.0.2: of the range that no name gets (gate/box.c) */

/* ---- routes and an address ---- */

struct request {
    struct nlmsghdr head;
    union {
        struct rtmsg route;
        struct ifaddrmsg address;
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
    const struct in_addr own = { htonl(OWN_ADDRESS) };
    add_attribute(&r, IFA_LOCAL, &own, sizeof own);
    return ask(nl, &r, "an address", err);
}

/* A kernel without IPv6 has no such sockets either: nothing can come that way. Nor where an Engine
 * has switched it off inside, which is told as EACCES. */
static int add_routes(struct sg_err *err)
{
    sg_auto_fd nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (nl < 0)
        return sg_fail_sys(err, "make a socket for routes");
    struct sg_err why = { 0 };
    if (add_address(nl, err) < 0 || add_route(nl, AF_INET, err) < 0)
        return -1;
    if (add_route(nl, AF_INET6, &why) < 0 && why.sys != EACCES) {
        *err = why;
        return -1;
    }
    return 0;
}

/* ---- sockets: IPv6 ones that take IPv4 as well ---- */

static int make_socket(int type, int *ret, struct sg_err *err)
{
    const struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
    const int off = 0;
    sg_auto_fd fd = socket(AF_INET6, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) < 0 ||
        bind(fd, (const struct sockaddr *)&any, sizeof any) < 0)
        return sg_fail_sys(err, "make a socket");
    *ret = sg_take_fd(&fd);
    return 0;
}

/* Options of the listener are those of what is accepted from it. */
static int make_tcp(int *ret, struct sg_err *err)
{
    const int on = 1;
    sg_auto_fd fd = -1;
    if (make_socket(SOCK_STREAM, &fd, err) < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) < 0 || listen(fd, BACKLOG) < 0)
        return sg_fail_sys(err, "listen");
    *ret = sg_take_fd(&fd);
    return 0;
}

static int make_udp(int *ret, struct sg_err *err)
{
    static const struct {
        int level, option;
    } wanted[] = { { IPPROTO_IPV6, IPV6_RECVORIGDSTADDR }, { IPPROTO_IP, IP_RECVORIGDSTADDR } };
    const int on = 1, bytes = UDP_BYTES;
    sg_auto_fd fd = -1;
    if (make_socket(SOCK_DGRAM, &fd, err) < 0)
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

/* ---- the program ---- */

static long bpf(int command, union bpf_attr *a)
{
    return syscall(SYS_bpf, command, a, sizeof *a);
}

static int fail_bpf(const char *what, struct sg_err *err)
{
    if (errno == EINVAL || errno == ENOSYS || errno == EPERM)
        return sg_fail(err, SG_UNSUPPORTED, "%s: this kernel does not permit it (sk_lookup)", what);
    return sg_fail_sys(err, "%s", what);
}

static int make_map(int tcp_fd, int udp_fd, struct sg_err *err)
{
    union bpf_attr a = { .map_type = BPF_MAP_TYPE_SOCKMAP,
                         .key_size = sizeof(uint32_t),
                         .value_size = sizeof(uint32_t),
                         .max_entries = 2 };
    sg_auto_fd map = (int)bpf(BPF_MAP_CREATE, &a);
    if (map < 0)
        return fail_bpf("make a map of sockets", err);
    const int fds[] = { tcp_fd, udp_fd };
    for (uint32_t i = 0; i < SG_COUNT(fds); i++) {
        union bpf_attr put = { .map_fd = (uint32_t)map,
                               .key = (uintptr_t)&i,
                               .value = (uintptr_t)&fds[i] };
        if (bpf(BPF_MAP_UPDATE_ELEM, &put) < 0)
            return fail_bpf("put a socket into its map", err);
    }
    return sg_take_fd(&map);
}

/* clang-format off */
#define INSN(c, d, s, o, i) { .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) }
#define LOAD(reg, field)    INSN(BPF_LDX | BPF_MEM | BPF_W, reg, 6, offsetof(struct bpf_sk_lookup, field), 0)
#define MOVE(to, from)      INSN(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0)
#define SET(reg, value)     INSN(BPF_ALU64 | BPF_MOV | BPF_K, reg, 0, 0, value)
#define OR(to, from)        INSN(BPF_ALU64 | BPF_OR | BPF_X, to, from, 0, 0)
#define IF(op, reg, value, over) INSN(BPF_JMP | (op) | BPF_K, reg, 0, over, value)
#define CALL(function)      INSN(BPF_JMP | BPF_CALL, 0, 0, 0, function)
#define EXIT()              INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)
/* clang-format on */

enum { AT_PASS = 35, AT_DROP = 37 }; /* places in the program below */

/* Pass what goes to the sandbox itself; lead TCP to entry 0 and the rest (UDP) to entry 1; drop
 * where there is no socket, or not one that fits. */
static int load_program(int map_fd, struct sg_err *err)
{
    const struct bpf_insn program[] = {
        /*  0 */ MOVE(6, 1),
        /*  1 */ LOAD(2, family),
        /*  2 */ IF(BPF_JNE, 2, AF_INET, 3),
        /*  3 */ LOAD(3, local_ip4),
        /*  4 */ INSN(BPF_ALU | BPF_AND | BPF_K, 3, 0, 0, 0xff), /* its first byte, as in memory */
        /*  5 */ IF(BPF_JEQ, 3, 127, AT_PASS - 6),
        /*  6 */ IF(BPF_JEQ, 2, AF_INET, 8),
        /*  7 */ LOAD(3, local_ip6[0]),
        /*  8 */ LOAD(4, local_ip6[1]),
        /*  9 */ OR(3, 4),
        /* 10 */ LOAD(4, local_ip6[2]),
        /* 11 */ OR(3, 4),
        /* 12 */ IF(BPF_JNE, 3, 0, 2),
        /* 13 */ LOAD(4, local_ip6[3]),
        /* 14 */ IF(BPF_JEQ, 4, (int32_t)htonl(1), AT_PASS - 15),
        /* 15 */ SET(7, 0),
        /* 16 */ LOAD(3, protocol),
        /* 17 */ IF(BPF_JEQ, 3, IPPROTO_TCP, 1),
        /* 18 */ SET(7, 1),
        /* 19 */ INSN(BPF_STX | BPF_MEM | BPF_W, 10, 7, -4, 0),
        /* 20 */ INSN(BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map_fd),
        /* 21 */ INSN(0, 0, 0, 0, 0),
        /* 22 */ MOVE(2, 10),
        /* 23 */ INSN(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4),
        /* 24 */ CALL(BPF_FUNC_map_lookup_elem),
        /* 25 */ IF(BPF_JEQ, 0, 0, AT_DROP - 26),
        /* 26 */ MOVE(7, 0),
        /* 27 */ MOVE(1, 6),
        /* 28 */ MOVE(2, 7),
        /* 29 */ SET(3, 0),
        /* 30 */ CALL(BPF_FUNC_sk_assign),
        /* 31 */ MOVE(8, 0),
        /* 32 */ MOVE(1, 7),
        /* 33 */ CALL(BPF_FUNC_sk_release),
        /* 34 */ IF(BPF_JNE, 8, 0, AT_DROP - 35),
        /* 35 */ SET(0, SK_PASS),
        /* 36 */ EXIT(),
        /* 37 */ SET(0, SK_DROP),
        /* 38 */ EXIT(),
    };
    union bpf_attr a = { .prog_type = BPF_PROG_TYPE_SK_LOOKUP,
                         .expected_attach_type = BPF_SK_LOOKUP,
                         .insn_cnt = SG_COUNT(program),
                         .insns = (uintptr_t)program,
                         .license = (uintptr_t) "Apache-2.0" };
    int fd = (int)bpf(BPF_PROG_LOAD, &a);
    return fd < 0 ? fail_bpf("load the program that leads connections to the gate", err) : fd;
}

static int make_link(int tcp_fd, int udp_fd, int *ret, struct sg_err *err)
{
    sg_auto_fd map = make_map(tcp_fd, udp_fd, err);
    sg_auto_fd program = map < 0 ? -1 : load_program(map, err);
    if (program < 0)
        return -1;
    sg_auto_fd net = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (net < 0)
        return sg_fail_sys(err, "open the sandbox's network namespace");
    union bpf_attr a = { .link_create = { .prog_fd = (uint32_t)program,
                                          .target_fd = (uint32_t)net,
                                          .attach_type = BPF_SK_LOOKUP } };
    *ret = (int)bpf(BPF_LINK_CREATE, &a);
    return *ret < 0 ? fail_bpf("attach the program", err) : 0;
}

/* ---- all of it ---- */

static int make_all(int *fds, struct sg_err *err)
{
    if (add_routes(err) < 0 || make_tcp(&fds[SG_G_TCP], err) < 0 ||
        make_udp(&fds[SG_G_UDP], err) < 0 || make_raw(AF_INET, &fds[SG_G_RAW4], err) < 0 ||
        make_raw(AF_INET6, &fds[SG_G_RAW6], err) < 0)
        return -1;
    return make_link(fds[SG_G_TCP], fds[SG_G_UDP], &fds[SG_G_LINK], err);
}

int sg_netsock_make(int own_net_fd, int pidfd, int *ret_fds, struct sg_err *err)
{
    int fds[SG_G_FD_COUNT];
    for (unsigned i = 0; i < SG_G_FD_COUNT; i++)
        fds[i] = -1;
    if (setns(pidfd, CLONE_NEWNET) < 0)
        return sg_fail_sys(err, "enter the sandbox's network namespace");
    int ret = make_all(fds, err);
    if (setns(own_net_fd, CLONE_NEWNET) < 0)
        abort(); /* whatever we did next, we would do in there */
    for (unsigned i = 0; i < SG_G_FD_COUNT; i++) {
        if (ret < 0)
            sg_close_p(&fds[i]);
        else
            ret_fds[i] = fds[i];
    }
    return ret;
}
