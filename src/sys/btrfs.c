/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/btrfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/str.h"
#include "sys/kfile.h"
#include "sys/uapi.h"
#include "base/banned.h"

/* Subtrees of any height are walked when a subvolume goes: else the kernel gives up counting. */
#define TALLEST_TREE "8"
enum { DEVICES_MAX = 64 };

bool sg_btrfs_is(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type == BTRFS_SUPER_MAGIC;
}

/* ---- subvolumes ---- */

static int set_name(char *to, size_t cap, const char *name, struct sg_err *err)
{
    if (strlen(name) >= cap)
        return sg_fail(err, SG_INVALID, "%s is too long a name", sg_quote(name).s);
    memcpy(to, name, strlen(name) + 1);
    return 0;
}

int sg_btrfs_make(int dir_fd, const char *name, struct sg_err *err)
{
    struct btrfs_ioctl_vol_args_v2 args = { 0 };
    if (set_name(args.name, sizeof args.name, name, err) < 0)
        return -1;
    if (ioctl(dir_fd, BTRFS_IOC_SUBVOL_CREATE_V2, &args) < 0)
        return sg_fail_sys(err, "make subvolume %s", sg_quote(name).s);
    return 0;
}

int sg_btrfs_snapshot(int dir_fd, const char *name, int source_fd, bool is_read_only,
                      struct sg_err *err)
{
    struct btrfs_ioctl_vol_args_v2 args = { .fd = source_fd,
                                            .flags = is_read_only ? BTRFS_SUBVOL_RDONLY : 0 };
    if (set_name(args.name, sizeof args.name, name, err) < 0)
        return -1;
    if (ioctl(dir_fd, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0)
        return sg_fail_sys(err, "make snapshot %s", sg_quote(name).s);
    return 0;
}

int sg_btrfs_remove(int dir_fd, const char *name, struct sg_err *err)
{
    struct btrfs_ioctl_vol_args args = { 0 };
    if (set_name(args.name, sizeof args.name, name, err) < 0)
        return -1;
    if (ioctl(dir_fd, BTRFS_IOC_SNAP_DESTROY, &args) < 0)
        return sg_fail_sys(err, "remove subvolume %s", sg_quote(name).s);
    return 0;
}

int sg_btrfs_id(int fd, uint64_t *ret, struct sg_err *err)
{
    struct btrfs_ioctl_ino_lookup_args args = { .objectid = BTRFS_FIRST_FREE_OBJECTID };
    if (ioctl(fd, BTRFS_IOC_INO_LOOKUP, &args) < 0)
        return sg_fail_sys(err, "ask for the number of a subvolume");
    *ret = args.treeid;
    return 0;
}

/* ---- limits ---- */

int sg_btrfs_fsid(int fd, char ret[SG_BTRFS_FSID_MAX], struct sg_err *err)
{
    struct btrfs_ioctl_fs_info_args info = { 0 };
    if (ioctl(fd, BTRFS_IOC_FS_INFO, &info) < 0)
        return sg_fail_sys(err, "ask for the name of a filesystem");
    size_t n = 0;
    for (size_t i = 0; i < sizeof info.fsid; i++)
        n += (size_t)snprintf(ret + n, SG_BTRFS_FSID_MAX - n, "%s%02x",
                              i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", info.fsid[i]);
    return 0;
}

int sg_btrfs_count(int fd, struct sg_err *err)
{
    struct btrfs_ioctl_quota_ctl_args args = { .cmd = BTRFS_QUOTA_CTL_ENABLE };
    char fsid[SG_BTRFS_FSID_MAX], path[128];
    if (ioctl(fd, BTRFS_IOC_QUOTA_CTL, &args) < 0 && errno != EEXIST && errno != EINPROGRESS)
        return sg_fail_sys(err, "begin to count what subvolumes use");
    if (sg_btrfs_fsid(fd, fsid, err) < 0)
        return -1;
    (void)snprintf(path, sizeof path, "/sys/fs/btrfs/%s/qgroups/drop_subtree_threshold", fsid);
    (void)sg_file_write(AT_FDCWD, path, TALLEST_TREE, NULL); /* older kernels always walk */
    return 0;
}

int sg_btrfs_limit(int fd, uint64_t subvolume, uint64_t bytes, struct sg_err *err)
{
    struct btrfs_ioctl_qgroup_limit_args args = {
        .qgroupid = subvolume,
        .lim = { .flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes },
    };
    if (ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) < 0)
        return sg_fail_sys(err, "limit a subvolume");
    return 0;
}

static int read_number(const char *fsid, uint64_t subvolume, const char *name, uint64_t *ret,
                       struct sg_err *err)
{
    char path[160];
    (void)snprintf(path, sizeof path, "/sys/fs/btrfs/%s/qgroups/0_%" PRIu64 "/%s", fsid, subvolume,
                   name);
    return sg_file_read_u64(AT_FDCWD, path, ret, err);
}

int sg_btrfs_use(const char *fsid, uint64_t subvolume, uint64_t *ret_used, uint64_t *ret_limit,
                 struct sg_err *err)
{
    uint64_t used, limit, soon = 0;
    if (read_number(fsid, subvolume, "referenced", &used, err) < 0 ||
        read_number(fsid, subvolume, "max_referenced", &limit, err) < 0)
        return -1;
    /* What was written since the last commit is counted as set aside. */
    (void)read_number(fsid, subvolume, "rsv_data", &soon, NULL);
    *ret_used = used + soon;
    *ret_limit = limit ? limit : UINT64_MAX;
    return 0;
}

bool sg_btrfs_is_counting(const char *fsid)
{
    char path[128];
    uint64_t enabled = 0, broken = 1;
    (void)snprintf(path, sizeof path, "/sys/fs/btrfs/%s/qgroups/enabled", fsid);
    if (sg_file_read_u64(AT_FDCWD, path, &enabled, NULL) < 0)
        return false;
    (void)snprintf(path, sizeof path, "/sys/fs/btrfs/%s/qgroups/inconsistent", fsid);
    if (sg_file_read_u64(AT_FDCWD, path, &broken, NULL) < 0)
        return false;
    return enabled && !broken;
}

int sg_btrfs_recount(int fd, struct sg_err *err)
{
    struct btrfs_ioctl_quota_rescan_args args = { 0 };
    if (ioctl(fd, BTRFS_IOC_QUOTA_RESCAN, &args) < 0 && errno != EINPROGRESS)
        return sg_fail_sys(err, "count anew what subvolumes use");
    return 0;
}

/* Has the tree (0: that of the file) an item of this kind? Where that cannot be told it has. */
static bool has_item(int fd, uint64_t tree, uint64_t object, uint32_t type)
{
    struct btrfs_ioctl_search_args args = {
        .key = { .tree_id = tree,
                 .min_objectid = object,
                 .max_objectid = object,
                 .min_type = type,
                 .max_type = type,
                 .max_offset = UINT64_MAX,
                 .max_transid = UINT64_MAX,
                 .nr_items = 1 },
    };
    return ioctl(fd, BTRFS_IOC_TREE_SEARCH, &args) < 0 || args.key.nr_items > 0;
}

static bool has_subvolume(int fd, uint64_t subvolume)
{
    return has_item(fd, BTRFS_ROOT_TREE_OBJECTID, subvolume, BTRFS_ROOT_ITEM_KEY);
}

bool sg_btrfs_has_orphans(int fd)
{
    return has_item(fd, 0, BTRFS_ORPHAN_OBJECTID, BTRFS_ORPHAN_ITEM_KEY);
}

unsigned sg_btrfs_forget_gone(int fd, const char *fsid)
{
    char path[128];
    unsigned count = 0;
    (void)snprintf(path, sizeof path, "/sys/fs/btrfs/%s/qgroups", fsid);
    sg_auto_dir dir = opendir(path);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        uint64_t id;
        if (!sg_starts_with(d->d_name, "0_") ||
            sg_parse_u64(sg_str_of(d->d_name + 2), 0, UINT64_MAX, &id, NULL) < 0 ||
            id < BTRFS_FIRST_FREE_OBJECTID || has_subvolume(fd, id))
            continue;
        struct btrfs_ioctl_qgroup_create_args args = { .create = 0, .qgroupid = id };
        count += ioctl(fd, BTRFS_IOC_QGROUP_CREATE, &args) == 0;
    }
    return count;
}

