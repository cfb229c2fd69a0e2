/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sweeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/raw.h"
#include "base/banned.h"

enum { STACK_BYTES = 16384 };

void sg_sweeper_aim(struct sg_sweeper *s, const struct sg_cgroup *g)
{
    unsigned count = 0;
    for (unsigned i = 0; i < g->dir_count; i++)
        if (g->dirs[i][0])
            s->dirs[count++] = g->dirs[i];
    s->dir_count = count;
}

int sg_sweeper_start(struct sg_sweeper *s, const struct sg_ids *ids, int ctl_fd, bool makes_net,
                     struct sg_err *err)
{
    *s = (struct sg_sweeper) { .lock_fd = ids->lock_fd,
                               .ctl_fd = ctl_fd,
                               .makes_net = makes_net,
                               .pipe_fd = -1,
                               .keep_fd = -1,
                               .ns_fd = -1 };
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe for the sweeper");
    s->pipe_fd = ends[0];
    s->keep_fd = ends[1];
    s->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (s->stack == MAP_FAILED) {
        s->stack = NULL;
        return sg_fail_sys(err, "make a stack for the sweeper");
    }
    struct clone_args args = { .flags = CLONE_VM,
                               .stack = (uintptr_t)s->stack,
                               .stack_size = STACK_BYTES };
    /* It is born deaf: the signal that ends us must not end the one who cleans up after us. */
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    long pid = sg_raw_clone3(&args, sg_sweeper_child, s);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        errno = (int)-pid;
        return sg_fail_sys(err, "start the sweeper");
    }
    s->pid = (int)pid;
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/%d/ns", s->pid);
    s->ns_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (s->ns_fd < 0)
        return sg_fail_sys(err, "look at the sweeper");
    return 0;
}

void sg_sweeper_stop(struct sg_sweeper *s)
{
    sg_drop_fd(&s->ns_fd);
    sg_drop_fd(&s->keep_fd);
    sg_drop_fd(&s->pipe_fd);
    while (s->pid > 0 && waitpid(s->pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    if (s->stack)
        (void)munmap(s->stack, STACK_BYTES);
}
