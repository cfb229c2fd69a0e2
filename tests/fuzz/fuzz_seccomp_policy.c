/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a policy file: refused with a reason, or compiled to a program that passes the
 * check and says what the policy says. */
#include <linux/audit.h>
#include <stdlib.h>

#include "seccomp_oracle.h"
#include "seccompc/compile.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static struct sg_bpf program;

static void judge_all(const struct sg_policy *policy)
{
    const struct sock_filter *insns;
    size_t count;
    if (sg_bpf_program(&program, &insns, &count, NULL) < 0)
        abort();
    struct seccomp_data data = { .arch = policy->arch };
    for (data.nr = 0; data.nr <= SG_POLICY_LAST_NUMBER; data.nr++)
        if (oracle_run(insns, count, &data) != oracle_judge(policy, &data))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sg_err err = { 0 };
    unsigned longest;
    sg_auto_policy policy = { 0 };
    struct sg_str text = { n ? (const char *)p : "", n };
    bool is_good = sg_policy_parse(text, AUDIT_ARCH_X86_64, &policy, &err) == 0;
    if (is_good && sg_policy_compile(&policy, &program, &longest, &err) == 0)
        judge_all(&policy);
    else if (err.kind != SG_INVALID && err.kind != SG_EXHAUSTED) /* SG_INTERNAL: did not check */
        abort();
    return 0;
}
