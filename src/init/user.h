/* SPDX-License-Identifier: Apache-2.0 */
/* Users and groups of the sandbox, from its own /etc/passwd and /etc/group.
 *
 * Both files belong to the sandbox and are hostile. They are read here and not by libc, because
 * libc may ask a name service over a socket or wait for a writer when the file is a FIFO. The bytes
 * are kept and read again only when the file is another (device, inode, size, mtime). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum {
    SG_USER_NAME_MAX = 64,
    SG_USER_PATH_MAX = 255,
    SG_USER_GROUPS_MAX = 64,
    SG_USER_FILE_MAX = 256 * 1024,
};

struct sg_user {
    bool is_own; /* init's own ids: nothing to change */
    uid_t uid;
    gid_t gid;
    gid_t groups[SG_USER_GROUPS_MAX];
    unsigned group_count;
    char name[SG_USER_NAME_MAX + 1]; /* the number, where the file has no name */
    char home[SG_USER_PATH_MAX + 1], shell[SG_USER_PATH_MAX + 1];
};

struct sg_user_file {
    const char *path;
    struct sg_buf bytes;
    struct stat identity;
    bool is_read;
};
struct sg_users {
    struct sg_user_file passwd, group;
};

void sg_users_init(struct sg_users *u);
/* What the first question will want to know. */
void sg_users_read_ahead(struct sg_users *u);
void sg_users_done(struct sg_users *u);

/* `who`: "" for init's own, a name, "uid" or "uid:gid". With `is_one_user` anything that is not
 * init's own is SG_DENIED. SG_NOT_FOUND for an unknown name. */
int sg_users_find(struct sg_users *u, const char *who, bool is_one_user, struct sg_user *ret,
                  struct sg_err *err);
/* "user", "user:group", each a name or a number: the ids alone. */
int sg_users_find_owner(struct sg_users *u, const char *text, struct sg_user *ret,
                        struct sg_err *err);
/* The names of ids, or "" (`ret` has room for SG_USER_NAME_MAX + 1). */
void sg_users_name(struct sg_users *u, uid_t uid, char *ret);
void sg_users_group_name(struct sg_users *u, gid_t gid, char *ret);

/* The parsers on bytes in hand: what the above use, and what the fuzzer feeds. */
bool sg_passwd_find(struct sg_str file, struct sg_str name, const uid_t *uid, struct sg_user *ret);
void sg_group_collect(struct sg_str file, struct sg_user *user);

/* Takes on the ids of `user` for file work: effective ones only, so that the way back stays open.
 * Nothing to do for init's own. On failure nothing has changed. */
int sg_user_enter(const struct sg_user *user, struct sg_err *err);
/* Back to init's own ids; aborts where that fails, since going on would act as the wrong user. */
void sg_user_leave(const struct sg_user *user);
/* In a forked child that has entered: makes it final, or exits with the errno. */
void sg_user_stay(const struct sg_user *user);
