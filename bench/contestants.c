/* SPDX-License-Identifier: Apache-2.0 */
/* Every one gets the same root (the skeleton of the template `host`, with /usr and its like bound
 * read-only), the same namespaces, the same user and the same environment, as far as it has words
 * for them. */
#include "contestants.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/banned.h"

static void add(struct sg_args *a, const char *text)
{
    assert(a->n < SG_ARGS_MAX);
    a->v[a->n++] = sg_strdup(text);
}

static void add_all(struct sg_args *a, const char *const *texts)
{
    for (; *texts; texts++)
        add(a, *texts);
}

static void add_path(struct sg_args *a, const char *prefix, const struct sg_bench *b,
                     const char *name)
{
    assert(a->n < SG_ARGS_MAX);
    a->v[a->n++] = sg_printf("%s%s/%s", prefix, b->dir, name);
}

void sg_args_done(struct sg_args *args)
{
    while (args->n > 0)
        free(args->v[--args->n]);
}

static void sandglass_args(const struct sg_bench *b, struct sg_args *a)
{
    (void)b;
    add_all(a, (const char *const[]) { "run", "--", "/bin/true", NULL });
}

static void bubblewrap_args(const struct sg_bench *b, struct sg_args *a)
{
    static const char *const isolation[] = {
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--uid",
        "1000",
        "--gid",
        "1000",
        "--clearenv",
        "--hostname",
        "sandbox",
        NULL,
    };
    static const char *const view[] = {
        "--proc",     "/proc",   "--dev",      "/dev",    "--tmpfs",    "/tmp", "--tmpfs",
        "/workspace", "--tmpfs", "/home/user", "--chdir", "/workspace", NULL,
    };
    add_all(a, isolation);
    add(a, "--setenv");
    add(a, "PATH");
    add(a, b->host.path);
    add(a, "--ro-bind");
    add_path(a, "", b, "rootfs");
    add(a, "/");
    for (size_t i = 0; i < b->host.bind_count; i++)
        add_all(a, (const char *const[]) { "--ro-bind", b->host.binds[i].source,
                                           b->host.binds[i].target, NULL });
    for (size_t i = 0; i < b->host.hide_count; i++)
        add_all(a, (const char *const[]) { "--tmpfs", b->host.hide[i], NULL });
    add_all(a, view);
    add_all(a, (const char *const[]) { "--", "/bin/true", NULL });
}

/* The command is in the bundle's config.json. */
static void crun_args(const struct sg_bench *b, struct sg_args *a)
{
    add_path(a, "--root=", b, "crun");
    add(a, "run");
    add_path(a, "--bundle=", b, "bundle");
    assert(a->n < SG_ARGS_MAX);
    a->v[a->n++] = sg_printf("sgbench-%d", (int)getpid());
}

static void docker_args(const struct sg_bench *b, struct sg_args *a)
{
    add(a, "--host");
    add_path(a, "unix://", b, "docker.sock");
    add_all(a, (const char *const[]) { "run", "--rm", "--network", "none", "sgbench", "/bin/true",
                                       NULL });
}

const struct sg_contestant sg_contestants[] = {
    { "sandglass", NULL, NULL, 0, false, sandglass_args },
    { "bubblewrap", "/usr/bin/bwrap", NULL, 0.65, false, bubblewrap_args },
    { "crun", "/usr/bin/crun", NULL, 0.40, false, crun_args },
    { "docker", "/usr/bin/docker", "docker.sock", 0.05, true, docker_args },
};
const size_t sg_contestant_count = SG_COUNT(sg_contestants);

bool sg_contestant_is_there(const struct sg_contestant *c, const struct sg_bench *b)
{
    sg_auto_free char *needed = c->needs ? sg_printf("%s/%s", b->dir, c->needs) : NULL;
    return (!c->program || access(c->program, X_OK) == 0) && (!needed || access(needed, F_OK) == 0);
}

void sg_contestant_args(const struct sg_contestant *c, const struct sg_bench *b,
                        struct sg_args *ret)
{
    *ret = (struct sg_args) { 0 };
    add(ret, c->program ? c->program : b->sandglass);
    c->add_args(b, ret);
}
