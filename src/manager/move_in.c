/* SPDX-License-Identifier: Apache-2.0 */
/* A file into a sandbox, or a snapshot:
 *
 *     manifest   read and checked
 *     template   of a whole file: passed over where the server has the same one, else to somebody
 *                who makes one of it without a name (image_job.h), and holds it until the end
 *     sandbox    of ours, made of that template, or of the one that the manifest names
 *     pieces     into a pipe, as that sandbox's init empties it
 *     end        the digest was right, and init has unpacked all of it without complaint
 *     snapshot   of that sandbox, which then goes
 *     sandbox    of the snapshot, which then goes, too; unless the snapshot is what was wanted
 *
 * Every answer comes through `go_on`, which ends it all where somebody gave up. */
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

enum { REST_MAX = 8 << 20, UNPACK_MS = 24 * 3600 * 1000 }; /* rest: one piece of a body */

struct sg_move_in {
    struct sg_move move;
    struct sg_who who;
    bool is_snapshot;
    char *name, *tag, *template; /* owned, or NULL */
    struct sg_move_reader reader;
    struct sg_move_doc doc;
    struct sg_image_job *job;        /* holds the template that came with the file */
    char base[SG_MOVE_NAME_MAX + 1]; /* that one; "": none */
    bool keeps_network;
    char *notices[SG_MOVE_NOTICES_MAX + 1]; /* owned */
    bool is_in_template, is_passed_over, is_template_sent;
    struct sg_id box; /* ours; "": none */
    char hidden[SG_ID_LEN + 1];
    struct sg_io io;    /* into init's pipe */
    struct sg_buf rest; /* of the input, from `at` on: what was not taken yet */
    size_t at;
    struct sg_str data; /* of the archive, within `rest`: to be written */
    const struct sg_move_in_ops *ops;
    void *arg;
    unsigned open; /* answers to come */
    bool is_last;  /* nothing comes after `rest` */
    bool is_whole; /* the end was seen, and was right */
    bool is_unpacked;
    bool is_dropped, is_over;
};

/* ---- the end ---- */

static void release(struct sg_move_in *in)
{
    if (in->open || !in->is_over)
        return;
    sg_move_reader_done(&in->reader);
    sg_move_doc_done(&in->doc);
    sg_buf_done(&in->rest);
    free(in->name);
    free(in->tag);
    free(in->template);
    for (size_t i = 0; in->notices[i]; i++)
        free(in->notices[i]);
    free(in);
}

static void finish(struct sg_move_in *in, struct sg_sandbox *s, struct sg_snapshot *t,
                   const struct sg_err *err)
{
    if (in->is_over)
        return;
    in->is_over = true;
    sg_move_leave(&in->move);
    sg_io_drop(in->move.m->loop, &in->io); /* init's worker finds an end too early */
    sg_image_end(in->job);
    in->job = NULL;
    sg_move_forget(&in->move, in->hidden);
    sg_move_destroy(&in->move, &in->box);
    if (!in->is_dropped)
        in->ops->over(in->arg, s, t, err);
}

static void fail(struct sg_move_in *in, const struct sg_err *err)
{
    finish(in, NULL, NULL, err);
}

static bool go_on(struct sg_move_in *in, const struct sg_err *err)
{
    in->open--;
    if (err)
        fail(in, err);
    if (!in->is_over)
        return true;
    release(in);
    return false;
}

static const char *template_of(const struct sg_move_in *in)
{
    return in->base[0] ? in->base : in->template ? in->template : in->doc.template;
}

/* ---- what it becomes ---- */

static void made(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_move_in *in = arg;
    in->open--;
    finish(in, s, NULL, err);
    release(in);
}

/* One that asks for more time than this server gives has what it gives. */
static uint64_t time_of(const struct sg_move_in *in)
{
    uint64_t ms = in->doc.timeout_ms;
    return in->doc.has_settings && sg_timeout_check(in->move.m, &ms, NULL) == 0 ? ms : UINT64_MAX;
}

