/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/image.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "ctl/msg.h"
#include "image/store.h"
#include "launcher/child.h"
#include "launcher/launcher.h"
#include "base/banned.h"

static const uint64_t TIDY_NS = UINT64_C(10000000000);

struct sg_image_work {
    struct sg_launcher *launcher;
    struct sg_image_work *next, **link;
    struct sg_child child;
    const int *fds; /* borrowed while it is started */
};

static void forget(struct sg_image_work *w)
{
    struct sg_launcher *l = w->launcher;
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    l->images.count--;
    free(w->child.program);
    free(w);
}

static int start(struct sg_child *c, struct sg_err *err)
{
    const struct sg_image_work *w = SG_OWNER(c, struct sg_image_work, child);
    return sg_child_spawn(c, w->fds, SG_L_IMAGE_FD_COUNT, err);
}

/* What went wrong it has told the daemon itself. */
static bool ended(struct sg_child *c, int status)
{
    struct sg_image_work *w = SG_OWNER(c, struct sg_image_work, child);
    struct sg_launcher *l = w->launcher;
    (void)status;
    forget(w);
    sg_launcher_box_gone(l); /* it may be what an ending launcher waits for */
    return false;
}

static const struct sg_child_ops ops = { "sandglass-image", "work on a template", start, ended };

/* PREFIX/libexec/sandglass is where we are installed, or the folder beside in a build directory. */
static char *find_program(void)
{
    static const char *const places[] = { "../../bin/sandglass", "../cli/sandglass" };
    char own[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    own[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(own, '/');
    for (size_t i = 0; slash && i < SG_COUNT(places); i++) {
        char *program = sg_printf("%.*s/%s", (int)(slash - own), own, places[i]);
        if (access(program, X_OK) == 0)
            return program;
        free(program);
    }
    return NULL;
}

static int begin(struct sg_launcher *l, const int fds[SG_L_IMAGE_FD_COUNT], struct sg_err *err)
{
    char *program = find_program();
    if (!program)
        return sg_fail(err, SG_UNSUPPORTED,
                       "the program sandglass is not installed beside the launcher; run: make "
                       "install");
    struct sg_image_work *w = sg_new(struct sg_image_work);
    *w = (struct sg_image_work) {
        .launcher = l, .next = l->images.first, .fds = fds, .child.gone.fd = -1
    };
    w->link = &l->images.first;
    if (w->next)
        w->next->link = &w->next;
    l->images.first = w;
    l->images.count++;
    if (sg_child_begin(&w->child, l->loop, &ops, program, l->daemon.config, err) < 0) {
        forget(w);
        return -1;
    }
    w->fds = NULL;
    return 0;
}

int sg_serve_image(struct sg_launcher *l, const struct sg_msg *m, struct sg_err *err)
{
    if (l->set.is_rootless)
        return sg_fail(err, SG_UNSUPPORTED, "without root the service has no images");
    if (l->stopping)
        return sg_fail(err, SG_UNAVAILABLE, "the service is ending");
    if (l->conn.packet.fd_count != SG_L_IMAGE_FD_COUNT)
        return sg_fail(err, SG_INVALID, "l_image comes with %d descriptors", SG_L_IMAGE_FD_COUNT);
    if (l->images.count >= SG_IMAGE_WORKS_MAX)
        return sg_fail(err, SG_EXHAUSTED, "%d images are being worked on: try again later",
                       SG_IMAGE_WORKS_MAX);
    if (begin(l, l->conn.packet.fds, err) < 0)
        return -1;
    sg_conn_ok(l, m->id);
    return 0;
}

/* One that is asked for nothing does what each does at its end. We have no time for trees. */
void sg_image_tidy(struct sg_launcher *l)
{
    struct sg_err err = { 0 };
    const uint64_t now = sg_loop_now(l->loop);
    if (l->set.is_rootless || l->stopping || l->images.count || now < l->images.next_ns)
        return;
    sg_auto_fd store = sg_templates_open(l->set.state_dir, false, NULL);
    if (store < 0 || !sg_templates_has_spare(store))
        return;
    l->images.next_ns = now + TIDY_NS;
    sg_auto_fd nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fds[SG_L_IMAGE_FD_COUNT] = { nothing, nothing, nothing };
    if (nothing < 0 || begin(l, fds, &err) < 0)
        sg_log(SG_LOG_WARN, "templates that nobody uses stay", SG_KV("error", err.msg));
}
