/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <string.h>

#include "base/auto.h"
#include "net/policy.h"
#include "base/banned.h"

static void names_have_one_form(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name; /* NULL: it is none */
    } rows[] = {
        { "Example.COM.", "example.com" },
        { "a_b.x-y.net", "a_b.x-y.net" },
        { "xn--bcher-kva.example", "xn--bcher-kva.example" },
        { "localhost", "localhost" },
        { "", NULL },
        { ".", NULL },
        { "a..b", NULL },
        { "a.b..", NULL },
        { ".a", NULL },
        { "-a.com", NULL },
        { "a-.com", NULL },
        { "b\xc3\xbc.com", NULL },
        { "a b.com", NULL },
        { "a%2eb", NULL },
        { "127.1", NULL },
        { "0x7f000001", NULL },
        { "2130706433", NULL },
        { "1.2.3.4", NULL },
        { "a.0x1f", NULL },
        { "a/b", NULL },
    };
    struct sg_name got;
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        const int ret = sg_name_parse(sg_str_of(rows[i].text), &got, NULL);
        if ((ret == 0) != (rows[i].name != NULL) || (ret == 0 && strcmp(got.s, rows[i].name) != 0))
            fail_msg("'%s'", rows[i].text);
    }
    const char nul[] = "good.com\0.evil.com";
    assert_true(sg_name_parse((struct sg_str) { nul, sizeof nul - 1 }, &got, NULL) < 0);
}

static void labels_and_names_have_their_length(void **state)
{
    (void)state;
    char text[300];
    struct sg_name got;
    memset(text, 'a', sizeof text);
    assert_int_equal(sg_name_parse((struct sg_str) { text, 63 }, &got, NULL), 0);
    assert_true(sg_name_parse((struct sg_str) { text, 64 }, &got, NULL) < 0);
    for (size_t i = 50; i < sizeof text; i += 51)
        text[i] = '.';
    assert_int_equal(sg_name_parse((struct sg_str) { text, 253 }, &got, NULL), 0);
    assert_true(sg_name_parse((struct sg_str) { text, 254 + 1 }, &got, NULL) < 0);
}

static const char *special(const char *text)
{
    struct sg_addr a;
    assert_int_equal(sg_addr_parse(sg_str_of(text), &a, NULL), 0);
    const char *what = sg_addr_special(&a);
    return what ? what : "public";
}

static void what_is_not_public_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *addr, *what;
    } rows[] = {
        { "1.1.1.1", "public" },
        { "11.0.0.1", "public" },
        { "172.32.0.1", "public" },
        { "2606:4700::1111", "public" },
        { "10.255.255.255", "private" },
        { "172.16.0.1", "private" },
        { "192.168.0.1", "private" },
        { "100.64.0.1", "private" },
        { "127.255.0.1", "loopback" },
        { "0.0.0.0", "unspecified" },
        { "169.254.169.254", "metadata" },
        { "169.254.1.1", "link-local" },
        { "::ffff:169.254.169.254", "metadata" },
        { "::ffff:10.0.0.1", "private" },
        { "::1", "loopback" },
        { "::", "unspecified" },
        { "::7f00:1", "translated" },
        { "64:ff9b::a9fe:a9fe", "translated" },
        { "2002:a9fe:a9fe::1", "translated" },
        { "2001:0:1::1", "translated" },
        { "fd00:ec2::254", "metadata" },
        { "fd12::1", "private" },
        { "fe80::1", "link-local" },
        { "ff02::1", "multicast" },
        { "224.0.0.1", "multicast" },
        { "255.255.255.255", "reserved" },
        { "198.18.0.1", "synthetic" },
        { "203.0.113.9", "documentation" },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        if (strcmp(special(rows[i].addr), rows[i].what) != 0)
            fail_msg("%s is %s", rows[i].addr, special(rows[i].addr));
}

