/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping files of a sandbox that is about to end: see capture.h. One pattern after the other is
 * searched inside, and what is found copied to the volume, whose files are reached through a
 * sandbox of ours (volume.h). What comes out of the search is a stranger's word. */
#include "manager/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "manager/files.h"
#include "manager/life.h"
#include "manager/volume.h"

#include "base/banned.h"

enum { PATTERN_MAX = 1024, FILES_MAX = 1000, FOUND_MAX = 1 << 20, PIECE = 16 << 10 };
static const uint64_t PATIENCE_NS = 60000000000;

struct capture {
    struct sg_manager *m;
    struct sg_id sandbox;
    struct sg_org *org;
    char volume[SG_ID_LEN + 1];
    size_t pattern;              /* the one that is searched for */
    struct sg_io io;             /* what the search finds */
    struct sg_buf found;         /* the same: path NUL line NUL text NUL, ... */
    size_t at;                   /* of the next one in it */
    char *dir, *last;            /* owned: of the pattern; the last path that was copied */
    bool is_answered, is_at_end; /* of the search */
    bool is_over;                /* the sandbox ends without us */
    unsigned open;               /* answers to come */
    unsigned files;
    struct sg_timer clock;
};

/* ---- patterns ---- */

static bool is_plain(const char *path)
{
    for (const char *p = path; *p;) {
        const size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return false;
        p += n + (p[n] == '/');
    }
    return true;
}

int sg_captures_check(const char *const *v, size_t n, struct sg_err *err)
{
    if (n > SG_CAPTURES_MAX)
        return sg_fail(err, SG_INVALID, "captureFiles has at most %d patterns", SG_CAPTURES_MAX);
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = strlen(v[i]);
        if (!bytes || bytes > PATTERN_MAX || v[i][bytes - 1] == '/' || !is_plain(v[i]))
            return sg_fail(err, SG_INVALID,
                           "captureFiles: %s is no pattern: [DIRECTORY/]GLOB, without '..'",
                           sg_quote(v[i]).s);
    }
    return 0;
}

void sg_captures_copy(struct sg_sandbox *s, const char *const *v, size_t n)
{
    s->captures = n ? sg_alloc(n * sizeof *s->captures) : NULL;
    for (s->captures_n = 0; s->captures_n < n; s->captures_n++)
        s->captures[s->captures_n] = sg_strdup(v[s->captures_n]);
}

void sg_captures_done(struct sg_sandbox *s)
{
    for (size_t i = 0; i < s->captures_n; i++)
        free(s->captures[i]);
    free(s->captures);
    s->captures = NULL;
    s->captures_n = 0;
}

/* ---- the end ---- */

static void release(struct capture *c)
{
    if (c->open || !c->is_over)
        return;
    sg_io_drop(c->m->loop, &c->io);
    sg_buf_done(&c->found);
    free(c->dir);
    free(c->last);
    free(c);
}

static void finish(struct capture *c, const struct sg_err *err)
{
    struct sg_sandbox *s = sg_map_find(&c->m->sandboxes, c->sandbox.s);
    char text[16];
    if (c->is_over)
        return;
    c->is_over = true;
    sg_timer_stop(c->m->loop, &c->clock);
    if (err)
        sg_log(SG_LOG_WARN, "files of a sandbox could not be kept", SG_KV("sandbox", c->sandbox.s),
               SG_KV("error", err->msg));
    if (s && s->life->is_capturing && !c->m->is_ending) {
        (void)snprintf(text, sizeof text, "%u", c->files);
        sg_life_event(s, "sandbox.captured", "files", text);
        s->life->is_capturing = false;
        s->life->wants_end = true;
        sg_life_settle(s);
    }
}

static void late(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_err err = { 0 };
    (void)sg_fail(&err, SG_TIMEOUT, "it took more than a minute");
    struct capture *c = SG_OWNER(t, struct capture, clock);
    finish(c, &err);
    release(c);
}

/* Every answer comes through here first: false means that nobody wants it any more. */
static bool go_on(struct capture *c, const struct sg_err *err)
{
    c->open--;
    if (!c->is_over && err)
        finish(c, err);
    if (!c->is_over)
        return true;
    release(c);
    return false;
}

static struct sg_who ours(const struct capture *c)
{
    return (struct sg_who) { .org = c->org, .scopes = SG_SCOPE_ALL, .is_operator = true };
}

