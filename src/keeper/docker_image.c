/* SPDX-License-Identifier: Apache-2.0 */
/* Images that are templates of ours: their names, and what is said about them. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/jsonr.h"
#include "keeper/docker.h"
#include "base/banned.h"

enum { HEX_DIGITS = 64, TAG_MAX = 128, LINE_ARENA = 64 << 10 };
#define ID_PREFIX "sha256:"

int sg_docker_check_template(const char *image, struct sg_err *err)
{
    static const char prefix[] = SG_DOCKER_TEMPLATES ":";
    const char *tag = sg_starts_with(image, prefix) ? image + sizeof prefix - 1 : "";
    size_t n = 0;
    while (islower((unsigned char)tag[n]) || isdigit((unsigned char)tag[n]) ||
           (n && tag[n] && strchr("._-", tag[n])))
        n++;
    if (n == 0 || n > TAG_MAX || tag[n])
        return sg_fail(err, SG_INVALID, "%s is no template of ours", sg_quote(image).s);
    return 0;
}

int sg_docker_check_id(const char *id, struct sg_err *err)
{
    const size_t n = sizeof ID_PREFIX - 1;
    if (!sg_starts_with(id, ID_PREFIX) || strlen(id) != n + HEX_DIGITS ||
        strspn(id + n, "0123456789abcdef") != HEX_DIGITS)
        return sg_fail(err, SG_INVALID, "%s is no id of an image", sg_quote(id).s);
    return 0;
}

/* ---- what is asked ---- */

void sg_docker_escape(struct sg_buf *out, const char *text)
{
    for (; *text; text++)
        if (isalnum((unsigned char)*text) || strchr("-._~", *text))
            sg_buf_add(out, text, 1);
        else
            sg_buf_addf(out, "%%%02X", (unsigned)(unsigned char)*text);
}

/* A line of a Dockerfile: in quotes, with what means something there made harmless. */
static void add_change(struct sg_buf *out, const char *words, const char *value)
{
    sg_auto_buf line;
    sg_buf_init(&line, 64 << 10);
    sg_buf_addf(&line, "%s=\"", words);
    for (; *value; value++) {
        if (strchr("\\\"$", *value))
            sg_buf_add_str(&line, "\\");
        sg_buf_add(&line, value, 1);
    }
    sg_buf_add_str(&line, "\"");
    sg_buf_add_str(out, "&changes=");
    sg_docker_escape(out, sg_buf_cstr(&line));
}

void sg_docker_write_import(struct sg_buf *out, const char *service)
{
    sg_buf_add_str(out, "/images/create?fromSrc=-");
    add_change(out, "LABEL " SG_DOCKER_LABEL, service);
}

void sg_docker_write_import_env(struct sg_buf *out, const char *variable)
{
    const char *eq = strchr(variable, '=');
    const char *p = variable;
    while (isalnum((unsigned char)*p) || *p == '_')
        p++;
    if (p != eq || p == variable || isdigit((unsigned char)variable[0]))
        return;
    for (p = eq; *p; p++)
        if ((unsigned char)*p < ' ')
            return; /* no line can have it */
    sg_auto_free char *words = sg_printf("ENV %.*s", (int)(eq - variable), variable);
    add_change(out, words, eq + 1);
}

/* ---- what comes back ---- */

static const char *text_of(const struct sg_jval *object, const char *key)
{
    const struct sg_jval *v = sg_json_get(object, key);
    return v && v->kind == SG_J_STRING && strlen(v->s.p) == v->s.n ? v->s.p : NULL;
}

/* Lines of JSON; the last "status" that is an id counts. */
int sg_docker_read_imported(struct sg_str body, struct sg_arena *a, const char **ret_id,
                            struct sg_err *err)
{
    const char *id = NULL;
    if (sg_docker_read_pull(body, err) < 0)
        return -1;
    while (body.n) {
        const char *end = memchr(body.p, '\n', body.n);
        const struct sg_str line = { body.p, end ? (size_t)(end - body.p) : body.n };
        const struct sg_jval *v;
        if (sg_json_parse(line, a, &v, NULL) == 0 && v->kind == SG_J_OBJECT) {
            const char *status = text_of(v, "status");
            if (status && sg_docker_check_id(status, NULL) == 0)
                id = status;
        }
        body.p += line.n + (end ? 1 : 0);
        body.n -= line.n + (end ? 1 : 0);
    }
    if (!id)
        return sg_fail(err, SG_INVALID, "the Engine's answer (import) has no id");
    *ret_id = id;
    return 0;
}

/* Where none of its names is ours, it is told by its id. */
static void read_one(const struct sg_jval *row, void (*each)(void *arg, const char *name),
                     void *arg)
{
    const struct sg_jval *tags = row->kind == SG_J_OBJECT ? sg_json_get(row, "RepoTags") : NULL;
    const char *id = row->kind == SG_J_OBJECT ? text_of(row, "Id") : NULL;
    bool has_name = false;
    for (const struct sg_jval *t = tags && tags->kind == SG_J_ARRAY ? tags->list.first : NULL; t;
         t = t->next) {
        if (t->kind != SG_J_STRING || strlen(t->s.p) != t->s.n)
            continue;
        const char *slash = strrchr(t->s.p, '/'); /* podman says "localhost/" */
        const char *name = slash ? slash + 1 : t->s.p;
        if (sg_docker_check_template(name, NULL) < 0)
            continue;
        has_name = true;
        each(arg, name);
    }
    if (!has_name && id && sg_docker_check_id(id, NULL) == 0)
        each(arg, id);
}

int sg_docker_read_images(struct sg_str body, struct sg_arena *a,
                          void (*each)(void *arg, const char *name), void *arg, struct sg_err *err)
{
    const struct sg_jval *v;
    if (sg_json_parse(body, a, &v, err) < 0)
        return sg_wrap(err, "the Engine's answer (images)");
    if (v->kind != SG_J_ARRAY)
        return sg_fail(err, SG_INVALID, "the Engine's answer (images) is not what it should be");
    for (const struct sg_jval *row = v->list.first; row; row = row->next)
        read_one(row, each, arg);
    return 0;
}
