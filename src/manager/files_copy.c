/* SPDX-License-Identifier: Apache-2.0 */
/* A file or tree from one sandbox to another: one init packs, the other unpacks, the bytes go
 * through a pipe between them and never through us. It is unpacked into a directory beside its
 * place and moved there when it is whole.
 *
 * An archive of a directory holds what is in it, one of a file has the file's name: which of the
 * two it is must be known, so the source is looked at first. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/files_internal.h"
#include "base/banned.h"

struct copy {
    struct sg_manager *manager;
    struct sg_id from, to; /* by name: each may go while the other is still at work */
    char *path, *place;
    char *temporary; /* a directory beside the place */
    char *whole;     /* what is moved into the place: it, or the file in it */
    unsigned open;   /* answers to come */
    struct sg_err err, packing, unpacking;
    sg_files_done_cb *cb;
    void *arg;
};

static struct sg_sandbox *find(const struct copy *c, const struct sg_id *id)
{
    return sg_map_find(&c->manager->sandboxes, id->s);
}

static void free_copy(struct copy *c)
{
    free(c->path);
    free(c->place);
    free(c->temporary);
    free(c->whole);
    free(c);
}

static void end_copy(struct copy *c)
{
    const struct sg_err err = c->err;
    sg_files_done_cb *cb = c->cb;
    void *arg = c->arg;
    struct sg_sandbox *to = find(c, &c->to);
    if (to)
        sg_files_tidy(to, "", c->temporary);
    free_copy(c);
    cb(arg, err.kind == SG_OK ? NULL : &err);
}

static void moved(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct copy *c = arg;
    if (!p)
        c->err = sg_files_renamed(err, c->place);
    end_copy(c);
}

static int move_into_place(struct copy *c, struct sg_err *err)
{
    struct sg_sandbox *to = find(c, &c->to);
    struct sg_msg m = { .type = SG_MSG_MOVE,
                        .move = { sg_text_of(""), sg_text_of(c->whole), sg_text_of(c->place), 0 } };
    if (!to)
        return sg_fail(err, SG_UNAVAILABLE, "the sandbox has ended");
    return sg_files_send(to, &m, NULL, 0, moved, c, err);
}

/* One side that fails ends the pipe, and the other fails of that, and may tell so first. The
 * packing one has the reason, unless it is that nobody reads any more. */
static void one_side_ended(struct copy *c)
{
    if (--c->open)
        return;
    const bool is_packing = c->packing.kind != SG_OK && c->packing.sys != EPIPE;
    c->err = is_packing || c->unpacking.kind == SG_OK ? c->packing
                                                      : sg_files_renamed(&c->unpacking, c->place);
    if (c->err.kind != SG_OK || move_into_place(c, &c->err) < 0)
        end_copy(c);
}

static void packed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct copy *c = arg;
    if (!p)
        c->packing = *err;
    one_side_ended(c);
}

static void unpacked(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct copy *c = arg;
    if (!p)
        c->unpacking = *err;
    one_side_ended(c);
}

static int transfer(struct copy *c, struct sg_err *err)
{
    int ends[2];
    struct sg_sandbox *from = find(c, &c->from), *to = find(c, &c->to);
    struct sg_msg out = { .type = SG_MSG_TAR_OUT, .tar = { .path = sg_text_of(c->path) } };
    struct sg_msg in = { .type = SG_MSG_TAR_IN,
                         .tar = { .path = sg_text_of(c->temporary), .flags = SG_TAR_ANY_LINK } };
    out.tar.user = in.tar.user = sg_text_of("");
    if (!from || !to)
        return sg_fail(err, SG_UNAVAILABLE, "the sandbox has ended");
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd reading = ends[0], writing = ends[1];
    if (sg_files_send(from, &out, &writing, 1, packed, c, err) < 0)
        return -1;
    c->open = 1;
    if (sg_files_send(to, &in, &reading, 1, unpacked, c, &c->unpacking) == 0)
        c->open = 2;
    return 0; /* the one that was asked answers */
}

static void looked(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct copy *c = arg;
    if (!p)
        c->err = *err;
    if (p && p->msg.type == SG_MSG_STATED && S_ISDIR(p->msg.stated.mode)) {
        c->whole = sg_strdup(c->temporary);
    } else {
        const struct sg_str name = sg_last_part(c->path);
        c->whole = sg_printf("%s/%.*s", c->temporary, (int)name.n, name.p);
    }
    if (c->err.kind != SG_OK || transfer(c, &c->err) < 0)
        end_copy(c);
}

int sg_files_copy(struct sg_sandbox *from, const char *path, struct sg_sandbox *to,
                  const char *to_path, const struct sg_who *who, sg_files_done_cb *cb, void *arg,
                  struct sg_err *err)
{
    if (from->org != to->org)
        return sg_fail(err, SG_NOT_FOUND, "no such sandbox: %s", sg_quote(to->id.s).s);
    if (sg_files_permit(from, who, SG_SCOPE_READ, NULL, path, NULL, err) < 0 ||
        sg_files_permit(to, who, SG_SCOPE_EXEC, "file.copy", path, to_path, err) < 0)
        return -1;
    struct copy *c = sg_new(struct copy);
    *c = (struct copy) { .manager = to->manager,
                         .from = from->id,
                         .to = to->id,
                         .path = sg_strdup(path),
                         .place = sg_strdup(to_path),
                         .temporary = sg_files_beside(to_path),
                         .cb = cb,
                         .arg = arg };
    struct sg_msg look = { .type = SG_MSG_STAT, .stat = { sg_text_of(""), sg_text_of(path), 0 } };
    if (sg_files_send(from, &look, NULL, 0, looked, c, err) == 0)
        return 0;
    free_copy(c);
    return -1;
}
