/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/lead.h"
#include "base/banned.h"

const char *const sg_lead_names[] = { "auto", "sk_lookup", "nft", NULL };

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

int sg_lead_lookup(int tcp_fd, int udp_fd, struct sg_err *err)
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
    const int link = (int)bpf(BPF_LINK_CREATE, &a);
    return link < 0 ? fail_bpf("attach the program", err) : link;
}
