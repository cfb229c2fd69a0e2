/* SPDX-License-Identifier: Apache-2.0 */
#include "image/template.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "image/host.h"
#include "image/meta.h"
#include "image/root.h"
#include "image/store.h"
#include "sys/path.h"

#include "base/banned.h"

enum { MAX_NAME = 64, MAX_PASSWD = 256 * 1024, FIRST_USER = 1000, MAX_ID = 65535 };

static const char default_path[] = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

void sg_template_init(struct sg_template *t, const char *name)
{
    *t = (struct sg_template) {
        .name = sg_strdup(name),
        .user = sg_strdup("user"),
        .home = sg_strdup("/home/user"),
        .workdir = sg_strdup("/workspace"),
        .path = sg_strdup(default_path),
        .env = { sg_strdup("LANG=C.UTF-8") },
        .env_count = 1,
        .lock_fd = -1,
    };
}

void sg_template_list_add(struct sg_template_list *list, const char *text)
{
    char **v = sg_alloc((list->n + 1) * sizeof *v);
    if (list->n)
        memcpy(v, list->v, list->n * sizeof *v);
    free(list->v);
    list->v = v;
    v[list->n++] = sg_strdup(text);
}

static void list_done(struct sg_template_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->v[i]);
    free(list->v);
}

void sg_template_done(struct sg_template *t)
{
    char *owned[] = { t->name,   t->layer,  t->user,     t->home,   t->workdir,    t->path,
                      t->origin, t->digest, t->manifest, t->config, t->media_type, t->reference };
    struct sg_template_list *lists[] = { &t->entrypoint, &t->cmd, &t->layers, &t->blobs };
    for (size_t i = 0; i < SG_COUNT(lists); i++)
        list_done(lists[i]);
    for (size_t i = 0; i < SG_COUNT(owned); i++)
        free(owned[i]);
    for (size_t i = 0; i < t->bind_count; i++) {
        free(t->binds[i].source);
        free(t->binds[i].target);
    }
    for (size_t i = 0; i < t->hide_count; i++)
        free(t->hide[i]);
    for (size_t i = 0; i < t->env_count; i++)
        free(t->env[i]);
    sg_close_p(&t->lock_fd);
    *t = (struct sg_template) { .lock_fd = -1 };
}

static bool is_name_byte(char c, bool is_first)
{
    bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    return is_plain || (!is_first && (c == '.' || c == '_' || c == '-'));
}

static bool is_name(const char *name)
{
    size_t n = strlen(name);
    bool fits = n > 0 && n <= MAX_NAME;
    for (size_t i = 0; fits && i < n; i++)
        fits = is_name_byte(name[i], i == 0);
    return fits;
}

int sg_template_check_name(const char *name, struct sg_err *err)
{
    if (!is_name(name))
        return sg_fail(
            err, SG_INVALID,
            "%s is not a template name: up to %d of a-z 0-9 . _ -, first a letter or digit",
            sg_quote(name).s, MAX_NAME);
    if (strcmp(name, "host") == 0)
        return sg_fail(err, SG_INVALID, "'host' is the machine itself; choose another name");
    return 0;
}

static struct sg_str next_field(struct sg_str *rest, char separator)
{
    const char *end = rest->n ? memchr(rest->p, separator, rest->n) : NULL;
    struct sg_str field = { rest->p, end ? (size_t)(end - rest->p) : rest->n };
    size_t used = field.n + (end ? 1 : 0);
    *rest = (struct sg_str) { rest->p + used, rest->n - used };
    return field;
}

static bool is_plain_user(struct sg_str s)
{
    if (s.n == 0 || s.n > 32 || s.p[0] == '-')
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!is_name_byte(s.p[i], false) && !(s.p[i] >= 'A' && s.p[i] <= 'Z'))
            return false;
    return true;
}

static bool is_plain_home(struct sg_str s)
{
    if (s.n == 0 || s.n >= PATH_MAX / 4 || s.p[0] != '/')
        return false;
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return false;
    return true;
}

