/* SPDX-License-Identifier: Apache-2.0 */
/* sandglass-registry: images from registries, and to them.
 *
 * Started by `sandglass template pull` and `push`, with what is wanted as JSON on stdin:
 * credentials are in there and in no list of arguments. While it is still somebody it reads that,
 * certificates and the machine's own word on names; then it becomes nobody (confine.h) with a
 * network and, for a pull, one directory to write, and only then takes a word from anybody else.
 *
 * Lines of JSON on stdout: {"done":N,"total":N} while it works, then {"image":{...}} or {"sent":N},
 * or
 * {"error":{"kind":"...","message":"..."}} and exit code 1. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/auto.h"
#include "base/json.h"
#include "net/resolv.h"
#include "registry/registry.h"
#include "registry/seccomp_data.h"
#include "sys/confine.h"
#include "base/banned.h"

enum { REQUEST_MAX = 16 << 20, TEXT_MAX = 64 << 10, CA_MAX = 4 << 20 };
#define CA_FILE "/etc/ssl/certs/ca-certificates.crt"

static struct {
    struct sg_buf request, ca, hosts, servers;
    struct sg_arena arena;
} files;

static int read_file(const char *path, struct sg_buf *to, struct sg_err *err)
{
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    return sg_buf_read_fd(to, fd, path, err);
}

static int read_all(struct sg_registry *r, struct sg_registry_request *q, struct sg_err *err)
{
    struct sg_err unused;
    if (sg_buf_read_fd(&files.request, STDIN_FILENO, "request", err) < 0 ||
        sg_registry_request_parse(
            (struct sg_str) { (const char *)files.request.p, files.request.n }, &files.arena, q,
            err) < 0)
        return sg_wrap(err, "what is wanted");
    if (!q->is_plain && read_file(*q->ca ? q->ca : CA_FILE, &files.ca, err) < 0)
        return sg_wrap(err, "registry.ca (is the package ca-certificates installed?)");
    (void)read_file("/etc/hosts", &files.hosts, &unused); /* may be missing */
    (void)read_file("/etc/resolv.conf", &files.servers, &unused);
    (void)sg_buf_cstr(&files.servers);
    r->request = q;
    r->names.ca = (struct sg_str) { (const char *)files.ca.p, files.ca.n };
    r->names.hosts = sg_buf_cstr(&files.hosts);
    if (files.servers.n)
        r->names.server_count =
            sg_resolv_servers((char *)files.servers.p, r->names.servers, SG_POST_SERVERS_MAX);
    return 0;
}

void sg_registry_progress(uint64_t done, uint64_t total)
{
    (void)printf("{\"done\":%llu,\"total\":%llu}\n", (unsigned long long)done,
                 (unsigned long long)total);
    (void)fflush(stdout);
}

static int run(struct sg_registry *r, struct sg_err *err)
{
    static const struct {
        const char *name;
        int (*run)(struct sg_registry *r, struct sg_err *err);
    } actions[] = { { "pull", sg_registry_pull }, { "push", sg_registry_push } };
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    static struct sg_registry_request request;
    struct sg_confined confined;
    if (sigaction(SIGPIPE, &ignore, NULL) < 0)
        return sg_fail_sys(err, "ignore SIGPIPE");
    if (read_all(r, &request, err) < 0)
        return -1;
    if (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK)
        return sg_fail(err, SG_UNSUPPORTED, "libcurl does not start");
    const struct sg_confine confine = { .name = "registry",
                                        .id = SG_REGISTRY_ID,
                                        .state_dir = *request.dir ? request.dir : NULL,
                                        .keeps_net = true,
                                        .filter = sg_seccomp_registry,
                                        .filter_len = sg_seccomp_registry_len };
    if (sg_confine(&confine, &confined, err) < 0)
        return -1;
    for (size_t i = 0; i < SG_COUNT(actions); i++)
        if (strcmp(request.action, actions[i].name) == 0)
            return actions[i].run(r, err);
    return sg_fail(err, SG_INVALID, "no action %s", sg_quote(request.action).s);
}

static void print_error(const struct sg_err *err)
{
    sg_auto_buf out;
    sg_buf_init(&out, TEXT_MAX);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "error");
    sg_json_open(&j, '{');
    sg_json_key(&j, "kind");
    sg_json_u64(&j, err->kind);
    sg_json_key(&j, "message");
    sg_json_str(&j, err->msg);
    sg_json_close(&j, '}');
    sg_json_close(&j, '}');
    (void)printf("%s\n", sg_buf_cstr(&out));
    (void)fflush(stdout);
}

int main(void)
{
    struct sg_err err = { 0 };
    static struct sg_registry registry;
    sg_arena_init(&files.arena, SG_OCI_ARENA);
    sg_buf_init(&files.request, REQUEST_MAX);
    sg_buf_init(&files.ca, CA_MAX);
    sg_buf_init(&files.hosts, TEXT_MAX);
    sg_buf_init(&files.servers, TEXT_MAX);
    const int got = run(&registry, &err);
    if (got < 0)
        print_error(&err);
    sg_registry_done(&registry);
    if (files.request.p)
        explicit_bzero(files.request.p, files.request.n);
    sg_buf_done(&files.request);
    sg_buf_done(&files.ca);
    sg_buf_done(&files.hosts);
    sg_buf_done(&files.servers);
    sg_arena_done(&files.arena);
    return got == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
