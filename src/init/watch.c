/* SPDX-License-Identifier: Apache-2.0 */
/* WATCH: file events below a directory, as CHANGED messages.
 *
 * Each request has an inotify instance of its own, so that UNWATCH is a close(), and a table from
 * the kernel's watch numbers to paths below the root. A recursive watch adds directories as they
 * appear; since somebody may have filled them before we looked, what is found inside is reported as
 * created, at worst twice. A directory that is moved is forgotten with all below it and, where its
 * new place is below the root, found again there.
 *
 * W1. What cannot be followed (too many directories, events lost, too long a path) is reported as
 *     OVERFLOW, never skipped in silence.
 * W2. While the outbox holds anything no events are read: the kernel's own queue is bounded. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "init/dir.h"
#include "init/init.h"
#include "init/path.h"
#include "base/banned.h"

enum { MAX_DIRS = 8192, BUCKETS = 64, READ_BYTES = 4096 };

#define INTERESTING                                                                                \
    (IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |                 \
     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

struct dir {
    struct dir *next;
    int wd;
    bool is_new; /* still to be read for what is below */
    char path[]; /* below the root; "" is the root itself */
};

struct sg_watch {
    struct sg_source source;
    uint32_t id;
    bool is_recursive;
    char *root; /* owned; opened anew when needed, since holding it would hide its removal */
    struct stat identity;
    int root_wd;
    unsigned dir_count;
    struct sg_user user;
    struct dir *buckets[BUCKETS];
};

/* ---- the table of directories ---- */

static struct dir **bucket_of(struct sg_watch *w, int wd)
{
    return &w->buckets[(unsigned)wd % BUCKETS];
}

static struct dir *find_dir(struct sg_watch *w, int wd)
{
    struct dir *d = *bucket_of(w, wd);
    while (d && d->wd != wd)
        d = d->next;
    return d;
}

static void free_dir(struct sg_watch *w, struct dir **at)
{
    struct dir *d = *at;
    *at = d->next;
    free(d);
    w->dir_count--;
}

static void forget_dir(struct sg_watch *w, int wd)
{
    for (struct dir **at = bucket_of(w, wd); *at; at = &(*at)->next)
        if ((*at)->wd == wd) {
            free_dir(w, at);
            return;
        }
}

static bool is_at_or_below(const char *path, const char *top)
{
    size_t n = strlen(top);
    return strncmp(path, top, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* A directory has left its place: so has everything below it. */
static void forget_below(struct sg_watch *w, const char *top)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct dir **at = &w->buckets[i]; *at;) {
            if (!is_at_or_below((*at)->path, top)) {
                at = &(*at)->next;
                continue;
            }
            (void)inotify_rm_watch(w->source.fd, (*at)->wd);
            free_dir(w, at);
        }
}

/* ---- events ---- */

static void report(struct sg_init *in, struct sg_watch *w, uint32_t what, const char *path)
{
    struct sg_msg m = { .type = SG_MSG_CHANGED, .changed = { w->id, what, sg_text_of(path) } };
    sg_outbox_send(in, &m, -1);
}

/* False where it does not fit. */
static bool join(char out[SG_CTL_MAX_PATH], const char *dir, const char *name)
{
    int n = snprintf(out, SG_CTL_MAX_PATH, "%s%s%s", dir, *dir ? "/" : "", name);
    return n >= 0 && n < SG_CTL_MAX_PATH;
}

/* ---- adding ---- */

/* Watches the open directory `fd`. 0, or -1 with errno. */
static int add_dir(struct sg_watch *w, int fd, const char *path)
{
    char link[SG_PATH_LINK_BYTES];
    if (w->dir_count == MAX_DIRS) {
        errno = ENOSPC;
        return -1;
    }
    sg_path_of_fd(fd, link);
    int wd = inotify_add_watch(w->source.fd, link, INTERESTING);
    if (wd < 0)
        return -1;
    forget_dir(w, wd); /* the same directory, seen again under another name */
    size_t n = strlen(path) + 1;
    struct dir *d = sg_alloc(sizeof *d + n);
    d->wd = wd;
    d->is_new = true;
    memcpy(d->path, path, n);
    d->next = *bucket_of(w, wd);
    *bucket_of(w, wd) = d;
    w->dir_count++;
    return wd;
}