static void networks_hold_what_is_in_them(void **state)
{
    (void)state;
    static const struct {
        const char *net, *in, *out;
    } rows[] = {
        { "10.0.0.0/8", "10.1.2.3", "11.0.0.0" },
        { "1.2.3.4", "1.2.3.4", "1.2.3.5" },
        { "0.0.0.0/0", "8.8.8.8", "2001:db8::1" },
        { "::/0", "2001:db8::1", "8.8.8.8" },
        { "2001:db8::/33", "2001:db8::1", "2001:db8:8000::1" },
        { "192.0.2.77/25", "192.0.2.1", "192.0.2.200" },
    };
    struct sg_cidr c;
    struct sg_addr a;
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        assert_int_equal(sg_cidr_parse(sg_str_of(rows[i].net), &c, NULL), 0);
        assert_int_equal(sg_addr_parse(sg_str_of(rows[i].in), &a, NULL), 0);
        assert_true(sg_cidr_has(&c, &a));
        assert_int_equal(sg_addr_parse(sg_str_of(rows[i].out), &a, NULL), 0);
        assert_false(sg_cidr_has(&c, &a));
    }
    static const char *const bad[] = { "10.0.0.0/33", "10.0.0/8",    "::/129",
                                       "10.0.0.0/",   "/8",          "10.0.0.0/-1",
                                       "fe80::1%lo",  "1.2.3.4/8/8", "010.0.0.1" };
    for (size_t i = 0; i < SG_COUNT(bad); i++)
        if (sg_cidr_parse(sg_str_of(bad[i]), &c, NULL) == 0)
            fail_msg("'%s' is a network", bad[i]);
}

/* ---- policies ---- */

static void add(struct sg_netrules *r, const char *rule)
{
    struct sg_err err = { 0 };
    assert_ok(sg_netrules_add(r, sg_str_of(rule), &err), err);
}

static const char *judge(const struct sg_policy *p, const struct sg_nets *nets, const char *to)
{
    static struct sg_netverdict v;
    struct sg_name name;
    struct sg_addr addr;
    struct sg_target t;
    assert_int_equal(sg_target_parse(sg_str_of(to), &name, &addr, &t, NULL), 0);
    sg_policy_judge(p, nets, &t, &v);
    return v.is_allowed ? v.rule : strcmp(v.rule, "no rule allows it") == 0 ? "no" : v.rule;
}

static void the_strictest_word_counts(void **state)
{
    (void)state;
    struct sg_policy p = { .mode = SG_MODE_FILTERED };
    struct sg_nets nets = { 0 };
    add(&p.allow, "*.example.com:80,443");
    add(&p.allow, "tcp:1.0.0.0/8:1-100");
    add(&p.allow, "udp:time.com:123");
    add(&p.allow, "10.0.0.0/8");
    add(&p.deny, "bad.example.com");
    assert_string_equal(judge(NULL, NULL, "a.example.com:80"), "no policy yet");
    assert_string_equal(judge(&p, NULL, "a.example.com:80"), "allow *.example.com:80,443");
    assert_string_equal(judge(&p, NULL, "example.com:80"), "no");
    assert_string_equal(judge(&p, NULL, "aexample.com:80"), "no");
    assert_string_equal(judge(&p, NULL, "a.example.com:22"), "no");
    assert_string_equal(judge(&p, NULL, "bad.example.com:80"), "deny bad.example.com");
    assert_string_equal(judge(&p, NULL, "1.2.3.4:100"), "allow tcp:1.0.0.0/8:1-100");
    assert_string_equal(judge(&p, NULL, "1.2.3.4:101"), "no");
    assert_string_equal(judge(&p, NULL, "udp:time.com:123"), "allow udp:time.com:123");
    assert_string_equal(judge(&p, NULL, "time.com:123"), "no");
    assert_string_equal(judge(&p, NULL, "10.0.0.1:80"), "always refused: private");
    assert_int_equal(sg_nets_add(&nets, sg_str_of("10.0.0.0/24"), NULL), 0);
    assert_string_equal(judge(&p, &nets, "10.0.0.1:80"), "allow 10.0.0.0/8");
    assert_string_equal(judge(&p, &nets, "10.0.1.1:80"), "always refused: private");
    p.mode = SG_MODE_OPEN;
    assert_string_equal(judge(&p, NULL, "other.com:22"), "mode open");
    assert_string_equal(judge(&p, NULL, "other.com:853"), "no");
    assert_string_equal(judge(&p, NULL, "udp:other.com:443"), "no");
    p.mode = SG_MODE_NONE;
    assert_string_equal(judge(&p, NULL, "1.2.3.4:1"), "mode none");
    sg_nets_done(&nets);
    sg_policy_done(&p);
}

