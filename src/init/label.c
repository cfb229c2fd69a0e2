/* SPDX-License-Identifier: Apache-2.0 */
#include "init/label.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/banned.h"

enum {
    LIST_MAX = 64 << 10, /* the kernel's own limits of names, and of a name */
    NAME_MAX_ = 255,
    VALUE_MAX = 4096,
    PAIRS_MAX = 128,
    TOTAL_MAX = 8192, /* of one file: twice what clients may set */
    PREFIX_LEN = sizeof SG_LABEL_PREFIX - 1,
};

static bool has_none(int sys)
{
    return sys == ENOTSUP || sys == ENOSYS;
}

static bool is_label(const char *name)
{
    return strncmp(name, SG_LABEL_PREFIX, PREFIX_LEN) == 0 && name[PREFIX_LEN];
}

/* The names, each with its end; `n` as listxattr(2) gave it. -1: it cannot be read. */
static int take_names(struct sg_buf *names, ssize_t n)
{
    if (n < 0)
        return has_none(errno) ? 0 : -1;
    names->n = (size_t)n;
    return 0;
}

static const char *next_name(const struct sg_buf *names, size_t *at)
{
    while (*at < names->n) {
        const char *name = (const char *)names->p + *at;
        *at += strnlen(name, names->n - *at) + 1;
        if (*at <= names->n && is_label(name))
            return name;
    }
    return NULL;
}

bool sg_labels_any(const char *path)
{
    sg_auto_buf names;
    size_t at = 0;
    sg_buf_init(&names, LIST_MAX);
    if (llistxattr(path, NULL, 0) <= 0) /* nearly always */
        return false;
    char *room = (char *)sg_buf_grow(&names, LIST_MAX);
    return room && take_names(&names, llistxattr(path, room, LIST_MAX)) == 0 &&
           next_name(&names, &at);
}

/* ---- reading ---- */

struct pairs {
    char *v[2 * PAIRS_MAX + 1]; /* owned */
    size_t n, bytes;
};

static void free_pairs(struct pairs *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->v[i]);
}

static void add_pair(struct pairs *p, const char *path, const char *name)
{
    char value[VALUE_MAX];
    const ssize_t n = getxattr(path, name, value, sizeof value);
    const size_t more = strlen(name) + (n > 0 ? (size_t)n : 0);
    if (n < 0 || p->n == 2 * (size_t)PAIRS_MAX || p->bytes + more > TOTAL_MAX ||
        memchr(value, 0, (size_t)n) || !sg_utf8_valid(value, (size_t)n) ||
        !sg_utf8_valid(name, strlen(name)))
        return;
    p->bytes += more;
    p->v[p->n++] = sg_strdup(name + PREFIX_LEN);
    p->v[p->n++] = sg_printf("%.*s", (int)n, value);
}

int sg_labels_read(const char *path, struct sg_buf *store, struct sg_texts *ret, struct sg_err *err)
{
    sg_auto_buf names;
    struct pairs pairs = { .n = 0 };
    size_t at = 0;
    sg_buf_init(&names, LIST_MAX);
    if (listxattr(path, NULL, 0) <= 0) /* nearly always; what cannot be read has none to show */
        return 0;
    char *room = (char *)sg_buf_grow(&names, LIST_MAX);
    if (!room)
        return sg_fail(err, SG_EXHAUSTED, "no memory for the labels of a file");
    if (take_names(&names, listxattr(path, room, LIST_MAX)) < 0)
        return 0;
    for (const char *name; (name = next_name(&names, &at));)
        add_pair(&pairs, path, name);
    const int r = sg_texts_pack(pairs.v, store, ret, err);
    free_pairs(&pairs);
    return r;
}

/* ---- writing ---- */

static int remove_all(int fd, struct sg_err *err)
{
    sg_auto_buf names;
    size_t at = 0;
    sg_buf_init(&names, LIST_MAX);
    if (flistxattr(fd, NULL, 0) <= 0)
        return 0;
    char *room = (char *)sg_buf_grow(&names, LIST_MAX);
    if (!room || take_names(&names, flistxattr(fd, room, LIST_MAX)) < 0)
        return sg_fail_sys(err, "read the labels of the file");
    for (const char *name; (name = next_name(&names, &at));)
        if (fremovexattr(fd, name) < 0 && errno != ENODATA)
            return sg_fail_sys(err, "remove a label of the file");
    return 0;
}

int sg_labels_replace(int fd, struct sg_texts pairs, struct sg_err *err)
{
    struct sg_text name, value;
    if (remove_all(fd, err) < 0)
        return -1;
    while (sg_text_next(&pairs, &name) && sg_text_next(&pairs, &value)) {
        char whole[NAME_MAX_ + 1];
        const int n = snprintf(whole, sizeof whole, "%s%s", SG_LABEL_PREFIX, name.p);
        if (!name.n || n > NAME_MAX_ || value.n > VALUE_MAX)
            return sg_fail(err, SG_INVALID, "the label %s is too long", sg_quote(name.p).s);
        if (fsetxattr(fd, whole, value.p, value.n, 0) < 0)
            return has_none(errno) ? 0 : sg_fail_sys(err, "set a label of the file");
    }
    return 0;
}
