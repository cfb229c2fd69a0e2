/* SPDX-License-Identifier: Apache-2.0 */
/* sandglass-bridge: pid 1 of a cell whose sandbox is behind somebody else's wall (engine/spec.h,
 * sg_nested). It starts the runtime, with one end of a byte channel as its standard input, and is
 * for the host what sandglass-init is in any other cell: 3 is the control socket, 4 a listener by
 * which a host comes back, 5 the lock of the slot.
 *
 * B1. Before the first byte from behind the wall is read, everything that could do harm is gone:
 *     capabilities, the way to new ones.
 * B2. When the runtime ends, so do we; when we end, the kernel ends everything in the cell. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "bridge/keep.h"
#include "bridge/seccomp_data.h"
#include "base/banned.h"

enum { CONTROL_FD = 3, LISTENER_FD = 4, LOCK_FD = 5, MAX_WORDS = 64, SAID_MAX = 2048 };
enum { EXIT_BROKEN = 125, CHANNEL_BYTES = 256 * 1024 };
#define COMMAND_PATH "/bundle/command"

struct bridge {
    struct sg_mux *mux;
    struct sg_keeping *keeping;
    int signals_fd, said_fd; /* said: what the runtime prints */
    int listener_fd;         /* -1: whoever made us does not come back; we end with it */
    int words_fd;            /* the control socket, for the last words of one that never runs */
    pid_t runtime;
    bool is_ready; /* init has said so */
    char said[SAID_MAX + 1];
    size_t said_n;
};

static bool outgoing(void *arg, struct sg_packet *p)
{
    struct bridge *b = arg;
    return sg_keeping_outgoing(b->keeping, b->mux, p);
}

static bool incoming(void *arg, struct sg_packet *p)
{
    struct bridge *b = arg;
    b->is_ready |= p->msg.type == SG_MSG_READY;
    return sg_keeping_incoming(b->keeping, b->mux, p);
}

/* ---- the runtime ---- */

/* One word a line. */
static int read_command(char **ret_text, char *words[MAX_WORDS + 1], struct sg_err *err)
{
    sg_auto_fd fd = open(COMMAND_PATH, O_RDONLY | O_CLOEXEC);
    sg_auto_buf text;
    sg_buf_init(&text, 64 * 1024);
    if (fd < 0)
        return sg_fail_sys(err, "open " COMMAND_PATH);
    if (sg_buf_read_fd(&text, fd, COMMAND_PATH, err) < 0)
        return -1;
    *ret_text = sg_strdup(sg_buf_cstr(&text));
    size_t n = 0;
    for (char *p = *ret_text; *p && n < MAX_WORDS;) {
        words[n++] = p;
        p += strcspn(p, "\n");
        if (*p)
            *p++ = '\0';
    }
    words[n] = NULL;
    return n ? 0 : sg_fail(err, SG_INVALID, COMMAND_PATH " is empty");
}

/* In a mount namespace that belongs to the cell's own user namespace: there it may mount. */
static _Noreturn void be_runtime(char *const *words, int channel_fd, int said_fd)
{
    char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    char *environment[] = { path, NULL };
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    const struct sigaction plain = { .sa_handler = SIG_DFL };
    (void)sigaction(SIGPIPE, &plain, NULL);
    if (unshare(CLONE_NEWNS) == 0 && dup2(channel_fd, STDIN_FILENO) >= 0 &&
        dup2(said_fd, STDOUT_FILENO) >= 0 && dup2(said_fd, STDERR_FILENO) >= 0 &&
        syscall(SYS_close_range, CONTROL_FD, ~0u, 0) == 0)
        execve(words[0], words, environment);
    static const char text[] = "the runtime cannot be started: ";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    const char *why = strerror(errno);
    (void)!write(STDERR_FILENO, why, strlen(why));
    _exit(EXIT_BROKEN);
}

