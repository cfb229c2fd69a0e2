/* SPDX-License-Identifier: Apache-2.0 */
#include "store/disk.h"

#include <fcntl.h>
#include <sqlite3.h>

#include "base/auto.h"
#include "loop/loop.h"
#include "store/db.h"
#include "store/writer.h"
#include "base/banned.h"

enum { CHECKPOINT_PAGES = 1000, NS_PER_MS = 1000000 };

struct sg_disk {
    struct sg_loop *loop; /* borrows */
    struct sg_work *work; /* one thread */
    sg_disk_synced *synced;
    void *arg;
    int log_fd;
    sqlite3 *db; /* owned; of the checkpoint job */
    struct sg_writes waiting;
    struct sg_timer soon;
    int seen_pages; /* of the log, when it was last looked after */
    bool is_closing;
    struct sync_job {
        struct sg_job job;
        struct sg_write *list;
        struct sg_err err;
        bool is_busy;
    } sync;
    struct checkpoint_job {
        struct sg_job job;
        bool is_busy;
    } checkpoint;
};

static void sync_work(struct sg_job *j)
{
    struct sg_disk *d = SG_OWNER(j, struct sg_disk, sync.job);
    d->sync.err = (struct sg_err) { 0 };
    if (fdatasync(d->log_fd) < 0)
        (void)sg_fail_sys(&d->sync.err, "write the store to the disk");
}

static void start_sync(struct sg_disk *d)
{
    sg_timer_stop(d->loop, &d->soon);
    d->sync.is_busy = true;
    d->sync.list = sg_writes_take(&d->waiting);
    sg_work_add(d->work, &d->sync.job);
}

static void sync_done(struct sg_job *j)
{
    struct sg_disk *d = SG_OWNER(j, struct sg_disk, sync.job);
    const struct sg_err err = d->sync.err;
    struct sg_write *list = d->sync.list;
    d->sync.is_busy = false;
    if (d->waiting.head && !d->is_closing)
        start_sync(d);
    if (list)
        d->synced(d->arg, list, err.kind ? &err : NULL);
}

void sg_disk_wait(struct sg_disk *d, struct sg_write *w)
{
    sg_writes_add(&d->waiting, w);
    if (!d->sync.is_busy && !d->is_closing)
        start_sync(d);
}

/* Nobody waits for this one, and a failure has nobody to be told to; the next FULL write finds it
 * again. */
static void soon_fired(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_disk *d = SG_OWNER(t, struct sg_disk, soon);
    if (!d->sync.is_busy)
        start_sync(d);
    else /* that one may have begun before the commit */
        sg_timer_set(d->loop, t, now_ns + SG_STORE_SOON_MS * (uint64_t)NS_PER_MS / 10);
}

void sg_disk_soon(struct sg_disk *d)
{
    if (!sg_timer_is_set(&d->soon) && !d->is_closing)
        sg_timer_set(d->loop, &d->soon,
                     sg_loop_now(d->loop) + SG_STORE_SOON_MS * (uint64_t)NS_PER_MS * 9 / 10);
}

/* A log that cannot be moved now (a reader, no room) is tried again when it has grown. */
static void checkpoint_work(struct sg_job *j)
{
    struct sg_disk *d = SG_OWNER(j, struct sg_disk, checkpoint.job);
    (void)sqlite3_wal_checkpoint_v2(d->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

static void checkpoint_done(struct sg_job *j)
{
    SG_OWNER(j, struct sg_disk, checkpoint.job)->checkpoint.is_busy = false;
}

void sg_disk_log_grew(struct sg_disk *d, int pages)
{
    if (pages < d->seen_pages) /* it started over */
        d->seen_pages = 0;
    if (pages - d->seen_pages < CHECKPOINT_PAGES || d->checkpoint.is_busy || d->is_closing)
        return;
    d->seen_pages = pages;
    d->checkpoint.is_busy = true;
    sg_work_add(d->work, &d->checkpoint.job);
}

static int open_files(struct sg_disk *d, const char *path, struct sg_err *err)
{
    sg_auto_free char *log = sg_printf("%s-wal", path);
    d->log_fd = open(log, O_RDONLY | O_CLOEXEC);
    if (d->log_fd < 0)
        return sg_fail_sys(err, "open the log of the store");
    int code;
    return sg_db_open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, &d->db, &code, err);
}

struct sg_disk *sg_disk_new(struct sg_loop *l, const char *path, sg_disk_synced *synced, void *arg,
                            struct sg_err *err)
{
    struct sg_disk *d = sg_new(struct sg_disk);
    *d = (struct sg_disk) {
        .loop = l,
        .synced = synced,
        .arg = arg,
        .log_fd = -1,
        .soon.fire = soon_fired,
        .sync.job = { .work = sync_work, .done = sync_done },
        .checkpoint.job = { .work = checkpoint_work, .done = checkpoint_done },
    };
    sg_writes_init(&d->waiting);
    if (open_files(d, path, err) == 0)
        d->work = sg_work_new(l, "store-disk", 1, err);
    if (!d->work) {
        sg_disk_free(d);
        return NULL;
    }
    return d;
}

void sg_disk_settle(struct sg_disk *d)
{
    d->is_closing = true;
    bool is_wanted = sg_timer_is_set(&d->soon);
    sg_timer_stop(d->loop, &d->soon);
    if (d->work)
        sg_work_free(sg_take_ptr(&d->work));
    while (d->waiting.head || is_wanted) {
        is_wanted = false;
        d->sync.list = sg_writes_take(&d->waiting);
        sync_work(&d->sync.job);
        sync_done(&d->sync.job);
    }
}

void sg_disk_free(struct sg_disk *d)
{
    if (!d)
        return;
    if (d->work)
        sg_disk_settle(d);
    sg_db_close_p(&d->db);
    sg_close_p(&d->log_fd);
    free(d);
}
