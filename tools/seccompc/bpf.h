/* SPDX-License-Identifier: Apache-2.0 */
/* Classic BPF programs, as the kernel's seccomp takes them: written back to front, then checked.
 *
 * B1. Jumps only go forward, so a program is emitted from its end: every target exists, and its
 *     distance is known, when the jump to it is written.
 * B2. A label is an instruction's place counted from the end; it never changes.
 * B3. A conditional jump reaches 255 instructions. What lies further is reached through a copy of
 *     the return, or through a plain jump, placed right behind it; callers need not care. */
#pragma once

#include <linux/bpf_common.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { SG_BPF_MAX = 4096 }; /* BPF_MAXINSNS */

struct sg_bpf {
    struct sock_filter insns[SG_BPF_MAX]; /* the last `count` are in use */
    unsigned count;
    bool has_overflowed; /* later emits change nothing; sg_bpf_program() reports it */
};

/* Each returns the label of the new instruction. Loads and masks fall through to the instruction
 * emitted just before. */
unsigned sg_bpf_ret(struct sg_bpf *b, uint32_t action); /* may find an equal return instead */
unsigned sg_bpf_load(struct sg_bpf *b, size_t offset);
unsigned sg_bpf_and(struct sg_bpf *b, uint32_t mask);
unsigned sg_bpf_jump(struct sg_bpf *b, unsigned test, uint32_t k, unsigned yes, unsigned no);

/* The finished program, borrowed from b. SG_EXHAUSTED when it did not fit. */
int sg_bpf_program(const struct sg_bpf *b, const struct sock_filter **ret_insns, size_t *ret_count,
                   struct sg_err *err);

/* Checks a program from nothing but its instructions: known opcodes, loads inside seccomp_data,
 * all jumps forward and in range, no way past the end, no instruction that cannot be reached.
 * *ret_longest is the most instructions that one call can execute. */
int sg_bpf_check(const struct sock_filter *insns, size_t count, unsigned *ret_longest,
                 struct sg_err *err);
