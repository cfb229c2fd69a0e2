/* SPDX-License-Identifier: Apache-2.0 */
#include "init/user.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/banned.h"

enum { PASSWD_FIELDS = 7, GROUP_FIELDS = 4 };

/* Takes one line off the front; false at the end. */
static bool next_line(struct sg_str *text, struct sg_str *ret)
{
    if (!text->n)
        return false;
    const char *end = memchr(text->p, '\n', text->n);
    size_t n = end ? (size_t)(end - text->p) : text->n;
    *ret = (struct sg_str) { text->p, n };
    size_t used = end ? n + 1 : n;
    *text = (struct sg_str) { text->p + used, text->n - used };
    return true;
}

/* Takes what is before `stop` (or all) off the front; false when there is nothing left. */
static bool next_part(struct sg_str *text, char stop, struct sg_str *ret)
{
    if (!text->p)
        return false;
    const char *end = text->n ? memchr(text->p, stop, text->n) : NULL;
    size_t n = end ? (size_t)(end - text->p) : text->n;
    *ret = (struct sg_str) { text->p, n };
    *text = end ? (struct sg_str) { end + 1, text->n - n - 1 } : (struct sg_str) { NULL, 0 };
    return true;
}

static bool split(struct sg_str line, struct sg_str *fields, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (!next_part(&line, ':', &fields[i]))
            return false;
    return !line.p;
}

static bool parse_id(struct sg_str s, uint32_t *ret)
{
    uint64_t v;
    if (sg_parse_u64(s, 0, UINT32_MAX - 1, &v, NULL) < 0) /* the last one means "no change" */
        return false;
    *ret = (uint32_t)v;
    return true;
}

/* Copies a field that fits and holds no NUL; else leaves what is there. */
static void copy_field(char *to, size_t max, struct sg_str s)
{
    if (s.n == 0 || s.n > max || memchr(s.p, 0, s.n))
        return;
    memcpy(to, s.p, s.n);
    to[s.n] = '\0';
}

bool sg_passwd_find(struct sg_str file, struct sg_str name, const uid_t *uid, struct sg_user *ret)
{
    struct sg_str line, f[PASSWD_FIELDS];
    while (next_line(&file, &line)) {
        uint32_t line_uid, line_gid;
        if (!split(line, f, PASSWD_FIELDS) || !f[0].n || f[0].n > SG_USER_NAME_MAX ||
            !parse_id(f[2], &line_uid) || !parse_id(f[3], &line_gid))
            continue;
        if (uid ? *uid != line_uid : f[0].n != name.n || memcmp(f[0].p, name.p, name.n) != 0)
            continue;
        ret->uid = line_uid;
        ret->gid = line_gid;
        copy_field(ret->name, SG_USER_NAME_MAX, f[0]);
        copy_field(ret->home, SG_USER_PATH_MAX, f[5]);
        copy_field(ret->shell, SG_USER_PATH_MAX, f[6]);
        return true;
    }
    return false;
}

static bool lists(struct sg_str members, const char *name)
{
    struct sg_str one;
    while (next_part(&members, ',', &one))
        if (sg_str_is(one, name))
            return true;
    return false;
}

static void add_group(struct sg_user *user, gid_t gid)
{
    for (unsigned i = 0; i < user->group_count; i++)
        if (user->groups[i] == gid)
            return;
    if (user->group_count < SG_USER_GROUPS_MAX)
        user->groups[user->group_count++] = gid;
}

void sg_group_collect(struct sg_str file, struct sg_user *user)
{
    struct sg_str line, f[GROUP_FIELDS];
    uint32_t gid;
    add_group(user, user->gid);
    while (next_line(&file, &line))
        if (split(line, f, GROUP_FIELDS) && parse_id(f[2], &gid) && lists(f[3], user->name))
            add_group(user, gid);
}

/* ---- the files ---- */

void sg_users_init(struct sg_users *u)
{
    *u = (struct sg_users) { .passwd.path = "/etc/passwd", .group.path = "/etc/group" };
    sg_buf_init(&u->passwd.bytes, SG_USER_FILE_MAX);
    sg_buf_init(&u->group.bytes, SG_USER_FILE_MAX);
}

void sg_users_done(struct sg_users *u)
{
    sg_buf_done(&u->passwd.bytes);
    sg_buf_done(&u->group.bytes);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The file's content now. One that is missing, too large or no file at all is an empty one. */
static struct sg_str content(struct sg_user_file *f)
{
    struct stat st;
    if (stat(f->path, &st) < 0)
        return (struct sg_str) { "", 0 };
    if (!f->is_read || !is_same(&st, &f->identity)) {
        sg_buf_clear(&f->bytes);
        f->is_read = false;
        sg_auto_fd fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
            sg_buf_read_fd(&f->bytes, fd, f->path, NULL) < 0) {
            sg_buf_clear(&f->bytes);
            return (struct sg_str) { "", 0 };
        }
        f->identity = st;
        f->is_read = true;
    }
    return (struct sg_str) { (const char *)f->bytes.p, f->bytes.n };
}

