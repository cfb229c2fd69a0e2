/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns, paths, and what becomes of tool calls: a table over the rules that come with it, and
 * files with mistakes. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "router/glob.h"
#include "router/intercept.h"
#include "base/banned.h"

/* ---- patterns ---- */

static void patterns_match_texts(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool is_match;
    } cases[] = {
        { "", "", true },
        { "", "a", false },
        { "abc", "abc", true },
        { "abc", "abcd", false },
        { "a*c", "ac", true },
        { "a*c", "a/b/c", true },
        { "a?c", "abc", true },
        { "a?c", "ac", false },
        { "*", "", true },
        { "*rm -rf*", "x; rm -rf /", true },
        { "git *", "git push", true },
        { "git *", "gitk", false },
        { "*a*b*", "xxbxa", false },
        { "mcp__*__write", "mcp__x__write", true },
        { "a**c", "abbc", true },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++)
        if (sg_glob_text(cases[i].pattern, sg_str_of(cases[i].text)) != cases[i].is_match)
            fail_msg("'%s' on '%s'", cases[i].pattern, cases[i].text);
}

static void patterns_match_paths(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *path;
        bool is_match;
    } cases[] = {
        { "/etc/**", "/etc/passwd", true },
        { "/etc/**", "/etc/a/b", true },
        { "/etc/**", "/etc", true },
        { "/etc/**", "/etcetera", false },
        { "/etc/*", "/etc/a/b", false },
        { "/etc/*", "/etc/a", true },
        { "/home/*/.ssh/**", "/home/u/.ssh/id", true },
        { "/home/*/.ssh/**", "/home/u/v/.ssh/id", false },
        { "**/.env", "/a/b/.env", true },
        { "**/.env", "/a/b/.envy", false },
        { "/a/**/z/*.c", "/a/b/c/z/x.c", true },
        { "/a/**/z/*.c", "/a/z/y/z/x.c", true },
        { "/a/**/z/*.c", "/a/z/y/z/q/x.c", false },
        { "/a?b", "/a/b", false },
        { "/a?b", "/axb", true },
        { "**", "/anything/at all", true },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++)
        if (sg_glob_path(cases[i].pattern, sg_str_of(cases[i].path)) != cases[i].is_match)
            fail_msg("'%s' on '%s'", cases[i].pattern, cases[i].path);
}

/* With a matcher that tries everything this would not end. */
static void many_stars_end_in_time(void **state)
{
    (void)state;
    char text[20001];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_false(sg_glob_text("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", sg_str_of(text)));
}

/* ---- paths ---- */

static void paths_become_plain(void **state)
{
    (void)state;
    static const struct {
        const char *cwd, *path, *plain;
    } cases[] = {
        { "/a/b", "c", "/a/b/c" },
        { "/a/b", "../c", "/a/c" },
        { "/a", "../../../c", "/c" },
        { "/a", "/x//y/./z/..", "/x/y" },
        { "/", "..", "/" },
        { "/a/", ".", "/a" },
        { "/a", "b/../../etc/passwd", "/etc/passwd" },
        { "/a", "...", "/a/..." },
    };
    char got[SG_INTERCEPT_PATH_MAX], *much = sg_alloc(5000);
    struct sg_err err = { 0 };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        assert_ok(sg_path_plain(cases[i].cwd, cases[i].path, got, &err), err);
        assert_string_equal(got, cases[i].plain);
    }
    assert_int_equal(sg_path_plain("here", "a", got, &err), -1);
    memset(much, 'a', 4095);
    assert_int_equal(sg_path_plain("/", much, got, &err), -1);
    much[4094] = '\0';
    assert_ok(sg_path_plain("/", much, got, &err), err);
    free(much);
}

static void directories_are_mapped_and_the_rest_is_the_sandboxs_own(void **state)
{
    (void)state;
    static const struct {
        const char *root, *path, *inside;
    } cases[] = {
        { "/home/u/p", "/home/u/p/a/b", "/workspace/a/b" },
        { "/home/u/p", "/home/u/p", "/workspace" },
        { "/home/u/p", "/home/u/pq", "/home/u/pq" },
        { "/home/u/p", "/etc/passwd", "/etc/passwd" },
        { "/", "/etc/passwd", "/workspace/etc/passwd" },
        { "/", "/", "/workspace" },
    };
    char got[SG_INTERCEPT_PATH_MAX];
    struct sg_err err = { 0 };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        assert_ok(sg_path_inside(cases[i].root, "/workspace", cases[i].path, got, &err), err);
        assert_string_equal(got, cases[i].inside);
    }
}

/* ---- calls ---- */

static struct sg_intercept_rules *parse(const char *text)
{
    struct sg_err err = { 0 };
    struct sg_intercept_rules *r = sg_intercept_parse(sg_str_of(text), "own.toml", &err);
    if (!r)
        fail_msg("%s", err.msg);
    return r;
}

static struct sg_arena heard; /* of all calls: decisions point into them */

