/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/permit.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/str.h"
#include "image/store.h"
#include "image/template.h"
#include "launcher/record.h"
#include "base/banned.h"

typedef int check_fn(const struct sg_permit *p, const struct sg_msg *m, struct sg_err *err);

static int check_sandbox(const struct sg_text *t, struct sg_err *err)
{
    if (!sg_id_is_valid(t->p, 's'))
        return sg_fail(err, SG_INVALID, "%s is not the id of a sandbox", sg_quote(t->p).s);
    return 0;
}

/* Never a path: `host` and what is stored, nothing else. */
static int check_template(const struct sg_text *t, struct sg_err *err)
{
    if (strcmp(t->p, "host") == 0 || sg_templates_is_image(t->p))
        return 0;
    return sg_template_check_name(t->p, err);
}

/* One of the Engine's, where the settings permit it. */
static int check_image(const struct sg_permit *p, const struct sg_text *t, struct sg_err *err)
{
    static const char some[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@-";
    if (t->n == 0 || t->n > SG_RECORD_TEMPLATE_MAX || strspn(t->p, some) != t->n ||
        strchr("._:/@-", t->p[0]) || strstr(t->p, ".."))
        return sg_fail(err, SG_INVALID, "%s is no name of an image", sg_quote(t->p).s);
    for (size_t i = 0; i < p->image_count; i++)
        if (fnmatch(p->images[i], t->p, 0) == 0)
            return 0;
    return sg_fail(err, SG_DENIED, "image %s is not among docker.images of the settings",
                   sg_quote(t->p).s);
}

/* 0 is "as it is" or "the usual". */
static int check_limits(const struct sg_permit *p, const struct sg_msg_l_create *c,
                        struct sg_err *err)
{
    const struct {
        const char *name;
        uint64_t value, least, most;
    } rows[] = {
        { "memory", c->mem_bytes, p->least.mem_bytes, p->most.mem_bytes },
        { "cpu", c->cpu_milli, p->least.cpu_milli, p->most.cpu_milli },
        { "processes", c->pids, p->least.pids, p->most.pids },
        { "disk", c->disk_bytes, p->least.disk_bytes, p->most.disk_bytes },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        if (!rows[i].value)
            continue;
        if (rows[i].value < rows[i].least)
            return sg_fail(err, SG_INVALID, "%s: %" PRIu64 " is below the least, %" PRIu64,
                           rows[i].name, rows[i].value, rows[i].least);
        if (rows[i].value > rows[i].most)
            return sg_fail(err, SG_EXHAUSTED, "%s: %" PRIu64 " is over what is allowed, %" PRIu64,
                           rows[i].name, rows[i].value, rows[i].most);
    }
    return 0;
}

static int check_hello(const struct sg_permit *p, const struct sg_msg *m, struct sg_err *err)
{
    (void)p;
    if (m->l_hello.version != SG_CTL_VERSION)
        return sg_fail(err, SG_UNSUPPORTED, "control version %" PRIu32 " is not %d",
                       m->l_hello.version, SG_CTL_VERSION);
    return 0;
}

static int check_volume_id(const struct sg_text *t, struct sg_err *err)
{
    if (!sg_id_is_valid(t->p, 'v'))
        return sg_fail(err, SG_INVALID, "%s is not the id of a volume", sg_quote(t->p).s);
    return 0;
}

/* Never "..", "." or empty: whoever reads the path sees where it leads. */
static int check_place(const char *path, struct sg_err *err)
{
    if (path[0] != '/' || !path[1])
        return sg_fail(err, SG_INVALID, "%s is no place for a volume", sg_quote(path).s);
    for (const char *at = path; *at; at += 1 + strcspn(at + 1, "/")) {
        const size_t n = strcspn(at + 1, "/");
        if (!n || (at[1] == '.' && (n == 1 || (n == 2 && at[2] == '.'))))
            return sg_fail(err, SG_INVALID, "%s is not a plain path", sg_quote(path).s);
    }
    return 0;
}

/* Volume, path and mode of each. */
static int check_mounts(const struct sg_msg_l_create *c, struct sg_err *err)
{
    struct sg_texts list = c->mounts;
    struct sg_text volume, path, mode;
    if (list.count && c->tier != SG_L_TIER_GVISOR)
        return sg_fail(err, SG_INVALID, "volumes of this tier are mounted later");
    if (list.count % 3 || list.count > SG_L_MOUNTS_MAX * 3)
        return sg_fail(err, SG_INVALID, "%u words are no list of volumes", list.count);
    while (sg_text_next(&list, &volume) && sg_text_next(&list, &path) &&
           sg_text_next(&list, &mode)) {
        if (check_volume_id(&volume, err) < 0 || check_place(path.p, err) < 0)
            return -1;
        if (strcmp(mode.p, "ro") != 0 && strcmp(mode.p, "rw") != 0)
            return sg_fail(err, SG_INVALID, "%s is neither ro nor rw", sg_quote(mode.p).s);
    }
    return 0;
}

static int check_create(const struct sg_permit *p, const struct sg_msg *m, struct sg_err *err)
{
    const struct sg_text *template = &m->l_create.template;
    const bool is_image = m->l_create.tier == SG_L_TIER_DOCKER && strpbrk(template->p, ":/@");
    if (check_sandbox(&m->l_create.sandbox, err) < 0 ||
        (is_image ? check_image(p, template, err) : check_template(template, err)) < 0 ||
        check_mounts(&m->l_create, err) < 0)
        return -1;
    return check_limits(p, &m->l_create, err);
}

static int check_limit(const struct sg_permit *p, const struct sg_msg *m, struct sg_err *err)
{
    if (check_sandbox(&m->l_create.sandbox, err) < 0)
        return -1;
    return check_limits(p, &m->l_create, err);
}

static int check_name(const struct sg_permit *p, const struct sg_msg *m, struct sg_err *err)
{
    (void)p;
    return check_sandbox(&m->l_name.sandbox, err);
}

static int check_snapshot_id(const struct sg_text *t, struct sg_err *err)
{
    if (!sg_id_is_valid(t->p, 't'))
        return sg_fail(err, SG_INVALID, "%s is not the id of a snapshot", sg_quote(t->p).s);
    return 0;
}

static int check_snapshot(const struct sg_permit *p, const struct sg_msg *m, struct sg_err *err)
{
    (void)p;
    if (check_sandbox(&m->l_snapshot.sandbox, err) < 0)
        return -1;
    return check_snapshot_id(&m->l_snapshot.snapshot, err);
}

static int check_forget(const struct sg_permit *p, const struct sg_msg *m, struct sg_err *err)
{
    (void)p;
    return check_snapshot_id(&m->l_forget.snapshot, err);
}

static int check_net(const struct sg_permit *p, const struct sg_msg *m, struct sg_err *err)
{
    (void)p;
    return check_sandbox(&m->l_net.sandbox, err);
}

static int check_volume(const struct sg_permit *p, const struct sg_msg *m, struct sg_err *err)
{
    (void)p;
    return check_volume_id(&m->l_volume.volume, err);
}

static int check_volume_make(const struct sg_permit *p, const struct sg_msg *m, struct sg_err *err)
{
    if (check_volume_id(&m->l_volume.volume, err) < 0)
        return -1;
    if (m->l_volume.bytes < p->least.disk_bytes || m->l_volume.bytes > p->most.disk_bytes)
        return sg_fail(err, SG_INVALID, "%" PRIu64 " bytes are no size for a volume",
                       m->l_volume.bytes);
    return 0;
}

static int check_mount(const struct sg_permit *p, const struct sg_msg *m, struct sg_err *err)
{
    (void)p;
    if (check_sandbox(&m->l_mount.sandbox, err) < 0 || check_volume_id(&m->l_mount.volume, err) < 0)
        return -1;
    return check_place(m->l_mount.path.p, err);
}

static int check_identify(const struct sg_permit *p, const struct sg_msg *m, struct sg_err *err)
{
    (void)p;
    return check_template(&m->l_identify.template, err);
}

static int check_nothing(const struct sg_permit *p, const struct sg_msg *m, struct sg_err *err)
{
    (void)p, (void)m, (void)err;
    return 0;
}

static const struct {
    check_fn *check;
    bool is_first; /* may come before hello */
} rows[SG_MSG_TYPE_COUNT] = {
    [SG_MSG_L_HELLO] = { check_hello, true },
    [SG_MSG_L_CREATE] = { check_create, false },
    [SG_MSG_L_ADOPT] = { check_name, false },
    [SG_MSG_L_DESTROY] = { check_name, false },
    [SG_MSG_L_FREEZE] = { check_name, false },
    [SG_MSG_L_THAW] = { check_name, false },
    [SG_MSG_L_RECLAIM] = { check_name, false },
    [SG_MSG_L_LIMIT] = { check_limit, false },
    [SG_MSG_L_STATS] = { check_name, false },
    [SG_MSG_L_GAUGE] = { check_name, false },
    [SG_MSG_L_LIST] = { check_nothing, false },
    [SG_MSG_L_POOL] = { check_nothing, false },
    [SG_MSG_L_TEMPLATES] = { check_nothing, false },
    [SG_MSG_L_SNAPSHOT] = { check_snapshot, false },
    [SG_MSG_L_FORGET] = { check_forget, false },
    [SG_MSG_L_SNAPSHOTS] = { check_nothing, false },
    [SG_MSG_L_STORAGE] = { check_nothing, false },
    [SG_MSG_L_VOLUME_MAKE] = { check_volume_make, false },
    [SG_MSG_L_VOLUME_LIMIT] = { check_volume_make, false },
    [SG_MSG_L_VOLUME_REMOVE] = { check_volume, false },
    [SG_MSG_L_VOLUME_USE] = { check_volume, false },
    [SG_MSG_L_MOUNT] = { check_mount, false },
    [SG_MSG_L_SYNC] = { check_nothing, false },
    [SG_MSG_L_UNFOLD] = { check_name, false },
    [SG_MSG_L_RULES] = { check_nothing, false },
    [SG_MSG_L_NET] = { check_net, false },
    [SG_MSG_L_IDENTIFY] = { check_identify, false },
    [SG_MSG_L_IMAGE] = { check_nothing, false }, /* cli/image_work.c looks at what is asked */
};

int sg_permit_check(const struct sg_permit *p, bool has_hello, const struct sg_msg *m,
                    struct sg_err *err)
{
    const char *name = sg_msg_table[m->type].name;
    if (!rows[m->type].check)
        return sg_fail(err, SG_DENIED, "%s is nothing that may be asked for", name);
    if (!has_hello && !rows[m->type].is_first)
        return sg_fail(err, SG_DENIED, "%s before l_hello", name);
    if (rows[m->type].check(p, m, err) < 0)
        return sg_wrap(err, "%s", name);
    return 0;
}
