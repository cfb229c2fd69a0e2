/* SPDX-License-Identifier: Apache-2.0 */
/* init: searches by name and by text, by workers. */
#include "init_place.h"
#include "base/banned.h"

static int start(void **state)
{
    place_start();
    *state = &place.rig;
    return 0;
}

static int stop(void **state)
{
    rig_stop(*state);
    return place_remove();
}

/* Records as "path:line:text" lines, sorted by the shell's order of our making: by path. */
static void find(struct rig *r, struct sg_msg m, const char *wanted)
{
    int fds[2];
    sg_auto_free char *path = in_dir("source");
    sg_auto_buf out, text;
    sg_buf_init(&out, 1 << 20);
    sg_buf_init(&text, 1 << 20);
    m.type = SG_MSG_FIND;
    if (!m.find.path.n)
        m.find.path = sg_text_of(path);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    uint32_t id = send_with(r, &m, fds[1]);
    rig_read_all(fds[0], &out);
    (void)close(fds[0]);
    struct sg_msg *reply = rig_reply(r, id);
    if (reply->type != SG_MSG_OK)
        fail_msg("find: %s", reply->error.text.p);
    const char *p = sg_buf_cstr(&out), *end = p + out.n;
    while (p < end)
        for (unsigned i = 0; i < 3; i++) {
            assert_non_null(memchr(p, 0, (size_t)(end - p)));
            sg_buf_add_str(&text, p);
            sg_buf_add_str(&text, i < 2 ? ":" : "\n");
            p += strlen(p) + 1;
        }
    put_file("found", sg_buf_cstr(&text), text.n);
    shell("LC_ALL=C sort -t: -k1,1 -k2,2n found >sorted");
    expect_file("sorted", wanted);
}

static void make_source(void)
{
    shell("mkdir -p source/d/e && cd source && printf 'one\\ntwo\\nthree two\\n' >a.txt && "
          "printf 'two' >d/b.txt && printf 'two\\0' >d/binary.txt && echo two >d/e/c.md && "
          "ln -s a.txt link.txt && ln -s .. d/loop && mkfifo d/pipe.txt");
}

static void entries_are_found_by_their_name(void **state)
{
    struct rig *r = *state;
    make_source();
    struct sg_msg m = { .find = { .name = sg_text_of("*.txt") } };
    find(r, m, "a.txt:0:\nd/b.txt:0:\nd/binary.txt:0:\nd/pipe.txt:0:\nlink.txt:0:\n");
    m.find.name = sg_text_of("e");
    find(r, m, "d/e:0:\n");
    m.find.name = sg_text_of("d/*.md");
    find(r, m, "d/e/c.md:0:\n");
    m.find.name = sg_text_of("none");
    find(r, m, "");
}

static void lines_are_found_by_their_text(void **state)
{
    struct rig *r = *state;
    make_source();
    struct sg_msg m = { .find = { .text = sg_text_of("two"), .flags = SG_FIND_TEXT } };
    find(r, m, "a.txt:2:two\na.txt:3:three two\nd/b.txt:1:two\nd/e/c.md:1:two\n");
    m.find.name = sg_text_of("a.*");
    m.find.text = sg_text_of("e t");
    find(r, m, "a.txt:3:three two\n");
    m.find.text = sg_text_of("TWO");
    find(r, m, "");
}

static void a_search_stops_at_its_limit(void **state)
{
    struct rig *r = *state;
    make_source();
    struct sg_msg m = { .find = { .name = sg_text_of("a.txt"),
                                  .text = sg_text_of("t"),
                                  .flags = SG_FIND_TEXT,
                                  .max = 1 } };
    find(r, m, "a.txt:2:two\n");
    m.find.max = 2;
    find(r, m, "a.txt:2:two\na.txt:3:three two\n");
}

static void a_long_line_is_cut_around_what_was_found(void **state)
{
    struct rig *r = *state;
    shell("mkdir source && { head -c 5000 /dev/zero | tr '\\0' a; printf needle; "
          "head -c 5000 /dev/zero | tr '\\0' b; } >source/long");
    struct sg_msg m = { .find = { .text = sg_text_of("needle"), .flags = SG_FIND_TEXT } };
    char wanted[1200];
    int n = snprintf(wanted, sizeof wanted, "long:1:");
    memset(wanted + n, 'a', 256);
    memcpy(wanted + n + 256, "needle", 6);
    memset(wanted + n + 262, 'b', 1024 - 262);
    memcpy(wanted + n + 1024, "\n", 2);
    find(r, m, wanted);
}

static void the_kernels_own_file_systems_are_not_searched(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct rig r;
    rig_start_kept(&r); /* has mounts of its own */
    shell("mkdir -p source/window source/door && echo x >source/door/x");
    sg_auto_free char *command = sg_printf("mount -t proc proc %s/source/window && "
                                           "mount -t tmpfs tmpfs %s/source/door && "
                                           "echo y >%s/source/door/y",
                                           place.dir, place.dir, place.dir);
    assert_int_equal(rig_shell(&r, (struct rig_program) { .tag = "m" }, command, ""), 0);
    find(&r, (struct sg_msg) { 0 }, "door:0:\ndoor/y:0:\nwindow:0:\n");
    rig_stop(&r);
}

static void a_search_for_nothing_is_refused(void **state)
{
    struct rig *r = *state;
    struct sg_msg m = { .type = SG_MSG_FIND,
                        .find = { .path = sg_text_of("/"), .flags = SG_FIND_TEXT } };
    struct sg_msg *reply = rig_reply(r, send_with(r, &m, open("/dev/null", O_WRONLY | O_CLOEXEC)));
    assert_int_equal(reply->error.kind, SG_INVALID);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(entries_are_found_by_their_name),
        CASE(lines_are_found_by_their_text),
        CASE(a_search_stops_at_its_limit),
        CASE(a_long_line_is_cut_around_what_was_found),
        CASE(the_kernels_own_file_systems_are_not_searched),
        CASE(a_search_for_nothing_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