static int make_sandbox(struct sg_move_in *in, struct sg_err *err)
{
    const struct sg_move_doc *d = &in->doc;
    struct sg_ask ask;
    sg_ask_init(&ask, SG_OPERATION_DEFAULT);
    ask.wish = SG_WALL_CELL;
    const struct sg_create c = {
        .ask = &ask,
        .template = template_of(in),
        .snapshot = in->hidden,
        .limits = d->limits,
        .timeout_ms = time_of(in),
        .idle_ms = d->idle_ms,
        .on_expiry = d->pauses ? SG_EXPIRY_PAUSE : SG_EXPIRY_KILL,
        .drops_memory = d->drops_memory,
        .checkpoint_every = (unsigned)d->checkpoint_every,
        .captures = (const char *const *)d->captures,
        .captures_n = d->captures_n,
        .metadata = d->metadata.v,
        .metadata_n = d->metadata.n,
        .env = d->env.v,
        .env_n = d->env.n,
        .network = d->has_network ? &d->network : NULL,
        .traits = &d->traits,
    };
    if (sg_manager_create(in->move.m, &in->who, &c, made, in, err) < 0)
        return -1;
    in->open++;
    return 0;
}

static void box_gone(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_move_in *in = arg;
    struct sg_err own = { 0 };
    (void)s;
    if (!go_on(in, err))
        return;
    if (make_sandbox(in, &own) < 0)
        fail(in, &own);
    release(in);
}

/* It counts as the organisation's: the place that it takes is that of the sandbox to come. */
static void snapped(void *arg, struct sg_snapshot *t, const struct sg_err *err)
{
    struct sg_move_in *in = arg;
    struct sg_err own = { 0 };
    if (t && !in->is_snapshot)
        memcpy(in->hidden, t->id.s, sizeof in->hidden);
    if (in->is_over)
        sg_move_forget(&in->move, in->hidden);
    if (!go_on(in, err))
        return;
    struct sg_sandbox *s = sg_map_find(&in->move.m->sandboxes, in->box.s);
    const struct sg_who us = { .org = in->move.org, .scopes = SG_SCOPE_ALL, .is_operator = true };
    if (in->is_snapshot) {
        finish(in, NULL, t, NULL);
    } else if (!s || sg_manager_destroy(s, &us, box_gone, in, &own) < 0) {
        fail(in, s ? &own : (sg_fail(&own, SG_UNAVAILABLE, "the sandbox has ended"), &own));
    } else {
        in->box.s[0] = '\0';
        in->open++;
    }
    release(in);
}

static void take_snapshot(struct sg_move_in *in)
{
    struct sg_err err = { 0 };
    struct sg_sandbox *s = sg_move_box(&in->move, &in->box, &err);
    if (s) /* not before: what it starts was not to run here */
        sg_traits_copy(&s->traits, &in->doc.traits);
    const int result = !s ? -1
                       : in->is_snapshot
                           ? sg_manager_snapshot(s, &in->who, in->name, in->tag, snapped, in, &err)
                           : sg_snapshot_hidden(s, snapped, in, &err);
    if (result < 0)
        fail(in, &err);
    else
        in->open++;
}

/* ---- bytes ---- */

static void pump_and_release(struct sg_move_in *in);

static void writable(struct sg_io *io, uint32_t events)
{
    struct sg_move_in *in = SG_OWNER(io, struct sg_move_in, io);
    (void)events;
    (void)sg_io_want(in->move.m->loop, io, 0, NULL);
    pump_and_release(in);
}

/* 1: all is in the pipe; 0: later. Where init has given up, its answer says why. */
static int write_data(struct sg_move_in *in)
{
    while (in->data.n && in->io.fd >= 0) {
        const ssize_t n = write(in->io.fd, in->data.p, in->data.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            (void)sg_io_want(in->move.m->loop, &in->io, EPOLLOUT, NULL);
            return 0;
        }
        if (n < 0) {
            sg_io_drop(in->move.m->loop, &in->io);
            return 0;
        }
        in->data = (struct sg_str) { in->data.p + n, in->data.n - (size_t)n };
    }
    return in->io.fd >= 0;
}

