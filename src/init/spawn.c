/* SPDX-License-Identifier: Apache-2.0 */
#include "init/spawn.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "init/path.h"
#include "base/banned.h"

static const char DEFAULT_PATH[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

enum { ADDED_MAX = 4, CHILD_STACK_BYTES = 16 * 1024 };

/* Strings are appended to a buffer that moves as it grows: places first, pointers at the end. */
struct strings {
    size_t at[SG_SPAWN_MAX_PATHS];
    unsigned count;
};

static void fill(struct sg_texts list, char **to)
{
    struct sg_text t;
    while (sg_text_next(&list, &t))
        *to++ = (char *)(uintptr_t)t.p; /* exec's types predate const */
}

static const char *find_variable(char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return *env + n + 1;
    return NULL;
}

static void add_variables(struct sg_spawn *s, struct strings *added)
{
    const struct {
        const char *name, *value;
    } wanted[ADDED_MAX] = { { "HOME", s->user->home },
                            { "USER", s->user->name },
                            { "LOGNAME", s->user->name },
                            { "SHELL", s->user->shell } };
    for (unsigned i = 0; i < ADDED_MAX; i++)
        if (!find_variable(s->envp, wanted[i].name)) {
            added->at[added->count++] = s->text.n;
            sg_buf_addf(&s->text, "%s=%s%c", wanted[i].name, wanted[i].value, 0);
        }
}

static int add_candidates(struct sg_spawn *s, struct strings *paths, struct sg_err *err)
{
    const char *dirs = find_variable(s->envp, "PATH");
    const char *name = s->argv[0];
    if (!dirs || !*dirs)
        dirs = DEFAULT_PATH;
    for (const char *end;; dirs = end + 1) {
        if (paths->count == SG_SPAWN_MAX_PATHS)
            return sg_fail(err, SG_EXHAUSTED, "PATH has over %d directories", SG_SPAWN_MAX_PATHS);
        end = strchrnul(dirs, ':');
        paths->at[paths->count++] = s->text.n;
        sg_buf_add(&s->text, dirs, (size_t)(end - dirs));
        if (end != dirs) /* an empty one means the working directory */
            sg_buf_add(&s->text, "/", 1);
        sg_buf_add(&s->text, name, strlen(name) + 1);
        if (!*end)
            return 0;
    }
}

static void resolve(const struct sg_spawn *s, const struct strings *from, char **to)
{
    for (unsigned i = 0; i < from->count; i++)
        *to++ = (char *)s->text.p + from->at[i];
}

static void choose_directory(struct sg_spawn *s, const struct sg_msg_spawn *m)
{
    s->may_use_root = m->cwd.n == 0;
    s->cwd = m->cwd.n ? m->cwd.p : s->user->home;
    if (s->cwd[0] != '/')
        s->base = sg_path_base();
}

int sg_spawn_prepare(struct sg_spawn *s, const struct sg_msg_spawn *m, const struct sg_user *user,
                     struct sg_err *err)
{
    *s = (struct sg_spawn) { .user = user, .fds = { -1, -1, -1 } };
    sg_buf_init(&s->text, SG_SPAWN_MAX_TEXT_BYTES);
    if (m->argv.count == 0)
        return sg_fail(err, SG_INVALID, "no program was named");
    size_t argc = m->argv.count, envc = m->env.count;
    s->vectors =
        calloc(argc + 1 + envc + ADDED_MAX + 1 + SG_SPAWN_MAX_PATHS + 1, sizeof *s->vectors);
    if (!s->vectors)
        return sg_fail(err, SG_EXHAUSTED, "no memory for %zu arguments", argc + envc);
    s->argv = s->vectors;
    s->envp = s->argv + argc + 1;
    s->paths = s->envp + envc + ADDED_MAX + 1;
    fill(m->argv, s->argv);
    fill(m->env, s->envp);

    struct strings added = { .count = 0 }, paths = { .count = 0 };
    add_variables(s, &added);
    if (strchr(s->argv[0], '/'))
        s->paths[0] = s->argv[0];
    else if (s->argv[0][0] && add_candidates(s, &paths, err) < 0)
        return -1;
    if (sg_buf_check(&s->text, "search path", err) < 0)
        return -1;
    resolve(s, &added, s->envp + envc);
    resolve(s, &paths, s->paths);
    choose_directory(s, m);
    return 0;
}

void sg_spawn_done(struct sg_spawn *s)
{
    free(s->vectors);
    sg_buf_done(&s->text);
}

static int explain(const struct sg_spawn *s, struct sg_err *err)
{
    static const char *const names[SG_SPAWN_STEP_COUNT] = {
        [SG_SPAWN_SESSION] = "start a session",
        [SG_SPAWN_TERMINAL] = "take the terminal",
        [SG_SPAWN_STREAMS] = "attach the streams",
        [SG_SPAWN_IDS] = "become user",
        [SG_SPAWN_CAPS] = "leave capabilities",
        [SG_SPAWN_DIRECTORY] = "enter directory",
        [SG_SPAWN_DESCRIPTORS] = "close descriptors",
        [SG_SPAWN_SIGNALS] = "unblock signals",
        [SG_SPAWN_EXEC] = "run",
    };
    const char *what = s->failed == SG_SPAWN_IDS         ? s->user->name
                       : s->failed == SG_SPAWN_DIRECTORY ? s->cwd
                                                         : s->argv[0];
    errno = s->sys;
    sg_fail_sys(err, "%s %s", names[s->failed], sg_quote(what).s);
    if (s->failed == SG_SPAWN_DIRECTORY)
        err->kind = SG_INVALID; /* not to be taken for a program that is missing */
    return -1;
}

int sg_spawn_start(struct sg_spawn *s, struct sg_err *err)
{
    /* The child has a stack of its own, or its calls would tread on the frames that we return to.
     */
    static _Alignas(16) char stack[CHILD_STACK_BYTES];
    s->sys = 0;
    int pid = clone(sg_spawn_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, s);
    if (pid < 0)
        return sg_fail_sys(err, "start a process");
    if (!s->sys)
        return pid;
    (void)waitpid(pid, NULL, 0);
    return explain(s, err);
}
