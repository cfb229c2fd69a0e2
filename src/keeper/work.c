/* SPDX-License-Identifier: Apache-2.0 */
/* Each question is a job: a few calls in a row, each begun by the end of the one before it.
 *
 *     make     image? ─ absent ▶ pull ▶ image? ─▶ create ▶ start ▶ made
 *                                                    └─ failed ─▶ remove ▶ failed
 *     remove   remove, once more while the Engine says that it is on it
 *     list     names by label */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/jsonr.h"
#include "base/log.h"
#include "base/str.h"
#include "keeper/docker.h"
#include "keeper/keeper.h"
#include "base/banned.h"

#define MS UINT64_C(1000000)

enum { CALL_MS = 120000, PULL_MS = 900000, ARENA_BYTES = 4 << 20, BODY_BYTES = 256 << 10 };
enum { REMOVE_TRIES = 600, NAMES_MAX = 4096 };
static const uint64_t REMOVE_PAUSE_NS = 50 * MS;

struct sg_keeper_job {
    struct sg_keeper *keeper;
    struct sg_keeper_job *next, **link; /* in the keeper's list */
    uint32_t id;
    char *name, *image, *dir; /* owned */
    struct sg_docker_spec spec;
    struct sg_docker_image is;
    struct sg_arena arena; /* of what was read */
    bool has_pulled;
    unsigned tries;
    struct sg_timer timer;
    struct sg_err err; /* what is told when it is cleaned up */
};

static void remove_container(struct sg_keeper_job *j);

/* ---- a job's life ---- */

static struct sg_keeper_job *new_job(struct sg_keeper *k, const struct sg_msg *m)
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

static void free_job(struct sg_keeper_job *j)
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
        free_job(k->jobs);
}

static void fail_job(struct sg_keeper_job *j, const struct sg_err *err)
{
    sg_keeper_fail(j->keeper, j->id, err);
    free_job(j);
}

static void call(struct sg_keeper_job *j, const char *method, const char *path, struct sg_str body,
                 uint64_t timeout_ms, sg_http_done *done)
{
    sg_http_call(j->keeper->http, method, path, body, timeout_ms, done, j);
}

static const struct sg_str NOTHING = { "", 0 };

/* The error of a call that got no answer, or not the one that was hoped for. */
static void explain(const struct sg_keeper_job *j, enum sg_kind kind, const char *what,
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
    m.k_made.image = sg_text_of(strlen(j->is.id) < NAMES_MAX ? j->is.id : "");
    if (sg_texts_pack(env, &store, &m.k_made.env, &j->err) < 0) {
        undo(j);
        return;
    }
    sg_keeper_send(j->keeper, &m);
    free_job(j);
}

static void on_started(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    struct sg_keeper_job *j = arg;
    if (!err && (status == 204 || status == 304)) {
        answer_made(j);
        return;
    }
    explain(j, SG_INTERNAL, "start the container", status, body, err, &j->err);
    undo(j);
}

static void on_created(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    struct sg_keeper_job *j = arg;
    const char *id;
    if (err || status != 201) {
        explain(j, status == 404 ? SG_NOT_FOUND : SG_INTERNAL, "make the container", status, body,
                err, &j->err);
        if (status == 409) /* the name is somebody else's: nothing of it is ours to remove */
            fail_job(j, &j->err);
        else
            undo(j);
        return;
    }
    if (sg_docker_read_created(body, &j->arena, &id, &j->err) < 0) {
        undo(j);
        return;
    }
    sg_auto_free char *path = sg_printf("/containers/%s/start", j->name);
    call(j, "POST", path, NOTHING, CALL_MS, on_started);
}

static void create(struct sg_keeper_job *j)
{
    sg_auto_buf body;
    sg_buf_init(&body, BODY_BYTES);
    sg_docker_write_create(&j->spec, &j->is, &body);
    if (sg_buf_check(&body, "what the container is to be", &j->err) < 0) {
        fail_job(j, &j->err);
        return;
    }
    sg_auto_free char *path = sg_printf("/containers/create?name=%s", j->name);
    call(j, "POST", path, (struct sg_str) { (const char *)body.p, body.n }, CALL_MS, on_created);
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
        explain(j, SG_NOT_FOUND, "the Engine has no such image", status, body, err, &why);
    (void)sg_wrap(&why, "pull image %s", sg_quote(j->image).s);
    fail_job(j, &why);
}

/* Without a tag the Engine would fetch all that there are. */
static void pull(struct sg_keeper_job *j)
{
    const char *last = strrchr(j->image, '/');
    const bool has_tag = strpbrk(last ? last : j->image, ":@");
    sg_auto_free char *path =
        sg_printf("/images/create?fromImage=%s%s", j->image, has_tag ? "" : "&tag=latest");
    sg_log(SG_LOG_INFO, "an image is pulled", SG_KV("image", j->image));
    call(j, "POST", path, NOTHING, PULL_MS, on_pulled);
}

