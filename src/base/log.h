/* SPDX-License-Identifier: Apache-2.0 */
/* Structured log lines on stderr: for people on a terminal, JSON otherwise. One line is one write.
 *
 *     sg_log(SG_LOG_INFO, "sandbox created", SG_KV("sandbox", id), SG_KV("template", name));
 *
 * Values are escaped. Secrets have no business here: log a key's id, never the key. */
#pragma once

#include <stdbool.h>

enum sg_log_level { SG_LOG_DEBUG, SG_LOG_INFO, SG_LOG_WARN, SG_LOG_ERROR };

/* `program` is static text. `level` from "debug", "info", "warn", "error"; NULL: info. */
void sg_log_init(const char *program, const char *level);
void sg_log_level_set(enum sg_log_level level);
bool sg_log_has(enum sg_log_level level); /* for lines that are costly to make */

#define SG_KV(key, value) (key), (value)
/* Pairs of const char *, closed by the macro. A NULL value leaves its pair out. */
#define sg_log(level, ...) sg_log_(level, __VA_ARGS__, (const char *)0)
void sg_log_(enum sg_log_level level, const char *what, ...) __attribute__((sentinel));