/* Opens the root, if it is still the one that is watched. */
static int open_root(const struct sg_watch *w, struct sg_err *err)
{
    struct stat st;
    sg_auto_fd fd = sg_path_open(sg_text_of(w->root), O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0, err);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || (w->identity.st_ino && (st.st_ino != w->identity.st_ino ||
                                                      st.st_dev != w->identity.st_dev)))
        return sg_fail(err, SG_CONFLICT, "%s is another directory now", sg_quote(w->root).s);
    return sg_take_fd(&fd);
}

/* Opens and watches a directory below the root. What is gone or not readable is nobody's loss. */
static int add_below(struct sg_watch *w, int root, const char *path)
{
    sg_auto_fd fd =
        sg_path_open_at(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd >= 0 && add_dir(w, fd, path) >= 0)
        return 0;
    return errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP ? 0 : -1;
}

/* Reads a new directory: adds what is below it and, with `tells`, reports what is in it. */
static int read_new(struct sg_init *in, struct sg_watch *w, int root, const char *path, bool tells)
{
    sg_auto_fd fd = sg_path_open_at(root, *path ? path : ".",
                                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        return 0;
    int result = 0;
    struct sg_dir dir;
    char below[SG_CTL_MAX_PATH];
    sg_dir_init(&dir, fd);
    for (const struct sg_dirent *e; (e = sg_dir_next(&dir));) {
        bool is_dir = e->type == DT_DIR;
        if (!join(below, path, e->name))
            return -1;
        if (is_dir && add_below(w, root, below) < 0)
            return -1;
        if (tells && !sg_outbox_is_empty(in)) /* the host is behind: it must look for itself */
            result = -1;
        else if (tells)
            report(in, w, SG_CHANGED_CREATE | (is_dir ? SG_CHANGED_IS_DIR : 0), below);
    }
    return result;
}

static struct dir *find_new(struct sg_watch *w)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct dir *d = w->buckets[i]; d; d = d->next)
            if (d->is_new)
                return d;
    return NULL;
}

/* Follows all directories that are new in the table, level by level. -1: some could not be. */
static int follow(struct sg_init *in, struct sg_watch *w, int root, bool tells)
{
    int result = 0;
    for (struct dir *d; (d = find_new(w));) {
        sg_auto_free char *path = sg_strdup(d->path); /* the table moves under our feet */
        d->is_new = false;
        if (w->is_recursive && read_new(in, w, root, path, tells) < 0)
            result = -1;
    }
    return result;
}

static void follow_created(struct sg_init *in, struct sg_watch *w, const char *path)
{
    if (sg_user_enter(&w->user, NULL) < 0)
        return;
    sg_auto_fd root = open_root(w, NULL);
    int result = root < 0 || add_below(w, root, path) < 0 ? -1 : follow(in, w, root, true);
    sg_user_leave(&w->user);
    if (result < 0)
        report(in, w, SG_CHANGED_OVERFLOW, "");
}

/* ---- translating ---- */

static const struct {
    uint32_t from, to;
} meanings[] = {
    { IN_CREATE, SG_CHANGED_CREATE },      { IN_MOVED_TO, SG_CHANGED_CREATE },
    { IN_MODIFY, SG_CHANGED_WRITE },       { IN_DELETE, SG_CHANGED_REMOVE },
    { IN_MOVED_FROM, SG_CHANGED_RENAME },  { IN_ATTRIB, SG_CHANGED_CHMOD },
    { IN_DELETE_SELF, SG_CHANGED_REMOVE }, { IN_MOVE_SELF, SG_CHANGED_RENAME },
    { IN_ISDIR, SG_CHANGED_IS_DIR },       { IN_Q_OVERFLOW, SG_CHANGED_OVERFLOW },
};

static uint32_t meaning_of(uint32_t mask)
{
    uint32_t what = 0;
    for (size_t i = 0; i < SG_COUNT(meanings); i++)
        if (mask & meanings[i].from)
            what |= meanings[i].to;
    return what;
}

