/* SPDX-License-Identifier: Apache-2.0 */
/* Dockerfiles and .dockerignore: what is read, and what is refused with line and reason. */
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "check.h"
#include "image/dockerfile.h"
#include "base/banned.h"

static struct sg_dockerfile file;

static void parse(const char *text, const char *const *args)
{
    struct sg_err err = { 0 };
    if (sg_dockerfile_parse(&file, sg_str_of(text), args, &err) < 0)
        fail_msg("%s", err.msg);
}

static void refuse(const char *text, const char *why)
{
    struct sg_err err = { 0 };
    assert_int_equal(sg_dockerfile_parse(&file, sg_str_of(text), NULL, &err), -1);
    assert_int_equal(err.kind, SG_INVALID);
    if (!sg_starts_with(err.msg, why))
        fail_msg("'%s' and not '%s'", err.msg, why);
    sg_dockerfile_done(&file);
}

/* "RUN a|b" of a step. */
static void expect_step(size_t stage, size_t step, const char *want)
{
    sg_auto_buf out;
    sg_buf_init(&out, 4096);
    assert_true(stage < file.n && step < file.stages[stage].n);
    const struct sg_docker_step *s = &file.stages[stage].steps[step];
    sg_buf_add_str(&out, sg_docker_names[s->op]);
    for (size_t i = 0; i < s->n; i++)
        sg_buf_addf(&out, "%c%s", i ? '|' : ' ', s->words[i]);
    assert_string_equal(sg_buf_cstr(&out), want);
}

static void continued_lines_are_one_and_comments_are_none(void **state)
{
    (void)state;
    parse("# comment\nFROM base\nRUN a && \\\n  # inside\n\n  b\nrun c\n", NULL);
    expect_step(0, 0, "RUN a &&   b");
    assert_int_equal(file.stages[0].steps[0].line, 3);
    expect_step(0, 1, "RUN c");
    assert_int_equal(file.stages[0].steps[1].line, 7);
    sg_dockerfile_done(&file);
    parse("# escape=`\nFROM base\nRUN a `\nb \\\n", NULL);
    expect_step(0, 0, "RUN a b \\");
    sg_dockerfile_done(&file);
}

static void variables_are_replaced_where_docker_does_it(void **state)
{
    (void)state;
    static const char *const args[] = { "B=given", NULL };
    parse("ARG I=base\nFROM $I\nARG B=usual\nARG C\nENV D=\"x ${B}\" E=${none:-or} F=${B:+set}\n"
          "WORKDIR /$D/$E$F\nCOPY a$B '$B' /\"$E\"/\nRUN echo $B\nENV G the rest $B\nUSER \\$B\n",
          args);
    assert_string_equal(file.stages[0].image, "base");
    expect_step(0, 0, "ENV D|x given|E|or|F|set");
    expect_step(0, 1, "WORKDIR /x given/orset");
    expect_step(0, 2, "COPY agiven|$B|/or/");
    expect_step(0, 3, "RUN echo $B");
    expect_step(0, 4, "ENV G|the rest given");
    expect_step(0, 5, "USER $B");
    assert_string_equal(file.stages[0].steps[3].args[0], "B=given");
    assert_null(file.stages[0].steps[3].args[1]);
    sg_dockerfile_done(&file);
}

static void stages_are_found_by_name_and_number(void **state)
{
    (void)state;
    parse("FROM base AS one\nRUN a\nFROM one as two\nFROM other\nCOPY --from=one --chown=u:g "
          "--chmod=0755 /a /b\n"
          "COPY --from=1 /a /b\n",
          NULL);
    assert_int_equal(file.n, 3);
    assert_null(file.stages[1].image);
    assert_int_equal(file.stages[1].stage, 1);
    assert_int_equal(file.stages[2].steps[0].stage, 1);
    assert_string_equal(file.stages[2].steps[0].chown, "u:g");
    assert_string_equal(file.stages[2].steps[0].chmod, "0755");
    assert_int_equal(file.stages[2].steps[1].stage, 2);
    sg_dockerfile_done(&file);
}

static void commands_of_either_form_become_a_line(void **state)
{
    (void)state;
    parse("FROM a\nSHELL [\"/bin/bash\", \"-c\"]\nRUN [\"x\", \"y z\"]\nRUN w\nENTRYPOINT "
          "[\"it's\", \"$a\"]\nCMD [\"b\"]\n",
          NULL);
    expect_step(0, 0, "RUN x|y z");
    assert_true(file.stages[0].steps[0].is_exec);
    assert_string_equal(file.stages[0].steps[1].shell[0], "/bin/bash");
    assert_string_equal(file.stages[0].start, "'it'\\''s' '$a' 'b'");
    sg_dockerfile_done(&file);
    parse("FROM a\nCMD x\nENTRYPOINT y z\nCMD w\n", NULL);
    assert_string_equal(file.stages[0].start, "y z");
    sg_dockerfile_done(&file);
    parse("FROM a\nRUN <<EOF\nb\n c\nEOF\nRUN cat <<-'X' > y\n\td\n\tX\n", NULL);
    expect_step(0, 0, "RUN b\n c\n");
    expect_step(0, 1, "RUN cat <<-'X' > y\nd\nX\n");
    sg_dockerfile_done(&file);
}

