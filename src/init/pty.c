/* SPDX-License-Identifier: Apache-2.0 */
/* How the pump works: each direction has one buffer. It is filled only when empty and its source is
 * polled only then; while it holds anything, only its sink is polled. So a slow reader stops the
 * program and a program that does not read stops the host, at one buffer's cost.
 *
 * Init keeps the slave open as long as the terminal lives. Otherwise the master would report a
 * hang-up, which epoll cannot be told to ignore, whenever the program has closed its streams for a
 * moment. */
#include "init/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/banned.h"

enum {
    DEFAULT_ROWS = 24,
    DEFAULT_COLS = 80,
    FLOW_BYTES = 4096,
    /* More than a terminal can hold: what comes after is from someone who outlived the program. */
    DRAIN_BYTES = 256 * 1024,
    BATCH = 16, /* buffers per turn, so that one busy terminal does not starve the rest */
};

struct flow {
    size_t at, n; /* bytes[at .. at + n) wait */
    uint8_t bytes[FLOW_BYTES];
};

struct sg_pty {
    struct sg_source master, in, out;
    int slave_fd;
    struct flow typed, printed;
    bool is_line_begun; /* typed bytes since the last newline: end of file must be said twice */
    bool owes_eof;
    bool is_gone; /* hung up by somebody inside: the master will only ever report that */
    size_t drain_left;
    void (*drained)(struct sg_init *in, void *owner); /* NULL: the program lives */
    void *owner;
};

enum moved { MOVED_ALL, MOVED_BLOCKED, MOVED_BROKEN };

