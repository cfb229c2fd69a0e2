/* SPDX-License-Identifier: Apache-2.0 */
/* What init does with bytes before it acts on them. The first byte chooses:
 *   'p'  a passwd file, after a first line with the user that is looked for
 *   'g'  a group file, after a first line with the user's name
 *   any other: a request; a SPAWN is prepared up to the point of the clone, and paths are split. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "ctl/msg.h"
#include "init/path.h"
#include "init/spawn.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check_text(const char *s, size_t max)
{
    if (strnlen(s, max + 1) > max)
        abort();
}

static void check_user(const struct sg_user *u)
{
    check_text(u->name, SG_USER_NAME_MAX);
    check_text(u->home, SG_USER_PATH_MAX);
    check_text(u->shell, SG_USER_PATH_MAX);
    if (u->group_count > SG_USER_GROUPS_MAX)
        abort();
}

static void feed_users(char kind, struct sg_str text)
{
    struct sg_user user = { 0 };
    const char *end = text.n ? memchr(text.p, '\n', text.n) : NULL;
    if (!end)
        return;
    struct sg_str who = { text.p, (size_t)(end - text.p) };
    struct sg_str file = { end + 1, text.n - who.n - 1 };
    if (kind == 'p') {
        const uid_t zero = 0;
        (void)sg_passwd_find(file, who, NULL, &user);
        check_user(&user);
        (void)sg_passwd_find(file, who, &zero, &user);
    } else if (who.n <= SG_USER_NAME_MAX) {
        memcpy(user.name, who.p, who.n);
        sg_group_collect(file, &user);
    }
    check_user(&user);
}

static size_t touch(char *const *v)
{
    size_t bytes = 0;
    for (; *v; v++)
        bytes += strlen(*v);
    return bytes;
}

static void feed_spawn(const struct sg_msg_spawn *m)
{
    static const struct sg_user user = { .name = "user", .home = "/home/user", .shell = "/bin/sh" };
    struct sg_spawn s;
    if (sg_spawn_prepare(&s, m, &user, NULL) == 0) {
        size_t given = m->argv.n + m->env.n + SG_SPAWN_MAX_TEXT_BYTES;
        if (touch(s.argv) + touch(s.envp) + touch(s.paths) > given || !s.cwd)
            abort();
    }
    sg_spawn_done(&s);
}

static void feed_path(struct sg_text path)
{
    char name[SG_PATH_NAME_MAX + 1];
    sg_auto_fd dir = sg_path_open_parent(path, name, NULL);
    if (dir >= 0 && (!name[0] || strchr(name, '/') || strlen(name) > SG_PATH_NAME_MAX))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    if (n && (p[0] == 'p' || p[0] == 'g')) {
        feed_users((char)p[0], (struct sg_str) { (const char *)p + 1, n - 1 });
        return 0;
    }
    struct sg_msg m;
    if (sg_msg_decode(p, n, SG_ROLE_REQUEST, &m, NULL) < 0)
        return 0;
    if (m.type == SG_MSG_SPAWN)
        feed_spawn(&m.spawn);
    if (m.type == SG_MSG_REMOVE)
        feed_path(m.remove.path);
    if (m.type == SG_MSG_WRITE)
        feed_path(m.write.path);
    return 0;
}
