/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of a box: those of its cgroups and of its memory are the engine's, that of its disk
 * the storage pool's. */
#include "launcher/launcher.h"
#include "base/banned.h"

struct sg_limits sg_box_limits_of(const struct sg_box *b, const struct sg_limits *wanted)
{
    const struct sg_limits *is = &b->kept.limits;
    return (struct sg_limits) {
        .mem_bytes = wanted->mem_bytes ? wanted->mem_bytes : is->mem_bytes,
        .cpu_milli = wanted->cpu_milli ? wanted->cpu_milli : is->cpu_milli,
        .pids = wanted->pids ? wanted->pids : is->pids,
        .disk_bytes = wanted->disk_bytes ? wanted->disk_bytes : is->disk_bytes,
        .open_files = is->open_files,
        .is_pooled = is->is_pooled,
    };
}

/* The pool's limit first: where the others cannot be, it is set back. */
int sg_box_apply_limits(struct sg_box *b, const struct sg_limits *all, struct sg_err *err)
{
    const struct sg_vault *v = &b->launcher->vault;
    const uint64_t was = b->kept.limits.disk_bytes;
    const bool has_disk = b->record.disk[0] && all->disk_bytes != was;
    if (has_disk && sg_vault_limit(v, SG_VAULT_CELL, b->record.disk, all->disk_bytes, err) < 0)
        return sg_wrap(err, "change the disk limit");
    if (sg_kept_set_limits(&b->kept, all, err) == 0)
        return 0;
    if (has_disk)
        (void)sg_vault_limit(v, SG_VAULT_CELL, b->record.disk, was, NULL);
    return -1;
}

int sg_box_disk_use(const struct sg_box *b, uint64_t *ret_used, uint64_t *ret_limit,
                    struct sg_err *err)
{
    return sg_vault_use(&b->launcher->vault, SG_VAULT_CELL, b->record.disk, ret_used, ret_limit,
                        err);
}

int sg_box_set_limits(struct sg_box *b, const struct sg_limits *limits, struct sg_err *err)
{
    const struct sg_limits all = sg_box_limits_of(b, limits);
    if (sg_box_apply_limits(b, &all, err) < 0)
        return -1;
    sg_record_set_limits(&b->record, &all);
    return sg_record_write(b->launcher->cells_fd, &b->record, err);
}
