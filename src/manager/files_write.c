/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads: bytes go into a pipe of ours, a process of the sandbox takes them out and writes them,
 * so that they count as the sandbox's own. Nothing that came out of a sandbox is written to.
 *
 * Init opens the file before it looks at its next request, and answers the write itself only at the
 * end. So a small question goes behind the write: once that is answered, the file is open. */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "loop/loop.h"
#include "manager/files_internal.h"
#include "base/banned.h"

enum { PIPE_BYTES = 256 << 10 }; /* fewer turns of the two who fill and empty it */

struct sg_file_write {
    struct sg_loop *loop;
    struct sg_io io;      /* our end of the pipe */
    unsigned answers;     /* of init, still to come; they hold the object */
    bool is_owned;        /* by the caller */
    bool is_answered;     /* the write itself, by `result` */
    struct sg_err result; /* SG_OK: it is written */
    sg_file_write_cb *opened;
    sg_files_done_cb *done;
    void *arg;
};

static void release(struct sg_file_write *w)
{
    if (w->answers || w->is_owned)
        return;
    sg_io_drop(w->loop, &w->io);
    free(w);
}

/* ---- open ---- */

static void tell_opened(struct sg_file_write *w, const struct sg_err *err)
{
    sg_file_write_cb *opened = w->opened;
    w->opened = NULL;
    w->is_owned = !err;
    if (err)
        sg_io_drop(w->loop, &w->io); /* without a seal: nothing is to be kept */
    opened(w->arg, err ? NULL : w, w->io.fd, err);
}

static void tell_done(struct sg_file_write *w)
{
    sg_files_done_cb *done = w->done;
    w->done = NULL;
    w->is_owned = false;
    done(w->arg, w->result.kind == SG_OK ? NULL : &w->result);
}

static void written(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_file_write *w = arg;
    w->is_answered = true;
    if (!p)
        w->result = *err;
    else if (!w->done) /* before it could know that all was there */
        (void)sg_fail(&w->result, SG_UNAVAILABLE, "init did not wait for the end of the upload");
    if (w->opened)
        tell_opened(w, &w->result);
    else if (w->done)
        tell_done(w);
    w->answers--;
    release(w);
}

static void has_begun(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_file_write *w = arg;
    if (w->opened)
        tell_opened(w, p ? NULL : err);
    w->answers--;
    release(w);
}

/* ---- the request ---- */

static int ask(struct sg_file_write *w, struct sg_sandbox *s, const struct sg_file_spec *f,
               int far_fd, struct sg_err *err)
{
    const struct sg_text user = sg_text_of(f->user ? f->user : "");
    struct sg_msg m = { .type = SG_MSG_WRITE,
                        .write = { .user = user,
                                   .path = sg_text_of(f->path),
                                   .flags = f->flags | (f->labels ? SG_WRITE_LABELS : 0),
                                   .mode = f->mode } };
    sg_auto_buf labels;
    sg_buf_init(&labels, SG_CTL_MAX_BYTES);
    if (f->labels && sg_texts_pack(f->labels, &labels, &m.write.labels, err) < 0)
        return -1;
    struct sg_msg behind = { .type = SG_MSG_STAT, .stat = { user, sg_text_of("/"), 0 } };
    if (sg_files_send(s, &m, &far_fd, 1, written, w, err) < 0)
        return -1;
    w->answers++;
    if (sg_files_send(s, &behind, NULL, 0, has_begun, w, err) < 0)
        return -1;
    w->answers++;
    return 0;
}

int sg_files_write(struct sg_sandbox *s, const struct sg_who *who, const struct sg_file_spec *f,
                   sg_file_write_cb *cb, void *arg, struct sg_err *err)
{
    int ends[2];
    if (sg_files_permit(s, who, SG_SCOPE_EXEC, "file.write", f->path, NULL, err) < 0)
        return -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd far_fd = ends[0];
    (void)fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES); /* else as large as they come */
    struct sg_file_write *w = sg_new(struct sg_file_write);
    *w = (struct sg_file_write) { .loop = s->manager->loop, .io.fd = ends[1], .arg = arg };
    int result = fcntl(ends[1], F_SETFL, O_NONBLOCK) < 0 ? sg_fail_sys(err, "prepare a pipe")
                                                         : ask(w, s, f, far_fd, err);
    if (result == 0) {
        w->opened = cb;
        return 0;
    }
    sg_io_drop(w->loop, &w->io);
    release(w);
    return -1;
}

/* ---- the end ---- */

/* Where nobody reads any more, or the pipe cannot be waited for, the answer tells. */
static void seal(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct sg_file_write *w = SG_OWNER(io, struct sg_file_write, io);
    const uint8_t byte = SG_WRITE_SEAL;
    ssize_t n;
    do
        n = write(io->fd, &byte, 1);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN && sg_io_want(w->loop, io, EPOLLOUT, NULL) == 0)
        return;
    sg_io_drop(w->loop, io);
}

void sg_files_commit(struct sg_file_write *w, sg_files_done_cb *cb, void *arg)
{
    w->done = cb;
    w->arg = arg;
    w->io.ready = seal;
    if (!w->is_answered) {
        seal(&w->io, 0);
        return;
    }
    tell_done(w);
    release(w);
}

void sg_files_abandon(struct sg_file_write *w)
{
    sg_io_drop(w->loop, &w->io);
    w->done = NULL;
    w->is_owned = false;
    release(w);
}
