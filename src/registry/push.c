/* SPDX-License-Identifier: Apache-2.0 */
/* An image to a registry: blobs that it does not have, each in one request, then the manifest. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "registry/registry.h"
#include "base/banned.h"

static int has_blob(struct sg_registry *r, const struct sg_registry_blob *b, struct sg_err *err)
{
    sg_auto_free char *path = sg_printf("%s/blobs/sha256:%s", r->request->repository, b->hex.s);
    sg_auto_free struct sg_call *c = sg_new(struct sg_call);
    *c = (struct sg_call) { .method = "HEAD", .url = path, .body_fd = -1 };
    if (sg_registry_call(r, c, err) == 0)
        return 1;
    return err->kind == SG_NOT_FOUND ? 0 : -1;
}

/* Where to send it is the registry's to say; the digest is added to that. */
static int send_blob(struct sg_registry *r, const struct sg_registry_blob *b, struct sg_err *err)
{
    sg_auto_free char *start = sg_printf("%s/blobs/uploads/", r->request->repository);
    sg_auto_free struct sg_call *c = sg_new(struct sg_call);
    *c = (struct sg_call) { .method = "POST", .url = start, .body_fd = -1 };
    if (sg_registry_call(r, c, err) < 0)
        return -1;
    if (!c->location[0])
        return sg_fail(err, SG_INVALID, "the registry does not say where a blob goes");
    sg_auto_free char *to = sg_printf("%s%sdigest=sha256%%3A%s", c->location,
                                      strchr(c->location, '?') ? "&" : "?", b->hex.s);
    *c = (struct sg_call) { .method = "PUT",
                            .url = to,
                            .content_type = "application/octet-stream",
                            .body_fd = b->fd,
                            .body_size = b->size };
    return sg_registry_call(r, c, err);
}

static int send_manifest(struct sg_registry *r, const struct sg_registry_blob *b,
                         struct sg_err *err)
{
    const struct sg_registry_request *q = r->request;
    sg_auto_free char *path = sg_printf("%s/manifests/%s", q->repository, q->tag);
    sg_auto_free struct sg_call *c = sg_new(struct sg_call);
    *c = (struct sg_call) { .method = "PUT",
                            .url = path,
                            .content_type = q->media_type,
                            .body_fd = b->fd,
                            .body_size = b->size };
    if (sg_registry_call(r, c, err) < 0)
        return -1;
    if (sg_starts_with(c->digest, "sha256:") && strcmp(c->digest + 7, b->hex.s) != 0)
        return sg_fail(err, SG_INVALID, "digest mismatch: the registry has sha256:%.12s...",
                       c->digest + 7);
    return 0;
}

int sg_registry_push(struct sg_registry *r, struct sg_err *err)
{
    const struct sg_registry_request *q = r->request;
    uint64_t done = 0, total = 0;
    size_t sent = 0;
    if (!q->blob_count || !*q->tag)
        return sg_fail(err, SG_INVALID, "a push needs a tag and something to send");
    r->is_push = true;
    for (size_t i = 0; i < q->blob_count; i++)
        total += q->blobs[i].size;
    for (size_t i = 0; i + 1 < q->blob_count; i++) {
        const struct sg_registry_blob *b = &q->blobs[i];
        const int is_there = has_blob(r, b, err);
        if (is_there < 0 || (!is_there && send_blob(r, b, err) < 0))
            return sg_wrap(err, "blob sha256:%.12s...", b->hex.s);
        sent += !is_there;
        done += b->size;
        sg_registry_progress(done, total);
    }
    if (send_manifest(r, &q->blobs[q->blob_count - 1], err) < 0)
        return sg_wrap(err, "the manifest");
    return printf("{\"sent\":%zu}\n", sent) > 0 && fflush(stdout) == 0
               ? 0
               : sg_fail_sys(err, "say what was sent");
}