static int begin(void **state)
{
    (void)state;
    sg_arena_init(&heard, 1 << 20);
    return 0;
}

static int end(void **state)
{
    (void)state;
    sg_arena_done(&heard);
    return 0;
}

static struct sg_interception decide(const struct sg_intercept_rules *r, const char *tool,
                                     const char *input, const char *resolved)
{
    struct sg_interception d;
    struct sg_err err = { 0 };
    const struct sg_jval *v;
    assert_ok(sg_json_parse(sg_str_of(input), &heard, &v, &err), err);
    const struct sg_tool_call c = { tool, "o1", "/home/u/p", v, resolved };
    assert_ok(sg_intercept_decide(r, &c, &d, &err), err);
    return d;
}

static void the_rules_that_come_with_it(void **state)
{
    (void)state;
    static const struct {
        const char *tool, *input, *rule;
        enum sg_intercept_action action;
    } cases[] = {
        { "Bash", "{\"command\":\"rm -rf /\",\"description\":\"x\"}", "shell",
          SG_INTERCEPT_SANDBOX },
        { "Read", "{\"file_path\":\"/etc/passwd\"}", "files", SG_INTERCEPT_SANDBOX },
        { "Write", "{\"file_path\":\"a\",\"content\":\"x\"}", "files", SG_INTERCEPT_SANDBOX },
        { "NotebookEdit", "{\"notebook_path\":\"/x\"}", "files", SG_INTERCEPT_SANDBOX },
        { "Bash", "{}", "shell", SG_INTERCEPT_BLOCK },
        { "Bash", "{\"command\":1}", "shell", SG_INTERCEPT_BLOCK },
        { "Read", "{\"file_path\":\"/a\",\"path\":\"/b\"}", "files", SG_INTERCEPT_BLOCK },
        { "Grep", "{\"pattern\":\"x\"}", "search", SG_INTERCEPT_BLOCK },
        { "TodoWrite", "{}", "own-mind", SG_INTERCEPT_ALLOW },
        { "WebFetch", "{\"url\":\"https://x\"}", "network", SG_INTERCEPT_APPROVE },
        { "mcp__db__drop", "{}", "anything-else", SG_INTERCEPT_APPROVE },
        { "bash", "{\"command\":\"id\"}", "anything-else", SG_INTERCEPT_APPROVE },
    };
    struct sg_err err = { 0 };
    struct sg_intercept_rules *r = sg_intercept_builtin(&err);
    if (!r)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        const struct sg_interception d = decide(r, cases[i].tool, cases[i].input, NULL);
        if (!d.rule || strcmp(d.rule->name, cases[i].rule) != 0 || d.action != cases[i].action)
            fail_msg("%s %s: %s by %s", cases[i].tool, cases[i].input,
                     sg_intercept_action_names[d.action], d.rule ? d.rule->name : "none");
    }
    sg_intercept_free(r);
}

#define HEAD "version = 1\n[arguments]\ncommand = \"command\"\npath = \"file_path\"\n"
#define RULE "[[rule]]\nname = \"r\"\nreason = \"w\"\n"

static void conditions_all_count(void **state)
{
    (void)state;
    struct sg_intercept_rules *r = parse(
        HEAD RULE "tool = \"B*\"\naction = \"block\"\n"
                  "arguments = { command = [\"*curl*\", \"*wget*\"], who = \"me\" }\n"
                  "[[rule]]\nname = \"other\"\nreason = \"w\"\norg = \"o2\"\naction = \"allow\"\n"
                  "[[rule]]\nname = \"mine\"\nreason = \"w\"\norg = \"o1\"\ntool = \"B\"\naction = "
                  "\"sandbox\"\n");
    struct sg_interception d = decide(r, "B", "{\"command\":\"a wget b\",\"who\":\"me\"}", NULL);
    assert_string_equal(d.rule->name, "r");
    d = decide(r, "B", "{\"command\":\"a wget b\"}", NULL);
    assert_string_equal(d.rule->name, "mine");
    assert_string_equal(d.command->s.p, "a wget b");
    d = decide(r, "C", "{\"command\":\"a wget b\",\"who\":\"me\"}", NULL);
    assert_null(d.rule);
    assert_int_equal(d.action, SG_INTERCEPT_BLOCK);
    sg_intercept_free(r);
}

/* A link out of the permitted directory does not lead out; one into a forbidden place is seen. */
static void a_path_counts_as_written_and_as_resolved(void **state)
{
    (void)state;
    struct sg_intercept_rules *r =
        parse(HEAD RULE "path = \"/etc/**\"\naction = \"block\"\n"
                        "[[rule]]\nname = \"docs\"\nreason = \"w\"\npath = \"/home/u/p/docs/**\"\n"
                        "action = \"allow\"\n");
    static const struct {
        const char *path, *resolved, *rule;
    } cases[] = {
        { "docs/a", NULL, "docs" },
        { "docs/a", "/home/u/p/docs/a", "docs" },
        { "docs/a", "/home/u/secret", NULL },
        { "docs/a", "/etc/shadow", "r" },
        { "/etc/shadow", "/home/u/p/docs/a", "r" },
        { "docs/../../../../etc/x", NULL, "r" },
        { "x", "/home/u/p/docs/a", NULL },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        sg_auto_free char *input = sg_printf("{\"file_path\":\"%s\"}", cases[i].path);
        const struct sg_interception d = decide(r, "Read", input, cases[i].resolved);
        if (!d.rule != !cases[i].rule || (d.rule && strcmp(d.rule->name, cases[i].rule) != 0))
            fail_msg("case %zu: %s", i, d.rule ? d.rule->name : "none");
    }
    sg_intercept_free(r);
}

