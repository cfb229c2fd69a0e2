/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox into a file:
 *
 *     snapshot   hidden, of the sandbox; or the one that was named
 *     template   of a whole file: somebody packs what the snapshot stands on, and says how large it
 * is sandbox    of ours, made of it; the hidden one goes unfold     it sees its own writable layer,
 * with what only root could see of that head       and then what was packed of the template, and
 * what its init packs, piece by piece end        the sandbox goes
 *
 * Every answer comes to `next_step` through `go_on`, which ends it all where somebody gave up. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "base/str.h"
#include "image/unnamed.h"
#include "manager/files_internal.h"
#include "manager/image_job.h"
#include "manager/life.h"
#include "manager/move.h"
#include "manager/move_doc.h"
#include "manager/move_file.h"
#include "manager/move_internal.h"
#include "manager/traits.h"
#include "tier/tier.h"
#include "base/banned.h"

enum { PIECE_BYTES = 64 << 10, IDLE_MS = 600000, MODE_DIR = 0700 };

struct sg_move_out {
    struct sg_move move;
    struct sg_move_doc doc;
    char snapshot[SG_ID_LEN + 1], hidden[SG_ID_LEN + 1]; /* hidden: the same, where it is ours */
    struct sg_id box;                                    /* ours; "": not made */
    struct sg_move_writer writer;
    struct sg_io io; /* what is packed: of the template, then of the layer */
    struct sg_image_job *job;
    int template_fd;
    bool is_in_template, is_template_read, is_template_packed;
    struct sg_later begin;
    const struct sg_move_out_ops *ops;
    void *arg;
    unsigned open;               /* answers to come */
    bool is_packed, is_at_end;   /* init has answered; the pipe is empty for good */
    bool is_dropped, is_waiting; /* nobody listens; they do, but not now */
    bool is_over;
};

/* ---- the end ---- */

static void release(struct sg_move_out *o)
{
    if (o->open || !o->is_over)
        return;
    sg_move_writer_done(&o->writer);
    sg_move_doc_done(&o->doc);
    sg_drop_fd(&o->template_fd);
    free(o);
}

static void finish(struct sg_move_out *o, const struct sg_err *err)
{
    if (o->is_over)
        return;
    o->is_over = true;
    sg_move_leave(&o->move);
    sg_image_end(o->job);
    o->job = NULL;
    sg_io_drop(o->move.m->loop, &o->io); /* init's worker finds no reader */
    sg_move_forget(&o->move, o->hidden);
    sg_move_destroy(&o->move, &o->box);
    if (!o->is_dropped)
        o->ops->over(o->arg, err);
}

/* Every answer comes through here first: false means that nobody wants it any more. */
static bool go_on(struct sg_move_out *o, const struct sg_err *err)
{
    o->open--;
    if (err)
        finish(o, err);
    if (!o->is_over)
        return true;
    release(o);
    return false;
}

/* ---- pieces ---- */

static bool tell(struct sg_move_out *o, struct sg_buf *out)
{
    const bool more = o->ops->piece(o->arg, out->p, out->n);
    o->is_waiting = !more;
    return more;
}

static void tell_end(struct sg_move_out *o)
{
    sg_auto_buf out;
    sg_buf_init(&out, 256);
    sg_move_put_end(&o->writer, &out);
    (void)tell(o, &out);
    finish(o, NULL);
}

static void box_gone(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_move_out *o = arg;
    (void)s, (void)err; /* all was read: whoever asked has what he wanted */
    o->open--;
    if (!o->is_over)
        tell_end(o);
    release(o);
}

/* The end is told when nothing of ours is left. */
static void end_box(struct sg_move_out *o)
{
    const struct sg_who us = { .org = o->move.org, .scopes = SG_SCOPE_ALL, .is_operator = true };
    struct sg_sandbox *s = sg_map_find(&o->move.m->sandboxes, o->box.s);
    o->box.s[0] = '\0';
    if (s && sg_manager_destroy(s, &us, box_gone, o, NULL) == 0)
        o->open++;
    else
        tell_end(o);
}

static void template_over(struct sg_move_out *o);

static void at_end(struct sg_move_out *o)
{
    sg_io_drop(o->move.m->loop, &o->io);
    if (o->is_in_template) {
        o->is_template_read = true;
        template_over(o);
        return;
    }
    o->is_at_end = true;
    if (o->is_packed)
        end_box(o);
}

