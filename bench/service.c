/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/banned.h"

enum { POOL_TRIES = 2000 };

static int read_number(const char *dir, const char *name, unsigned *ret)
{
    sg_auto_free char *path = sg_printf("%s/%s", dir, name);
    sg_auto_file f = fopen(path, "re");
    return f && fscanf(f, "%u", ret) == 1 ? 0 : -1;
}

int sg_service_find(const struct sg_bench *b, struct sg_service *ret, struct sg_err *err)
{
    unsigned port = 0, nginx = 0, names = 0, tls = 0;
    if (read_number(b->dir, "service.port", &port) < 0)
        return sg_fail(err, SG_NOT_FOUND, "the service does not run");
    (void)read_number(b->dir, "nginx.port", &nginx);
    (void)read_number(b->dir, "names.port", &names);
    (void)read_number(b->dir, "tls.port", &tls);
    *ret = (struct sg_service) { .port = (uint16_t)port,
                                 .nginx_port = (uint16_t)nginx,
                                 .names_port = (uint16_t)names,
                                 .tls_port = (uint16_t)tls };
    (void)snprintf(ret->run_dir, sizeof ret->run_dir, "%s/run", b->dir);
    sg_auto_free char *local = sg_printf("%s/api.sock", ret->run_dir);
    struct sg_http h;
    int result = sg_http_open(&h, 0, local, NULL, err);
    if (result == 0)
        result =
            sg_http_ask(&h, "POST", "/v1/keys",
                        "{\"name\":\"bench\",\"scopes\":[\"read\",\"exec\",\"admin\"]}", 201, err);
    if (result == 0)
        result = sg_http_member(&h, "key", ret->key, sizeof ret->key, err);
    sg_http_close(&h);
    return result;
}

int sg_service_connect(const struct sg_service *s, struct sg_http *h, struct sg_err *err)
{
    return sg_http_open(h, s->port, NULL, s->key, err);
}

int sg_service_create(struct sg_http *h, char ret_id[SG_BENCH_ID], struct sg_err *err)
{
    if (sg_http_ask(h, "POST", "/v1/sandboxes", "{\"timeoutMs\":0}", 201, err) < 0)
        return -1;
    return sg_http_member(h, "id", ret_id, SG_BENCH_ID, err);
}

int sg_service_destroy(struct sg_http *h, const char *id, struct sg_err *err)
{
    char path[96];
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s", id);
    return sg_http_ask(h, "DELETE", path, NULL, 204, err);
}

int sg_service_exec_true(struct sg_http *h, const char *id, struct sg_err *err)
{
    char path[96];
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/exec", id);
    if (sg_http_ask(h, "POST", path, "{\"argv\":[\"/bin/true\"]}", 200, err) < 0)
        return -1;
    return strstr(sg_http_body(h), "\"exitCode\":0") ? 0
                                                     : sg_fail(err, SG_INTERNAL, "true was false");
}

/* Whether every template has as many as it wants. */
static int is_pool_full(const char *text, bool *ret, struct sg_err *err)
{
    unsigned rows = 0;
    *ret = true;
    for (const char *at = text; (at = strstr(at, "\"parked\":")); at++, rows++) {
        unsigned parked, wanted;
        if (sscanf(at, "\"parked\":%u,\"wanted\":%u", &parked, &wanted) != 2)
            return sg_fail(err, SG_UNAVAILABLE, "the pool is not understood");
        *ret = *ret && parked >= wanted;
    }
    return rows ? 0 : sg_fail(err, SG_UNAVAILABLE, "there is no pool");
}

int sg_service_await_pool(struct sg_http *h, struct sg_err *err)
{
    for (unsigned i = 0; i < POOL_TRIES; i++) {
        bool is_full;
        if (sg_race_check(err) < 0 || sg_http_ask(h, "GET", "/v1/pool", NULL, 200, err) < 0 ||
            is_pool_full(sg_http_body(h), &is_full, err) < 0)
            return -1;
        if (is_full)
            return 0;
        (void)nanosleep(&(struct timespec) { .tv_nsec = 5000000 }, NULL);
    }
    return sg_fail(err, SG_TIMEOUT, "the pool does not fill");
}

/* ---- the memory of the service's programs ---- */

/* serve's pid file, serve's child, the launcher's child: the only one called so. */
static unsigned child_called(unsigned parent, const char *name)
{
    sg_auto_dir proc = opendir("/proc");
    for (struct dirent *e; proc && (e = readdir(proc));) {
        unsigned ppid = 0;
        char comm[32] = "", state;
        sg_auto_free char *path = sg_printf("/proc/%s/stat", e->d_name);
        sg_auto_file f = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? fopen(path, "re") : NULL;
        unsigned pid = 0;
        if (f && fscanf(f, "%u (%31[^)]) %c %u", &pid, comm, &state, &ppid) == 4 &&
            ppid == parent && strncmp(comm, name, strlen(comm)) == 0) /* the kernel cuts at 15 */
            return pid;
    }
    return 0;
}

int sg_service_kib(const struct sg_service *s, const char *program, uint64_t *ret_kib,
                   struct sg_err *err)
{
    char line[128];
    unsigned serve = 0;
    unsigned long kib = 0;
    (void)read_number(s->run_dir, "serve.pid", &serve);
    const unsigned launcher = serve ? child_called(serve, "sandglass-launcher") : 0;
    const unsigned pid = launcher ? child_called(launcher, program) : 0;
    sg_auto_free char *path = sg_printf("/proc/%u/status", pid);
    sg_auto_file f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %lu", &kib) == 1)
            break;
    if (!kib)
        return sg_fail(err, SG_NOT_FOUND, "no %s runs", program);
    *ret_kib = kib;
    return 0;
}
