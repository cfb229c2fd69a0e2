/* SPDX-License-Identifier: Apache-2.0 */
/* Each question is a job: a few calls in a row, each begun by the end of the one before it.
 *
 *     make     image? ─ absent ▶ pull ▶ image? ─▶ create ▶ start ▶ made
 *                                                    └─ failed ─▶ remove ▶ failed
 *     remove   remove, once more while the Engine says that it is on it
 *     list     names by label
 *     images   work_image.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/jsonr.h"
#include "base/log.h"
#include "base/str.h"
#include "keeper/docker.h"
#include "keeper/work.h"
#include "base/banned.h"

#define MS UINT64_C(1000000)

enum { ARENA_BYTES = 4 << 20, BODY_BYTES = 256 << 10 };
enum { REMOVE_TRIES = 600 };
static const uint64_t REMOVE_PAUSE_NS = 50 * MS;

static void remove_container(struct sg_keeper_job *j);

/* ---- a job's life ---- */

struct sg_keeper_job *sg_job_new(struct sg_keeper *k, const struct sg_msg *m)
{
    struct sg_keeper_job *j = sg_new(struct sg_keeper_job);
    j->keeper = k;
    j->id = m->id;
    j->next = k->jobs;
    j->link = &k->jobs;
    if (j->next)
        j->next->link = &j->next;
    k->jobs = j;
    sg_arena_init(&j->arena, ARENA_BYTES);
    return j;
}

void sg_job_free(struct sg_keeper_job *j)
{
    *j->link = j->next;
    if (j->next)
        j->next->link = j->link;
    sg_timer_stop(j->keeper->loop, &j->timer);
    sg_arena_done(&j->arena);
    free(j->name);
    free(j->image);
    free(j->dir);
    free(j);
}

void sg_keeper_drop_jobs(struct sg_keeper *k)
{
    while (k->jobs)
        sg_job_free(k->jobs);
}

void sg_job_fail(struct sg_keeper_job *j, const struct sg_err *err)
{
    sg_keeper_fail(j->keeper, j->id, err);
    sg_job_free(j);
}

void sg_job_call(struct sg_keeper_job *j, const char *method, const char *path, struct sg_str body,
                 uint64_t timeout_ms, sg_http_done *done)
{
    sg_http_call(j->keeper->http, method, path, body, timeout_ms, done, j);
}

/* The error of a call that got no answer, or not the one that was hoped for. */
void sg_job_explain(const struct sg_keeper_job *j, enum sg_kind kind, const char *what,
                    unsigned status, struct sg_str body, const struct sg_err *err,
                    struct sg_err *ret)
{
    char text[160];
    if (err) {
        *ret = *err;
        if (err->kind == SG_UNAVAILABLE)
            sg_keeper_lost_engine(j->keeper, err);
        (void)sg_wrap(ret, "%s", what);
        return;
    }
    sg_docker_read_message(body, text, sizeof text);
    sg_fail(ret, kind, "%s: the Engine answers %u%s%s", what, status, *text ? ": " : "", text);
}

/* ---- make ---- */

static void undo(struct sg_keeper_job *j)
{
    remove_container(j);
}

static void answer_made(struct sg_keeper_job *j)
{
    sg_auto_buf store;
    sg_buf_init(&store, SG_CTL_MAX_BYTES / 2);
    char *env[256];
    size_t n = 0;
    for (const struct sg_jval *v = j->is.env ? j->is.env->list.first : NULL; v && n < 255;
         v = v->next)
        if (v->kind == SG_J_STRING && strlen(v->s.p) == v->s.n && strchr(v->s.p, '='))
            env[n++] = (char *)(uintptr_t)v->s.p;
    env[n] = NULL;
    struct sg_msg m = { .type = SG_MSG_K_MADE, .id = j->id };
    m.k_made.image = sg_text_of(strlen(j->is.id) < SG_JOB_NAMES_MAX ? j->is.id : "");
    if (sg_texts_pack(env, &store, &m.k_made.env, &j->err) < 0) {
        undo(j);
        return;
    }
    sg_keeper_send(j->keeper, &m);
    sg_job_free(j);
}

static void on_started(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    struct sg_keeper_job *j = arg;
    if (!err && (status == 204 || status == 304)) {
        answer_made(j);
        return;
    }
    sg_job_explain(j, SG_INTERNAL, "start the container", status, body, err, &j->err);
    undo(j);
}

