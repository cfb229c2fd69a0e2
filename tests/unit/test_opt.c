/* SPDX-License-Identifier: Apache-2.0 */
/* cli/opt: from words to flags and arguments. */
#include <string.h>

#include "base/auto.h"
#include "cli/opt.h"
#include "check.h"
#include "base/banned.h"

static const struct sg_command run = { .name = "run",
                                       .tail = "[options] -- command",
                                       .bit = SG_FOR_RUN,
                                       .min_args = 1,
                                       .max_args = -1,
                                       .stops_at_word = true };
static const struct sg_command import = { .name = "template import",
                                          .tail = "FILE",
                                          .bit = SG_FOR_TEMPLATE_IMPORT,
                                          .min_args = 1,
                                          .max_args = 1 };

enum { MAX_WORDS = 16 };

/* Scans the words of `line`, which are apart by single spaces, and applies them to `c`. */
static int scan(const struct sg_command *command, const char *line, struct sg_flags *ret,
                struct sg_config *c, struct sg_err *err)
{
    static char store[512]; /* the flags borrow from it */
    char *words[MAX_WORDS + 1];
    int n = 0;
    assert_true(strlen(line) < sizeof store);
    memcpy(store, line, strlen(line) + 1);
    for (char *p = store; p && *p && n < MAX_WORDS;) {
        words[n++] = p;
        p = strchr(p, ' ');
        if (p)
            *p++ = '\0';
    }
    words[n] = NULL;
    struct sg_origins o;
    sg_config_init(c, &o);
    if (sg_flags_scan(command, n, words, ret, err) < 0)
        return -1;
    return sg_flags_apply(ret, c, &o, err);
}

static void done(struct sg_flags *f, struct sg_config *c)
{
    struct sg_origins none = { 0 };
    sg_flags_done(f);
    sg_config_done(c, &none);
}

static void both_spellings_of_a_value_are_read(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "--memory=64m --net open --tty -- true",
        "--memory 64m --net=open --tty=on true",
        "-m 64m --net=open -t true",
        "-m64m --net=open --no-tty -qt true",
    };
    for (size_t i = 0; i < SG_COUNT(lines); i++) {
        struct sg_flags f = { 0 };
        struct sg_config c;
        struct sg_err err;
        assert_ok(scan(&run, lines[i], &f, &c, &err), err);
        assert_true(c.memory_bytes == 64 << 20);
        assert_int_equal(c.net, SG_NET_OPEN);
        assert_int_equal(c.tty, SG_TTY_ON);
        assert_int_equal(f.arg_count, 1);
        assert_string_equal(f.args[0], "true");
        assert_null(f.args[1]);
        done(&f, &c);
    }
}

static void what_follows_the_command_word_is_the_commands_own(void **state)
{
    (void)state;
    static const char *const lines[] = { "--pids 9 ls --json -- -l",
                                         "--pids 9 -- ls --json -- -l" };
    for (size_t i = 0; i < SG_COUNT(lines); i++) {
        struct sg_flags f = { 0 };
        struct sg_config c;
        struct sg_err err;
        assert_ok(scan(&run, lines[i], &f, &c, &err), err);
        assert_false(c.json);
        assert_int_equal(f.arg_count, 4);
        assert_string_equal(f.args[1], "--json");
        assert_string_equal(f.args[2], "--");
        done(&f, &c);
    }
}

static void other_commands_take_options_anywhere(void **state)
{
    (void)state;
    struct sg_flags f = { 0 };
    struct sg_config c;
    struct sg_err err;
    assert_ok(scan(&import, "--force a.tar --name x --json", &f, &c, &err), err);
    assert_true(c.force && c.json);
    assert_string_equal(c.name, "x");
    assert_string_equal(f.args[0], "a.tar");
    done(&f, &c);
    assert_ok(scan(&import, "-- --force", &f, &c, &err), err);
    assert_false(c.force);
    assert_string_equal(f.args[0], "--force");
    done(&f, &c);
}

static void lists_keep_every_entry_in_order(void **state)
{
    (void)state;
    struct sg_flags f = { 0 };
    struct sg_config c;
    struct sg_err err;
    assert_ok(scan(&run, "-e A=1 --env B --env=C=x=y true", &f, &c, &err), err);
    assert_int_equal(c.env.n, 3);
    assert_string_equal(c.env.v[0], "A=1");
    assert_string_equal(c.env.v[1], "B");
    assert_string_equal(c.env.v[2], "C=x=y");
    done(&f, &c);
}

