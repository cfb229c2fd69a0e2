/* SPDX-License-Identifier: Apache-2.0 */
/* More than a fair share: processes, memory, processor time, files, terminals, output; and
 * processes that do not want to end. */
#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attack.h"
#include "base/banned.h"

enum { MIB = 1 << 20 };

/* ---- processes and threads ---- */

static void say_made(const char *what, long made, long wanted, int error)
{
    sg_say("made", "%ld", made);
    if (made == wanted)
        sg_say_got(what);
    else
        sg_say_held(what, error);
}

/* The children stay: ending them all is the sandbox's part. */
static void fork_bomb(char **args)
{
    const long wanted = sg_number(&args);
    long made = 0;
    for (; made < wanted; made++) {
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid == 0) {
            (void)setsid();
            for (;;)
                (void)pause();
        }
    }
    say_made("processes", made, wanted, errno);
}

static void *wait_forever(void *unused)
{
    for (;;)
        (void)pause();
    return unused;
}

static void thread_bomb(char **args)
{
    const long wanted = sg_number(&args);
    pthread_attr_t attr;
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, 16384);
    long made = 0;
    int error = 0;
    for (; made < wanted && error == 0; made += error == 0) {
        pthread_t t;
        error = pthread_create(&t, &attr, wait_forever, NULL);
    }
    say_made("threads", made, wanted, error);
}

/* ---- memory ---- */

static void balloon(char **args)
{
    const long mib = sg_number(&args);
    for (long i = 0; i < mib; i++) {
        char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            sg_say_held("memory", errno);
            return;
        }
        memset(p, 1, MIB);
    }
    sg_say_got("memory");
}

static void balloon_in_memfd(char **args)
{
    const long mib = sg_number(&args);
    static char block[MIB];
    int fd = memfd_create("balloon", MFD_CLOEXEC);
    if (fd < 0)
        sg_broken("memfd_create");
    memset(block, 1, sizeof block);
    for (long i = 0; i < mib; i++)
        if (write(fd, block, sizeof block) < 0) {
            sg_say_held("memfd", errno);
            return;
        }
    sg_say_got("memfd");
}

static void lock_memory(char **args)
{
    const size_t bytes = (size_t)sg_number(&args) * MIB;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        sg_broken("mmap");
    sg_say_result("mlock", mlock(p, bytes));
    sg_say_result("mlockall", mlockall(MCL_FUTURE) == 0 &&
                                      mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED
                                  ? 0
                                  : -1);
}

static void huge_pages(char **args)
{
    (void)args;
    const size_t bytes = 2 * MIB;
    const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, anonymous, -1, 0);
    sg_say_result("huge-mmap", p == MAP_FAILED ? -1 : 0);
    int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
    void *q = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        q = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    sg_say_result("huge-memfd", q == MAP_FAILED ? -1 : 0);
    sg_say_result("huge-shm", shmget(IPC_PRIVATE, bytes, IPC_CREAT | SHM_HUGETLB | 0600));
}

