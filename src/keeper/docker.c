/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/docker.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "base/banned.h"

enum { NAME_MAX_BYTES = 200, LINE_ARENA = 64 << 10 };

/* ---- names ---- */

static bool is_of(const char *s, const char *extra)
{
    for (; *s; s++)
        if (!islower((unsigned char)*s) && !isdigit((unsigned char)*s) && !strchr(extra, *s))
            return false;
    return true;
}

int sg_docker_check_image(const char *name, struct sg_err *err)
{
    const size_t n = strlen(name);
    if (n == 0 || n > NAME_MAX_BYTES || !isalnum((unsigned char)name[0]) || strstr(name, "..") ||
        strstr(name, "//") || name[n - 1] == '/')
        return sg_fail(err, SG_INVALID, "%s is no name of an image", sg_quote(name).s);
    for (const char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._:/@-", *p))
            return sg_fail(err, SG_INVALID, "%s is no name of an image", sg_quote(name).s);
    return 0;
}

int sg_docker_check_name(const char *name, struct sg_err *err)
{
    const size_t n = strlen(SG_DOCKER_NAME_PREFIX);
    if (!sg_starts_with(name, SG_DOCKER_NAME_PREFIX) || !name[n] || strlen(name) > NAME_MAX_BYTES ||
        !is_of(name + n, ".-"))
        return sg_fail(err, SG_INVALID, "%s is no container of ours", sg_quote(name).s);
    return 0;
}

/* ---- what a container is to be ---- */

static void number(struct sg_json *j, const char *key, uint64_t value)
{
    if (!value)
        return;
    sg_json_key(j, key);
    sg_json_u64(j, value);
}

/* What may be written to. The launcher gives the last two to the user of the image: not every
 * Engine takes an owner. */
static const struct place {
    const char *path, *options;
} places[] = {
    { "/tmp", "mode=1777" },  { "/var/tmp", "mode=1777" },   { "/run", "mode=1777" },
    { "/root", "mode=0700" }, { "/workspace", "mode=0777" }, { "/home/user", "mode=0755" },
};

static bool is_ours(const char *path)
{
    for (size_t i = 0; i < SG_COUNT(places); i++)
        if (strcmp(path, places[i].path) == 0)
            return true;
    return false;
}

static void add_place(struct sg_json *j, const struct place *p, uint64_t bytes)
{
    char options[128], size[40] = "";
    if (bytes)
        (void)snprintf(size, sizeof size, ",size=%" PRIu64, bytes);
    (void)snprintf(options, sizeof options, "rw,exec,nosuid,nodev,%s%s", p->options, size);
    sg_json_put_str(j, p->path, options);
}

/* It lies in memory and counts as such; each place is limited by itself, too. Images may declare
 * volumes, which the Engine would make on its disk without any limit: those as well. */
static void write_tmpfs(struct sg_json *j, const struct sg_docker_spec *s,
                        const struct sg_docker_image *image)
{
    const struct sg_jval *v = image->volumes ? image->volumes->list.first : NULL;
    sg_json_key(j, "Tmpfs");
    sg_json_open(j, '{');
    for (size_t i = 0; i < SG_COUNT(places); i++)
        add_place(j, &places[i], s->disk_bytes);
    for (; v; v = v->next)
        if (v->key.p[0] == '/' && v->key.p[1] && !strchr(v->key.p, ':') && !is_ours(v->key.p))
            add_place(j, &(struct place) { v->key.p, "mode=1777" }, s->disk_bytes);
    sg_json_close(j, '}');
}

static void write_ulimit(struct sg_json *j, const char *name, uint64_t value)
{
    if (!value)
        return;
    sg_json_open(j, '{');
    sg_json_put_str(j, "Name", name);
    number(j, "Soft", value);
    number(j, "Hard", value);
    sg_json_close(j, '}');
}

static void write_limits(struct sg_json *j, const struct sg_docker_spec *s)
{
    number(j, "Memory", s->mem_bytes);
    number(j, "MemorySwap", s->mem_bytes); /* together: no swap on top */
    number(j, "NanoCpus", s->cpu_milli * 1000000);
    number(j, "PidsLimit", s->pids);
    sg_json_key(j, "Ulimits");
    sg_json_open(j, '[');
    write_ulimit(j, "nofile", s->open_files);
    write_ulimit(j, "nproc", s->user_processes);
    sg_json_close(j, ']');
}

/* Not "Binds": those make a directory on the host where there is none. */
static void write_mount(struct sg_json *j, const char *dir)
{
    sg_json_key(j, "Mounts");
    sg_json_open(j, '[');
    sg_json_open(j, '{');
    sg_json_put_str(j, "Type", "bind");
    sg_json_put_str(j, "Source", dir);
    sg_json_put_str(j, "Target", SG_DOCKER_DIR);
    sg_json_put_bool(j, "ReadOnly", true);
    sg_json_close(j, '}');
    sg_json_close(j, ']');
}

static void write_host(struct sg_json *j, const struct sg_docker_spec *s,
                       const struct sg_docker_image *image)
{
    static const char *const drop[] = { "ALL", NULL };
    static const char *const add[] = { "SETUID", "SETGID", "KILL", "CHOWN", "DAC_OVERRIDE", NULL };
    static const char *const security[] = { "no-new-privileges:true", NULL };
    static const char *const dns[] = { "198.18.0.1", NULL }; /* the gate answers for any */
    sg_json_key(j, "HostConfig");
    sg_json_open(j, '{');
    sg_json_put_str(j, "NetworkMode", "none");
    sg_json_put_str(j, "IpcMode", "private");
    sg_json_put_str(j, "CgroupnsMode", "private");
    sg_json_put_bool(j, "ReadonlyRootfs", true);
    sg_json_put_bool(j, "Privileged", false);
    sg_json_put_bool(j, "AutoRemove",
                     true); /* whoever dies first, nothing of it stays in the Engine */
    sg_json_put_strs(j, "CapDrop", drop);
    sg_json_put_strs(j, "CapAdd", add);
    sg_json_put_strs(j, "SecurityOpt", security);
    write_mount(j, s->dir);
    sg_json_put_strs(j, "Dns", dns);
    write_limits(j, s);
    write_tmpfs(j, s, image);
    sg_json_key(j, "LogConfig");
    sg_json_open(j, '{');
    sg_json_put_str(j, "Type", "none");
    sg_json_close(j, '}');
    sg_json_key(j, "RestartPolicy");
    sg_json_open(j, '{');
    sg_json_put_str(j, "Name", "no");
    sg_json_close(j, '}');
    sg_json_close(j, '}');
}

void sg_docker_write_create(const struct sg_docker_spec *s, const struct sg_docker_image *image,
                            struct sg_buf *out)
{
    static const char *const entry[] = { SG_DOCKER_DIR "/init", SG_DOCKER_DIR "/ctl", NULL };
    static const char *const nothing[] = { NULL };
    static const char *const no_check[] = { "NONE", NULL };
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "Image", s->image);
    sg_json_put_str(&j, "Hostname", "sandbox");
    sg_json_put_str(&j, "User", "0:0");
    sg_json_put_str(&j, "WorkingDir", "/");
    sg_json_put_str(&j, "StopSignal", "SIGKILL"); /* init takes no other */
    sg_json_put_strs(&j, "Entrypoint", entry);
    sg_json_put_strs(&j, "Cmd", nothing);
    sg_json_put_bool(&j, "AttachStdout", false);
    sg_json_put_bool(&j, "AttachStderr", false);
    sg_json_key(&j, "Healthcheck");
    sg_json_open(&j, '{');
    sg_json_put_strs(&j, "Test", no_check);
    sg_json_close(&j, '}');
    sg_json_key(&j, "Labels");
    sg_json_open(&j, '{');
    sg_json_put_str(&j, SG_DOCKER_LABEL, s->service);
    sg_json_close(&j, '}');
    write_host(&j, s, image);
    sg_json_close(&j, '}');
}