static void what_is_no_path_is_refused(void **state)
{
    (void)state;
    struct sg_intercept_rules *r = parse(HEAD RULE "action = \"allow\"\n");
    static const char *const inputs[] = { "{\"file_path\":\"\"}", "{\"file_path\":\"a\\u0000b\"}" };
    struct sg_interception d;
    for (size_t i = 0; i < SG_COUNT(inputs); i++) {
        struct sg_err err = { 0 };
        sg_auto_arena a;
        const struct sg_jval *v;
        sg_arena_init(&a, 1 << 20);
        assert_ok(sg_json_parse(sg_str_of(inputs[i]), &a, &v, &err), err);
        const struct sg_tool_call c = { "Read", "o1", "/", v, NULL };
        assert_int_equal(sg_intercept_decide(r, &c, &d, &err), -1);
        assert_int_equal(err.kind, SG_INVALID);
    }
    struct sg_err err = { 0 };
    const struct sg_tool_call c = { "Read", "o1", "here", NULL, NULL };
    assert_int_equal(sg_intercept_decide(r, &c, &d, &err), -1);
    sg_intercept_free(r);
}

static void mistakes_have_a_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "", "version is missing" },
        { "version = 2\n" RULE "action=\"allow\"\n[arguments]\ncommand=\"c\"\npath=\"p\"\n",
          "own.toml:1:11: version must be 1" },
        { HEAD, "rule is missing" },
        { "version = [", "own.toml: 1:" },
        { HEAD RULE, "action is missing" },
        { HEAD RULE "action = \"permit\"\n", "own.toml:8:10: no action 'permit'" },
        { HEAD RULE "action = \"alow\"\n", "did you mean 'allow'" },
        { HEAD RULE "action = \"block\"\nthen = \"allow\"\n",
          "own.toml:9:8: then is what follows" },
        { HEAD RULE "action = \"approve\"\nthen = \"block\"\n", "own.toml:9:8: then is" },
        { HEAD RULE "action = \"allow\"\npath = \"etc\"\n", "own.toml:9:8: 'etc' matches no path" },
        { HEAD RULE "action = \"allow\"\ntool = []\n", "own.toml:9:8: tool is an empty list" },
        { HEAD RULE "action = \"allow\"\ntool = [3]\n", "own.toml:9:9: a string is wanted" },
        { HEAD RULE "action = \"allow\"\narguments = \"x\"\n",
          "own.toml:9:13: arguments are a table" },
        { HEAD RULE "action = \"allow\"\narguments = { c = 3 }\n", "a string is wanted" },
        { HEAD RULE "action = \"allow\"\n" RULE "action = \"allow\"\n",
          "there is a rule 'r' already" },
        { HEAD RULE "action = \"allow\"\ntoool = \"x\"\n",
          "unknown key 'toool' (did you mean 'tool'?)" },
        { HEAD "[sandbox]\nworkspace = \"w\"\n" RULE "action = \"allow\"\n",
          "own.toml:6:13: a plain" },
        { HEAD "[sandbox]\nlifetime = 3\n" RULE "action = \"allow\"\n", "own.toml:6:12: a time" },
        { HEAD "[sandbox]\nlifetime = \"soon\"\n" RULE "action = \"allow\"\n", "own.toml:6:12: " },
        { "version = 1\n[arguments]\ncommand = \"c\"\n" RULE "action = \"allow\"\n",
          "path is missing" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        struct sg_err err = { 0 };
        struct sg_intercept_rules *r =
            sg_intercept_parse(sg_str_of(cases[i].text), "own.toml", &err);
        if (r || err.kind != SG_INVALID || !strstr(err.msg, cases[i].words))
            fail_msg("case %zu: '%s' does not say '%s'", i, err.msg, cases[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_texts),
        cmocka_unit_test(patterns_match_paths),
        cmocka_unit_test(many_stars_end_in_time),
        cmocka_unit_test(paths_become_plain),
        cmocka_unit_test(directories_are_mapped_and_the_rest_is_the_sandboxs_own),
        cmocka_unit_test(the_rules_that_come_with_it),
        cmocka_unit_test(conditions_all_count),
        cmocka_unit_test(a_path_counts_as_written_and_as_resolved),
        cmocka_unit_test(what_is_no_path_is_refused),
        cmocka_unit_test(mistakes_have_a_place),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