static void readable(struct sg_io *io, uint32_t events)
{
    struct sg_move_out *o = SG_OWNER(io, struct sg_move_out, io);
    uint8_t piece[PIECE_BYTES];
    (void)events;
    const ssize_t n = read(io->fd, piece, sizeof piece);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        at_end(o);
        release(o);
        return;
    }
    sg_auto_buf out;
    sg_buf_init(&out, PIECE_BYTES + 64);
    sg_move_put_piece(&o->writer, &out, piece, (size_t)n);
    if (!tell(o, &out))
        (void)sg_io_want(o->move.m->loop, io, 0, NULL);
}

void sg_move_out_go_on(struct sg_move_out *o)
{
    o->is_waiting = false;
    if (o->io.fd >= 0)
        (void)sg_io_want(o->move.m->loop, &o->io, EPOLLIN, NULL);
}

static void packed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_move_out *o = arg;
    (void)p;
    if (!go_on(o, err))
        return;
    o->is_packed = true;
    if (o->is_at_end)
        end_box(o);
    release(o);
}

/* ---- steps ---- */

static int pack(struct sg_move_out *o, struct sg_err *err)
{
    struct sg_sandbox *s = sg_move_box(&o->move, &o->box, err);
    int ends[2];
    if (!s)
        return -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd far = ends[1];
    o->io = (struct sg_io) { .fd = ends[0], .ready = readable };
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0)
        return sg_fail_sys(err, "prepare a pipe");
    struct sg_msg m = { .type = SG_MSG_TAR_OUT };
    m.tar = (struct sg_msg_tar) { sg_text_of("root"), sg_text_of(SG_CTL_LAYER), SG_TAR_EXACT };
    if (sg_files_send(s, &m, &far, 1, packed, o, err) < 0)
        return -1;
    o->open++;
    return sg_io_want(o->move.m->loop, &o->io, o->is_waiting ? 0 : EPOLLIN, err);
}

static void tell_head(struct sg_move_out *o, const struct sg_sandbox *s)
{
    sg_auto_buf doc, out;
    sg_buf_init(&doc, SG_MOVE_MANIFEST_MAX);
    sg_buf_init(&out, SG_MOVE_MANIFEST_MAX + SG_MOVE_HEAD_BYTES);
    (void)snprintf(o->doc.template, sizeof o->doc.template, "%s", s->template);
    (void)snprintf(o->doc.identity, sizeof o->doc.identity, "%s", s->identity ? s->identity : "");
    sg_move_doc_put(&o->doc, &doc);
    sg_move_put_head(&o->writer, &out, o->doc.is_whole, doc.p, doc.n);
    (void)tell(o, &out);
}

/* ---- the template ---- */

/* All of it came, and whoever packed it says that this was all. */
static void template_over(struct sg_move_out *o)
{
    struct sg_err err = { 0 };
    if (!o->is_template_read || !o->is_template_packed)
        return;
    sg_auto_buf out;
    sg_buf_init(&out, 256);
    o->is_in_template = false;
    sg_move_put_next(&o->writer, &out);
    (void)tell(o, &out);
    if (pack(o, &err) < 0)
        finish(o, &err);
}

static void make_box(struct sg_move_out *o, const char *template);

static uint64_t number_of(const struct sg_jval *v, const char *key)
{
    const struct sg_jval *m = sg_json_get(v, key);
    return m && m->kind == SG_J_UINT ? m->u : 0;
}

static void template_said(void *arg, const struct sg_jval *v)
{
    struct sg_move_out *o = arg;
    if (sg_json_get(v, "bytes") && !o->box.s[0]) {
        const struct sg_jval *sudo = sg_json_get(v, "sudo");
        o->doc.template_bytes = number_of(v, "bytes");
        o->doc.template_unpacked = number_of(v, "unpacked");
        o->doc.template_sudo = sudo && sudo->kind == SG_J_BOOL && sudo->b;
        make_box(o, o->doc.template);
    } else if (sg_json_get(v, "done")) {
        o->is_template_packed = true;
        template_over(o);
        release(o);
    }
}

static void template_ended(void *arg, const struct sg_err *err)
{
    struct sg_move_out *o = arg;
    struct sg_err own = { 0 };
    o->job = NULL;
    if (!err && !o->is_template_packed) {
        (void)sg_fail(&own, SG_UNAVAILABLE, "the template was not packed to its end");
        err = &own;
    }
    if (err)
        finish(o, err);
    release(o);
}

