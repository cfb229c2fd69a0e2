/* SPDX-License-Identifier: Apache-2.0 */
/* Templates of ours as images of the Engine:
 *
 *     import   a tar from a pipe becomes an image without a name, with our label; made: its id
 *     tag      ... gets its name: whoever packed it says that it is whole
 *     forget   an image of ours, or what an import left
 *     images   by label: names of ours, and ids of what has none
 *
 * I1. An image has a name only when all of it is there: whoever dies meanwhile leaves one that is
 *     found by its label and removed. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "keeper/work.h"
#include "base/banned.h"

enum { QUERY_BYTES = 64 << 10 };

/* ---- lists ---- */

struct names {
    char *v[SG_JOB_NAMES_MAX + 1];
    size_t n;
};

static void take_name(void *arg, const char *name)
{
    struct names *names = arg;
    if (names->n < SG_JOB_NAMES_MAX)
        names->v[names->n++] = (char *)(uintptr_t)name; /* of the job's arena */
}

void sg_job_answer_names(struct sg_keeper_job *j, const char *what,
                         int (*read)(struct sg_str body, struct sg_arena *a,
                                     void (*each)(void *arg, const char *name), void *arg,
                                     struct sg_err *err),
                         unsigned status, struct sg_str body, const struct sg_err *err)
{
    sg_auto_free struct names *names = sg_new(struct names);
    sg_auto_buf store;
    sg_buf_init(&store, SG_CTL_MAX_BYTES);
    struct sg_msg m = { .type = SG_MSG_K_LISTED, .id = j->id };
    if (err || status != 200) {
        sg_job_explain(j, SG_INTERNAL, what, status, body, err, &j->err);
    } else if (read(body, &j->arena, take_name, names, &j->err) == 0 &&
               sg_texts_pack(names->v, &store, &m.l_listed.names, &j->err) == 0) {
        sg_keeper_send(j->keeper, &m);
        sg_job_free(j);
        return;
    }
    sg_job_fail(j, &j->err);
}

char *sg_job_path_of_ours(const struct sg_keeper_job *j, const char *path)
{
    sg_auto_buf out;
    sg_buf_init(&out, QUERY_BYTES);
    sg_auto_free char *filter =
        sg_printf("{\"label\":[\"%s=%s\"]}", SG_DOCKER_LABEL, j->keeper->o.service);
    sg_buf_addf(&out, "%sfilters=", path);
    sg_docker_escape(&out, filter);
    return sg_strdup(sg_buf_cstr(&out));
}

static void on_images(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    sg_job_answer_names(arg, "list the images", sg_docker_read_images, status, body, err);
}

void sg_work_images(struct sg_keeper *k, const struct sg_msg *m)
{
    struct sg_keeper_job *j = sg_job_new(k, m);
    sg_auto_free char *path = sg_job_path_of_ours(j, "/images/json?");
    sg_job_call(j, "GET", path, SG_NOTHING, SG_CALL_MS, on_images);
}

/* ---- import ---- */

static void on_imported(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    struct sg_keeper_job *j = arg;
    const char *id;
    struct sg_msg m = { .type = SG_MSG_K_MADE, .id = j->id };
    if (err || status != 200)
        sg_job_explain(j, SG_INTERNAL, "import the template", status, body, err, &j->err);
    else if (sg_docker_read_imported(body, &j->arena, &id, &j->err) == 0) {
        m.k_made.image = sg_text_of(id);
        sg_keeper_send(j->keeper, &m);
        sg_job_free(j);
        return;
    }
    sg_job_fail(j, &j->err);
}

void sg_work_import(struct sg_keeper *k, const struct sg_msg *m)
{
    struct sg_keeper_job *j = sg_job_new(k, m);
    struct sg_texts env = m->k_import.env;
    sg_auto_fd fd = sg_packet_take_fd(&k->packet, 0);
    sg_auto_buf path;
    sg_buf_init(&path, QUERY_BYTES);
    sg_docker_write_import(&path, k->o.service);
    for (struct sg_text t; sg_text_next(&env, &t);)
        sg_docker_write_import_env(&path, t.p);
    if (fd < 0 || path.has_overflowed) {
        sg_fail(&j->err, SG_INVALID, "there is nothing to import, or too much to say of it");
        sg_job_fail(j, &j->err);
        return;
    }
    sg_http_send(k->http, sg_buf_cstr(&path), sg_take_fd(&fd), SG_PULL_MS, on_imported, j);
}

/* ---- names ---- */

static void answer_done(struct sg_keeper_job *j)
{
    struct sg_msg m = { .type = SG_MSG_K_DONE, .id = j->id };
    sg_keeper_send(j->keeper, &m);
    sg_job_free(j);
}

static void on_tagged(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    struct sg_keeper_job *j = arg;
    if (!err && status == 201) {
        answer_done(j);
        return;
    }
    sg_job_explain(j, SG_INTERNAL, "name the image", status, body, err, &j->err);
    sg_job_fail(j, &j->err);
}

void sg_work_tag(struct sg_keeper *k, const struct sg_msg *m)
{
    struct sg_keeper_job *j = sg_job_new(k, m);
    const char *image = m->k_image.image.p, *id = m->k_image.id.p;
    if (sg_docker_check_template(image, &j->err) < 0 || sg_docker_check_id(id, &j->err) < 0) {
        sg_job_fail(j, &j->err);
        return;
    }
    sg_auto_free char *path =
        sg_printf("/images/%s/tag?repo=" SG_DOCKER_TEMPLATES "&tag=%s", id, strchr(image, ':') + 1);
    sg_job_call(j, "POST", path, SG_NOTHING, SG_CALL_MS, on_tagged);
}

/* SG_CONFLICT: a container has it. */
static void on_forgotten(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    struct sg_keeper_job *j = arg;
    if (!err && (status == 200 || status == 404)) {
        answer_done(j);
        return;
    }
    sg_job_explain(j, status == 409 ? SG_CONFLICT : SG_INTERNAL, "remove an image", status, body,
                   err, &j->err);
    sg_job_fail(j, &j->err);
}

void sg_work_forget(struct sg_keeper *k, const struct sg_msg *m)
{
    struct sg_keeper_job *j = sg_job_new(k, m);
    const char *image = m->k_image.image.p;
    if (sg_docker_check_template(image, NULL) < 0 && sg_docker_check_id(image, &j->err) < 0) {
        sg_job_fail(j, &j->err);
        return;
    }
    sg_auto_free char *path = sg_printf("/images/%s", image);
    sg_job_call(j, "DELETE", path, SG_NOTHING, SG_CALL_MS, on_forgotten);
}
