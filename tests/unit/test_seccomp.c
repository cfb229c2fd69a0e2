/* SPDX-License-Identifier: Apache-2.0 */
/* tools/seccompc: a bad policy is refused with its place and cause, a good one becomes the program
 * that it should, and the check finds a broken program. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "check.h"
#include "seccompc/compile.h"
#include "base/banned.h"

#define POLICY(calls)                                                                              \
    "{\"name\":\"t\",\"why\":\"w\",\"default\":\"errno ENOSYS\",\"groups\":[{\"name\":\"g\","      \
    "\"why\":\"w\",\"action\":\"allow\",\"syscalls\":[" calls "]}]}"
#define CALL(rest)  "{\"name\":\"read\",\"why\":\"w\"" rest "}"
#define RULES(list) POLICY(CALL(",\"rules\":[" list "]"))
#define RULE(args)  RULES("{\"why\":\"w\",\"action\":\"kill\",\"args\":[" args "]}")
#define COND        "{\"arg\":0,\"bits\":32,\"is\":1}"
#define IN_CALL     "groups[0]: 'g': syscalls[0]: 'read': "
#define IN_RULE     IN_CALL "rules[0]: "
#define IN_COND     IN_RULE "args[0]: "

static struct sg_bpf program;

static int parse(const char *text, struct sg_policy *ret, struct sg_err *err)
{
    return sg_policy_parse(sg_str_of(text), AUDIT_ARCH_X86_64, ret, err);
}

static void assert_refused(const char *text, enum sg_kind kind, const char *message)
{
    struct sg_policy p;
    struct sg_err err;
    assert_fails(parse(text, &p, &err), err, kind);
    assert_string_equal(err.msg, message);
}

static void what_is_not_json_is_refused_with_line_and_column(void **state)
{
    (void)state;
    assert_refused("", SG_INVALID, "line 1, column 1: ends too early");
    assert_refused("{\n  \"name\": x\n}", SG_INVALID, "line 2, column 11: unexpected character");
    assert_refused("{\"name\":\"t\",\n}", SG_INVALID, "line 2, column 1: unexpected character");
    assert_refused("{\"name\":\n", SG_INVALID, "line 2, column 1: ends too early");
    assert_refused(POLICY(CALL("")) "\n x", SG_INVALID,
                   "line 2, column 2: something follows the policy");
    assert_refused("[[[[[[[[[[[[[1]]]]]]]]]]]]]", SG_INVALID,
                   "line 1, column 13: nesting too deep");
}

static void a_nul_byte_does_not_end_a_policy_early(void **state)
{
    (void)state;
    static const char text[] = POLICY(CALL("")) "\0junk";
    struct sg_policy p;
    struct sg_err err;
    assert_fails(
        sg_policy_parse((struct sg_str) { text, sizeof text - 1 }, AUDIT_ARCH_X86_64, &p, &err),
        err, SG_INVALID);
}

static void a_policy_over_the_size_limit_is_refused_and_one_at_it_is_not(void **state)
{
    (void)state;
    sg_auto_buf b;
    sg_buf_init(&b, SG_POLICY_MAX_BYTES + 1);
    sg_buf_add_str(&b, POLICY(CALL("")));
    while (b.n < SG_POLICY_MAX_BYTES)
        sg_buf_add_str(&b, " ");
    struct sg_err err = { 0 };
    sg_auto_policy p = { 0 };
    assert_ok(parse(sg_buf_cstr(&b), &p, &err), err);
    sg_buf_add_str(&b, " ");
    assert_refused(sg_buf_cstr(&b), SG_EXHAUSTED, "over 262144 bytes");
}

static void a_call_without_a_reason_is_refused(void **state)
{
    (void)state;
    assert_refused(POLICY("{\"name\":\"read\"}"), SG_INVALID, IN_CALL "no 'why'");
    assert_refused(POLICY("{\"name\":\"read\",\"why\":\" \\n\"}"), SG_INVALID,
                   IN_CALL "'why' is empty");
    assert_refused(POLICY("{\"name\":\"read\",\"why\":7}"), SG_INVALID,
                   IN_CALL "'why' is not text");
    assert_refused(RULES("{\"action\":\"kill\",\"args\":[" COND "]}"), SG_INVALID,
                   IN_RULE "no 'why'");
}

static void an_unknown_call_key_or_word_is_refused_by_name(void **state)
{
    (void)state;
    assert_refused(POLICY("{\"name\":\"raed\",\"why\":\"w\"}"), SG_INVALID,
                   "groups[0]: 'g': syscalls[0]: 'raed': unknown system call; a new one needs its "
                   "'number'");
    assert_refused(POLICY(CALL(",\"actoin\":\"kill\"")), SG_INVALID,
                   "groups[0]: 'g': syscalls[0]: unknown key 'actoin'");
    assert_refused(POLICY(CALL(",\"action\":\"errno EFOO\"")), SG_INVALID,
                   IN_CALL "'errno EFOO' is not 'allow', 'kill' or 'errno NAME'");
    assert_refused(RULE("{\"arg\":0,\"bits\":32,\"is\":\"CLONE_NEWUSER|AF_WRONG\"}"), SG_INVALID,
                   IN_COND "'AF_WRONG' is neither a number nor a constant that seccompc knows");
}

static void a_call_named_twice_is_refused(void **state)
{
    (void)state;
    assert_refused(POLICY(CALL("") "," CALL(",\"action\":\"kill\"")), SG_INVALID,
                   "groups[0]: 'g': syscalls[1]: 'read': named twice");
    assert_refused(POLICY("{\"name\":\"aaa\",\"number\":999,\"why\":\"w\"},"
                          "{\"name\":\"bbb\",\"number\":999,\"why\":\"w\"}"),
                   SG_INVALID, "groups[0]: 'g': syscalls[1]: 'bbb': has the number of 'aaa'");
}

static void a_number_must_be_shared_by_all_architectures_and_agree_with_the_name(void **state)
{
    (void)state;
    assert_refused(POLICY(CALL(",\"number\":5")), SG_INVALID,
                   IN_CALL "numbers below 424 differ between architectures");
    assert_refused(POLICY(CALL(",\"number\":1024")), SG_INVALID,
                   IN_CALL "'number' is not a number up to 1023");
    assert_refused(POLICY(CALL(",\"number\":500")), SG_INVALID, IN_CALL "number 500 is not 0");
}

static void a_condition_that_cannot_be_meant_is_refused(void **state)
{
    (void)state;
    assert_refused(RULE("{\"arg\":6,\"bits\":32,\"is\":1}"), SG_INVALID,
                   IN_COND "'arg' is not a number up to 5");
    assert_refused(RULE("{\"arg\":0,\"is\":1}"), SG_INVALID, IN_COND "no 'bits'");
    assert_refused(RULE("{\"arg\":0,\"bits\":16,\"is\":1}"), SG_INVALID,
                   IN_COND "'bits' is neither 32 nor 64");
    assert_refused(RULE("{\"arg\":0,\"bits\":32}"), SG_INVALID,
                   IN_COND "needs either 'is' or 'not'");
    assert_refused(RULE("{\"arg\":0,\"bits\":32,\"is\":1,\"not\":2}"), SG_INVALID,
                   IN_COND "needs either 'is' or 'not'");
    assert_refused(RULE("{\"arg\":0,\"bits\":32,\"is\":\"0x100000000\"}"), SG_INVALID,
                   IN_COND "0x100000000 has bits outside of 0xffffffff");
    assert_refused(RULE("{\"arg\":0,\"bits\":32,\"mask\":6,\"is\":1}"), SG_INVALID,
                   IN_COND "0x1 has bits outside of 0x6");
    assert_refused(RULE("{\"arg\":0,\"bits\":32,\"mask\":0,\"is\":0}"), SG_INVALID,
                   IN_COND "mask 0x0 in 32 bits");
    assert_refused(RULE("{\"arg\":0,\"bits\":32,\"is\":-1}"), SG_INVALID,
                   IN_COND "a value is a number from 0 or a string");
}

static void lists_are_neither_empty_nor_over_their_limits(void **state)
{
    (void)state;
    assert_refused(RULE(""), SG_INVALID, IN_RULE "'args' is not a list with entries");
    assert_refused(RULES(""), SG_INVALID, IN_CALL "'rules' is not a list with entries");
    assert_refused(RULE(COND "," COND "," COND "," COND "," COND), SG_EXHAUSTED,
                   IN_RULE "'args' has over 4 entries");
    assert_refused(
        RULE("{\"arg\":0,\"bits\":32,\"is\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}"),
        SG_EXHAUSTED, IN_COND "'is' has over 16 entries");
}

static void a_call_that_the_architecture_lacks_is_known_but_has_no_number(void **state)
{
    (void)state;
    static const char text[] = POLICY("{\"name\":\"open\",\"why\":\"w\"}");
    struct sg_err err = { 0 };
    sg_auto_policy intel = { 0 }, arm = { 0 };
    assert_ok(parse(text, &intel, &err), err);
    assert_ok(sg_policy_parse(sg_str_of(text), AUDIT_ARCH_AARCH64, &arm, &err), err);
    assert_int_equal(intel.calls[0].number, 2);
    assert_int_equal(arm.calls[0].number, -1);
}

static void values_are_numbers_or_constants_joined(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } cases[] = {
        { "12", 12 },
        { "0xffffffffffffffff", UINT64_MAX },
        { "CLONE_NEWUSER", 0x10000000 },
        { "CLONE_NEWUSER|CLONE_NEWTIME|1", 0x10000081 },
        { "TIOCSTI", 0x5412 },
        { "SOCK_TYPE_MASK", 15 },
    };
    static const char *const bad[] = { "", "|", "1|", "0x", "0xfffffffffffffffff", "0XF", "-1" };
    struct sg_err err = { 0 };
    uint64_t got = 0;
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        assert_ok(sg_policy_value_parse(cases[i].text, &got, &err), err);
        assert_true(got == cases[i].value);
    }
    for (size_t i = 0; i < SG_COUNT(bad); i++)
        assert_fails(sg_policy_value_parse(bad[i], &got, &err), err, SG_INVALID);
}

static void neighbours_with_one_fate_share_one_range(void **state)
{
    (void)state;
    static const char text[] = POLICY("{\"name\":\"read\",\"why\":\"w\"},"
                                      "{\"name\":\"write\",\"why\":\"w\"},"
                                      "{\"name\":\"open\",\"why\":\"w\"}");
    static const struct sock_filter want[] = {
        { BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch) },
        { BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AUDIT_ARCH_X86_64 },
        { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS },
        { BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr) },
        { BPF_JMP | BPF_JGE | BPF_K, 1, 0, 3 },
        { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
        { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS },
    };
    struct sg_err err = { 0 };
    sg_auto_policy p = { 0 };
    unsigned longest;
    const struct sock_filter *got;
    size_t count;
    assert_ok(parse(text, &p, &err), err);
    assert_ok(sg_policy_compile(&p, &program, &longest, &err), err);
    assert_ok(sg_bpf_program(&program, &got, &count, &err), err);
    assert_int_equal(count, SG_COUNT(want));
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(longest, 5);
}

static void a_broken_program_does_not_pass_the_check(void **state)
{
    (void)state;
    static const struct {
        struct sock_filter insns[3];
        const char *message;
    } cases[] = {
        { { { BPF_RET | BPF_K, 0, 0, 0 }, { BPF_RET | BPF_K, 0, 0, 0 } },
          "instruction 1 is never reached" },
        { { { BPF_LD | BPF_W | BPF_ABS, 0, 0, 64 } }, "instruction 0: load from offset 64" },
        { { { BPF_LD | BPF_W | BPF_ABS, 0, 0, 2 } }, "instruction 0: load from offset 2" },
        { { { BPF_MISC | BPF_TAX, 0, 0, 0 } }, "instruction 0: unexpected opcode 0x0007" },
        { { { BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0 },
            { BPF_JMP | BPF_JA, 0, 0, 0 },
            { BPF_ALU | BPF_AND | BPF_K, 0, 0, 0 } },
          "instruction 2 leads past the end" },
        { { { BPF_JMP | BPF_JA, 0, 0, UINT32_MAX } }, "instruction 0 leads past the end" },
        { { { BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0 } }, "instruction 0 leads past the end" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        unsigned longest;
        struct sg_err err;
        assert_fails(sg_bpf_check(cases[i].insns, 3, &longest, &err), err, SG_INTERNAL);
        assert_string_equal(err.msg, cases[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_json_is_refused_with_line_and_column),
        cmocka_unit_test(a_nul_byte_does_not_end_a_policy_early),
        cmocka_unit_test(a_policy_over_the_size_limit_is_refused_and_one_at_it_is_not),
        cmocka_unit_test(a_call_without_a_reason_is_refused),
        cmocka_unit_test(an_unknown_call_key_or_word_is_refused_by_name),
        cmocka_unit_test(a_call_named_twice_is_refused),
        cmocka_unit_test(a_number_must_be_shared_by_all_architectures_and_agree_with_the_name),
        cmocka_unit_test(a_condition_that_cannot_be_meant_is_refused),
        cmocka_unit_test(lists_are_neither_empty_nor_over_their_limits),
        cmocka_unit_test(a_call_that_the_architecture_lacks_is_known_but_has_no_number),
        cmocka_unit_test(values_are_numbers_or_constants_joined),
        cmocka_unit_test(neighbours_with_one_fate_share_one_range),
        cmocka_unit_test(a_broken_program_does_not_pass_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
