/* SPDX-License-Identifier: Apache-2.0 */
/* Spares: the layer of a cell that ended, emptied, for a cell to come.
 *
 * A counted subvolume that is removed makes the kernel (since 6.11) commit the whole pool, once for
 * each, because its counter can go only after that. Whoever makes a layer, or writes, waits
 * meanwhile. Most cells leave a handful of small files: to remove these is a hundredth of the work.
 *
 * V1. Nothing of a cell is in a spare: all that a cell can reach of its layer is below two
 *     directories, which are removed and not reused. A file that somebody still holds (the daemon,
 *     for who downloads it) has no name then, but counts: such a layer is no spare, or the next
 *     cell would have so much less room.
 * V2. A layer is emptied before it moves to the spares: whoever is killed in between leaves a layer
 *     without a cell, which the next launcher removes.
 * V3. What is large, or cannot be emptied for whatever reason, is removed as a subvolume. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "image/tree.h"
#include "launcher/vault.h"
#include "sys/btrfs.h"
#include "sys/kfile.h"
#include "base/banned.h"

const char sg_vault_spare[] = "spare";

/* More than that is quicker removed as a subvolume; and so many cells end at one time. */
static const struct sg_tree_budget SMALL = {
    .bytes = 4 << 20,
    .entries = 256,
    .max_file_bytes = 4 << 20,
};
enum { SPARES_MAX = 128 };

static const char *const parts[] = { "up", "wk" };

static int open_spares(int pool_fd)
{
    return openat(pool_fd, sg_vault_spare, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_full(int spares_fd)
{
    unsigned count = 0;
    const int fd = openat(spares_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *d; dir && (d = readdir(dir));)
        count += d->d_name[0] != '.';
    return !dir || count >= SPARES_MAX;
}

static int empty(int part_fd)
{
    struct sg_tree_budget budget = SMALL;
    for (size_t i = 0; i < SG_COUNT(parts); i++)
        if (sg_tree_remove_within(part_fd, parts[i], &budget, NULL) < 0)
            return -1;
    return 0;
}

bool sg_vault_spare_keep(int pool_fd, int cells_fd, const char *name)
{
    sg_auto_fd spares = open_spares(pool_fd);
    sg_auto_fd part = openat(cells_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return spares >= 0 && part >= 0 && !is_full(spares) && empty(part) == 0 &&
           !sg_btrfs_has_orphans(part) && renameat(cells_fd, name, spares, name) == 0;
}

bool sg_vault_spare_take(int pool_fd, int cells_fd, const char *name)
{
    const int spares = open_spares(pool_fd);
    sg_auto_dir dir = spares < 0 ? NULL : fdopendir(spares);
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (d->d_name[0] != '.')
            return renameat(spares, d->d_name, cells_fd, name) == 0;
    return false;
}
