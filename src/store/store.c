/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "store/db.h"
#include "store/open.h"
#include "store/store_internal.h"
#include "store/writer.h"
#include "base/banned.h"

static int open_all(struct sg_store *s, struct sg_loop *l, struct sg_store_report *ret,
                    struct sg_err *err)
{
    sqlite3 *db;
    struct sg_store_report report;
    if (!s->is_memory && (s->lock_fd = sg_store_lock(s->path, err)) < 0)
        return -1;
    if (sg_store_open_file(s->path, &db, &report, err) < 0)
        return -1;
    if (s->is_memory)
        s->reader = db;
    s->writer = sg_writer_new(l, db, s->is_memory ? NULL : s->path, err);
    if (!s->writer)
        return -1;
    int code;
    if (!s->is_memory &&
        sg_db_open(s->path, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, &s->reader, &code, err) < 0)
        return -1;
    *ret = report;
    return 0;
}

struct sg_store *sg_store_open(struct sg_loop *l, const char *path, struct sg_store_report *ret,
                               struct sg_err *err)
{
    struct sg_store *s = sg_new(struct sg_store);
    s->path = sg_strdup(path);
    s->lock_fd = -1;
    s->is_memory = strcmp(path, ":memory:") == 0;
    if (open_all(s, l, ret, err) < 0) {
        sg_store_close(s);
        return NULL;
    }
    return s;
}

/* The writer goes last of the connections: it moves the log into the database and removes it. */
void sg_store_close(struct sg_store *s)
{
    if (!s)
        return;
    if (!s->is_memory)
        sg_db_close_p(&s->reader);
    s->reader = NULL;
    sg_writer_free(s->writer);
    sg_close_p(&s->lock_fd);
    free(s->path);
    free(s);
}

void sg_store_write(struct sg_store *s, const struct sg_write_kind *kind, const void *row,
                    enum sg_store_mode mode, sg_store_done *done, void *arg)
{
    const struct sg_columns *columns = kind->row;
    size_t bytes = columns->row_bytes;
    for (unsigned i = 0; i < columns->n; i++) {
        const char *text = columns->v[i].is_text
                               ? *(char *const *)((const char *)row + columns->v[i].offset)
                               : NULL;
        bytes += text ? strlen(text) + 1 : 0;
    }
    struct sg_write *w = sg_alloc(sizeof *w + bytes);
    w->kind = kind;
    w->mode = mode;
    w->done = done;
    w->arg = arg;
    memcpy(w->row, row, columns->row_bytes);
    char *room = (char *)w->row + columns->row_bytes;
    for (unsigned i = 0; i < columns->n; i++) {
        if (!columns->v[i].is_text)
            continue;
        const char **text = (const char **)(void *)(w->row + columns->v[i].offset);
        if (!*text)
            continue;
        const size_t n = strlen(*text) + 1;
        *text = memcpy(room, *text, n);
        room += n;
    }
    sg_writer_add(s->writer, w);
}

int sg_store_last(struct sg_store *s, struct sg_store_last *ret, struct sg_err *err)
{
    struct sg_store_last last = { 0 };
    if (sg_db_number(s->reader, "SELECT ifnull(max(seq), 0) FROM events", &last.event_seq, err) <
            0 ||
        sg_db_number(s->reader, "SELECT ifnull(max(seq), 0) FROM audit", &last.audit_seq, err) <
            0 ||
        sg_db_text(s->reader,
                   "SELECT ifnull((SELECT hash FROM audit ORDER BY seq DESC LIMIT 1), '')",
                   last.audit_hash, sizeof last.audit_hash, err) < 0)
        return sg_wrap(err, "read the ends of events and audit");
    *ret = last;
    return 0;
}

static uint64_t size_of(const char *path, const char *suffix)
{
    struct stat st;
    sg_auto_free char *name = sg_printf("%s%s", path, suffix);
    return stat(name, &st) == 0 ? (uint64_t)st.st_size : 0;
}

struct sg_store_stats sg_store_stats(const struct sg_store *s)
{
    struct sg_store_stats stats = sg_writer_stats(s->writer);
    stats.file_bytes = s->is_memory ? 0 : size_of(s->path, "") + size_of(s->path, "-wal");
    return stats;
}