/* Both sandboxes, or -1: one has ended. */
static int both(struct capture *c, struct sg_sandbox **ret_from, struct sg_sandbox **ret_to,
                struct sg_err *err)
{
    const struct sg_who us = ours(c);
    *ret_from = sg_map_find(&c->m->sandboxes, c->sandbox.s);
    *ret_to = *ret_from ? sg_volume_visitor(c->m, &us, c->volume, err) : NULL;
    if (!*ret_from)
        return sg_fail(err, SG_UNAVAILABLE, "the sandbox has ended");
    return *ret_to ? 0 : -1;
}

/* ---- copying ---- */

static void next_pattern(struct capture *c);
static void next_file(struct capture *c);

static char *target_of(const struct capture *c, const char *path)
{
    const char *dir = strcmp(c->dir, ".") == 0 ? "" : c->dir + strspn(c->dir, "/");
    return sg_printf("/%s/%s%s%s", c->sandbox.s, dir, *dir ? "/" : "", path);
}

static void copied(void *arg, const struct sg_err *err)
{
    struct capture *c = arg;
    if (!go_on(c, NULL))
        return;
    if (err) /* one that is gone, or may not be read, holds up no other */
        sg_log(SG_LOG_INFO, "a file of a sandbox is not kept", SG_KV("sandbox", c->sandbox.s),
               SG_KV("error", err->msg));
    else
        c->files++;
    next_file(c);
}

static void dir_made(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct capture *c = arg;
    struct sg_err own = { 0 };
    struct sg_sandbox *from, *to;
    (void)p;
    if (!go_on(c, err))
        return;
    const struct sg_who us = ours(c);
    sg_auto_free char *path = sg_printf("%s/%s", c->dir, c->last);
    sg_auto_free char *target = target_of(c, c->last);
    c->open++;
    if (both(c, &from, &to, &own) < 0 ||
        sg_files_copy(from, path, to, target, &us, copied, c, &own) < 0)
        (void)go_on(c, &own);
}

static int make_dir(struct capture *c, struct sg_err *err)
{
    const struct sg_who us = ours(c);
    struct sg_sandbox *from, *to;
    struct sg_msg m = { .type = SG_MSG_MAKE };
    sg_auto_free char *target = target_of(c, c->last);
    *strrchr(target, '/') = '\0';
    m.make = (struct sg_msg_make) { sg_text_of(""), sg_text_of(target), SG_MAKE_PARENTS, 0755 };
    if (both(c, &from, &to, err) < 0)
        return -1;
    return sg_files_ask(to, &us, &m, NULL, 0, dir_made, c, err);
}

/* The next path that was found; NULL: no more. What is below the last one went with it. */
static const char *take_found(struct capture *c)
{
    while (c->at < c->found.n) {
        const char *path = (const char *)c->found.p + c->at;
        for (int part = 0; part < 3; part++) { /* path, line, text */
            const char *nul = memchr(c->found.p + c->at, 0, c->found.n - c->at);
            if (!nul)
                return NULL;
            c->at = (size_t)(nul - (const char *)c->found.p) + 1;
        }
        const size_t n = c->last ? strlen(c->last) : 0;
        const bool is_below = n && strncmp(path, c->last, n) == 0 && path[n] == '/';
        if (*path && *path != '/' && is_plain(path) && !is_below)
            return path;
    }
    return NULL;
}

static void next_file(struct capture *c)
{
    struct sg_err err = { 0 };
    const char *path = c->files < FILES_MAX ? take_found(c) : NULL;
    if (!path) {
        c->pattern++;
        next_pattern(c);
        return;
    }
    free(c->last);
    c->last = sg_strdup(path);
    c->open++;
    if (make_dir(c, &err) < 0)
        (void)go_on(c, &err);
}

/* ---- searching ---- */

static void search_over(struct capture *c)
{
    if (!c->is_answered || !c->is_at_end)
        return;
    next_file(c);
}

static void readable(struct sg_io *io, uint32_t events)
{
    struct capture *c = SG_OWNER(io, struct capture, io);
    char piece[PIECE];
    (void)events;
    const ssize_t n = read(io->fd, piece, sizeof piece);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        sg_buf_add(&c->found, piece, (size_t)n);
    if (n > 0 && !c->found.has_overflowed)
        return;
    c->is_at_end = true;
    sg_io_drop(c->m->loop, io);
    if (!c->is_over)
        search_over(c);
}

/* A directory that is not there has no files. */
static void searched(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct capture *c = arg;
    (void)p, (void)err;
    if (!go_on(c, NULL))
        return;
    c->is_answered = true;
    search_over(c);
}