/* ---- processor ---- */

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void spin(char **args)
{
    const long count = sg_number(&args);
    const int64_t until = now_ms() + sg_number(&args);
    for (long i = 0; i < count; i++)
        if (fork() == 0) {
            cpu_set_t all;
            memset(&all, 0xff, sizeof all);
            (void)sched_setaffinity(0, sizeof all, &all);
            while (now_ms() < until)
                ;
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    struct rusage u;
    (void)getrusage(RUSAGE_CHILDREN, &u);
    sg_say("cpu_ms", "%ld",
           (long)((u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
                  (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000));
}

struct deadline_attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static void priority(char **args)
{
    (void)args;
    const struct sched_param first = { .sched_priority = 1 };
    sg_say_result("sched-fifo", sched_setscheduler(0, SCHED_FIFO, &first));
    sg_say_result("sched-rr", sched_setscheduler(0, SCHED_RR, &first));
    const struct deadline_attr d = {
        .size = sizeof d, .policy = 6, .runtime = 1000000, .deadline = 10000000, .period = 10000000
    };
    sg_say_result("sched-deadline", syscall(SYS_sched_setattr, 0, &d, 0));
    sg_say_result("nice", setpriority(PRIO_PROCESS, 0, -20));
    sg_say_result("ioprio-realtime", syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0,
                                             IOPRIO_PRIO_VALUE(IOPRIO_CLASS_RT, 0)));
}

/* ---- files and terminals ---- */

static void enter(const char *dir)
{
    if (chdir(dir) < 0)
        sg_broken(dir);
}

static void many_files(char **args)
{
    enter(sg_word(&args));
    const long wanted = sg_number(&args);
    long made = 0;
    for (; made < wanted; made++) {
        char name[32];
        (void)snprintf(name, sizeof name, "f%ld", made);
        int fd = open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0)
            break;
        (void)close(fd);
    }
    say_made("files", made, wanted, errno);
}

static void deep_directories(char **args)
{
    enter(sg_word(&args));
    const long wanted = sg_number(&args);
    long made = 0;
    for (; made < wanted; made++)
        if (mkdir("d", 0700) < 0 || chdir("d") < 0)
            break;
    say_made("directories", made, wanted, errno);
}

static void fill(char **args)
{
    const char *path = sg_word(&args);
    const long mib = sg_number(&args);
    static char block[MIB];
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) {
        sg_say_held("fill", errno);
        return;
    }
    memset(block, 1, sizeof block);
    long written = 0;
    for (ssize_t n; written < mib * MIB; written += n)
        if ((n = write(fd, block, sizeof block)) <= 0)
            break;
    sg_say("bytes", "%ld", written);
    if (written < mib * MIB)
        sg_say_held("fill", errno);
    else
        sg_say_got("fill");
}

static void terminals(char **args)
{
    const long wanted = sg_number(&args);
    long made = 0;
    for (; made < wanted; made++)
        if (open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) < 0)
            break;
    say_made("terminals", made, wanted, errno);
}

static void descriptors_bomb(char **args)
{
    const long wanted = sg_number(&args);
    long made = 0;
    for (; made < wanted; made++)
        if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
            break;
    say_made("descriptors", made, wanted, errno);
}

static void flood(char **args)
{
    const long mib = sg_number(&args);
    static char block[65536];
    memset(block, 'x', sizeof block);
    for (long left = mib * 16; left > 0; left--)
        if (write(STDOUT_FILENO, block, sizeof block) < 0)
            _exit(3);
}

/* ---- not ending ---- */

static void stubborn(char **args)
{
    const bool also_stops = *args && strcmp(*args, "stop") == 0;
    for (int i = 1; i < 65; i++)
        (void)signal(i, SIG_IGN);
    sg_say("ready", "1");
    if (also_stops) {
        (void)kill(getppid(), SIGSTOP);
        (void)kill(getpid(), SIGSTOP);
    }
    for (;;)
        (void)pause();
}

/* Orphans, vforks that die by a signal, and forged news of children, while the real status is 7. */
static void die_in_vfork(void)
{
    if (vfork() == 0) {
        (void)kill(getpid(), SIGKILL);
        _exit(1);
    }
}

static void leave_an_orphan(int status)
{
    if (fork() != 0)
        return;
    if (fork() == 0)
        _exit(status);
    _exit(0);
}

static void confuse_reaper(char **args)
{
    (void)args;
    for (int i = 0; i < 50; i++) {
        die_in_vfork();
        leave_an_orphan(i);
        (void)kill(1, SIGCHLD);
    }
    _exit(7);
}

static void crash(char **args)
{
    (void)args;
    struct rlimit most;
    (void)getrlimit(RLIMIT_CORE, &most);
    most.rlim_cur = most.rlim_max;
    (void)setrlimit(RLIMIT_CORE, &most);
    sg_say("core_limit", "%ld", (long)most.rlim_max);
    abort();
}

const struct sg_attack sg_attacks_on_resources[] = {
    { "fork-bomb", fork_bomb },
    { "thread-bomb", thread_bomb },
    { "balloon", balloon },
    { "balloon-in-memfd", balloon_in_memfd },
    { "lock-memory", lock_memory },
    { "huge-pages", huge_pages },
    { "spin", spin },
    { "priority", priority },
    { "many-files", many_files },
    { "deep-directories", deep_directories },
    { "fill", fill },
    { "terminals", terminals },
    { "descriptors-bomb", descriptors_bomb },
    { "flood", flood },
    { "stubborn", stubborn },
    { "confuse-reaper", confuse_reaper },
    { "crash", crash },
    { NULL, NULL },
};
