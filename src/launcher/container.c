/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/container.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "engine/init_image.h"
#include "engine/seccomp_data.h"
#include "launcher/launcher.h"
#include "sys/kfile.h"
#include "sys/path.h"
#include "base/banned.h"

enum { ABOUT_MAX = 64 << 10, FIRST_USER = 1000 };

static const uint64_t READY_NS = 60000000000u;

static char *path_of(const struct sg_box *b, const char *rest)
{
    return sg_printf("%s/docker/%s%s", b->launcher->set.run_dir, b->record.container, rest);
}

/* ---- the directory beside init ---- */

static int put_init(int dir_fd, struct sg_err *err)
{
    sg_auto_fd from = sg_init_image_open(err);
    sg_auto_fd to =
        from < 0 ? -1 : openat(dir_fd, "init", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0500);
    struct stat st;
    if (to < 0 || fstat(from, &st) < 0)
        return sg_fail_sys(err, "put init beside a container");
    for (off_t at = 0; at < st.st_size;)
        if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0)
            return sg_fail_sys(err, "put init beside a container");
    return 0;
}

static int open_door(int dir_fd, struct sg_err *err)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    (void)snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/ctl", dir_fd);
    sg_auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 1) < 0)
        return sg_fail_sys(err, "make the socket that init comes to");
    return sg_take_fd(&fd);
}

static int lay_out(struct sg_box *b, struct sg_err *err)
{
    sg_auto_free char *dir = path_of(b, "");
    if (sg_mkdir_all(dir, 0700, err) < 0)
        return -1;
    sg_auto_fd fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(dir).s);
    if (put_init(fd, err) < 0)
        return -1;
    b->container.door.fd = open_door(fd, err);
    return b->container.door.fd < 0 ? -1 : 0;
}

static void close_door(struct sg_box *b)
{
    sg_auto_free char *path = path_of(b, "/ctl");
    if (b->container.door.fd < 0)
        return;
    sg_io_drop(b->launcher->loop, &b->container.door);
    (void)unlink(path);
}

static void remove_files(const char *run_dir, const char *container)
{
    static const char *const rest[] = { "/ctl", "/init", ".about" };
    for (size_t i = 0; i < SG_COUNT(rest); i++) {
        sg_auto_free char *path = sg_printf("%s/docker/%s%s", run_dir, container, rest[i]);
        (void)unlink(path);
    }
    sg_auto_free char *dir = sg_printf("%s/docker/%s", run_dir, container);
    sg_auto_free char *all = sg_printf("%s/docker", run_dir);
    (void)rmdir(dir);
    (void)rmdir(all); /* not while there are others */
}

/* ---- what an image says ---- */

static void take_text(char **to, const char *text)
{
    if (!*text)
        return;
    free(*to);
    *to = sg_strdup(text);
}

/* PATH is its own; what else there is, as far as there is room. */
static void take_variable(struct sg_template *t, const char *text)
{
    const size_t n = strcspn(text, "=");
    if (!text[n] || n == 0)
        return;
    if (sg_starts_with(text, "PATH=")) {
        take_text(&t->path, text + n + 1);
        return;
    }
    for (size_t i = 0; i < t->env_count; i++)
        if (strncmp(t->env[i], text, n + 1) == 0) {
            take_text(&t->env[i], text);
            return;
        }
    if (t->env_count < SG_TEMPLATE_MAX_ENV)
        t->env[t->env_count++] = sg_strdup(text);
}

/* Who lives there is looked up in the container's own root; its mount points are the Engine's. */
static void take_users(struct sg_box *b)
{
    char path[40];
    (void)snprintf(path, sizeof path, "/proc/%d/root", b->kept.pid);
    sg_auto_fd root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct sg_err err = { 0 };
    if (root < 0 || sg_template_read_root(&b->tmpl->t, root, &err) < 0)
        sg_log(SG_LOG_WARN, "the users of an image cannot be read",
               SG_KV("container", b->record.container), SG_KV("error", err.msg));
}

/* Nobody but init is in there yet. */
static void give_places(struct sg_box *b)
{
    static const char *const places[] = { "workspace", "home/user" };
    char path[40];
    (void)snprintf(path, sizeof path, "/proc/%d/root", b->kept.pid);
    sg_auto_fd root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; root >= 0 && i < SG_COUNT(places); i++) {
        struct statfs fs;
        sg_auto_fd fd = sg_open_beneath(root, places[i], O_PATH | O_DIRECTORY, 0, NULL);
        if (fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC)
            (void)fchownat(fd, "", FIRST_USER, FIRST_USER, AT_EMPTY_PATH);
    }
}

