/* SPDX-License-Identifier: Apache-2.0 */
/* The decision matrix as a table, on hosts that have more and less; and rule files with mistakes.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "router/router.h"
#include "base/banned.h"

#define BIT(w) (1u << SG_WALL_##w)
#define TODAY  (BIT(NONE) | BIT(CELL))
#define ALL    ((1u << SG_WALL_COUNT) - 1)

static struct sg_rules *builtin;

static int setup(void **state)
{
    struct sg_err err = { 0 };
    (void)state;
    builtin = sg_rules_builtin(&err);
    if (!builtin)
        print_error("%s\n", err.msg);
    return builtin ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    sg_rules_free(builtin);
    return 0;
}

static struct sg_walls host(unsigned has)
{
    struct sg_walls h = { 0 };
    for (unsigned w = 0; w < SG_WALL_COUNT; w++)
        h.missing[w] = has >> w & 1 ? NULL : "not on this host";
    return h;
}

static struct sg_decision decide(const struct sg_rules *r, const struct sg_walls *h,
                                 const struct sg_ask *a)
{
    struct sg_decision d;
    struct sg_err err = { 0 };
    if (sg_router_decide(r, h, a, &d, &err) < 0)
        fail_msg("%s: %s", a->operation, err.msg);
    return d;
}

/* ---- the matrix ---- */

struct row {
    const char *operation;
    int trust; /* -1: not said */
    unsigned has;
    int wall; /* -1: refused */
    const char *rule, *reason;
    bool is_fallback, needs_approval;
    enum sg_need_net network;
};
#define FILTERED SG_NEED_NET_FILTERED
#define UNSAID   (-1)
#define UNTRUST  SG_TRUST_UNTRUSTED
static const struct row rows[] = {
    /* this host: none and cell */
    { "database_read", UNSAID, TODAY, SG_WALL_NONE, "trusted-read", "trusted internal operation",
      false, false, 0 },
    { "entity_write", UNSAID, TODAY, SG_WALL_NONE, "entity-write",
      "goes through the approval gateway", false, true, 0 },
    { "parse_document", UNSAID, TODAY, SG_WALL_CELL, "uploaded-document", "untrusted file content",
      true, false, 0 },
    { "execute_code", UNSAID, TODAY, SG_WALL_CELL, "generated-code", "untrusted code", true, false,
      0 },
    { "external_api_call", UNSAID, TODAY, SG_WALL_CELL, "external-call", "untrusted endpoint", true,
      false, FILTERED },
    { "parallel_agents", UNSAID, TODAY, SG_WALL_CELL, "parallel-agents",
      "isolation and parallelism", true, false, 0 },
    { "bulk_scan", UNSAID, TODAY, SG_WALL_CELL, "long-work", "long-running, resource intensive",
      true, false, 0 },
    { "long_running", UNSAID, TODAY, SG_WALL_CELL, "long-work", "long-running, resource intensive",
      true, false, 0 },
    /* one that has everything: the first of each list */
    { "database_read", UNSAID, ALL, SG_WALL_NONE, "trusted-read", "trusted internal operation",
      false, false, 0 },
    { "entity_write", UNSAID, ALL, SG_WALL_NONE, "entity-write",
      "goes through the approval gateway", false, true, 0 },
    { "parse_document", UNSAID, ALL, SG_WALL_MICROVM, "uploaded-document", "untrusted file content",
      false, false, 0 },
    { "execute_code", UNSAID, ALL, SG_WALL_MICROVM, "generated-code", "untrusted code", false,
      false, 0 },
    { "external_api_call", UNSAID, ALL, SG_WALL_MICROVM, "external-call", "untrusted endpoint",
      false, false, FILTERED },
    { "parallel_agents", UNSAID, ALL, SG_WALL_DOCKER, "parallel-agents",
      "isolation and parallelism", false, false, 0 },
    { "bulk_scan", UNSAID, ALL, SG_WALL_DOCKER, "long-work", "long-running, resource intensive",
      false, false, 0 },
    { "long_running", UNSAID, ALL, SG_WALL_DOCKER, "long-work", "long-running, resource intensive",
      false, false, 0 },
    /* microvm > gvisor > cell, a fallback at a time */
    { "execute_code", UNSAID, TODAY | BIT(GVISOR), SG_WALL_GVISOR, "generated-code",
      "untrusted code", true, false, 0 },
    { "parse_document", UNSAID, TODAY | BIT(GVISOR) | BIT(DOCKER), SG_WALL_GVISOR,
      "uploaded-document", "untrusted file content", true, false, 0 },
    { "external_api_call", UNSAID, TODAY | BIT(DOCKER), SG_WALL_CELL, "external-call",
      "untrusted endpoint", true, false, FILTERED },
    /* nothing below the floor takes its place */
    { "execute_code", UNSAID, BIT(NONE), -1, "generated-code", "untrusted code", false, false, 0 },
    { "parse_document", UNSAID, BIT(NONE) | BIT(DOCKER), -1, "uploaded-document",
      "untrusted file content", false, false, 0 },
    { "external_api_call", UNSAID, BIT(NONE), -1, "external-call", "untrusted endpoint", false,
      false, FILTERED },
    { "parallel_agents", UNSAID, BIT(NONE), -1, "parallel-agents", "isolation and parallelism",
      false, false, 0 },
    { "bulk_scan", UNSAID, BIT(NONE) | BIT(MICROVM), -1, "long-work",
      "long-running, resource intensive", false, false, 0 },
    /* trust: less of it goes behind a wall, more of it lets nothing out */
    { "database_read", UNTRUST, TODAY, SG_WALL_CELL, "anything-else", "nothing vouches for it",
      true, false, 0 },
    { "database_read", SG_TRUST_LIMITED, ALL, SG_WALL_MICROVM, "anything-else",
      "nothing vouches for it", false, false, 0 },
    { "execute_code", SG_TRUST_TRUSTED, TODAY, SG_WALL_CELL, "generated-code", "untrusted code",
      true, false, 0 },
    { "entity_write", UNTRUST, TODAY, SG_WALL_NONE, "entity-write",
      "goes through the approval gateway", false, true, 0 },
};

