/* SPDX-License-Identifier: Apache-2.0 */
/* Programs under KEEP, whose streams are here and with init. */
#pragma once

#include "init_rig.h"

#define ARGV(...) ((char *const[]) { __VA_ARGS__, NULL })
#define SHELL(s)  ARGV("/bin/sh", "-c", (char *)(uintptr_t)(s))

static inline int start_rig(void **state)
{
    static struct rig rig;
    rig_start_kept(&rig);
    *state = &rig;
    return 0;
}

static inline int stop_rig(void **state)
{
    rig_stop(*state);
    return 0;
}

/* A program whose three streams are pipes, our ends of which are here and with init. */
struct kept_program {
    uint32_t pid;
    int in, out, err;
};

static inline struct kept_program start_kept(struct rig *r, const char *tag, char *const *argv)
{
    int in[2], out[2], err[2];
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    struct rig_program p = { .argv = argv,
                             .tag = tag,
                             .flags =
                                 SG_SPAWN_STDIN | SG_SPAWN_STDOUT | SG_SPAWN_STDERR | SG_SPAWN_KEEP,
                             .fds = { in[0], out[1], err[1], in[1], out[0], err[0] },
                             .fd_count = 6 };
    struct kept_program k = { rig_start_program(r, &p), in[1], out[0], err[0] };
    (void)close(in[0]);
    (void)close(out[1]);
    (void)close(err[1]);
    return k;
}

static inline void drop_ends(struct kept_program *k)
{
    sg_drop_fd(&k->in);
    sg_drop_fd(&k->out);
    sg_drop_fd(&k->err);
}

static inline void expect_text(int fd, const char *wanted)
{
    sg_auto_buf text;
    sg_buf_init(&text, 1 << 20);
    rig_read_all(fd, &text);
    assert_string_equal(sg_buf_cstr(&text), wanted);
}

static inline void release(struct rig *r, const char *tag)
{
    struct sg_msg m = { .type = SG_MSG_RELEASE, .release = { sg_text_of(tag) } };
    (void)rig_do(r, m, SG_MSG_OK);
}
