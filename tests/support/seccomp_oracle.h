/* SPDX-License-Identifier: Apache-2.0 */
/* Two independent answers to "what happens to this system call": the compiled program, run one
 * instruction after the other, and the policy, read the slow and obvious way. */
#pragma once

#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "seccompc/bpf.h"
#include "seccompc/policy.h"

/* A classic BPF machine of just the instructions that seccompc may emit. Anything else, and any
 * step outside of the program, is a bug that ends the test at once. */
static inline uint32_t oracle_run(const struct sock_filter *insns, size_t count,
                                  const struct seccomp_data *data)
{
    uint32_t a = 0;
    for (size_t at = 0; at < count; at++) {
        const struct sock_filter *i = &insns[at];
        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (i->k > sizeof *data - sizeof a)
                abort();
            memcpy(&a, (const char *)data + i->k, sizeof a);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= i->k;
            break;
        case BPF_JMP | BPF_JA:
            at += i->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            at += a == i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            at += a >= i->k ? i->jt : i->jf;
            break;
        case BPF_RET | BPF_K:
            return i->k;
        default:
            abort();
        }
    }
    abort();
}

static inline bool oracle_holds(const struct sg_policy_cond *c, const struct seccomp_data *data)
{
    uint64_t arg = data->args[c->arg];
    if (c->bits == 32)
        arg = (uint32_t)arg;
    bool is_found = false;
    for (size_t i = 0; i < c->value_count; i++)
        is_found = is_found || (arg & c->mask) == c->values[i];
    return is_found != c->is_negated;
}

static inline uint32_t oracle_judge(const struct sg_policy *p, const struct seccomp_data *data)
{
    if (data->arch != p->arch)
        return SECCOMP_RET_KILL_PROCESS;
    for (size_t i = 0; i < p->call_count; i++) {
        const struct sg_policy_call *call = &p->calls[i];
        if (call->number < 0 || call->number != data->nr)
            continue;
        for (size_t r = 0; r < call->rule_count; r++) {
            bool holds = true;
            for (size_t c = 0; c < call->rules[r].cond_count; c++)
                holds = holds && oracle_holds(&call->rules[r].conds[c], data);
            if (holds)
                return call->rules[r].action;
        }
        return call->action;
    }
    return p->default_action;
}