/* From here on it is in use by the one who packs it, whatever becomes of the snapshot. */
static int pack_template(struct sg_move_out *o, struct sg_err *err)
{
    static const struct sg_image_ops ops = { template_said, template_ended };
    struct sg_json j;
    sg_auto_buf request;
    sg_buf_init(&request, 4096);
    sg_json_init(&j, &request);
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "action", "export");
    sg_json_put_str(&j, "template", o->doc.template);
    sg_json_put_str(&j, "snapshot", o->snapshot);
    sg_json_close(&j, '}');
    sg_buf_add_str(&request, "\n");
    o->job = sg_image_begin(o->move.m, o->move.org, &request, SG_IMAGE_GIVES, &o->template_fd, &ops,
                            o, err);
    return o->job ? 0 : -1;
}

static int read_template(struct sg_move_out *o, struct sg_err *err)
{
    o->is_in_template = true;
    o->io = (struct sg_io) { .fd = sg_take_fd(&o->template_fd), .ready = readable };
    return sg_io_want(o->move.m->loop, &o->io, o->is_waiting ? 0 : EPOLLIN, err);
}

static void unfolded(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_move_out *o = arg;
    struct sg_err own = { 0 };
    (void)p;
    if (!go_on(o, err))
        return;
    const struct sg_sandbox *s = sg_move_box(&o->move, &o->box, &own);
    if (s)
        tell_head(o, s);
    if (!s || (o->doc.is_whole ? read_template(o, &own) : pack(o, &own)) < 0)
        finish(o, &own);
    release(o);
}

static void place_made(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_move_out *o = arg;
    struct sg_err own = { 0 };
    (void)p;
    if (!go_on(o, err))
        return;
    if (!sg_move_box(&o->move, &o->box, &own)) {
        finish(o, &own);
        release(o);
        return;
    }
    o->open++;
    sg_tier_unfold(o->move.m->tier, o->box.s, unfolded, o);
}

static void box_made(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_move_out *o = arg;
    struct sg_err own = { 0 };
    (void)s;
    sg_move_forget(&o->move, o->hidden);
    if (!go_on(o, err))
        return;
    struct sg_sandbox *box = sg_move_box(&o->move, &o->box, &own);
    if (box) { /* it has a copy, and is never made again */
        free(box->snapshot);
        box->snapshot = NULL;
    }
    struct sg_msg m = { .type = SG_MSG_MAKE };
    m.make = (struct sg_msg_make) { sg_text_of("root"), sg_text_of(SG_CTL_LAYER), SG_MAKE_PARENTS,
                                    MODE_DIR };
    if (!box || sg_files_send(box, &m, NULL, 0, place_made, o, &own) < 0)
        finish(o, &own);
    else
        o->open++;
    release(o);
}

/* In no list, of no quota: whoever has no more room must be able to move away. Its disk is as large
 * as one may be, since what is full already has to fit, and some marks. */
static void make_box(struct sg_move_out *o, const char *template)
{
    struct sg_err ignored;
    o->box = sg_id_new('s');
    struct sg_sandbox *s = sg_life_new(o->move.m, o->move.org, &o->box);
    s->state = SBX_CREATING;
    s->is_internal = true;
    s->template = sg_strdup(template);
    s->snapshot = sg_strdup(o->snapshot);
    (void)sg_quota_fits(o->move.m, &s->limits, &ignored);
    if (o->move.m->o.most.disk_bytes)
        s->limits.disk_bytes = o->move.m->o.most.disk_bytes;
    s->idle_ms = o->doc.is_whole ? 0 : IDLE_MS; /* it waits while the template goes out */
    s->created_ms = sg_manager_unix_ms();
    sg_list_add(s);
    sg_create_begin(s);
    o->open++;
    sg_life_wait(&s->life->waiting, box_made, o);
}

/* What it is made of is known. */
static void go_out(struct sg_move_out *o, const char *template)
{
    struct sg_err err = { 0 };
    if (!o->doc.is_whole) {
        make_box(o, template);
        return;
    }
    (void)snprintf(o->doc.template, sizeof o->doc.template, "%s", template);
    if (pack_template(o, &err) < 0)
        finish(o, &err);
    release(o);
}

static void snapped(void *arg, struct sg_snapshot *t, const struct sg_err *err)
{
    struct sg_move_out *o = arg;
    if (t) {
        memcpy(o->snapshot, t->id.s, sizeof o->snapshot);
        memcpy(o->hidden, t->id.s, sizeof o->hidden);
    }
    if (o->is_over)
        sg_move_forget(&o->move, o->hidden);
    if (go_on(o, err))
        go_out(o, t->template);
}

static void begin(struct sg_later *later)
{
    struct sg_move_out *o = SG_OWNER(later, struct sg_move_out, begin);
    o->open--;
    sg_auto_free char *template = sg_strdup(o->doc.template);
    if (o->is_over)
        release(o);
    else
        go_out(o, template);
}

