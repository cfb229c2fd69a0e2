/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/str.h"
#include "engine/ids.h"
#include "base/banned.h"

enum { MAGIC = 0x43455253 /* "SREC" */, VERSION = 3, NAME_MAX_ = 32 };

_Static_assert(sizeof(struct sg_record) == 1888, "a record has no holes: it is compared as bytes");

void sg_record_set_limits(struct sg_record *r, const struct sg_limits *l)
{
    r->mem_bytes = l->mem_bytes;
    r->cpu_milli = l->cpu_milli;
    r->pids = l->pids;
    r->disk_bytes = l->disk_bytes;
    r->open_files = l->open_files;
}

void sg_record_set_cgroup(struct sg_record *r, const struct sg_cgroup *g)
{
    r->is_v2 = g->is_v2;
    r->missing = g->missing;
    memcpy(r->groups, g->dirs, sizeof r->groups);
}

void sg_record_note(const struct sg_record *r, struct sg_kept_note *ret)
{
    *ret = (struct sg_kept_note) {
        .slot = r->slot,
        .pid = r->pid,
        .start_ticks = r->start_ticks,
        .limits = { r->mem_bytes, r->cpu_milli, r->pids, r->disk_bytes, r->open_files, false },
        .cgroup = { .is_v2 = r->is_v2,
                    .missing = r->missing,
                    .dir_count = r->is_v2 ? 1 : SG_GROUP_COUNT },
    };
    ret->limits.is_pooled = r->disk[0] != '\0';
    ret->is_foreign = r->container[0] != '\0';
    ret->is_nested = r->tier == SG_L_TIER_GVISOR;
    memcpy(ret->cgroup.dirs, r->groups, sizeof ret->cgroup.dirs);
    for (unsigned i = 0; i < SG_GROUP_COUNT; i++)
        ret->cgroup.dir_fds[i] = ret->cgroup.join_fds[i] = -1;
}

static void name_of(uint32_t slot, const char *ending, char ret[NAME_MAX_])
{
    (void)snprintf(ret, NAME_MAX_, "%u%s", (unsigned)slot, ending);
}

int sg_record_write(int dir_fd, struct sg_record *r, struct sg_err *err)
{
    char name[NAME_MAX_];
    name_of(r->slot, ".rec", name);
    r->magic = MAGIC;
    r->version = VERSION;
    sg_auto_fd fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || pwrite(fd, r, sizeof *r, 0) != (ssize_t)sizeof *r)
        return sg_fail_sys(err, "write the record of slot %u", (unsigned)r->slot);
    return 0;
}

static bool is_text(const char *p, size_t cap)
{
    return memchr(p, 0, cap) != NULL;
}

/* Directories are removed by these names: they are those of the slot, or none. */
static bool is_group(const char *path, uint32_t slot)
{
    char tail[32];
    (void)snprintf(tail, sizeof tail, "/sandglass-%u", (unsigned)slot);
    if (!is_text(path, SG_CGROUP_PATH_MAX) || !*path)
        return is_text(path, SG_CGROUP_PATH_MAX);
    const size_t n = strlen(path), tail_n = strlen(tail);
    return sg_starts_with(path, "/sys/fs/cgroup/") && !strstr(path, "/../") && n > tail_n &&
           strcmp(path + n - tail_n, tail) == 0;
}

/* A subvolume is removed by this name: no path, and nothing hidden. */
static bool is_disk(const char *name)
{
    return is_text(name, SG_RECORD_DISK_MAX) && strspn(name, "0123456789abcdef.") == strlen(name) &&
           name[0] != '.';
}

/* A part of a path, and of a name that the Engine is told. */
static bool is_container(const char *name)
{
    if (!is_text(name, SG_RECORD_CONTAINER_MAX))
        return false;
    return !*name || (sg_starts_with(name, "sandglass-") && !strchr(name, '/'));
}

static bool is_whole(const struct sg_record *r, uint32_t slot)
{
    if (r->magic != MAGIC || r->version != VERSION || r->slot != slot || r->pid < 0 ||
        r->state < SG_RECORD_MAKING || r->state > SG_RECORD_CLAIMED ||
        !is_text(r->sandbox, sizeof r->sandbox) || !is_disk(r->disk) ||
        !is_text(r->template, sizeof r->template) || r->tier >= SG_L_TIER_COUNT ||
        !is_container(r->container))
        return false;
    for (unsigned i = 0; i < SG_GROUP_COUNT; i++)
        if (!is_group(r->groups[i], slot))
            return false;
    return r->state == SG_RECORD_CLAIMED ? sg_id_is_valid(r->sandbox, 's') : !*r->sandbox;
}

int sg_record_read(int dir_fd, uint32_t slot, struct sg_record *ret, struct sg_err *err)
{
    char name[NAME_MAX_];
    struct sg_record r, extra;
    name_of(slot, ".rec", name);
    sg_auto_fd fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return sg_fail_sys(err, "open the record of slot %u", (unsigned)slot);
    const ssize_t n = read(fd, &r, sizeof r);
    if (n == 0) /* made, and its maker killed before it wrote: E1 says that nothing else is there */
        return sg_fail(err, SG_NOT_FOUND, "the record of slot %u is empty", (unsigned)slot);
    if (n != (ssize_t)sizeof r || read(fd, &extra, 1) != 0 || !is_whole(&r, slot))
        return sg_fail(err, SG_INVALID, "the record of slot %u is not one of ours", (unsigned)slot);
    *ret = r;
    return 0;
}

void sg_record_remove(int dir_fd, uint32_t slot)
{
    char name[NAME_MAX_];
    name_of(slot, ".sock", name);
    (void)unlinkat(dir_fd, name, 0);
    name_of(slot, ".rec", name);
    (void)unlinkat(dir_fd, name, 0);
}

int sg_record_slot_of(const char *name, const char *ending)
{
    const char *dot = strchr(name, '.');
    uint64_t slot;
    if (!dot || strcmp(dot, ending) != 0 ||
        sg_parse_u64((struct sg_str) { name, (size_t)(dot - name) }, 0, SG_SLOT_COUNT - 1, &slot,
                     NULL) < 0)
        return -1;
    return (int)slot;
}