static void what_is_allowed_first_beats_what_is_denied(void **state)
{
    (void)state;
    struct sg_policy p = { .mode = SG_MODE_OPEN, .allow_first = true };
    add(&p.allow, "1.1.1.1");
    add(&p.deny, "1.0.0.0/8");
    assert_string_equal(judge(&p, NULL, "1.1.1.1:7"), "allow 1.1.1.1");
    assert_string_equal(judge(&p, NULL, "1.1.1.2:7"), "deny 1.0.0.0/8");
    p.allow_first = false;
    assert_string_equal(judge(&p, NULL, "1.1.1.1:7"), "deny 1.0.0.0/8");
    sg_policy_done(&p);
}

static void rules_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",         ":80",     "a.com:",       "a.com:0", "a.com:65536", "a.com:9-1",
        "a.com:1,", "*.",      "*a.com",       "a.*.com", "[::1",        "[::1]80",
        "tcp:",     "a.com:x", "http://a.com", "a.com/",  "**",          "a.com:1,2,3,4,5,6,7,8,9"
    };
    struct sg_netrule r;
    for (size_t i = 0; i < SG_COUNT(bad); i++)
        if (sg_netrule_parse(sg_str_of(bad[i]), &r, NULL) == 0)
            fail_msg("'%s' is a rule", bad[i]);
}

static void what_lies_above_is_asked_first(void **state)
{
    (void)state;
    struct sg_policy org = { .mode = SG_MODE_OPEN, .layer = "organisation", .mbps = 10 };
    struct sg_policy template = { .mode = SG_MODE_FILTERED, .layer = "template", .above = &org };
    struct sg_policy own = { .mode = SG_MODE_FILTERED, .above = &template, .mbps = 20 };
    struct sg_netverdict v;
    struct sg_err err;
    assert_ok(sg_netrules_add(&org.deny, sg_str_of("bad.com"), &err), err);
    assert_ok(sg_netrules_add(&template.allow, sg_str_of("*.com"), &err), err);
    assert_ok(sg_netrules_add(&template.allow, sg_str_of("udp:*.com:53"), &err), err);
    assert_ok(sg_netrules_add(&own.allow, sg_str_of("*"), &err), err);
    assert_ok(sg_netrules_add(&own.allow, sg_str_of("udp:a.com:53"), &err), err);
    const struct {
        struct sg_target t;
        const char *rule;
        bool is_allowed;
    } cases[] = {
        { { .name = "a.com", .port = 80 }, "allow *", true },
        { { .name = "bad.com", .port = 80 }, "organisation: deny bad.com", false },
        { { .name = "a.org", .port = 80 }, "template: no rule allows it", false },
        { { .name = "a.com", .port = 53, .is_udp = true }, "allow udp:a.com:53", true },
        { { .name = "b.com", .port = 53, .is_udp = true }, "no rule allows it", false },
        { { .name = "dns.google", .port = 443 }, "template: no rule allows it", false },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        sg_policy_judge(&own, NULL, &cases[i].t, &v);
        assert_string_equal(v.rule, cases[i].rule);
        assert_int_equal(v.is_allowed, cases[i].is_allowed);
    }
    assert_true(sg_policy_denies_name(&own, "bad.com", &v));
    assert_true(sg_policy_is_filtered(&own));
    assert_int_equal(sg_policy_limit(&own, offsetof(struct sg_policy, mbps)), 10);
    template.mode = SG_MODE_NONE;
    sg_policy_judge(&own, NULL, &cases[0].t, &v);
    assert_string_equal(v.rule, "template: mode none");
    sg_policy_done(&org);
    sg_policy_done(&template);
    sg_policy_done(&own);
}

