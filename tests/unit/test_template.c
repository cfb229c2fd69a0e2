/* SPDX-License-Identifier: Apache-2.0 */
/* image: stored templates, directories as templates, the store's locks, and the small file format.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "image/kv.h"
#include "image/meta.h"
#include "image/recipe.h"
#include "image/store.h"
#include "image/template.h"
#include "image/tree.h"
#include "base/banned.h"

static char state_dir[64];

static int before_each(void **state)
{
    (void)state;
    memcpy(state_dir, "/tmp/sandglass-state-XXXXXX", sizeof "/tmp/sandglass-state-XXXXXX");
    return mkdtemp(state_dir) ? 0 : -1;
}

static int after_each(void **state)
{
    (void)state;
    struct sg_err err;
    sg_auto_fd tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return sg_tree_remove(tmp, state_dir + strlen("/tmp/"), &err);
}

static void write_file(int dir_fd, const char *name, const char *text)
{
    sg_auto_fd fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

/* A template that holds one file with `mark` in it. */
static void begin(struct sg_stage *stage, const char *meta, const char *mark)
{
    struct sg_err err;
    assert_ok(sg_stage_new(state_dir, stage, &err), err);
    assert_int_equal(mkdirat(stage->fd, "root", 0755), 0);
    write_file(stage->fd, "root/mark", mark);
    write_file(stage->fd, "template.toml", meta);
}

static void store(const char *name, const char *meta, const char *mark, bool replaces)
{
    sg_auto_stage stage = { .store_fd = -1, .fd = -1 };
    struct sg_err err;
    begin(&stage, meta, mark);
    assert_ok(sg_stage_commit(&stage, name, replaces, &err), err);
}

static unsigned count_with_prefix(const char *prefix)
{
    sg_auto_free char *path = sg_printf("%s/templates", state_dir);
    sg_auto_dir dir = opendir(path);
    assert_non_null(dir);
    unsigned n = 0;
    struct dirent *d;
    while ((d = readdir(dir)))
        n += sg_starts_with(d->d_name, prefix);
    return n;
}

static void a_stored_template_says_what_was_written(void **state)
{
    (void)state;
    struct sg_err err;
    store("mine",
          "user = \"dev\"\nhome = \"/home/dev\"\nsudo = true\nbytes = 12\n"
          "env = [\"A=1\", \"B=two words\"]\n",
          "1", false);
    sg_auto_template t = { .lock_fd = -1 };
    assert_ok(sg_template_open(state_dir, "mine", &t, &err), err);
    assert_string_equal(t.user, "dev");
    assert_string_equal(t.home, "/home/dev");
    assert_string_equal(t.workdir, "/workspace");
    assert_true(t.grants_sudo);
    assert_int_equal(t.bytes, 12);
    assert_int_equal(t.env_count, 2);
    assert_string_equal(t.env[1], "B=two words");
    sg_auto_free char *mark = sg_printf("%s/mark", t.layer);
    assert_int_equal(access(mark, R_OK), 0);
}

static void format_then_parse_is_identity(void **state)
{
    (void)state;
    struct sg_err err;
    sg_auto_template t, back;
    sg_template_init(&t, "x");
    sg_template_init(&back, "x");
    free(t.origin);
    t.origin = sg_strdup("a \"quoted\" \\ text\twith\nlines and gr\xc3\xbc\xc3\x9f");
    t.grants_sudo = t.is_idmapped = true;
    t.bytes = UINT64_MAX;
    sg_auto_buf text;
    sg_buf_init(&text, SG_META_MAX_BYTES);
    sg_meta_format(&t, &text);
    assert_ok(sg_meta_parse(&back, sg_str_of(sg_buf_cstr(&text)), "f", &err), err);
    assert_string_equal(back.origin, t.origin);
    assert_true(back.grants_sudo && back.is_idmapped);
    assert_int_equal(back.bytes, UINT64_MAX);
    assert_int_equal(back.env_count, 1);
    assert_string_equal(back.env[0], "LANG=C.UTF-8");
}