static void on_created(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    struct sg_keeper_job *j = arg;
    const char *id;
    if (err || status != 201) {
        sg_job_explain(j, status == 404 ? SG_NOT_FOUND : SG_INTERNAL, "make the container", status,
                       body, err, &j->err);
        if (status == 409) /* the name is somebody else's: nothing of it is ours to remove */
            sg_job_fail(j, &j->err);
        else
            undo(j);
        return;
    }
    if (sg_docker_read_created(body, &j->arena, &id, &j->err) < 0) {
        undo(j);
        return;
    }
    sg_auto_free char *path = sg_printf("/containers/%s/start", j->name);
    sg_job_call(j, "POST", path, SG_NOTHING, SG_CALL_MS, on_started);
}

static void create(struct sg_keeper_job *j)
{
    sg_auto_buf body;
    sg_buf_init(&body, BODY_BYTES);
    sg_docker_write_create(&j->spec, &j->is, &body);
    if (sg_buf_check(&body, "what the container is to be", &j->err) < 0) {
        sg_job_fail(j, &j->err);
        return;
    }
    sg_auto_free char *path = sg_printf("/containers/create?name=%s", j->name);
    sg_job_call(j, "POST", path, (struct sg_str) { (const char *)body.p, body.n }, SG_CALL_MS,
                on_created);
}

static void ask_for_image(struct sg_keeper_job *j);

static void on_pulled(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    struct sg_keeper_job *j = arg;
    struct sg_err why = { 0 };
    j->has_pulled = true;
    if (!err && status == 200 && sg_docker_read_pull(body, &why) == 0) {
        ask_for_image(j);
        return;
    }
    if (err || status != 200)
        sg_job_explain(j, SG_NOT_FOUND, "the Engine has no such image", status, body, err, &why);
    (void)sg_wrap(&why, "pull image %s", sg_quote(j->image).s);
    sg_job_fail(j, &why);
}

/* Without a tag the Engine would fetch all that there are. */
static void pull(struct sg_keeper_job *j)
{
    const char *last = strrchr(j->image, '/');
    const bool has_tag = strpbrk(last ? last : j->image, ":@");
    sg_auto_free char *path =
        sg_printf("/images/create?fromImage=%s%s", j->image, has_tag ? "" : "&tag=latest");
    sg_log(SG_LOG_INFO, "an image is pulled", SG_KV("image", j->image));
    sg_job_call(j, "POST", path, SG_NOTHING, SG_PULL_MS, on_pulled);
}

static void on_image(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    struct sg_keeper_job *j = arg;
    if (!err && status == 404) {
        if (j->keeper->o.may_pull && !j->has_pulled && !j->is_ours) {
            pull(j);
            return;
        }
        sg_fail(&j->err, SG_NOT_FOUND, "the Docker Engine has no image %s%s", sg_quote(j->image).s,
                j->keeper->o.may_pull || j->is_ours
                    ? ""
                    : " (docker.pull is off: 'docker pull' it, or import it)");
        sg_job_fail(j, &j->err);
        return;
    }
    if (err || status != 200)
        sg_job_explain(j, SG_INTERNAL, "look for the image", status, body, err, &j->err);
    else if (sg_docker_read_image(body, &j->arena, &j->is, &j->err) == 0) {
        create(j);
        return;
    }
    sg_job_fail(j, &j->err);
}

static void ask_for_image(struct sg_keeper_job *j)
{
    sg_auto_free char *path = sg_printf("/images/%s/json", j->image);
    sg_job_call(j, "GET", path, SG_NOTHING, SG_CALL_MS, on_image);
}

/* Whose Engine it is decides about a limit. What went wrong shows at the next call. */
static void on_version(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    struct sg_keeper_job *j = arg;
    const char *version;
    bool is_podman;
    if (!err && status == 200 &&
        sg_docker_read_version(body, &j->arena, &version, &is_podman, NULL) == 0 && is_podman)
        j->spec.user_processes = j->keeper->o.user_processes;
    ask_for_image(j);
}

