/* SPDX-License-Identifier: Apache-2.0 */
/* DIR/lock      held while files go either way
 * DIR/filled    the sandbox that has the session's directory
 * DIR/files/    copies, each at its path inside
 * DIR/expected/ a file for each copy that may be changed: the sandbox, what the copy was like, and
 *               its path */
#include "cli/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/hash.h"
#include "base/id.h"
#include "cli/out.h"
#include "image/tree.h"
#include "base/banned.h"

enum { NOTE_MAX = 8192, STAMP_MAX = 80 };

/* ---- the directory ---- */

static int make_dirs(const char *path, struct sg_err *err)
{
    for (const char *slash = path; slash;) {
        slash = strchr(slash + 1, '/');
        sg_auto_free char *part =
            slash ? sg_printf("%.*s", (int)(slash - path), path) : sg_strdup(path);
        if (mkdir(part, 0700) < 0 && errno != EEXIST)
            return sg_fail_sys(err, "make the directory %s", sg_quote(part).s);
    }
    return 0;
}

static char *base_dir(struct sg_err *err)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && state[0] == '/')
        return sg_printf("%s/sandglass/hook", state);
    if (home && home[0] == '/')
        return sg_printf("%s/.local/state/sandglass/hook", home);
    (void)sg_fail(err, SG_INVALID, "HOME is not set: there is no place for copies of files");
    return NULL;
}

int sg_stage_open(struct sg_stage *s, const char *session, struct sg_err *err)
{
    struct stat st;
    *s = (struct sg_stage) { .fd = -1, .lock_fd = -1 };
    sg_auto_free char *base = base_dir(err);
    if (!base)
        return -1;
    s->dir = sg_printf("%s/%s", base, session);
    s->files = sg_printf("%s/files", s->dir);
    if (make_dirs(s->files, err) < 0)
        return -1;
    s->fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->fd < 0 || fstat(s->fd, &st) < 0)
        return sg_fail_sys(err, "open the directory %s", sg_quote(s->dir).s);
    if (st.st_uid != geteuid() || (st.st_mode & 022))
        return sg_fail(err, SG_DENIED, "%s can be written by others", sg_quote(s->dir).s);
    if (mkdirat(s->fd, "expected", 0700) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "make a directory in %s", sg_quote(s->dir).s);
    return 0;
}

void sg_stage_close(struct sg_stage *s)
{
    if (s->lock_fd >= 0)
        (void)close(s->lock_fd);
    if (s->fd >= 0)
        (void)close(s->fd);
    free(s->dir);
    free(s->files);
    *s = (struct sg_stage) { .fd = -1, .lock_fd = -1 };
}

int sg_stage_lock(struct sg_stage *s, struct sg_err *err)
{
    s->lock_fd = openat(s->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    int got = -1;
    while (s->lock_fd >= 0 && (got = flock(s->lock_fd, LOCK_EX)) < 0 && errno == EINTR)
        ;
    return got < 0 ? sg_fail_sys(err, "lock %s", sg_quote(s->dir).s) : 0;
}

int sg_stage_remove(struct sg_stage *s, struct sg_err *err)
{
    sg_auto_fd above = openat(s->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0)
        return sg_fail_sys(err, "open the directory above %s", sg_quote(s->dir).s);
    return sg_tree_remove(above, strrchr(s->dir, '/') + 1, err);
}

/* ---- small texts ---- */

static int read_text(int dir_fd, const char *name, struct sg_buf *out, struct sg_err *err)
{
    sg_auto_fd fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(name).s);
    return sg_buf_read_fd(out, fd, name, err);
}

