/* SPDX-License-Identifier: Apache-2.0 */
/* Which platforms of gVisor run here, found by running a sandbox with each: the same cell, bridge
 * and runtime as of any other, up to the moment in which init says that it is ready.
 *
 * One that hangs (kvm in a machine that is virtual itself, without nested virtualisation) costs its
 * whole time limit. So the sure ones are tried first, and set the measure for that one; and what
 * was found is kept, a line each, in a file of the run directory, which ends with the boot:
 *
 *     STAMP PLATFORM [why not]        the stamp is that of the program: another one is tried anew
 */
#include "engine/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"
#include "ctl/chan.h"
#include "engine/cell.h"
#include "engine/ids.h"
#include "base/banned.h"

#define MS UINT64_C(1000000)

enum { PATIENCE_MS = 60000, LEAST_MS = 4000, TIMES = 10, KNOWN_MAX = 64 << 10 };

const char *const sg_platforms[SG_PLATFORM_COUNT] = { "kvm", "systrap", "ptrace" };

/* ---- one ---- */

static int await_ready(const struct sg_cell *cell, unsigned timeout_ms, struct sg_err *err)
{
    const uint64_t until = sg_now_ns() + timeout_ms * MS;
    struct pollfd fds[] = { { .fd = sg_cell_ctl(cell), .events = POLLIN },
                            { .fd = sg_cell_pidfd(cell), .events = POLLIN } };
    sg_auto_packet p;
    sg_packet_init(&p);
    for (;;) {
        const uint64_t now = sg_now_ns();
        const int left = now < until ? (int)((until - now) / MS) + 1 : 0;
        const int n = poll(fds, SG_COUNT(fds), left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            return sg_fail(err, SG_TIMEOUT, "it was not ready within %u s", timeout_ms / 1000);
        switch (
            sg_chan_recv(fds[0].fd, 1u << SG_ROLE_EVENT | 1u << SG_ROLE_REPLY, false, &p, err)) {
        case SG_RECV_MESSAGE:
            return p.msg.type == SG_MSG_READY ? 0
                   : p.msg.type == SG_MSG_ERROR
                       ? sg_fail(err, SG_UNAVAILABLE, "%s", p.msg.error.text.p)
                       : sg_fail(err, SG_INTERNAL, "it said what it should not");
        case SG_RECV_AGAIN:
            if (!(fds[1].revents & POLLIN))
                continue;
            return sg_fail(err, SG_UNAVAILABLE, "it ended without a word");
        case SG_RECV_ERROR:
        case SG_RECV_CLOSED:
            return sg_fail(err, SG_UNAVAILABLE, "it ended without a word");
        }
    }
}

static int run_cell(const struct sg_cell_spec *spec, unsigned timeout_ms, struct sg_err *err)
{
    struct sg_cell *cell = sg_cell_start(false, SG_CELL_SWEPT | SG_CELL_NESTED, err);
    if (!cell)
        return -1;
    const int ret = sg_cell_build(cell, spec, err) < 0 || sg_cell_settle(cell, err) < 0
                        ? -1
                        : await_ready(cell, timeout_ms, err);
    sg_cell_free(cell);
    return ret;
}

int sg_runtime_try(const struct sg_runtime_trial *t, const char *platform, unsigned timeout_ms,
                   struct sg_err *err)
{
    struct sg_runtime runtime = t->runtime;
    struct sg_cell_spec spec = *t->cell;
    struct sg_nested nested;
    sg_auto_buf text;
    runtime.platform = platform;
    sg_buf_init(&text, 64 << 10);
    sg_auto_free char *command = sg_runtime_command(&runtime);
    if (!command)
        return sg_fail(err, SG_INVALID, "its arguments are too long");
    if (sg_runtime_fill(&runtime, command, t->bridge_fd, &spec, &text, &nested, err) < 0)
        return -1;
    spec.nested = &nested;
    return run_cell(&spec, timeout_ms, err);
}

/* ---- what is known ---- */

static uint64_t stamp_of(const struct sg_runtime_trial *t)
{
    struct stat st[2] = { 0 };
    uint64_t h = sg_hash_add(SG_HASH_START, t->runtime.path, strlen(t->runtime.path) + 1);
    (void)stat(t->runtime.path, &st[0]);
    (void)fstat(t->bridge_fd, &st[1]);
    for (size_t i = 0; i < SG_COUNT(st); i++) {
        h = sg_hash_add_u64(h, (uint64_t)st[i].st_dev);
        h = sg_hash_add_u64(h, (uint64_t)st[i].st_ino);
        h = sg_hash_add_u64(h, (uint64_t)st[i].st_size);
        h = sg_hash_add_u64(h, (uint64_t)st[i].st_mtim.tv_sec);
        h = sg_hash_add_u64(h, (uint64_t)st[i].st_mtim.tv_nsec);
    }
    for (size_t i = 0; i < t->runtime.argument_count; i++)
        h = sg_hash_add(h, t->runtime.arguments[i], strlen(t->runtime.arguments[i]) + 1);
    return h;
}

static int open_known(int flags)
{
    char dir[256];
    sg_ids_run_dir(true, dir, sizeof dir);
    sg_auto_free char *path = sg_printf("%s/platforms", dir);
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* The line begins with "STAMP PLATFORM"; the last one counts. */
static bool recall(uint64_t stamp, const char *platform, struct sg_platform_found *ret)
{
    char head[64];
    bool is_known = false;
    sg_auto_buf text;
    sg_auto_fd fd = open_known(O_RDONLY);
    sg_buf_init(&text, KNOWN_MAX);
    if (fd < 0 || sg_buf_read_fd(&text, fd, "the known platforms", NULL) < 0)
        return false;
    const size_t n = (size_t)snprintf(head, sizeof head, "%016" PRIx64 " %s", stamp, platform);
    for (const char *p = sg_buf_cstr(&text); *p;) {
        const size_t line = strcspn(p, "\n");
        if (line >= n && memcmp(p, head, n) == 0 && (line == n || p[n] == ' ')) {
            is_known = true;
            ret->works = line == n;
            (void)snprintf(ret->why, sizeof ret->why, "%.*s", line > n ? (int)(line - n - 1) : 0,
                           p + n + (line > n));
        }
        p += line + (p[line] == '\n');
    }
    return is_known;
}

/* Where it cannot be kept it is found out again. A file that is full begins anew. */
static void remember(uint64_t stamp, const char *platform, const struct sg_platform_found *f)
{
    struct stat st;
    sg_auto_fd fd = open_known(O_WRONLY | O_CREAT | O_APPEND);
    sg_auto_free char *line = sg_printf("%016" PRIx64 " %s%s%s\n", stamp, platform,
                                        f->works ? "" : " ", f->works ? "" : f->why);
    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    if (st.st_size > KNOWN_MAX / 2 && ftruncate(fd, 0) < 0)
        return;
    (void)!write(fd, line, strlen(line));
}

/* ---- all ---- */

static void find_out(const struct sg_runtime_trial *t, const char *platform, unsigned timeout_ms,
                     struct sg_platform_found *ret)
{
    struct sg_err err = { 0 };
    ret->works = sg_runtime_try(t, platform, timeout_ms, &err) == 0;
    (void)snprintf(ret->why, sizeof ret->why, "%s", err.msg);
    for (char *p = ret->why; *p; p++)
        if (*p == '\n')
            *p = ' ';
}

int sg_runtime_platforms(const struct sg_runtime_trial *t,
                         struct sg_platform_found ret[SG_PLATFORM_COUNT])
{
    const uint64_t stamp = stamp_of(t);
    unsigned patience_ms = PATIENCE_MS;
    int best = -1;
    for (int i = SG_PLATFORM_COUNT - 1; i >= 0; i--) {
        struct sg_platform_found *f = &ret[i];
        *f = (struct sg_platform_found) { 0 };
        const uint64_t began = sg_now_ns();
        if (!recall(stamp, sg_platforms[i], f)) {
            find_out(t, sg_platforms[i], patience_ms, f);
            const unsigned took_ms = (unsigned)((sg_now_ns() - began) / MS);
            if (f->works && LEAST_MS + TIMES * took_ms < patience_ms)
                patience_ms = LEAST_MS + TIMES * took_ms;
            remember(stamp, sg_platforms[i], f);
        }
        best = f->works ? i : best;
    }
    return best;
}

int sg_runtime_platform(const struct sg_runtime_trial *t, const char *platform, struct sg_err *err)
{
    const uint64_t stamp = stamp_of(t);
    struct sg_platform_found f = { 0 };
    if (recall(stamp, platform, &f) && f.works)
        return 0;
    if (sg_runtime_try(t, platform, PATIENCE_MS / 6, err) < 0)
        return -1;
    remember(stamp, platform, &(struct sg_platform_found) { .works = true });
    return 0;
}
