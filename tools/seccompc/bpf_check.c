/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler's own referee: shares nothing with the emitter, so a slip there is found here. The
 * kernel would refuse a broken program too, but only on the user's machine. */
#include <linux/seccomp.h>

#include "base/auto.h"
#include "seccompc/bpf.h"

#include "base/banned.h"

static bool is_jump(uint16_t code)
{
    return BPF_CLASS(code) == BPF_JMP && BPF_OP(code) != BPF_JA;
}

static int check_one(const struct sock_filter *insn, struct sg_err *err)
{
    switch (insn->code) {
    case BPF_LD | BPF_W | BPF_ABS:
        if (insn->k % 4 || insn->k > sizeof(struct seccomp_data) - 4)
            return sg_fail(err, SG_INTERNAL, "load from offset %u", insn->k);
        return 0;
    case BPF_RET | BPF_K:
    case BPF_ALU | BPF_AND | BPF_K:
    case BPF_JMP | BPF_JA:
    case BPF_JMP | BPF_JEQ | BPF_K:
    case BPF_JMP | BPF_JGE | BPF_K:
        return 0;
    default:
        return sg_fail(err, SG_INTERNAL, "unexpected opcode 0x%04x", insn->code);
    }
}

/* Steps that instruction i can continue with, as distances; 0 of them after a return. */
static size_t successors(const struct sock_filter *insn, uint64_t ret_steps[2])
{
    if (BPF_CLASS(insn->code) == BPF_RET)
        return 0;
    ret_steps[0] = 1;
    if (is_jump(insn->code)) {
        ret_steps[0] = 1u + insn->jt;
        ret_steps[1] = 1u + insn->jf;
        return 2;
    }
    if (BPF_CLASS(insn->code) == BPF_JMP)
        ret_steps[0] = 1 + (uint64_t)insn->k;
    return 1;
}

int sg_bpf_check(const struct sock_filter *insns, size_t count, unsigned *ret_longest,
                 struct sg_err *err)
{
    if (count == 0 || count > SG_BPF_MAX)
        return sg_fail(err, SG_INTERNAL, "a program of %zu instructions", count);
    /* Executed instructions up to and with i, on the longest way; 0 means not reached. All jumps
     * go forward, so one pass in order sees every predecessor first. */
    sg_auto_free unsigned *depth = sg_alloc(count * sizeof *depth);
    unsigned longest = 0;
    depth[0] = 1;
    for (size_t i = 0; i < count; i++) {
        if (!depth[i])
            return sg_fail(err, SG_INTERNAL, "instruction %zu is never reached", i);
        if (check_one(&insns[i], err) < 0)
            return sg_wrap(err, "instruction %zu", i);
        uint64_t steps[2];
        size_t ways = successors(&insns[i], steps);
        for (size_t w = 0; w < ways; w++) {
            if (steps[w] >= count - i)
                return sg_fail(err, SG_INTERNAL, "instruction %zu leads past the end", i);
            unsigned *next = &depth[i + steps[w]];
            *next = *next > depth[i] + 1 ? *next : depth[i] + 1;
        }
        longest = longest > depth[i] ? longest : depth[i];
    }
    *ret_longest = longest;
    return 0;
}
