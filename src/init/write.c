/* SPDX-License-Identifier: Apache-2.0 */
/* WRITE: what a host uploads, written by a worker that is the user, so that the sandbox's limits of
 * memory and disk count it.
 *
 * W1. Everything is opened before the worker starts: what cannot be written is told at once, and in
 *     order with the answers to other requests.
 * W2. A whole file has no name while it is written. It gets one when the seal was the last byte in
 *     the pipe; a worker that ends before, whoever ended it, leaves nothing. Only a file system
 * that knows no files without names sees a temporary one, which the worker removes. W3. The end of
 * the pipe alone proves nothing: it also comes when the host dies. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "init/label.h"
#include "init/path.h"
#include "init/stream.h"
#include "init/worker.h"
#include "base/banned.h"

enum { DIR_MODE = 0755, PIECE_BYTES = 256 * 1024, NAME_TRIES = 16, TEMPORARY_BYTES = 40 };

struct writing {
    const struct sg_msg_write *m;
    int dir, file; /* dir: -1 where the file has its place already */
    char name[SG_PATH_NAME_MAX + 1];
    char temporary[TEMPORARY_BYTES]; /* "": the file has no name yet */
};

static int fail_path(const struct writing *w, struct sg_err *err)
{
    return sg_fail_sys(err, "write %s", sg_quote(w->m->path.p).s);
}

static void make_name(char ret[TEMPORARY_BYTES])
{
    uint64_t n[2] = { 0 };
    (void)!getrandom(n, sizeof n, GRND_NONBLOCK); /* who guesses it finds his own file */
    (void)snprintf(ret, TEMPORARY_BYTES, ".sg-%016llx%016llx", (unsigned long long)n[0],
                   (unsigned long long)n[1]);
}

/* ---- in the worker ---- */

/* Copies up to the seal, which is held back until the end shows that it is the last byte. */
static int copy(const struct writing *w, int from, struct sg_err *err)
{
    static uint8_t piece[PIECE_BYTES];
    size_t held = 0;
    for (;;) {
        ssize_t n = sg_stream_read(from, piece + held, sizeof piece - held);
        if (n < 0)
            return sg_fail_sys(err, "read what is uploaded");
        if (n == 0)
            break;
        size_t ready = held + (size_t)n - 1;
        if (sg_stream_write(w->file, piece, ready) < 0)
            return fail_path(w, err);
        piece[0] = piece[ready];
        held = 1;
    }
    if (!held || piece[0] != SG_WRITE_SEAL)
        return sg_fail(err, SG_INVALID, "the upload of %s was cut off", sg_quote(w->m->path.p).s);
    return 0;
}

/* 0, or -1 with errno; EEXIST: the name is taken. */
static int link_as(const struct writing *w, const char *name)
{
    char path[SG_PATH_LINK_BYTES];
    sg_path_of_fd(w->file, path);
    return linkat(AT_FDCWD, path, w->dir, name, AT_SYMLINK_FOLLOW);
}

/* A link cannot replace, a rename can: so what replaces has a name of its own for a moment. */
static int put_into_place(struct writing *w)
{
    if (!w->temporary[0]) {
        int result = link_as(w, w->name);
        for (int i = 0; result < 0 && errno == EEXIST && i < NAME_TRIES; i++) {
            make_name(w->temporary);
            result = link_as(w, w->temporary);
        }
        if (result < 0) {
            w->temporary[0] = '\0';
            return -1;
        }
        if (!w->temporary[0])
            return 0;
    }
    return renameat(w->dir, w->temporary, w->dir, w->name);
}

static int work(int fd, const void *arg, struct sg_err *err)
{
    struct writing w = *(const struct writing *)arg;
    w.file = fd + 1;
    if (w.dir < 0)
        return copy(&w, fd, err);
    w.dir = fd + 2;
    int result = copy(&w, fd, err);
    if (result == 0 && put_into_place(&w) < 0)
        result = fail_path(&w, err);
    if (result < 0 && w.temporary[0])
        (void)unlinkat(w.dir, w.temporary, 0);
    return result;
}