static void what_is_wrong_is_told_with_its_line(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        { "", "line 1: there is no FROM" },
        { "\n\nFLY me\n", "line 3: 'FLY' is no instruction" },
        { "RUN x\n", "line 1: RUN stands before the first FROM" },
        { "FROM\n", "line 1: FROM needs an image" },
        { "FROM a b\n", "line 1: FROM needs an image" },
        { "FROM $NONE\n", "line 1: FROM has an empty image" },
        { "FROM a\nCOPY x\n", "line 2: COPY needs a source and a destination" },
        { "FROM a\nCOPY x y z\n", "line 2: 'z' must end with '/'" },
        { "FROM a\nCOPY --from=no x y\n", "line 2: 'no' is no earlier stage" },
        { "FROM a AS b\nCOPY --from=b x y\n", "line 2: 'b' is no earlier stage" },
        { "FROM a\nCOPY --chmod=9 x y\n", "line 2: '9' is no octal mode" },
        { "FROM a\nCOPY --form=x y z\n", "line 2: COPY does not take '--form=x' here" },
        { "FROM a\nRUN --mount=type=cache x\n", "line 2: RUN does not take" },
        { "FROM a\nADD https://x/y z\n", "line 2: 'https://x/y' is fetched by nobody here" },
        { "FROM a\nENV A\n", "line 2: 'A' has no value" },
        { "FROM a\nENV A=1 B\n", "line 2: 'B' is no name=value" },
        { "FROM a\nENV A=\"x\n", "line 2: a quote has no end" },
        { "FROM a\nENV A=${x\n", "line 2: a '${' has no end" },
        { "FROM a\nENV A=${x?y}\n", "line 2: of ${...} only" },
        { "FROM a\nARG 1=2\n", "line 2: '1=2' is no name of an ARG" },
        { "FROM a\nRUN\n", "line 2: RUN needs a command" },
        { "FROM a\nWORKDIR\n", "line 2: WORKDIR needs an argument" },
        { "FROM a\nSHELL /bin/sh\n", "line 2: SHELL needs a list" },
        { "FROM a\nEXPOSE x\n", "line 2: 'x' is no port" },
        { "FROM a\nONBUILD RUN x\n", "line 2: ONBUILD is not supported" },
        { "FROM a\nRUN <<EOF\nx\n", "line 2: the here-document has no end" },
        { "FROM a\nCOPY <<EOF /x\ny\nEOF\n", "line 2: here-documents are known to RUN only" },
        { "FROM a\nRUN [\"a\", 1]\n", "line 2: a list in brackets holds texts" },
    };
    for (size_t i = 0; i < SG_COUNT(bad); i++)
        refuse(bad[i][0], bad[i][1]);
}

static void patterns_match_as_gos_do(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *path;
        bool is_match;
    } rows[] = {
        { "*.txt", "a.txt", true },
        { "*.txt", "d/a.txt", false },
        { "d/*", "d/a", true },
        { "d/*", "d/a/b", false },
        { "**/a", "a", true },
        { "**/a", "x/y/a", true },
        { "**/a", "x/b", false },
        { "a/**/b", "a/b", true },
        { "a/**/b", "a/x/y/b", true },
        { "a/**", "a/x/y", true },
        { "?", "a", true },
        { "?", "/", false },
        { "[a-c]x", "bx", true },
        { "[^a-c]x", "bx", false },
        { "a*b*c", "a1b2b3c", true },
        { "a*b*c", "a1b2b3", false },
        { "\\*", "*", true },
        { "\\*", "a", false },
        { "**", "a/b", true },
        { "a", "a/b", false },
        { "*/b/**/c", "a/b/c", true },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        if (sg_docker_match(rows[i].pattern, rows[i].path) != rows[i].is_match)
            fail_msg("%s against %s", rows[i].pattern, rows[i].path);
}

static void the_last_line_that_matches_decides_what_is_left_out(void **state)
{
    (void)state;
    const struct sg_str text =
        sg_str_of("# all logs\n*.log\n/build/\n!build/keep\n**/tmp*\n ./x/y \n!\n");
    assert_true(sg_dockerignore_has(text, "a.log"));
    assert_false(sg_dockerignore_has(text, "d/a.log"));
    assert_true(sg_dockerignore_has(text, "build"));
    assert_true(sg_dockerignore_has(text, "build/a/b"));
    assert_false(sg_dockerignore_has(text, "build/keep"));
    assert_false(sg_dockerignore_has(text, "build/keep/c"));
    assert_true(sg_dockerignore_has(text, "d/tmp1/x"));
    assert_true(sg_dockerignore_has(text, "x/y"));
    assert_false(sg_dockerignore_has(text, "x"));
    assert_false(sg_dockerignore_has(sg_str_of(""), "x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(continued_lines_are_one_and_comments_are_none),
        cmocka_unit_test(variables_are_replaced_where_docker_does_it),
        cmocka_unit_test(stages_are_found_by_name_and_number),
        cmocka_unit_test(commands_of_either_form_become_a_line),
        cmocka_unit_test(what_is_wrong_is_told_with_its_line),
        cmocka_unit_test(patterns_match_as_gos_do),
        cmocka_unit_test(the_last_line_that_matches_decides_what_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
