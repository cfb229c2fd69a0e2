/* SPDX-License-Identifier: Apache-2.0 */
/* What an init that is not ours any more says about files, and hands out. */
#define RIG_HAS_FILES
#include "manager_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "manager/files.h"
#include "base/banned.h"

struct got {
    unsigned calls;
    bool has_fd;
    struct sg_err err;
    struct sg_file_write *w;
};

static void answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct got *g = arg;
    g->calls++;
    g->has_fd = p && p->fd_count;
    if (err)
        g->err = *err;
}

static struct got open_handed(struct rig *r, struct sg_sandbox *s, int fd)
{
    struct got g = { 0 };
    struct sg_err err;
    struct sg_msg m = { .type = SG_MSG_OPEN,
                        .open = { sg_text_of(""), sg_text_of("/f"), O_RDONLY, 0 } };
    assert_true(fd >= 0);
    r->handed_fd = fd;
    assert_ok(sg_files_ask(s, &r->who, &m, NULL, 0, answered, &g, &err), err);
    rig_until(r, g.calls);
    r->handed_fd = 0;
    (void)close(fd);
    return g;
}

static void only_what_can_be_read_and_not_written_is_taken(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    int pipes[2], sockets[2];
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    const int bad[] = {
        memfd_create("bottomless", MFD_CLOEXEC), /* regular, and open for writing */
        open("/dev/null", O_RDONLY | O_CLOEXEC),
        open("/proc/self/status", O_PATH | O_CLOEXEC),
        open("/tmp", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600),
        pipes[0],
        sockets[0],
    };
    for (unsigned i = 0; i < SG_COUNT(bad); i++) {
        struct got g = open_handed(r, s, bad[i]);
        if (g.has_fd || g.err.kind != SG_UNAVAILABLE)
            fail_msg("descriptor %u was taken", i);
    }
    (void)close(pipes[1]);
    (void)close(sockets[1]);
    assert_true(open_handed(r, s, open("/proc/self/status", O_RDONLY | O_CLOEXEC)).has_fd);
    assert_true(open_handed(r, s, open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)).has_fd);
}

static void opened(void *arg, struct sg_file_write *w, int fd, const struct sg_err *err)
{
    struct got *g = arg;
    g->calls++;
    g->has_fd = fd >= 0;
    g->w = w;
    if (err)
        g->err = *err;
}

/* This init says "done" to everything at once. */
static void an_upload_is_not_over_before_it_ended(void **state)
{
    struct rig *r = *state;
    struct sg_sandbox *s = rig_create(r, NULL);
    const struct sg_file_spec f = { .path = "/f", .mode = 0644 };
    struct got g = { 0 };
    struct sg_err err;
    assert_ok(sg_files_write(s, &r->who, &f, opened, &g, &err), err);
    rig_until(r, g.calls);
    assert_null(g.w);
    assert_int_equal(g.err.kind, SG_UNAVAILABLE);
    rig_until(r, s->work == 0);
    assert_int_equal(g.calls, 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(only_what_can_be_read_and_not_written_is_taken),
        T(an_upload_is_not_over_before_it_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
