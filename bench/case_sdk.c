/* SPDX-License-Identifier: Apache-2.0 */
/* The service as people who write programs see it: through the official JavaScript client, with the
 * template that it names by itself. The client lives in one process of Node (sdk.mjs), as do those
 * that it is compared with, so that all pay for the same engine. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bare.h"
#include "base/auto.h"
#include "node.h"
#include "service.h"
#include "base/banned.h"

enum {
    CYCLES = 200,
    SLOW_CYCLES = 20,
    RUNS = 300,
    CROWDS = 10,
    FILES = 10,
    PAUSE_MS = 8, /* the pool is filled behind */
};
#define NODE "/usr/bin/node"

struct deed {
    struct sg_node *node;
    const char *name;
};

static int run_deed(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    struct deed *d = ctx;
    return sg_node_do(d->node, d->name, ret_ns, err);
}

/* ---- docker, in the same three steps ---- */

struct docker {
    const struct sg_bench *b;
    char *host; /* of its Engine; owned */
};

static int docker_step(const struct docker *d, const char *const *words, uint64_t *total_ns,
                       struct sg_err *err)
{
    const char *argv[16] = { "/usr/bin/docker", "--host", d->host };
    struct sg_bare bare = { (char *const *)(uintptr_t)argv, d->b->run_env, d->b->null_fd, NULL };
    uint64_t ns = 0;
    for (size_t i = 0; words[i]; i++)
        argv[3 + i] = words[i];
    if (sg_bare_run(&bare, &ns, err) < 0)
        return sg_wrap(err, "docker %s", words[0]);
    *total_ns += ns;
    return 0;
}

static int run_docker(void *ctx, uint64_t *ret_ns, struct sg_err *err)
{
    static const char *const create[] = { "run",  "--detach", "--name",     "sgbench", "--network",
                                          "none", "sgbase",   "/bin/sleep", "1000",    NULL },
                             *const exec[] = { "exec", "--user", "user", "sgbench", "/bin/bash",
                                               "-l",   "-c",     "true", NULL },
                             *const rm[] = { "rm", "--force", "sgbench", NULL };
    *ret_ns = 0;
    if (docker_step(ctx, create, ret_ns, err) < 0 || docker_step(ctx, exec, ret_ns, err) < 0)
        return -1;
    return docker_step(ctx, rm, ret_ns, err);
}

/* ---- the rows ---- */

/* Two deeds of Node, one after the other in every round. */
static int duel(const struct sg_bench *b, struct sg_node *node, const char *what,
                const char *const names[2], unsigned n, double bar, struct sg_err *err)
{
    struct deed d[2] = { { node, names[0] }, { node, names[1] } };
    struct sg_entrant e[2];
    for (size_t i = 0; i < SG_COUNT(e); i++)
        e[i] = (struct sg_entrant) { .name = names[i], .run = run_deed, .ctx = &d[i], .n = n };
    int result = sg_race(e, SG_COUNT(e), 0, err);
    if (result == 0)
        sg_bench_compare(b, "sdk", what, &e[0], &e[1], bar);
    sg_race_done(e, SG_COUNT(e));
    return result;
}

static void add_missing(const struct sg_bench *b, const char *what, const char *why)
{
    sg_report_add(b->report, &(struct sg_row) { .case_name = "sdk", .what = what, .missing = why });
}

static int race_cycles(const struct sg_bench *b, struct sg_node *node, struct sg_err *err)
{
    static const char *const to_docker = "SDK create+run+kill : docker";
    sg_auto_free char *engine = sg_printf("%s/docker.base", b->dir);
    sg_auto_free char *host = sg_printf("unix://%s/docker.sock", b->dir);
    struct docker docker = { b, host };
    struct deed sdk = { node, "sdk cycle" }, raw = { node, "raw cycle" };
    const unsigned n = sg_bench_rounds(b, CYCLES),
                   slow = b->is_full ? n : sg_bench_rounds(b, SLOW_CYCLES);
    struct sg_entrant e[] = {
        { .name = sdk.name, .run = run_deed, .ctx = &sdk, .n = n },
        { .name = raw.name, .run = run_deed, .ctx = &raw, .n = n },
        { .name = "docker", .run = run_docker, .ctx = &docker, .n = slow },
    };
    const bool has_docker = access(engine, F_OK) == 0;
    int result = sg_race(e, SG_COUNT(e) - !has_docker, PAUSE_MS, err);
    if (result == 0 && has_docker)
        sg_bench_compare(b, "sdk", to_docker, &e[0], &e[2], 0.10);
    else if (result == 0)
        add_missing(b, to_docker, "not there: tools/deps bench");
    if (result == 0)
        sg_bench_compare(b, "sdk", "SDK create+run+kill : raw HTTP", &e[0], &e[1], 3);
    sg_race_done(e, SG_COUNT(e));
    return result;
}

