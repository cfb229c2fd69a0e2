/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an archive for init: unpacked into a fresh directory. The first byte chooses the
 * flags and how large the pieces are in which the rest arrives. Whatever comes of it, nothing
 * appears beside the target, and what is in it has no set-id bit, is of no special kind, and can be
 * removed.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "ctl/msg.h"
#include "init/remove.h"
#include "init/tar_in.h"
#include "init/walk.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static char arena[64] = "/dev/shm/sandglass-fuzz-XXXXXX";
static int arena_fd = -1;

static void require(bool is_true)
{
    if (!is_true)
        abort();
}

static void remove_arena(void)
{
    (void)rmdir(arena);
}

static void make_arena(void)
{
    require(mkdtemp(arena));
    (void)umask(0); /* as init has it */
    arena_fd = open(arena, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(arena_fd >= 0 && atexit(remove_arena) == 0);
}

struct tape {
    const uint8_t *p;
    size_t n, step;
};

static ssize_t pull(void *arg, void *to, size_t n)
{
    struct tape *t = arg;
    size_t most = n < t->step ? n : t->step;
    size_t take = most < t->n ? most : t->n;
    if (take)
        memcpy(to, t->p, take);
    t->p += take;
    t->n -= take;
    return (ssize_t)take;
}

static int check(void *arg, const struct sg_walk_item *item, struct sg_err *err)
{
    (void)err;
    mode_t mode = item->st->st_mode;
    const bool is_exact = *(bool *)arg;
    require(S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || (is_exact && S_ISFIFO(mode)));
    require(S_ISLNK(mode) || is_exact || !(mode & 07000));
    return 0;
}

static int count(void *arg, const struct sg_walk_item *item, struct sg_err *err)
{
    (void)err;
    *(unsigned *)arg += strchr(item->path, '/') == NULL;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    if (arena_fd < 0)
        make_arena();
    if (!n)
        return 0;
    bool is_exact = p[0] & 8;
    const uint32_t flags =
        (p[0] & (SG_TAR_OVERWRITE | SG_TAR_ANY_LINK)) | (is_exact ? SG_TAR_EXACT : 0u);
    struct tape tape = { p + 1, n - 1, p[0] & 4 ? 7 : SIZE_MAX };
    struct sg_err err = { 0 };
    require(mkdirat(arena_fd, "target", 0755) == 0);
    sg_auto_fd target = openat(arena_fd, "target", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (sg_tar_unpack(target, flags, pull, &tape, &err) < 0)
        require(err.kind != SG_OK && err.msg[0]);
    unsigned beside = 0;
    (void)sg_walk(target, false, check, &is_exact,
                  &err); /* too deep a tree ends it, which is fine */
    (void)sg_walk(arena_fd, false, count, &beside, &err);
    require(beside == 1);
    require(sg_remove_tree(arena_fd, "target") == 0);
    return 0;
}
