/* SPDX-License-Identifier: Apache-2.0 */
/* The database file: locked, looked over, put aside when damaged, brought to our schema. */
#pragma once

#include <sqlite3.h>

#include "store/store.h"

/* Takes the lock beside the file, held for as long as the descriptor. SG_UNAVAILABLE: taken. */
int sg_store_lock(const char *path, struct sg_err *err);

/* Ready for the writer. Fills the report. */
int sg_store_open_file(const char *path, sqlite3 **ret, struct sg_store_report *ret_report,
                       struct sg_err *err);