static int race_files(const struct sg_bench *b, struct sg_node *node, const struct sg_service *s,
                      struct sg_err *err)
{
    static const struct {
        const char *what, *names[2];
    } ways[] = {
        { "SDK write of 256 MiB : nginx", { "sdk write", "nginx write" } },
        { "SDK read of 256 MiB : nginx", { "sdk read", "nginx read" } },
    };
    uint64_t ns;
    if (s->nginx_port && sg_node_do(node, "fill", &ns, err) < 0)
        return -1;
    for (size_t i = 0; i < SG_COUNT(ways); i++)
        if (!s->nginx_port)
            add_missing(b, ways[i].what, "no nginx: 'tools/deps bench' installs it");
        else if (duel(b, node, ways[i].what, ways[i].names, sg_bench_rounds(b, FILES), 2, err) < 0)
            return -1;
    return 0;
}

static int measure(const struct sg_bench *b, struct sg_node *node, const struct sg_service *s,
                   struct sg_err *err)
{
    static const char *const runs[] = { "run", "spawn" }, *const crowds[] = { "creates at once",
                                                                              "creates in turn" };
    uint64_t ns;
    if (race_cycles(b, node, err) < 0 || sg_node_do(node, "open", &ns, err) < 0)
        return -1;
    int result =
        duel(b, node, "SDK run of true : spawn by Node", runs, sg_bench_rounds(b, RUNS), 2, err);
    if (result == 0)
        result = race_files(b, node, s, err);
    if (result == 0)
        result = duel(b, node, "SDK creates, 100 at once : in turn", crowds,
                      sg_bench_rounds(b, CROWDS), 0.8, err);
    return sg_node_do(node, "close", &ns, result < 0 ? NULL : err) < 0 ? -1 : result;
}

/* ---- the case ---- */

static char *read_line(const struct sg_bench *b, const char *name)
{
    sg_auto_free char *path = sg_printf("%s/%s", b->dir, name);
    sg_auto_file f = fopen(path, "re");
    char line[1024];
    if (!f || !fgets(line, sizeof line, f))
        return NULL;
    line[strcspn(line, "\n")] = '\0';
    return sg_strdup(line);
}

int sg_case_sdk(const struct sg_bench *b, struct sg_err *err)
{
    struct sg_service s;
    struct sg_node node = { 0 };
    sg_auto_free char *folder = read_line(b, "sdk.folder"), *script = read_line(b, "sdk.script");
    if (!folder || !script || access(NODE, X_OK) < 0) {
        add_missing(b, "SDK", "no client or no template: see above");
        return 0;
    }
    if (sg_service_find(b, &s, err) < 0)
        return -1;
    sg_auto_free char *api = sg_printf("E2B_API_URL=http://127.0.0.1:%u", s.port);
    sg_auto_free char *sandbox = sg_printf("E2B_SANDBOX_URL=http://127.0.0.1:%u", s.port);
    sg_auto_free char *key = sg_printf("E2B_API_KEY=%s", s.key);
    sg_auto_free char *nginx = sg_printf("http://127.0.0.1:%u", s.nginx_port);
    /* A login shell reads what is there: the same inside and outside. */
    sg_auto_free char *home = sg_printf("HOME=%s/state/templates/base/root/home/user", b->dir);
    char program[] = NODE, path[] = "PATH=/usr/bin:/bin";
    char *const argv[] = { program, script, folder, nginx, NULL };
    char *const env[] = { path, home, api, sandbox, key, NULL };
    int result = sg_node_open(&node, argv, env, err);
    if (result == 0)
        result = measure(b, &node, &s, err);
    sg_node_close(&node);
    return result;
}
