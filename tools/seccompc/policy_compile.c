/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of the program:
 *
 *   load arch; not ours: kill       another ABI's numbers mean other calls
 *   load nr
 *   binary search over ranges       consecutive numbers with the same fate are one range
 *   argument checks, one block per call that has rules
 *   returns
 *
 * C1. The ranges cover all 2^32 numbers, the last is the default: x32 numbers and calls not yet
 *     invented end there without a test of their own.
 * C2. When a filter is installed the kernel runs it for every number it knows, and afterwards
 *     skips it for those that are allowed whatever the arguments. A search of log2(ranges) steps
 *     keeps the first cheap; nothing before an unconditional allow may look at arguments. */
#include "seccompc/compile.h"

#include <linux/seccomp.h>
#include <string.h>

#include "base/auto.h"

#include "base/banned.h"

struct range {
    uint32_t first;
    unsigned block;  /* label of the argument checks, or 0 */
    uint32_t action; /* without a block */
};

struct ranges {
    struct range *v;
    size_t n;
};

static size_t arg_offset(unsigned arg, bool is_high)
{
    const bool is_little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    return offsetof(struct seccomp_data, args) + 8 * (size_t)arg + (is_high == is_little ? 4 : 0);
}

/* Loads one masked half of an argument in front of the test that was emitted last. */
static unsigned emit_half(struct sg_bpf *b, unsigned arg, bool is_high, uint32_t mask)
{
    if (mask != UINT32_MAX)
        sg_bpf_and(b, mask);
    return sg_bpf_load(b, arg_offset(arg, is_high));
}

static unsigned emit_cond32(struct sg_bpf *b, const struct sg_policy_cond *c, unsigned yes,
                            unsigned no)
{
    unsigned next = no;
    for (size_t i = c->value_count; i-- > 0;)
        next = sg_bpf_jump(b, BPF_JEQ, (uint32_t)c->values[i], yes, next);
    return emit_half(b, c->arg, false, (uint32_t)c->mask);
}

static unsigned emit_cond64(struct sg_bpf *b, const struct sg_policy_cond *c, unsigned yes,
                            unsigned no)
{
    unsigned next = no;
    for (size_t i = c->value_count; i-- > 0;) {
        sg_bpf_jump(b, BPF_JEQ, (uint32_t)c->values[i], yes, next);
        unsigned low = emit_half(b, c->arg, false, (uint32_t)c->mask);
        sg_bpf_jump(b, BPF_JEQ, (uint32_t)(c->values[i] >> 32), low, next);
        next = emit_half(b, c->arg, true, (uint32_t)(c->mask >> 32));
    }
    return next;
}

static unsigned emit_cond(struct sg_bpf *b, const struct sg_policy_cond *c, unsigned yes,
                          unsigned no)
{
    if (c->is_negated) {
        unsigned keep = yes;
        yes = no;
        no = keep;
    }
    bool is_wide = c->bits == 64 && c->mask > UINT32_MAX;
    return is_wide ? emit_cond64(b, c, yes, no) : emit_cond32(b, c, yes, no);
}

/* Back to front: a rule that does not match goes on to the one behind it. */
static unsigned emit_call(struct sg_bpf *b, const struct sg_policy_call *call)
{
    unsigned next = sg_bpf_ret(b, call->action);
    for (size_t r = call->rule_count; r-- > 0;) {
        const struct sg_policy_rule *rule = &call->rules[r];
        unsigned yes = sg_bpf_ret(b, rule->action);
        for (size_t c = rule->cond_count; c-- > 0;)
            yes = emit_cond(b, &rule->conds[c], yes, next);
        next = yes;
    }
    return next;
}

static int by_number(const void *a, const void *b)
{
    const struct sg_policy_call *const *x = a, *const *y = b;
    return ((*x)->number > (*y)->number) - ((*x)->number < (*y)->number);
}

static void push(struct ranges *r, struct range next)
{
    const struct range *last = r->n ? &r->v[r->n - 1] : NULL;
    if (!last || last->block || next.block || last->action != next.action)
        r->v[r->n++] = next;
}

static void fill_ranges(struct sg_bpf *b, const struct sg_policy *p,
                        const struct sg_policy_call **sorted, size_t count, struct ranges *r)
{
    uint32_t next = 0;
    for (size_t i = 0; i < count; i++) {
        const struct sg_policy_call *call = sorted[i];
        uint32_t number = (uint32_t)call->number;
        if (number > next)
            push(r, (struct range) { next, 0, p->default_action });
        push(r, (struct range) { number, call->rule_count ? emit_call(b, call) : 0, call->action });
        next = number + 1;
    }
    push(r, (struct range) { next, 0, p->default_action });
}

/* Returns are asked for at the leaves, next to the jumps that use them: one that was made earlier
 * may be out of reach by now, and a copy would leave it without a user. */
static unsigned emit_search(struct sg_bpf *b, const struct range *v, size_t n)
{
    if (n == 1)
        return v->block ? v->block : sg_bpf_ret(b, v->action);
    size_t half = n / 2;
    unsigned above = emit_search(b, v + half, n - half);
    unsigned below = emit_search(b, v, half);
    return sg_bpf_jump(b, BPF_JGE, v[half].first, above, below);
}

int sg_policy_compile(const struct sg_policy *p, struct sg_bpf *b, unsigned *ret_longest,
                      struct sg_err *err)
{
    sg_auto_free const struct sg_policy_call **sorted = sg_alloc(p->call_count * sizeof *sorted);
    sg_auto_free struct range *v = sg_alloc((2 * p->call_count + 1) * sizeof *v);
    struct ranges ranges = { .v = v };
    size_t count = 0;
    for (size_t i = 0; i < p->call_count; i++)
        if (p->calls[i].number >= 0)
            sorted[count++] = &p->calls[i];
    if (count)
        qsort(sorted, count, sizeof *sorted, by_number);

    b->count = 0;
    b->has_overflowed = false;
    fill_ranges(b, p, sorted, count, &ranges);
    emit_search(b, ranges.v, ranges.n); /* its root is the newest instruction: loads fall into it */
    unsigned ours = sg_bpf_load(b, offsetof(struct seccomp_data, nr));
    sg_bpf_jump(b, BPF_JEQ, p->arch, ours, sg_bpf_ret(b, SECCOMP_RET_KILL_PROCESS));
    sg_bpf_load(b, offsetof(struct seccomp_data, arch));

    const struct sock_filter *insns;
    size_t total;
    if (sg_bpf_program(b, &insns, &total, err) < 0)
        return -1;
    return sg_bpf_check(insns, total, ret_longest, err);
}
