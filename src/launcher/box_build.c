/* SPDX-License-Identifier: Apache-2.0 */
/* What the cell of a box is to be, from its template, the settings and whoever waits for it. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "launcher/launcher.h"
#include "base/banned.h"

enum { TEXT_MAX = 128 << 10 };

/* Each its own, also of two that were made of the same files; who it will be is not known yet. */
static int name_host(struct sg_box *b, struct sg_err *err)
{
    uint32_t some;
    if (getrandom(&some, sizeof some, 0) != (ssize_t)sizeof some)
        return sg_fail_sys(err, "get random bytes");
    (void)snprintf(b->hostname, sizeof b->hostname, SG_CELL_HOSTNAME "-%08x", some);
    return 0;
}

/* ---- volumes of one that cannot get them later ---- */

struct volumes {
    int fds[SG_L_MOUNTS_MAX];
    char sources[SG_L_MOUNTS_MAX][32];
    size_t n;
};

static void volumes_done(struct volumes *v)
{
    for (size_t i = 0; i < v->n; i++)
        sg_drop_fd(&v->fds[i]);
}

/* As sg_mount_into() shows them: nosuid, nodev, with ids as seen inside. */
static int add_volumes(const struct sg_box *b, struct volumes *v, struct sg_cell_spec *spec,
                       struct sg_err *err)
{
    struct sg_texts list = b->pool ? b->pool->mounts : (struct sg_texts) { 0 };
    struct sg_text volume, path, mode;
    while (sg_text_next(&list, &volume) && sg_text_next(&list, &path) &&
           sg_text_next(&list, &mode) && v->n < SG_L_MOUNTS_MAX &&
           spec->bind_count < SG_CELL_MAX_BINDS) {
        const unsigned read_only = strcmp(mode.p, "ro") == 0 ? SG_BIND_READ_ONLY : 0;
        const int fd = sg_vault_open_part(&b->launcher->vault, SG_VAULT_VOLUME, volume.p, err);
        if (fd < 0)
            return -1;
        v->fds[v->n] = fd;
        (void)snprintf(v->sources[v->n], sizeof v->sources[0], "/proc/self/fd/%d", fd);
        spec->binds[spec->bind_count++] =
            (struct sg_bind) { v->sources[v->n], path.p,
                               SG_BIND_IDMAP | SG_BIND_APART | read_only };
        v->n++;
    }
    return list.count ? sg_fail(err, SG_INVALID, "too many volumes") : 0;
}

/* ---- all ---- */

static int fill(struct sg_box *b, struct sg_cell_spec *spec, struct sg_err *err)
{
    const struct sg_launcher *l = b->launcher;
    sg_tmpl_fill_spec(b->tmpl, l->set.is_rootless, spec);
    if (name_host(b, err) < 0)
        return -1;
    spec->hostname = b->hostname;
    spec->limits.is_pooled = b->record.disk[0] != '\0';
    spec->limits.disk_bytes = b->record.disk_bytes;
    if (b->pool && b->pool->pids)
        spec->limits.pids = b->pool->pids;
    if (l->gate.program)
        spec->resolv_conf = SG_CELL_RESOLV_CONF;
    spec->init_fd = l->init_fd;
    spec->has_init = true;
    return 0;
}

int sg_box_build(struct sg_box *b, struct sg_err *err)
{
    struct sg_launcher *l = b->launcher;
    __attribute__((cleanup(volumes_done))) struct volumes volumes = { .n = 0 };
    sg_auto_buf text;
    struct sg_nested nested;
    sg_buf_init(&text, TEXT_MAX);
    sg_auto_fd listener = sg_box_listen(l, b->record.slot, err);
    struct sg_cell_spec spec = { .limits = l->set.defaults, .listen_fd = listener, .disk_fd = -1 };
    if (listener < 0 || fill(b, &spec, err) < 0 || add_volumes(b, &volumes, &spec, err) < 0)
        return -1;
    sg_auto_fd disk = spec.limits.is_pooled
                          ? sg_vault_open_part(&l->vault, SG_VAULT_CELL, b->record.disk, err)
                          : -1;
    if (spec.limits.is_pooled && disk < 0)
        return -1;
    spec.disk_fd = disk;
    if (b->record.tier == SG_L_TIER_GVISOR) {
        if (sg_oci_fill(&l->oci, &spec, &text, &nested, err) < 0)
            return -1;
        spec.nested = &nested;
    }
    return sg_cell_build(b->cell, &spec, err);
}
