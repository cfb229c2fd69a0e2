/* SPDX-License-Identifier: Apache-2.0 */
/* Tool calls of coding agents, as their hooks get them on stdin, and the answers they read on
 * stdout. What comes in was written by a model: hostile.
 *
 * H1. Whatever goes wrong is a refusal: an agent takes silence, and every exit code but 2, for
 *     leave to go on.
 * H2. A text from outside becomes one word of a shell, whatever it holds. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/jsonr.h"

enum { SG_HOOK_MAX_BYTES = 16 << 20, SG_HOOK_SESSION_MAX = 128 };

enum sg_hook_event {
    SG_HOOK_BEFORE, /* PreToolUse */
    SG_HOOK_AFTER,  /* PostToolUse */
    SG_HOOK_END,    /* SessionEnd */
    SG_HOOK_OTHER,  /* none of ours: no answer */
};

struct sg_hook_call { /* lives in the arena */
    enum sg_hook_event event;
    const char *tool, *cwd, *session;
    const struct sg_jval *input; /* an object, or NULL */
};

/* SG_INVALID: no call of a tool. Members that we do not know are others' business. */
int sg_hook_read(struct sg_str text, struct sg_arena *a, struct sg_hook_call *ret,
                 struct sg_err *err);

/* What becomes of it. `value` in place of the argument `argument`, or both NULL: as it was. */
enum sg_hook_word { SG_HOOK_ALLOW, SG_HOOK_DENY };
struct sg_hook_answer {
    enum sg_hook_word word;
    const char *reason;
    const char *argument, *value;
};
void sg_hook_write(struct sg_buf *out, const struct sg_hook_call *call,
                   const struct sg_hook_answer *answer);

/* Adds `text` as one word for a shell. */
void sg_hook_quote(struct sg_buf *out, const char *text);

/* Every `from` in `text` as `to`. */
void sg_hook_replace(struct sg_buf *out, struct sg_str text, const char *from, const char *to);
