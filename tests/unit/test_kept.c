/* SPDX-License-Identifier: Apache-2.0 */
/* Kept cells on the real kernel: needs root. The maker is a process of its own, which is gone
 * before anything is asked of the cell. */
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "ctl/chan.h"
#include "engine/cell.h"
#include "sys/raw.h"
#include "base/banned.h"

enum { PATIENCE_MS = 10000, MIB = 1 << 20 };

struct made {
    struct sg_kept_note note;
    int ctl_fd;
};

static const struct sg_limits usual = { 64 * MIB, 1000, 32, 16 * MIB, 64, false };

static int make(const char *root, struct made *ret, struct sg_err *err)
{
    sg_auto_fd listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    const struct sg_cell_spec spec = { .layers = { root },
                                       .layer_count = 1,
                                       .hostname = SG_CELL_HOSTNAME,
                                       .limits = usual,
                                       .is_idmapped = true,
                                       .workdir = "/workspace",
                                       .listen_fd = listener };
    struct sg_kept_place place;
    struct sg_cell *cell =
        sg_kept_claim(false, NULL, &place, err) < 0 ? NULL : sg_cell_start_kept(false, &place, err);
    if (!cell)
        return -1;
    if (sg_cell_build(cell, &spec, err) < 0 || sg_cell_settle(cell, err) < 0) {
        sg_cell_free(cell);
        return -1;
    }
    struct sg_kept k;
    sg_cell_keep(cell, &k, &ret->ctl_fd);
    ret->note = (struct sg_kept_note) { .slot = k.ids.slot,
                                        .pid = k.pid,
                                        .start_ticks = k.start_ticks,
                                        .limits = k.limits,
                                        .cgroup = k.cgroup };
    sg_kept_done(&k);
    return 0;
}

/* The maker: sends what it made, and ends. */
static _Noreturn void maker(const char *root, int to_fd)
{
    struct made m = { .ctl_fd = -1 };
    struct sg_err err = { 0 };
    if (make(root, &m, &err) < 0) {
        (void)fprintf(stderr, "make a cell: %s\n", err.msg);
        _exit(1);
    }
    _exit(sg_chan_send_bytes(to_fd, &m, sizeof m, &m.ctl_fd, 1, true, &err) < 0);
}

