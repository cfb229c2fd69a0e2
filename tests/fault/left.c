/* SPDX-License-Identifier: Apache-2.0 */
#include "left.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "engine/cgroup.h"
#include "base/banned.h"

enum { TEXT_MAX = 1 << 20, POLL_NS = 300000 };

static char *own_fds(void)
{
    sg_auto_buf text;
    sg_buf_init(&text, TEXT_MAX);
    for (int fd = 0; fd < 256; fd++) {
        char path[40], target[200];
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n > 0)
            sg_buf_addf(&text, "descriptor %d on %.*s\n", fd, (int)n, target);
    }
    return sg_strdup(sg_buf_cstr(&text));
}

/* One line a mount, without the numbers that differ from namespace to namespace. */
static char *own_mounts(void)
{
    sg_auto_buf text;
    sg_buf_init(&text, TEXT_MAX);
    sg_auto_file f = fopen("/proc/self/mountinfo", "re");
    char line[2048], root[512], point[512];
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%*d %*d %*s %511s %511s", root, point) == 2)
            sg_buf_addf(&text, "mount of %s on %s\n", root, point);
    return sg_strdup(sg_buf_cstr(&text));
}

void left_own_init(struct left_own *o)
{
    o->fds = own_fds();
    o->mounts = own_mounts();
}

/* Whole lines of `after` that `before` has not, each as often as it stands there. */
static void add_new_lines(const char *before, const char *after, char *ret, size_t cap)
{
    for (const char *line = after; *line; line += strcspn(line, "\n") + 1) {
        const int n = (int)strcspn(line, "\n") + 1;
        unsigned now = 0, then = 0;
        char text[1100];
        (void)snprintf(text, sizeof text, "%.*s", n, line);
        for (const char *p = after; (p = strstr(p, text)); p++)
            now++;
        for (const char *p = before; (p = strstr(p, text)); p++)
            then++;
        const size_t used = strlen(ret);
        if (now > then)
            (void)snprintf(ret + used, cap - used, "%s%.*s", used ? ", " : "", n - 1, line);
    }
}

void left_own_done(struct left_own *o, char *ret, size_t cap)
{
    sg_auto_free char *fds = own_fds(), *mounts = own_mounts();
    *ret = '\0';
    add_new_lines(o->fds, fds, ret, cap);
    add_new_lines(o->mounts, mounts, ret, cap);
    free(o->fds);
    free(o->mounts);
}

/* Reaps what has ended; is anybody left? */
static bool has_children(void)
{
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG | __WALL);
        if (pid == 0)
            return true;
        if (pid < 0 && errno == ECHILD)
            return false;
    }
}

static void name_children(char *ret, size_t cap)
{
    char text[512] = "";
    sg_auto_fd fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    (void)snprintf(ret, cap, "processes %s", text);
}

/* A service of this machine may come and go meanwhile, and has its files in the same place. */
static bool is_expected(const char *name)
{
    static const char *const names[] = { "slots",     "cells",     "launcher.lock", "api.sock",
                                         "serve.log", "serve.pid", "serve.url",     "platforms" };
    for (size_t i = 0; i < SG_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return name[0] == '.';
}

static void name_files(char *ret, size_t cap)
{
    sg_auto_dir d = opendir("/run/sandglass");
    for (struct dirent *e; d && (e = readdir(d));)
        if (!is_expected(e->d_name))
            (void)snprintf(ret, cap, "file /run/sandglass/%s", e->d_name);
}

void left_processes(unsigned wait_ms, char *ret, size_t cap)
{
    *ret = '\0';
    const uint64_t until = sg_now_ns() + (uint64_t)wait_ms * 1000000u;
    while (has_children()) {
        if (sg_now_ns() > until) {
            name_children(ret, cap);
            return;
        }
        const struct timespec t = { .tv_nsec = POLL_NS };
        (void)nanosleep(&t, NULL);
    }
}

void left_things(char *ret, size_t cap)
{
    *ret = '\0';
    /* Others may be using cells on this machine right now: theirs have an owner. */
    const int swept = sg_cgroup_sweep(true);
    if (swept > 0)
        (void)snprintf(ret, cap, "%d cgroups", swept);
    name_files(ret, cap);
}
