/* SPDX-License-Identifier: Apache-2.0 */
#include "store/open.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/str.h"
#include "store/db.h"
#include "store/migrate.h"
#include "base/banned.h"

/* After a crash the process before us may still be ending. */
static int lock_soon(int fd)
{
    enum { LOOKS = 150 };
    const struct timespec pause = { .tv_nsec = 20000000 };
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (errno != EWOULDBLOCK || i == LOOKS)
            return -1;
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

int sg_store_lock(const char *path, struct sg_err *err)
{
    sg_auto_free char *name = sg_printf("%s-lock", path);
    sg_auto_fd fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(name).s);
    if (lock_soon(fd) == 0)
        return sg_take_fd(&fd);
    if (errno != EWOULDBLOCK)
        return sg_fail_sys(err, "lock %s", sg_quote(name).s);
    return sg_fail(err, SG_UNAVAILABLE, "another process uses %s: is the service running twice?",
                   sg_quote(path).s);
}

/* quick_check reads every page and stops at the first that is wrong. */
static int look_over(sqlite3 *db, bool *ret_is_damaged, struct sg_err *err)
{
    char answer[64];
    if (sg_db_text(db, "PRAGMA quick_check(1)", answer, sizeof answer, err) < 0) {
        *ret_is_damaged = sg_db_is_damage(sqlite3_extended_errcode(db));
        return -1;
    }
    if (strcmp(answer, "ok") == 0)
        return 0;
    *ret_is_damaged = true;
    return sg_fail(err, SG_INTERNAL, "the database is damaged: %s", answer);
}

static int set_up(sqlite3 *db, struct sg_store_report *report, struct sg_err *err)
{
    char answer[16];
    if (sg_db_text(db, "PRAGMA journal_mode = WAL", answer, sizeof answer, err) < 0)
        return -1;
    if (strcmp(answer, "wal") != 0 && strcmp(answer, "memory") != 0)
        return sg_fail(err, SG_UNSUPPORTED, "no write-ahead log on this file system, only '%s'",
                       answer);
    if (sg_db_run(db, "PRAGMA synchronous = FULL", err) < 0 ||
        sg_migrate(db, sg_migrations, sg_migration_count, &report->migrated_from, err) < 0)
        return -1;
    report->schema = sg_migration_count;
    report->was_new = report->migrated_from == 0;
    /* What has to be durable is made so by disk.c; the log is cut to this after a restart of it. */
    return sg_db_run(db,
                     "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 33554432;"
                     "PRAGMA secure_delete = ON", /* a removed row may have held a token */
                     err);
}

static int open_sound(const char *path, sqlite3 **ret, struct sg_store_report *report,
                      bool *ret_is_damaged, struct sg_err *err)
{
    const bool is_memory = strcmp(path, ":memory:") == 0;
    int code = SQLITE_OK;
    sg_auto_db *db = NULL;
    if (sg_db_open(path,
                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                       (is_memory ? SQLITE_OPEN_FULLMUTEX : SQLITE_OPEN_NOMUTEX),
                   &db, &code, err) < 0) {
        *ret_is_damaged = sg_db_is_damage(code);
        return -1;
    }
    if (look_over(db, ret_is_damaged, err) < 0 || set_up(db, report, err) < 0)
        return -1;
    *ret = sg_take_ptr(&db);
    return 0;
}

static void name_with_time(const char *path, char *ret, size_t cap)
{
    struct timespec now;
    struct tm t;
    char text[32] = "";
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &t))
        (void)strftime(text, sizeof text, "%Y%m%dT%H%M%S", &t);
    (void)snprintf(ret, cap, "%s.damaged-%s.%03ld", path, text, now.tv_nsec / 1000000);
}

/* With its log, under names that still belong together: recovery tools want both. */
static int put_aside(const char *path, struct sg_store_report *report, struct sg_err *err)
{
    static const char *const suffixes[] = { "", "-wal", "-shm" };
    char aside[4096];
    name_with_time(path, aside, sizeof aside);
    for (size_t i = 0; i < SG_COUNT(suffixes); i++) {
        sg_auto_free char *from = sg_printf("%s%s", path, suffixes[i]);
        sg_auto_free char *to = sg_printf("%s%s", aside, suffixes[i]);
        if (rename(from, to) < 0 && (errno != ENOENT || i == 0))
            return sg_fail_sys(err, "move the damaged store %s aside", sg_quote(path).s);
    }
    const char *slash = strrchr(aside, '/');
    (void)snprintf(report->moved_aside, sizeof report->moved_aside, "%.*s",
                   (int)sizeof report->moved_aside - 1, slash ? slash + 1 : aside);
    return 0;
}

int sg_store_open_file(const char *path, sqlite3 **ret, struct sg_store_report *ret_report,
                       struct sg_err *err)
{
    struct sg_store_report report = { 0 };
    struct sg_err why = { 0 };
    bool is_damaged = false;
    if (open_sound(path, ret, &report, &is_damaged, &why) < 0) {
        if (!is_damaged) {
            if (err)
                *err = why;
            return sg_wrap(err, "store %s", sg_quote(path).s);
        }
        if (put_aside(path, &report, err) < 0)
            return -1;
        if (open_sound(path, ret, &report, &is_damaged, err) < 0)
            return sg_wrap(err, "store %s", sg_quote(path).s);
    }
    *ret_report = report;
    return 0;
}