static struct made make_elsewhere(void)
{
    char root[] = "/var/tmp/sg-kept-XXXXXX";
    assert_non_null(mkdtemp(root));
    assert_int_equal(chmod(root, 0755), 0);
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    pid_t pid = fork();
    if (pid == 0)
        maker(root, pair[1]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    (void)rmdir(root); /* the mounts have their own hold on it */

    struct made m;
    struct iovec iov = { &m, sizeof m };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr mh = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    assert_int_equal(recvmsg(pair[0], &mh, MSG_CMSG_CLOEXEC), sizeof m);
    memcpy(&m.ctl_fd, CMSG_DATA(&control.head), sizeof m.ctl_fd);
    (void)close(pair[0]);
    (void)close(pair[1]);
    return m;
}

static struct sg_kept adopt(const struct made *m)
{
    struct sg_kept k;
    struct sg_err err = { 0 };
    assert_ok(sg_kept_adopt(false, &m->note, &k, &err), err);
    return k;
}

static void await(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
}

static void await_ready(int ctl_fd)
{
    sg_auto_packet p;
    sg_packet_init(&p);
    struct sg_err err = { 0 };
    await(ctl_fd);
    assert_int_equal(sg_chan_recv(ctl_fd, 1u << SG_ROLE_EVENT, false, &p, &err), SG_RECV_MESSAGE);
    assert_int_equal(p.msg.type, SG_MSG_READY);
}

static bool is_there(const struct sg_kept *k)
{
    for (unsigned i = 0; i < k->cgroup.dir_count; i++)
        if (k->cgroup.dirs[i][0] && access(k->cgroup.dirs[i], F_OK) == 0)
            return true;
    return false;
}

static void end(struct sg_kept *k, struct made *m)
{
    sg_kept_kill(k);
    await(k->pidfd);
    struct sg_err err = { 0 };
    int tries = PATIENCE_MS;
    while (sg_kept_finish(k, &err) < 0 && err.kind == SG_CONFLICT && --tries)
        (void)poll(NULL, 0, 1);
    assert_true(tries > 0);
    assert_false(is_there(k));
    sg_kept_done(k);
    sg_drop_fd(&m->ctl_fd);
}

/* ---- tests ---- */

static void a_kept_cell_outlives_its_maker_and_holds_its_slot(void **state)
{
    (void)state;
    struct made m = make_elsewhere();
    await_ready(m.ctl_fd);
    struct sg_kept k = adopt(&m);
    assert_true(is_there(&k));
    struct sg_ids ids;
    struct sg_err err;
    assert_fails(sg_ids_claim_slot(true, m.note.slot, &ids, &err), err, SG_CONFLICT);
    end(&k, &m);
    assert_ok(sg_ids_claim_slot(true, m.note.slot, &ids, &err), err);
    sg_ids_release(&ids);
}

static void pid_1_has_the_socket_and_the_lock_and_nothing_else(void **state)
{
    (void)state;
    struct made m = make_elsewhere();
    await_ready(m.ctl_fd);
    static const char *const wanted[] = { "/dev/null", "/dev/null", "/dev/null",
                                          "socket:",   "socket:",   "/run/sandglass/slots" };
    for (unsigned i = 0; i < SG_COUNT(wanted); i++) {
        char path[64], target[128] = "";
        (void)snprintf(path, sizeof path, "/proc/%d/fd/%u", m.note.pid, i);
        (void)!readlink(path, target, sizeof target - 1);
        if (strncmp(target, wanted[i], strlen(wanted[i])) != 0)
            fail_msg("descriptor %u is '%s'", i, target);
    }
    struct sg_kept k = adopt(&m);
    end(&k, &m);
}

static void another_process_is_never_adopted(void **state)
{
    (void)state;
    struct made m = make_elsewhere();
    struct sg_kept k;
    struct sg_err err;
    struct sg_kept_note later = m.note, elsewhere = m.note, first = m.note;
    later.start_ticks++;
    elsewhere.slot = (elsewhere.slot + 1) % SG_SLOT_COUNT;
    first.pid = 1;
    assert_fails(sg_kept_adopt(false, &later, &k, &err), err, SG_NOT_FOUND);
    assert_fails(sg_kept_adopt(false, &elsewhere, &k, &err), err, SG_NOT_FOUND);
    assert_fails(sg_kept_adopt(false, &first, &k, &err), err, SG_NOT_FOUND);
    k = adopt(&m);
    end(&k, &m);
    assert_fails(sg_kept_adopt(false, &m.note, &k, &err), err, SG_NOT_FOUND);
}

static void limits_change_while_it_runs_and_all_or_nothing(void **state)
{
    (void)state;
    struct made m = make_elsewhere();
    await_ready(m.ctl_fd);
    struct sg_kept k = adopt(&m);
    struct sg_err err = { 0 };
    struct sg_kept_report r;
    static const struct sg_limits rows[] = { { 256 * MIB, 2000, 64, 128 * MIB, 0, false },
                                             { 32 * MIB, 500, 16, 8 * MIB, 0, false } };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        assert_ok(sg_kept_set_limits(&k, &rows[i], &err), err);
        assert_ok(sg_kept_report(&k, &r, &err), err);
        assert_int_equal(r.disk_bytes, rows[i].disk_bytes);
        assert_int_equal(k.limits.mem_bytes, rows[i].mem_bytes);
        assert_int_equal(k.limits.open_files, usual.open_files);
    }
    assert_true(r.now.mem_bytes > 0 && r.now.mem_bytes < 32 * MIB);
    assert_int_equal(r.now.pids, 1);
    assert_true(r.now.cpu_ns > 0 && r.now.cpu_ns != SG_UNKNOWN);

    int gauges[SG_L_GAUGE_COUNT];
    assert_ok(sg_cgroup_gauges(&k.cgroup, gauges, &err), err);
    for (unsigned i = 0; i < SG_COUNT(gauges); i++) {
        char text[512] = "";
        assert_true(pread(gauges[i], text, sizeof text - 1, 0) > 0);
        assert_true(text[0] > '0' && text[0] <= '9' ? true : strstr(text, "usage_usec ") != NULL);
        (void)close(gauges[i]);
    }

