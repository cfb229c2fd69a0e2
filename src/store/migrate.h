/* SPDX-License-Identifier: Apache-2.0 */
/* The schema, in numbered steps. A database says in its user_version how many it has had; each
 * step is one transaction, so that a crash leaves a version and never something in between. */
#pragma once

#include <sqlite3.h>

#include "base/err.h"

/* SQL of step 1, 2, ...: src/store/schema, embedded at build time. */
extern const char *const sg_migrations[];
extern const unsigned sg_migration_count;

/* SG_UNSUPPORTED: the database has had more steps than we know. */
int sg_migrate(sqlite3 *db, const char *const *steps, unsigned count, unsigned *ret_from,
               struct sg_err *err);