static void a_file_that_says_something_else_is_refused_with_its_line(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "user = \"a\"\nunknown = 1\n",         "user = \"a\"\nsudo = \"true\"\n",
        "user = \"a\"\nuser = b c\n",          "user = \"a\"\nhome = \"open\n",
        "user = \"a\"\nenv = [\"NOVALUE\"]\n", "user = \"a\"\n= 3\n",
        "user = \"a\"\nhome = \"\\q\"\n",      "user = \"a\"\nenv = [\"A=1\" \"B=2\"]\n",
        "user = \"a\"\nbytes = -1\n",
    };
    for (size_t i = 0; i < SG_COUNT(bad); i++) {
        struct sg_err err;
        sg_auto_template t;
        sg_template_init(&t, "x");
        assert_fails(sg_meta_parse(&t, sg_str_of(bad[i]), "f", &err), err, SG_INVALID);
        if (!strstr(err.msg, "f:2") && !strstr(err.msg, "whole number"))
            fail_msg("no line in '%s'", err.msg);
    }
}

static void a_missing_template_names_the_remedy(void **state)
{
    (void)state;
    struct sg_err err;
    struct sg_template t;
    assert_fails(sg_template_open(state_dir, "base", &t, &err), err, SG_NOT_FOUND);
    assert_non_null(strstr(err.msg, "sandglass template build base"));
    assert_fails(sg_template_open(state_dir, "other", &t, &err), err, SG_NOT_FOUND);
    assert_non_null(strstr(err.msg, "sandglass template import other"));
}

static void names_that_could_leave_the_store_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",    ".",
        "..",  ".new-1",
        "A",   "a b",
        "-a",  "host",
        "a\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    };
    struct sg_err err;
    for (size_t i = 0; i < SG_COUNT(bad); i++)
        assert_fails(sg_template_check_name(bad[i], &err), err, SG_INVALID);
    assert_ok(sg_template_check_name("python-3.11_dev", &err), err);
    struct sg_template t;
    assert_fails(sg_template_open(state_dir, "..", &t, &err), err, SG_NOT_FOUND);
}

static void a_taken_name_is_kept_unless_replaced(void **state)
{
    (void)state;
    struct sg_err err;
    store("mine", "origin = \"one\"\n", "1", false);
    {
        sg_auto_stage stage = { .store_fd = -1, .fd = -1 };
        begin(&stage, "origin = \"two\"\n", "2");
        assert_fails(sg_stage_commit(&stage, "mine", false, &err), err, SG_CONFLICT);
    }
    sg_auto_template t = { .lock_fd = -1 };
    assert_ok(sg_template_open(state_dir, "mine", &t, &err), err);
    assert_string_equal(t.origin, "one");
    sg_template_done(&t);
    store("mine", "origin = \"two\"\n", "2", true);
    assert_ok(sg_template_open(state_dir, "mine", &t, &err), err);
    assert_string_equal(t.origin, "two");
    assert_int_equal(count_with_prefix(".new-"), 0);
}

static void a_template_in_use_is_not_removed(void **state)
{
    (void)state;
    struct sg_err err;
    store("mine", "", "1", false);
    sg_auto_fd dir = sg_templates_open(state_dir, false, &err);
    sg_auto_template t = { .lock_fd = -1 };
    assert_ok(sg_template_open(state_dir, "mine", &t, &err), err);
    assert_fails(sg_templates_remove(dir, "mine", &err), err, SG_CONFLICT);
    sg_template_done(&t);
    assert_ok(sg_templates_remove(dir, "mine", &err), err);
    assert_fails(sg_templates_remove(dir, "mine", &err), err, SG_NOT_FOUND);
    assert_int_equal(count_with_prefix(".new-"), 0);
}

static void a_replaced_template_stays_until_its_last_user_ends(void **state)
{
    (void)state;
    struct sg_err err;
    store("mine", "", "1", false);
    sg_auto_template t = { .lock_fd = -1 };
    assert_ok(sg_template_open(state_dir, "mine", &t, &err), err);
    store("mine", "", "2", true);
    char mark[2] = "";
    sg_auto_fd fd = openat(t.lock_fd, "root/mark", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && read(fd, mark, 1) == 1);
    assert_string_equal(mark, "1");
    assert_int_equal(count_with_prefix(".new-"), 1);
    sg_template_done(&t);
    sg_auto_fd dir = sg_templates_open(state_dir, false, &err);
    sg_templates_sweep(dir, NULL);
    assert_int_equal(count_with_prefix(".new-"), 0);
}