static void known_servers_of_names_need_a_rule_that_means_them(void **state)
{
    (void)state;
    struct sg_policy p = { .mode = SG_MODE_OPEN };
    struct sg_netverdict v;
    struct sg_err err;
    struct sg_addr a;
    const struct sg_target by_name = { .name = "eu.cloudflare-dns.com", .port = 443 },
                           by_address = { .addr = &a, .port = 443 },
                           other_port = { .addr = &a, .port = 80 };
    assert_ok(sg_addr_parse(sg_str_of("9.9.9.9"), &a, &err), err);
    sg_policy_judge(&p, NULL, &by_name, &v);
    assert_false(v.is_allowed);
    sg_policy_judge(&p, NULL, &by_address, &v);
    assert_false(v.is_allowed);
    sg_policy_judge(&p, NULL, &other_port, &v);
    assert_true(v.is_allowed);
    assert_ok(sg_netrules_add(&p.allow, sg_str_of("*.cloudflare-dns.com"), &err), err);
    sg_policy_judge(&p, NULL, &by_name, &v);
    assert_true(v.is_allowed);
    sg_policy_done(&p);
}

static void members_of_a_network_reach_each_other_by_its_names(void **state)
{
    (void)state;
    struct sg_policy org = { .mode = SG_MODE_OPEN, .layer = "organisation" };
    struct sg_policy p = { .mode = SG_MODE_NONE };
    struct sg_err err;
    assert_false(sg_policy_has_way(&p));
    assert_string_equal(judge(&p, NULL, "db.team.internal:80"), "mode none");
    assert_ok(sg_netnames_add(&p.networks, sg_str_of("Team"), &err), err);
    assert_ok(sg_netnames_add(&p.networks, sg_str_of("team"), &err), err);
    assert_int_equal(p.networks.n, 1);
    assert_true(sg_policy_has_way(&p));
    static const struct {
        const char *to, *rule;
    } cases[] = {
        { "db.team.internal:5432", "network team" },
        { "DB.Team.Internal.:5432", "network team" },
        { "udp:db.team.internal:53", "network team: only by name, and by TCP" },
        { "db.teams.internal:80", "mode none" },
        { "db.tea.internal:80", "mode none" },
        { "team.internal:80", "mode none" },
        { "a.db.team.internal:80", "mode none" },
        { "db.team.internal.com:80", "mode none" },
        { "example.com:80", "mode none" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++)
        assert_string_equal(judge(&p, NULL, cases[i].to), cases[i].rule);
    assert_ok(sg_netrules_add(&p.deny, sg_str_of("web.team.internal"), &err), err);
    assert_string_equal(judge(&p, NULL, "web.team.internal:80"), "deny web.team.internal");
    /* What lies above holds for this, too. */
    p.above = &org;
    assert_string_equal(judge(&p, NULL, "db.team.internal:80"), "network team");
    org.mode = SG_MODE_FILTERED;
    assert_string_equal(judge(&p, NULL, "db.team.internal:80"), "organisation: no rule allows it");
    assert_ok(sg_netrules_add(&org.allow, sg_str_of("*.team.internal"), &err), err);
    assert_string_equal(judge(&p, NULL, "db.team.internal:80"), "network team");
    sg_policy_done(&org);
    sg_policy_done(&p);
}

static void rules_for_members_could_never_count(void **state)
{
    (void)state;
    static const struct {
        const char *rule;
        bool is_fine;
    } cases[] = {
        { "db.team.internal:5432", false }, { "*.team.internal", false },   { "*.internal", true },
        { "db.other.internal", true },      { "a.db.team.internal", true }, { "*", true }
    };
    struct sg_err err;
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        struct sg_policy p = { .mode = SG_MODE_FILTERED };
        assert_ok(sg_netnames_add(&p.networks, sg_str_of("team"), &err), err);
        assert_ok(sg_netrules_add(&p.allow, sg_str_of(cases[i].rule), &err), err);
        if (cases[i].is_fine)
            assert_ok(sg_policy_check(&p, &err), err);
        else
            assert_fails(sg_policy_check(&p, &err), err, SG_INVALID);
        sg_policy_done(&p);
    }
}

