/* SPDX-License-Identifier: Apache-2.0 */
/* A whiteout is about the layers below and never about its own, so each directory is walked twice:
 * first what goes, then what comes. Every step is by descriptor, follows no link and enters no
 * other mount: a tree is what a stranger packed. */
#include "image/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "image/kv.h"
#include "image/meta.h"
#include "image/store.h"
#include "image/tree.h"
#include "sys/beneath.h"

#include "base/banned.h"

enum { MAX_DEPTH = 256, NUMBERS_BYTES = 1024 };

/* ---- names and numbers ---- */

void sg_part_name(const struct sg_oci_hex *hex, char ret[SG_PART_NAME])
{
    (void)snprintf(ret, SG_PART_NAME, "sha256-%s", hex->s);
}

void sg_blob_name(const struct sg_oci_hex *hex, char ret[SG_PART_NAME])
{
    (void)snprintf(ret, SG_PART_NAME, "blob-%s", hex->s);
}

void sg_layer_name(const struct sg_oci_hex *diff, bool keeps_setuid, char ret[SG_LAYER_NAME])
{
    (void)snprintf(ret, SG_LAYER_NAME, SG_LAYER_PREFIX "%s%s", diff->s, keeps_setuid ? "s" : "");
}

static const struct {
    const char *key;
    size_t offset;
} numbers[] = {
    { "entries", offsetof(struct sg_layer_numbers, entries) },
    { "bytes", offsetof(struct sg_layer_numbers, bytes) },
    { "skipped", offsetof(struct sg_layer_numbers, skipped) },
    { "setuid_dropped", offsetof(struct sg_layer_numbers, setuid_dropped) },
};

int sg_layer_numbers_write(int layer_fd, const struct sg_layer_numbers *n, struct sg_err *err)
{
    sg_auto_buf text;
    sg_buf_init(&text, NUMBERS_BYTES);
    for (size_t i = 0; i < SG_COUNT(numbers); i++) {
        uint64_t v;
        memcpy(&v, (const char *)n + numbers[i].offset, sizeof v);
        sg_buf_addf(&text, "%s = %" PRIu64 "\n", numbers[i].key, v);
    }
    sg_auto_fd fd = openat(layer_fd, "layer.toml", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text.p, text.n) != (ssize_t)text.n)
        return sg_fail_sys(err, "write 'layer.toml'");
    return 0;
}