static void what_a_killed_builder_left_is_swept_by_the_next(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct sg_stage stage;
        struct sg_err err;
        if (sg_stage_new(state_dir, &stage, &err) == 0 && mkdirat(stage.fd, "root", 0555) == 0)
            (void)raise(SIGKILL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(count_with_prefix(".new-"), 1);
    sg_auto_stage stage = { .store_fd = -1, .fd = -1 };
    struct sg_err err;
    assert_ok(sg_stage_new(state_dir, &stage, &err), err);
    assert_int_equal(count_with_prefix(".new-"), 1); /* our own */
}

static void a_living_builder_is_not_swept(void **state)
{
    (void)state;
    struct sg_err err;
    sg_auto_stage one = { .store_fd = -1, .fd = -1 };
    sg_auto_stage two = { .store_fd = -1, .fd = -1 };
    assert_ok(sg_stage_new(state_dir, &one, &err), err);
    assert_ok(sg_stage_new(state_dir, &two, &err), err);
    assert_int_equal(count_with_prefix(".new-"), 2);
}

static void an_image_without_a_name_stays_while_it_is_used_or_pinned(void **state)
{
    (void)state;
    static const char hex[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    char name[SG_IMAGE_NAME];
    struct sg_err err;
    sg_templates_image_name(hex, false, name);
    assert_true(sg_templates_is_image(name));
    assert_false(sg_templates_is_image(".image-0"));
    assert_false(sg_templates_is_image("image-0123456789012345678901234567890123456789"));
    assert_fails(sg_template_check_name(name, &err), err, SG_INVALID);
    store(name, "", "1", false);
    sg_auto_fd dir = sg_templates_open(state_dir, false, &err);
    sg_auto_template t = { .lock_fd = -1 };
    assert_ok(sg_template_open(state_dir, name, &t, &err), err);
    assert_false(sg_templates_has_spare(dir));
    sg_templates_sweep(dir, NULL);
    assert_int_equal(count_with_prefix(".image-"), 1);
    assert_ok(sg_templates_pin(t.lock_fd, "t1", &err), err);
    sg_template_done(&t);
    sg_templates_sweep(dir, NULL);
    assert_int_equal(count_with_prefix(".image-"), 1);
    assert_ok(sg_template_open(state_dir, name, &t, &err), err);
    sg_templates_unpin(t.lock_fd, "t1");
    sg_template_done(&t);
    assert_true(sg_templates_has_spare(dir));
    sg_templates_sweep(dir, NULL);
    assert_int_equal(count_with_prefix(".image-"), 0);
}

static void take_off(void *arg, int dir_fd, const char *id)
{
    unsigned *seen = arg;
    (*seen)++;
    if (id[0] == 's')
        sg_templates_unpin(dir_fd, id);
}

static void pins_are_found_wherever_they_are(void **state)
{
    (void)state;
    struct sg_err err;
    unsigned seen = 0;
    store("mine", "", "1", false);
    store("other", "", "1", false);
    sg_auto_fd dir = sg_templates_open(state_dir, false, &err);
    sg_auto_template t = { .lock_fd = -1 }, later = { .lock_fd = -1 };
    assert_ok(sg_template_open(state_dir, "mine", &t, &err), err);
    assert_ok(sg_templates_pin(t.lock_fd, "s1", &err), err);
    assert_ok(sg_templates_pin(t.lock_fd, "s2", &err), err);
    assert_ok(sg_templates_pin(t.lock_fd, "t1", &err), err);
    sg_templates_each_pin(dir, take_off, &seen);
    assert_int_equal(seen, 3);
    assert_false(sg_templates_is_pinned(t.lock_fd, "s2"));
    sg_templates_repin(t.lock_fd, "t1", "t2");
    assert_false(sg_templates_is_pinned(t.lock_fd, "t1"));
    assert_true(sg_templates_is_pinned(t.lock_fd, "t2"));
    assert_ok(sg_template_open_as(state_dir, "other", "mine", &later, &err), err);
    assert_string_equal(later.name, "mine");
    assert_non_null(strstr(later.layer, "/other/"));
}

static void the_store_is_closed_to_everybody_else(void **state)
{
    (void)state;
    struct stat st;
    store("mine", "", "1", false);
    sg_auto_free char *path = sg_printf("%s/templates", state_dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

static void a_directory_is_a_template_with_its_own_users(void **state)
{
    (void)state;
    struct sg_err err;
    sg_auto_fd dir = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(dir, "etc", 0755), 0);
    sg_auto_template t = { .lock_fd = -1 };
    assert_ok(sg_template_open("/nonexistent", state_dir, &t, &err), err);
    assert_string_equal(t.user, "root");
    assert_string_equal(t.layer, state_dir);
    sg_template_done(&t);
    write_file(dir, "etc/passwd",
               "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n");
    assert_ok(sg_template_open("/nonexistent", state_dir, &t, &err), err);
    assert_string_equal(t.user, "ann");
    assert_string_equal(t.home, "/home/ann");
}

static void a_hostile_passwd_changes_nothing_but_its_own_user(void **state)
{
    (void)state;
    struct sg_err err;
    sg_auto_fd dir = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(dir, "etc", 0755), 0);
    write_file(dir, "etc/passwd",
               "\n:::\nx\x1b[2J:x:1000:1000::/\n-o:x:1000:1:::\nok:x:1000:1::re/lative:\n");
    sg_auto_template t = { .lock_fd = -1 };
    assert_ok(sg_template_open("/nonexistent", state_dir, &t, &err), err);
    assert_string_equal(t.user, "ok");
    assert_string_equal(t.home, "/");
    sg_template_done(&t);
    assert_int_equal(unlinkat(dir, "etc/passwd", 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", dir, "etc/passwd"), 0); /* inside: itself */
    assert_ok(sg_template_open("/nonexistent", state_dir, &t, &err), err);
    assert_string_equal(t.user, "root");
}

static void a_directory_whose_mount_points_are_links_is_refused(void **state)
{
    (void)state;
    struct sg_err err;
    struct sg_template t;
    sg_auto_free char *link = sg_printf("%s/proc", state_dir);
    assert_int_equal(symlink("/tmp", link), 0);
    assert_fails(sg_template_open("/nonexistent", state_dir, &t, &err), err, SG_INVALID);
    assert_non_null(strstr(err.msg, "'/proc'"));
    assert_fails(sg_template_open("/nonexistent", "/", &t, &err), err, SG_INVALID);
}

static void the_recipe_of_base_is_readable_and_its_digest_follows_the_suite(void **state)
{
    (void)state;
    const char *root = getenv("SANDGLASS_SOURCE");
    assert_non_null(root);
    sg_auto_free char *dir = sg_printf("%s/templates/base", root);
    struct sg_err err;
    sg_auto_recipe r = { .defaults.lock_fd = -1 }, other = { .defaults.lock_fd = -1 };
    assert_ok(sg_recipe_load(dir, "base", NULL, &r, &err), err);
    assert_ok(sg_recipe_load(dir, "base", "trixie", &other, &err), err);
    assert_string_equal(r.suite, "bookworm");
    assert_true(r.defaults.grants_sudo);
    assert_string_equal(r.defaults.user, "user");
    assert_string_not_equal(r.digest, other.digest);
    struct sg_recipe none;
    assert_fails(sg_recipe_load("/nonexistent", "x", NULL, &none, &err), err, SG_NOT_FOUND);
}

static void put_recipe(const char *name, const char *recipe)
{
    struct {
        const char *file, *text;
    } parts[] = { { "recipe.toml", recipe },
                  { "template.toml", "user = \"u\"\n" },
                  { "setup.sh", "#!/bin/sh\n" },
                  { "extra", "one" } };
    sg_auto_free char *dir = sg_printf("%s/%s", state_dir, name);
    assert_int_equal(mkdir(dir, 0700), 0);
    for (size_t i = 0; i < SG_COUNT(parts); i++) {
        sg_auto_free char *path = sg_printf("%s/%s", dir, parts[i].file);
        write_file(AT_FDCWD, path, parts[i].text);
    }
}

static void load_recipe(const char *name, struct sg_recipe *ret)
{
    struct sg_err err;
    sg_auto_free char *dir = sg_printf("%s/%s", state_dir, name);
    assert_ok(sg_recipe_load(dir, name, NULL, ret, &err), err);
}

static void a_recipe_stands_on_another_and_its_digest_follows_all_files(void **state)
{
    (void)state;
    struct sg_err err;
    put_recipe("low", "suite = \"s\"\nvariant = \"v\"\npackages = [ \"a\", \"b\" ]\n");
    put_recipe("top", "from = \"low\"\npackages = [ \"c\" ]\nfiles = [ \"extra\" ]\n");
    sg_auto_recipe r = { .defaults.lock_fd = -1 };
    load_recipe("top", &r);
    assert_string_equal(r.suite, "s");
    assert_int_equal(r.package_count, 3);
    assert_string_equal(r.packages[0], "a");
    assert_string_equal(r.packages[2], "c");
    static const char *const changed[] = { "low/recipe.toml", "low/setup.sh", "top/extra" };
    char before[sizeof r.digest];
    for (size_t i = 0; i < SG_COUNT(changed); i++) {
        memcpy(before, r.digest, sizeof before);
        sg_auto_free char *path = sg_printf("%s/%s", state_dir, changed[i]);
        write_file(AT_FDCWD, path,
                   i ? "#\n" : "suite = \"s\"\nvariant = \"v\"\npackages = [ \"e\" ]\n");
        sg_recipe_done(&r);
        load_recipe("top", &r);
        assert_string_not_equal(r.digest, before);
    }
    put_recipe("third", "from = \"top\"\npackages = [ \"d\" ]\n");
    put_recipe("half", "from = \"low\"\npackages = [ \"d\" ]\nfinish = \"/x\"\n");
    sg_auto_free char *half = sg_printf("%s/half", state_dir);
    assert_fails(sg_recipe_load(half, "half", NULL, &(struct sg_recipe) { 0 }, &err), err,
                 SG_INVALID);
    put_recipe("whole", "from = \"low\"\npackages = [ \"d\" ]\nfinish = \"/x\"\nwrites = \"/y\"\n");
    sg_recipe_done(&r);
    load_recipe("whole", &r);
    assert_string_equal(r.finish, "/x");
    assert_string_equal(r.writes, "/y");
    put_recipe("lost", "from = \"../low\"\npackages = [ \"d\" ]\n");
    sg_auto_free char *lost = sg_printf("%s/lost", state_dir);
    struct sg_recipe none;
    sg_recipe_done(&r);
    load_recipe("third", &r);
    assert_int_equal(r.package_count, 3); /* e c d: "low" was changed above */
    assert_string_equal(r.packages[2], "d");
    assert_int_equal(r.file_count, 0);
    sg_auto_free char *extra = sg_printf("%s/top/extra", state_dir);
    memcpy(before, r.digest, sizeof before);
    write_file(AT_FDCWD, extra, "another\n");
    sg_recipe_done(&r);
    load_recipe("third", &r);
    assert_string_not_equal(r.digest, before);
    put_recipe("round", "from = \"round\"\npackages = [ \"d\" ]\n");
    sg_auto_free char *circle = sg_printf("%s/round", state_dir);
    assert_fails(sg_recipe_load(circle, "round", NULL, &none, &err), err, SG_INVALID);
    assert_fails(sg_recipe_load(lost, "lost", NULL, &none, &err), err, SG_INVALID);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, before_each, after_each)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_stored_template_says_what_was_written),
        CASE(format_then_parse_is_identity),
        CASE(a_file_that_says_something_else_is_refused_with_its_line),
        CASE(a_missing_template_names_the_remedy),
        CASE(names_that_could_leave_the_store_are_refused),
        CASE(a_taken_name_is_kept_unless_replaced),
        CASE(a_template_in_use_is_not_removed),
        CASE(a_replaced_template_stays_until_its_last_user_ends),
        CASE(what_a_killed_builder_left_is_swept_by_the_next),
        CASE(a_living_builder_is_not_swept),
        CASE(an_image_without_a_name_stays_while_it_is_used_or_pinned),
        CASE(pins_are_found_wherever_they_are),
        CASE(the_store_is_closed_to_everybody_else),
        CASE(a_directory_is_a_template_with_its_own_users),
        CASE(a_hostile_passwd_changes_nothing_but_its_own_user),
        CASE(a_directory_whose_mount_points_are_links_is_refused),
        CASE(a_recipe_stands_on_another_and_its_digest_follows_all_files),
        CASE(the_recipe_of_base_is_readable_and_its_digest_follows_the_suite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
