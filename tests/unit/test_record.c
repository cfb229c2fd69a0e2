/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "launcher/record.h"
#include "base/banned.h"

static char dir[] = "/tmp/sg-record-XXXXXX";
static int dir_fd = -1;

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    sg_drop_fd(&dir_fd);
    return rmdir(dir); /* fails where a test left something */
}

static struct sg_record claimed(uint32_t slot)
{
    struct sg_record r = { .state = SG_RECORD_CLAIMED,
                           .slot = slot,
                           .pid = 4711,
                           .start_ticks = 99,
                           .sandbox = "sabcdefghij012345678",
                           .template = "base" };
    const struct sg_limits limits = { 1u << 20, 500, 16, 2u << 20, 64, false };
    sg_record_set_limits(&r, &limits);
    return r;
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct sg_record r = claimed(7), got;
    struct sg_cgroup g = { .dirs = { "/sys/fs/cgroup/memory/sandglass-7" }, .missing = 2 };
    sg_record_set_cgroup(&r, &g);
    assert_ok(sg_record_write(dir_fd, &r, &err), err);
    assert_ok(sg_record_read(dir_fd, 7, &got, &err), err);
    assert_memory_equal(&r, &got, sizeof r);

    struct sg_kept_note note;
    sg_record_note(&got, &note);
    assert_int_equal(note.slot, 7);
    assert_int_equal(note.pid, 4711);
    assert_int_equal(note.limits.open_files, 64);
    assert_int_equal(note.cgroup.missing, 2);
    assert_string_equal(note.cgroup.dirs[0], g.dirs[0]);
    assert_int_equal(note.cgroup.dir_fds[0], -1);

    (void)snprintf(r.sandbox, sizeof r.sandbox, "szzzzzzzzzzzzzzzzzzz");
    assert_ok(sg_record_write(dir_fd, &r, &err), err);
    assert_ok(sg_record_read(dir_fd, 7, &got, &err), err);
    assert_string_equal(got.sandbox, "szzzzzzzzzzzzzzzzzzz");
    sg_record_remove(dir_fd, 7);
    assert_fails(sg_record_read(dir_fd, 7, &got, &err), err, SG_NOT_FOUND);
}

/* Each makes a good record bad. */
static void no_magic(struct sg_record *r)
{
    r->magic++;
}
static void other_version(struct sg_record *r)
{
    r->version++;
}
static void other_slot(struct sg_record *r)
{
    r->slot++;
}
static void no_state(struct sg_record *r)
{
    r->state = 0;
}
static void state_beyond(struct sg_record *r)
{
    r->state = SG_RECORD_CLAIMED + 1;
}
static void no_id(struct sg_record *r)
{
    *r->sandbox = '\0';
}
static void id_while_parked(struct sg_record *r)
{
    r->state = SG_RECORD_PARKED;
}
static void endless_id(struct sg_record *r)
{
    memset(r->sandbox, 'a', sizeof r->sandbox);
}
static void endless_template(struct sg_record *r)
{
    memset(r->template, 'a', sizeof r->template);
}
static void negative_pid(struct sg_record *r)
{
    r->pid = -1;
}
static void foreign_group(struct sg_record *r)
{
    (void)snprintf(r->groups[1], sizeof r->groups[1], "/sys/fs/cgroup/cpu/other-7");
}
static void group_elsewhere(struct sg_record *r)
{
    (void)snprintf(r->groups[1], sizeof r->groups[1], "/home/sandglass-7");
}
static void group_of_another_slot(struct sg_record *r)
{
    (void)snprintf(r->groups[1], sizeof r->groups[1], "/sys/fs/cgroup/cpu/sandglass-77");
}
static void group_by_way_of_the_parent(struct sg_record *r)
{
    (void)snprintf(r->groups[1], sizeof r->groups[1], "/sys/fs/cgroup/../../home/sandglass-7");
}

static void put(const void *p, size_t n)
{
    sg_auto_fd fd = openat(dir_fd, "7.rec", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, p, n), n);
}

static void a_record_that_is_not_whole_is_refused(void **state)
{
    (void)state;
    static void (*const spoil[])(struct sg_record *) = {
        no_magic,
        other_version,
        other_slot,
        no_state,
        state_beyond,
        no_id,
        id_while_parked,
        endless_id,
        endless_template,
        negative_pid,
        foreign_group,
        group_elsewhere,
        group_of_another_slot,
        group_by_way_of_the_parent,
    };
    struct sg_err err = { 0 };
    struct sg_record good = claimed(7), got;
    assert_ok(sg_record_write(dir_fd, &good, &err), err);
    for (size_t i = 0; i < SG_COUNT(spoil); i++) {
        struct sg_record r = good;
        spoil[i](&r);
        put(&r, sizeof r);
        err = (struct sg_err) { 0 };
        if (sg_record_read(dir_fd, 7, &got, &err) == 0 || err.kind != SG_INVALID)
            fail_msg("row %zu was taken", i);
    }
    put(&good, 0);
    assert_fails(sg_record_read(dir_fd, 7, &got, &err), err, SG_NOT_FOUND);
    put(&good, sizeof good - 1);
    assert_fails(sg_record_read(dir_fd, 7, &got, &err), err, SG_INVALID);
    struct {
        struct sg_record r;
        char more;
    } longer = { .r = good };
    put(&longer, sizeof good + 1);
    assert_fails(sg_record_read(dir_fd, 7, &got, &err), err, SG_INVALID);
    put(&good, sizeof good);
    assert_ok(sg_record_read(dir_fd, 7, &got, &err), err);
    sg_record_remove(dir_fd, 7);
}

static void a_link_is_not_a_record(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct sg_record r = claimed(7), got;
    assert_ok(sg_record_write(dir_fd, &r, &err), err);
    assert_int_equal(renameat(dir_fd, "7.rec", dir_fd, "other"), 0);
    assert_int_equal(symlinkat("other", dir_fd, "7.rec"), 0);
    assert_true(sg_record_read(dir_fd, 7, &got, &err) < 0);
    assert_true(sg_record_write(dir_fd, &r, &err) < 0);
    sg_record_remove(dir_fd, 7);
    assert_int_equal(unlinkat(dir_fd, "other", 0), 0);
}

static void names_of_files_are_slots_or_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int slot;
    } rows[] = {
        { "0.rec", 0 },   { "4095.rec", 4095 }, { "4096.rec", -1 },  { "1.sock", -1 },
        { ".rec", -1 },   { "-1.rec", -1 },     { "1.rec.rec", -1 }, { "1", -1 },
        { "1x.rec", -1 }, { " 1.rec", -1 },     { "", -1 },          { "1.rec ", -1 },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        if (sg_record_slot_of(rows[i].name, ".rec") != rows[i].slot)
            fail_msg("'%s' is %d", rows[i].name, sg_record_slot_of(rows[i].name, ".rec"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(a_record_that_is_not_whole_is_refused),
        cmocka_unit_test(a_link_is_not_a_record),
        cmocka_unit_test(names_of_files_are_slots_or_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