static void words_of_networks_are_parts_of_names(void **state)
{
    (void)state;
    static const char *const bad[] = { "", ".", "a.b", "a b", "-a", "t\xc3\xa4m", "7" };
    static const char *const taken[] = { "google", "EC2",      "docker", "containers",
                                         "lima",   "metadata", "host",   "Minikube" };
    struct sg_netnames n = { 0 }, copy;
    struct sg_err err;
    char word[2] = "a";
    for (size_t i = 0; i < SG_COUNT(bad); i++) {
        assert_fails(sg_netnames_add(&n, sg_str_of(bad[i]), &err), err, SG_INVALID);
        assert_fails(sg_netnames_call(&n, sg_str_of(bad[i]), &err), err, SG_INVALID);
    }
    for (size_t i = 0; i < SG_COUNT(taken); i++) /* metadata.google.internal stays what it is */
        assert_fails(sg_netnames_add(&n, sg_str_of(taken[i]), &err), err, SG_INVALID);
    for (; n.n < SG_NETNAMES_MAX; word[0]++)
        assert_ok(sg_netnames_add(&n, sg_str_of(word), &err), err);
    assert_fails(sg_netnames_add(&n, sg_str_of("one-more"), &err), err, SG_EXHAUSTED);
    assert_ok(sg_netnames_call(&n, sg_str_of("web"), &err), err);
    assert_ok(sg_netnames_call(&n, sg_str_of("DB"), &err), err);
    sg_netnames_copy(&copy, &n);
    sg_netnames_done(&n);
    assert_true(sg_netnames_has(&copy, "h") && !sg_netnames_has(&copy, "i"));
    assert_string_equal(copy.own, "db");
    assert_null(copy.v[copy.n]);
    sg_netnames_done(&copy);
}

static struct sg_netverdict egress(const struct sg_policy *p, const struct sg_nets *permitted,
                                   const char *at)
{
    struct sg_name name;
    struct sg_addr addr;
    struct sg_target t;
    struct sg_netverdict v;
    assert_int_equal(sg_egress_target(at, &name, &addr, &t, NULL), 0);
    sg_policy_judge_egress(p, permitted, &t, &v);
    return v;
}

static void a_proxy_is_judged_by_what_lies_above_and_by_its_address(void **state)
{
    (void)state;
    struct sg_nets permitted = { 0 };
    struct sg_policy org = { .mode = SG_MODE_FILTERED, .layer = "organisation" };
    struct sg_policy own = { .mode = SG_MODE_FILTERED };
    assert_int_equal(sg_nets_add(&permitted, sg_str_of("10.1.0.0/16"), NULL), 0);
    assert_int_equal(sg_netrules_add(&own.deny, sg_str_of("1.1.1.1"), NULL), 0);
    assert_true(egress(&own, &permitted, "1.1.1.1:853").is_allowed); /* where it ends is its own */
    assert_true(egress(&own, &permitted, "10.1.2.3:1080").is_allowed);
    assert_string_equal(egress(&own, &permitted, "10.2.0.1:1080").rule, "always refused: private");
    assert_string_equal(egress(&own, NULL, "[::1]:1080").rule, "always refused: loopback");
    own.above = &org;
    assert_string_equal(egress(&own, &permitted, "proxy.com:1080").rule,
                        "organisation: no rule allows it");
    assert_int_equal(sg_netrules_add(&org.allow, sg_str_of("proxy.com:1080"), NULL), 0);
    assert_true(egress(&own, &permitted, "proxy.com:1080").is_allowed);
    assert_false(egress(&own, &permitted, "proxy.com:1081").is_allowed);
    sg_policy_done(&org);
    sg_policy_done(&own);
    sg_nets_done(&permitted);
}

