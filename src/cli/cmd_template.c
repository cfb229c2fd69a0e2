/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass template list` and `sandglass template rm`. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "cli/cmd_template.h"
#include "cli/out.h"
#include "image/store.h"
#include "base/banned.h"

enum { MAX_TEMPLATES = 4096, LIST_BYTES = 4 << 20, MIB = 1 << 20 };

struct names {
    char *v[MAX_TEMPLATES]; /* owned */
    size_t n;
};

static void names_done(struct names *names)
{
    while (names->n)
        free(names->v[--names->n]);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* `host` is always there, whether or not its skeleton has been made yet. */
static int collect(const char *state_dir, struct names *ret, struct sg_err *err)
{
    ret->v[ret->n++] = sg_strdup("host");
    int fd = sg_templates_open(state_dir, false, err);
    if (fd < 0)
        return err->kind == SG_NOT_FOUND ? 0 : -1;
    sg_auto_dir dir = fdopendir(fd);
    if (!dir) {
        sg_close_p(&fd);
        return sg_fail_sys(err, "list the templates");
    }
    struct sg_err not_a_name;
    for (struct dirent *d; (d = readdir(dir)) && ret->n < MAX_TEMPLATES;)
        if (d->d_type != DT_REG && sg_template_check_name(d->d_name, &not_a_name) == 0)
            ret->v[ret->n++] = sg_strdup(d->d_name);
    qsort(ret->v + 1, ret->n - 1, sizeof ret->v[0], by_name);
    return 0;
}

static void put_json(struct sg_json *j, const struct sg_template *t)
{
    sg_json_open(j, '{');
    sg_json_key(j, "name");
    sg_json_str(j, t->name);
    sg_json_key(j, "origin");
    sg_json_str(j, t->origin);
    sg_json_key(j, "user");
    sg_json_str(j, t->user);
    sg_json_key(j, "workdir");
    sg_json_str(j, t->workdir);
    sg_json_key(j, "sudo");
    sg_json_bool(j, t->grants_sudo);
    sg_json_key(j, "bytes");
    t->bytes ? sg_json_u64(j, t->bytes) : sg_json_null(j);
    sg_json_key(j, "digest");
    sg_json_str(j, t->digest);
    sg_json_close(j, '}');
}

static void put_row(struct sg_buf *out, const struct sg_template *t)
{
    sg_buf_addf(out, "%-20s %-10s %-10s %-5s ", t->name, t->origin ? t->origin : "-", t->user,
                t->grants_sudo ? "yes" : "no");
    if (t->bytes)
        sg_buf_addf(out, "%llu MiB\n", (unsigned long long)((t->bytes + MIB - 1) / MIB));
    else
        sg_buf_add_str(out, "-\n");
}

static int describe(const char *state_dir, const char *name, struct sg_template *ret,
                    struct sg_err *err)
{
    if (strcmp(name, "host") != 0)
        return sg_template_open(state_dir, name, ret, err);
    sg_template_init(ret, name); /* a list makes nothing */
    ret->origin = sg_strdup("host");
    return 0;
}

static int print_list(const struct sg_cli *cli, const struct names *names)
{
    const struct sg_config *c = &cli->config;
    sg_auto_buf out;
    sg_buf_init(&out, LIST_BYTES);
    struct sg_json j;
    sg_json_init(&j, &out);
    if (c->json)
        sg_json_open(&j, '[');
    else if (!c->names)
        sg_buf_addf(&out, "%-20s %-10s %-10s %-5s %s\n", "NAME", "ORIGIN", "USER", "SUDO", "SIZE");
    for (size_t i = 0; i < names->n; i++) {
        struct sg_err err;
        sg_auto_template t = { .lock_fd = -1 };
        if (c->names && !c->json) {
            sg_buf_addf(&out, "%s\n", names->v[i]);
        } else if (describe(c->state_dir, names->v[i], &t, &err) < 0) {
            sg_cli_note(cli, "%s", err.msg); /* one bad template does not hide the others */
        } else if (c->json) {
            put_json(&j, &t);
        } else {
            put_row(&out, &t);
        }
    }
    if (c->json) {
        sg_json_close(&j, ']');
        sg_buf_add_str(&out, "\n");
    }
    return sg_cli_print(&out);
}

int sg_cmd_template_list(struct sg_cli *cli)
{
    struct sg_err err;
    __attribute__((cleanup(names_done))) struct names names = { .n = 0 };
    if (collect(cli->config.state_dir, &names, &err) < 0)
        return sg_cli_fail(cli, &err);
    return print_list(cli, &names);
}

static int remove_template(const char *state_dir, const char *name, struct sg_err *err)
{
    if (strcmp(name, "host") == 0)
        return sg_fail(err, SG_INVALID, "'host' is the machine itself and cannot be removed");
    if (sg_template_check_name(name, err) < 0)
        return -1;
    sg_auto_fd store = sg_templates_open(state_dir, false, err);
    if (store < 0)
        return err->kind == SG_NOT_FOUND ? sg_fail(err, SG_NOT_FOUND, "no template '%s'", name)
                                         : -1;
    sg_templates_sweep(store, NULL);
    return sg_templates_remove(store, name, err);
}

static int print_removed(const struct sg_cli *cli, char *const *names, int count)
{
    sg_auto_buf out;
    sg_buf_init(&out, LIST_BYTES);
    struct sg_json j;
    sg_json_init(&j, &out);
    if (cli->config.json)
        sg_json_open(&j, '[');
    for (int i = 0; i < count; i++) {
        if (cli->config.json)
            sg_json_str(&j, names[i]);
        else
            sg_buf_addf(&out, "%s\n", names[i]);
    }
    if (cli->config.json) {
        sg_json_close(&j, ']');
        sg_buf_add_str(&out, "\n");
    }
    return sg_cli_print(&out);
}

/* One that cannot be removed does not keep the others, and each failure is told; with --json, where
 * one document is expected, the first of them is. */
int sg_cmd_template_rm(struct sg_cli *cli)
{
    int failed = SG_EXIT_OK, removed = 0;
    for (int i = 0; i < cli->arg_count; i++) {
        struct sg_err err;
        if (remove_template(cli->config.state_dir, cli->args[i], &err) == 0)
            cli->args[removed++] = cli->args[i];
        else if (failed == SG_EXIT_OK || !cli->config.json)
            failed = sg_cli_fail(cli, &err);
    }
    if (removed)
        sg_import_sweep(cli->config.state_dir);
    if (failed != SG_EXIT_OK && cli->config.json)
        return failed;
    int printed = print_removed(cli, cli->args, removed);
    return failed != SG_EXIT_OK ? failed : printed;
}
