/* SPDX-License-Identifier: Apache-2.0 */
/* Started by the engine inside a finished sandbox: descriptors 0, 1 and 2 are /dev/null, 3 is the
 * control socket. In a service 4 is a listening socket, by which a host comes back, and 5 the lock
 * of the sandbox's slot, which is held for as long as we live and is otherwise no concern of ours.
 * Nothing else is open. There is nobody to tell of a failure but the exit code.
 *
 * Started with "--channel", 0 is a byte channel to the host, and no descriptor crosses it
 * (channel.c); whatever else is open is nothing of ours.
 *
 * Started by somebody else, with the path of a socket as our argument, we fetch the same there
 * (join.h). Then what we may do is not what those inside may: they lose it all. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/init.h"
#include "init/join.h"
#include "base/banned.h"

enum { CONTROL_FD = 3, LISTENER_FD = 4, LOCK_FD = 5, EXIT_BROKEN = 125 };

/* Not by faith: whoever starts us by hand may have left anything in there. */
static bool is_listener(int fd)
{
    int is_listening = 0;
    socklen_t n = sizeof is_listening;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &n) == 0 && is_listening;
}

/* Out of the way of what we start. */
static int take_channel(void)
{
    const int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, CONTROL_FD);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < CONTROL_FD; i++)
        if (null < 0 || dup2(null, i) < 0)
            return -1;
    return fd;
}

int main(int argc, char **argv)
{
    (void)prctl(PR_SET_DUMPABLE, 0); /* our memory and /proc entries are not for those inside */
    (void)prctl(PR_SET_NAME, "sandglass-init");
    struct sg_err err = { 0 };
    if (argc > 1 && strcmp(argv[1], "--channel") == 0)
        _exit(sg_init_run(take_channel(), -1, SG_INIT_CHANNEL, &err) < 0 ? EXIT_BROKEN : 0);
    const bool is_joined = argc > 1;
    if (is_joined && sg_join(argv[1], CONTROL_FD, &err) < 0) {
        (void)dprintf(STDERR_FILENO, "sandglass-init: %s\n", err.msg);
        _exit(EXIT_BROKEN);
    }
    if (fcntl(CONTROL_FD, F_SETFD, FD_CLOEXEC) < 0)
        _exit(EXIT_BROKEN);
    int listener_fd = is_listener(LISTENER_FD) ? LISTENER_FD : -1;
    (void)fcntl(LISTENER_FD, F_SETFD, FD_CLOEXEC);
    (void)fcntl(LOCK_FD, F_SETFD, FD_CLOEXEC);
    const unsigned flags = is_joined ? SG_INIT_DROPS_CAPS : 0;
    _exit(sg_init_run(CONTROL_FD, listener_fd, flags, &err) < 0 ? EXIT_BROKEN : 0);
}