/* ---- in init ---- */

static int make_parents(struct sg_text path, struct sg_err *err)
{
    char parent[SG_CTL_MAX_PATH + 1];
    size_t n = path.n;
    while (n && path.p[n - 1] == '/')
        n--;
    while (n && path.p[n - 1] != '/')
        n--;
    if (!n)
        return 0;
    memcpy(parent, path.p, n);
    parent[n] = '\0';
    return sg_path_make((struct sg_text) { parent, n }, DIR_MODE, err);
}

/* What is there already is written to. */
static int open_in_place(struct writing *w, struct sg_err *err)
{
    const struct sg_msg_write *m = w->m;
    int how = m->flags & SG_WRITE_APPEND ? O_APPEND : O_TRUNC;
    struct stat st;
    /* O_NONBLOCK: a FIFO must not hang us */
    w->file = sg_path_open(m->path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | how, m->mode, err);
    if (w->file < 0) {
        if (err->sys == ENXIO) /* a FIFO without a reader, or a socket */
            err->kind = SG_INVALID;
        return -1;
    }
    if (fstat(w->file, &st) < 0)
        return fail_path(w, err);
    if (!S_ISREG(st.st_mode))
        return sg_fail(err, SG_INVALID, "%s is not a regular file", sg_quote(m->path.p).s);
    return 0;
}

static bool lacks_nameless(int sys)
{
    return sys == EOPNOTSUPP || sys == EISDIR || sys == EINVAL; /* by file system and kernel */
}

/* A new file, in the directory where it will have its name. */
static int open_beside(struct writing *w, struct sg_err *err)
{
    const struct sg_msg_write *m = w->m;
    mode_t mode = m->mode;
    struct stat st;
    w->dir = sg_path_open_parent(m->path, w->name, err);
    if (w->dir < 0) {
        errno = err->sys;
        return err->sys ? fail_path(w, err) : -1;
    }
    if (fstatat(w->dir, w->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
        return sg_fail(err, SG_CONFLICT, "%s is a directory", sg_quote(m->path.p).s);
    if (m->flags & SG_WRITE_KEEP_MODE && fstatat(w->dir, w->name, &st, 0) == 0 &&
        S_ISREG(st.st_mode))
        mode = st.st_mode & 0777;
    w->file = openat(w->dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    if (w->file < 0 && lacks_nameless(errno)) {
        make_name(w->temporary);
        w->file = openat(w->dir, w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                         mode);
    }
    return w->file < 0 ? fail_path(w, err) : 0;
}

static int begin(struct sg_init *in, const struct sg_call *c, struct writing *w, struct sg_err *err)
{
    const struct sg_msg_write *m = w->m;
    if (m->flags & SG_WRITE_PARENTS && make_parents(m->path, err) < 0)
        return -1;
    const bool stays = m->flags & (SG_WRITE_APPEND | SG_WRITE_IN_PLACE);
    if ((stays ? open_in_place(w, err) : open_beside(w, err)) < 0)
        return -1;
    const int fds[] = { c->packet->fds[0], w->file, w->dir };
    int result = m->flags & SG_WRITE_LABELS ? sg_labels_replace(w->file, m->labels, err) : 0;
    if (result == 0)
        result = sg_worker_start_with(in, c, "sandglass-write", work, fds, stays ? 2 : 3, w, err);
    if (result < 0 && w->temporary[0])
        (void)unlinkat(w->dir, w->temporary, 0);
    return result;
}

int sg_handle_write(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    struct writing w = { .m = &c->m->write, .dir = -1, .file = -1 };
    if (c->packet->fd_count != 1 || !c->m->write.path.n)
        return sg_fail(err, SG_INVALID, "an upload needs a descriptor and a path");
    int result = begin(in, c, &w, err);
    sg_drop_fd(&w.file);
    sg_drop_fd(&w.dir);
    return result;
}
