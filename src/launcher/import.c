/* SPDX-License-Identifier: Apache-2.0 */
/* An import, in steps:
 *
 *     tar      a process of its own packs the template into a pipe; it may read, and nothing else
 *     import   the keeper sends what comes out of the pipe to the Engine: an image without a name
 *     tag      tar has ended well: the image gets its name
 *     told     whoever waits goes on, or is told why not */
#include "launcher/import.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "launcher/launcher.h"
#include "base/banned.h"

#define MS         UINT64_C(1000000)
#define REPOSITORY "sandglass-template" /* as of keeper/docker.h */

static const uint64_t RETRY_NS = 2000 * MS;

struct sg_import {
    struct sg_launcher *launcher;
    struct sg_tmpl *tmpl; /* a reference */
    char *image;          /* owned */
    char id[80];          /* the Engine's; "": not yet */
    struct sg_io gone;    /* pidfd of tar; -1: it has ended */
    pid_t pid;
    bool is_asked; /* the keeper is at it */
    struct sg_err err;
    struct sg_import *next;
};

struct sg_known_image {
    char *image; /* owned: a name, or the id of one that has none */
    uint64_t retry_ns;
    bool is_asked;
    struct sg_known_image *next;
};

/* ---- names ---- */

char *sg_import_name(const struct sg_launcher *l, const char *template, struct sg_err *err)
{
    uint64_t stamp;
    char identity[SG_TMPL_NAME_MAX + 1] = "";
    if (sg_tmpl_identify(l, template, &stamp, identity, err) < 0)
        return NULL;
    stamp = sg_hash_add_u64(SG_HASH_START, stamp);
    stamp = sg_hash_add(stamp, identity, strlen(identity) + 1);
    stamp = sg_hash_add(stamp, l->set.run_dir, strlen(l->set.run_dir));
    return sg_printf(REPOSITORY ":%s-%016" PRIx64, template, stamp);
}

/* Does it still show what its template is? */
static bool is_current(const struct sg_launcher *l, const char *image)
{
    const char *tag = strchr(image, ':'), *dash = strrchr(image, '-');
    if (!sg_starts_with(image, REPOSITORY ":") || !dash || dash <= tag + 1)
        return false;
    sg_auto_free char *template = sg_printf("%.*s", (int)(dash - tag - 1), tag + 1);
    struct sg_err ignored;
    sg_auto_free char *now = sg_template_check_name(template, &ignored) < 0
                                 ? NULL
                                 : sg_import_name(l, template, &ignored);
    return now && strcmp(now, image) == 0;
}

static void know(struct sg_launcher *l, const char *image)
{
    for (const struct sg_known_image *k = l->imports.known; k; k = k->next)
        if (strcmp(k->image, image) == 0)
            return;
    struct sg_known_image *k = sg_new(struct sg_known_image);
    *k = (struct sg_known_image) { .image = sg_strdup(image), .next = l->imports.known };
    l->imports.known = k;
}

static void forget_known(struct sg_launcher *l, struct sg_known_image *gone)
{
    struct sg_known_image **at = &l->imports.known;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    free(gone->image);
    free(gone);
}

/* ---- tar ---- */

