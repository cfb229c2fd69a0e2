/* SPDX-License-Identifier: Apache-2.0 */
/* Where the texts of make.h lie: ca.pem and cert.pem for everybody to read, ca.key and key.pem for
 * their owner. */
#pragma once

#include <stdbool.h>

#include "tls/make.h"

/* Makes `dir` where it is missing. SG_CONFLICT where one of the files is there and `replaces` is
 * not set; then nothing was changed. */
int sg_tls_write(const char *dir, const struct sg_tls_made *m, bool replaces, struct sg_err *err);
