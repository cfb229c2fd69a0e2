/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a file as a whole: under a temporary name beside it, then moved into its place. Whoever
 * reads it meanwhile sees the old one or the new one. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/files_internal.h"
#include "base/banned.h"

struct sg_file_write {
    struct sg_file_write *next, **link; /* in the sandbox's list */
    struct sg_sandbox *s;               /* NULL: it has ended */
    char *user, *path, *temporary;
    uint32_t mode;
    int fd;
    sg_file_write_cb *opened;
    sg_files_done_cb *done;
    void *arg;
};

static void unlink_write(struct sg_file_write *w)
{
    if (!w->s)
        return;
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    w->s = NULL;
}

static void free_write(struct sg_file_write *w)
{
    unlink_write(w);
    sg_drop_fd(&w->fd);
    free(w->user);
    free(w->path);
    free(w->temporary);
    free(w);
}

void sg_file_writes_lose(struct sg_sandbox *s)
{
    struct sg_files_set *set = sg_files_set(s);
    while (set->writes)
        unlink_write(set->writes);
}

/* ---- open ---- */

static void fail_open(struct sg_file_write *w, const struct sg_err *err)
{
    sg_file_write_cb *opened = w->opened;
    void *arg = w->arg;
    free_write(w);
    opened(arg, NULL, -1, err);
}

static void opened(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_file_write *w = arg;
    struct stat st;
    struct sg_err own;
    if (!p) {
        own = sg_files_renamed(err, w->path);
        fail_open(w, &own);
        return;
    }
    w->fd = sg_packet_take_fd(p, 0);
    if (fstat(w->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)sg_fail(&own, SG_UNAVAILABLE, "init sent something else than was asked for");
        fail_open(w, &own);
        return;
    }
    w->opened(w->arg, w, w->fd, NULL);
}

static int open_temporary(struct sg_file_write *w, struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_OPEN,
                        .open = { sg_text_of(w->user), sg_text_of(w->temporary),
                                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, w->mode } };
    if (!w->s)
        return sg_fail(err, SG_UNAVAILABLE, "the sandbox has ended");
    return sg_files_send(w->s, &m, NULL, 0, opened, w, err);
}

/* What is replaced lends its mode. */
static void looked(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_file_write *w = arg;
    struct sg_err own;
    if (!p && err->kind != SG_NOT_FOUND) {
        fail_open(w, err);
        return;
    }
    const uint32_t mode = p && p->msg.type == SG_MSG_STATED ? p->msg.stated.mode : S_IFREG | 0644;
    w->mode = mode & 0777;
    if (S_ISDIR(mode)) {
        (void)sg_fail(&own, SG_CONFLICT, "%s is a directory", sg_quote(w->path).s);
        fail_open(w, &own);
    } else if (open_temporary(w, &own) < 0) {
        fail_open(w, &own);
    }
}

int sg_files_write(struct sg_sandbox *s, const struct sg_who *who, const char *user,
                   const char *path, uint32_t mode, sg_file_write_cb *cb, void *arg,
                   struct sg_err *err)
{
    if (sg_files_permit(s, who, SG_SCOPE_EXEC, "file.write", path, NULL, err) < 0)
        return -1;
    struct sg_files_set *set = sg_files_set(s);
    struct sg_file_write *w = sg_new(struct sg_file_write);
    *w = (struct sg_file_write) { .next = set->writes,
                                  .link = &set->writes,
                                  .s = s,
                                  .user = sg_strdup(user ? user : ""),
                                  .path = sg_strdup(path),
                                  .temporary = sg_files_beside(path),
                                  .mode = mode,
                                  .fd = -1,
                                  .opened = cb,
                                  .arg = arg };
    if (w->next)
        w->next->link = &w->next;
    set->writes = w;
    struct sg_msg look = { .type = SG_MSG_STAT,
                           .stat = { sg_text_of(w->user), sg_text_of(path), 0 } };
    int result = mode == SG_FILE_MODE_KEPT ? sg_files_send(s, &look, NULL, 0, looked, w, err)
                                           : open_temporary(w, err);
    if (result < 0)
        free_write(w);
    return result;
}

/* ---- the end ---- */

static void moved(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_file_write *w = arg;
    sg_files_done_cb *done = w->done;
    void *done_arg = w->arg;
    struct sg_err own;
    if (!p)
        own = sg_files_renamed(err, w->path);
    if (!p && w->s)
        sg_files_tidy(w->s, w->user, w->temporary);
    free_write(w);
    done(done_arg, p ? NULL : &own);
}

void sg_files_commit(struct sg_file_write *w, sg_files_done_cb *cb, void *arg)
{
    struct sg_msg m = { .type = SG_MSG_MOVE,
                        .move = { sg_text_of(w->user), sg_text_of(w->temporary),
                                  sg_text_of(w->path), 0 } };
    struct sg_err err;
    w->done = cb;
    w->arg = arg;
    sg_drop_fd(&w->fd);
    if (!w->s)
        (void)sg_fail(&err, SG_UNAVAILABLE, "the sandbox has ended");
    else if (sg_files_send(w->s, &m, NULL, 0, moved, w, &err) == 0)
        return;
    moved(w, NULL, &err);
}

void sg_files_abandon(struct sg_file_write *w)
{
    if (w->s)
        sg_files_tidy(w->s, w->user, w->temporary);
    free_write(w);
}