/* Kept as texts one after the other, each with its end. */
static void write_about(const struct sg_box *b, const struct sg_msg_k_made *m)
{
    sg_auto_buf text;
    sg_buf_init(&text, ABOUT_MAX);
    struct sg_texts env = m->env;
    for (struct sg_text t; sg_text_next(&env, &t);)
        sg_buf_add(&text, t.p, t.n + 1);
    sg_auto_free char *path = path_of(b, ".about");
    sg_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text.p, text.n) != (ssize_t)text.n)
        sg_log(SG_LOG_WARN, "what an image says cannot be kept",
               SG_KV("container", b->record.container));
}

static void take_about(struct sg_box *b, const char *text, size_t n)
{
    struct sg_template *t = &b->tmpl->t;
    const char *end = text + n;
    for (const char *p = text; p < end; p += strlen(p) + 1)
        take_variable(t, p);
}

void sg_container_adopt(struct sg_box *b)
{
    sg_auto_free char *path = path_of(b, ".about");
    sg_auto_fd fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    sg_auto_buf text;
    sg_buf_init(&text, ABOUT_MAX);
    if (fd >= 0 && sg_buf_read_fd(&text, fd, "what an image says", NULL) == 0 && text.n) {
        (void)sg_buf_cstr(&text); /* whoever wrote it last: it ends */
        take_about(b, (const char *)text.p, text.n);
    }
    take_users(b);
}

/* ---- making ---- */

static void look_whether_made(struct sg_box *b)
{
    if (b->container.is_made && b->container.is_ready)
        sg_box_made(b);
}

static void on_made(void *arg, const struct sg_msg *m, const struct sg_err *err)
{
    struct sg_box *b = arg;
    b->container.is_asked = false;
    if (b->state == SG_BOX_ENDING) { /* given up meanwhile */
        sg_box_look_again(b);
        return;
    }
    if (err && err->kind == SG_NOT_FOUND && b->container.source && !b->container.has_imported) {
        b->container.is_importing = true;
        sg_import_want(b->launcher, b->container.source, b->container.image);
        return;
    }
    if (err) {
        b->container.is_removed = true; /* nothing of it is left */
        sg_box_not_made(b, err);
        return;
    }
    write_about(b, &m->k_made);
    struct sg_texts env = m->k_made.env;
    for (struct sg_text t; sg_text_next(&env, &t);)
        take_variable(&b->tmpl->t, t.p);
    b->container.is_made = true;
    sg_tmpl_unref(sg_take_ptr(&b->container.source)); /* it stands on the image now */
    sg_timer_set(b->launcher->loop, &b->timer, sg_loop_now(b->launcher->loop) + READY_NS);
    look_whether_made(b);
}

void sg_container_ready(struct sg_box *b)
{
    take_users(b);
    give_places(b);
    b->container.is_ready = true;
    look_whether_made(b);
}

/* N2. */
static int welcome(struct sg_box *b, int fd, struct sg_err *err)
{
    struct ucred who;
    socklen_t n = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) < 0)
        return sg_fail_sys(err, "ask who came");
    if (sg_kept_of(who.pid, &b->place.ids, &b->launcher->set.defaults, &b->kept, err) < 0)
        return -1;
    b->place.ids.lock_fd = -1; /* it is the kept one's now */
    sg_auto_fd listener = sg_box_listen(b->launcher, b->record.slot, err);
    if (listener < 0)
        return -1;
    const int fds[SG_JOIN_FD_COUNT] = { listener, b->kept.ids.lock_fd };
    struct sg_msg join = { .type = SG_MSG_JOIN };
    join.join.filter = (struct sg_bytes) { (const uint8_t *)sg_seccomp_cell,
                                           sg_seccomp_cell_len * sizeof(struct sock_filter) };
    sg_chan_make_room(fd);
    return sg_chan_send(fd, &join, fds, SG_JOIN_FD_COUNT, true, err);
}

static void on_door(struct sg_io *io, uint32_t events)
{
    struct sg_box *b = SG_OWNER(io, struct sg_box, container.door);
    struct sg_err err = { 0 };
    (void)events;
    sg_auto_fd fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    close_door(b);
    if (welcome(b, fd, &err) < 0 || sg_box_watch(b, sg_take_fd(&fd), &err) < 0)
        sg_box_not_made(b, &err);
}

void sg_container_init(struct sg_box *b)
{
    b->container.door = (struct sg_io) { .fd = -1, .ready = on_door };
}

/* A name that no other has, nor had. */
static void name_it(struct sg_box *b)
{
    const struct sg_id unique = sg_id_new('d');
    (void)snprintf(b->record.container, sizeof b->record.container, "sandglass-%u.%s",
                   (unsigned)b->record.slot, unique.s + 1);
}