static int search(struct capture *c, const char *pattern, struct sg_err *err)
{
    const struct sg_who us = ours(c);
    const char *slash = strrchr(pattern, '/');
    struct sg_sandbox *from, *to;
    int ends[2];
    if (both(c, &from, &to, err) < 0)
        return -1;
    free(c->dir);
    c->dir = !slash             ? sg_strdup(".")
             : slash == pattern ? sg_strdup("/")
                                : sg_printf("%.*s", (int)(slash - pattern), pattern);
    free(sg_take_ptr(&c->last));
    sg_buf_done(&c->found);
    sg_buf_init(&c->found, FOUND_MAX);
    c->at = 0;
    c->is_answered = c->is_at_end = false;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd far = ends[1];
    c->io = (struct sg_io) { .fd = ends[0], .ready = readable };
    (void)fcntl(far, F_SETFL, 0); /* our end waits for nobody, theirs for us */
    struct sg_msg m = { .type = SG_MSG_FIND };
    m.find = (struct sg_msg_find) { .user = sg_text_of(""),
                                    .path = sg_text_of(c->dir),
                                    .name = sg_text_of(slash ? slash + 1 : pattern),
                                    .text = sg_text_of(""),
                                    .max = FILES_MAX };
    if (sg_io_want(c->m->loop, &c->io, EPOLLIN, err) < 0)
        return -1;
    return sg_files_ask(from, &us, &m, &far, 1, searched, c, err);
}

static void synced(void *arg, const struct sg_err *err)
{
    struct capture *c = arg;
    if (!go_on(c, err))
        return;
    finish(c, NULL);
    release(c);
}

static void next_pattern(struct capture *c)
{
    struct sg_err err = { 0 };
    const struct sg_sandbox *s = sg_map_find(&c->m->sandboxes, c->sandbox.s);
    c->open++;
    if (!s)
        (void)sg_fail(&err, SG_UNAVAILABLE, "the sandbox has ended");
    const int asked = !s                           ? -1
                      : c->pattern < s->captures_n ? search(c, s->captures[c->pattern], &err)
                                                   : sg_volume_sync(c->m, synced, c, &err);
    if (asked < 0)
        (void)go_on(c, &err);
}

/* ---- the beginning ---- */

static void arrived(void *arg, struct sg_sandbox *visitor, const struct sg_err *err)
{
    struct capture *c = arg;
    (void)visitor;
    if (go_on(c, err))
        next_pattern(c);
}

static void visit(struct capture *c, struct sg_volume *v)
{
    struct sg_err err = { 0 };
    memcpy(c->volume, v->id.s, sizeof c->volume);
    c->open++;
    if (sg_volume_visit(c->m, v, arrived, c, &err) < 0)
        (void)go_on(c, &err);
}

static void volume_made(void *arg, const struct sg_volume *made, const struct sg_err *err)
{
    struct capture *c = arg;
    const struct sg_who us = ours(c);
    struct sg_err own = { 0 };
    (void)made;
    if (!go_on(c, err))
        return;
    struct sg_volume *v = sg_volume_find(c->m, &us, SG_ARTIFACTS, &own);
    if (v) {
        visit(c, v);
        return;
    }
    finish(c, &own);
    release(c);
}

bool sg_capture_begin(struct sg_sandbox *s)
{
    struct sg_manager *m = s->manager;
    struct sg_err err = { 0 };
    if (s->life->is_capturing)
        return true;
    if (!s->captures_n || s->state != SBX_RUNNING || !s->peer || s->life->has_captured)
        return false;
    s->life->has_captured = s->life->is_capturing = true;
    s->life->wants_end = false;
    struct capture *c = sg_new(struct capture);
    *c = (struct capture) {
        .m = m, .sandbox = s->id, .org = s->org, .io.fd = -1, .clock.fire = late
    };
    sg_buf_init(&c->found, FOUND_MAX);
    sg_timer_set(m->loop, &c->clock, sg_loop_now(m->loop) + PATIENCE_NS);
    const struct sg_who us = ours(c);
    struct sg_volume *v = sg_volume_find(m, &us, SG_ARTIFACTS, &err);
    if (v) {
        visit(c, v);
        return true;
    }
    c->open++;
    if (sg_volume_create(m, &us, SG_ARTIFACTS, 0, volume_made, c, &err) < 0)
        (void)go_on(c, &err);
    return true;
}
