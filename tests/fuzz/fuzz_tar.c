/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an archive: unpacked into a fresh directory of a private tmpfs-backed place, with
 * small limits. Whatever comes of it, the directory beside the target stays as it was, and what is
 * inside has no set-id bit, no device and no name that the walk cannot remove again. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "image/tree.h"
#include "unpack/unpack.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static char arena[64] = "/dev/shm/sandglass-fuzz-XXXXXX";
static int arena_fd = -1;

static void remove_arena(void)
{
    (void)rmdir(arena);
}

static void require(bool is_true)
{
    if (!is_true)
        abort();
}

static void make_arena(void)
{
    require(mkdtemp(arena));
    arena_fd = open(arena, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(arena_fd >= 0 && atexit(remove_arena) == 0);
}

static void check_below(int fd, unsigned depth)
{
    sg_auto_dir dir = fdopendir(fd);
    require(dir && depth < 64);
    for (struct dirent *d; (d = readdir(dir));) {
        struct stat st;
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        require(fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0);
        require(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode));
        require(!S_ISREG(st.st_mode) || !(st.st_mode & 06000));
        if (S_ISDIR(st.st_mode))
            check_below(openat(fd, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
                        depth + 1);
    }
}

static unsigned count_beside(void)
{
    sg_auto_dir dir = fdopendir(openat(arena_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    require(dir);
    unsigned n = 0;
    while (readdir(dir))
        n++;
    return n - 2;
}

/* A mutated header is worth trying only when its checksum is right: put it right. */
static void repair_checksums(uint8_t *p, size_t n)
{
    enum { BLOCK = 512, SUM_AT = 148, SUM_BYTES = 8, MAGIC_AT = 257 };
    for (; n >= BLOCK; p += BLOCK, n -= BLOCK) {
        if (memcmp(p + MAGIC_AT, "ustar", 5) != 0)
            continue;
        unsigned sum = 0;
        memset(p + SUM_AT, ' ', SUM_BYTES);
        for (size_t i = 0; i < BLOCK; i++)
            sum += p[i];
        (void)snprintf((char *)p + SUM_AT, SUM_BYTES - 1, "%06o", sum);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (arena_fd < 0)
        make_arena();
    sg_auto_fd in = memfd_create("archive", MFD_CLOEXEC);
    sg_auto_free uint8_t *bytes = memcpy(sg_alloc(n), data, n);
    repair_checksums(bytes, n);
    require(in >= 0 && write(in, bytes, n) == (ssize_t)n && lseek(in, 0, SEEK_SET) == 0);
    require(mkdirat(arena_fd, "target", 0700) == 0);
    sg_auto_fd target = openat(arena_fd, "target", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(target >= 0);

    struct sg_unpack_options o = sg_unpack_defaults();
    o.max_entries = 64;
    o.max_bytes = 1 << 20;
    o.max_depth = 16;
    o.ratio_free_bytes = 1 << 18;
    o.is_one_user = true;
    struct sg_unpack_result result;
    struct sg_err err = { 0 };
    if (sg_unpack(in, target, &o, &result, &err) < 0)
        require(err.kind != SG_OK && err.msg[0]);
    else
        require(result.entries > 0 && result.entries <= o.max_entries &&
                result.bytes <= o.max_bytes);

    require(count_beside() == 1);
    check_below(fcntl(target, F_DUPFD_CLOEXEC, 3), 0);
    require(sg_tree_remove(arena_fd, "target", &err) == 0);
    return 0;
}
