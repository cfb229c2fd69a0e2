/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/auto.h"
#include "base/jsonr.h"
#include "check.h"
#include "keeper/docker.h"
#include "base/banned.h"

static const struct sg_docker_spec SPEC = { .name = "sandglass-1.ab",
                                            .image = "python:3.12",
                                            .dir = "/run/sandglass/docker/1.ab",
                                            .service = "/run/sandglass",
                                            .mem_bytes = 1 << 20,
                                            .cpu_milli = 500,
                                            .pids = 64,
                                            .disk_bytes = 4096,
                                            .open_files = 1024 };

/* The value at a path of keys. */
static const struct sg_jval *at(const struct sg_jval *v, const char *const *keys)
{
    for (; *keys; keys++) {
        v = sg_json_get(v, *keys);
        if (!v)
            fail_msg("no member '%s'", *keys);
    }
    return v;
}

static const struct sg_jval *created(const struct sg_docker_spec *s,
                                     const struct sg_docker_image *image, struct sg_arena *a)
{
    sg_auto_buf out;
    const struct sg_jval *v;
    struct sg_err err = { 0 };
    sg_buf_init(&out, 1 << 20);
    sg_docker_write_create(s, image, &out);
    assert_ok(sg_json_parse((struct sg_str) { (const char *)out.p, out.n }, a, &v, &err), err);
    return v;
}

static void assert_text(const struct sg_jval *v, const char *text)
{
    assert_int_equal(v->kind, SG_J_STRING);
    assert_string_equal(v->s.p, text);
}

static void a_container_is_closed_on_every_side(void **state)
{
    (void)state;
    static const struct {
        const char *keys[3], *text;
    } texts[] = {
        { { "User" }, "0:0" },
        { { "Image" }, "python:3.12" },
        { { "HostConfig", "NetworkMode" }, "none" },
        { { "HostConfig", "IpcMode" }, "private" },
        { { "Labels", SG_DOCKER_LABEL }, "/run/sandglass" },
    };
    static const struct {
        const char *keys[3], *first;
        size_t n;
    } lists[] = {
        { { "HostConfig", "CapDrop" }, "ALL", 1 },
        { { "HostConfig", "CapAdd" }, "SETUID", 5 },
        { { "HostConfig", "SecurityOpt" }, "no-new-privileges:true", 1 },
        { { "Entrypoint" }, "/.sandglass/init", 2 },
    };
    static const struct {
        const char *keys[3];
        uint64_t value;
    } numbers[] = {
        { { "HostConfig", "Memory" }, 1 << 20 },
        { { "HostConfig", "MemorySwap" }, 1 << 20 },
        { { "HostConfig", "NanoCpus" }, 500000000 },
        { { "HostConfig", "PidsLimit" }, 64 },
    };
    const struct sg_docker_image image = { .id = "x" };
    sg_auto_arena a;
    sg_arena_init(&a, 1 << 20);
    const struct sg_jval *v = created(&SPEC, &image, &a);
    for (size_t i = 0; i < SG_COUNT(texts); i++)
        assert_text(at(v, texts[i].keys), texts[i].text);
    for (size_t i = 0; i < SG_COUNT(lists); i++) {
        const struct sg_jval *list = at(v, lists[i].keys);
        assert_int_equal(list->list.n, lists[i].n);
        assert_text(list->list.first, lists[i].first);
    }
    for (size_t i = 0; i < SG_COUNT(numbers); i++)
        assert_int_equal(at(v, numbers[i].keys)->u, numbers[i].value);
    const struct sg_jval *mounts = at(v, (const char *[]) { "HostConfig", "Mounts", NULL });
    assert_int_equal(mounts->list.n, 1);
    assert_text(sg_json_get(mounts->list.first, "Source"), SPEC.dir);
    assert_true(sg_json_get(mounts->list.first, "ReadOnly")->b);
    assert_true(at(v, (const char *[]) { "HostConfig", "ReadonlyRootfs", NULL })->b);
    assert_false(at(v, (const char *[]) { "HostConfig", "Privileged", NULL })->b);
    assert_non_null(
        strstr(at(v, (const char *[]) { "HostConfig", "Tmpfs", "/tmp", NULL })->s.p, ",size=4096"));
}

