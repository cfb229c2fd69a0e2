/* SPDX-License-Identifier: Apache-2.0 */
/* config: the option table, files, environment, and what is refused. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/hint.h"
#include "config/config.h"
#include "config/mapping.h"
#include "config/option.h"
#include "check.h"
#include "base/banned.h"

struct settings {
    struct sg_config c;
    struct sg_origins o;
};

static int set_up(void **state)
{
    struct settings *s = sg_new(struct settings);
    sg_config_init(&s->c, &s->o);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct settings *s = *state;
    sg_config_done(&s->c, &s->o);
    free(s);
    return 0;
}

static int apply(struct settings *s, const char *text, struct sg_err *err)
{
    return sg_config_apply_toml(&s->c, &s->o, "f.toml", sg_str_of(text), err);
}

static const struct sg_origin *origin_of(struct settings *s, const char *flag)
{
    return &s->o.of[sg_option_find_flag(sg_str_of(flag), SG_FOR_ALL) - sg_options];
}

static void defaults_are_those_that_the_manual_promises(void **state)
{
    struct settings *s = *state;
    assert_string_equal(s->c.template, "host");
    assert_true(s->c.memory_bytes == 512ull << 20);
    assert_true(s->c.cpu_milli == 1000);
    assert_true(s->c.pids == 256);
    assert_true(s->c.disk_bytes == 1ull << 30);
    assert_true(s->c.open_files == 1024);
    assert_true(s->c.timeout_ms == 300000);
    assert_true(s->c.output_bytes == 64ull << 20);
    assert_int_equal(s->c.net, SG_NET_NONE);
    assert_int_equal(s->c.tty, SG_TTY_AUTO);
    assert_string_equal(s->c.workdir, "/workspace");
    assert_string_equal(s->c.user, "");
    assert_string_equal(s->c.hostname, "sandbox");
    assert_false(s->c.json || s->c.read_only || s->c.quiet);
    assert_true(s->c.env.n + s->c.copy_in.n + s->c.copy_out.n + s->c.bind.n == 0);
}

static void the_service_has_its_table(void **state)
{
    struct settings *s = *state;
    struct sg_err err = { 0 };
    assert_string_equal(s->c.serve_listen, "127.0.0.1:8787");
    assert_string_equal(s->c.serve_template, "base");
    assert_string_equal(s->c.serve_log_level, "info");
    assert_int_equal(s->c.serve_pool.n, 1);
    assert_string_equal(s->c.serve_pool.v[0], "base=4");
    assert_true(s->c.serve_max_sandboxes == 1000 && s->c.serve_journal_bytes == 4u << 20);
    assert_true(s->c.serve_reconcile_ms == 60000 && s->c.serve_timeout_ms == 300000);
    assert_true(s->c.serve_pause_files_ms == 10000);
    assert_true(s->c.serve_pause_memory_ms == 15000);
    assert_ok(apply(s,
                    "[serve]\nlisten = \"[::1]:0\"\npool = [\"base=0\", \"tools=2\"]\n"
                    "max_memory = \"4g\"\nmax_cpus = 1.5\nreconcile = 5\n",
                    &err),
              err);
    assert_string_equal(s->c.serve_listen, "[::1]:0");
    assert_int_equal(s->c.serve_pool.n, 3);
    assert_string_equal(s->c.serve_pool.v[2], "tools=2");
    assert_true(s->c.serve_max_memory_bytes == 4ull << 30 && s->c.serve_max_cpu_milli == 1500);
    assert_true(s->c.serve_reconcile_ms == 5000);
}

static void a_setting_of_the_service_that_makes_no_sense_is_refused(void **state)
{
    struct settings *s = *state;
    static const char *const cases[] = {
        "listen = \"127.0.0.1\"",
        "listen = \"localhost:80\"",
        "listen = \"127.0.0.1:65536\"",
        "listen = \"[::1:80\"",
        "listen = \"::1:80\"",
        "pool = [\"base\"]",
        "pool = [\"=4\"]",
        "pool = [\"base=1001\"]",
        "log_level = \"loud\"",
        "tls_cert = \"relative.pem\"",
        "max_sandboxes = 0",
        "journal = \"1k\"",
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        struct sg_err err;
        sg_auto_free char *text = sg_printf("[serve]\n%s\n", cases[i]);
        assert_fails(apply(s, text, &err), err, SG_INVALID);
        assert_non_null(strstr(err.msg, "f.toml:2:"));
    }
}

static void a_list_in_the_environment_has_commas(void **state)
{
    struct settings *s = *state;
    struct sg_err err = { 0 };
    char *const env[] = { "SANDGLASS_POOL=base=1,tools=2,", "SANDGLASS_CONFIG=/dev/null",
                          "SANDGLASS_STATE_DIR=/s", "SANDGLASS_RUN_DIR=/r", NULL };
    assert_ok(sg_config_load(&s->c, &s->o, NULL, env, &err), err);
    assert_int_equal(s->c.serve_pool.n, 3);
    assert_string_equal(s->c.serve_pool.v[1], "base=1");
    assert_string_equal(s->c.serve_pool.v[2], "tools=2");
    assert_string_equal(s->c.serve_run_dir, "/r");
}

static void every_row_is_whole_and_named_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sg_option_count; i++) {
        const struct sg_option *o = &sg_options[i];
        assert_true(o->key || o->flag);
        assert_true(o->help && o->commands);
        assert_true((o->type == SG_OPTION_BOOL || o->type == SG_OPTION_SWITCH) == (o->arg == NULL));
        assert_true(o->min <= o->max);
        for (size_t k = 0; k < i; k++) {
            const struct sg_option *other = &sg_options[k];
            assert_false(o->flag && other->flag && strcmp(o->flag, other->flag) == 0);
            assert_false(o->key && other->key && strcmp(o->key, other->key) == 0);
            /* A letter means one thing in a command: -f is what hands know of logs, and of builds.
             */
            assert_false(o->letter && o->letter == other->letter &&
                         (o->commands & other->commands));
            assert_false(o->offset == other->offset);
        }
    }
}

