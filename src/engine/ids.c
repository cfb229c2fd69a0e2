/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/str.h"
#include "engine/spec.h"
#include "sys/kfile.h"
#include "base/banned.h"

static const uint32_t FIRST_ID = 0x70000000;

/* Who we are outside of the user namespace in which we became root: its map ("inside outside
 * count") says so. Every user's directory has its own name; a common one would belong to whoever
 * came first. */
static unsigned outer_id(void)
{
    char map[64];
    uint64_t outside = geteuid();
    if (sg_file_read(AT_FDCWD, "/proc/self/uid_map", map, sizeof map, NULL) == 0) {
        const char *word = map + strspn(map, " ");
        word += strcspn(word, " ");
        word += strspn(word, " ");
        const struct sg_str second = { word, strcspn(word, " ") };
        (void)sg_parse_u64(second, 0, UINT32_MAX, &outside, NULL);
    }
    return (unsigned)outside;
}

void sg_ids_run_dir(bool is_root, char *ret, size_t cap)
{
    const char *run = getenv("XDG_RUNTIME_DIR"), *home = getenv("HOME");
    if (is_root)
        (void)snprintf(ret, cap, "/run/sandglass");
    else if (run && *run == '/')
        (void)snprintf(ret, cap, "%s/sandglass", run);
    else if (home && *home == '/')
        (void)snprintf(ret, cap, "%s/.local/state/sandglass", home);
    else
        (void)snprintf(ret, cap, "/tmp/sandglass-%u", outer_id());
}

static int open_lock_file(bool is_root, struct sg_err *err)
{
    char dir[256], path[288];
    sg_ids_run_dir(is_root, dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/slots", dir);
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    sg_auto_fd fd = open(path, flags, 0600);
    if (fd < 0 && errno == ENOENT) {
        if (sg_mkdir_all(dir, 0700, err) < 0)
            return -1;
        fd = open(path, flags, 0600);
    }
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    if (st.st_uid != geteuid()) /* below /tmp anybody could have been first */
        return sg_fail(err, SG_DENIED, "%s belongs to somebody else: set XDG_RUNTIME_DIR",
                       sg_quote(path).s);
    return sg_take_fd(&fd);
}

static int try_lock(int fd, uint32_t slot)
{
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1 };
    return fcntl(fd, F_OFD_SETLK, &l);
}

uint32_t sg_ids_first(bool is_root, uint32_t slot)
{
    return is_root ? FIRST_ID + slot * SG_CELL_IDS : geteuid();
}

static void fill(bool is_root, uint32_t slot, int *fd, struct sg_ids *ret)
{
    *ret = (struct sg_ids) { .slot = slot,
                             .first = sg_ids_first(is_root, slot),
                             .lock_fd = sg_take_fd(fd) };
}

int sg_ids_claim(bool is_root, struct sg_ids *ret, struct sg_err *err)
{
    sg_auto_fd fd = open_lock_file(is_root, err);
    if (fd < 0)
        return -1;
    /* Who claims many goes on where it was: those before are taken. */
    static uint32_t last;
    const uint32_t start = last ? last + 1 : (uint32_t)getpid() * 31;
    for (uint32_t i = 0; i < SG_SLOT_COUNT; i++) {
        uint32_t slot = (start + i) % SG_SLOT_COUNT;
        if (try_lock(fd, slot) == 0) {
            last = slot;
            fill(is_root, slot, &fd, ret);
            return 0;
        }
        if (errno != EAGAIN && errno != EACCES)
            return sg_fail_sys(err, "claim a range of ids");
    }
    return sg_fail(err, SG_EXHAUSTED, "all %d ranges of ids are in use", SG_SLOT_COUNT);
}

int sg_ids_claim_slot(bool is_root, uint32_t slot, struct sg_ids *ret, struct sg_err *err)
{
    sg_auto_fd fd = open_lock_file(is_root, err);
    if (fd < 0)
        return -1;
    if (try_lock(fd, slot) < 0)
        return sg_fail(err, SG_CONFLICT, "slot %u is in use", slot);
    fill(is_root, slot, &fd, ret);
    return 0;
}

void sg_ids_release(struct sg_ids *ids)
{
    sg_drop_fd(&ids->lock_fd);
}
