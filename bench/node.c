/* SPDX-License-Identifier: Apache-2.0 */
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "base/banned.h"

enum { LINE_BYTES = 4096 };

static pid_t start(char *const *argv, char *const *env, int in_fd, int out_fd)
{
    const pid_t pid = vfork();
    if (pid != 0)
        return pid;
    if (dup2(in_fd, STDIN_FILENO) >= 0 && dup2(out_fd, STDOUT_FILENO) >= 0)
        (void)execve(argv[0], argv, env);
    _exit(127);
}

int sg_node_open(struct sg_node *n, char *const *argv, char *const *env, struct sg_err *err)
{
    int to[2], from[2];
    *n = (struct sg_node) { 0 };
    if (pipe2(to, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd far_in = to[0], near_in = to[1];
    if (pipe2(from, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd near_out = from[0], far_out = from[1];
    const pid_t pid = start(argv, env, far_in, far_out);
    if (pid < 0)
        return sg_fail_sys(err, "start %s", sg_quote(argv[0]).s);
    n->pid = pid;
    n->in = fdopen(sg_take_fd(&near_in), "w");
    n->out = fdopen(sg_take_fd(&near_out), "r");
    return 0;
}

void sg_node_close(struct sg_node *n)
{
    if (!n->pid)
        return;
    (void)fclose(n->in);
    (void)fclose(n->out);
    while (waitpid(n->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    n->pid = 0;
}

int sg_node_do(struct sg_node *n, const char *deed, uint64_t *ret_ns, struct sg_err *err)
{
    char line[LINE_BYTES];
    if (fprintf(n->in, "%s\n", deed) < 0 || fflush(n->in) < 0 || !fgets(line, sizeof line, n->out))
        return sg_fail(err, SG_UNAVAILABLE, "node has ended");
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "ok %" SCNu64, ret_ns) == 1)
        return 0;
    return sg_fail(err, SG_INTERNAL, "%s", line);
}