static int make_box(struct sg_move_in *in, struct sg_err *err);

static int begin_template(struct sg_move_in *in, struct sg_err *err);

/* As `run`. */
static int take_manifest(struct sg_move_in *in, struct sg_err *err)
{
    const struct sg_str text = { (const char *)in->reader.text.p, in->reader.text.n };
    if (sg_move_doc_read(text, &in->doc, err) < 0)
        return -1;
    if (sg_move_admit(in->move.m, &in->who, &in->doc, in->keeps_network, in->notices, err) < 0)
        return -1;
    if (in->doc.is_whole != in->reader.is_whole)
        return sg_fail(err, SG_INVALID,
                       "the manifest of the file is of another version than it is");
    if (in->doc.is_whole)
        return begin_template(in, err);
    return make_box(in, err) < 0 ? -1 : 1;
}

/* The same: the other archive is to come, and needs a sandbox. */
static int take_next(struct sg_move_in *in, struct sg_err *err)
{
    sg_io_drop(in->move.m->loop, &in->io); /* the end of the template */
    in->is_in_template = false;
    in->is_template_sent = true;
    if (in->job && !in->base[0])
        return 1;
    return make_box(in, err) < 0 ? -1 : 1;
}

/* 1: something is waited for; 0: the input is used up; -1. */
static int run(struct sg_move_in *in, struct sg_err *err)
{
    for (;;) {
        enum sg_move_event event;
        if (in->data.n && !write_data(in))
            return 1;
        const uint8_t *p = in->rest.p + in->at;
        size_t left = in->rest.n - in->at;
        if (!left)
            return 0;
        if (in->is_whole)
            return sg_fail(err, SG_INVALID, "the file was altered: something comes after its end");
        if (sg_move_read(&in->reader, &p, &left, &event, err) < 0)
            return -1;
        in->at = in->rest.n - left;
        const int waits = event == SG_MOVE_MANIFEST ? take_manifest(in, err)
                          : event == SG_MOVE_NEXT   ? take_next(in, err)
                                                    : 0;
        if (waits)
            return waits;
        if (event == SG_MOVE_DATA && !(in->is_in_template && in->is_passed_over))
            in->data = (struct sg_str) { (const char *)in->reader.data, in->reader.data_n };
        in->is_whole = event == SG_MOVE_END;
    }
}

/* All came, and nothing after it. */
static void take_end(struct sg_move_in *in)
{
    sg_io_drop(in->move.m->loop, &in->io); /* the end of the archive */
    if (in->is_unpacked)
        take_snapshot(in);
}

/* May come back to itself by way of `ready`, and may be the end: the caller holds it. */
static void pump(struct sg_move_in *in)
{
    struct sg_err err = { 0 };
    const int result = in->is_over ? 1 : run(in, &err);
    if (result > 0)
        return;
    if (result == 0 && in->is_last && !in->is_whole)
        (void)sg_move_cut(&in->reader, &err);
    if (err.kind != SG_OK)
        fail(in, &err);
    else if (in->is_last)
        take_end(in);
    else
        in->ops->ready(in->arg);
}

static void pump_and_release(struct sg_move_in *in)
{
    in->open++;
    pump(in);
    in->open--;
    release(in);
}

void sg_move_in_add(struct sg_move_in *in, const void *p, size_t n, bool is_last)
{
    struct sg_err err = { 0 };
    sg_buf_clear(&in->rest);
    in->at = 0;
    sg_buf_add(&in->rest, p, n);
    in->is_last = is_last;
    if (sg_buf_check(&in->rest, "piece of the file", &err) < 0)
        fail(in, &err);
    pump_and_release(in);
}

/* ---- the template that came with it ---- */

