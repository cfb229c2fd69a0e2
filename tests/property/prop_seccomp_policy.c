/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled program and the policy that it came from give the same verdict, for every system
 * call number and all kinds of arguments: with the real policy on both architectures,
 * and with random policies large enough to need jumps further than a conditional one reaches. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>

#include "base/auto.h"
#include "base/buf.h"
#include "check.h"
#include "random.h"
#include "seccomp_oracle.h"
#include "seccompc/compile.h"
#include "base/banned.h"

enum { LAST_NUMBER = 600, ARGS_PER_CALL = 300, X32_BIT = 0x40000000, POLICIES = 300 };

static const uint32_t arches[] = { AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64, AUDIT_ARCH_I386,
                                   AUDIT_ARCH_ARM, 0 };
static struct sg_bpf program;

static const struct sg_policy_call *find_call(const struct sg_policy *p, int number)
{
    for (size_t i = 0; i < p->call_count; i++)
        if (p->calls[i].number == number)
            return &p->calls[i];
    return NULL;
}

/* Aimed at the call's own conditions half of the time: a value that one of them names, sometimes
 * with a bit flipped, sometimes with something in the upper half. */
static uint64_t random_arg(struct rng *rng, const struct sg_policy_call *call, unsigned arg)
{
    uint64_t v = rng_magnitude(rng);
    if (!call || !call->rule_count || rng_below(rng, 4) == 0)
        return v;
    const struct sg_policy_rule *rule = &call->rules[rng_below(rng, call->rule_count)];
    const struct sg_policy_cond *c = &rule->conds[rng_below(rng, rule->cond_count)];
    if (c->arg != arg)
        return v;
    uint64_t noise = rng_below(rng, 3) ? 0 : rng_next(rng) & ~c->mask;
    uint64_t high = rng_below(rng, 4) ? 0 : rng_next(rng) << 32;
    uint64_t flip = rng_below(rng, 4) ? 0 : 1ULL << rng_below(rng, 64);
    return ((c->values[rng_below(rng, c->value_count)] | noise) ^ flip) | high;
}

static void compare(const struct sg_policy *p, const struct seccomp_data *data)
{
    const struct sock_filter *insns;
    size_t count;
    struct sg_err err = { 0 };
    assert_ok(sg_bpf_program(&program, &insns, &count, &err), err);
    uint32_t got = oracle_run(insns, count, data), want = oracle_judge(p, data);
    if (got != want)
        fail_msg("arch %x call %d (%llx, %llx, %llx): program 0x%x, policy 0x%x", data->arch,
                 data->nr, data->args[0], data->args[1], data->args[2], got, want);
}

static void compare_number(const struct sg_policy *p, struct rng *rng, int number, int rounds)
{
    const struct sg_policy_call *call = find_call(p, number);
    for (int i = 0; i < rounds; i++) {
        struct seccomp_data data = { .nr = number, .arch = p->arch };
        if (rng_below(rng, 16) == 0)
            data.arch = arches[rng_below(rng, SG_COUNT(arches))];
        for (unsigned arg = 0; arg < SG_POLICY_ARGS; arg++)
            data.args[arg] = random_arg(rng, call, arg);
        compare(p, &data);
    }
}

static void compare_all_numbers(const struct sg_policy *p, struct rng *rng, int rounds)
{
    for (int number = 0; number <= LAST_NUMBER; number++) {
        compare_number(p, rng, number, rounds);
        compare_number(p, rng, number | X32_BIT, 1);
    }
    static const int odd[] = { SG_POLICY_LAST_NUMBER, INT32_MAX, INT32_MIN, -1 };
    for (size_t i = 0; i < SG_COUNT(odd); i++)
        compare_number(p, rng, odd[i], rounds);
}

