/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a sandbox in a file: where it comes from, what it needs, how it was set up. */
#pragma once

#include "base/buf.h"
#include "base/str.h"
#include "manager/sandbox.h"

enum { SG_MOVE_NAME_MAX = 64 };

struct sg_move_doc {
    char template[SG_MOVE_NAME_MAX + 1], identity[SG_MOVE_NAME_MAX + 1]; /* below its files */
    char sandbox[SG_ID_LEN + 1]; /* that it was; "": not known */
    /* The template is in the file, too: its archive, what that needs on a disk; it grants sudo. */
    bool is_whole, template_sudo;
    uint64_t template_bytes, template_unpacked;
    /* How a sandbox was set up; a snapshot has nothing but traits. */
    bool has_settings, pauses, drops_memory, has_network;
    struct sg_sandbox_limits limits;
    uint64_t timeout_ms, idle_ms, checkpoint_every;
    struct sg_pairs metadata, env;
    struct sg_policy network;
    char **captures; /* owned */
    size_t captures_n;
    struct sg_traits traits;
};

/* Owned, as are the texts. */
void sg_move_doc_of(struct sg_move_doc *d, const struct sg_sandbox *s);
void sg_move_doc_done(struct sg_move_doc *d);
void sg_move_doc_put(const struct sg_move_doc *d, struct sg_buf *out);
/* SG_INVALID: what is wrong with it. SG_UNSUPPORTED: of another architecture. */
int sg_move_doc_read(struct sg_str text, struct sg_move_doc *ret, struct sg_err *err);