static void on_image(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    struct sg_keeper_job *j = arg;
    if (!err && status == 404) {
        if (j->keeper->o.may_pull && !j->has_pulled) {
            pull(j);
            return;
        }
        sg_fail(&j->err, SG_NOT_FOUND, "the Docker Engine has no image %s%s", sg_quote(j->image).s,
                j->keeper->o.may_pull ? ""
                                      : " (docker.pull is off: 'docker pull' it, or import it)");
        fail_job(j, &j->err);
        return;
    }
    if (err || status != 200)
        explain(j, SG_INTERNAL, "look for the image", status, body, err, &j->err);
    else if (sg_docker_read_image(body, &j->arena, &j->is, &j->err) == 0) {
        create(j);
        return;
    }
    fail_job(j, &j->err);
}

static void ask_for_image(struct sg_keeper_job *j)
{
    sg_auto_free char *path = sg_printf("/images/%s/json", j->image);
    call(j, "GET", path, NOTHING, CALL_MS, on_image);
}

static void make(struct sg_keeper *k, const struct sg_msg *m)
{
    const struct sg_msg_k_make *q = &m->k_make;
    struct sg_keeper_job *j = new_job(k, m);
    if (sg_docker_check_name(q->container.p, &j->err) < 0 ||
        sg_docker_check_image(q->image.p, &j->err) < 0) {
        fail_job(j, &j->err);
        return;
    }
    if (q->dir.p[0] != '/' || strchr(q->dir.p, ':')) {
        sg_fail(&j->err, SG_INVALID, "%s cannot be shown to a container", sg_quote(q->dir.p).s);
        fail_job(j, &j->err);
        return;
    }
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
                                        .open_files = q->open_files };
    ask_for_image(j);
}

/* ---- remove ---- */

static void removed(struct sg_keeper_job *j)
{
    struct sg_msg m = { .type = SG_MSG_K_DONE, .id = j->id };
    if (j->err.kind) { /* it was the end of something that failed before */
        fail_job(j, &j->err);
        return;
    }
    sg_keeper_send(j->keeper, &m);
    free_job(j);
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
        explain(j, SG_INTERNAL, "remove the container", status, body, err, &why);
        fail_job(j, j->err.kind ? &j->err : &why);
    }
}

static void remove_container(struct sg_keeper_job *j)
{
    sg_auto_free char *path = sg_printf("/containers/%s?force=1&v=1", j->name);
    call(j, "DELETE", path, NOTHING, CALL_MS, on_removed);
}

static void remove_one(struct sg_keeper *k, const struct sg_msg *m)
{
    struct sg_keeper_job *j = new_job(k, m);
    if (sg_docker_check_name(m->k_name.container.p, &j->err) < 0) {
        fail_job(j, &j->err);
        return;
    }
    j->name = sg_strdup(m->k_name.container.p);
    remove_container(j);
}

/* ---- list ---- */

struct names {
    char *v[NAMES_MAX + 1];
    size_t n;
};

static void take_name(void *arg, const char *name)
{
    struct names *names = arg;
    if (names->n < NAMES_MAX)
        names->v[names->n++] = (char *)(uintptr_t)name; /* of the job's arena */
}

static void on_list(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    struct sg_keeper_job *j = arg;
    sg_auto_free struct names *names = sg_new(struct names);
    sg_auto_buf store;
    sg_buf_init(&store, SG_CTL_MAX_BYTES);
    struct sg_msg m = { .type = SG_MSG_K_LISTED, .id = j->id };
    if (err || status != 200) {
        explain(j, SG_INTERNAL, "list the containers", status, body, err, &j->err);
    } else if (sg_docker_read_list(body, &j->arena, take_name, names, &j->err) == 0 &&
               sg_texts_pack(names->v, &store, &m.l_listed.names, &j->err) == 0) {
        sg_keeper_send(j->keeper, &m);
        free_job(j);
        return;
    }
    fail_job(j, &j->err);
}

static void list(struct sg_keeper *k, const struct sg_msg *m)
{
    struct sg_keeper_job *j = new_job(k, m);
    sg_auto_free char *filter = sg_printf("{\"label\":[\"%s=%s\"]}", SG_DOCKER_LABEL, k->o.service);
    char *escaped = curl_easy_escape(NULL, filter, 0);
    sg_auto_free char *path =
        sg_printf("/containers/json?all=1&filters=%s", escaped ? escaped : "");
    curl_free(escaped);
    call(j, "GET", path, NOTHING, CALL_MS, on_list);
}

/* ---- all of them ---- */

void sg_keeper_work(struct sg_keeper *k, const struct sg_msg *m)
{
    static void (*const rows[SG_MSG_TYPE_COUNT])(struct sg_keeper *, const struct sg_msg *) = {
        [SG_MSG_K_MAKE] = make,
        [SG_MSG_K_REMOVE] = remove_one,
        [SG_MSG_K_LIST] = list,
    };
    rows[m->type](k, m);
}