/* passwd(5): name:password:uid:gid:gecos:home:shell. `name` empty: by number. */
static bool take_user(struct sg_template *t, struct sg_str passwd, struct sg_str name,
                      uint64_t wanted)
{
    while (passwd.n) {
        struct sg_str line = next_field(&passwd, '\n');
        struct sg_str field[6];
        for (size_t i = 0; i < SG_COUNT(field); i++)
            field[i] = next_field(&line, ':');
        uint64_t uid;
        struct sg_err ignored;
        if (sg_parse_u64(field[2], 0, UINT32_MAX, &uid, &ignored) < 0 || !is_plain_user(field[0]) ||
            (name.n ? field[0].n != name.n || memcmp(field[0].p, name.p, name.n) != 0
                    : uid != wanted))
            continue;
        free(t->user);
        t->user = sg_printf("%.*s", (int)field[0].n, field[0].p);
        free(t->home);
        t->home = is_plain_home(field[5]) ? sg_printf("%.*s", (int)field[5].n, field[5].p)
                                          : sg_strdup("/");
        return true;
    }
    return false;
}

/* Its passwd, or nothing: a root without users has root. */
static void read_passwd(int root_fd, struct sg_buf *ret)
{
    struct sg_err no_passwd;
    struct stat st;
    sg_auto_fd fd =
        sg_open_in(root_fd, "etc/passwd", O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, &no_passwd);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        sg_buf_read_fd(ret, fd, "etc/passwd", &no_passwd) < 0)
        sg_buf_clear(ret);
}

static void be_root(struct sg_template *t)
{
    free(t->user);
    free(t->home);
    t->user = sg_strdup("root");
    t->home = sg_strdup("/root");
}

int sg_template_read_root(struct sg_template *t, int root_fd, struct sg_err *err)
{
    if (sg_root_check(root_fd, err) < 0)
        return -1;
    be_root(t);
    sg_auto_buf passwd;
    sg_buf_init(&passwd, MAX_PASSWD);
    read_passwd(root_fd, &passwd);
    const struct sg_str text = { (const char *)passwd.p, passwd.n }, by_number = { "", 0 };
    (void)take_user(t, text, by_number, 0);
    (void)take_user(t, text, by_number, FIRST_USER);
    return 0;
}

int sg_template_read_user(struct sg_template *t, int root_fd, const char *user, struct sg_err *err)
{
    if (sg_root_check(root_fd, err) < 0)
        return -1;
    be_root(t);
    sg_auto_buf passwd;
    sg_buf_init(&passwd, MAX_PASSWD);
    read_passwd(root_fd, &passwd);
    const struct sg_str text = { (const char *)passwd.p, passwd.n };
    const struct sg_str name = { user, strcspn(user, ":") };
    struct sg_err ignored;
    uint64_t uid = 0, gid;
    const bool is_number = sg_parse_u64(name, 0, MAX_ID, &uid, &ignored) == 0;
    const bool is_known =
        take_user(t, text, is_number ? (struct sg_str) { "", 0 } : name, name.n ? uid : 0);
    if (is_known || !name.n)
        return 0;
    if (!is_number)
        return sg_fail(err, SG_INVALID, "the image is to run as %s, whom its passwd does not have",
                       sg_quote(user).s);
    const char *group = user + name.n;
    free(t->user);
    free(t->home);
    t->user = *group && sg_parse_u64(sg_str_of(group + 1), 0, MAX_ID, &gid, &ignored) == 0
                  ? sg_printf("%u:%u", (unsigned)uid, (unsigned)gid)
                  : sg_printf("%u", (unsigned)uid);
    t->home = sg_strdup("/");
    return 0;
}

