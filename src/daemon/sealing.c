/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sealing.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/kfile.h"
#include "base/banned.h"

struct report {
    struct sg_seal_key public;
    struct sg_err err; /* kind SG_OK: none. Its `where` is static, and the same after a fork */
};

/* ---- in the process of its own ---- */

static int write_key(int dir, const struct sg_seal_key *key, struct sg_err *err)
{
    sg_auto_fd fd =
        openat(dir, "key.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, key->p, sizeof key->p) != (ssize_t)sizeof key->p || fsync(fd) < 0 ||
        renameat(dir, "key.new", dir, "key") < 0 || fsync(dir) < 0)
        return sg_fail_sys(err, "write it");
    return 0;
}

/* A key that is damaged is not replaced: what was sealed with it would be lost without a word. */
static int read_key(int dir, int fd, struct sg_seal_key *ret, struct sg_err *err)
{
    (void)dir;
    uint8_t more;
    if (read(fd, ret->p, sizeof ret->p) != (ssize_t)sizeof ret->p || read(fd, &more, 1) != 0)
        return sg_fail(err, SG_INVALID,
                       "it is not a key of %d bytes; put it back, or remove it and set every "
                       "secret anew",
                       SG_SEAL_KEY_BYTES);
    return 0;
}

static int find_public(const char *path, struct sg_seal_key *ret, struct sg_err *err)
{
    struct sg_seal_key key;
    if (sg_mkdir_all(path, 0700, err) < 0)
        return -1;
    sg_auto_fd dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return sg_fail_sys(err, "open its directory");
    sg_auto_fd fd = openat(dir, "key", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int got = 0;
    if (fd >= 0)
        got = read_key(dir, fd, &key, err);
    else if (errno != ENOENT)
        got = sg_fail_sys(err, "open it");
    else if (sg_seal_make_key(&key, err) < 0 || write_key(dir, &key, err) < 0)
        got = -1;
    if (got == 0)
        got = sg_seal_public(&key, ret, err);
    explicit_bzero(&key, sizeof key);
    return got;
}

static _Noreturn void report(const char *path, int fd)
{
    struct report r = { 0 };
    if (find_public(path, &r.public, &r.err) < 0 && r.err.kind == SG_OK)
        r.err.kind = SG_INTERNAL;
    (void)!write(fd, &r, sizeof r);
    _exit(0);
}

/* ---- here ---- */

int sg_sealing_key(const char *dir, struct sg_seal_key *ret_public, struct sg_err *err)
{
    struct report r;
    int ends[2], status;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd near = ends[0], far = ends[1];
    const pid_t pid = fork();
    if (pid < 0)
        return sg_fail_sys(err, "start the process that reads the key");
    if (pid == 0)
        report(dir, far);
    sg_drop_fd(&far);
    const ssize_t n = read(near, &r, sizeof r);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (n != (ssize_t)sizeof r)
        return sg_fail(err, SG_INTERNAL, "the process that reads %s/key ended", dir);
    if (r.err.kind != SG_OK) {
        if (err)
            *err = r.err;
        return sg_wrap(err, "the key of the secrets, %s/key", dir);
    }
    *ret_public = r.public;
    return 0;
}