static int start_runtime(struct bridge *b, int *ret_channel, struct sg_err *err)
{
    sg_auto_free char *text = NULL;
    char *words[MAX_WORDS + 1];
    int channel[2], said[2];
    const int bytes = CHANNEL_BYTES;
    if (read_command(&text, words, err) < 0)
        return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) < 0 ||
        pipe2(said, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make the channel");
    for (unsigned i = 0; i < 2; i++)
        (void)setsockopt(channel[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    b->runtime = fork();
    if (b->runtime == 0)
        be_runtime(words, channel[1], said[1]);
    if (b->runtime < 0)
        return sg_fail_sys(err, "start the runtime");
    (void)close(channel[1]);
    (void)close(said[1]);
    (void)fcntl(said[0], F_SETFL, O_NONBLOCK);
    b->said_fd = said[0];
    *ret_channel = channel[0];
    return 0;
}

/* Its last words, for whoever waits for the sandbox to be ready. */
static void explain(struct bridge *b)
{
    struct sg_err ignored;
    ssize_t n;
    while ((n = read(b->said_fd, b->said + b->said_n, SAID_MAX - b->said_n)) > 0)
        b->said_n += (size_t)n;
    while (b->said_n && (b->said[b->said_n - 1] == '\n' || b->said[b->said_n - 1] == ' '))
        b->said_n--;
    b->said[b->said_n] = '\0';
    const char *last = strrchr(b->said, '\n'); /* what came before is its log */
    const struct sg_quoted words = sg_quote(last ? last + 1 : b->said);
    struct sg_msg m = { .type = SG_MSG_ERROR };
    m.error = (struct sg_msg_error) { .kind = SG_UNAVAILABLE, .text = sg_text_of(words.s) };
    (void)sg_chan_send(b->words_fd, &m, NULL, 0, false, &ignored);
}

/* ---- ourselves ---- */

static int confine(struct sg_err *err)
{
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    const struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };
    const struct sock_fprog filter = { .len = sg_seccomp_bridge_len,
                                       .filter = (struct sock_filter *)sg_seccomp_bridge };
    if (syscall(SYS_capset, &head, none) < 0)
        return sg_fail_sys(err, "drop the capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0)
        return sg_fail_sys(err, "install the system call filter");
    return 0;
}

static int block_signals(struct bridge *b, struct sg_err *err)
{
    const struct sigaction ignored = { .sa_handler = SIG_IGN };
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    if (sigaction(SIGPIPE, &ignored, NULL) < 0 || sigprocmask(SIG_SETMASK, &child, NULL) < 0)
        return sg_fail_sys(err, "block signals");
    b->signals_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    return b->signals_fd < 0 ? sg_fail_sys(err, "watch our children") : 0;
}

/* True: it was the runtime. */
static bool reap(struct bridge *b)
{
    struct signalfd_siginfo info;
    bool is_over = false;
    (void)!read(b->signals_fd, &info, sizeof info);
    for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;)
        is_over |= pid == b->runtime;
    return is_over;
}

static void listen_to_runtime(struct bridge *b)
{
    char rest[512]; /* what is too much is read and forgotten: it must not wait for us */
    const bool has_room = b->said_n < SAID_MAX;
    const ssize_t n = has_room ? read(b->said_fd, b->said + b->said_n, SAID_MAX - b->said_n)
                               : read(b->said_fd, rest, sizeof rest);
    if (n > 0 && has_room)
        b->said_n += (size_t)n;
    if (n == 0)
        sg_drop_fd(&b->said_fd);
}

static int run(struct bridge *b, struct sg_err *err)
{
    struct pollfd fds[] = { { .fd = sg_mux_fd(b->mux), .events = POLLIN },
                            { .fd = b->listener_fd, .events = POLLIN },
                            { .fd = b->signals_fd, .events = POLLIN },
                            { .fd = b->said_fd, .events = POLLIN } };
    for (;;) {
        fds[3].fd = b->said_fd;
        if (poll(fds, SG_COUNT(fds), -1) < 0 && errno != EINTR)
            return sg_fail_sys(err, "wait for events");
        if (fds[1].revents & POLLIN) {
            const int fd = accept4(b->listener_fd, NULL, NULL, SOCK_CLOEXEC);
            if (fd >= 0)
                sg_mux_attach(b->mux, fd);
        }
        if (fds[3].revents)
            listen_to_runtime(b);
        if (fds[0].revents && sg_mux_turn(b->mux, err) < 0)
            return -1;
        if (b->is_ready) /* nobody waits for our own last words any more */
            sg_drop_fd(&b->words_fd);
        if (fds[2].revents && reap(b))
            return sg_fail(err, SG_UNAVAILABLE, "the runtime has ended");
    }
}

int main(void)
{
    static const struct sg_mux_ops ops = { .roles = 1u << SG_ROLE_REQUEST,
                                           .outgoing = outgoing,
                                           .incoming = incoming };
    struct bridge b = { .said_fd = -1, .words_fd = CONTROL_FD, .keeping = sg_keeping_new() };
    struct sg_err err = { 0 };
    int channel;
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)prctl(PR_SET_NAME, "sandglass-bridge");
    if (fcntl(CONTROL_FD, F_SETFD, FD_CLOEXEC) < 0)
        _exit(EXIT_BROKEN);
    /* Of a cell that is only tried there are no others: it dies with its parent. */
    b.listener_fd = fcntl(LISTENER_FD, F_SETFD, FD_CLOEXEC) < 0 ? -1 : LISTENER_FD;
    if (b.listener_fd >= 0 && fcntl(LOCK_FD, F_SETFD, FD_CLOEXEC) < 0)
        _exit(EXIT_BROKEN);
    if (block_signals(&b, &err) < 0 || start_runtime(&b, &channel, &err) < 0 ||
        !(b.mux = sg_mux_new(channel, SG_MUX_HOST, &ops, &b, &err)) || confine(&err) < 0) {
        (void)snprintf(b.said, sizeof b.said, "%s", err.msg);
        b.said_n = strlen(b.said);
        explain(&b);
        _exit(EXIT_BROKEN);
    }
    sg_mux_attach(b.mux, fcntl(CONTROL_FD, F_DUPFD_CLOEXEC, LOCK_FD + 1));
    (void)run(&b, &err);
    if (!b.is_ready)
        explain(&b);
    _exit(EXIT_BROKEN);
}
