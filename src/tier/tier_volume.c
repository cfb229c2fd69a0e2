/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about volumes, and about images. */
#include <stdio.h>

#include "base/auto.h"
#include "tier/tier_internal.h"

#include "base/banned.h"

static void send_sized(struct sg_tier *t, enum sg_msg_type type, const char *volume, uint64_t bytes,
                       sg_tier_answer *cb, void *arg)
{
    struct question *q = sg_tier_question(t, type, volume, cb, arg);

    q->cursor = bytes;
    sg_tier_send(q);
}

void sg_tier_volume_make(struct sg_tier *t, const char *volume, uint64_t bytes, sg_tier_answer *cb,
                         void *arg)
{
    send_sized(t, SG_MSG_L_VOLUME_MAKE, volume, bytes, cb, arg);
}

void sg_tier_volume_limit(struct sg_tier *t, const char *volume, uint64_t bytes, sg_tier_answer *cb,
                          void *arg)
{
    send_sized(t, SG_MSG_L_VOLUME_LIMIT, volume, bytes, cb, arg);
}

void sg_tier_volume_remove(struct sg_tier *t, const char *volume, sg_tier_answer *cb, void *arg)
{
    sg_tier_send(sg_tier_question(t, SG_MSG_L_VOLUME_REMOVE, volume, cb, arg));
}

void sg_tier_volume_use(struct sg_tier *t, const char *volume, sg_tier_answer *cb, void *arg)
{
    sg_tier_send(sg_tier_question(t, SG_MSG_L_VOLUME_USE, volume, cb, arg));
}

void sg_tier_mount(struct sg_tier *t, const char *sandbox, const char *volume, const char *path,
                   bool is_read_only, sg_tier_answer *cb, void *arg)
{
    struct question *q = sg_tier_question(t, SG_MSG_L_MOUNT, sandbox, cb, arg);

    (void)snprintf(q->template, sizeof q->template, "%s", volume);
    q->path = sg_strdup(path);
    q->is_read_only = is_read_only;
    sg_tier_send(q);
}

void sg_tier_sync(struct sg_tier *t, sg_tier_answer *cb, void *arg)
{
    sg_tier_send(sg_tier_question(t, SG_MSG_L_SYNC, "", cb, arg));
}

void sg_tier_image(struct sg_tier *t, int fds[SG_L_IMAGE_FD_COUNT], sg_tier_answer *cb, void *arg)
{
    struct question *q = sg_tier_question(t, SG_MSG_L_IMAGE, "", cb, arg);

    while (q->fd_count < SG_L_IMAGE_FD_COUNT) {
        q->fds[q->fd_count] = fds[q->fd_count];
        fds[q->fd_count++] = -1;
    }
    sg_tier_send(q);
}