void sg_users_read_ahead(struct sg_users *u)
{
    (void)content(&u->passwd);
    (void)content(&u->group);
}

/* "uid" or "uid:gid"; false when it is a name. */
static bool parse_ids(const char *who, uid_t *ret_uid, gid_t *ret_gid, bool *ret_has_gid)
{
    struct sg_str rest = sg_str_of(who), uid, gid;
    if (!next_part(&rest, ':', &uid) || !parse_id(uid, ret_uid))
        return false;
    *ret_has_gid = next_part(&rest, ':', &gid);
    return !*ret_has_gid || (!rest.p && parse_id(gid, ret_gid));
}

static void find_by_id(struct sg_users *u, uid_t uid, gid_t gid, bool has_gid, struct sg_user *user)
{
    user->uid = uid;
    user->gid = uid;
    (void)snprintf(user->name, sizeof user->name, "%u", (unsigned)uid);
    bool is_known = sg_passwd_find(content(&u->passwd), (struct sg_str) { 0 }, &uid, user);
    if (has_gid)
        user->gid = gid;
    if (is_known && !has_gid)
        sg_group_collect(content(&u->group), user);
    else
        user->groups[user->group_count++] = user->gid;
}

/* Root is root in a root filesystem without accounts, too. */
static bool is_root(const char *who, struct sg_user *ret)
{
    if (strcmp(who, "root") != 0)
        return false;
    ret->uid = 0;
    ret->gid = 0;
    (void)snprintf(ret->name, sizeof ret->name, "root");
    return true;
}

int sg_users_find(struct sg_users *u, const char *who, bool is_one_user, struct sg_user *ret,
                  struct sg_err *err)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    bool has_gid = true;
    struct sg_user user = { .home = "/", .shell = "/bin/sh" };
    if (!who[0] || parse_ids(who, &uid, &gid, &has_gid)) {
        find_by_id(u, uid, gid, has_gid, &user);
    } else {
        if (!sg_passwd_find(content(&u->passwd), sg_str_of(who), NULL, &user) &&
            !is_root(who, &user))
            return sg_fail(err, SG_NOT_FOUND, "no user %s", sg_quote(who).s);
        sg_group_collect(content(&u->group), &user);
    }
    user.is_own = !who[0] || is_one_user;
    if (is_one_user && (user.uid != geteuid() || (has_gid && gid != getegid())))
        return sg_fail(err, SG_DENIED, "user %s: this sandbox has only one user, '%u'",
                       sg_quote(who).s, (unsigned)geteuid());
    *ret = user;
    return 0;
}

int sg_users_find_owner(struct sg_users *u, const char *text, struct sg_user *ret,
                        struct sg_err *err)
{
    struct sg_str file = content(&u->group), line, f[GROUP_FIELDS];
    const char *colon = strchr(text, ':');
    sg_auto_free char *name = sg_printf("%.*s", colon ? (int)(colon - text) : -1, text);
    struct sg_user user;
    uint32_t gid = 0;
    if (sg_users_find(u, name, false, &user, err) < 0)
        return -1;
    bool is_known = !colon || !colon[1] || parse_id(sg_str_of(colon + 1), &gid);
    while (!is_known && next_line(&file, &line))
        is_known =
            split(line, f, GROUP_FIELDS) && sg_str_is(f[0], colon + 1) && parse_id(f[2], &gid);
    if (!is_known)
        return sg_fail(err, SG_NOT_FOUND, "no group %s", sg_quote(colon + 1).s);
    if (colon && colon[1])
        user.gid = gid;
    *ret = user;
    return 0;
}

void sg_users_name(struct sg_users *u, uid_t uid, char *ret)
{
    struct sg_user user = { 0 };
    ret[0] = '\0';
    if (sg_passwd_find(content(&u->passwd), (struct sg_str) { 0 }, &uid, &user))
        memcpy(ret, user.name, sizeof user.name);
}

void sg_users_group_name(struct sg_users *u, gid_t gid, char *ret)
{
    struct sg_str file = content(&u->group), line, f[GROUP_FIELDS];
    uint32_t line_gid;
    ret[0] = '\0';
    while (next_line(&file, &line))
        if (split(line, f, GROUP_FIELDS) && parse_id(f[2], &line_gid) && line_gid == gid) {
            copy_field(ret, SG_USER_NAME_MAX, f[0]);
            return;
        }
}