static int open_directory(struct sg_template *t, const char *path, struct sg_err *err)
{
    sg_auto_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char real[PATH_MAX];
    if (fd < 0 || !realpath(path, real))
        return sg_fail_sys(err, "open template directory %s", sg_quote(path).s);
    if (strcmp(real, "/") == 0)
        return sg_fail(err, SG_INVALID, "the machine's own root is no template; use 'host'");
    t->layer = sg_strdup(real);
    t->is_idmapped = geteuid() == 0;
    t->origin = sg_strdup("directory");
    return sg_template_read_root(t, fd, err);
}

static int fail_not_found(const char *name, struct sg_err *err)
{
    if (strcmp(name, "base") == 0)
        return sg_fail(err, SG_NOT_FOUND,
                       "template 'base' is not built yet; run: sandglass template build base");
    return sg_fail(err, SG_NOT_FOUND,
                   "no template %s; see 'sandglass template list', or import one: "
                   "sandglass template import %s FILE",
                   sg_quote(name).s, name);
}

static int read_meta(struct sg_template *t, struct sg_err *err)
{
    sg_auto_fd fd = openat(t->lock_fd, "template.toml", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(err, "open its 'template.toml'");
    sg_auto_buf text;
    sg_buf_init(&text, SG_META_MAX_BYTES);
    if (sg_buf_read_fd(&text, fd, "template.toml", err) < 0)
        return -1;
    return sg_meta_parse(t, (struct sg_str) { (const char *)text.p, text.n }, "template.toml", err);
}

static int open_at(struct sg_template *t, const char *state_dir, int store, const char *dir,
                   struct sg_err *err)
{
    if (store >= 0)
        t->lock_fd = sg_templates_use(store, dir, err);
    if (t->lock_fd < 0)
        return err->kind == SG_NOT_FOUND ? fail_not_found(t->name, err) : -1;
    if (read_meta(t, err) < 0)
        return sg_wrap(err, "template '%s'", t->name);
    t->layer = sg_printf("%s/templates/%s/root", state_dir, dir);
    return 0;
}

static int open_stored(struct sg_template *t, const char *state_dir, struct sg_err *err)
{
    sg_auto_fd store = sg_templates_open(state_dir, false, err);
    return open_at(t, state_dir, store, t->name, err);
}

int sg_template_open_pinned(const char *state_dir, const char *name, const char *id,
                            struct sg_template *ret, struct sg_err *err)
{
    if (strcmp(name, "host") == 0)
        return sg_template_open(state_dir, name, ret, err);
    char dir[80];
    sg_auto_fd store = sg_templates_open(state_dir, false, err);
    if (store < 0 || sg_templates_find_pin(store, name, id, dir, err) < 0)
        return -1;
    return sg_template_open_as(state_dir, dir, name, ret, err);
}

int sg_template_open_as(const char *state_dir, const char *dir, const char *name,
                        struct sg_template *ret, struct sg_err *err)
{
    sg_auto_fd store = sg_templates_open(state_dir, false, err);
    if (store < 0)
        return -1;
    sg_auto_template t;
    sg_template_init(&t, name);
    if (open_at(&t, state_dir, store, dir, err) < 0)
        return -1;
    *ret = t;
    t = (struct sg_template) { .lock_fd = -1 };
    return 0;
}

int sg_template_open(const char *state_dir, const char *name, struct sg_template *ret,
                     struct sg_err *err)
{
    if (!strchr(name, '/') && !is_name(name) && !sg_templates_is_image(name))
        return sg_fail(err, SG_NOT_FOUND, "no template %s; see 'sandglass template list'",
                       sg_quote(name).s);
    sg_auto_template t;
    sg_template_init(&t, name);
    int done = strchr(name, '/')           ? open_directory(&t, name, err)
               : strcmp(name, "host") == 0 ? sg_host_open(state_dir, &t, err)
                                           : open_stored(&t, state_dir, err);
    if (done < 0)
        return -1;
    *ret = t;
    t = (struct sg_template) { .lock_fd = -1 };
    return 0;
}