static void make(struct sg_keeper *k, const struct sg_msg *m)
{
    const struct sg_msg_k_make *q = &m->k_make;
    struct sg_keeper_job *j = sg_job_new(k, m);
    if (sg_docker_check_name(q->container.p, &j->err) < 0 ||
        sg_docker_check_image(q->image.p, &j->err) < 0) {
        sg_job_fail(j, &j->err);
        return;
    }
    if (q->dir.p[0] != '/' || strchr(q->dir.p, ':')) {
        sg_fail(&j->err, SG_INVALID, "%s cannot be shown to a container", sg_quote(q->dir.p).s);
        sg_job_fail(j, &j->err);
        return;
    }
    j->is_ours = q->is_ours;
    j->name = sg_strdup(q->container.p);
    j->image = sg_strdup(q->image.p);
    j->dir = sg_strdup(q->dir.p);
    j->spec = (struct sg_docker_spec) { .name = j->name,
                                        .image = j->image,
                                        .dir = j->dir,
                                        .service = k->o.service,
                                        .mem_bytes = q->mem_bytes,
                                        .cpu_milli = q->cpu_milli,
                                        .pids = q->pids,
                                        .disk_bytes = q->disk_bytes,
                                        .open_files = q->open_files,
                                        .user_processes = k->is_podman ? k->o.user_processes : 0 };
    if (k->has_told)
        ask_for_image(j);
    else
        sg_job_call(j, "GET", "/version", SG_NOTHING, SG_CALL_MS, on_version);
}

/* ---- remove ---- */

static void removed(struct sg_keeper_job *j)
{
    struct sg_msg m = { .type = SG_MSG_K_DONE, .id = j->id };
    if (j->err.kind) { /* it was the end of something that failed before */
        sg_job_fail(j, &j->err);
        return;
    }
    sg_keeper_send(j->keeper, &m);
    sg_job_free(j);
}

static void again(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    remove_container(SG_OWNER(t, struct sg_keeper_job, timer));
}

/* 409: it is being removed already, because its pid 1 ended. */
static void on_removed(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    struct sg_keeper_job *j = arg;
    struct sg_err why = { 0 };
    if (!err && (status == 204 || status == 404)) {
        removed(j);
    } else if (!err && status == 409 && j->tries++ < REMOVE_TRIES) {
        j->timer.fire = again;
        sg_timer_set(j->keeper->loop, &j->timer, sg_loop_now(j->keeper->loop) + REMOVE_PAUSE_NS);
    } else {
        sg_job_explain(j, SG_INTERNAL, "remove the container", status, body, err, &why);
        sg_job_fail(j, j->err.kind ? &j->err : &why);
    }
}

static void remove_container(struct sg_keeper_job *j)
{
    sg_auto_free char *path = sg_printf("/containers/%s?force=1&v=1", j->name);
    sg_job_call(j, "DELETE", path, SG_NOTHING, SG_CALL_MS, on_removed);
}

static void remove_one(struct sg_keeper *k, const struct sg_msg *m)
{
    struct sg_keeper_job *j = sg_job_new(k, m);
    if (sg_docker_check_name(m->k_name.container.p, &j->err) < 0) {
        sg_job_fail(j, &j->err);
        return;
    }
    j->name = sg_strdup(m->k_name.container.p);
    remove_container(j);
}

/* ---- list ---- */

static void on_list(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    sg_job_answer_names(arg, "list the containers", sg_docker_read_list, status, body, err);
}

static void list(struct sg_keeper *k, const struct sg_msg *m)
{
    struct sg_keeper_job *j = sg_job_new(k, m);
    sg_auto_free char *path = sg_job_path_of_ours(j, "/containers/json?all=1&");
    sg_job_call(j, "GET", path, SG_NOTHING, SG_CALL_MS, on_list);
}

/* ---- all of them ---- */

void sg_keeper_work(struct sg_keeper *k, const struct sg_msg *m)
{
    static void (*const rows[SG_MSG_TYPE_COUNT])(struct sg_keeper *, const struct sg_msg *) = {
        [SG_MSG_K_MAKE] = make,
        [SG_MSG_K_REMOVE] = remove_one,
        [SG_MSG_K_LIST] = list,
        [SG_MSG_K_IMPORT] = sg_work_import,
        [SG_MSG_K_TAG] = sg_work_tag,
        [SG_MSG_K_FORGET] = sg_work_forget,
        [SG_MSG_K_IMAGES] = sg_work_images,
    };
    rows[m->type](k, m);
}
