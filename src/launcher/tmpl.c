/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/tmpl.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/str.h"
#include "image/store.h"
#include "launcher/launcher.h"
#include "base/banned.h"

enum { FIRST_USER = 1000 };

/* Whether it is the same one on another machine: by its recipe, else by what is in it. What `host`
 * shows is each machine's own. */
static void identify(const struct sg_template *t, const char *base, char ret[SG_TMPL_NAME_MAX + 1])
{
    const size_t room = SG_TMPL_NAME_MAX + 1;
    if (strcmp(base, "host") == 0)
        (void)snprintf(ret, room, "host");
    else if (t->digest)
        (void)snprintf(ret, room, "%.*s", SG_TMPL_NAME_MAX, t->digest);
    else if (t->entries)
        (void)snprintf(ret, room, "%" PRIu64 "-%" PRIu64, t->entries, t->bytes);
}

static struct sg_tmpl *take(struct sg_template *t)
{
    struct sg_tmpl *ret = sg_new(struct sg_tmpl);
    ret->t = *t;
    ret->refs = 1;
    (void)snprintf(ret->base, sizeof ret->base, "%s", t->name);
    identify(t, ret->base, ret->identity);
    struct stat st;
    if (t->lock_fd >= 0 && fstat(t->lock_fd, &st) == 0) {
        ret->dev = (uint64_t)st.st_dev;
        ret->ino = (uint64_t)st.st_ino;
    }
    return ret;
}

static bool is_snapshot(const struct sg_launcher *l, const char *name)
{
    return sg_id_is_valid(name, 't') && sg_vault_has(&l->vault, SG_VAULT_SNAP, name);
}

static struct sg_tmpl *open_snapshot(const struct sg_launcher *l, const char *id,
                                     struct sg_err *err)
{
    char base[SG_TMPL_NAME_MAX + 1];
    struct sg_template t;
    if (sg_vault_base_of(&l->vault, id, base, err) < 0 ||
        sg_template_open_pinned(l->set.state_dir, base, id, &t, err) < 0)
        return NULL;
    struct sg_tmpl *ret = take(&t);
    (void)snprintf(ret->snapshot, sizeof ret->snapshot, "%s", id);
    free(ret->t.name);
    ret->t.name = sg_strdup(id);
    return ret;
}

struct sg_tmpl *sg_tmpl_open(const struct sg_launcher *l, const char *name, struct sg_err *err)
{
    struct sg_template t;
    if (is_snapshot(l, name))
        return open_snapshot(l, name, err);
    return sg_template_open(l->set.state_dir, name, &t, err) < 0 ? NULL : take(&t);
}

struct sg_tmpl *sg_tmpl_of_image(const char *name)
{
    struct sg_template t;
    sg_template_init(&t, name);
    return take(&t);
}

/* ---- pins ---- */

static bool is_host(const char *name)
{
    return strcmp(name, "host") == 0;
}

int sg_tmpl_pin(const struct sg_tmpl *t, const char *id, struct sg_err *err)
{
    if (is_host(t->base))
        return 0;
    if (t->t.lock_fd < 0)
        return sg_fail(err, SG_CONFLICT, "the template %s of the sandbox is gone",
                       sg_quote(t->base).s);
    return sg_templates_pin(t->t.lock_fd, id, err);
}

void sg_tmpl_unpin(const struct sg_tmpl *t, const char *id)
{
    if (!is_host(t->base) && t->t.lock_fd >= 0)
        sg_templates_unpin(t->t.lock_fd, id);
}

static void pass(const char *snapshot, char ret[80])
{
    (void)snprintf(ret, 80, SG_TMPL_PIN_PASSING "%.60s", snapshot);
}

int sg_tmpl_pin_making(const struct sg_tmpl *t, const char *snapshot, struct sg_err *err)
{
    char passing[80];
    pass(snapshot, passing);
    return sg_tmpl_pin(t, passing, err);
}

void sg_tmpl_pin_made(const struct sg_tmpl *t, const char *snapshot)
{
    char passing[80];
    pass(snapshot, passing);
    if (!is_host(t->base) && t->t.lock_fd >= 0)
        sg_templates_repin(t->t.lock_fd, passing, snapshot);
}

