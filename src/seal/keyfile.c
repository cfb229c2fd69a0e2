/* SPDX-License-Identifier: Apache-2.0 */
#include "seal/keyfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/kfile.h"
#include "base/banned.h"

int sg_seal_dir_open(const char *path, struct sg_err *err)
{
    if (sg_mkdir_all(path, 0700, err) < 0)
        return -1;
    sg_auto_fd dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return sg_fail_sys(err, "open its directory");
    while (flock(dir, LOCK_EX) < 0)
        if (errno != EINTR)
            return sg_fail_sys(err, "lock its directory");
    return sg_take_fd(&dir);
}

static int write_key(int dir, const struct sg_seal_key *key, struct sg_err *err)
{
    sg_auto_fd fd =
        openat(dir, "key.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, key->p, sizeof key->p) != (ssize_t)sizeof key->p || fsync(fd) < 0 ||
        renameat(dir, "key.new", dir, "key") < 0 || fsync(dir) < 0)
        return sg_fail_sys(err, "write it");
    return 0;
}

static int read_key(int fd, struct sg_seal_key *ret, struct sg_err *err)
{
    uint8_t more;
    if (read(fd, ret->p, sizeof ret->p) != (ssize_t)sizeof ret->p || read(fd, &more, 1) != 0)
        return sg_fail(err, SG_INVALID,
                       "it is not a key of %d bytes; put it back, or remove it and set every "
                       "secret anew",
                       SG_SEAL_KEY_BYTES);
    return 0;
}

int sg_seal_key_open(int dir_fd, struct sg_seal_key *ret, struct sg_err *err)
{
    struct sg_seal_key key;
    sg_auto_fd fd = openat(dir_fd, "key", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int got = 0;
    if (fd >= 0)
        got = read_key(fd, &key, err);
    else if (errno != ENOENT)
        got = sg_fail_sys(err, "open it");
    else if (sg_seal_make_key(&key, err) < 0 || write_key(dir_fd, &key, err) < 0)
        got = -1;
    if (got == 0)
        *ret = key;
    explicit_bzero(&key, sizeof key);
    return got;
}
