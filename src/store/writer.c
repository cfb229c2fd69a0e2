/* SPDX-License-Identifier: Apache-2.0 */
/* On the loop: `pending` gathers, one batch at a time is under way, its writes are finished when it
 * is done. In the thread: run_batch() and what it calls, which touch the batch, the connection and
 * the statements and nothing else; the loop does not touch those while is_busy. */
#include "store/writer.h"

#include "base/auto.h"
#include "loop/loop.h"
#include "store/db.h"
#include "store/disk.h"
#include "base/banned.h"

/* 32 MiB: a log that the checkpoints cannot catch up with, because there is always a commit more,
 * is waited for once. */
enum { LOG_MAX_PAGES = 8192 };

struct sg_writer {
    struct sg_loop *loop; /* borrows */
    struct sg_work *work; /* one thread */
    struct sg_disk *disk; /* owned; NULL in memory */
    struct sg_writes pending;
    struct sg_later start;
    bool is_busy, is_closing;
    struct sg_store_stats stats;
    /* the batch: the thread's while is_busy */
    struct sg_job job;
    struct sg_write *batch;
    unsigned commits;
    int log_pages;
    sqlite3 *db;                                                      /* owned */
    sqlite3_stmt *statements[SG_WRITE_OP_COUNT][SG_WRITE_STATEMENTS]; /* owned; made at first use */
};

/* ---- in the thread ---- */

static int note_log_pages(void *arg, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    ((struct sg_writer *)arg)->log_pages = pages;
    return SQLITE_OK;
}

/* SQLite's code. */
static int run_statement(struct sg_writer *w, const struct sg_write *write, unsigned which)
{
    sqlite3_stmt **stmt = &w->statements[write->kind->op][which];
    int code = SQLITE_OK;
    if (!*stmt)
        code = sqlite3_prepare_v3(w->db, write->kind->sql[which], -1, SQLITE_PREPARE_PERSISTENT,
                                  stmt, NULL);
    if (code == SQLITE_OK)
        code = sg_row_bind(*stmt, write->kind->row, write->row);
    if (code != SQLITE_OK)
        return code;
    (void)sqlite3_step(*stmt);
    return sqlite3_reset(*stmt); /* says how the step went */
}

static int run_write(struct sg_writer *w, const struct sg_write *write)
{
    int code = SQLITE_OK;
    for (unsigned i = 0; i < SG_WRITE_STATEMENTS && write->kind->sql[i] && code == SQLITE_OK; i++)
        code = run_statement(w, write, i);
    return code;
}

static void fail_write(struct sg_writer *w, struct sg_write *write, int code)
{
    if (!write->err)
        write->err = sg_new(struct sg_err);
    (void)sg_db_fail(w->db, code, "write to the store", write->err);
}

/* One transaction of the writes up to `end`. A write that breaks a rule of the schema is alone in
 * its failure; all else (no room, no memory, a lock) fails them together. */
