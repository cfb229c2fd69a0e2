/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a directory of its own, on a loop, for tests of it. */
#pragma once

#include "check.h"

#include <ftw.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "loop/loop.h"
#include "store/store.h"

struct rig {
    char dir[32], path[48];
    struct sg_loop *loop;
    struct sg_store *store;
    struct sg_store_report report;
    unsigned done, failed;
    struct sg_err err; /* of the last failure */
};

static inline void open_store(struct rig *r)
{
    struct sg_err err = { 0 };
    r->store = sg_store_open(r->loop, r->path, &r->report, &err);
    if (!r->store)
        fail_msg("open: %s", err.msg);
}

static inline void reopen(struct rig *r)
{
    sg_store_close(r->store);
    open_store(r);
}

static inline int set_up(void **state)
{
    struct sg_err err = { 0 };
    struct rig *r = sg_new(struct rig);
    (void)snprintf(r->dir, sizeof r->dir, "/tmp/sg-store-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    (void)snprintf(r->path, sizeof r->path, "%s/s.db", r->dir);
    r->loop = sg_loop_new(&err);
    assert_non_null(r->loop);
    open_store(r);
    *state = r;
    return 0;
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

static inline int tear_down(void **state)
{
    struct rig *r = *state;
    sg_store_close(r->store);
    sg_loop_free(r->loop);
    assert_int_equal(nftw(r->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    free(r);
    return 0;
}

static inline void count_done(void *arg, const struct sg_err *err)
{
    struct rig *r = arg;
    r->done++;
    if (err) {
        r->failed++;
        r->err = *err;
    }
}

static inline void wait_for(struct rig *r, unsigned done)
{
    struct sg_err err = { 0 };
    for (unsigned i = 0; r->done < done && i < 100000; i++)
        assert_ok(sg_loop_turn(r->loop, 5000, &err), err);
    assert_int_equal(r->done, done);
}

static inline struct sg_sandbox_row sandbox_row(const char *id, const char *state)
{
    return (struct sg_sandbox_row) { .id = id, .state = state };
}

static inline void put_sandbox(struct rig *r, const char *id, const char *state)
{
    struct sg_sandbox_row row = sandbox_row(id, state);
    sg_store_put_sandbox(r->store, &row, SG_STORE_NORMAL, count_done, r);
}

#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