static void the_matrix_holds(void **state)
{
    (void)state;
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        const struct row *r = &rows[i];
        const struct sg_walls h = host(r->has);
        struct sg_ask a;
        struct sg_err err = { 0 };
        sg_ask_init(&a, r->operation);
        a.trust = r->trust;
        const struct sg_decision d = decide(builtin, &h, &a);
        if (d.is_allowed != (r->wall >= 0) || (d.is_allowed && (int)d.wall != r->wall))
            fail_msg("row %zu, %s: %s", i, r->operation,
                     d.is_allowed ? sg_wall_names[d.wall] : "refused");
        assert_string_equal(d.rule->name, r->rule);
        assert_string_equal(d.rule->reason, r->reason);
        assert_int_equal(d.is_fallback, r->is_fallback);
        assert_int_equal(d.needs_approval, r->needs_approval);
        assert_int_equal(d.network, r->network);
        assert_int_equal(sg_decision_error(&d, &err), r->wall >= 0 ? 0 : -1);
        if (r->wall < 0) {
            assert_int_equal(err.kind, SG_UNSUPPORTED);
            assert_non_null(strstr(err.msg, "not on this host"));
            assert_non_null(strstr(err.msg, r->rule));
        }
    }
}

/* Whatever the host has, and whoever asks: never below the floor, never what is not there. */
static void no_host_lets_anything_below_the_floor(void **state)
{
    (void)state;
    for (unsigned has = 0; has <= ALL; has++)
        for (size_t o = 0; o < builtin->operation_count; o++)
            for (int trust = -1; trust < SG_TRUST_COUNT; trust++)
                for (int wish = -1; wish < SG_WALL_COUNT; wish++) {
                    const struct sg_walls h = host(has);
                    struct sg_ask a;
                    sg_ask_init(&a, builtin->operations[o].name);
                    a.trust = trust;
                    a.wish = wish;
                    const struct sg_decision d = decide(builtin, &h, &a);
                    if (!d.is_allowed)
                        continue;
                    assert_true(has >> d.wall & 1);
                    assert_true(sg_wall_strength(d.wall) >= sg_wall_strength(d.rule->floor));
                    if (wish >= 0)
                        assert_int_equal(d.wall, wish);
                }
}

/* ---- wishes, agents, abilities ---- */

static enum sg_kind refusal(const struct sg_decision *d, const char *words)
{
    struct sg_err err = { 0 };
    assert_int_equal(sg_decision_error(d, &err), -1);
    if (!strstr(err.msg, words))
        fail_msg("'%s' does not say '%s'", err.msg, words);
    return err.kind;
}