static void only_rules_about_names_decide_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *rule;
        bool is_by_name;
    } rows[] = {
        { "example.com", true }, { "*.com:443", true }, { "*", false }, { "93.0.0.0/8", false }
    };
    const struct sg_addr addr = sg_addr_v4(0x5db8d822);
    const struct sg_target t = { .name = "example.com", .addr = &addr, .port = 443 };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        struct sg_policy p = { .mode = SG_MODE_FILTERED };
        struct sg_netverdict v;
        assert_int_equal(sg_netrules_add(&p.allow, sg_str_of(rows[i].rule), NULL), 0);
        sg_policy_judge(&p, NULL, &t, &v);
        assert_true(v.is_allowed);
        assert_int_equal(v.is_by_name, rows[i].is_by_name);
        sg_policy_done(&p);
    }
    const struct sg_policy open = { .mode = SG_MODE_OPEN };
    struct sg_netverdict v;
    sg_policy_judge(&open, NULL, &t, &v);
    assert_true(v.is_allowed && !v.is_by_name);
}

static void the_box_of_a_password_is_for_one_proxy(void **state)
{
    (void)state;
    struct sg_egress a = { .address = "p:1", .user = "u" }, b = { .address = "p:1", .user = "v" },
                     c = { .address = "q:1", .user = "u" };
    sg_auto_free char *first = sg_egress_context(&a, "org"), *user = sg_egress_context(&b, "org"),
                      *place = sg_egress_context(&c, "org"), *org = sg_egress_context(&a, "other");
    assert_string_not_equal(first, user);
    assert_string_not_equal(first, place);
    assert_string_not_equal(first, org);
    assert_false(sg_egress_is_same(&a, &b) || sg_egress_is_same(&a, &c));
    struct sg_egress copy;
    sg_egress_copy(&copy, &a);
    assert_true(sg_egress_is_same(&a, &copy));
    sg_egress_done(&copy);
    assert_null(copy.address);
    struct sg_policy none = { .mode = SG_MODE_NONE, .egress = a };
    struct sg_err err = { 0 };
    assert_true(sg_policy_check(&none, &err) < 0 && err.kind == SG_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_of_a_network_reach_each_other_by_its_names),
        cmocka_unit_test(words_of_networks_are_parts_of_names),
        cmocka_unit_test(rules_for_members_could_never_count),
        cmocka_unit_test(names_have_one_form),
        cmocka_unit_test(labels_and_names_have_their_length),
        cmocka_unit_test(what_is_not_public_is_known),
        cmocka_unit_test(networks_hold_what_is_in_them),
        cmocka_unit_test(the_strictest_word_counts),
        cmocka_unit_test(what_is_allowed_first_beats_what_is_denied),
        cmocka_unit_test(rules_that_are_none_are_refused),
        cmocka_unit_test(what_lies_above_is_asked_first),
        cmocka_unit_test(known_servers_of_names_need_a_rule_that_means_them),
        cmocka_unit_test(a_proxy_is_judged_by_what_lies_above_and_by_its_address),
        cmocka_unit_test(only_rules_about_names_decide_by_name),
        cmocka_unit_test(the_box_of_a_password_is_for_one_proxy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
