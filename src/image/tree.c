/* SPDX-License-Identifier: Apache-2.0 */
#include "image/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/str.h"
#include "sys/beneath.h"

#include "base/banned.h"

enum { BLOCK_BYTES = 512 }; /* of st_blocks, whatever the filesystem */
enum { MAX_DEPTH = 256 };   /* twice what an archive may have; each level holds one descriptor */

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Takes fd. */
static DIR *open_listing(int fd)
{
    DIR *dir = fdopendir(fd);
    if (!dir)
        sg_close_p(&fd);
    return dir;
}

/* Takes one entry off the budget. What is not there any more costs nothing. */
static int spend(struct sg_tree_budget *b, int dir_fd, const char *name, struct sg_err *err)
{
    struct stat st;
    if (!b || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    const uint64_t bytes = S_ISREG(st.st_mode) ? (uint64_t)st.st_blocks * BLOCK_BYTES : 0;
    if (b->entries == 0 || bytes > b->bytes || bytes > b->max_file_bytes)
        return sg_fail(err, SG_EXHAUSTED, "more is to be removed than was meant");
    b->entries--;
    b->bytes -= bytes;
    return 0;
}

static int remove_below(int dir_fd, const char *name, unsigned depth, struct sg_tree_budget *budget,
                        struct sg_err *err)
{
    if (spend(budget, dir_fd, name, err) < 0)
        return -1;
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return sg_fail_sys(err, "remove %s", sg_quote(name).s);
    if (depth > MAX_DEPTH)
        return sg_fail(err, SG_EXHAUSTED, "remove %s: nested too deep", sg_quote(name).s);
    int fd = sg_open_plain(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return sg_fail_sys(err, "remove directory %s", sg_quote(name).s);
    sg_auto_dir dir = open_listing(fd);
    if (!dir)
        return sg_fail_sys(err, "list %s", sg_quote(name).s);
    (void)fchmod(fd, 0700); /* without root an archive's own mode could be in the way */
    for (int passes = 0; passes < 3; passes++) { /* removal can make a listing skip names */
        struct dirent *d;
        while ((d = readdir(dir)))
            if (!is_dots(d->d_name) && remove_below(fd, d->d_name, depth + 1, budget, err) < 0)
                return -1;
        if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (errno != ENOTEMPTY)
            break;
        rewinddir(dir);
    }
    return sg_fail_sys(err, "remove directory %s", sg_quote(name).s);
}

int sg_tree_remove(int dir_fd, const char *name, struct sg_err *err)
{
    return remove_below(dir_fd, name, 0, NULL, err);
}

int sg_tree_remove_within(int dir_fd, const char *name, struct sg_tree_budget *budget,
                          struct sg_err *err)
{
    return remove_below(dir_fd, name, 0, budget, err);
}

static bool is_for_everybody(const struct stat *st)
{
    mode_t need = S_ISDIR(st->st_mode) ? 0005 : 0004;
    return (st->st_mode & need) == need;
}

static int copy_link(int from_fd, int to_fd, const char *name, struct sg_err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from_fd, name, target, sizeof target - 1);
    if (n < 0)
        return errno == ENOENT ? 0 : sg_fail_sys(err, "read link %s", sg_quote(name).s);
    target[n] = '\0';
    if (symlinkat(target, to_fd, name) < 0)
        return sg_fail_sys(err, "make link %s", sg_quote(name).s);
    return 1;
}

static int copy_bytes(int from, int to, uint64_t max, uint64_t *ret_copied)
{
    char chunk[65536];
    uint64_t copied = 0;
    for (;;) {
        ssize_t got = read(from, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        copied += (uint64_t)got;
        if (copied > max) { /* grew while we read it */
            errno = EFBIG;
            return -1;
        }
        for (ssize_t done = 0; done < got;) {
            ssize_t put = write(to, chunk + done, (size_t)(got - done));
            if (put < 0)
                return -1;
            done += put;
        }
        if (got == 0)
            break;
    }
    *ret_copied = copied;
    return 0;
}

static int copy_file(int from, const struct stat *st, int to_fd, const char *name,
                     struct sg_tree_budget *budget, struct sg_err *err)
{
    if ((uint64_t)st->st_size > budget->max_file_bytes || (uint64_t)st->st_size > budget->bytes)
        return 0;
    sg_auto_fd to = openat(to_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    uint64_t copied;
    if (to < 0 || copy_bytes(from, to, budget->max_file_bytes, &copied) < 0 ||
        fchmod(to, st->st_mode & 0755) < 0)
        return sg_fail_sys(err, "copy %s", sg_quote(name).s);
    budget->bytes -= copied < budget->bytes ? copied : budget->bytes;
    return 1;
}

static int copy_any(int from_fd, int to_fd, const char *name, unsigned depth,
                    struct sg_tree_budget *budget, struct sg_err *err);

static int copy_dir(int from, const struct stat *st, int to_fd, const char *name, unsigned depth,
                    struct sg_tree_budget *budget, struct sg_err *err)
{
    int keep = fcntl(from, F_DUPFD_CLOEXEC, 3);
    sg_auto_dir dir = keep < 0 ? NULL : open_listing(keep);
    sg_auto_fd to = -1;
    if (dir && mkdirat(to_fd, name, 0700) == 0)
        to = openat(to_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0 || fchmod(to, st->st_mode & 0755) < 0)
        return sg_fail_sys(err, "copy directory %s", sg_quote(name).s);
    struct dirent *d;
    while ((d = readdir(dir)))
        if (!is_dots(d->d_name) && copy_any(from, to, d->d_name, depth + 1, budget, err) < 0)
            return -1;
    return 1;
}

static int copy_any(int from_fd, int to_fd, const char *name, unsigned depth,
                    struct sg_tree_budget *budget, struct sg_err *err)
{
    struct stat st;
    if (budget->entries == 0 || depth > MAX_DEPTH)
        return 0;
    budget->entries--;
    if (fstatat(from_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* absent, or gone since it was listed */
    if (S_ISLNK(st.st_mode))
        return copy_link(from_fd, to_fd, name, err);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return 0;
    sg_auto_fd from = openat(from_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (from < 0 || fstat(from, &st) < 0 || !is_for_everybody(&st))
        return 0;
    if (S_ISREG(st.st_mode))
        return copy_file(from, &st, to_fd, name, budget, err);
    return S_ISDIR(st.st_mode) ? copy_dir(from, &st, to_fd, name, depth, budget, err) : 0;
}

int sg_tree_copy(int from_fd, int to_fd, const char *name, struct sg_tree_budget *budget,
                 struct sg_err *err)
{
    return copy_any(from_fd, to_fd, name, 0, budget, err);
}
