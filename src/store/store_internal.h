/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sqlite3.h>

#include "store/store.h"

struct sg_writer;

struct sg_store {
    char *path;      /* owned */
    int lock_fd;     /* -1 in memory */
    sqlite3 *reader; /* owned; in memory it is the writer's own connection */
    bool is_memory;
    struct sg_writer *writer; /* owned */
};
