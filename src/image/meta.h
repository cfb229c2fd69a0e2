/* SPDX-License-Identifier: Apache-2.0 */
/* template.toml: what a stored template says about itself. */
#pragma once

#include "base/buf.h"
#include "base/str.h"
#include "image/template.h"

enum { SG_META_MAX_BYTES = 64 * 1024 };

/* Overwrites the fields that the text names. An unknown key is SG_INVALID: it could be a rule that
 * this version would not keep. */
int sg_meta_parse(struct sg_template *t, struct sg_str text, const char *what, struct sg_err *err);
void sg_meta_format(const struct sg_template *t, struct sg_buf *out);