static int run_transaction(struct sg_writer *w, struct sg_write *first, const struct sg_write *end)
{
    int code = sqlite3_exec(w->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    for (struct sg_write *write = first; write != end && code == SQLITE_OK; write = write->next) {
        code = run_write(w, write);
        if ((code & 0xff) == SQLITE_CONSTRAINT) {
            fail_write(w, write, code);
            code = SQLITE_OK;
        }
    }
    if (code == SQLITE_OK)
        code = sqlite3_exec(w->db, "COMMIT", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        w->commits++;
    return code;
}

static void roll_back(struct sg_writer *w)
{
    if (!sqlite3_get_autocommit(w->db)) /* some failures have done so themselves */
        (void)sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
}

/* After a failure each has its own try: a removal may fit where a row does not. */
static void run_batch(struct sg_job *j)
{
    struct sg_writer *w = SG_OWNER(j, struct sg_writer, job);
    if (w->log_pages > LOG_MAX_PAGES)
        (void)sqlite3_wal_checkpoint_v2(w->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    w->commits = 0;
    int code = run_transaction(w, w->batch, NULL);
    if (code == SQLITE_OK)
        return;
    const bool is_single = !w->batch->next;
    if (is_single)
        fail_write(w, w->batch, code);
    roll_back(w);
    for (struct sg_write *write = w->batch; write && !is_single; write = write->next) {
        code = run_transaction(w, write, write->next);
        if (code != SQLITE_OK)
            fail_write(w, write, code);
        roll_back(w);
    }
}

/* ---- on the loop ---- */

static void finish(struct sg_writer *w, struct sg_write *write, const struct sg_err *err)
{
    w->stats.queued--;
    w->stats.failures += err != NULL;
    if (write->done)
        write->done(write->arg, err);
    free(write->err);
    free(write);
}

static void synced(void *arg, struct sg_write *list, const struct sg_err *err)
{
    for (struct sg_write *next; list; list = next) {
        next = list->next;
        finish(arg, list, err);
    }
}

static void start_batch(struct sg_writer *w)
{
    if (w->is_busy || w->is_closing || !w->pending.head)
        return;
    w->is_busy = true;
    w->batch = sg_writes_take(&w->pending);
    sg_work_add(w->work, &w->job);
}

static void start_later(struct sg_later *later)
{
    start_batch(SG_OWNER(later, struct sg_writer, start));
}

static void settle(struct sg_writer *w, struct sg_write *write)
{
    if (write->err || !w->disk || write->mode == SG_STORE_NORMAL) {
        finish(w, write, write->err);
    } else if (write->mode == SG_STORE_FULL) {
        sg_disk_wait(w->disk, write);
    } else {
        sg_disk_soon(w->disk);
        finish(w, write, NULL);
    }
}

/* The thread goes on with the next batch while the callbacks of this one run. */
static void batch_done(struct sg_job *j)
{
    struct sg_writer *w = SG_OWNER(j, struct sg_writer, job);
    struct sg_write *list = sg_take_ptr(&w->batch);
    const int log_pages = w->log_pages;
    w->stats.commits += w->commits;
    w->is_busy = false;
    start_batch(w);
    if (w->disk)
        sg_disk_log_grew(w->disk, log_pages);
    for (struct sg_write *next; list; list = next) {
        next = list->next;
        settle(w, list);
    }
}

void sg_writer_add(struct sg_writer *w, struct sg_write *write)
{
    w->stats.writes++;
    w->stats.queued++;
    sg_writes_add(&w->pending, write);
    if (!w->is_busy) /* at the end of the pass: what else this pass writes comes along */
        sg_later_call(w->loop, &w->start);
}

struct sg_store_stats sg_writer_stats(const struct sg_writer *w)
{
    return w->stats;
}

struct sg_writer *sg_writer_new(struct sg_loop *l, sqlite3 *db, const char *path,
                                struct sg_err *err)
{
    struct sg_writer *w = sg_new(struct sg_writer);
    w->loop = l;
    w->db = db;
    w->start.call = start_later;
    w->job = (struct sg_job) { .work = run_batch, .done = batch_done };
    sg_writes_init(&w->pending);
    (void)sqlite3_wal_hook(db, note_log_pages, w); /* instead of checkpoints inside a commit */
    w->work = sg_work_new(l, "store-write", 1, err);
    if (w->work && path)
        w->disk = sg_disk_new(l, path, synced, w, err);
    if (!w->work || (path && !w->disk)) {
        sg_writer_free(w);
        return NULL;
    }
    return w;
}

static void drain(struct sg_writer *w)
{
    while (w->pending.head) {
        w->batch = sg_writes_take(&w->pending);
        run_batch(&w->job);
        batch_done(&w->job);
    }
}

void sg_writer_free(struct sg_writer *w)
{
    if (!w)
        return;
    w->is_closing = true;
    sg_later_cancel(w->loop, &w->start);
    if (w->work)
        sg_work_free(w->work);
    do { /* callbacks may add some */
        drain(w);
        if (w->disk)
            sg_disk_settle(w->disk);
    } while (w->pending.head);
    sg_disk_free(w->disk);
    for (unsigned i = 0; i < SG_WRITE_OP_COUNT; i++)
        for (unsigned k = 0; k < SG_WRITE_STATEMENTS; k++)
            (void)sqlite3_finalize(w->statements[i][k]);
    (void)sqlite3_close(w->db);
    free(w);
}
