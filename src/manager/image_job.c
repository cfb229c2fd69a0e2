/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/image_job.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/jsonr.h"
#include "manager/life.h"
#include "tier/tier.h"
#include "base/banned.h"

enum { LINE_MAX_BYTES = 16 << 10, READ_BYTES = 4096 };

struct sg_image_job {
    struct sg_manager *m;
    struct sg_org *org;
    int lease_fd; /* its end ends the work */
    struct sg_io says;
    struct sg_buf line;
    const struct sg_image_ops *ops;
    void *arg;
    unsigned holds; /* us, and the launcher's answer */
    bool is_over;
};

static void unhold(struct sg_image_job *j)
{
    if (--j->holds)
        return;
    sg_buf_done(&j->line);
    free(j);
}

void sg_image_end(struct sg_image_job *j)
{
    if (!j || j->is_over)
        return;
    j->is_over = true;
    j->org->image_jobs--;
    sg_io_drop(j->m->loop, &j->says);
    sg_drop_fd(&j->lease_fd);
    unhold(j);
}

/* The caller holds it. */
static void finish(struct sg_image_job *j, const struct sg_err *err)
{
    if (j->is_over)
        return;
    sg_image_end(j);
    j->ops->over(j->arg, err);
}

/* ---- what it says ---- */

static void take_error(struct sg_image_job *j, const struct sg_jval *v)
{
    struct sg_err err = { 0 };
    const struct sg_jval *kind = sg_json_get(v, "kind"), *text = sg_json_get(v, "message");
    const bool is_known =
        kind && kind->kind == SG_J_UINT && kind->u > SG_OK && kind->u < SG_KIND_COUNT;
    (void)sg_fail(&err, is_known ? (enum sg_kind)kind->u : SG_INTERNAL, "%s",
                  text && text->kind == SG_J_STRING ? text->s.p : "no reason given");
    finish(j, &err);
}

static void take_line(struct sg_image_job *j, struct sg_str text)
{
    struct sg_err err = { 0 };
    const struct sg_jval *v, *error;
    sg_auto_arena a;
    sg_arena_init(&a, (size_t)8 * LINE_MAX_BYTES);
    if (sg_json_parse(text, &a, &v, &err) < 0) {
        (void)sg_wrap(&err, "what is said of a template");
        finish(j, &err);
    } else if ((error = sg_json_get(v, "error"))) {
        take_error(j, error);
    } else {
        j->ops->said(j->arg, v);
    }
}

static void take(struct sg_image_job *j, const char *p, size_t n)
{
    for (const char *end; n && !j->is_over && (end = memchr(p, '\n', n));) {
        const size_t some = (size_t)(end - p);
        sg_buf_add(&j->line, p, some);
        p += some + 1;
        n -= some + 1;
        struct sg_err err = { 0 };
        if (sg_buf_check(&j->line, "line", &err) < 0)
            finish(j, &err);
        else
            take_line(j, (struct sg_str) { (const char *)j->line.p, j->line.n });
        if (!j->is_over)
            sg_buf_clear(&j->line);
    }
    if (!j->is_over)
        sg_buf_add(&j->line, p, n);
}

static void readable(struct sg_io *io, uint32_t events)
{
    struct sg_image_job *j = SG_OWNER(io, struct sg_image_job, says);
    char some[READ_BYTES];
    (void)events;
    const ssize_t n = read(io->fd, some, sizeof some);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    j->holds++;
    if (n <= 0)
        finish(j, NULL);
    else
        take(j, some, (size_t)n);
    unhold(j);
}

static void started(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_image_job *j = arg;
    (void)p;
    if (err)
        finish(j, err);
    unhold(j);
}

/* ---- being ---- */

static int make_pipe(int *ret_near, int *ret_far, bool is_ours_read, struct sg_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    *ret_near = ends[is_ours_read ? 0 : 1];
    *ret_far = ends[is_ours_read ? 1 : 0];
    if (fcntl(*ret_near, F_SETFL, O_NONBLOCK) < 0)
        return sg_fail_sys(err, "prepare a pipe");
    return 0;
}

struct ends {
    int near[SG_L_IMAGE_FD_COUNT], far[SG_L_IMAGE_FD_COUNT];
};

static void ends_done(struct ends *e)
{
    for (int i = 0; i < SG_L_IMAGE_FD_COUNT; i++) {
        sg_drop_fd(&e->near[i]);
        sg_drop_fd(&e->far[i]);
    }
}

/* A pipe takes the whole of it: it is empty, and larger. */
static int ask(struct ends *e, const struct sg_buf *request, enum sg_image_data data,
               struct sg_err *err)
{
    if (make_pipe(&e->near[SG_L_IMAGE_ASKED], &e->far[SG_L_IMAGE_ASKED], false, err) < 0 ||
        make_pipe(&e->near[SG_L_IMAGE_SAYS], &e->far[SG_L_IMAGE_SAYS], true, err) < 0 ||
        make_pipe(&e->near[SG_L_IMAGE_DATA], &e->far[SG_L_IMAGE_DATA], data == SG_IMAGE_GIVES,
                  err) < 0 ||
        sg_buf_check(request, "request", err) < 0)
        return -1;
    if (write(e->near[SG_L_IMAGE_ASKED], request->p, request->n) != (ssize_t)request->n)
        return sg_fail_sys(err, "ask for work on a template");
    return 0;
}

struct sg_image_job *sg_image_begin(struct sg_manager *m, struct sg_org *org,
                                    const struct sg_buf *request, enum sg_image_data data,
                                    int *ret_fd, const struct sg_image_ops *ops, void *arg,
                                    struct sg_err *err)
{
    __attribute__((cleanup(ends_done))) struct ends e = { { -1, -1, -1 }, { -1, -1, -1 } };
    if (org->image_jobs >= SG_IMAGE_JOBS_MAX) {
        (void)sg_fail(err, SG_EXHAUSTED,
                      "the organisation has %d images in work already: wait for one",
                      SG_IMAGE_JOBS_MAX);
        return NULL;
    }
    if (ask(&e, request, data, err) < 0)
        return NULL;
    struct sg_image_job *j = sg_new(struct sg_image_job);
    *j = (struct sg_image_job) { .m = m, .org = org, .ops = ops, .arg = arg, .holds = 1 };
    j->lease_fd = sg_take_fd(&e.near[SG_L_IMAGE_ASKED]);
    j->says = (struct sg_io) { .fd = sg_take_fd(&e.near[SG_L_IMAGE_SAYS]), .ready = readable };
    sg_buf_init(&j->line, LINE_MAX_BYTES);
    org->image_jobs++;
    if (sg_io_want(m->loop, &j->says, EPOLLIN, err) < 0) {
        sg_image_end(j);
        return NULL;
    }
    if (data != SG_IMAGE_NO_DATA)
        *ret_fd = sg_take_fd(&e.near[SG_L_IMAGE_DATA]);
    j->holds++;
    sg_tier_image(m->tier, e.far, started, j);
    return j;
}