int sg_btrfs_commit(int fd, struct sg_err *err)
{
    return ioctl(fd, BTRFS_IOC_SYNC, NULL) < 0 ? sg_fail_sys(err, "commit a filesystem") : 0;
}

int sg_btrfs_trim(int root_fd, bool trims, struct sg_err *err)
{
    sg_auto_fd fs = fspick(root_fd, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);
    if (fs < 0 ||
        (trims ? fsconfig(fs, FSCONFIG_SET_STRING, "discard", "async", 0)
               : fsconfig(fs, FSCONFIG_SET_FLAG, "nodiscard", NULL, 0)) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
        return sg_fail_sys(err, "change how a filesystem trims");
    return 0;
}

int sg_btrfs_errors(int fd, uint64_t *ret, struct sg_err *err)
{
    struct btrfs_ioctl_fs_info_args info = { 0 };
    uint64_t sum = 0;
    if (ioctl(fd, BTRFS_IOC_FS_INFO, &info) < 0)
        return sg_fail_sys(err, "ask for the devices of a filesystem");
    for (uint64_t id = 1; id <= info.max_id && id <= DEVICES_MAX; id++) {
        struct btrfs_ioctl_get_dev_stats args = { .devid = id,
                                                  .nr_items = BTRFS_DEV_STAT_VALUES_MAX };
        if (ioctl(fd, BTRFS_IOC_GET_DEV_STATS, &args) < 0)
            continue; /* a number that no device has any more */
        for (uint64_t i = 0; i < args.nr_items && i < BTRFS_DEV_STAT_VALUES_MAX; i++)
            sum += args.values[i];
    }
    *ret = sum;
    return 0;
}

int sg_btrfs_grow(int fd, struct sg_err *err)
{
    struct btrfs_ioctl_vol_args args = { .name = "max" };
    if (ioctl(fd, BTRFS_IOC_RESIZE, &args) < 0)
        return sg_fail_sys(err, "grow the filesystem to its device");
    return 0;
}
