/* SPDX-License-Identifier: Apache-2.0 */
/* A directory that looks like the v2 cgroup of a frozen cell. What is written is found in it;
 * nothing else comes of it. */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "engine/cgroup.h"
#include "sys/kfile.h"

struct fake_cgroup {
    char dir[64];
    int fd;
};

static inline void fake_cgroup_put(const struct fake_cgroup *f, const char *file, const char *text)
{
    const int fd = openat(f->fd, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
}

static inline void fake_cgroup_has(const struct fake_cgroup *f, const char *file, const char *text)
{
    char got[64] = "";
    struct sg_err err = { 0 };
    assert_ok(sg_file_read(f->fd, file, got, sizeof got, &err), err);
    assert_string_equal(got, text);
}

static inline void fake_cgroup_make(struct fake_cgroup *f, struct sg_cgroup *g)
{
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/sandglass-rig-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(f->fd >= 0);
    memset(g, 0, sizeof *g);
    g->is_v2 = true;
    g->dir_count = 1;
    (void)snprintf(g->dirs[0], sizeof g->dirs[0], "%s", f->dir);
    fake_cgroup_put(f, "cgroup.events", "populated 1\nfrozen 1\n");
    fake_cgroup_put(f, "cgroup.freeze", "");
    fake_cgroup_put(f, "memory.current", "104857600");
    fake_cgroup_put(f, "memory.reclaim", "");
    fake_cgroup_put(f, "memory.swap.max", "0");
}

/* A memory.reclaim whose writer waits, as for a kernel that is busy, until somebody reads. */
static inline void fake_cgroup_is_slow(const struct fake_cgroup *f)
{
    assert_int_equal(unlinkat(f->fd, "memory.reclaim", 0), 0);
    assert_int_equal(mkfifoat(f->fd, "memory.reclaim", 0644), 0);
}

static inline void fake_cgroup_remove(struct fake_cgroup *f)
{
    static const char *const files[] = { "cgroup.events", "cgroup.freeze", "memory.current",
                                         "memory.reclaim", "memory.swap.max" };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        (void)unlinkat(f->fd, files[i], 0);
    assert_int_equal(rmdir(f->dir), 0);
    assert_int_equal(close(f->fd), 0);
}