/* Empties the flow into fd. */
static enum moved drain_flow(struct flow *f, int fd)
{
    while (f->n) {
        ssize_t n = write(fd, f->bytes + f->at, f->n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? MOVED_BLOCKED : MOVED_BROKEN;
        f->at += (size_t)n;
        f->n -= (size_t)n;
    }
    return MOVED_ALL;
}

/* Refills an empty flow from fd; BROKEN at the end of it too. */
static enum moved fill_flow(struct flow *f, int fd, size_t max)
{
    ssize_t n;
    do
        n = read(fd, f->bytes, max < FLOW_BYTES ? max : FLOW_BYTES);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return MOVED_BLOCKED;
    if (n <= 0)
        return MOVED_BROKEN;
    f->at = 0;
    f->n = (size_t)n;
    return MOVED_ALL;
}

/* ---- what is typed ---- */

static void queue_eof(struct sg_pty *p)
{
    struct termios t;
    p->owes_eof = false;
    if (tcgetattr(p->master.fd, &t) < 0 || !(t.c_lflag & ICANON))
        return;
    p->typed.at = 0;
    p->typed.n = p->is_line_begun ? 2 : 1; /* the first only ends the line */
    p->typed.bytes[0] = p->typed.bytes[1] = t.c_cc[VEOF];
}

static void pump_typed(struct sg_init *in, struct sg_pty *p)
{
    for (unsigned i = 0; i < BATCH; i++) {
        enum moved m = drain_flow(&p->typed, p->master.fd);
        if (m == MOVED_BLOCKED)
            return;
        if (m == MOVED_BROKEN)
            p->typed.n = 0;
        if (p->in.fd >= 0) {
            m = fill_flow(&p->typed, p->in.fd, FLOW_BYTES);
            if (m == MOVED_BLOCKED)
                return;
            if (m == MOVED_ALL)
                p->is_line_begun = p->typed.bytes[p->typed.n - 1] != '\n';
            else
                sg_pty_end_input(in, p);
        } else if (p->owes_eof) {
            queue_eof(p);
        } else {
            return;
        }
    }
}

/* ---- what is printed ---- */

/* True when a finished program's output has all been passed on. */
static bool pump_printed(struct sg_init *in, struct sg_pty *p)
{
    for (unsigned i = 0; i < BATCH; i++) {
        enum moved m = p->out.fd >= 0 ? drain_flow(&p->printed, p->out.fd) : MOVED_BROKEN;
        if (m == MOVED_BLOCKED)
            return false;
        if (m == MOVED_BROKEN) { /* nobody reads: the program must not notice by hanging */
            p->printed.n = 0;
            sg_source_drop(in, &p->out);
        }
        m = fill_flow(&p->printed, p->master.fd, p->drained ? p->drain_left : FLOW_BYTES);
        if (m == MOVED_BROKEN)
            p->is_gone = true;
        if (m != MOVED_ALL)
            return p->drained;
        if (p->drained)
            p->drain_left -= p->printed.n;
    }
    return false;
}

/* ---- the loop ---- */

static void pump(struct sg_init *in, struct sg_pty *p)
{
    if (!p->drained)
        pump_typed(in, p);
    if (pump_printed(in, p)) {
        p->drained(in, p->owner);
        return;
    }
    bool is_waiting = p->printed.n && p->out.fd >= 0; /* without a reader it is thrown away */
    uint32_t master =
        (is_waiting ? 0 : EPOLLIN) | ((p->typed.n || p->owes_eof) && !p->drained ? EPOLLOUT : 0);
    (void)sg_source_want(in, &p->master, p->is_gone ? 0 : master, NULL);
    if (p->in.fd >= 0)
        (void)sg_source_want(in, &p->in, p->typed.n || p->drained ? 0 : EPOLLIN, NULL);
    if (p->out.fd >= 0)
        (void)sg_source_want(in, &p->out, is_waiting ? EPOLLOUT : 0, NULL);
}

static void master_ready(struct sg_init *in, struct sg_source *s, uint32_t events)
{
    (void)events;
    pump(in, SG_OWNER_OF(s, struct sg_pty, master));
}

static void in_ready(struct sg_init *in, struct sg_source *s, uint32_t events)
{
    (void)events;
    pump(in, SG_OWNER_OF(s, struct sg_pty, in));
}

static void out_ready(struct sg_init *in, struct sg_source *s, uint32_t events)
{
    (void)events;
    pump(in, SG_OWNER_OF(s, struct sg_pty, out));
}

/* ---- life ---- */

/* A kernel that does not know the peer (gVisor): there is one instance only. */
static int open_by_name(int master_fd)
{
    unsigned number;
    char path[32];
    if (ioctl(master_fd, TIOCGPTN, &number) < 0)
        return -1;
    (void)snprintf(path, sizeof path, "/dev/pts/%u", number);
    return open(path, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW);
}

static int open_terminal(struct sg_pty *p, const struct sg_user *user, struct sg_err *err)
{
    int unlocked = 0;
    p->master.fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (p->master.fd < 0)
        return sg_fail_sys(err, "open '/dev/ptmx'");
    if (ioctl(p->master.fd, TIOCSPTLCK, &unlocked) < 0)
        return sg_fail_sys(err, "unlock the terminal");
    /* By descriptor: what is mounted at /dev/pts need not be the instance that ptmx is of. */
    p->slave_fd = ioctl(p->master.fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (p->slave_fd < 0 && errno == ENOTTY)
        p->slave_fd = open_by_name(p->master.fd);
    if (p->slave_fd < 0)
        return sg_fail_sys(err, "open the terminal");
    if (!user->is_own)
        (void)fchown(p->slave_fd, user->uid, (gid_t)-1); /* fails where ids are not ours to give */
    return 0;
}

static int add_stream(struct sg_init *in, struct sg_source *s, int fd, uint32_t events,
                      struct sg_err *err)
{
    s->fd = fd;
    if (fd < 0)
        return 0;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return sg_fail_sys(err, "prepare a stream of the terminal");
    /* Registered at once, if only to learn that it can be: a plain file cannot be waited for. */
    if (sg_source_want(in, s, events, err) < 0)
        return sg_wrap(err, "streams of a terminal must be pipes or sockets");
    return sg_source_want(in, s, events & EPOLLIN, err);
}

struct sg_pty *sg_pty_new(struct sg_init *in, unsigned rows, unsigned cols,
                          const struct sg_user *user, int in_fd, int out_fd, int *ret_slave,
                          struct sg_err *err)
{
    struct sg_pty *p = sg_new(struct sg_pty);
    p->master = (struct sg_source) { .fd = -1, .ready = master_ready };
    p->in = (struct sg_source) { .fd = in_fd, .ready = in_ready };
    p->out = (struct sg_source) { .fd = out_fd, .ready = out_ready };
    p->slave_fd = -1;
    if (open_terminal(p, user, err) < 0 || sg_pty_resize(p, rows, cols, err) < 0 ||
        add_stream(in, &p->in, in_fd, EPOLLIN, err) < 0 ||
        add_stream(in, &p->out, out_fd, EPOLLOUT, err) < 0 ||
        sg_source_want(in, &p->master, EPOLLIN, err) < 0) {
        sg_pty_free(in, p);
        return NULL;
    }
    *ret_slave = p->slave_fd;
    return p;
}

void sg_pty_free(struct sg_init *in, struct sg_pty *p)
{
    if (!p)
        return;
    sg_source_drop(in, &p->in);
    sg_source_drop(in, &p->out);
    sg_source_drop(in, &p->master);
    sg_drop_fd(&p->slave_fd);
    free(p);
}

int sg_pty_resize(struct sg_pty *p, unsigned rows, unsigned cols, struct sg_err *err)
{
    const struct winsize size = { .ws_row = (unsigned short)(rows ? rows : DEFAULT_ROWS),
                                  .ws_col = (unsigned short)(cols ? cols : DEFAULT_COLS) };
    if (ioctl(p->master.fd, TIOCSWINSZ, &size) < 0)
        return sg_fail_sys(err, "resize the terminal");
    return 0;
}

void sg_pty_end_input(struct sg_init *in, struct sg_pty *p)
{
    if (p->in.fd < 0)
        return;
    sg_source_drop(in, &p->in);
    p->owes_eof = true;
    (void)sg_source_want(in, &p->master, p->master.events | EPOLLOUT, NULL);
}

void sg_pty_finish(struct sg_init *in, struct sg_pty *p,
                   void (*drained)(struct sg_init *in, void *owner), void *owner)
{
    p->drained = drained;
    p->owner = owner;
    p->drain_left = DRAIN_BYTES;
    pump(in, p);
}
