/* SPDX-License-Identifier: Apache-2.0 */
/* A writable layer made readable for somebody without rights: what an overlay says in attributes
 * that only the host's root sees is said once more in one that everybody reads and nobody inside
 * can set (`security.`, which takes the host's rights).
 *
 * An overlay says two things beside what lies there. A whiteout is a device 0/0, which anybody can
 * see. A directory that hides the one below has `trusted.overlay.opaque`. Directories that stand
 * for others (redirects) are refused: without the layer below they mean nothing. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "ctl/msg.h"
#include "launcher/vault.h"
#include "base/banned.h"

enum { DEPTH_MAX = 512 }; /* as deep as init's walk goes: an archive of more could not be made */
enum { DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

static bool has(int fd, const char *name)
{
    return fgetxattr(fd, name, NULL, 0) >= 0;
}

static int mark(int fd, struct sg_err *err)
{
    if (has(fd, "trusted.overlay.redirect"))
        return sg_fail(err, SG_UNSUPPORTED,
                       "a directory of the sandbox was moved by reference (overlay redirect_dir): "
                       "its layer cannot be moved");
    if (has(fd, "trusted.overlay.opaque") && fsetxattr(fd, SG_CTL_OPAQUE, "y", 1, 0) < 0)
        return sg_fail_sys(err, "mark a directory of a writable layer");
    return 0;
}

/* Takes `fd`. Nothing runs in the cell whose layer it is, and links are not followed. */
static int walk(int fd, unsigned depth, struct sg_err *err)
{
    sg_auto_dir dir = fdopendir(fd);
    if (!dir) {
        (void)close(fd);
        return sg_fail_sys(err, "read a writable layer");
    }
    if (depth > DEPTH_MAX)
        return sg_fail(err, SG_EXHAUSTED, "the sandbox has over %d directories in each other",
                       DEPTH_MAX);
    if (mark(fd, err) < 0)
        return -1;
    for (struct dirent *d; (d = readdir(dir));) {
        if (d->d_type != DT_DIR || strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        const int below = openat(fd, d->d_name, DIR_FLAGS);
        if (below < 0)
            return sg_fail_sys(err, "read a writable layer");
        if (walk(below, depth + 1, err) < 0)
            return -1;
    }
    return 0;
}

int sg_vault_unfold_work(int pool_fd, const struct sg_errand_data *d, uint64_t *ret,
                         struct sg_err *err)
{
    (void)ret;
    sg_auto_free char *path = sg_printf("%s/%s/up", sg_vault_folders[SG_VAULT_CELL], d->name);
    const int fd = openat(pool_fd, path, DIR_FLAGS);
    return fd < 0 ? sg_fail_sys(err, "open a writable layer") : walk(fd, 0, err);
}
