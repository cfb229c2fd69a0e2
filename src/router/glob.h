/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns over texts that strangers chose. Ours and not fnmatch(3), whose time grows with a power
 * of the number of stars: this one looks at no character more often than the pattern is long. */
#pragma once

#include <stdbool.h>

#include "base/str.h"

/* `*` any run of bytes, `?` one; all others are themselves. */
bool sg_glob_text(const char *pattern, struct sg_str text);
/* The same for paths: `*` and `?` stay within a part, `**` does not; "DIR/" + "**" is what is below
 * DIR, and DIR itself. */
bool sg_glob_path(const char *pattern, struct sg_str path);