static void a_wish_may_ask_for_more_and_not_for_less(void **state)
{
    (void)state;
    const struct sg_walls all = host(ALL), today = host(TODAY);
    struct sg_ask a;
    sg_ask_init(&a, "execute_code");
    a.wish = SG_WALL_NONE;
    struct sg_decision d = decide(builtin, &all, &a);
    assert_false(d.is_allowed);
    assert_int_equal(refusal(&d, "weaker than the rule's floor"), SG_DENIED);
    a.wish = SG_WALL_GVISOR;
    d = decide(builtin, &all, &a);
    assert_true(d.is_allowed);
    assert_false(d.is_fallback);
    assert_int_equal(d.wall, SG_WALL_GVISOR);
    d = decide(builtin, &today, &a);
    assert_int_equal(refusal(&d, "not on this host"), SG_UNSUPPORTED);
    sg_ask_init(&a, "database_read");
    a.wish = SG_WALL_CELL; /* nobody asked for a wall, but one may be had */
    d = decide(builtin, &today, &a);
    assert_true(d.is_allowed);
    assert_int_equal(d.wall, SG_WALL_CELL);
}

static void who_needs_a_sandbox_does_not_get_none(void **state)
{
    (void)state;
    const struct sg_walls h = host(TODAY);
    struct sg_ask a;
    sg_ask_init(&a, "database_read");
    a.needs_sandbox = true;
    const struct sg_decision d = decide(builtin, &h, &a);
    assert_int_equal(refusal(&d, "gives no sandbox"), SG_DENIED);
}

static const char own_rules[] =
    "version = 1\n"
    "[operations]\n"
    "database_read = \"trusted\"\n"
    "execute_code = \"untrusted\"\n"
    "screenshot = \"limited\"\n"
    "[[rule]]\n"
    "name = \"long\"\noperation = \"execute_code\"\nmin_seconds = 600\n"
    "tiers = [\"docker\", \"cell\"]\nreason = \"long\"\n"
    "[[rule]]\n"
    "name = \"many\"\nmin_parallel = 8\norg = [\"o1\", \"o2\"]\n"
    "tiers = \"cell\"\nreason = \"many\"\n"
    "[[rule]]\n"
    "name = \"net\"\nneeds_network = \"open\"\ntiers = [\"microvm\"]\nreason = \"net\"\n"
    "[[rule]]\n"
    "name = \"write\"\nneeds_files = [\"write\"]\nwants = \"browser\"\ntiers = \"docker\"\n"
    "reason = \"write\"\n"
    "[[rule]]\n"
    "name = \"quick\"\nmax_seconds = 5\nagent = \"probe\"\ntiers = \"none\"\nreason = \"quick\"\n"
    "[[rule]]\n"
    "name = \"rest\"\ntiers = [\"gvisor\", \"wasm\", \"cell\"]\nfloor = \"wasm\"\nreason = "
    "\"rest\"\n"
    "[agents.visual-tester]\ntier = [\"docker\", \"cell\"]\n"
    "[agents.careless]\ntier = \"none\"\n";

static struct sg_rules *parse(const char *text)
{
    struct sg_err err = { 0 };
    struct sg_rules *r = sg_rules_parse(sg_str_of(text), "own.toml", &err);
    if (!r)
        fail_msg("%s", err.msg);
    return r;
}

