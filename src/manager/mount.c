/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes of one sandbox: what may be mounted where, and the steps that do it. The directory is
 * made by init, inside; the launcher attaches the volume to it, through no link. Nothing of the
 * caller's runs in the cell before that is done. */
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/life.h"
#include "manager/volume.h"
#include "tier/tier.h"

#include "base/banned.h"

enum { PLACE_MAX = 1024, MODE_DIR = 0755 };

/* ---- rules ---- */

static bool is_plain(const char *path)
{
    if (path[0] != '/' || !path[1] || strlen(path) > PLACE_MAX)
        return false;
    for (const char *at = path; *at; at += 1 + strcspn(at + 1, "/")) {
        const size_t n = strcspn(at + 1, "/");
        if (!n || n > 255 || (at[1] == '.' && (n == 1 || (n == 2 && at[2] == '.'))))
            return false;
    }
    return true;
}

/* The same, or above it. */
static bool is_over(const char *over, const char *path)
{
    const size_t n = strlen(over);
    return strncmp(over, path, n) == 0 && (path[n] == '/' || !path[n]);
}

int sg_mount_check_place(const char *path, struct sg_err *err)
{
    static const char *const kept[] = { "/proc", "/sys", "/dev", "/etc", "/usr", "/.sandglass" };
    if (!is_plain(path))
        return sg_fail(err, SG_INVALID, "%s is not an absolute, plain path for a volume",
                       sg_quote(path).s);
    for (size_t i = 0; i < SG_COUNT(kept); i++)
        if (is_over(kept[i], path))
            return sg_fail(err, SG_INVALID, "a volume cannot be mounted in %s", kept[i]);
    return 0;
}

int sg_mounts_check(struct sg_manager *m, const struct sg_who *who, const struct sg_mount_spec *v,
                    size_t n, struct sg_err *err)
{
    if (n > SG_MOUNTS_MAX)
        return sg_fail(err, SG_INVALID, "a sandbox has at most %d volumes", SG_MOUNTS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (sg_mount_check_place(v[i].path, err) < 0)
            return -1;
        if (!sg_volume_find(m, who, v[i].volume, NULL))
            return sg_fail(err, SG_INVALID, "volume %s not found", sg_quote(v[i].volume).s);
        for (size_t k = 0; k < n; k++)
            if (k != i && is_over(v[k].path, v[i].path))
                return sg_fail(err, SG_INVALID, "two volumes at %s", sg_quote(v[i].path).s);
    }
    return 0;
}

void sg_mounts_add(struct sg_sandbox *s, const char *volume, const char *path, bool is_read_only)
{
    struct sg_mounts *all = &s->mounts;
    struct sg_mount *v = sg_alloc((all->n + 1) * sizeof *v);
    if (all->n)
        memcpy(v, all->v, all->n * sizeof *v);
    free(all->v);
    all->v = v;
    v[all->n] = (struct sg_mount) { .path = sg_strdup(path), .is_read_only = is_read_only };
    (void)snprintf(v[all->n].volume, sizeof v[all->n].volume, "%s", volume);
    all->n++;
}

void sg_mounts_copy(struct sg_sandbox *s, const struct sg_who *who, const struct sg_mount_spec *v,
                    size_t n)
{
    for (size_t i = 0; i < n; i++)
        sg_mounts_add(s, sg_volume_find(s->manager, who, v[i].volume, NULL)->id.s, v[i].path,
                      v[i].is_read_only);
}

void sg_mounts_done(struct sg_sandbox *s)
{
    for (size_t i = 0; i < s->mounts.n; i++)
        free(s->mounts.v[i].path);
    free(s->mounts.v);
    s->mounts = (struct sg_mounts) { 0 };
}

/* Behind a wall with a kernel of its own nothing can be mounted later: those come with the create.
 */
static bool are_ahead(const struct sg_sandbox *s)
{
    return s->wall == SG_WALL_GVISOR;
}

char *const *sg_mounts_ahead(const struct sg_sandbox *s, char *ret[SG_MOUNTS_TEXTS])
{
    static char rw[] = "rw", ro[] = "ro";
    if (!are_ahead(s) || !s->mounts.n)
        return NULL;
    size_t n = 0;
    for (size_t i = 0; i < s->mounts.n && i < SG_MOUNTS_MAX; i++) {
        ret[n++] = s->mounts.v[i].volume;
        ret[n++] = s->mounts.v[i].path;
        ret[n++] = s->mounts.v[i].is_read_only ? ro : rw;
    }
    ret[n] = NULL;
    return ret;
}

/* ---- steps; an error of one is left for whoever comes after ---- */

static void mount_next(struct sg_sandbox *s);

static void mounted(struct sg_sandbox *s)
{
    if (s->life->err.kind != SG_OK) {
        s->life->after_mounts(s);
        return;
    }
    s->life->mount_at++;
    mount_next(s);
}

static void place_made(struct sg_sandbox *s)
{
    if (s->life->err.kind != SG_OK) {
        s->life->after_mounts(s);
        return;
    }
    const struct sg_mount *v = &s->mounts.v[s->life->mount_at];
    sg_life_expect(s, 1, mounted);
    sg_tier_mount(s->manager->tier, s->id.s, v->volume, v->path, v->is_read_only,
                  sg_life_tier_answer, s);
}

static void mount_next(struct sg_sandbox *s)
{
    struct sg_life *life = s->life;
    struct sg_err err = { 0 };
    if (life->mount_at == s->mounts.n && !s->is_internal) {
        life->after_mounts(s);
        return;
    }
    const bool is_all = life->mount_at == s->mounts.n;
    sg_life_expect(s, 1, is_all ? life->after_mounts : place_made);
    struct sg_msg m = { .type = SG_MSG_MAKE };
    if (!s->peer)
        (void)sg_fail(&err, SG_UNAVAILABLE, "the new sandbox ended");
    else if (is_all)
        (void)sg_cell_hello(s, sg_life_tier_answer, &err); /* from now on it shows nothing else */
    else {
        m.make =
            (struct sg_msg_make) { sg_text_of("root"), sg_text_of(s->mounts.v[life->mount_at].path),
                                   SG_MAKE_PARENTS, MODE_DIR };
        (void)sg_peer_ask(s->peer, &m, NULL, 0, sg_life_tier_answer, s, &err);
    }
    if (err.kind != SG_OK)
        sg_life_got(s, &err);
}

void sg_mounts_begin(struct sg_sandbox *s, void (*next)(struct sg_sandbox *s))
{
    s->life->mount_at = are_ahead(s) ? s->mounts.n : 0;
    s->life->after_mounts = next;
    mount_next(s);
}
