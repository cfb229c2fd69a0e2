/* SPDX-License-Identifier: Apache-2.0 */
/* A directory for tests of init's file work, and what they do in it from outside. */
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include "init/remove.h"
#include "init_rig.h"

#define ARGV(...) ((char *const[]) { __VA_ARGS__, NULL })

static struct place {
    struct rig rig;
    char dir[64];
} place;

/* Makes the directory and starts init. */
static inline void place_start(void)
{
    (void)snprintf(place.dir, sizeof place.dir, "/tmp/sandglass-place-XXXXXX");
    assert_non_null(mkdtemp(place.dir));
    assert_int_equal(chmod(place.dir, 0755), 0);
    rig_start(&place.rig);
}

static inline int place_remove(void)
{
    return sg_remove_tree(AT_FDCWD, place.dir);
}

static inline int run(char *const *argv)
{
    int pid = fork(), status;
    if (pid == 0) {
        execv(argv[0], argv);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -1;
}

static inline char *in_dir(const char *name) /* returns owned */
{
    return sg_printf("%s/%s", place.dir, name);
}

static inline void put_file(const char *name, const char *text, size_t n)
{
    sg_auto_free char *path = in_dir(name);
    sg_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, text, n), (ssize_t)n);
}

static inline void expect_file(const char *name, const char *wanted)
{
    sg_auto_free char *path = in_dir(name);
    sg_auto_fd fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    sg_auto_buf text;
    struct sg_err err = { 0 };
    sg_buf_init(&text, 1 << 20);
    if (fd < 0)
        fail_msg("no '%s'", name);
    assert_ok(sg_buf_read_fd(&text, fd, path, &err), err);
    assert_string_equal(sg_buf_cstr(&text), wanted);
}

static inline mode_t mode_of(const char *name)
{
    struct stat st;
    sg_auto_free char *path = in_dir(name);
    if (lstat(path, &st) < 0)
        fail_msg("no '%s'", name);
    return st.st_mode;
}

/* Runs a command of the shell here, in the directory of the test. */
static inline void shell(const char *command)
{
    sg_auto_free char *line = sg_printf("cd %s && { %s; }", place.dir, command);
    if (run(ARGV("/bin/sh", "-c", line)) < 0)
        fail_msg("failed: %s", command);
}

/* Sends a request with one descriptor, which is closed here. */
static inline uint32_t send_with(struct rig *r, struct sg_msg *m, int fd)
{
    uint32_t id = rig_send(r, m, &fd, 1);
    (void)close(fd);
    return id;
}
