/* SPDX-License-Identifier: Apache-2.0 */
/* A tree from one sandbox to another: one init packs, the other unpacks, the bytes go through a
 * pipe between them and never through us. It is unpacked beside its place and moved there when it
 * is whole. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/files_internal.h"
#include "base/banned.h"

struct copy {
    struct sg_manager *manager;
    struct sg_id to; /* by its name: it may go while the other side still packs */
    char *name;      /* of the tree in the archive */
    char *temporary; /* directory, beside the place */
    char *place;
    unsigned open; /* answers to come */
    struct sg_err err;
    sg_files_done_cb *cb;
    void *arg;
};

static struct sg_sandbox *target(const struct copy *c)
{
    return sg_map_find(&c->manager->sandboxes, c->to.s);
}

static void end_copy(struct copy *c)
{
    struct sg_sandbox *to = target(c);
    const struct sg_err err = c->err;
    sg_files_done_cb *cb = c->cb;
    void *arg = c->arg;
    if (to)
        sg_files_tidy(to, "", c->temporary);
    free(c->name);
    free(c->temporary);
    free(c->place);
    free(c);
    cb(arg, err.kind == SG_OK ? NULL : &err);
}

/* One side that fails ends the pipe, and the other fails of that: the first one has the reason. */
static void note(struct copy *c, const struct sg_packet *p, const struct sg_err *err)
{
    if (!p && c->err.kind == SG_OK)
        c->err = *err;
}

static void moved(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    note(arg, p, err);
    end_copy(arg);
}

static void transferred(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct copy *c = arg;
    note(c, p, err);
    if (--c->open)
        return;
    struct sg_sandbox *to = target(c);
    if (to && c->err.kind == SG_OK) {
        sg_auto_free char *from = sg_printf("%s/%s", c->temporary, c->name);
        struct sg_msg m = { .type = SG_MSG_MOVE,
                            .move = { sg_text_of(""), sg_text_of(from), sg_text_of(c->place), 0 } };
        if (sg_files_send(to, &m, NULL, 0, moved, c, &c->err) == 0)
            return;
    }
    end_copy(c);
}

/* The last component, which the archive's names begin with; NULL: it has none of its own. */
static char *last_name(const char *path)
{
    size_t n = strlen(path);
    while (n && path[n - 1] == '/')
        n--;
    size_t start = n;
    while (start && path[start - 1] != '/')
        start--;
    struct sg_str name = { path + start, n - start };
    if (!name.n || sg_str_is(name, ".") || sg_str_is(name, ".."))
        return NULL;
    return sg_printf("%.*s", (int)name.n, name.p);
}

static int start(struct copy *c, struct sg_sandbox *from, const char *path, struct sg_sandbox *to,
                 struct sg_err *err)
{
    int ends[2];
    struct sg_msg out = { .type = SG_MSG_TAR_OUT, .tar = { sg_text_of(""), sg_text_of(path), 0 } };
    struct sg_msg in = { .type = SG_MSG_TAR_IN,
                         .tar = { sg_text_of(""), sg_text_of(c->temporary), 0 } };
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd reading = ends[0], writing = ends[1];
    if (sg_files_send(from, &out, &writing, 1, transferred, c, err) < 0)
        return -1;
    c->open = 1;
    if (sg_files_send(to, &in, &reading, 1, transferred, c, &c->err) == 0)
        c->open = 2;
    return 0; /* the one that was asked answers */
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
    char *name = last_name(path);
    if (!name)
        return sg_fail(err, SG_INVALID, "%s cannot be copied: name what is in it",
                       sg_quote(path).s);
    struct copy *c = sg_new(struct copy);
    *c = (struct copy) { .manager = to->manager,
                         .to = to->id,
                         .name = name,
                         .temporary = sg_files_beside(to_path),
                         .place = sg_strdup(to_path),
                         .cb = cb,
                         .arg = arg };
    if (start(c, from, path, to, err) == 0)
        return 0;
    free(c->name);
    free(c->temporary);
    free(c->place);
    free(c);
    return -1;
}