/* ---- answers ---- */

static int parse(struct sg_str body, const char *what, struct sg_arena *a, enum sg_jkind kind,
                 const struct sg_jval **ret, struct sg_err *err)
{
    const struct sg_jval *v;
    if (sg_json_parse(body, a, &v, err) < 0)
        return sg_wrap(err, "the Engine's answer (%s)", what);
    if (v->kind != kind)
        return sg_fail(err, SG_INVALID, "the Engine's answer (%s) is not what it should be", what);
    *ret = v;
    return 0;
}

static const char *text_of(const struct sg_jval *object, const char *key)
{
    const struct sg_jval *v = sg_json_get(object, key);
    return v && v->kind == SG_J_STRING && strlen(v->s.p) == v->s.n ? v->s.p : NULL;
}

static const struct sg_jval *of_kind(const struct sg_jval *object, const char *key,
                                     enum sg_jkind kind)
{
    const struct sg_jval *v = sg_json_get(object, key);
    return v && v->kind == kind ? v : NULL;
}

int sg_docker_read_image(struct sg_str body, struct sg_arena *a, struct sg_docker_image *ret,
                         struct sg_err *err)
{
    const struct sg_jval *v;
    if (parse(body, "image", a, SG_J_OBJECT, &v, err) < 0)
        return -1;
    const struct sg_jval *config = sg_json_get(v, "Config");
    const char *id = text_of(v, "Id");
    if (!id)
        return sg_fail(err, SG_INVALID, "the Engine's answer (image) has no id");
    *ret = (struct sg_docker_image) { .id = id,
                                      .env = of_kind(config, "Env", SG_J_ARRAY),
                                      .volumes = of_kind(config, "Volumes", SG_J_OBJECT) };
    return 0;
}