/* ---- being ---- */

static void end_with_manager(struct sg_move *v, const struct sg_err *err)
{
    struct sg_move_out *o = SG_OWNER(v, struct sg_move_out, move);
    if (o->begin.is_queued)
        o->open--;
    sg_later_cancel(v->m->loop, &o->begin);
    finish(o, err);
    release(o);
}

static struct sg_move_out *new_out(struct sg_manager *m, struct sg_org *org,
                                   const struct sg_move_out_ops *ops, void *arg, struct sg_err *err)
{
    struct sg_move_out *o = sg_new(struct sg_move_out);
    *o = (struct sg_move_out) { .move.end = end_with_manager,
                                .io.fd = -1,
                                .template_fd = -1,
                                .ops = ops,
                                .arg = arg,
                                .begin.call = begin };
    if (sg_move_writer_init(&o->writer, err) == 0 && sg_move_enter(&o->move, m, org, err) == 0)
        return o;
    sg_move_writer_done(&o->writer);
    free(o);
    return NULL;
}

static void give_up(struct sg_move_out *o)
{
    o->is_dropped = true;
    finish(o, NULL);
    release(o);
}

static int check_whole(const char *template, bool is_whole, struct sg_err *err)
{
    if (is_whole && strcmp(template, "host") == 0)
        return sg_fail(err, SG_INVALID,
                       "template 'host' is the machine itself: it leaves in no file, and every "
                       "machine has its own");
    if (!is_whole && sg_templates_is_image(template))
        return sg_fail(err, SG_INVALID,
                       "its template has no name here, and no other machine would find it: export "
                       "it whole (whole=1, --whole)");
    return 0;
}

/* A pause that keeps files alone is a snapshot already. */
static int take_snapshot(struct sg_move_out *o, struct sg_sandbox *s, struct sg_err *err)
{
    if (s->paused_snapshot && !s->life->has_cell) {
        (void)snprintf(o->snapshot, sizeof o->snapshot, "%s", s->paused_snapshot);
        (void)snprintf(o->doc.template, sizeof o->doc.template, "%s", s->template);
        sg_later_call(o->move.m->loop, &o->begin);
        o->open++;
        return 0;
    }
    if (sg_snapshot_hidden(s, snapped, o, err) < 0)
        return -1;
    o->open++;
    return 0;
}

struct sg_move_out *sg_move_out_sandbox(struct sg_sandbox *s, const struct sg_who *who,
                                        bool is_whole, const struct sg_move_out_ops *ops, void *arg,
                                        struct sg_err *err)
{
    if (sg_snapshot_demand(s, who, "sandbox.export", err) < 0 ||
        check_whole(s->template, is_whole, err) < 0)
        return NULL;
    struct sg_move_out *o = new_out(s->manager, s->org, ops, arg, err);
    if (!o)
        return NULL;
    sg_move_doc_of(&o->doc, s);
    o->doc.is_whole = is_whole;
    if (take_snapshot(o, s, err) < 0) {
        give_up(o);
        return NULL;
    }
    sg_manager_audit(s->manager, who, "sandbox.export", s, NULL);
    return o;
}

struct sg_move_out *sg_move_out_snapshot(struct sg_manager *m, const struct sg_who *who,
                                         const struct sg_snapshot *t, bool is_whole,
                                         const struct sg_move_out_ops *ops, void *arg,
                                         struct sg_err *err)
{
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0) {
        (void)sg_manager_denied(m, who, "snapshot.export", NULL, err);
        return NULL;
    }
    if (check_whole(t->template, is_whole, err) < 0)
        return NULL;
    struct sg_move_out *o = new_out(m, t->org, ops, arg, err);
    if (!o)
        return NULL;
    o->doc.is_whole = is_whole;
    memcpy(o->snapshot, t->id.s, sizeof o->snapshot);
    (void)snprintf(o->doc.template, sizeof o->doc.template, "%s", t->template);
    if (sg_id_is_valid(t->sandbox, 's'))
        memcpy(o->doc.sandbox, t->sandbox, sizeof o->doc.sandbox);
    sg_traits_copy(&o->doc.traits, &t->traits);
    sg_later_call(m->loop, &o->begin);
    o->open++;
    sg_manager_audit_value(m, who, "snapshot.export", NULL, "snapshot", t->id.s);
    return o;
}

void sg_move_out_drop(struct sg_move_out *o)
{
    give_up(o);
}
