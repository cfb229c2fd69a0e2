/* SPDX-License-Identifier: Apache-2.0 */
/* Towards other processes: the sandbox's own first process, neighbours, the host. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack.h"
#include "base/banned.h"

/* ---- one process, by its number outside ---- */

static void kill_process(char **args)
{
    sg_say_result("kill", kill((pid_t)sg_number(&args), SIGKILL));
}

static void trace_process(char **args)
{
    const pid_t pid = (pid_t)sg_number(&args);
    const long ret = ptrace(PTRACE_SEIZE, pid, NULL, NULL);
    sg_say_result("ptrace", ret);
    if (ret == 0)
        (void)ptrace(PTRACE_DETACH, pid, NULL, NULL);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    sg_say_result("environ", open(path, O_RDONLY | O_CLOEXEC));
    (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    sg_say_result("mem", open(path, O_RDWR | O_CLOEXEC));
    char byte;
    struct iovec here = { &byte, 1 }, there = { (void *)0x1000, 1 };
    const ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
    sg_say_result("process_vm_readv", n < 0 && errno == EFAULT ? 0 : n);
    const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    sg_say_result("pidfd_getfd", pidfd < 0 ? -1 : syscall(SYS_pidfd_getfd, pidfd, 0, 0));
    sg_say_result("prlimit", prlimit(pid, RLIMIT_CORE, NULL, &(struct rlimit) { 0 }));
}

/* ---- the first process of the sandbox ---- */

static void attack_init(char **args)
{
    (void)args;
    for (int i = 1; i < 65; i++)
        if (i != SIGSTOP || getpid() != 1)
            (void)kill(1, i);
    (void)kill(1, SIGCONT);
    sg_say_result("ptrace", ptrace(PTRACE_SEIZE, 1, NULL, NULL));
    if (ptrace(PTRACE_INTERRUPT, 1, NULL, NULL) == 0) {
        (void)waitpid(1, NULL, __WALL);
        (void)ptrace(PTRACE_DETACH, 1, NULL, NULL);
    }
    sg_say_result("mem", open("/proc/1/mem", O_RDWR | O_CLOEXEC));
    sg_say_result("environ", open("/proc/1/environ", O_RDONLY | O_CLOEXEC));
    char byte;
    struct iovec here = { &byte, 1 }, there = { (void *)0x400000, 1 };
    sg_say_result("process_vm_readv", process_vm_readv(1, &here, 1, &there, 1, 0));
    const int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);
    sg_say_result("pidfd_getfd", pidfd < 0 ? -1 : syscall(SYS_pidfd_getfd, pidfd, 3, 0));
}

/* Everybody that can be reached; one child survives to see what is left. */
static void kill_everybody(char **args)
{
    (void)args;
    (void)signal(SIGTERM, SIG_IGN);
    sg_say_result("kill-all", kill(-1, SIGTERM));
    const pid_t group = getpgid(1); /* 0: not of this namespace, and would mean our own */
    if (group > 0)
        sg_say_result("kill-init-group", kill(-group, SIGKILL));
    sg_say("alive", "1");
    (void)kill(-1, SIGKILL);
    sg_say("alive", "2"); /* kill(-1) spares the caller */
}

/* ---- what is there ---- */

static void processes(char **args)
{
    (void)args;
    DIR *d = opendir("/proc");
    if (!d)
        sg_broken("/proc");
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] >= '0' && e->d_name[0] <= '9')
            sg_say("pid", "%s", e->d_name);
    (void)closedir(d);
}

static void descriptors(char **args)
{
    (void)args;
    for (int fd = 0; fd < 1024; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            continue;
        char path[64], target[256];
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n < 0 ? 0 : n] = '\0';
        sg_say("descriptor", "%d %s", fd, target);
    }
    char cwd[256];
    sg_say("cwd", "%s", getcwd(cwd, sizeof cwd) ? cwd : "?");
}

/* ---- what the host left open ---- */

static void shared_memory(char **args)
{
    sg_say_result("shared-memory", shmget((key_t)sg_number(&args), 0, 0));
}

static void connect_abstract(char **args)
{
    const char *name = sg_word(&args);
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    const size_t n = strlen(name);
    memcpy(a.sun_path + 1, name, n);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sg_say_result("abstract", connect(fd, (struct sockaddr *)&a,
                                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)));
}

static void connect_loopback(char **args)
{
    const uint16_t port = (uint16_t)sg_number(&args);
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct sockaddr_in6 b = { .sin6_family = AF_INET6,
                              .sin6_port = htons(port),
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sg_say_result("loopback", connect(fd, (struct sockaddr *)&a, sizeof a));
    fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sg_say_result("loopback6", connect(fd, (struct sockaddr *)&b, sizeof b));
}

const struct sg_attack sg_attacks_on_others[] = {
    { "kill", kill_process },
    { "trace", trace_process },
    { "init", attack_init },
    { "kill-everybody", kill_everybody },
    { "processes", processes },
    { "descriptors", descriptors },
    { "shared-memory", shared_memory },
    { "connect-abstract", connect_abstract },
    { "connect-loopback", connect_loopback },
    { NULL, NULL },
};
