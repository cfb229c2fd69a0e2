/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass up`: the service in the background, and a key for its clients. Does what is missing:
 * it can be called again and again. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "cli/api.h"
#include "cli/out.h"
#include "cli/supervise.h"
#include "base/banned.h"

enum { START_MS = 30000, TRY_MS = 10, MAX_LOG = 1 << 20, SHOWN_LOG = 2000 };
static const uint64_t MS = 1000000;

static void open_local(struct sg_api *a, const struct sg_cli *cli)
{
    sg_auto_free char *url = sg_printf("unix:%s/api.sock", cli->config.serve_run_dir);
    sg_api_open_at(a, url, "");
}

static bool is_healthy(const struct sg_cli *cli)
{
    sg_auto_api api;
    struct sg_err ignored;
    open_local(&api, cli);
    return sg_api_call(&api, "GET", "/health", NULL, NULL, &ignored) == 0;
}

static off_t log_size(const struct sg_cli *cli)
{
    sg_auto_free char *path = sg_supervise_log(cli);
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : 0;
}

/* The end of what it said since: whoever starts a service wants to know why it did not. */
static void show_log(const struct sg_cli *cli, off_t since)
{
    sg_auto_free char *path = sg_supervise_log(cli);
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char tail[SHOWN_LOG];
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    const bool is_long = st.st_size - since > SHOWN_LOG;
    const off_t from = is_long ? st.st_size - SHOWN_LOG : since;
    ssize_t n = pread(fd, tail, sizeof tail, from);
    const char *start = is_long && n > 0 ? memchr(tail, '\n', (size_t)n) : NULL;
    const size_t skip = start ? (size_t)(start - tail) + 1 : 0;
    if (n > 0 && !cli->config.json)
        (void)sg_out_write(STDERR_FILENO, tail + skip, (size_t)n - skip, NULL);
}

/* Starts it where it does not run, and waits until it answers. */
static int bring_up(const struct sg_cli *cli, bool *ret_was_up, struct sg_err *err)
{
    pid_t pid = 0;
    *ret_was_up = is_healthy(cli);
    if (*ret_was_up)
        return 0;
    const off_t said = log_size(cli);
    sg_auto_fd pidfd = sg_supervise_detached(cli, &pid, err);
    if (pidfd < 0 && err->kind != SG_CONFLICT) /* a conflict: somebody else is at it */
        return -1;
    const uint64_t deadline = sg_now_ns() + START_MS * MS;
    while (!is_healthy(cli)) {
        struct pollfd p = { .fd = pidfd, .events = POLLIN };
        sg_auto_free char *log = sg_supervise_log(cli);
        const bool has_ended = poll(&p, 1, TRY_MS) > 0;
        if (!has_ended && sg_now_ns() < deadline)
            continue;
        show_log(cli, said);
        return has_ended ? sg_fail(err, SG_UNAVAILABLE, "the service did not start: see %s", log)
                         : sg_fail(err, SG_TIMEOUT, "the service does not answer: see %s", log);
    }
    return 0;
}

/* ---- the key ---- */

static bool is_good(const struct sg_cli *cli, const char *key)
{
    sg_auto_api api;
    struct sg_err ignored;
    sg_auto_free char *url = sg_printf("unix:%s/api.sock", cli->config.serve_run_dir);
    sg_api_open_at(&api, url, key);
    return *key && sg_api_call(&api, "GET", "/v1/whoami", NULL, NULL, &ignored) == 0;
}

/* Written beside and renamed: nobody reads half a key. */
static int write_key(const struct sg_cli *cli, const char *key, struct sg_err *err)
{
    sg_auto_free char *path = sg_api_key_file(cli);
    sg_auto_free char *fresh = sg_printf("%s.new", path);
    (void)mkdir(cli->config.state_dir, 0755);
    (void)unlink(fresh);
    sg_auto_fd fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return sg_fail_sys(err, "make %s", sg_quote(fresh).s);
    if (sg_out_write(fd, key, strlen(key), err) < 0 || sg_out_write(fd, "\n", 1, err) < 0)
        return -1;
    if (fsync(fd) < 0 || rename(fresh, path) < 0)
        return sg_fail_sys(err, "write %s", sg_quote(path).s);
    return 0;
}

/* Returns owned, or NULL. */
static char *make_key(const struct sg_cli *cli, struct sg_err *err)
{
    static const char wish[] = "{\"name\":\"client\",\"scopes\":[\"read\",\"exec\",\"admin\"]}";
    sg_auto_api api;
    sg_auto_buf body;
    const struct sg_jval *v;
    sg_buf_init(&body, sizeof wish);
    sg_buf_add_str(&body, wish);
    open_local(&api, cli);
    if (sg_api_call(&api, "POST", "/v1/keys", &body, &v, err) < 0)
        return NULL;
    sg_auto_free char *key = sg_strdup(sg_api_text(v, "key"));
    return write_key(cli, key, err) < 0 ? NULL : sg_take_ptr(&key);
}

static int print(const struct sg_cli *cli, const char *key, bool was_up)
{
    sg_auto_free char *url = sg_api_running_url(cli);
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, 4096);
    sg_json_init(&j, &out);
    if (!cli->config.json) {
        sg_buf_addf(&out, "url  %s\nkey  %s\n", url, key);
        sg_cli_note(cli, "%s; for clients: eval \"$(sandglass env)\"",
                    was_up ? "the service is running" : "the service was started");
        return sg_cli_print(&out);
    }
    sg_json_open(&j, '{');
    sg_json_key(&j, "url");
    sg_json_str(&j, url);
    sg_json_key(&j, "key");
    sg_json_str(&j, key);
    sg_json_key(&j, "started");
    sg_json_bool(&j, !was_up);
    sg_json_close(&j, '}');
    return sg_api_print(&out);
}

int sg_cmd_up(struct sg_cli *cli)
{
    struct sg_err err = { 0 };
    bool was_up;
    if (bring_up(cli, &was_up, &err) < 0)
        return sg_cli_fail(cli, &err);
    sg_auto_free char *key = sg_api_read_key(cli);
    if (is_good(cli, key))
        return print(cli, key, was_up);
    sg_auto_free char *made = make_key(cli, &err);
    return made ? print(cli, made, was_up) : sg_cli_fail(cli, &err);
}