/* What is left: to read whatever there is. */
static void drop_rights(void)
{
    for (unsigned long cap = 0; cap < 64; cap++)
        if (cap != CAP_DAC_READ_SEARCH)
            (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static _Noreturn void be_tar(const char *dir, int to_fd)
{
    char name[] = "tar", owner[] = "--numeric-owner", in[] = "-C", create[] = "-cf", out[] = "-",
         all[] = ".";
    char *argv[] = { name, owner, in, (char *)(uintptr_t)dir, create, out, all, NULL };
    char path[] = "PATH=/usr/bin:/bin", locale[] = "LC_ALL=C";
    char *environment[] = { path, locale, NULL };
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    const struct sigaction plain = { .sa_handler = SIG_DFL };
    (void)sigaction(SIGPIPE, &plain, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    drop_rights();
    if (dup2(null, STDIN_FILENO) >= 0 && dup2(to_fd, STDOUT_FILENO) >= 0 &&
        dup2(null, STDERR_FILENO) >= 0 && syscall(SYS_close_range, 3, ~0u, 0) == 0) {
        (void)execve("/usr/bin/tar", argv, environment);
        (void)execve("/bin/tar", argv, environment);
    }
    _exit(127);
}

/* The end of the pipe out of which it comes, or -1. */
static int start_tar(struct sg_import *i, struct sg_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd near = ends[0];
    sg_auto_fd far = ends[1];
    i->pid = fork();
    if (i->pid == 0)
        be_tar(i->tmpl->t.layer, far);
    if (i->pid < 0)
        return sg_fail_sys(err, "start tar");
    i->gone.fd = (int)syscall(SYS_pidfd_open, i->pid, 0);
    if (i->gone.fd < 0 || sg_io_want(i->launcher->loop, &i->gone, EPOLLIN, err) < 0)
        return sg_fail_sys(err, "watch tar");
    return sg_take_fd(&near);
}

static void end_tar(struct sg_import *i)
{
    if (i->gone.fd >= 0)
        sg_io_drop(i->launcher->loop, &i->gone);
    if (i->pid <= 0)
        return;
    (void)kill(i->pid, SIGKILL); /* not yet waited for: its number is its own */
    while (waitpid(i->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    i->pid = 0;
}

/* ---- one import ---- */

static void free_import(struct sg_import *i)
{
    struct sg_import **at = &i->launcher->imports.running;
    while (*at != i)
        at = &(*at)->next;
    *at = i->next;
    sg_keeper_forget(i->launcher, i);
    end_tar(i);
    sg_tmpl_unref(i->tmpl);
    free(i->image);
    free(i);
}

static void finish(struct sg_import *i)
{
    struct sg_launcher *l = i->launcher;
    sg_auto_free char *image = sg_take_ptr(&i->image);
    struct sg_err err = i->err;
    if (err.kind) {
        (void)sg_wrap(&err, "import template %s", sg_quote(i->tmpl->t.name).s);
        if (i->id[0])
            know(l, i->id); /* it has no name: it goes at the next look */
    } else {
        know(l, image);
        sg_log(SG_LOG_INFO, "a template is an image of the Engine now", SG_KV("image", image));
    }
    free_import(i);
    sg_container_imported(l, image, err.kind ? &err : NULL);
}

static void on_tagged(void *arg, const struct sg_msg *m, const struct sg_err *err)
{
    struct sg_import *i = arg;
    (void)m;
    if (err)
        i->err = *err;
    finish(i);
}

/* Both are done: whoever sent it, and whoever packed it. */
static void go_on(struct sg_import *i)
{
    struct sg_msg m = { .type = SG_MSG_K_TAG };
    if (i->is_asked || i->pid)
        return;
    if (i->err.kind) {
        finish(i);
        return;
    }
    m.k_image = (struct sg_msg_k_image) { sg_text_of(i->image), sg_text_of(i->id) };
    sg_keeper_ask(i->launcher, &m, on_tagged, i);
}

static void on_imported(void *arg, const struct sg_msg *m, const struct sg_err *err)
{
    struct sg_import *i = arg;
    i->is_asked = false;
    if (err) {
        i->err = *err;
        end_tar(i); /* nobody reads any more */
    } else {
        (void)snprintf(i->id, sizeof i->id, "%s", m->k_made.image.p);
    }
    go_on(i);
}

static void on_packed(struct sg_io *io, uint32_t events)
{
    struct sg_import *i = SG_OWNER(io, struct sg_import, gone);
    int status = 0;
    (void)events;
    while (waitpid(i->pid, &status, 0) < 0 && errno == EINTR)
        ;
    i->pid = 0;
    sg_io_drop(i->launcher->loop, io);
    if (status != 0 && !i->err.kind)
        sg_fail(&i->err, SG_INTERNAL, "tar ended with status %d",
                WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    go_on(i);
}

/* What the template says of its environment, the image does. */
static void ask_import(struct sg_import *i, int fd)
{
    const struct sg_template *t = &i->tmpl->t;
    char *env[SG_TEMPLATE_MAX_ENV + 2];
    size_t n = 0;
    sg_auto_buf store;
    sg_auto_free char *path = t->path ? sg_printf("PATH=%s", t->path) : NULL;
    struct sg_msg m = { .type = SG_MSG_K_IMPORT };
    sg_buf_init(&store, SG_CTL_MAX_BYTES / 2);
    if (path)
        env[n++] = path;
    for (size_t k = 0; k < t->env_count; k++)
        env[n++] = t->env[k];
    env[n] = NULL;
    if (sg_texts_pack(env, &store, &m.k_import.env, &i->err) < 0)
        m.k_import.env = (struct sg_texts) { 0 }; /* too much to be said */
    i->err.kind = SG_OK;
    i->is_asked = true;
    sg_keeper_ask_with(i->launcher, &m, fd, on_imported, i);
}

void sg_import_want(struct sg_launcher *l, struct sg_tmpl *t, const char *image)
{
    for (const struct sg_import *i = l->imports.running; i; i = i->next)
        if (strcmp(i->image, image) == 0) /* G1 */
            return;
    struct sg_import *i = sg_new(struct sg_import);
    *i = (struct sg_import) { .launcher = l,
                              .tmpl = sg_tmpl_ref(t),
                              .image = sg_strdup(image),
                              .gone = { .fd = -1, .ready = on_packed },
                              .next = l->imports.running };
    l->imports.running = i;
    sg_log(SG_LOG_INFO, "a template is imported into the Engine", SG_KV("image", image));
    sg_auto_fd fd = start_tar(i, &i->err);
    if (fd < 0)
        finish(i);
    else
        ask_import(i, fd);
}

/* ---- what is nobody's any more ---- */

static void on_forgotten(void *arg, const struct sg_msg *m, const struct sg_err *err)
{
    struct sg_known_image *k = arg;
    (void)m;
    k->is_asked = false;
    if (!err)
        k->image[0] = '\0'; /* it is taken off the list at the next look */
}

void sg_import_look(struct sg_launcher *l, uint64_t now_ns)
{
    for (struct sg_known_image *k = l->imports.known, *next; k; k = next) {
        struct sg_msg m = { .type = SG_MSG_K_FORGET };
        next = k->next;
        if (!k->image[0]) {
            forget_known(l, k);
            continue;
        }
        if (k->is_asked || now_ns < k->retry_ns || !l->keeper.is_up || l->imports.running ||
            is_current(l, k->image))
            continue;
        k->is_asked = true;
        k->retry_ns = now_ns + RETRY_NS;
        m.k_image = (struct sg_msg_k_image) { .image = sg_text_of(k->image) };
        sg_keeper_ask(l, &m, on_forgotten, k);
    }
}

static void on_images(void *arg, const struct sg_msg *m, const struct sg_err *err)
{
    struct sg_launcher *l = arg;
    if (err) {
        sg_log(SG_LOG_WARN, "images cannot be listed", SG_KV("error", err->msg));
        return;
    }
    struct sg_texts names = m->l_listed.names;
    for (struct sg_text name; sg_text_next(&names, &name);)
        know(l, name.p);
}

void sg_import_engine_is_up(struct sg_launcher *l)
{
    struct sg_msg m = { .type = SG_MSG_K_IMAGES };
    sg_keeper_ask(l, &m, on_images, l);
}

void sg_import_done(struct sg_launcher *l)
{
    while (l->imports.running)
        free_import(l->imports.running);
    while (l->imports.known) {
        sg_keeper_forget(l, l->imports.known);
        forget_known(l, l->imports.known);
    }
}