/* One that names nothing special gets the settings' image, where they name one. */
static const char *usual_image(const struct sg_launcher *l, const char *name)
{
    const bool is_usual = strcmp(name, "host") == 0 || strcmp(name, l->set.docker_template) == 0;
    return is_usual && *l->set.docker_image ? l->set.docker_image : NULL;
}

struct sg_tmpl *sg_container_template(const struct sg_launcher *l, const char *name)
{
    const bool may_be_stored =
        !usual_image(l, name) && sg_template_check_name(name, NULL) == 0; /* not `host` */
    struct sg_err ignored;
    struct sg_tmpl *t = may_be_stored ? sg_tmpl_open(l, name, &ignored) : NULL;
    return t ? t : sg_tmpl_of_image(name);
}

static int find_image(struct sg_box *b, struct sg_err *err)
{
    const char *usual = usual_image(b->launcher, b->tmpl->t.name);
    free(b->container.image);
    b->container.image = b->container.source
                             ? sg_import_name(b->launcher, b->container.source->t.name, err)
                             : sg_strdup(usual ? usual : b->tmpl->t.name);
    return b->container.image ? 0 : -1;
}

static void ask_make(struct sg_box *b)
{
    struct sg_launcher *l = b->launcher;
    const struct sg_limits *limits = &l->set.defaults;
    sg_auto_free char *dir = path_of(b, "");
    struct sg_msg m = { .type = SG_MSG_K_MAKE };
    m.k_make = (struct sg_msg_k_make) { .container = sg_text_of(b->record.container),
                                        .image = sg_text_of(b->container.image),
                                        .is_ours = b->container.source != NULL,
                                        .dir = sg_text_of(dir),
                                        .mem_bytes = limits->mem_bytes,
                                        .cpu_milli = limits->cpu_milli,
                                        .pids = limits->pids,
                                        .disk_bytes = sg_limits_disk_bytes(limits),
                                        .open_files = limits->open_files };
    b->container.is_asked = true;
    sg_keeper_ask(l, &m, on_made, b);
}

int sg_container_make(struct sg_box *b, struct sg_err *err)
{
    struct sg_launcher *l = b->launcher;
    name_it(b);
    if (find_image(b, err) < 0 || sg_record_write(l->cells_fd, &b->record, err) < 0 ||
        lay_out(b, err) < 0 || sg_io_want(l->loop, &b->container.door, EPOLLIN, err) < 0)
        return -1;
    ask_make(b);
    return 0;
}

void sg_container_imported(struct sg_launcher *l, const char *image, const struct sg_err *err)
{
    for (struct sg_box *b = l->boxes, *next; b; b = next) {
        next = b->all_next;
        if (!b->container.is_importing || strcmp(b->container.image, image) != 0)
            continue;
        b->container.is_importing = false;
        b->container.has_imported = true;
        if (b->state != SG_BOX_MAKING)
            continue;
        if (err)
            sg_box_not_made(b, err);
        else
            ask_make(b);
    }
}

/* ---- the end ---- */

static void on_removed(void *arg, const struct sg_msg *m, const struct sg_err *err)
{
    struct sg_box *b = arg;
    (void)m;
    if (err)
        sg_log(SG_LOG_WARN, "a container is left to the Engine for now",
               SG_KV("container", b->record.container), SG_KV("error", err->msg));
    b->container.is_asked = false;
    b->container.is_removed = true;
    sg_box_look_again(b);
}

bool sg_container_is_over(struct sg_box *b)
{
    struct sg_msg m = { .type = SG_MSG_K_REMOVE };
    close_door(b);
    if (b->container.is_asked)
        return false;
    if (!b->container.is_removed) {
        b->container.is_asked = true;
        m.k_name.container = sg_text_of(b->record.container);
        sg_keeper_ask(b->launcher, &m, on_removed, b);
        return false;
    }
    remove_files(b->launcher->set.run_dir, b->record.container);
    return true;
}

void sg_container_free(struct sg_box *b)
{
    sg_tmpl_unref(b->container.source);
    free(b->container.image);
    sg_keeper_forget(b->launcher, b);
    close_door(b);
}

bool sg_container_has_box(const struct sg_launcher *l, const char *container)
{
    for (const struct sg_box *b = l->boxes; b; b = b->all_next)
        if (strcmp(b->record.container, container) == 0)
            return true;
    return false;
}

void sg_container_sweep(const struct sg_launcher *l)
{
    sg_auto_free char *path = sg_printf("%s/docker", l->set.run_dir);
    sg_auto_dir dir = opendir(path);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        sg_auto_free char *name = sg_printf("%.*s", (int)strcspn(d->d_name, "/"), d->d_name);
        char *dot = strstr(name, ".about");
        if (dot)
            *dot = '\0';
        if (name[0] != '.' && !sg_container_has_box(l, name))
            remove_files(l->set.run_dir, name);
    }
}
