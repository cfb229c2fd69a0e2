/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/loopdev.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/str.h"
#include "base/banned.h"

enum { TRIES = 64 };

static int open_device(const char *name, char ret_path[32])
{
    if (strlen(name) > 16)
        return -1;
    (void)snprintf(ret_path, 32, "/dev/%s", name);
    return open(ret_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
}

/* While it is open it cannot be cleared, so what it says stays true. */
static bool shows(int dev_fd, const struct stat *image)
{
    struct loop_info64 info;
    return ioctl(dev_fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_inode == image->st_ino &&
           info.lo_device == image->st_dev;
}

static int find(const struct stat *image, char ret_path[32])
{
    sg_auto_dir dir = opendir("/sys/block");
    for (struct dirent *d; dir && (d = readdir(dir));) {
        char path[300];
        if (!sg_starts_with(d->d_name, "loop"))
            continue;
        (void)snprintf(path, sizeof path, "/sys/block/%s/loop", d->d_name);
        if (access(path, F_OK) < 0) /* unused: opening it would only be in the way of others */
            continue;
        sg_auto_fd fd = open_device(d->d_name, ret_path);
        if (fd >= 0 && shows(fd, image))
            return sg_take_fd(&fd);
    }
    return -1;
}

/* Another may take the same free one: then EBUSY, and the next. */
static int set_up(int control, int image_fd, char ret_path[32])
{
    const int number = ioctl(control, LOOP_CTL_GET_FREE);
    char name[24];
    if (number < 0)
        return -1;
    (void)snprintf(name, sizeof name, "loop%d", number);
    sg_auto_fd fd = open_device(name, ret_path);
    struct loop_config config = {
        .fd = (unsigned)image_fd,
        .info = { .lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO },
    };
    if (fd < 0 || ioctl(fd, LOOP_CONFIGURE, &config) < 0)
        return -1;
    return sg_take_fd(&fd);
}

int sg_loopdev_open(int image_fd, char ret_path[32], struct sg_err *err)
{
    struct stat image;
    if (fstat(image_fd, &image) < 0)
        return sg_fail_sys(err, "look at the image");
    int fd = find(&image, ret_path);
    if (fd >= 0)
        return fd;
    sg_auto_fd control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0)
        return sg_fail_sys(err, "open /dev/loop-control");
    for (int tries = 0; tries < TRIES; tries++) {
        fd = set_up(control, image_fd, ret_path);
        if (fd >= 0)
            return fd;
        if (errno != EBUSY && errno != ENXIO)
            break;
    }
    return sg_fail_sys(err, "set up a loop device");
}

int sg_loopdev_resize(int dev_fd, struct sg_err *err)
{
    if (ioctl(dev_fd, LOOP_SET_CAPACITY, 0) < 0)
        return sg_fail_sys(err, "resize a loop device");
    return 0;
}
