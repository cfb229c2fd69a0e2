/* SPDX-License-Identifier: Apache-2.0 */
/* A line from the terminal, with the keys that hands know: arrows, Home, End, Ctrl-A E K U W, and
 * what was typed before. Where the input is no terminal: just a line. */
#pragma once

#include "base/buf.h"
#include "cli/ring.h"

enum { SG_EDIT_HISTORY = 500, SG_EDIT_LINE_MAX = 64 << 10 };

enum sg_edited { SG_EDITED_LINE, SG_EDITED_END, SG_EDITED_ABANDONED /* Ctrl-C */ };

/* `line` without its end. */
enum sg_edited sg_edit_line(const char *prompt, struct sg_ring *history, struct sg_buf *line);
