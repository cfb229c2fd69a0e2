/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel interfaces that the C libraries we build with know only in part: glibc 2.36 (tests,
 * sanitizers) has the mount API, musl 1.2.3 (the programs we ship) does not. Same names, same
 * meaning, from one place. Include this instead of <sys/mount.h>. */
#pragma once

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/mount.h>

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

#ifndef __GLIBC__
#include <linux/fs.h>
#include <linux/mount.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int open_tree(int dir_fd, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, dir_fd, path, flags);
}

static inline int move_mount(int from_fd, const char *from, int to_fd, const char *to,
                             unsigned flags)
{
    return (int)syscall(SYS_move_mount, from_fd, from, to_fd, to, flags);
}

static inline int renameat2(int from_fd, const char *from, int to_fd, const char *to,
                            unsigned flags)
{
    return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}

static inline int fsopen(const char *type, unsigned flags)
{
    return (int)syscall(SYS_fsopen, type, flags);
}

static inline int fsconfig(int fs_fd, unsigned command, const char *key, const void *value, int aux)
{
    return (int)syscall(SYS_fsconfig, fs_fd, command, key, value, aux);
}

static inline int fspick(int dir_fd, const char *path, unsigned flags)
{
    return (int)syscall(SYS_fspick, dir_fd, path, flags);
}

static inline int fsmount(int fs_fd, unsigned flags, unsigned attrs)
{
    return (int)syscall(SYS_fsmount, fs_fd, flags, attrs);
}

static inline int mount_setattr(int dir_fd, const char *path, unsigned flags,
                                struct mount_attr *attr, size_t size)
{
    return (int)syscall(SYS_mount_setattr, dir_fd, path, flags, attr, size);
}
#endif
