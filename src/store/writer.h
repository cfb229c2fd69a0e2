/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of writes, and the thread that carries them out in batches.
 *
 * The queue belongs to the loop's thread. While a batch is under way, writes gather for the next
 * one: the busier the store, the larger its transactions. */
#pragma once

#include <sqlite3.h>

#include "store/store.h"
#include "store/table.h"

struct sg_writer;

/* One allocation: this, the row, and the texts that it points to. */
struct sg_write {
    struct sg_write *next;
    const struct sg_write_kind *kind;
    enum sg_store_mode mode;
    sg_store_done *done;
    void *arg;
    struct sg_err *err; /* owned; NULL: it went well */
    _Alignas(max_align_t) unsigned char row[];
};

struct sg_writes {
    struct sg_write *head, **tail;
};
static inline void sg_writes_init(struct sg_writes *l)
{
    *l = (struct sg_writes) { NULL, &l->head };
}
static inline void sg_writes_add(struct sg_writes *l, struct sg_write *w)
{
    w->next = NULL;
    *l->tail = w;
    l->tail = &w->next;
}
static inline struct sg_write *sg_writes_take(struct sg_writes *l)
{
    struct sg_write *head = l->head;
    sg_writes_init(l);
    return head;
}

/* Takes `db`, also when it fails. `path` NULL: in memory, where nothing is ever on a disk. */
struct sg_writer *sg_writer_new(struct sg_loop *l, sqlite3 *db, const char *path,
                                struct sg_err *err);
void sg_writer_free(struct sg_writer *w); /* carries out what is queued, calls back */
void sg_writer_add(struct sg_writer *w, struct sg_write *write); /* takes */
struct sg_store_stats sg_writer_stats(const struct sg_writer *w);