/* Beside and renamed: whole or not at all. */
static int write_text(int dir_fd, const char *name, const char *text, struct sg_err *err)
{
    sg_auto_free char *fresh = sg_printf(".%s.%d", name, (int)getpid());
    sg_auto_fd fd =
        openat(dir_fd, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return sg_fail_sys(err, "write %s", sg_quote(name).s);
    if (sg_out_write(fd, text, strlen(text), err) < 0)
        return -1;
    if (renameat(dir_fd, fresh, dir_fd, name) < 0)
        return sg_fail_sys(err, "write %s", sg_quote(name).s);
    return 0;
}

bool sg_stage_is_filled(const struct sg_stage *s, const char *sandbox)
{
    sg_auto_buf text;
    sg_buf_init(&text, NOTE_MAX);
    return read_text(s->fd, "filled", &text, NULL) == 0 && strcmp(sg_buf_cstr(&text), sandbox) == 0;
}

int sg_stage_set_filled(const struct sg_stage *s, const char *sandbox, struct sg_err *err)
{
    return write_text(s->fd, "filled", sandbox, err);
}

/* ---- copies ---- */

/* The directory of the copy, made; `*ret_name` is its last part. */
static int open_parent(const struct sg_stage *s, const char *path, const char **ret_name,
                       struct sg_err *err)
{
    sg_auto_fd at = openat(s->fd, "files", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const char *part = path + 1;
    for (const char *slash; at >= 0 && (slash = strchr(part, '/')); part = slash + 1) {
        sg_auto_free char *name = sg_printf("%.*s", (int)(slash - part), part);
        if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
            return sg_fail_sys(err, "make a place for %s", sg_quote(path).s);
        const int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        const int saved = errno;
        (void)close(at);
        errno = saved;
        at = next;
    }
    if (at < 0)
        return sg_fail_sys(err, "open the place of %s", sg_quote(path).s);
    *ret_name = part;
    return sg_take_fd(&at);
}

static bool is_same(int a, int b)
{
    char one[16384], two[16384];
    for (off_t at = 0;;) {
        const ssize_t n = pread(a, one, sizeof one, at), m = pread(b, two, sizeof two, at);
        if (n != m || n < 0 || memcmp(one, two, (size_t)n) != 0)
            return false;
        if (n == 0)
            return true;
        at += n;
    }
}

static int take_copy(const struct sg_remote *r, int dir_fd, const char *name, const char *path,
                     uint64_t mode, struct sg_err *err)
{
    sg_auto_free char *fresh = sg_printf(".%d.part", (int)getpid());
    (void)unlinkat(dir_fd, fresh, 0);
    sg_auto_fd fd = openat(dir_fd, fresh, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           (mode_t)(mode & 0777) | 0600);
    if (fd < 0)
        return sg_fail_sys(err, "copy %s", sg_quote(path).s);
    sg_auto_fd old = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int got = sg_remote_get(r, NULL, path, err);
    if (got == 0)
        got = sg_remote_get_body(r, fd, err);
    const bool is_new = got == 0 && (old < 0 || !is_same(old, fd));
    if (is_new && renameat(dir_fd, fresh, dir_fd, name) < 0)
        got = sg_fail_sys(err, "copy %s", sg_quote(path).s);
    if (!is_new || got < 0)
        (void)unlinkat(dir_fd, fresh, 0);
    return got;
}

int sg_stage_get(const struct sg_stage *s, const struct sg_remote *r, const char *path,
                 char **ret_place, struct sg_err *err)
{
    enum sg_remote_kind kind;
    uint64_t mode = 0600;
    const char *name = NULL;
    sg_auto_fd dir = open_parent(s, path, &name, err);
    if (dir < 0 || sg_remote_stat(r, path, &kind, &mode, err) < 0)
        return -1;
    if (kind == SG_REMOTE_DIRECTORY)
        return sg_fail(err, SG_INVALID, "%s is a directory of the sandbox", sg_quote(path).s);
    if (kind == SG_REMOTE_FILE && take_copy(r, dir, name, path, mode, err) < 0)
        return -1;
    if (kind == SG_REMOTE_NOTHING && unlinkat(dir, name, 0) < 0 && errno != ENOENT)
        return sg_fail_sys(err, "remove the copy of %s", sg_quote(path).s);
    *ret_place = sg_printf("%s%s", s->files, path);
    return 0;
}

/* ---- what is expected to change ---- */

static void stamp_of(int dir_fd, const char *name, char ret[STAMP_MAX])
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        (void)snprintf(ret, STAMP_MAX, "-");
    else
        (void)snprintf(ret, STAMP_MAX, "%jx.%jx.%lx.%jx", (uintmax_t)st.st_ino,
                       (uintmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (uintmax_t)st.st_size);
}

int sg_stage_expect(const struct sg_stage *s, const char *sandbox, const char *path,
                    struct sg_err *err)
{
    char stamp[STAMP_MAX], name[24];
    const char *last = NULL;
    sg_auto_fd dir = open_parent(s, path, &last, err);
    sg_auto_fd notes = openat(s->fd, "expected", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return -1;
    if (notes < 0)
        return sg_fail_sys(err, "open %s", sg_quote(s->dir).s);
    stamp_of(dir, last, stamp);
    (void)snprintf(name, sizeof name, "%016" PRIx64,
                   sg_hash_add(SG_HASH_START, path, strlen(path)));
    sg_auto_free char *text = sg_printf("%s %s\n%s", sandbox, stamp, path);
    return write_text(notes, name, text, err);
}

/* 1: it was changed and is inside now; 0: there is nothing to do yet. */
static int put_one(const struct sg_stage *s, struct sg_api *api, const char *sandbox,
                   const char *text, struct sg_err *err)
{
    const char *space = strchr(text, ' '), *line = strchr(text, '\n'), *last = NULL;
    char stamp[STAMP_MAX], owner[SG_ID_LEN + 1] = "";
    struct stat st;
    if (!space || !line || line < space || line[1] != '/' || space - text != SG_ID_LEN)
        return 1; /* none of ours */
    memcpy(owner, text, SG_ID_LEN);
    const char *path = line + 1;
    sg_auto_fd dir = open_parent(s, path, &last, err);
    if (dir < 0)
        return -1;
    stamp_of(dir, last, stamp);
    if (strcmp(stamp, "-") == 0 || (strlen(stamp) == (size_t)(line - space - 1) &&
                                    memcmp(stamp, space + 1, strlen(stamp)) == 0))
        return 0;
    sg_auto_fd fd = openat(dir, last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return sg_fail_sys(err, "read the copy of %s", sg_quote(path).s);
    if (!S_ISREG(st.st_mode))
        return sg_fail(err, SG_INVALID, "the copy of %s is no regular file", sg_quote(path).s);
    struct sg_tar_count count = { 0 };
    const struct sg_remote r = { .api = api,
                                 .kind = "sandboxes",
                                 .owner = sandbox ? sandbox : owner,
                                 .count = &count,
                                 .makes_parents = true };
    if (sg_remote_put_file(&r, fd, &st, path, err) < 0)
        return sg_wrap(err, "put %s into the sandbox", sg_quote(path).s);
    return 1;
}

int sg_stage_put(const struct sg_stage *s, struct sg_api *api, const char *sandbox,
                 struct sg_err *err)
{
    sg_auto_fd notes = openat(s->fd, "expected", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = notes >= 0 ? fdopendir(dup(notes)) : NULL;
    int got = 0;
    if (!list)
        return sg_fail_sys(err, "open %s", sg_quote(s->dir).s);
    for (const struct dirent *e; got >= 0 && (e = readdir(list));) {
        sg_auto_buf text;
        sg_buf_init(&text, NOTE_MAX);
        if (e->d_name[0] == '.' || read_text(notes, e->d_name, &text, NULL) < 0)
            continue;
        got = put_one(s, api, sandbox, sg_buf_cstr(&text), err);
        if (got == 1)
            (void)unlinkat(notes, e->d_name, 0);
    }
    (void)closedir(list);
    return got < 0 ? -1 : 0;
}
