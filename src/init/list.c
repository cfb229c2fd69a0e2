/* SPDX-License-Identifier: Apache-2.0 */
/* LIST: one page of a directory. The cursor is the kernel's own position of the next entry, so a
 * page costs the same wherever it starts and init keeps nothing between pages. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "ctl/entry.h"
#include "init/dir.h"
#include "init/init.h"
#include "init/label.h"
#include "init/path.h"
#include "base/banned.h"

enum {
    PAGE_BYTES = 64 * 1024, /* of entries: about 1,400, a few milliseconds of work */
    ENTRY_MAX_BYTES = 512,  /* more than one can take */
};

static bool is_labelled(int dir, const char *name)
{
    char path[SG_PATH_LINK_BYTES + 1 + SG_PATH_NAME_MAX + 1];
    sg_path_of_fd(dir, path);
    size_t n = strlen(path);
    (void)snprintf(path + n, sizeof path - n, "/%s", name);
    return sg_labels_any(path);
}

/* False where the entry is gone meanwhile. */
static bool describe(int dir, const char *name, uint8_t type, struct sg_entry *ret)
{
    struct stat st;
    *ret = (struct sg_entry) { .name = sg_text_of(name) };
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        ret->mode = (uint32_t)type << 12; /* DT_ values are those bits; one may read, not search */
        return errno != ENOENT;
    }
    ret->mode = st.st_mode;
    ret->uid = st.st_uid;
    ret->gid = st.st_gid;
    ret->bytes = (uint64_t)st.st_size;
    if ((S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) && is_labelled(dir, name))
        ret->flags = SG_ENTRY_LABELLED;
    ret->mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    return true;
}

/* Adds entries until the page or the directory ends; `*ret_next` is 0 in the latter case. */
static int fill_page(int fd, struct sg_buf *page, uint64_t *ret_next)
{
    struct sg_dir dir;
    sg_dir_init(&dir, fd);
    for (const struct sg_dirent *d; (d = sg_dir_next(&dir));) {
        struct sg_entry e;
        if (describe(fd, d->name, d->type, &e))
            sg_entry_put(page, &e);
        if (page->n > PAGE_BYTES - ENTRY_MAX_BYTES) {
            *ret_next = (uint64_t)d->next;
            return 0;
        }
    }
    *ret_next = 0;
    return errno ? -1 : 0;
}

int sg_handle_list(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    (void)in;
    const struct sg_msg_list *m = &c->m->list;
    sg_auto_fd dir = sg_path_open(m->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0, err);
    if (dir < 0)
        return -1;
    if (m->cursor > INT64_MAX || (m->cursor && lseek(dir, (off_t)m->cursor, SEEK_SET) < 0))
        return sg_fail(err, SG_INVALID, "cursor is not one of %s", sg_quote(m->path.p).s);
    uint64_t next = 0;
    if (fill_page(dir, &c->store, &next) < 0)
        return sg_fail_sys(err, "list %s", sg_quote(m->path.p).s);
    if (sg_buf_check(&c->store, "directory page", err) < 0)
        return -1;
    c->reply.type = SG_MSG_LISTED;
    c->reply.listed = (struct sg_msg_listed) { next, { c->store.p, c->store.n } };
    return 0;
}
