/* SPDX-License-Identifier: Apache-2.0 */
#include "seccompc/bpf.h"

#include "base/banned.h"

enum { REACH = 255 }; /* of the 8-bit offsets in a conditional jump */

static unsigned emit(struct sg_bpf *b, unsigned code, unsigned yes, unsigned no, uint32_t k)
{
    if (b->count == SG_BPF_MAX) {
        b->has_overflowed = true;
        return b->count;
    }
    b->count++;
    b->insns[SG_BPF_MAX - b->count] = (struct sock_filter) {
        .code = (uint16_t)code,
        .jt = (uint8_t)yes,
        .jf = (uint8_t)no,
        .k = k,
    };
    return b->count;
}

static const struct sock_filter *at(const struct sg_bpf *b, unsigned label)
{
    return &b->insns[SG_BPF_MAX - label];
}

unsigned sg_bpf_ret(struct sg_bpf *b, uint32_t action)
{
    for (unsigned label = b->count; label > 0; label--) /* the nearest one first */
        if (at(b, label)->code == (BPF_RET | BPF_K) && at(b, label)->k == action)
            return label;
    return emit(b, BPF_RET | BPF_K, 0, 0, action);
}

unsigned sg_bpf_load(struct sg_bpf *b, size_t offset)
{
    return emit(b, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

unsigned sg_bpf_and(struct sg_bpf *b, uint32_t mask)
{
    return emit(b, BPF_ALU | BPF_AND | BPF_K, 0, 0, mask);
}

/* A label with target's effect that the next instruction can reach, even when `extra` more come
 * in between. */
static unsigned near(struct sg_bpf *b, unsigned target, unsigned extra)
{
    unsigned distance = b->count - target;
    if (distance + extra <= REACH)
        return target;
    const struct sock_filter *insn = at(b, target);
    if (BPF_CLASS(insn->code) == BPF_RET)
        return emit(b, insn->code, 0, 0, insn->k);
    return emit(b, BPF_JMP | BPF_JA, 0, 0, distance);
}

unsigned sg_bpf_jump(struct sg_bpf *b, unsigned test, uint32_t k, unsigned yes, unsigned no)
{
    yes = near(b, yes, 1);
    no = near(b, no, 0);
    return emit(b, BPF_JMP | test | BPF_K, b->count - yes, b->count - no, k);
}

int sg_bpf_program(const struct sg_bpf *b, const struct sock_filter **ret_insns, size_t *ret_count,
                   struct sg_err *err)
{
    if (b->has_overflowed)
        return sg_fail(err, SG_EXHAUSTED, "the program is over %d instructions", SG_BPF_MAX);
    *ret_insns = at(b, b->count);
    *ret_count = b->count;
    return 0;
}
