/* SPDX-License-Identifier: Apache-2.0 */
/* A file as filesystem.Filesystem shows it (EntryInfo). */
#pragma once

#include "api/e2b/e2b.h"
#include "ctl/msg.h"

struct sg_e2b_entry {
    const char *path;     /* absolute */
    uint32_t mode;        /* with type: of the file itself, links not followed */
    uint32_t target_mode; /* of what a link leads to; 0: nothing */
    uint64_t bytes, mtime_ns;
    const char *owner, *group;
    const char *target;     /* of a link, or NULL */
    struct sg_texts labels; /* name, value, ... */
};

/* "metadata":{...}, unless there are none. */
void sg_e2b_put_labels(struct sg_json *j, struct sg_texts labels);
void sg_e2b_put_entry(struct sg_call *c, struct sg_json *j, const struct sg_e2b_entry *e);

/* Asks init what `path` is, links and what they lead to included, then calls `done` once, with an
 * entry in the call's arena or an error. */
typedef void sg_e2b_entry_cb(struct sg_call *c, void *arg, const struct sg_e2b_entry *e,
                             const struct sg_err *err);
int sg_e2b_look(struct sg_call *c, struct sg_sandbox *s, const char *path, sg_e2b_entry_cb *done,
                void *arg, struct sg_err *err);
