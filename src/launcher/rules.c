/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/rules.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/hash.h"
#include "base/str.h"
#include "launcher/launcher.h"
#include "base/banned.h"

static uint64_t stamp_of(const struct stat *st)
{
    const uint64_t parts[] = {
        st->st_dev,
        st->st_ino,
        (uint64_t)st->st_mtim.tv_sec,
        (uint64_t)st->st_mtim.tv_nsec,
        (uint64_t)st->st_ctim.tv_sec,
        (uint64_t)st->st_ctim.tv_nsec,
        (uint64_t)st->st_size,
    };
    uint64_t h = SG_HASH_START;
    for (size_t i = 0; i < SG_COUNT(parts); i++)
        h = sg_hash_add_u64(h, parts[i]);
    return h > SG_RULES_NO_FILE ? h : h + SG_RULES_NO_FILE + 1;
}

int sg_rules_look(const struct sg_launch *set, uint32_t which, uint64_t known, uint64_t *ret_stamp,
                  int *ret_fd, struct sg_err *err)
{
    static const char *const usual[SG_RULE_FILE_COUNT] = {
        [SG_RULE_FILE_ROUTER] = "/etc/sandglass/router.toml",
        [SG_RULE_FILE_INTERCEPT] = "/etc/sandglass/intercept.toml",
    };
    const char *named = set->rules_paths[which], *path = named ? named : usual[which];
    struct stat st;
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT && !named) {
        *ret_stamp = SG_RULES_NO_FILE;
        *ret_fd = -1;
        return 0;
    }
    if (fd < 0 || fstat(fd, &st) < 0)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    if (!S_ISREG(st.st_mode))
        return sg_fail(err, SG_INVALID, "%s is not a regular file", sg_quote(path).s);
    *ret_stamp = stamp_of(&st);
    *ret_fd = *ret_stamp == known ? -1 : sg_take_fd(&fd);
    return 0;
}
