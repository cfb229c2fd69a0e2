/* SPDX-License-Identifier: Apache-2.0 */
#include "bare.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/banned.h"

/* The child shares our memory until it execs: system calls only. */
static pid_t start(const struct sg_bare *b, int out_fd)
{
    const pid_t pid = vfork();
    if (pid != 0)
        return pid;
    if (dup2(b->null_fd, STDIN_FILENO) >= 0 && dup2(out_fd, STDOUT_FILENO) >= 0)
        (void)execve(b->argv[0], b->argv, b->env);
    _exit(127);
}

static int await_end(pid_t pid, const char *program, struct sg_err *err)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return sg_fail_sys(err, "wait for %s", sg_quote(program).s);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return sg_fail(err, SG_INTERNAL, "%s ended with %s %d", sg_quote(program).s,
                   WIFEXITED(status) ? "exit code" : "signal",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int sg_bare_run(void *bare, uint64_t *ret_ns, struct sg_err *err)
{
    const struct sg_bare *b = bare;
    int ends[2] = { -1, -1 };
    if (b->output && pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd near = ends[0], far = ends[1];

    const uint64_t start_ns = sg_now_ns();
    const pid_t pid = start(b, b->output ? far : b->null_fd);
    if (pid < 0)
        return sg_fail_sys(err, "start %s", sg_quote(b->argv[0]).s);
    sg_drop_fd(&far);
    int result = b->output ? sg_buf_read_fd(b->output, near, "the output", err) : 0;
    if (await_end(pid, b->argv[0], err) < 0)
        result = -1;
    *ret_ns = sg_now_ns() - start_ns;
    return result;
}
