/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/secure.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/parse.h"
#include "cli/cmd_template.h"
#include "cli/secure.h"
#include "base/banned.h"

extern char **environ;

enum { MAX_SAID = 4096 };

/* "KIND MESSAGE", by a program of ours. */
static int fail_as_told(struct sg_buf *said, struct sg_err *err)
{
    const char *text = sg_buf_cstr(said), *space = strchr(text, ' ');
    const int n = space ? (int)strcspn(space + 1, "\n") : 0;
    uint64_t kind;
    if (!space || sg_parse_u64((struct sg_str) { text, (size_t)(space - text) }, SG_OK + 1,
                               SG_KIND_COUNT - 1, &kind, NULL) < 0)
        return sg_fail(err, SG_INTERNAL, "sandglass-tls ended without a reason");
    return sg_fail(err, (enum sg_kind)kind, "%.*s", n, space + 1);
}

static int start(const char *program, char *const *argv, int in_fd, int err_fd, pid_t *ret,
                 struct sg_err *err)
{
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    if (in_fd >= 0)
        (void)posix_spawn_file_actions_adddup2(&actions, in_fd, STDIN_FILENO);
    else
        (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, err_fd, STDERR_FILENO);
    const int failed = posix_spawn(ret, program, &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed
               ? sg_fail(err, sg_kind_of_errno(failed), "start %s: %s", program, strerror(failed))
               : 0;
}

int sg_secure_run(char *const *args, int in_fd, struct sg_err *err)
{
    static const char *const places[] = { "../libexec/sandglass/sandglass-tls",
                                          "../tls/sandglass-tls" };
    sg_auto_free char *program = sg_find_beside(places, SG_COUNT(places), err);
    char *argv[8] = { program };
    int pipe_fds[2], status = 0;
    pid_t pid;
    if (!program)
        return -1;
    for (size_t i = 0; args[i] && i + 2 < SG_COUNT(argv); i++)
        argv[i + 1] = args[i];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd said_fd = pipe_fds[0], far_fd = pipe_fds[1];
    if (start(program, argv, in_fd, far_fd, &pid, err) < 0)
        return -1;
    sg_drop_fd(&far_fd);
    sg_auto_buf said;
    struct sg_err ignored;
    sg_buf_init(&said, MAX_SAID);
    (void)sg_buf_read_fd(&said, said_fd, "sandglass-tls", &ignored);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : fail_as_told(&said, err);
}

/* Who is trusted: whom the settings name, else the authority of `tls init`, else the system's. */
static char *trusted(const struct sg_config *c)
{
    sg_auto_free char *own = sg_printf("%s/tls/ca.pem", c->state_dir);
    if (*c->tls_ca)
        return sg_strdup(c->tls_ca);
    return access(own, R_OK) == 0 ? sg_take_ptr(&own) : sg_strdup("");
}

int sg_secure_connect(void *arg, const char *authority, struct sg_err *err)
{
    const struct sg_cli *cli = arg;
    sg_auto_free char *ca = trusted(&cli->config), *where = sg_strdup(authority);
    char mode[] = "dial", *args[] = { mode, where, ca, NULL };
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return sg_fail_sys(err, "make a socket");
    sg_auto_fd near_fd = ends[0], far_fd = ends[1];
    return sg_secure_run(args, far_fd, err) < 0 ? -1 : sg_take_fd(&near_fd);
}