static void formatting_and_setting_again_changes_nothing(void **state)
{
    struct settings *s = *state;
    static const uint64_t values[] = { 0,     1,          999,      1000,     1001,       1500,
                                       60000, 1u << 20,   3u << 19, 86400000, 1024000,    123456789,
                                       10,    1ull << 50, 90000,    4096,     31536000000 };
    for (size_t i = 0; i < sg_option_count; i++) {
        const struct sg_option *o = &sg_options[i];
        if (o->type < SG_OPTION_BYTES || o->type > SG_OPTION_COUNT)
            continue;
        for (size_t k = 0; k < SG_COUNT(values); k++) {
            if (values[k] < o->min || values[k] > o->max)
                continue;
            uint64_t *field = (uint64_t *)(void *)((char *)&s->c + o->offset);
            *field = values[k];
            sg_auto_buf text;
            sg_buf_init(&text, 64);
            sg_option_format(o, &s->c, 0, &text);
            *field = 0;
            struct sg_err err;
            assert_ok(sg_option_set(o, &s->c, sg_str_of(sg_buf_cstr(&text)), &err), err);
            assert_true(*field == values[k]);
        }
    }
}

static void an_impossible_limit_is_refused_with_its_range(void **state)
{
    struct settings *s = *state;
    static const char *const cases[][3] = {
        { "memory", "1m", "'1m' is not a size from 4m to 1024t, like 512m" },
        { "memory", "-1", "'-1' is not a size from 4m to 1024t, like 512m" },
        { "memory", "99999999999999999999g",
          "'99999999999999999999g' is not a size from 4m to "
          "1024t, like 512m" },
        { "cpus", "0", "'0' is not a number from 0.01 to 1024, like 0.5" },
        { "cpus", "1025", "'1025' is not a number from 0.01 to 1024, like 0.5" },
        { "pids", "1", "'1' is not a whole number from 2 to 1000000" },
        { "pids", "1.5", "'1.5' is not a whole number from 2 to 1000000" },
        { "disk", "1k", "'1k' is not a size from 1m to 1024t, like 512m" },
        { "timeout", "366d", "'366d' is not a time from 0 to 365d, like 90s or 5m" },
        { "timeout", "soon", "'soon' is not a time from 0 to 365d, like 90s or 5m" },
        { "open-files", "63", "'63' is not a whole number from 64 to 1048576" },
        { "net", "wifi", "'wifi' is not one of none, filtered, open" },
        { "workdir", "here", "'here' is not an absolute path" },
        { "hostname", "-x", "'-x' is not a host name (1 to 64 of a-z, 0-9, - and .)" },
        { "hostname", "a b", "'a b' is not a host name (1 to 64 of a-z, 0-9, - and .)" },
        { "user", "65536", "'65536': ids inside go from 0 to 65535" },
        { "user", "0:65536", "'0:65536': ids inside go from 0 to 65535" },
        { "user", "a:b", "'a:b' is not a user name or UID[:GID]" },
        { "template", "", "must not be empty" },
        { "env", "=x", "'=x' has no name before the '='" },
        { "bind", "/a", "'/a' is not SRC:DST[:ro|:rw]" },
        { "bind", "d:/x:RO", "'RO' is not ro or rw (a path inside cannot hold a colon)" },
        { "bind", "d:/x:", "'' is not ro or rw (a path inside cannot hold a colon)" },
        { "bind", "d:/x:y:ro", "'y:ro' is not ro or rw (a path inside cannot hold a colon)" },
        { "bind", "d:/", "cannot replace the root: use --template DIR" },
        { "bind", "d:///:ro", "cannot replace the root: use --template DIR" },
        { "bind", "d:/a/../b", "'/a/../b': no '.' or '..' in a path inside" },
        { "bind", "d:/.", "'/.': no '.' or '..' in a path inside" },
        { "bind", "d:/proc", "'/proc' belongs to the sandbox itself" },
        { "bind", "d://proc//1", "'//proc//1' belongs to the sandbox itself" },
        { "bind", "d:/sys/fs:ro", "'/sys/fs' belongs to the sandbox itself" },
        { "bind", "d:/dev/", "'/dev/' belongs to the sandbox itself" },
        { "bind", "/a:b", "'/a:b': the path inside must be absolute" },
        { "copy-in", ":/x", "':/x' is not SRC:DST" },
        { "copy-out", "x:", "'x:' is not SRC:DST" },
        { "json", "yes", "'yes' is not true or false" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        const struct sg_option *o = sg_option_find_flag(sg_str_of(cases[i][0]), SG_FOR_ALL);
        assert_non_null(o);
        struct sg_err err;
        assert_fails(sg_option_set(o, &s->c, sg_str_of(cases[i][1]), &err), err, SG_INVALID);
        assert_string_equal(err.msg, cases[i][2]);
    }
    assert_true(s->c.memory_bytes == 512ull << 20);
}

static void a_file_sets_values_of_every_type(void **state)
{
    struct settings *s = *state;
    struct sg_err err;
    assert_ok(apply(s,
                    "state_dir = \"/srv/sg\"\n[run]\ntemplate = 'base'\nmemory = \"1.5g\"\n"
                    "disk = 0x200000\ncpus = 0.5\ntimeout = 90\npids = 64\nnet = \"open\"\n"
                    "tty = false\nread_only = true\nbind = ['/a:/b:ro', '/c:/d']\n"
                    "env.LANG = 'C'\nenv.EMPTY = ''\n",
                    &err),
              err);
    assert_string_equal(s->c.state_dir, "/srv/sg");
    assert_string_equal(s->c.template, "base");
    assert_true(s->c.memory_bytes == 3ull << 29);
    assert_true(s->c.disk_bytes == 2 << 20);
    assert_true(s->c.cpu_milli == 500);
    assert_true(s->c.timeout_ms == 90000);
    assert_int_equal(s->c.net, SG_NET_OPEN);
    assert_int_equal(s->c.tty, SG_TTY_OFF);
    assert_true(s->c.read_only);
    assert_int_equal(s->c.bind.n, 2);
    assert_string_equal(s->c.bind.v[1], "/c:/d");
    assert_null(s->c.bind.v[2]);
    assert_string_equal(s->c.env.v[0], "LANG=C");
    assert_string_equal(s->c.env.v[1], "EMPTY=");
    assert_int_equal(origin_of(s, "memory")->kind, SG_FROM_FILE);
    assert_int_equal(origin_of(s, "memory")->line, 4);
    assert_int_equal(origin_of(s, "hostname")->kind, SG_FROM_DEFAULT);
}

static void names_of_other_tools_are_understood(void **state)
{
    struct settings *s = *state;
    struct sg_err err;
    assert_ok(apply(s,
                    "[sandbox]\nimage = 'base'\nwork_dir = '/w'\nmemory_limit = '256m'\n"
                    "cpu_limit = 2.0\ntimeout = 60\nnetwork_enabled = true\n"
                    "[daytona]\ndaytona_api_key = 'secret'\ndaytona_server_url = 'x'\n"
                    "VNC_password = 'y'\n",
                    &err),
              err);
    assert_string_equal(s->c.template, "base");
    assert_string_equal(s->c.workdir, "/w");
    assert_true(s->c.memory_bytes == 256 << 20);
    assert_true(s->c.cpu_milli == 2000);
    assert_true(s->c.timeout_ms == 60000);
    assert_int_equal(s->c.net, SG_NET_OPEN);
    assert_true(s->o.has_daytona);
    assert_ok(apply(s, "sandbox.network_enabled = false", &err), err);
    assert_int_equal(s->c.net, SG_NET_NONE);
    assert_ok(apply(s, "run.net = 'isolated'", &err), err);
    assert_int_equal(s->c.net, SG_NET_FILTERED);
    assert_ok(apply(s, "run.net = 'bridge'", &err), err);
    assert_int_equal(s->c.net, SG_NET_OPEN);
}

static void what_a_file_may_not_hold_is_refused_with_its_place(void **state)
{
    struct settings *s = *state;
    static const char *const cases[][2] = {
        { "[run]\nmemroy = 1",
          "f.toml:2:10: unknown key 'run.memroy' (did you mean 'run.memory'?)" },
        { "memory = 1", "f.toml:1:10: unknown key 'memory'" },
        { "[runn]\nx = 1", "f.toml:1:1: unknown key 'runn'" },
        { "'run.memory' = '1g'", "f.toml:1:16: unknown key 'run.memory'" },
        { "[sandbox]\ncpus = 1", "f.toml:2:8: unknown key 'sandbox.cpus'" },
        { "[daytona]\nkey = 1", "f.toml:2:7: unknown key 'daytona.key'" },
        { "run = 1", "f.toml:1:7: unknown key 'run'" },
        { "[run]\nmemory = true", "f.toml:2:10: run.memory cannot be a boolean" },
        { "[run]\nmemory = '1k'",
          "f.toml:2:10: run.memory: '1k' is not a size from 4m to 1024t, like 512m" },
        { "[run]\npids = -4",
          "f.toml:2:8: run.pids: '-4' is not a whole number from 2 to 1000000" },
        { "[run]\nread_only = 'yes'", "f.toml:2:13: run.read_only cannot be a string" },
        { "[run]\ntemplate = 'a\\b'\nbind = '/a:/b'",
          "f.toml:3:8: run.bind must be an array of strings, not a string" },
        { "[run]\nbind = [1]", "f.toml:2:9: run.bind cannot be an integer" },
        { "[run]\nuser = \"a\\u0000b\"", "f.toml:2:8: run.user: 'a\\x00b' holds a NUL byte" },
        { "[run.env]\nA = 1", "f.toml:2:5: run.env: a variable must be a string, not an integer" },
        { "[run.env]\n'A=B' = 'x'", "f.toml:2:9: run.env: 'A=B' is not a name of a variable" },
        { "[run.memory]\nx = 1", "f.toml:1:1: run.memory cannot be a table" },
        { "[run]\nmemory = ", "f.toml:2:10: expected a value" },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        struct sg_err err;
        assert_fails(apply(s, cases[i][0], &err), err, SG_INVALID);
        assert_string_equal(err.msg, cases[i][1]);
    }
}

static void write_file(const char *path, const char *text)
{
    sg_auto_file f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
}

/* A home of our own: "HOME=..." to use as the environment, and the settings file in it. */
struct home {
    char dir[64];
    char *variable, *config_dir, *own_dir, *file;
};

static void make_home(struct home *h)
{
    (void)snprintf(h->dir, sizeof h->dir, "/tmp/sg-config-XXXXXX");
    assert_non_null(mkdtemp(h->dir));
    h->variable = sg_printf("HOME=%s", h->dir);
    h->config_dir = sg_printf("%s/.config", h->dir);
    h->own_dir = sg_printf("%s/sandglass", h->config_dir);
    h->file = sg_printf("%s/sandglass.toml", h->own_dir);
    assert_int_equal(mkdir(h->config_dir, 0700) | mkdir(h->own_dir, 0700), 0);
}

static void drop_home(struct home *h)
{
    (void)unlink(h->file);
    assert_int_equal(rmdir(h->own_dir) | rmdir(h->config_dir) | rmdir(h->dir), 0);
    free(h->variable);
    free(h->config_dir);
    free(h->own_dir);
    free(h->file);
}

static void environment_wins_over_the_users_file(void **state)
{
    struct settings *s = *state;
    struct home h;
    make_home(&h);
    write_file(h.file, "[run]\nmemory = '64m'\npids = 99\n");
    char memory[] = "SANDGLASS_MEMORY=128m", other[] = "SANDGLASS_WHATEVER=1";
    char *env[] = { h.variable, memory, other, NULL };
    struct sg_err err = { 0 };
    int done = sg_config_load(&s->c, &s->o, NULL, env, &err);
    drop_home(&h);
    assert_ok(done, err);
    assert_true(s->c.memory_bytes == 128 << 20);
    assert_int_equal(origin_of(s, "memory")->kind, SG_FROM_ENVIRONMENT);
    assert_true(s->c.pids == 99);
    assert_int_equal(origin_of(s, "pids")->line, 3);
    assert_true(*s->c.state_dir == '/');
}

static void a_named_file_replaces_the_users_file(void **state)
{
    struct settings *s = *state;
    struct home h;
    make_home(&h);
    write_file(h.file, "[run]\npids = 99\n");
    sg_auto_free char *named = sg_printf("%s/other.toml", h.dir);
    write_file(named, "[run]\nbind = ['/a:/b']\n");
    char *env[] = { h.variable, NULL };
    struct sg_err err = { 0 };
    int done = sg_config_load(&s->c, &s->o, named, env, &err);
    (void)unlink(named);
    drop_home(&h);
    assert_ok(done, err);
    assert_true(s->c.pids == 256);
    assert_int_equal(s->c.bind.n, 1);
}

static void a_missing_named_file_is_an_error(void **state)
{
    struct settings *s = *state;
    char variable[] = "SANDGLASS_CONFIG=/nonexistent/b.toml";
    char *env[] = { variable, NULL };
    struct sg_err err;
    assert_fails(sg_config_load(&s->c, &s->o, "/nonexistent/a.toml", env, &err), err, SG_NOT_FOUND);
    assert_non_null(strstr(err.msg, "a.toml"));
    assert_fails(sg_config_load(&s->c, &s->o, NULL, env, &err), err, SG_NOT_FOUND);
    assert_non_null(strstr(err.msg, "b.toml"));
}

static void a_bad_variable_is_named(void **state)
{
    struct settings *s = *state;
    char memory[] = "SANDGLASS_MEMORY=lots", config[] = "SANDGLASS_CONFIG=/dev/null";
    char *env[] = { config, memory, NULL };
    struct sg_err err;
    assert_fails(sg_config_load(&s->c, &s->o, NULL, env, &err), err, SG_INVALID);
    assert_non_null(strstr(err.msg, "$SANDGLASS_MEMORY: 'lots'"));
}

static void a_mapping_is_split_at_its_colons(void **state)
{
    (void)state;
    struct sg_mapping m;
    struct sg_err err;
    assert_ok(sg_mapping_parse_bind("/a b:/c:ro", &m, &err), err);
    assert_true(sg_str_is(m.source, "/a b") && sg_str_is(m.target, "/c") && m.is_read_only);
    assert_ok(sg_mapping_parse_bind("x:/c:rw", &m, &err), err);
    assert_true(sg_str_is(m.target, "/c") && !m.is_read_only);
    assert_ok(sg_mapping_parse_bind("x:/dev/c", &m, &err), err);
    assert_true(sg_str_is(m.target, "/dev/c") && !m.is_read_only);
    assert_ok(sg_mapping_parse_bind("x:/.c/..d/procs:ro", &m, &err), err);
    assert_true(sg_str_is(m.target, "/.c/..d/procs") && m.is_read_only);
    assert_ok(sg_mapping_parse_copy("x:y:ro", &m, &err), err);
    assert_true(sg_str_is(m.target, "y:ro") && !m.is_read_only);
}

static const char *nearest(const char *word)
{
    static const char *const known[] = { "memory", "net", "env", "timeout", "json" };
    struct sg_hint h = { .word = sg_str_of(word) };
    for (size_t i = 0; i < SG_COUNT(known); i++)
        sg_hint_try(&h, known[i]);
    return h.best;
}

static void only_a_near_word_is_proposed(void **state)
{
    (void)state;
    assert_string_equal(nearest("memroy"), "memory");
    assert_string_equal(nearest("tmeout"), "timeout");
    assert_string_equal(nearest("nett"), "net");
    assert_string_equal(nearest("mem"), "memory");
    assert_null(nearest("m"));
    assert_null(nearest("x"));
    assert_null(nearest("abcdefg"));
    assert_null(nearest("memory-of-a-very-long-word-that-nobody-would-type"));
}

#define WITH_SETTINGS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SETTINGS(defaults_are_those_that_the_manual_promises),
        WITH_SETTINGS(the_service_has_its_table),
        WITH_SETTINGS(a_setting_of_the_service_that_makes_no_sense_is_refused),
        WITH_SETTINGS(a_list_in_the_environment_has_commas),
        cmocka_unit_test(every_row_is_whole_and_named_once),
        WITH_SETTINGS(formatting_and_setting_again_changes_nothing),
        WITH_SETTINGS(an_impossible_limit_is_refused_with_its_range),
        WITH_SETTINGS(a_file_sets_values_of_every_type),
        WITH_SETTINGS(names_of_other_tools_are_understood),
        WITH_SETTINGS(what_a_file_may_not_hold_is_refused_with_its_place),
        WITH_SETTINGS(environment_wins_over_the_users_file),
        WITH_SETTINGS(a_named_file_replaces_the_users_file),
        WITH_SETTINGS(a_missing_named_file_is_an_error),
        WITH_SETTINGS(a_bad_variable_is_named),
        cmocka_unit_test(a_mapping_is_split_at_its_colons),
        cmocka_unit_test(only_a_near_word_is_proposed),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