static void what_an_image_wants_to_write_to_lies_in_memory_with_a_limit(void **state)
{
    (void)state;
    static const char body[] =
        "{\"Id\":\"sha256:1\",\"Config\":{\"WorkingDir\":\"/app\",\"Env\":[\"A="
        "1\"],\"Volumes\":{\"/data\":{},\"relative\":{},\"/a:b\":{},\"/\":{}}}}";
    struct sg_docker_image image;
    struct sg_err err = { 0 };
    sg_auto_arena a;
    sg_arena_init(&a, 1 << 20);
    assert_ok(sg_docker_read_image(sg_str_of(body), &a, &image, &err), err);
    assert_int_equal(image.env->list.n, 1);
    const struct sg_jval *tmpfs =
        at(created(&SPEC, &image, &a), (const char *[]) { "HostConfig", "Tmpfs", NULL });
    assert_non_null(sg_json_get(tmpfs, "/data"));
    assert_null(sg_json_get(tmpfs, "relative"));
    assert_null(sg_json_get(tmpfs, "/a:b"));
    assert_null(sg_json_get(tmpfs, "/"));
}

static void names_are_no_parts_of_a_url(void **state)
{
    (void)state;
    static const char *const good[] = { "tiny", "python:3.12", "a.b:5000/x/y@sha256:0123", "A1" };
    static const char *const bad[] = { "",     "/x",  "a b", "a?x=1", "a%2f", "a/../b",
                                       "a//b", "a#b", "a/",  "-x",    "a\n",  ".." };
    static const char *const not_ours[] = {
        "other", "sandglass-", "sandglass-A", "sandglass-a/b", "sandglass-a?force=1", "/sandglass-a"
    };
    struct sg_err err = { 0 };
    for (size_t i = 0; i < SG_COUNT(good); i++)
        assert_ok(sg_docker_check_image(good[i], &err), err);
    for (size_t i = 0; i < SG_COUNT(bad); i++)
        assert_fails(sg_docker_check_image(bad[i], &err), err, SG_INVALID);
    for (size_t i = 0; i < SG_COUNT(not_ours); i++)
        assert_fails(sg_docker_check_name(not_ours[i], &err), err, SG_INVALID);
    assert_ok(sg_docker_check_name("sandglass-12.0af", &err), err);
}

static void count(void *arg, const char *name)
{
    assert_true(sg_starts_with(name, "sandglass-"));
    ++*(unsigned *)arg;
}

static void malformed_answers_are_errors(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "null", "[]x", "{", "\"text\"", "{\"Id\":1}", "17" };
    struct sg_err err = { 0 };
    struct sg_docker_image image;
    const char *text;
    unsigned n = 0;
    sg_auto_arena a;
    sg_arena_init(&a, 1 << 20);
    for (size_t i = 0; i < SG_COUNT(bad); i++) {
        const struct sg_str body = sg_str_of(bad[i]);
        assert_fails(sg_docker_read_image(body, &a, &image, &err), err, SG_INVALID);
        assert_fails(sg_docker_read_created(body, &a, &text, &err), err, SG_INVALID);
        assert_fails(sg_docker_read_list(body, &a, count, &n, &err), err, SG_INVALID);
    }
    assert_fails(sg_docker_read_created(sg_str_of("{\"Id\":\"a/../b\"}"), &a, &text, &err), err,
                 SG_INVALID);
    assert_ok(sg_docker_read_list(sg_str_of("[{\"Names\":[\"/sandglass-1\",\"/x\",3]},{},7]"), &a,
                                  count, &n, &err),
              err);
    assert_int_equal(n, 1);
}

static void what_the_engine_says_becomes_one_line(void **state)
{
    (void)state;
    char line[32];
    struct sg_err err = { 0 };
    sg_docker_read_message(sg_str_of("{\"message\":\"no such\\nimage\\u001b[1m\"}"), line,
                           sizeof line);
    assert_string_equal(line, "no such image [1m");
    sg_docker_read_message(sg_str_of("<html>"), line, sizeof line);
    assert_string_equal(line, "");
    assert_ok(sg_docker_read_pull(sg_str_of("{\"status\":\"a\"}\n{\"status\":\"b\"}"), &err), err);
    assert_fails(
        sg_docker_read_pull(sg_str_of("{\"status\":\"a\"}\n{\"error\":\"denied\"}\n"), &err), err,
        SG_NOT_FOUND);
    assert_string_equal(err.msg, "denied");
}

static void podman_says_who_it_is_and_is_told_how_many_processes_there_may_be(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    sg_auto_arena a;
    const char *version;
    bool is_podman;
    sg_arena_init(&a, 1 << 20);
    assert_ok(
        sg_docker_read_version(
            sg_str_of("{\"Version\":\"4.3\",\"Components\":[7,{\"Name\":\"Podman Engine\"}]}"), &a,
            &version, &is_podman, &err),
        err);
    assert_true(is_podman);
    assert_ok(sg_docker_read_version(
                  sg_str_of("{\"Version\":\"20\",\"Components\":[{\"Name\":\"Engine\"}]}"), &a,
                  &version, &is_podman, &err),
              err);
    assert_false(is_podman);
    struct sg_docker_spec spec = SPEC;
    const struct sg_docker_image image = { .id = "x" };
    const char *const keys[] = { "HostConfig", "Ulimits", NULL };
    assert_int_equal(at(created(&spec, &image, &a), keys)->list.n, 1);
    spec.user_processes = 32768;
    const struct sg_jval *limits = at(created(&spec, &image, &a), keys);
    assert_int_equal(limits->list.n, 2);
    assert_string_equal(sg_json_get(limits->list.first->next, "Name")->s.p, "nproc");
}

