/* SPDX-License-Identifier: Apache-2.0 */
/* The sweeper's own side: shares its parent's memory, so raw system calls only. */
#include <fcntl.h>
#include <sys/prctl.h>
#include <time.h>

#include "engine/net.h"
#include "engine/sweeper.h"
#include "sys/raw.h"
#include "base/banned.h"

enum {
    PATIENCE_MS = 10000,
    HEAD_START_US = 2000, /* of the processes: each try takes a lock that others want */
    MAX_REFUSED = 100,    /* looks at the pipe, with a rest after each */
    REFUSED_REST_US = 1000,
    E_NOENT = 2,
    SIG_KILL = 9,
    PATH_ROOM = SG_CGROUP_PATH_MAX + 16,
};

/* All descriptors but these go: the pipes of our parent's caller must not wait for us. Without
 * close_range there is no sandbox either, and our own end of the pipe would keep us for ever. */
static void keep_only(const int *fds, unsigned count)
{
    long ret = 0;
    unsigned from = 0;
    while (ret >= 0) {
        unsigned next = ~0U; /* the lowest kept one that is not passed yet */
        for (unsigned i = 0; i < count; i++)
            if ((unsigned)fds[i] >= from && (unsigned)fds[i] < next)
                next = (unsigned)fds[i];
        if (next > from)
            ret = sg_raw(SYS_close_range, from, next == ~0U ? next : next - 1, 0);
        if (next == ~0U)
            break;
        from = next + 1;
    }
    if (ret < 0)
        sg_raw_exit(1);
}

static void join(char *ret, const char *dir, const char *file)
{
    unsigned n = 0;
    while (*dir && n < PATH_ROOM - 16)
        ret[n++] = *dir++;
    ret[n++] = '/';
    while (*file && n < PATH_ROOM - 1)
        ret[n++] = *file++;
    ret[n] = '\0';
}

/* Processes end by themselves when their pid 1 loses its control socket; this is for those that a
 * half-made cell may have left. */
static void kill_listed(const char *dir)
{
    char path[PATH_ROOM], text[512];
    join(path, dir, "cgroup.procs");
    long fd = sg_raw(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    long n = sg_raw(SYS_read, fd, text, sizeof text);
    (void)sg_raw(SYS_close, fd);
    long pid = 0;
    for (long i = 0; i < n; i++) {
        if (text[i] >= '0' && text[i] <= '9') {
            pid = pid * 10 + (text[i] - '0');
            continue;
        }
        if (pid > 1)
            (void)sg_raw(SYS_kill, pid, SIG_KILL);
        pid = 0;
    }
}

static void rest(long us)
{
    const struct timespec t = { .tv_nsec = us * 1000 };
    (void)sg_raw(SYS_nanosleep, &t, 0);
}

static void remove_dir(const char *dir)
{
    long slept_us = 0, step_us = 1000;
    for (unsigned tries = 0; slept_us / 1000 < PATIENCE_MS; tries++) {
        long ret = sg_raw(SYS_rmdir, dir);
        if (ret >= 0 || ret == -E_NOENT)
            return;
        if (tries > 6) /* about 50 ms: no longer on its way out by itself */
            kill_listed(dir);
        rest(step_us);
        slept_us += step_us;
        step_us = step_us < 20000 ? step_us * 2 : step_us;
    }
}

/* Whoever is refused a look asks again: to sweep before the run is over would be too early. */
static void await_end(int pipe_fd)
{
    char byte;
    for (unsigned refused = 0; refused < MAX_REFUSED;) {
        const long n = sg_raw(SYS_read, pipe_fd, &byte, 1);
        if (n == 0)
            return;
        if (n < 0) {
            refused++;
            rest(REFUSED_REST_US);
        }
    }
}

void sg_sweeper_child(void *sweeper)
{
    struct sg_sweeper *s = sweeper;
    const int kept[] = { s->pipe_fd, s->lock_fd, s->ctl_fd };
    const int pipe_fd = s->pipe_fd, ctl_fd = s->ctl_fd;
    (void)sg_raw(SYS_setpgid, 0, 0);
    if (s->makes_net) {
        const long made = sg_net_make_raw();
        if (made >= 0)
            sg_net_open_ports_raw(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start");
        sg_net_announce_raw(&s->net, made);
    }
    (void)sg_raw(SYS_prctl, PR_SET_NAME, "sandglass-sweep", 0, 0, 0);
    keep_only(kept, sizeof kept / sizeof kept[0]);
    await_end(pipe_fd);
    rest(HEAD_START_US);
    (void)sg_raw(SYS_close, ctl_fd);
    for (unsigned i = 0; i < s->dir_count; i++)
        remove_dir(s->dirs[i]);
    sg_raw_exit(0);
}