void sg_tmpl_unpin_making(const struct sg_tmpl *t, const char *snapshot)
{
    char passing[80];
    pass(snapshot, passing);
    sg_tmpl_unpin(t, passing);
}

/* The directory of the template that has this pin, whatever it is called by now; -1. */
static int open_pinned(const struct sg_launcher *l, const char *base, const char *id)
{
    char dir[80];
    sg_auto_fd store = is_host(base) ? -1 : sg_templates_open(l->set.state_dir, false, NULL);
    if (store < 0 || sg_templates_find_pin(store, base, id, dir, NULL) < 0)
        return -1;
    return openat(store, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void sg_tmpl_unpin_begin(const struct sg_launcher *l, const char *base, const char *snapshot)
{
    char passing[80];
    pass(snapshot, passing);
    sg_auto_fd dir = open_pinned(l, base, snapshot);
    if (dir >= 0)
        sg_templates_repin(dir, snapshot, passing);
}

void sg_tmpl_unpin_end(const struct sg_launcher *l, const char *base, const char *snapshot,
                       bool is_gone)
{
    char passing[80];
    pass(snapshot, passing);
    sg_auto_fd dir = open_pinned(l, base, passing);
    if (dir >= 0 && is_gone)
        sg_templates_unpin(dir, passing);
    else if (dir >= 0)
        sg_templates_repin(dir, passing, snapshot);
}

void sg_tmpl_sweep(const struct sg_launcher *l)
{
    sg_auto_fd store = sg_templates_open(l->set.state_dir, false, NULL);
    if (store >= 0)
        sg_templates_sweep(store, NULL);
}

/* ---- references ---- */

struct sg_tmpl *sg_tmpl_ref(struct sg_tmpl *t)
{
    t->refs++;
    return t;
}

void sg_tmpl_unref(struct sg_tmpl *t)
{
    if (!t || --t->refs)
        return;
    sg_template_done(&t->t);
    free(t);
}

/* Replaced templates keep their directory, under another name, while somebody holds it. */
static int lock_by_inode(const char *state_dir, uint64_t dev, uint64_t ino,
                         char ret_dir[NAME_MAX + 1])
{
    struct sg_err ignored;
    sg_auto_fd store = sg_templates_open(state_dir, false, &ignored);
    int dup_fd = store < 0 ? -1 : fcntl(store, F_DUPFD_CLOEXEC, 3);
    sg_auto_dir dir = dup_fd < 0 ? NULL : fdopendir(dup_fd);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        struct stat st;
        if (d->d_ino != ino)
            continue;
        sg_auto_fd fd = openat(store, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_dev == dev &&
            syscall(SYS_flock, fd, LOCK_SH | LOCK_NB) == 0) {
            (void)snprintf(ret_dir, NAME_MAX + 1, "%s", d->d_name);
            return sg_take_fd(&fd);
        }
    }
    return -1;
}

/* What it says of its user and variables is what a sandbox of it has, whatever its name leads to by
 * now; one without a name, and that of a snapshot which is gone, are found in no other way. */
static struct sg_tmpl *open_by_inode(const struct sg_launcher *l, const char *name, uint64_t dev,
                                     uint64_t ino)
{
    char dir[NAME_MAX + 1];
    struct sg_err ignored;
    struct sg_template t;
    sg_auto_fd held = lock_by_inode(l->set.state_dir, dev, ino, dir);
    if (held < 0 || sg_template_open_as(l->set.state_dir, dir, name, &t, &ignored) < 0)
        return NULL;
    struct sg_tmpl *ret = take(&t);
    if (!sg_starts_with(dir, SG_TEMPLATES_NEW_PREFIX)) /* was it replaced, it has lost its own */
        (void)snprintf(ret->base, sizeof ret->base, "%.*s", SG_TMPL_NAME_MAX, dir);
    return ret;
}

struct sg_tmpl *sg_tmpl_reopen(const struct sg_launcher *l, const char *name, uint64_t dev,
                               uint64_t ino)
{
    struct sg_err ignored;
    struct sg_template t;
    char dir[NAME_MAX + 1];
    struct sg_tmpl *ret = sg_tmpl_open(l, name, &ignored);
    if (ret && ret->ino == ino && ret->dev == dev)
        return ret;
    struct sg_tmpl *found = open_by_inode(l, name, dev, ino);
    if (found) {
        sg_tmpl_unref(ret);
        return found;
    }
    if (!ret) {
        sg_template_init(&t, name);
        ret = take(&t);
    }
    sg_drop_fd(&ret->t.lock_fd);
    ret->t.lock_fd = lock_by_inode(l->set.state_dir, dev, ino, dir);
    ret->dev = dev;
    ret->ino = ino;
    return ret;
}

/* A stored template is never changed, only replaced by another directory; that of `host` is named
 * after what is in it, and may be made anew with the same. */
int sg_tmpl_identify(const struct sg_launcher *l, const char *name, uint64_t *ret,
                     char identity[SG_TMPL_NAME_MAX + 1], struct sg_err *err)
{
    struct sg_template t;
    struct statx st;
    if (sg_template_open(l->set.state_dir, name, &t, err) < 0)
        return -1;
    sg_auto_template held = t;
    uint64_t h = SG_HASH_START;
    if (is_host(name)) {
        h = sg_hash_add(h, held.layer, strlen(held.layer));
    } else if (held.lock_fd < 0 ||
               statx(held.lock_fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) < 0) {
        return sg_fail_sys(err, "look at template %s", sg_quote(name).s);
    } else {
        h = sg_hash_add_u64(h, st.stx_ino); /* may be given again, but not at the same moment */
        h = sg_hash_add_u64(h, (uint64_t)st.stx_btime.tv_sec);
        h = sg_hash_add_u64(h, st.stx_btime.tv_nsec);
    }
    identify(&held, name, identity);
    *ret = h ? h : 1;
    return 0;
}

bool sg_tmpl_is_current(const struct sg_launcher *l, const struct sg_tmpl *t)
{
    struct stat st;
    if (t->snapshot[0] && !sg_vault_has(&l->vault, SG_VAULT_SNAP, t->snapshot))
        return false;
    const char *layer = t->t.layer, *slash = layer ? strrchr(layer, '/') : NULL;
    if (!slash)
        return false;
    sg_auto_free char *dir = sg_printf("%.*s", (int)(slash - layer), layer);
    return stat(dir, &st) == 0 && (uint64_t)st.st_ino == t->ino && (uint64_t)st.st_dev == t->dev;
}

/* Whose work directory it is: an image names its user by uid 1000 or root (image/template.h). */
static uint32_t owner_of(const char *user)
{
    uint64_t id = FIRST_USER;
    if (strcmp(user, "root") == 0)
        id = 0;
    else
        (void)sg_parse_u64(sg_str_of(user), 0, SG_CELL_IDS - 1, &id, NULL);
    return (uint32_t)id;
}

void sg_tmpl_fill_spec(const struct sg_tmpl *tmpl, bool is_rootless, struct sg_cell_spec *spec)
{
    const struct sg_template *t = &tmpl->t;
    spec->layers[0] = t->layer;
    spec->layer_count = 1;
    for (size_t i = 0; i < t->bind_count; i++)
        spec->binds[spec->bind_count++] =
            (struct sg_bind) { t->binds[i].source, t->binds[i].target, SG_BIND_READ_ONLY };
    for (size_t i = 0; i < t->hide_count; i++)
        spec->hide[spec->hide_count++] = t->hide[i];
    spec->grants_sudo = t->grants_sudo;
    spec->is_idmapped = t->is_idmapped && !is_rootless;
    spec->is_rootless = is_rootless;
    spec->hostname = SG_CELL_HOSTNAME;
    spec->workdir = t->workdir;
    spec->owner_id = owner_of(t->user);
}

int sg_tmpl_fill_cell(const struct sg_tmpl *tmpl, struct sg_buf *env, struct sg_msg_l_cell *ret,
                      struct sg_err *err)
{
    const struct sg_template *t = &tmpl->t;
    char *list[SG_TEMPLATE_MAX_ENV + 1];
    memcpy(list, t->env, t->env_count * sizeof list[0]);
    list[t->env_count] = NULL;
    ret->template = sg_text_of(t->name);
    ret->identity = sg_text_of(tmpl->identity);
    ret->user = sg_text_of(t->user);
    ret->home = sg_text_of(t->home);
    ret->workdir = sg_text_of(t->workdir);
    ret->path = sg_text_of(t->path);
    return sg_texts_pack(list, env, &ret->env, err);
}