/* It may be made before all of the archive is sent: what is left of that is nothing but its end. */
static void template_said(void *arg, const struct sg_jval *v)
{
    struct sg_move_in *in = arg;
    struct sg_err err = { 0 };
    const struct sg_jval *name = sg_json_get(v, "template");
    if (!name || name->kind != SG_J_STRING || !sg_templates_is_image(name->s.p))
        return;
    (void)snprintf(in->base, sizeof in->base, "%s", name->s.p);
    if (!in->is_template_sent) {
        in->is_passed_over = true;
        in->data = (struct sg_str) { 0 };
        pump_and_release(in);
        return;
    }
    if (make_box(in, &err) < 0)
        fail(in, &err);
    release(in);
}

static void template_ended(void *arg, const struct sg_err *err)
{
    struct sg_move_in *in = arg;
    struct sg_err own = { 0 };
    in->job = NULL;
    if (!err) {
        (void)sg_fail(&own, SG_UNAVAILABLE, "nobody holds the template of the file any more");
        err = &own;
    }
    fail(in, err);
    release(in);
}

/* Only who runs the machine can grant what makes its programs root's. */
static int make_template(struct sg_move_in *in, struct sg_err *err)
{
    static const struct sg_image_ops ops = { template_said, template_ended };
    struct sg_json j;
    sg_auto_buf request;
    int fd = -1;
    sg_buf_init(&request, 4096);
    sg_json_init(&j, &request);
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "action", "import");
    sg_json_put_u64(&j, "bytes", in->doc.template_bytes);
    sg_json_put_u64(&j, "unpacked", in->doc.template_unpacked);
    sg_json_put_bool(&j, "sudo", in->doc.template_sudo && in->who.is_operator);
    sg_json_close(&j, '}');
    sg_buf_add_str(&request, "\n");
    in->job =
        sg_image_begin(in->move.m, in->move.org, &request, SG_IMAGE_TAKES, &fd, &ops, in, err);
    in->io = (struct sg_io) { .fd = fd, .ready = writable };
    return in->job ? 0 : -1;
}

static void identified(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_move_in *in = arg;
    struct sg_err own = { 0 };
    const bool is_there =
        !err && *in->doc.identity && strcmp(p->msg.l_identified.identity.p, in->doc.identity) == 0;
    if (err && err->kind == SG_NOT_FOUND)
        err = NULL;
    if (!go_on(in, err))
        return;
    in->is_passed_over = is_there;
    if (!is_there && make_template(in, &own) < 0)
        fail(in, &own);
    pump_and_release(in);
}

/* As `run`. One without a name is what its digest says: the archive has to show that it is. */
static int begin_template(struct sg_move_in *in, struct sg_err *err)
{
    in->is_in_template = true;
    if (in->template) {
        in->is_passed_over = true;
        return 0;
    }
    if (sg_templates_is_image(in->doc.template))
        return make_template(in, err);
    in->open++;
    sg_tier_identify(in->move.m->tier, in->doc.template, identified, in);
    return 1;
}

/* ---- the sandbox that it is unpacked in ---- */

static void unpacked(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_move_in *in = arg;
    (void)p;
    if (!go_on(in, err))
        return;
    in->is_unpacked = true;
    if (in->is_whole)
        take_snapshot(in);
    release(in);
}

static int unpack(struct sg_move_in *in, struct sg_sandbox *s, struct sg_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd far = ends[0];
    in->io = (struct sg_io) { .fd = ends[1], .ready = writable };
    if (fcntl(ends[1], F_SETFL, O_NONBLOCK) < 0)
        return sg_fail_sys(err, "prepare a pipe");
    struct sg_msg m = { .type = SG_MSG_TAR_IN };
    m.tar = (struct sg_msg_tar) { sg_text_of("root"), sg_text_of("/"), SG_TAR_EXACT };
    if (sg_files_send(s, &m, &far, 1, unpacked, in, err) < 0)
        return -1;
    in->open++;
    return 0;
}

