/* SPDX-License-Identifier: Apache-2.0 */
/* SIGNAL to the whole tree of an exec.
 *
 * Every exec is a session of its own, and shells put their jobs into groups of their own within it:
 * a signal to one group reaches only some. So all of /proc is read, and whoever belongs is
 * signalled: members of the session, children of somebody who belongs, members of a session whose
 * leader belongs. What is left out is a process that started a session and lost its parent; only a
 * cgroup could tell whose that was.
 *
 * KILL is repeated as long as somebody who belongs is alive, a few times: between the look and the
 * blow a process may have had a child. /proc belongs to the sandbox and may lie; it is asked first
 * whether it is that of our own processes, since its numbers would mean others elsewhere. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "init/dir.h"
#include "init/init.h"
#include "base/banned.h"

enum { MAX_PROCESSES = 1 << 18, KILL_PASSES = 8, STAT_BYTES = 512 };

struct process {
    int pid, parent, session;
    bool belongs;
};

/* Takes a number off the front. */
static bool next_number(const char **at, int *ret)
{
    uint64_t v;
    const char *p = *at + strspn(*at, " ");
    size_t n = strcspn(p, " ");
    if (sg_parse_u64((struct sg_str) { p, n }, 0, INT32_MAX, &v, NULL) < 0)
        return false;
    *ret = (int)v;
    *at = p + n;
    return true;
}

/* "pid (name) state ppid pgrp session ..."; the name may hold anything, parentheses too. */
static bool parse_stat(const char *text, struct process *ret)
{
    const char *at = strrchr(text, ')');
    int group;
    if (!at || at[1] != ' ' || !at[2] || at[2] == 'Z' || at[2] == 'X') /* the dead need nothing */
        return false;
    at += 3;
    return next_number(&at, &ret->parent) && next_number(&at, &group) &&
           next_number(&at, &ret->session);
}

static bool read_process(int proc, const char *name, struct process *ret)
{
    uint64_t pid;
    char path[32], text[STAT_BYTES];
    if (sg_parse_u64(sg_str_of(name), 2, INT32_MAX, &pid, NULL) < 0)
        return false;
    (void)snprintf(path, sizeof path, "%s/stat", name);
    sg_auto_fd fd = openat(proc, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    *ret = (struct process) { .pid = (int)pid };
    return parse_stat(text, ret) && ret->pid != getpid();
}

static int read_processes(int proc, struct sg_buf *out, struct sg_err *err)
{
    struct sg_dir dir;
    struct process p;
    sg_buf_clear(out);
    if (lseek(proc, 0, SEEK_SET) < 0)
        return sg_fail_sys(err, "read '/proc'");
    sg_dir_init(&dir, proc);
    for (const struct sg_dirent *e; (e = sg_dir_next(&dir));)
        if (read_process(proc, e->name, &p))
            sg_buf_add(out, &p, sizeof p);
    return sg_buf_check(out, "list of processes", err);
}

/* True where `pid` is among those who belong. Sorted by pid. */
static bool has_member(const struct process *all, size_t n, int pid)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (all[mid].pid < pid)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && all[low].pid == pid && all[low].belongs;
}

static int compare(const void *a, const void *b)
{
    int x = ((const struct process *)a)->pid, y = ((const struct process *)b)->pid;
    return (x > y) - (x < y);
}

/* Parents have mostly lower numbers than their children, so a round or two suffice. */
static void mark(struct process *all, size_t n, int sid)
{
    qsort(all, n, sizeof *all, compare);
    for (bool is_growing = true; is_growing;) {
        is_growing = false;
        for (size_t i = 0; i < n; i++) {
            struct process *p = &all[i];
            if (p->belongs || (p->session != sid && !has_member(all, n, p->parent) &&
                               !has_member(all, n, p->session)))
                continue;
            p->belongs = true;
            is_growing = true;
        }
    }
}

static bool is_our_proc(int proc)
{
    char text[16];
    uint64_t pid;
    ssize_t n = readlinkat(proc, "self", text, sizeof text);
    return n > 0 &&
           sg_parse_u64((struct sg_str) { text, (size_t)n }, 1, INT32_MAX, &pid, NULL) == 0 &&
           (int)pid == getpid();
}

/* How many were signalled, or -1. */
static int pass(int proc, struct sg_buf *list, int sid, int signal, struct sg_err *err)
{
    int count = 0;
    if (read_processes(proc, list, err) < 0)
        return -1;
    struct process *all = (void *)list->p;
    size_t n = list->n / sizeof *all;
    if (n)
        mark(all, n, sid);
    for (size_t i = 0; i < n; i++)
        if (all[i].belongs && kill(all[i].pid, signal) == 0)
            count++;
    return count;
}

int sg_session_signal(int sid, int signal, struct sg_err *err)
{
    sg_auto_fd proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    if (proc < 0 || !is_our_proc(proc))
        return sg_fail(err, SG_UNSUPPORTED, "'/proc' does not show this sandbox's processes");
    sg_auto_buf list;
    sg_buf_init(&list, MAX_PROCESSES * sizeof(struct process));
    int count = pass(proc, &list, sid, signal, err);
    if (count < 0)
        return -1;
    if (count == 0) {
        errno = ESRCH;
        return sg_fail_sys(err, "signal session %d", sid);
    }
    for (int i = 1; signal == SIGKILL && i < KILL_PASSES && count > 0; i++)
        count = pass(proc, &list, sid, signal, err);
    return count < 0 ? -1 : 0;
}