static void the_cell_program_says_what_the_policy_says(void **state)
{
    (void)state;
    struct rng rng = rng_start(__func__);
    sg_auto_buf text;
    sg_buf_init(&text, SG_POLICY_MAX_BYTES);
    struct sg_err err = { 0 };
    const char *dir = getenv("SANDGLASS_POLICY");
    sg_auto_free char *path = sg_printf("%s/cell.json", dir ? dir : "policy");
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail_msg("open %s: %s", path, strerror(errno));
    assert_ok(sg_buf_read_fd(&text, fd, path, &err), err);
    for (size_t i = 0; i < 2; i++) {
        sg_auto_policy p = { 0 };
        unsigned longest;
        struct sg_str view = { sg_buf_cstr(&text), text.n };
        assert_ok(sg_policy_parse(view, arches[i], &p, &err), err);
        assert_ok(sg_policy_compile(&p, &program, &longest, &err), err);
        compare_all_numbers(&p, &rng, ARGS_PER_CALL);
    }
}

static uint32_t random_action(struct rng *rng)
{
    static const uint32_t actions[] = { SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS,
                                        SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ERRNO | ENOSYS };
    return actions[rng_below(rng, SG_COUNT(actions))];
}

static void random_cond(struct rng *rng, struct sg_policy_cond *c)
{
    c->arg = (unsigned)rng_below(rng, SG_POLICY_ARGS);
    c->bits = rng_below(rng, 2) ? 32 : 64;
    c->is_negated = rng_below(rng, 2);
    c->mask = rng_below(rng, 2) ? UINT64_MAX : rng_magnitude(rng) | 1;
    if (c->bits == 32)
        c->mask = (uint32_t)c->mask;
    c->value_count = 1 + rng_below(rng, rng_below(rng, 8) ? 3 : SG_POLICY_MAX_VALUES);
    for (size_t i = 0; i < c->value_count; i++)
        c->values[i] = rng_magnitude(rng) & c->mask;
}

static void random_rules(struct rng *rng, struct sg_policy_call *call)
{
    call->rule_count = 1 + rng_below(rng, rng_below(rng, 8) ? 3 : SG_POLICY_MAX_RULES);
    call->rules = sg_alloc(call->rule_count * sizeof *call->rules);
    for (size_t r = 0; r < call->rule_count; r++) {
        struct sg_policy_rule *rule = &call->rules[r];
        rule->action = random_action(rng);
        rule->cond_count = 1 + rng_below(rng, SG_POLICY_MAX_CONDS);
        for (size_t c = 0; c < rule->cond_count; c++)
            random_cond(rng, &rule->conds[c]);
    }
}

/* Few calls or nearly all of them, a few or many with rules: ranges of every width. */
static void random_policy(struct rng *rng, struct sg_policy *p)
{
    uint64_t density = 1 + rng_below(rng, 16), checks = 1 + rng_below(rng, 60);
    *p = (struct sg_policy) { .arch = arches[rng_below(rng, 2)] };
    p->default_action = random_action(rng);
    p->calls = sg_alloc(SG_POLICY_MAX_CALLS * sizeof *p->calls);
    for (int number = 0; number < SG_POLICY_MAX_CALLS; number++) {
        if (rng_below(rng, 16) >= density)
            continue;
        struct sg_policy_call *call = &p->calls[p->call_count++];
        call->number = rng_below(rng, 50) ? number : -1;
        call->action = random_action(rng);
        if (rng_below(rng, 600) < checks)
            random_rules(rng, call);
    }
}

static bool has_plain_jump(void)
{
    const struct sock_filter *insns;
    size_t count;
    struct sg_err err = { 0 };
    assert_ok(sg_bpf_program(&program, &insns, &count, &err), err);
    for (size_t i = 0; i < count; i++)
        if (insns[i].code == (BPF_JMP | BPF_JA))
            return true;
    return false;
}

static void any_program_says_what_its_policy_says(void **state)
{
    (void)state;
    struct rng rng = rng_start(__func__);
    int compiled = 0, far = 0;
    for (int i = 0; i < POLICIES; i++) {
        sg_auto_policy p = { 0 };
        unsigned longest;
        struct sg_err err = { 0 };
        random_policy(&rng, &p);
        if (sg_policy_compile(&p, &program, &longest, &err) < 0) {
            assert_int_equal(err.kind, SG_EXHAUSTED);
            continue;
        }
        compiled++;
        far += has_plain_jump();
        compare_all_numbers(&p, &rng, 6);
    }
    /* or the test is about nothing */
    assert_true(compiled > POLICIES / 2);
    assert_true(far > POLICIES / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cell_program_says_what_the_policy_says),
        cmocka_unit_test(any_program_says_what_its_policy_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