static int check_template(const struct sg_move_in *in, const struct sg_sandbox *s,
                          struct sg_err *err)
{
    const struct sg_move_doc *d = &in->doc;
    if (!s->is_pooled)
        return sg_fail(err, SG_UNSUPPORTED,
                       "this server has no storage pool: there is no importing into memory");
    if (in->base[0] || in->template || !*d->identity ||
        strcmp(d->identity, s->identity ? s->identity : "") == 0)
        return 0;
    return sg_fail(
        err, SG_CONFLICT,
        "template %s is another one here than where the file comes from: build or import "
        "the same, or name one to put the files upon (template)",
        sg_quote(d->template).s);
}

static void box_made(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_move_in *in = arg;
    struct sg_err own = { 0 };
    if (err && err->kind == SG_NOT_FOUND) {
        own = *err;
        (void)sg_wrap(&own, "the file needs template %s", sg_quote(in->doc.template).s);
        err = &own;
    }
    if (!go_on(in, err))
        return;
    own = (struct sg_err) { 0 };
    if (check_template(in, s, &own) < 0 || unpack(in, s, &own) < 0)
        fail(in, &own);
    pump_and_release(in);
}

static int make_box(struct sg_move_in *in, struct sg_err *err)
{
    struct sg_ask ask;
    struct sg_sandbox *s = NULL;
    sg_ask_init(&ask, SG_OPERATION_DEFAULT);
    ask.wish = SG_WALL_CELL;
    const uint64_t most = in->move.m->o.max_timeout_ms;
    const struct sg_create c = {
        .ask = &ask,
        .template = template_of(in),
        .limits = in->doc.limits,
        .timeout_ms = most && most < UNPACK_MS ? most : UNPACK_MS,
        .is_internal = true,
    };
    if (sg_manager_create_internal(in->move.m, &in->who, &c, box_made, in, &s, err) < 0)
        return -1;
    in->box = s->id;
    in->open++;
    return 0;
}

/* ---- being ---- */

static void end_with_manager(struct sg_move *v, const struct sg_err *err)
{
    struct sg_move_in *in = SG_OWNER(v, struct sg_move_in, move);
    fail(in, err);
    release(in);
}

struct sg_move_in *sg_move_in_begin(struct sg_manager *m, const struct sg_who *who,
                                    const struct sg_move_in_spec *spec,
                                    const struct sg_move_in_ops *ops, void *arg, struct sg_err *err)
{
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0) {
        (void)sg_manager_denied(m, who, "sandbox.import", NULL, err);
        return NULL;
    }
    if (!(sg_tier_flags(m->tier) & SG_L_POOL)) {
        (void)sg_fail(err, SG_UNSUPPORTED,
                      "this server has no storage pool: there is no importing into memory");
        return NULL;
    }
    if ((spec->name && sg_template_name_check(spec->name, err) < 0) ||
        (spec->template && sg_template_name_check(spec->template, err) < 0))
        return NULL;
    struct sg_move_in *in = sg_new(struct sg_move_in);
    *in = (struct sg_move_in) { .move.end = end_with_manager,
                                .who = *who,
                                .is_snapshot = spec->is_snapshot,
                                .name = spec->name ? sg_strdup(spec->name) : NULL,
                                .tag = spec->tag ? sg_strdup(spec->tag) : NULL,
                                .template = spec->template ? sg_strdup(spec->template) : NULL,
                                .keeps_network = spec->keeps_network,
                                .io.fd = -1,
                                .ops = ops,
                                .arg = arg };
    sg_buf_init(&in->rest, REST_MAX);
    if (sg_move_reader_init(&in->reader, err) < 0 ||
        sg_move_enter(&in->move, m, who->org, err) < 0) {
        in->is_over = true;
        release(in);
        return NULL;
    }
    sg_manager_audit(m, who, "sandbox.import", NULL, NULL);
    return in;
}

const char *const *sg_move_in_notices(const struct sg_move_in *in)
{
    return (const char *const *)in->notices;
}

void sg_move_in_drop(struct sg_move_in *in)
{
    in->is_dropped = true;
    fail(in, NULL);
    release(in);
}
