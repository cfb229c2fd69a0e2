/* SPDX-License-Identifier: Apache-2.0 */
/* REMOVE. One entry goes at once, a tree in a worker.
 *
 * The walk holds one directory open, however deep the tree. It goes down into the first directory
 * that is not empty, comes back up by "..", and starts reading again: what was seen before is gone.
 * The way back is remembered as (device, inode) and checked, so a directory that somebody moves
 * meanwhile cannot lead the walk out of the tree. Links are removed, never followed; a mount point
 * is busy and ends the walk. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "init/dir.h"
#include "init/init.h"
#include "init/path.h"
#include "init/remove.h"
#include "init/worker.h"
#include "base/banned.h"

enum { MAX_DEPTH = 1024 * 1024, DIR_FLAGS = O_RDONLY | O_DIRECTORY };

struct place {
    dev_t dev;
    ino_t ino;
};

struct walk {
    int dir;
    struct sg_buf above; /* struct place of every directory that we came through */
};

static int unlink_any(int dir, const char *name)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return -1;
    return unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -1;
}

static int place_of(int dir, struct place *ret)
{
    struct stat st;
    if (fstat(dir, &st) < 0)
        return -1;
    *ret = (struct place) { st.st_dev, st.st_ino };
    return 0;
}

static int go_down(struct walk *w, const char *name)
{
    struct place here;
    if (place_of(w->dir, &here) < 0)
        return -1;
    int next = openat(w->dir, name, DIR_FLAGS | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0)
        return -1;
    sg_close_p(&w->dir);
    w->dir = next;
    sg_buf_add(&w->above, &here, sizeof here);
    errno = ENOMEM;
    return w->above.has_overflowed ? -1 : 0;
}

static int go_up(struct walk *w)
{
    struct place expected, here;
    w->above.n -= sizeof expected;
    memcpy(&expected, w->above.p + w->above.n, sizeof expected);
    int up = openat(w->dir, "..", DIR_FLAGS | O_CLOEXEC);
    if (up < 0)
        return -1;
    sg_close_p(&w->dir);
    w->dir = up;
    if (place_of(up, &here) < 0)
        return -1;
    errno = EBUSY; /* somebody moved it */
    return here.dev == expected.dev && here.ino == expected.ino ? 0 : -1;
}

/* Removes what it can of the directory at hand. 0: it is empty; 1: went down into one; -1. */
static int sweep(struct walk *w)
{
    struct sg_dir dir;
    sg_dir_init(&dir, w->dir);
    for (const struct sg_dirent *d; (d = sg_dir_next(&dir));) {
        if (unlink_any(w->dir, d->name) == 0)
            continue;
        if (errno != ENOTEMPTY && errno != EEXIST)
            return -1;
        return go_down(w, d->name) < 0 ? -1 : 1;
    }
    return errno ? -1 : 0;
}

/* Entries may appear while we sweep: a directory counts as empty when a whole pass found nothing to
 * remove, which its removal from above then proves. */
static int sweep_tree(struct walk *w)
{
    for (;;) {
        int r = sweep(w);
        if (r < 0)
            return -1;
        if (r > 0)
            continue;
        if (w->above.n == 0)
            return 0;
        if (go_up(w) < 0)
            return -1;
    }
}

int sg_remove_tree(int parent_fd, const char *name)
{
    if (unlink_any(parent_fd, name) == 0)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -1;
    struct walk w = { .dir = openat(parent_fd, name, DIR_FLAGS | O_NOFOLLOW | O_CLOEXEC) };
    if (w.dir < 0)
        return -1;
    sg_buf_init(&w.above, MAX_DEPTH * sizeof(struct place));
    int result = sweep_tree(&w);
    sg_close_p(&w.dir);
    int keep = errno;
    sg_buf_done(&w.above);
    errno = keep;
    return result < 0 ? -1 : unlink_any(parent_fd, name);
}

/* ---- the request ---- */

static int work(int dir, const void *name, struct sg_err *err)
{
    return sg_remove_tree(dir, name) < 0 ? sg_fail_sys(err, "remove the tree") : 0;
}

int sg_handle_remove(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    const struct sg_msg_path *m = &c->m->remove;
    char name[SG_PATH_NAME_MAX + 1];
    sg_auto_fd dir = sg_path_open_parent(m->path, name, err);
    if (dir < 0)
        return -1;
    struct stat st; /* what is missing is an error here, though not inside a tree */
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return sg_fail_sys(err, "remove %s", sg_quote(m->path.p).s);
    if (unlink_any(dir, name) == 0)
        return 0;
    bool is_full = errno == ENOTEMPTY || errno == EEXIST;
    if (!is_full || !(m->flags & SG_REMOVE_RECURSIVE))
        return sg_fail_sys(err, "remove %s", sg_quote(m->path.p).s);

    return sg_worker_start(in, c, "sandglass-rm", work, dir, name, err);
}
