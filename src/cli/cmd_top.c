/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass top`: what the sandboxes use, looked at again and again. With --json, or where stdout
 * is no terminal: once. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/map.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "cli/term.h"
#include "base/banned.h"

/* What was counted at the last look, to tell how fast it grows. */
struct seen {
    char id[64];
    uint64_t cpu_ms, at_ns;
};

struct look {
    struct sg_api *stats_api; /* the list is read from another: its tree must stay */
    struct sg_map *last;      /* of struct seen, by id */
    struct sg_table table;
    struct sg_json json;
    bool wants_json; /* instead of the table */
    unsigned count;
};

/* Hundredths of a processor since the last look; -1 at the first one. */
static int64_t cpu_share(struct look *l, const char *id, uint64_t cpu_ms)
{
    const uint64_t now = sg_now_ns();
    struct seen *s = sg_map_find(l->last, id);
    int64_t share = -1;
    if (s && now > s->at_ns && cpu_ms >= s->cpu_ms)
        share = (int64_t)((cpu_ms - s->cpu_ms) * 100000000u / (now - s->at_ns));
    if (!s) {
        s = sg_new(struct seen);
        (void)snprintf(s->id, sizeof s->id, "%s", id);
        sg_map_put(l->last, s->id, s);
    }
    s->cpu_ms = cpu_ms;
    s->at_ns = now;
    return share;
}

static void add_row(struct look *l, const struct sg_jval *s, const struct sg_jval *stats)
{
    const char *id = sg_api_text(s, "id");
    const int64_t share = cpu_share(l, id, sg_api_u64(stats, "cpuMs"));
    sg_table_add(&l->table, id);
    sg_table_add(&l->table, sg_api_text(s, "state"));
    if (share < 0)
        sg_table_add(&l->table, "-");
    else
        sg_table_addf(&l->table, "%lld%%", (long long)share);
    sg_table_add(&l->table, sg_short_bytes(sg_api_u64(stats, "memoryBytes")).s);
    sg_table_add(&l->table, sg_short_bytes(sg_api_u64(stats, "memoryLimitBytes")).s);
    sg_table_addf(&l->table, "%llu", (unsigned long long)sg_api_u64(stats, "pids"));
    sg_table_addf(&l->table, "%llu", (unsigned long long)sg_api_u64(s, "execs"));
    sg_table_add(&l->table, sg_short_bytes(sg_api_u64(stats, "diskUsedBytes")).s);
    sg_table_add(&l->table, sg_short_since(sg_api_text(s, "createdAt")).s);
}

static void add_json(struct sg_json *j, const struct sg_jval *s, const struct sg_jval *stats)
{
    sg_json_open(j, '{');
    for (const struct sg_jval *m = s->list.first; m; m = m->next) {
        sg_json_key(j, m->key.p);
        sg_json_put(j, m);
    }
    sg_json_key(j, "stats");
    if (stats)
        sg_json_put(j, stats);
    else
        sg_json_null(j);
    sg_json_close(j, '}');
}

/* One that ends between the list and the question is shown without numbers. */
static int add_one(void *arg, const struct sg_jval *s, struct sg_err *err)
{
    struct look *l = arg;
    const struct sg_jval *stats = NULL;
    sg_auto_buf target;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_api_path(&target, "sandboxes", sg_api_text(s, "id"), "stats");
    if (s->kind != SG_J_OBJECT)
        return 0;
    if (sg_api_call(l->stats_api, "GET", sg_buf_cstr(&target), NULL, &stats, err) < 0 &&
        err->kind == SG_UNAVAILABLE)
        return -1;
    l->count++;
    if (l->wants_json)
        add_json(&l->json, s, stats);
    else
        add_row(l, s, stats);
    return 0;
}

/* One look, as text for stdout. */
static int take_look(struct sg_api *list, struct look *l, struct sg_buf *out, struct sg_err *err)
{
    sg_json_init(&l->json, out);
    sg_table_init(&l->table, "ID", "STATE", "CPU", "MEMORY", "OF", "PROCESSES", "EXECS", "DISK",
                  "AGE");
    l->count = 0;
    if (l->wants_json) {
        sg_json_open(&l->json, '{');
        sg_json_key(&l->json, "sandboxes");
        sg_json_open(&l->json, '[');
    }
    int r = sg_sandbox_each(list, NULL, add_one, l, err);
    if (r == 0 && l->wants_json) {
        sg_json_close(&l->json, ']');
        sg_json_close(&l->json, '}');
        sg_buf_add_str(out, "\n");
    } else if (r == 0) {
        sg_table_print(&l->table, out);
    }
    sg_table_done(&l->table);
    return r;
}

/* The screen is written over, not cleared first: no flicker. Each line clears what was right of it,
 * the end clears what was below. */
static int redraw(const struct sg_buf *text, const struct look *l, struct sg_err *err)
{
    sg_auto_buf out;
    sg_buf_init(&out, 2ul * SG_API_MAX_REPLY);
    uint32_t rows, cols;
    sg_term_size(STDOUT_FILENO, &rows, &cols);
    sg_buf_addf(&out, "\033[H%u sandboxes (q ends)\033[K\r\n", l->count);
    const char *p = (const char *)text->p, *end = p + text->n;
    for (uint32_t row = 2; row < rows && p < end; row++) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        const size_t n = (size_t)(eol - p);
        sg_buf_addf(&out, "%.*s\033[K\r\n", (int)(n < cols ? n : cols), p);
        p = eol + 1;
    }
    sg_buf_add_str(&out, "\033[J");
    return sg_out_write(STDOUT_FILENO, out.p, out.n, err);
}

/* False: it is to end. */
static bool pause_for(const struct sg_cli *cli, int signal_fd)
{
    char key = 0;
    struct pollfd p[] = { { .fd = signal_fd, .events = POLLIN },
                          { .fd = STDIN_FILENO, .events = POLLIN } };
    const nfds_t count = sg_term_is_tty(STDIN_FILENO) ? 2 : 1;
    if (poll(p, count, (int)cli->config.interval_ms) <= 0)
        return true;
    if (p[0].revents)
        return false;
    return read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 3; /* 3: control-C, raw */
}

static int watch(const struct sg_cli *cli, struct sg_api *list, struct look *l, struct sg_err *err)
{
    static const char enter[] = "\033[?1049h\033[?25l", leave[] = "\033[?25h\033[?1049l";
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    sg_auto_fd signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    struct sg_term term = { 0 };
    if (sg_term_is_tty(STDIN_FILENO))
        sg_term_raw(&term, STDIN_FILENO);
    (void)sg_out_write(STDOUT_FILENO, enter, strlen(enter), err);
    int r = 0;
    do {
        sg_auto_buf text;
        sg_buf_init(&text, SG_API_MAX_REPLY);
        r = take_look(list, l, &text, err);
        if (r == 0)
            r = redraw(&text, l, err);
    } while (r == 0 && pause_for(cli, signal_fd));
    (void)sg_out_write(STDOUT_FILENO, leave, strlen(leave), NULL);
    sg_term_restore(&term);
    return r;
}

static void free_seen(struct sg_map *m)
{
    size_t cursor = 0;
    for (void *s; (s = sg_map_next(m, &cursor));)
        free(s);
    sg_map_done(m);
}

int sg_cmd_top(struct sg_cli *cli)
{
    sg_auto_api list, stats;
    struct sg_err err;
    __attribute__((cleanup(free_seen))) struct sg_map last;
    sg_map_init(&last);
    sg_api_open(&list, cli);
    sg_api_open(&stats, cli);
    struct look l = { .stats_api = &stats, .last = &last, .wants_json = cli->config.json };
    if (!cli->config.json && sg_term_is_tty(STDOUT_FILENO))
        return watch(cli, &list, &l, &err) < 0 ? sg_cli_fail(cli, &err) : SG_EXIT_OK;
    sg_auto_buf out;
    sg_buf_init(&out, SG_API_MAX_REPLY);
    if (take_look(&list, &l, &out, &err) < 0)
        return sg_cli_fail(cli, &err);
    return sg_cli_print(&out);
}