static void every_condition_decides(void **state)
{
    (void)state;
    struct sg_rules *r = parse(own_rules);
    const struct sg_walls h = host(ALL);
    const struct {
        struct sg_ask a;
        const char *rule;
    } cases[] = {
        { { .operation = "execute_code", .seconds = 600 }, "long" },
        { { .operation = "execute_code", .seconds = 599 }, "rest" },
        { { .operation = "screenshot", .seconds = 600 }, "rest" },
        { { .operation = "screenshot", .parallel = 8, .org = "o2" }, "many" },
        { { .operation = "screenshot", .parallel = 7, .org = "o2" }, "rest" },
        { { .operation = "screenshot", .parallel = 8, .org = "o3" }, "rest" },
        { { .operation = "screenshot", .parallel = 8 }, "rest" },
        { { .operation = "execute_code", .network = SG_NEED_NET_OPEN }, "net" },
        { { .operation = "execute_code",
            .files = SG_NEED_WRITE,
            .abilities = 1u << SG_ABILITY_BROWSER },
          "write" },
        { { .operation = "execute_code", .files = SG_NEED_WRITE }, "rest" },
        { { .operation = "database_read", .agent = "probe", .seconds = 5 }, "quick" },
        { { .operation = "database_read", .agent = "probe", .seconds = 6 }, "rest" },
        { { .operation = "database_read", .agent = "other" }, "rest" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        struct sg_ask a = cases[i].a;
        a.trust = a.wish = -1;
        const struct sg_decision d = decide(r, &h, &a);
        if (strcmp(d.rule->name, cases[i].rule) != 0)
            fail_msg("case %zu: %s", i, d.rule->name);
    }
    sg_rules_free(r);
}

static void an_agent_has_walls_of_its_own_above_the_floor(void **state)
{
    (void)state;
    struct sg_rules *r = parse(own_rules);
    const struct sg_walls all = host(ALL), today = host(TODAY);
    struct sg_ask a;
    sg_ask_init(&a, "execute_code");
    a.agent = "visual-tester";
    struct sg_decision d = decide(r, &all, &a);
    assert_int_equal(d.wall, SG_WALL_DOCKER);
    assert_non_null(d.agent);
    d = decide(r, &today, &a);
    assert_int_equal(d.wall, SG_WALL_CELL);
    assert_true(d.is_fallback);
    assert_int_equal(d.preferred, SG_WALL_DOCKER);
    a.agent = "careless";
    d = decide(r, &all, &a);
    assert_int_equal(refusal(&d, "none: weaker than the rule's floor"), SG_DENIED);
    sg_rules_free(r);
}

static void what_a_wall_cannot_give_is_passed_over(void **state)
{
    (void)state;
    struct sg_rules *r = parse(own_rules);
    const struct sg_walls h = host(BIT(WASM) | BIT(CELL));
    struct sg_ask a;
    sg_ask_init(&a, "execute_code");
    struct sg_decision d = decide(r, &h, &a);
    assert_int_equal(d.wall, SG_WALL_WASM);
    a.abilities = 1u << SG_ABILITY_TERMINAL;
    d = decide(r, &h, &a);
    assert_int_equal(d.wall, SG_WALL_CELL);
    assert_int_equal(d.verdicts[SG_WALL_WASM], SG_VERDICT_UNABLE);
    sg_rules_free(r);
}

/* ---- words ---- */

static void a_decision_explains_itself(void **state)
{
    (void)state;
    const struct sg_walls h = host(TODAY);
    struct sg_ask a;
    struct sg_json j;
    sg_auto_buf out;
    sg_ask_init(&a, "execute_code");
    const struct sg_decision d = decide(builtin, &h, &a);
    sg_buf_init(&out, 16 << 10);
    sg_json_init(&j, &out);
    sg_decision_put(&j, &d, &a, true);
    static const char *const wanted[] = {
        "\"tier\":\"cell\"",
        "\"rule\":\"generated-code\"",
        "\"reason\":\"untrusted code\"",
        "\"fallback\":{\"from\":\"microvm\",\"why\":\"not on this host\"}",
        "{\"tier\":\"none\",\"chosen\":false,\"why\":\"weaker than the rule's floor\"}",
        "{\"tier\":\"wasm\",\"chosen\":false,\"why\":\"not among the tiers of the rule\"}",
        "{\"tier\":\"docker\",\"chosen\":false,\"why\":\"not on this host\"}",
        "{\"tier\":\"cell\",\"chosen\":true,\"why\":\"chosen\"}",
        "{\"rule\":\"trusted-read\",\"why\":\"it is for another operation\"}",
        "\"source\":\"built in\"",
    };
    for (size_t i = 0; i < SG_COUNT(wanted); i++)
        if (!strstr(sg_buf_cstr(&out), wanted[i]))
            fail_msg("no %s in %s", wanted[i], sg_buf_cstr(&out));
}

static void an_unknown_operation_is_named_with_a_near_one(void **state)
{
    (void)state;
    const struct sg_walls h = host(TODAY);
    struct sg_ask a;
    struct sg_decision d;
    struct sg_err err = { 0 };
    sg_ask_init(&a, "execute_kode");
    assert_int_equal(sg_router_decide(builtin, &h, &a, &d, &err), -1);
    assert_int_equal(err.kind, SG_INVALID);
    assert_non_null(strstr(err.msg, "did you mean 'execute_code'?"));
}

/* ---- rule files with mistakes ---- */

#define HEAD "version = 1\n[operations]\nexecute_code = \"trusted\"\n"
#define RULE "[[rule]]\nname = \"r\"\nreason = \"w\"\ntiers = \"cell\"\n"

static void mistakes_have_a_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "", "own.toml:1:1: version is missing" },
        { "version = 2\n", "own.toml:1:11: version must be 1" },
        { "version = 1\n", "own.toml:1:1: operations is missing" },
        { HEAD, "own.toml:1:1: rule is missing" },
        { "version = [", "own.toml: 1:" },
        { HEAD "oops = 1\n" RULE, "own.toml:4:" },
        { "version = 1\n[operations]\nx = \"trusted\"\n" RULE, "execute_code is missing here" },
        { HEAD "[other]\n" RULE, "unknown key 'other'" },
        { "version = 1\n[operations]\nx = \"trusty\"\n" RULE,
          "own.toml:3:5: no trust level 'trusty' (did you mean 'trusted'?)" },
        { HEAD "[[rule]]\nname = \"r\"\nreason = \"w\"\ntiers = [\"cell\", \"celll\"]\n",
          "own.toml:7:18: no tier 'celll' (did you mean 'cell'?)" },
        { HEAD "[[rule]]\nname = \"r\"\nreason = \"w\"\ntiers = [\"cell\", \"cell\"]\n",
          "tier cell is there twice" },
        { HEAD "[[rule]]\nname = \"r\"\nreason = \"w\"\ntiers = []\n", "empty list" },
        { HEAD "[[rule]]\nname = \"r\"\nreason = \"w\"\n", "tiers is missing here" },
        { HEAD "[[rule]]\nname = \"r\"\ntiers = \"cell\"\n", "reason is missing here" },
        { HEAD RULE "floor = \"gvisor\"\n", "own.toml:7:9: tier cell is below the floor, gvisor" },
        { HEAD RULE "operation = \"y\"\n", "own.toml:8:13: no operation 'y' in [operations]" },
        { HEAD RULE "trust = 3\n", "own.toml:8:9: trust level is a string, not an integer" },
        { HEAD RULE "approval = \"yes\"\n", "'approval' must be" },
        { HEAD RULE "min_parallel = 0\n", "must be 1 or more" },
        { HEAD RULE "min_seconds = 9\nmax_seconds = 3\n", "max_seconds is below min_seconds" },
        { HEAD RULE "tires = 1\n", "unknown key 'tires' (did you mean 'tiers'?)" },
        { HEAD RULE RULE, "there is a rule 'r' already" },
        { HEAD RULE "[agents.a]\n", "tier is missing here" },
        { HEAD RULE "[agents.a]\ntier = \"paper\"\n", "own.toml:9:8: no tier 'paper'" },
        { HEAD RULE "[agents]\na = 1\n", "a table is wanted here" },
        { HEAD "[rule]\nname = \"r\"\n", "rules are written as [[rule]]" },
        { HEAD "[[rule]]\nname = \"\"\nreason = \"w\"\ntiers = \"cell\"\n", "a text of 1 to" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        struct sg_err err = { 0 };
        struct sg_rules *r = sg_rules_parse(sg_str_of(cases[i].text), "own.toml", &err);
        if (r || err.kind != SG_INVALID || !strstr(err.msg, cases[i].words))
            fail_msg("case %zu: %s", i, r ? "accepted" : err.msg);
        sg_rules_free(r);
    }
}