/* ---- templates of ours ---- */

#define ID64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void only_names_and_ids_of_ours_can_be_named(void **state)
{
    (void)state;
    static const char *const good[] = { "sandglass-template:base-0123",
                                        "sandglass-template:a.b_c" };
    static const char *const bad[] = { "sandglass-template:",      "sandglass-template:a/../b",
                                       "sandglass-template:-a",    "sandglass-template:A",
                                       "sandglass-template:a?x=1", "base",
                                       "sandglass-template" };
    for (size_t i = 0; i < SG_COUNT(good); i++)
        assert_int_equal(sg_docker_check_template(good[i], NULL), 0);
    for (size_t i = 0; i < SG_COUNT(bad); i++)
        assert_int_equal(sg_docker_check_template(bad[i], NULL), -1);
    assert_int_equal(sg_docker_check_id("sha256:" ID64, NULL), 0);
    assert_int_equal(sg_docker_check_id("sha256:" ID64 "0", NULL), -1);
    assert_int_equal(sg_docker_check_id("sha256:../containers", NULL), -1);
}

static void what_an_import_says_cannot_say_more(void **state)
{
    (void)state;
    sg_auto_buf out;
    sg_buf_init(&out, 4096);
    sg_docker_write_import(&out, "/run/x&y");
    sg_docker_write_import_env(&out, "A=1 \"$B\\");
    sg_docker_write_import_env(&out, "NO NAME=1");
    sg_docker_write_import_env(&out, "LINES=1\nUSER root");
    sg_docker_write_import_env(&out, "=1");
    assert_string_equal(sg_buf_cstr(&out),
                        "/images/create?fromSrc=-"
                        "&changes=LABEL%20sandglass.service%3D%22%2Frun%2Fx%26y%22"
                        "&changes=ENV%20A%3D%221%20%5C%22%5C%24B%5C%5C%22");
}

static void take_one(void *arg, const char *name)
{
    struct sg_buf *out = arg;
    sg_buf_addf(out, "%s\n", name);
}

static void images_are_told_by_our_name_or_by_their_id(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    sg_auto_arena a;
    sg_auto_buf out;
    sg_arena_init(&a, 1 << 20);
    sg_buf_init(&out, 4096);
    assert_ok(sg_docker_read_images(sg_str_of("[{\"Id\":\"sha256:" ID64 "\",\"RepoTags\":[\"x:1\","
                                              "\"localhost/sandglass-template:b-1\"]},"
                                              "{\"Id\":\"sha256:" ID64 "\",\"RepoTags\":null},"
                                              "{\"Id\":\"../x\"},7]"),
                                    &a, take_one, &out, &err),
              err);
    assert_string_equal(sg_buf_cstr(&out), "sandglass-template:b-1\nsha256:" ID64 "\n");
}

static void an_import_is_known_by_its_id_or_failed(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    const char *id;
    sg_auto_arena a;
    sg_arena_init(&a, 1 << 20);
    assert_ok(sg_docker_read_imported(
                  sg_str_of("{\"status\":\"Importing\"}\n{\"status\":\"sha256:" ID64 "\"}\n"), &a,
                  &id, &err),
              err);
    assert_string_equal(id, "sha256:" ID64);
    assert_int_equal(sg_docker_read_imported(sg_str_of("{\"error\":\"full\"}"), &a, &id, &err), -1);
    assert_non_null(strstr(err.msg, "full"));
    assert_int_equal(sg_docker_read_imported(sg_str_of("{\"status\":\"ok\"}"), &a, &id, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_container_is_closed_on_every_side),
        cmocka_unit_test(what_an_image_wants_to_write_to_lies_in_memory_with_a_limit),
        cmocka_unit_test(names_are_no_parts_of_a_url),
        cmocka_unit_test(malformed_answers_are_errors),
        cmocka_unit_test(what_the_engine_says_becomes_one_line),
        cmocka_unit_test(podman_says_who_it_is_and_is_told_how_many_processes_there_may_be),
        cmocka_unit_test(only_names_and_ids_of_ours_can_be_named),
        cmocka_unit_test(what_an_import_says_cannot_say_more),
        cmocka_unit_test(images_are_told_by_our_name_or_by_their_id),
        cmocka_unit_test(an_import_is_known_by_its_id_or_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
