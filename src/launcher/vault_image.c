/* SPDX-License-Identifier: Apache-2.0 */
/* The image: a sparse file with a btrfs in it, <state>/pool/image. It appears by rename when it is
 * whole, grows when the settings ask for more, and never shrinks. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "launcher/vault.h"
#include "sys/kfile.h"
#include "sys/loopdev.h"
#include "sys/uapi.h"
#include "base/banned.h"

static const char MKFS[] = "mkfs.btrfs";

/* Copies of metadata are the business of the disk below; its checksums are ours. */
static int run_mkfs(const char *path, struct sg_err *err)
{
    char name[] = "mkfs.btrfs", quiet[] = "-q", meta[] = "-m", data[] = "-d", kind[] = "single",
         kind2[] = "single";
    sg_auto_free char *file = sg_strdup(path);
    char *argv[] = { name, quiet, meta, kind, data, kind2, file, NULL };
    char path_env[] = "PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin",
         *env[] = { path_env, NULL };
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < 3; fd++)
        (void)posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    pid_t pid = 0;
    int status = 0;
    static const char *const places[] = { "/usr/sbin", "/sbin", "/usr/bin", "/usr/local/sbin" };
    int sys = ENOENT;
    for (size_t i = 0; sys == ENOENT && i < SG_COUNT(places); i++) {
        sg_auto_free char *program = sg_printf("%s/%s", places[i], MKFS);
        sys = posix_spawn(&pid, program, &actions, NULL, argv, env);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    if (sys == ENOENT)
        return sg_fail(err, SG_UNSUPPORTED, "there is no mkfs.btrfs (package btrfs-progs)");
    errno = sys;
    if (sys)
        return sg_fail_sys(err, "run mkfs.btrfs");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return sg_fail(err, SG_INTERNAL, "mkfs.btrfs failed on %s", sg_quote(path).s);
    return 0;
}

static int make_image(int dir_fd, const char *dir, uint64_t bytes, struct sg_err *err)
{
    sg_auto_free char *fresh = sg_printf("%s/image.new", dir);
    (void)unlinkat(dir_fd, "image.new", 0); /* of one who was killed at it */
    sg_auto_fd fd = openat(dir_fd, "image.new", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
        return sg_fail_sys(err, "make %s", sg_quote(fresh).s);
    if (run_mkfs(fresh, err) < 0) {
        (void)unlinkat(dir_fd, "image.new", 0);
        return -1;
    }
    if (fsync(fd) < 0 || renameat(dir_fd, "image.new", dir_fd, "image") < 0 || fsync(dir_fd) < 0)
        return sg_fail_sys(err, "name %s", sg_quote(fresh).s);
    return 0;
}

static int open_image(int dir_fd, const char *dir, uint64_t bytes, struct sg_err *err)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
    int fd = openat(dir_fd, "image", flags);
    if (fd < 0 && errno == ENOENT) {
        if (make_image(dir_fd, dir, bytes, err) < 0)
            return -1;
        fd = openat(dir_fd, "image", flags);
    }
    return fd < 0 ? sg_fail_sys(err, "open the image in %s", sg_quote(dir).s) : fd;
}

/* True: it grew, and so must what is in it. */
static bool grow_file(int fd, uint64_t bytes)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (uint64_t)st.st_size < bytes && ftruncate(fd, (off_t)bytes) == 0;
}

static int mount_device(struct sg_vault *v, int image, uint64_t bytes, struct sg_err *err)
{
    char path[32];
    const bool has_grown = grow_file(image, bytes);
    sg_auto_fd device = sg_loopdev_open(image, path, err);
    if (device < 0 || (has_grown && sg_loopdev_resize(device, err) < 0))
        return -1;
    if (mount(path, v->mount_point, "btrfs", MS_NOSUID | MS_NODEV | MS_NOATIME, "discard=async") <
        0)
        return sg_fail_sys(err, "mount the image of the storage pool (%s)", path);
    if (!has_grown)
        return 0;
    sg_auto_fd root = open(v->mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || sg_btrfs_grow(root, err) < 0)
        sg_log(SG_LOG_WARN, "the storage pool could not be grown", SG_KV("error", err->msg));
    return 0;
}

int sg_vault_mount_image(struct sg_vault *v, const char *state_dir, uint64_t bytes,
                         struct sg_err *err)
{
    sg_auto_free char *dir = sg_printf("%s/pool", state_dir);
    if (sg_mkdir_all(dir, 0700, err) < 0)
        return -1;
    sg_auto_fd dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0 || fchmod(dir_fd, 0700) < 0)
        return sg_fail_sys(err, "open %s", sg_quote(dir).s);
    v->path = sg_printf("%s/image", dir);
    sg_auto_fd image = open_image(dir_fd, dir, bytes, err);
    if (image < 0 || mount_device(v, image, bytes, err) < 0)
        return -1;
    v->host_fd = sg_take_fd(&dir_fd);
    return 0;
}