static void a_file_has_bounds(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    sg_auto_buf text;
    sg_buf_init(&text, 4 << 20);
    sg_buf_add_str(&text, "version = 1\n[operations]\nexecute_code = \"trusted\"\n");
    for (unsigned i = 0; i <= SG_RULES_OPERATIONS; i++)
        sg_buf_addf(&text, "o%u = \"trusted\"\n", i);
    sg_buf_add_str(&text, RULE);
    assert_null(sg_rules_parse(sg_str_of(sg_buf_cstr(&text)), "own.toml", &err));
    assert_non_null(strstr(err.msg, "over 64 operations"));
    sg_buf_clear(&text);
    sg_buf_add_str(&text, HEAD);
    for (unsigned i = 0; i <= SG_RULES_MAX; i++)
        sg_buf_addf(&text, "[[rule]]\nname = \"r%u\"\nreason = \"w\"\ntiers = \"cell\"\n", i);
    assert_null(sg_rules_parse(sg_str_of(sg_buf_cstr(&text)), "own.toml", &err));
    assert_non_null(strstr(err.msg, "over 256 rules"));
    while (text.n <= SG_RULES_MAX_BYTES)
        sg_buf_add_str(&text, "# padding padding padding padding\n");
    assert_null(sg_rules_parse(sg_str_of(sg_buf_cstr(&text)), "own.toml", &err));
    assert_int_equal(err.kind, SG_EXHAUSTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_matrix_holds),
        cmocka_unit_test(no_host_lets_anything_below_the_floor),
        cmocka_unit_test(a_wish_may_ask_for_more_and_not_for_less),
        cmocka_unit_test(who_needs_a_sandbox_does_not_get_none),
        cmocka_unit_test(every_condition_decides),
        cmocka_unit_test(an_agent_has_walls_of_its_own_above_the_floor),
        cmocka_unit_test(what_a_wall_cannot_give_is_passed_over),
        cmocka_unit_test(a_decision_explains_itself),
        cmocka_unit_test(an_unknown_operation_is_named_with_a_near_one),
        cmocka_unit_test(mistakes_have_a_place),
        cmocka_unit_test(a_file_has_bounds),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
