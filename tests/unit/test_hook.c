/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/hook.h"
#include "base/banned.h"

#define CALL "\"session_id\":\"s-1\",\"cwd\":\"/p\",\"tool_name\":\"Bash\""

static int read_call(const char *text, struct sg_arena *a, struct sg_hook_call *c,
                     struct sg_err *err)
{
    sg_arena_init(a, 1 << 20);
    return sg_hook_read(sg_str_of(text), a, c, err);
}

static void a_call_is_read(void **state)
{
    (void)state;
    sg_auto_arena a;
    struct sg_hook_call c;
    struct sg_err err = { 0 };
    assert_ok(
        read_call("{" CALL ",\"tool_input\":{\"command\":\"ls\"},\"other\":[1]}", &a, &c, &err),
        err);
    assert_int_equal(c.event, SG_HOOK_BEFORE);
    assert_string_equal(c.tool, "Bash");
    assert_string_equal(c.cwd, "/p");
    assert_string_equal(c.session, "s-1");
    assert_string_equal(sg_json_get(c.input, "command")->s.p, "ls");
}

static void events_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum sg_hook_event event;
    } cases[] = {
        { "{\"hook_event_name\":\"PreToolUse\"," CALL "}", SG_HOOK_BEFORE },
        { "{\"hook_event_name\":\"PostToolUse\"," CALL "}", SG_HOOK_AFTER },
        { "{\"hook_event_name\":\"SessionEnd\",\"session_id\":\"s\",\"cwd\":\"/\"}", SG_HOOK_END },
        { "{\"hook_event_name\":\"Stop\"}", SG_HOOK_OTHER },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        sg_auto_arena a;
        struct sg_hook_call c;
        struct sg_err err = { 0 };
        assert_ok(read_call(cases[i].text, &a, &c, &err), err);
        assert_int_equal(c.event, cases[i].event);
    }
}

static void what_is_no_call_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{" CALL ",\"tool_input\":7}",
        "{\"session_id\":\"../x\",\"cwd\":\"/\",\"tool_name\":\"B\"}",
        "{\"session_id\":\".\",\"cwd\":\"/\",\"tool_name\":\"B\"}",
        "{\"session_id\":\"s\",\"cwd\":\"here\",\"tool_name\":\"B\"}",
        "{\"session_id\":\"s\",\"cwd\":\"/\",\"tool_name\":\"\"}",
        "{\"session_id\":\"s\",\"cwd\":\"/\",\"tool_name\":\"a\\u0000b\"}",
    };
    for (size_t i = 0; i < SG_COUNT(texts); i++) {
        sg_auto_arena a;
        struct sg_hook_call c;
        struct sg_err err = { 0 };
        if (read_call(texts[i], &a, &c, &err) == 0 || err.kind != SG_INVALID)
            fail_msg("%s", texts[i]);
    }
}

static void an_answer_replaces_one_argument(void **state)
{
    (void)state;
    sg_auto_arena a;
    sg_auto_buf out;
    struct sg_hook_call c;
    struct sg_err err = { 0 };
    sg_buf_init(&out, 4096);
    assert_ok(read_call("{" CALL ",\"tool_input\":{\"a\":[1,2.5],\"command\":\"x\",\"z\":null}}",
                        &a, &c, &err),
              err);
    const struct sg_hook_answer answer = { SG_HOOK_ALLOW, "why \"so\"", "command", "y" };
    sg_hook_write(&out, &c, &answer);
    assert_string_equal(sg_buf_cstr(&out),
                        "{\"hookSpecificOutput\":{\"hookEventName\":\"PreToolUse\","
                        "\"permissionDecision\":\"allow\",\"permissionDecisionReason\":"
                        "\"why \\\"so\\\"\",\"updatedInput\":{\"a\":[1,2.5],\"command\":\"y\","
                        "\"z\":null}}}\n");
    sg_buf_clear(&out);
    sg_hook_write(&out, &c, &(struct sg_hook_answer) { SG_HOOK_DENY, "no", NULL, NULL });
    assert_null(strstr(sg_buf_cstr(&out), "updatedInput"));
    assert_non_null(strstr(sg_buf_cstr(&out), "\"deny\""));
}

/* By a real shell. */
static void any_text_is_one_word(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "a b", "it's", "''", "$(id) `id` \\ \"x\" ; & | \n #", "-n", "*"
    };
    for (size_t i = 0; i < SG_COUNT(texts); i++) {
        sg_auto_buf line;
        char got[256] = "";
        sg_buf_init(&line, 4096);
        sg_buf_add_str(&line, "printf %s ");
        sg_hook_quote(&line, texts[i]);
        FILE *p = popen(sg_buf_cstr(&line), "r");
        assert_non_null(p);
        (void)!fread(got, 1, sizeof got - 1, p);
        assert_int_equal(pclose(p), 0);
        assert_string_equal(got, texts[i]);
    }
}

static void every_mention_is_replaced(void **state)
{
    (void)state;
    sg_auto_buf out;
    sg_buf_init(&out, 4096);
    sg_hook_replace(&out, sg_str_of("cat /s/f/a /s/f/b x/s/f"), "/s/f", "");
    assert_string_equal(sg_buf_cstr(&out), "cat /a /b x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_read),
        cmocka_unit_test(events_are_told_apart),
        cmocka_unit_test(what_is_no_call_is_refused),
        cmocka_unit_test(an_answer_replaces_one_argument),
        cmocka_unit_test(any_text_is_one_word),
        cmocka_unit_test(every_mention_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