int sg_docker_read_created(struct sg_str body, struct sg_arena *a, const char **ret_id,
                           struct sg_err *err)
{
    const struct sg_jval *v;
    if (parse(body, "create", a, SG_J_OBJECT, &v, err) < 0)
        return -1;
    const char *id = text_of(v, "Id");
    if (!id || !*id || !is_of(id, ""))
        return sg_fail(err, SG_INVALID, "the Engine's answer (create) has no id");
    *ret_id = id;
    return 0;
}

int sg_docker_read_list(struct sg_str body, struct sg_arena *a,
                        void (*each)(void *arg, const char *name), void *arg, struct sg_err *err)
{
    const struct sg_jval *v;
    if (parse(body, "list", a, SG_J_ARRAY, &v, err) < 0)
        return -1;
    for (const struct sg_jval *row = v->list.first; row; row = row->next) {
        const struct sg_jval *names = of_kind(row, "Names", SG_J_ARRAY);
        for (const struct sg_jval *n = names ? names->list.first : NULL; n; n = n->next) {
            if (n->kind != SG_J_STRING || strlen(n->s.p) != n->s.n)
                continue;
            const char *name = n->s.p + (n->s.p[0] == '/'); /* podman leaves it out */
            if (sg_docker_check_name(name, NULL) == 0)
                each(arg, name);
        }
    }
    return 0;
}

int sg_docker_read_version(struct sg_str body, struct sg_arena *a, const char **ret,
                           bool *ret_is_podman, struct sg_err *err)
{
    const struct sg_jval *v;
    if (parse(body, "version", a, SG_J_OBJECT, &v, err) < 0)
        return -1;
    const char *version = text_of(v, "Version");
    const struct sg_jval *parts = of_kind(v, "Components", SG_J_ARRAY);
    *ret_is_podman = false;
    for (const struct sg_jval *p = parts ? parts->list.first : NULL; p; p = p->next) {
        const char *name = p->kind == SG_J_OBJECT ? text_of(p, "Name") : NULL;
        *ret_is_podman |= name && sg_starts_with(name, "Podman");
    }
    *ret = version && strlen(version) < 100 ? version : "of no version";
    return 0;
}

/* Control characters are no part of a line. */
static void copy_line(const char *s, char *ret, size_t cap)
{
    size_t n = 0;
    for (; *s && n + 1 < cap; s++)
        ret[n++] = (unsigned char)*s < ' ' || *s == 0x7f ? ' ' : *s;
    ret[n] = '\0';
}

void sg_docker_read_message(struct sg_str body, char *ret, size_t cap)
{
    struct sg_arena a;
    const struct sg_jval *v;
    ret[0] = '\0';
    sg_arena_init(&a, LINE_ARENA);
    if (sg_json_parse(body, &a, &v, NULL) == 0) {
        const char *message = text_of(v, "message");
        copy_line(message ? message : "", ret, cap);
    }
    sg_arena_done(&a);
}

int sg_docker_read_pull(struct sg_str body, struct sg_err *err)
{
    while (body.n) {
        const char *end = memchr(body.p, '\n', body.n);
        const struct sg_str line = { body.p, end ? (size_t)(end - body.p) : body.n };
        struct sg_arena a;
        const struct sg_jval *v;
        char why[160] = "";
        sg_arena_init(&a, LINE_ARENA);
        if (sg_json_parse(line, &a, &v, NULL) == 0) {
            const char *error = text_of(v, "error");
            copy_line(error ? error : "", why, sizeof why);
        }
        sg_arena_done(&a);
        if (*why)
            return sg_fail(err, SG_NOT_FOUND, "%s", why);
        body.p += line.n + (end ? 1 : 0);
        body.n -= line.n + (end ? 1 : 0);
    }
    return 0;
}