static void a_switch_can_be_unset(void **state)
{
    (void)state;
    struct sg_flags f = { 0 };
    struct sg_config c;
    struct sg_err err;
    assert_ok(scan(&run, "--read-only --no-read-only --quiet=false --no-tty true", &f, &c, &err),
              err);
    assert_false(c.read_only);
    assert_false(c.quiet);
    assert_int_equal(c.tty, SG_TTY_OFF);
    done(&f, &c);
}

static void a_single_dash_is_a_word(void **state)
{
    (void)state;
    struct sg_flags f = { 0 };
    struct sg_config c;
    struct sg_err err;
    assert_ok(scan(&import, "- --force", &f, &c, &err), err);
    assert_string_equal(f.args[0], "-");
    done(&f, &c);
}

static void help_is_found_even_where_something_is_missing(void **state)
{
    (void)state;
    static const char *const lines[] = { "--help", "-h", "--json -qh" };
    for (size_t i = 0; i < SG_COUNT(lines); i++) {
        struct sg_flags f = { 0 };
        struct sg_config c;
        struct sg_err err;
        assert_ok(scan(&run, lines[i], &f, &c, &err), err);
        assert_true(f.wants_help);
        done(&f, &c);
    }
}

static void a_mistake_is_named_in_one_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "--memroy 1g true",
          "unknown option '--memroy' of 'run' (did you mean '--memory'?); --help lists them" },
        { "--memroy=1g true",
          "unknown option '--memroy' of 'run' (did you mean '--memory'?); --help lists them" },
        { "--force true", "unknown option '--force' of 'run'; --help lists them" },
        { "-x true", "unknown option '-x' of 'run'; --help lists them" },
        { "-qx true", "unknown option '-x' of 'run'; --help lists them" },
        { "--no-memory true", "unknown option '--no-memory' of 'run'; --help lists them" },
        { "--no-tty=on true", "unknown option '--no-tty' of 'run'; --help lists them" },
        { "--memory", "--memory needs a value: SIZE" },
        { "-m", "-m needs a value: SIZE" },
        { "--memory= true", "--memory: '' is not a size from 4m to 1024t, like 512m" },
        { "-m 1 true", "-m: '1' is not a size from 4m to 1024t, like 512m" },
        { "--json=maybe true", "--json: 'maybe' is not true or false" },
        { "--quiet", "'run' needs a command: sandglass run [options] -- command" },
        { "--", "'run' needs a command: sandglass run [options] -- command" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        struct sg_flags f = { 0 };
        struct sg_config c;
        struct sg_err err;
        assert_fails(scan(&run, cases[i][0], &f, &c, &err), err, SG_INVALID);
        assert_string_equal(err.msg, cases[i][1]);
        done(&f, &c);
    }
    struct sg_flags f = { 0 };
    struct sg_config c;
    struct sg_err err;
    assert_fails(scan(&import, "a b", &f, &c, &err), err, SG_INVALID);
    assert_non_null(strstr(err.msg, "takes no more than 1 argument:"));
    done(&f, &c);
}

static void the_last_config_file_counts(void **state)
{
    (void)state;
    struct sg_flags f = { 0 };
    struct sg_config c;
    struct sg_err err;
    assert_ok(scan(&run, "--config a --config=b true", &f, &c, &err), err);
    sg_auto_free char *file = sg_flags_config_file(&f);
    assert_string_equal(file, "b");
    done(&f, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_spellings_of_a_value_are_read),
        cmocka_unit_test(what_follows_the_command_word_is_the_commands_own),
        cmocka_unit_test(other_commands_take_options_anywhere),
        cmocka_unit_test(lists_keep_every_entry_in_order),
        cmocka_unit_test(a_switch_can_be_unset),
        cmocka_unit_test(a_single_dash_is_a_word),
        cmocka_unit_test(help_is_found_even_where_something_is_missing),
        cmocka_unit_test(a_mistake_is_named_in_one_line),
        cmocka_unit_test(the_last_config_file_counts),
    };
    return cmocka_run_group_tests_name("opt", tests, NULL, NULL);
}