static void handle_event(struct sg_init *in, struct sg_watch *w, const struct inotify_event *e)
{
    char path[SG_CTL_MAX_PATH];
    struct dir *d = find_dir(w, e->wd);
    if (e->mask & IN_Q_OVERFLOW) {
        report(in, w, SG_CHANGED_OVERFLOW, "");
    } else if (e->mask & IN_IGNORED) {
        forget_dir(w, e->wd);
    } else if (!d) {
        return; /* late news of what was forgotten */
    } else if (!e->len) {
        if (e->wd == w->root_wd) /* of others their parent tells, with a name */
            report(in, w, meaning_of(e->mask) | SG_CHANGED_IS_DIR, "");
    } else if (!join(path, d->path, e->name)) {
        report(in, w, SG_CHANGED_OVERFLOW, "");
    } else {
        report(in, w, meaning_of(e->mask), path);
        if (!w->is_recursive || !(e->mask & IN_ISDIR))
            return;
        if (e->mask & IN_MOVED_FROM)
            forget_below(w, path);
        if (e->mask & (IN_CREATE | IN_MOVED_TO))
            follow_created(in, w, path);
    }
}

static void watch_ready(struct sg_init *in, struct sg_source *s, uint32_t events)
{
    (void)events;
    struct sg_watch *w = SG_OWNER_OF(s, struct sg_watch, source);
    _Alignas(struct inotify_event) char room[READ_BYTES];
    ssize_t n = read(s->fd, room, sizeof room);
    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *e = (const void *)(room + at);
        at += (ssize_t)(sizeof *e + e->len);
        handle_event(in, w, e);
    }
}

void sg_watch_pause(struct sg_init *in, bool is_paused)
{
    for (unsigned i = 0; i < in->watch_count; i++)
        (void)sg_source_want(in, &in->watches[i]->source, is_paused ? 0 : EPOLLIN, NULL);
}

/* ---- the requests ---- */

static void watch_free(struct sg_init *in, struct sg_watch *w)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        while (w->buckets[i])
            free_dir(w, &w->buckets[i]);
    sg_source_drop(in, &w->source);
    free(w->root);
    free(w);
}

void sg_watch_end_all(struct sg_init *in)
{
    while (in->watch_count)
        watch_free(in, in->watches[--in->watch_count]);
}

static int start(struct sg_init *in, struct sg_watch *w, struct sg_text path, bool *ret_is_whole,
                 struct sg_err *err)
{
    w->root = sg_strdup(path.p);
    sg_auto_fd root = open_root(w, err);
    if (root < 0)
        return -1;
    w->source.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (w->source.fd < 0 || fstat(root, &w->identity) < 0)
        return sg_fail_sys(err, "open a watch");
    w->root_wd = add_dir(w, root, "");
    if (w->root_wd < 0)
        return sg_fail_sys(err, "watch %s", sg_quote(path.p).s);
    *ret_is_whole = follow(in, w, root, false) == 0;
    return sg_source_want(in, &w->source, EPOLLIN, err);
}

int sg_handle_watch(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    const struct sg_msg_path *m = &c->m->watch;
    if (in->watch_count == SG_INIT_MAX_WATCHES)
        return sg_fail(err, SG_EXHAUSTED, "%d watches are set", SG_INIT_MAX_WATCHES);
    struct sg_watch *w = sg_new(struct sg_watch);
    w->source = (struct sg_source) { .fd = -1, .ready = watch_ready };
    w->is_recursive = m->flags & SG_WATCH_RECURSIVE;
    w->user = c->user;
    bool is_whole;
    if (start(in, w, m->path, &is_whole, err) < 0) {
        watch_free(in, w);
        return -1;
    }
    w->id = ++in->last_watch_id;
    in->watches[in->watch_count++] = w;
    c->reply.type = SG_MSG_WATCHED;
    c->reply.watched.watch = w->id;
    if (is_whole)
        return 0;
    sg_outbox_send(in, &c->reply, -1); /* the number first, then what is wrong with it */
    report(in, w, SG_CHANGED_OVERFLOW, "");
    return SG_LATER;
}

int sg_handle_unwatch(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    for (unsigned i = 0; i < in->watch_count; i++)
        if (in->watches[i]->id == c->m->unwatch.watch) {
            watch_free(in, in->watches[i]);
            in->watches[i] = in->watches[--in->watch_count];
            return 0;
        }
    return sg_fail(err, SG_NOT_FOUND, "no watch %u", (unsigned)c->m->unwatch.watch);
}