    /* It stores a file already: a disk of nothing is refused, and the memory stays. */
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/root/tmp/file", m.note.pid);
    sg_auto_fd file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    static char block[2 * MIB];
    assert_int_equal(write(file, block, sizeof block), sizeof block);
    const struct sg_limits small = { 48 * MIB, 500, 16, MIB, 0, false };
    assert_fails(sg_kept_set_limits(&k, &small, &err), err, SG_CONFLICT);
    assert_int_equal(k.limits.mem_bytes, 32 * MIB);
    assert_ok(sg_kept_report(&k, &r, &err), err);
    assert_int_equal(r.disk_bytes, 8 * MIB);
    assert_true(r.disk_used_bytes >= sizeof block);
    end(&k, &m);
}

static void freeze(struct sg_kept *k)
{
    struct sg_err err = { 0 };
    assert_ok(sg_kept_freeze(k, &err), err);
    int tries = PATIENCE_MS;
    while (!sg_kept_is_frozen(k) && --tries)
        (void)poll(NULL, 0, 1);
    assert_true(tries > 0);
}

static void a_frozen_cell_answers_after_the_thaw(void **state)
{
    (void)state;
    struct made m = make_elsewhere();
    await_ready(m.ctl_fd);
    struct sg_kept k = adopt(&m);
    struct sg_err err = { 0 };
    freeze(&k);
    struct sg_msg hello = { .type = SG_MSG_HELLO, .id = 1 };
    hello.hello = (struct sg_msg_hello) { .version = SG_CTL_VERSION };
    assert_ok(sg_chan_send(m.ctl_fd, &hello, NULL, 0, false, &err), err);
    struct pollfd p = { .fd = m.ctl_fd, .events = POLLIN };
    assert_int_equal(poll(&p, 1, 50), 0);
    assert_ok(sg_kept_thaw(&k, &err), err);
    await(m.ctl_fd);
    assert_false(sg_kept_is_frozen(&k));
    end(&k, &m);
}

static void a_frozen_cell_can_be_ended_by_one_who_did_not_freeze_it(void **state)
{
    (void)state;
    struct made m = make_elsewhere();
    await_ready(m.ctl_fd);
    struct sg_kept k = adopt(&m);
    freeze(&k);
    sg_kept_done(&k);
    k = adopt(&m);
    end(&k, &m);
}

static void a_slot_is_ours_until_all_is_removed_and_left_alone_when_it_is_not(void **state)
{
    (void)state;
    struct made m = make_elsewhere();
    struct sg_kept k = adopt(&m);
    sg_kept_kill(&k);
    await(k.pidfd);
    struct sg_ids ids;
    struct sg_err err = { 0 };
    assert_fails(sg_ids_claim_slot(true, m.note.slot, &ids, &err), err, SG_CONFLICT); /* K2 */
    sg_ids_release(&k.ids); /* as where pid 1 would not give it */
    assert_ok(sg_ids_claim_slot(true, m.note.slot, &ids, &err), err);
    assert_ok(sg_kept_finish(&k, &err), err);
    assert_true(k.has_lost_slot);
    assert_true(is_there(&k)); /* theirs to remove */
    assert_ok(sg_cgroup_remove(&k.cgroup, PATIENCE_MS, &err), err);
    sg_ids_release(&ids);
    sg_kept_done(&k);
    sg_drop_fd(&m.ctl_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kept_cell_outlives_its_maker_and_holds_its_slot),
        cmocka_unit_test(pid_1_has_the_socket_and_the_lock_and_nothing_else),
        cmocka_unit_test(another_process_is_never_adopted),
        cmocka_unit_test(limits_change_while_it_runs_and_all_or_nothing),
        cmocka_unit_test(a_frozen_cell_answers_after_the_thaw),
        cmocka_unit_test(a_frozen_cell_can_be_ended_by_one_who_did_not_freeze_it),
        cmocka_unit_test(a_slot_is_ours_until_all_is_removed_and_left_alone_when_it_is_not),
    };
    if (geteuid() != 0)
        return skip_all("needs root");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
