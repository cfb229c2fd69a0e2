/* SPDX-License-Identifier: Apache-2.0 */
#include "scene.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "ctl/chan.h"
#include "engine/cell.h"
#include "fault.h"
#include "base/banned.h"

enum { ANSWER_MS = 10000 };

static const char *const dirs[] = { "usr", "etc", "dev", "proc", "sys", "tmp" };
static const char *const links[] = { "bin", "lib", "lib64", "sbin" }; /* into usr/ */

char *scene_make_root(void)
{
    char *root = sg_strdup("/var/tmp/sg-fault-XXXXXX");
    if (!mkdtemp(root) || chmod(root, 0755) < 0)
        abort();
    for (size_t i = 0; i < SG_COUNT(dirs); i++) {
        sg_auto_free char *path = sg_printf("%s/%s", root, dirs[i]);
        if (mkdir(path, 0755) < 0)
            abort();
    }
    for (size_t i = 0; i < SG_COUNT(links); i++) {
        sg_auto_free char *path = sg_printf("%s/%s", root, links[i]);
        sg_auto_free char *target = sg_printf("usr/%s", links[i]);
        if (symlink(target, path) < 0)
            abort();
    }
    return root;
}

void scene_remove_root(char *root)
{
    for (size_t i = 0; i < SG_COUNT(links); i++) {
        sg_auto_free char *path = sg_printf("%s/%s", root, links[i]);
        (void)unlink(path);
    }
    for (size_t i = 0; i < SG_COUNT(dirs); i++) {
        sg_auto_free char *path = sg_printf("%s/%s", root, dirs[i]);
        (void)rmdir(path);
    }
    (void)rmdir(root);
    free(root);
}

static struct sg_cell_spec spec_of(const char *root)
{
    return (struct sg_cell_spec) {
        .layers = { root },
        .layer_count = 1,
        .binds = { { "/usr", "/usr", SG_BIND_READ_ONLY } },
        .bind_count = 1,
        .hide = { "/usr/local" },
        .hide_count = 1,
        .hostname = "fault",
        .limits = { 64u << 20, 1000, 32, 16u << 20, 64, false },
        .is_read_only = true,
        .is_idmapped = true,
        .workdir = "/workspace",
        .owner_id = 1000,
    };
}

static int send_requests(int ctl, struct sg_err *err)
{
    static char program[] = "/bin/true";
    char *const argv[] = { program, NULL }, *const env[] = { NULL };
    struct sg_msg hello = { .type = SG_MSG_HELLO, .id = 1, .epoch = 1 };
    hello.hello = (struct sg_msg_hello) { .version = SG_CTL_VERSION, .epoch = 1 };
    struct sg_msg spawn = { .type = SG_MSG_SPAWN, .id = 2, .epoch = 1 };
    spawn.spawn.user = sg_text_of("0");
    spawn.spawn.cwd = sg_text_of("/");
    sg_auto_buf arg_store, env_store;
    sg_buf_init(&arg_store, 4096);
    sg_buf_init(&env_store, 4096);
    if (sg_texts_pack(argv, &arg_store, &spawn.spawn.argv, err) < 0 ||
        sg_texts_pack(env, &env_store, &spawn.spawn.env, err) < 0)
        return sg_wrap(err, "pack the command");
    if (sg_chan_send(ctl, &hello, NULL, 0, true, err) < 0)
        return -1;
    return sg_chan_send(ctl, &spawn, NULL, 0, true, err);
}

static int await_exit(int ctl, struct sg_packet *p, struct sg_err *err)
{
    for (;;) {
        struct pollfd f = { .fd = ctl, .events = POLLIN };
        if (poll(&f, 1, ANSWER_MS) <= 0)
            return sg_fail(err, SG_TIMEOUT, "no answer from the cell");
        switch (sg_chan_recv(ctl, 1u << SG_ROLE_REPLY | 1u << SG_ROLE_EVENT, false, p, err)) {
        case SG_RECV_ERROR:
            return -1;
        case SG_RECV_CLOSED:
            return sg_fail(err, SG_UNAVAILABLE, "the cell is gone");
        case SG_RECV_AGAIN:
            continue;
        case SG_RECV_MESSAGE:
            break;
        }
        if (p->msg.type == SG_MSG_ERROR)
            return sg_fail(err, SG_INTERNAL, "init says: %s", p->msg.error.text.p);
        if (p->msg.type == SG_MSG_EXITED)
            return p->msg.exited.code == 0 ? 0 : sg_fail(err, SG_INTERNAL, "it did not end well");
    }
}

static struct sg_cell *start_kept(struct sg_err *err)
{
    struct sg_kept_place place;
    return sg_kept_claim(false, NULL, &place, err) < 0 ? NULL
                                                       : sg_cell_start_kept(false, &place, err);
}

int scene_play(const char *root, unsigned flags, struct sg_err *err)
{
    const struct sg_cell_spec spec = spec_of(root);
    struct sg_cell *cell = flags & SCENE_KEPT ? start_kept(err) : sg_cell_start(false, flags, err);
    if (!cell)
        return -1;
    sg_auto_packet packet;
    sg_packet_init(&packet);
    struct sg_cell_report report;
    int ret = sg_cell_build(cell, &spec, err);
    if (ret == 0)
        ret = send_requests(sg_cell_ctl(cell), err);
    if (ret == 0)
        ret = sg_cell_settle(cell, err);
    if (ret == 0)
        ret = await_exit(sg_cell_ctl(cell), &packet, err);
    if (ret == 0)
        ret = sg_cell_report(cell, &report, err);
    __atomic_store_n(&fault->is_ending, 1, __ATOMIC_RELEASE);
    if (!(flags & SG_CELL_SWEPT)) /* else the process ends, and the sweeper does the rest */
        sg_cell_free(cell);
    return ret;
}