int sg_layer_numbers_read(int layer_fd, struct sg_layer_numbers *ret, struct sg_err *err)
{
    sg_auto_fd fd = openat(layer_fd, "layer.toml", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    sg_auto_buf text;
    sg_buf_init(&text, NUMBERS_BYTES);
    if (fd < 0)
        return sg_fail_sys(err, "open 'layer.toml'");
    if (sg_buf_read_fd(&text, fd, "layer.toml", err) < 0)
        return -1;
    struct sg_layer_numbers n = { 0 };
    struct sg_kv kv;
    sg_kv_init(&kv, (struct sg_str) { (const char *)text.p, text.n }, "layer.toml");
    for (int got; (got = sg_kv_next(&kv, err)) != 0;) {
        if (got < 0)
            return -1;
        for (size_t i = 0; i < SG_COUNT(numbers); i++)
            if (strcmp(kv.key, numbers[i].key) == 0 &&
                sg_parse_u64(sg_str_of(kv.text), 0, UINT64_MAX,
                             (uint64_t *)(void *)((char *)&n + numbers[i].offset), err) < 0)
                return -1;
    }
    *ret = n;
    return 0;
}

/* ---- merging ---- */

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static DIR *open_listing(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        sg_close_p(&fd);
    return dir;
}

static int remove_all(int dir_fd, struct sg_err *err)
{
    sg_auto_dir dir = open_listing(dir_fd);
    if (!dir)
        return sg_fail_sys(err, "list a directory of the root");
    for (struct dirent *d; (d = readdir(dir));)
        if (!is_dots(d->d_name) && sg_tree_remove(dir_fd, d->d_name, err) < 0)
            return -1;
    return 0;
}

static int take_away(DIR *tree, int root_fd, struct sg_err *err)
{
    for (struct dirent *d; (d = readdir(tree));) {
        if (!sg_starts_with(d->d_name, SG_WHITEOUT))
            continue;
        if (strcmp(d->d_name, SG_WHITEOUT_ALL) == 0
                ? remove_all(root_fd, err) < 0
                : sg_tree_remove(root_fd, d->d_name + strlen(SG_WHITEOUT), err) < 0)
            return -1;
    }
    return 0;
}

/* The owner comes first: a change of owner clears set-id bits. */
static int apply(int fd, const struct stat *wanted, mode_t mode, struct sg_err *err)
{
    struct stat has;
    if (fstat(fd, &has) < 0 ||
        ((has.st_uid != wanted->st_uid || has.st_gid != wanted->st_gid) &&
         fchown(fd, wanted->st_uid, wanted->st_gid) < 0) ||
        fchmod(fd, mode) < 0)
        return sg_fail_sys(err, "set the owner and mode of a directory");
    return 0;
}

static int merge(int tree_fd, int root_fd, unsigned depth, uint64_t *left, struct sg_err *err);

static int merge_dir(int tree_fd, int root_fd, const char *name, const struct stat *st,
                     unsigned depth, uint64_t *left, struct sg_err *err)
{
    struct stat below;
    bool is_there = fstatat(root_fd, name, &below, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there && !S_ISDIR(below.st_mode)) {
        if (unlinkat(root_fd, name, 0) < 0)
            return sg_fail_sys(err, "replace %s", sg_quote(name).s);
        is_there = false;
    }
    if (!is_there && mkdirat(root_fd, name, 0700) < 0)
        return sg_fail_sys(err, "make directory %s", sg_quote(name).s);
    sg_auto_fd from = sg_open_plain(tree_fd, name, O_RDONLY | O_DIRECTORY, 0);
    sg_auto_fd to = sg_open_plain(root_fd, name, O_RDONLY | O_DIRECTORY, 0);
    if (from < 0 || to < 0)
        return sg_fail_sys(err, "open directory %s", sg_quote(name).s);
    const bool is_implied =
        (st->st_mode & 07777) == SG_MODE_IMPLIED && fgetxattr(from, SG_MARK_NAMED, NULL, 0) < 0;
    if ((!is_there || !is_implied) &&
        apply(to, st, is_implied ? 0755 : st->st_mode & 07777, err) < 0)
        return -1;
    return merge(from, to, depth + 1, left, err);
}

static int merge_file(int tree_fd, int root_fd, const char *name, struct sg_err *err)
{
    if (linkat(tree_fd, name, root_fd, name, 0) == 0)
        return 0;
    if (errno == EEXIST) {
        if (sg_tree_remove(root_fd, name, err) < 0)
            return -1;
        if (linkat(tree_fd, name, root_fd, name, 0) == 0)
            return 0;
    }
    return sg_fail_sys(err, "link %s", sg_quote(name).s);
}

static int merge(int tree_fd, int root_fd, unsigned depth, uint64_t *left, struct sg_err *err)
{
    sg_auto_dir dir = open_listing(tree_fd);
    if (!dir)
        return sg_fail_sys(err, "list a directory of the layer");
    if (depth > MAX_DEPTH)
        return sg_fail(err, SG_EXHAUSTED, "the layer is nested too deep");
    if (take_away(dir, root_fd, err) < 0)
        return -1;
    rewinddir(dir);
    for (struct dirent *d; (d = readdir(dir));) {
        struct stat st;
        if (is_dots(d->d_name) || sg_starts_with(d->d_name, SG_WHITEOUT))
            continue;
        if (*left == 0)
            return sg_fail(err, SG_EXHAUSTED, "the layers have too many entries together");
        --*left;
        if (fstatat(tree_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return sg_fail_sys(err, "look at %s", sg_quote(d->d_name).s);
        if (S_ISDIR(st.st_mode) ? merge_dir(tree_fd, root_fd, d->d_name, &st, depth, left, err) < 0
                                : merge_file(tree_fd, root_fd, d->d_name, err) < 0)
            return -1;
    }
    return 0;
}

int sg_layer_merge(int tree_fd, int root_fd, uint64_t *left, struct sg_err *err)
{
    struct stat st;
    if (fstat(tree_fd, &st) < 0)
        return sg_fail_sys(err, "look at a layer");
    /* Some archives are of a private directory; nobody could then enter the sandbox. */
    if ((st.st_mode & 07777) != SG_MODE_IMPLIED &&
        apply(root_fd, &st, (st.st_mode & 07777) | 0555, err) < 0)
        return -1;
    return merge(tree_fd, root_fd, 0, left, err);
}

/* ---- sweeping ---- */

static bool names_layer(int store_fd, const char *template, const char *suffix)
{
    bool is_named = false;
    struct sg_err ignored;
    struct sg_template t;
    sg_template_init(&t, template);
    sg_auto_free char *path = sg_printf("%s/template.toml", template);
    sg_auto_fd fd = openat(store_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    sg_auto_buf text;
    sg_buf_init(&text, SG_META_MAX_BYTES);
    const bool is_read =
        fd >= 0 && sg_buf_read_fd(&text, fd, "template.toml", &ignored) == 0 &&
        sg_meta_parse(&t, (struct sg_str) { (const char *)text.p, text.n }, "", &ignored) == 0;
    for (size_t i = 0; i < t.layers.n; i++)
        is_named |= strcmp(t.layers.v[i], suffix) == 0;
    sg_template_done(&t);
    /* Who is not written down yet, or cannot be read, may name any. */
    return is_named || (fd >= 0 ? !is_read : sg_starts_with(template, SG_TEMPLATES_NEW_PREFIX));
}

static bool is_named(int store_fd, const char *layer)
{
    sg_auto_dir dir = open_listing(store_fd);
    bool is_found = !dir;
    for (struct dirent *d; !is_found && (d = readdir(dir));)
        is_found = !is_dots(d->d_name) && !sg_starts_with(d->d_name, SG_LAYER_PREFIX) &&
                   names_layer(store_fd, d->d_name, layer + strlen(SG_LAYER_PREFIX));
    return is_found;
}

void sg_layers_sweep(int store_fd)
{
    struct sg_err ignored;
    sg_auto_dir dir = open_listing(store_fd);
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (sg_starts_with(d->d_name, SG_LAYER_PREFIX) && !is_named(store_fd, d->d_name))
            (void)sg_templates_remove(store_fd, d->d_name, &ignored);
}
