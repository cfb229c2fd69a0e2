/* SPDX-License-Identifier: Apache-2.0 */
/* File requests. All run with the asked user's ids (serve.c), on descriptors: a path is resolved
 * once, and what was checked is what is used. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "init/init.h"
#include "init/label.h"
#include "init/path.h"
#include "base/banned.h"

enum {
    ACCESS_MODE = O_RDONLY | O_WRONLY | O_RDWR, /* not O_ACCMODE: musl's lets O_PATH through */
    OPEN_FLAGS = ACCESS_MODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_DIRECTORY | O_NOFOLLOW,
};

static uint64_t mtime_ns(const struct stat *st)
{
    return (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
}

int sg_handle_open(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    (void)in;
    const struct sg_msg_open *m = &c->m->open;
    int flags = (int)m->flags;
    if (m->flags & ~(uint32_t)OPEN_FLAGS || (flags & ACCESS_MODE) == ACCESS_MODE)
        return sg_fail(err, SG_INVALID, "open flags 0%o are not permitted", (unsigned)m->flags);
    /* O_NONBLOCK: a FIFO must not hang us */
    sg_auto_fd fd = sg_path_open(m->path, flags | O_NONBLOCK | O_NOCTTY, m->mode, err);
    struct stat st;
    if (fd < 0) {
        if (err->sys == ENXIO) /* a FIFO without a reader, or a socket */
            err->kind = SG_INVALID;
        return -1;
    }
    if (fstat(fd, &st) < 0)
        return sg_fail_sys(err, "stat %s", sg_quote(m->path.p).s);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return sg_fail(err, SG_INVALID, "%s is not a file or directory", sg_quote(m->path.p).s);
    c->reply.type = SG_MSG_FD;
    c->reply.fd = (struct sg_msg_fd) { (uint64_t)st.st_size, st.st_mode };
    c->reply_fd = sg_take_fd(&fd);
    return 0;
}

static int read_target(int fd, struct sg_call *c, struct sg_err *err)
{
    char *room = (char *)sg_buf_grow(&c->store, SG_CTL_MAX_PATH);
    if (!room)
        return sg_fail(err, SG_EXHAUSTED, "no memory for a link's target");
    ssize_t n = readlinkat(fd, "", room, SG_CTL_MAX_PATH);
    if (n < 0)
        return sg_fail_sys(err, "read the link");
    c->reply.stated.target = (struct sg_text) { room, (size_t)n };
    return 0;
}

/* Those of a file or directory; other things have none. */
static int read_labels(int fd, struct sg_call *c, struct sg_err *err)
{
    char path[SG_PATH_LINK_BYTES];
    sg_path_of_fd(fd, path);
    return sg_labels_read(path, &c->store, &c->reply.stated.labels, err);
}

int sg_handle_stat(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    const struct sg_msg_path *m = &c->m->stat;
    int flags = O_PATH | (m->flags & SG_STAT_NOFOLLOW ? O_NOFOLLOW : 0);
    sg_auto_fd fd = sg_path_open(m->path, flags, 0, err);
    struct stat st;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0)
        return sg_fail_sys(err, "stat %s", sg_quote(m->path.p).s);
    c->reply.type = SG_MSG_STATED;
    struct sg_msg_stated *r = &c->reply.stated;
    if (S_ISLNK(st.st_mode) && read_target(fd, c, err) < 0)
        return -1;
    if (m->flags & SG_STAT_LABELS && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) &&
        read_labels(fd, c, err) < 0)
        return -1;
    sg_users_name(&in->users, st.st_uid, c->owner);
    sg_users_group_name(&in->users, st.st_gid, c->group);
    r->mode = st.st_mode;
    r->uid = st.st_uid;
    r->gid = st.st_gid;
    r->nlink = (uint32_t)st.st_nlink;
    r->bytes = (uint64_t)st.st_size;
    r->mtime_ns = mtime_ns(&st);
    r->inode = st.st_ino;
    r->owner = sg_text_of(c->owner);
    r->group = sg_text_of(c->group);
    return 0;
}

/* ---- make ---- */

int sg_handle_make(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    (void)in;
    const struct sg_msg_make *m = &c->m->make;
    if (m->flags & SG_MAKE_PARENTS && m->path.n)
        return sg_path_make(m->path, m->mode, err);
    char name[SG_PATH_NAME_MAX + 1];
    sg_auto_fd dir = sg_path_open_parent(m->path, name, err);
    if (dir < 0)
        return -1;
    if (mkdirat(dir, name, m->mode) < 0)
        return sg_fail_sys(err, "make %s", sg_quote(m->path.p).s);
    return 0;
}

/* ---- move, set attributes ---- */

int sg_handle_move(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    (void)in;
    enum { NOREPLACE = 1 }; /* RENAME_NOREPLACE */
    const struct sg_msg_move *m = &c->m->move;
    char from_name[SG_PATH_NAME_MAX + 1], to_name[SG_PATH_NAME_MAX + 1];
    sg_auto_fd from = sg_path_open_parent(m->from, from_name, err);
    if (from < 0)
        return -1;
    sg_auto_fd to = sg_path_open_parent(m->to, to_name, err);
    if (to < 0)
        return -1;
    unsigned flags = m->flags & SG_MOVE_NOREPLACE ? NOREPLACE : 0;
    if (syscall(SYS_renameat2, from, from_name, to, to_name, flags) < 0)
        return sg_fail_sys(err, "move %s to %s", sg_quote(m->from.p).s, sg_quote(m->to.p).s);
    return 0;
}

/* Ownership first: changing it clears the set-id bits that a mode may bring. */
static int set_attributes(int fd, const struct sg_msg_setattr *m, const struct sg_user *owner)
{
    if (m->what & SG_SETATTR_OWNER && fchownat(fd, "", owner->uid, owner->gid, AT_EMPTY_PATH) < 0)
        return -1;
    if (m->what & SG_SETATTR_MODE) {
        char link[SG_PATH_LINK_BYTES]; /* a descriptor of a path takes no fchmod() */
        sg_path_of_fd(fd, link);
        if (chmod(link, m->mode) < 0)
            return -1;
    }
    if (m->what & SG_SETATTR_MTIME) {
        const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
                                           { .tv_sec = (time_t)(m->mtime_ns / 1000000000u),
                                             .tv_nsec = (long)(m->mtime_ns % 1000000000u) } };
        return utimensat(fd, "", times, AT_EMPTY_PATH);
    }
    return 0;
}

int sg_handle_setattr(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    const struct sg_msg_setattr *m = &c->m->setattr;
    struct sg_user owner = { 0 };
    if (!m->what)
        return sg_fail(err, SG_INVALID, "no attribute to set");
    if (m->what & SG_SETATTR_OWNER && !m->owner.n)
        return sg_fail(err, SG_INVALID, "the new owner has no name");
    if (m->what & SG_SETATTR_OWNER && sg_users_find(&in->users, m->owner.p, false, &owner, err) < 0)
        return -1;
    sg_auto_fd fd = sg_path_open(m->path, O_PATH, 0, err);
    if (fd < 0)
        return -1;
    if (set_attributes(fd, m, &owner) < 0)
        return sg_fail_sys(err, "set attributes of %s", sg_quote(m->path.p).s);
    return 0;
}
