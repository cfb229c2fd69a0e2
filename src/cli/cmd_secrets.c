/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass secrets list|set|rm`. A value comes from the standard input or is typed unseen; never
 * from the command line, where others can read it. */
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "cli/term.h"
#include "base/banned.h"

enum { MAX_VALUE = 64 << 10 };

static void add_hosts(struct sg_table *t, const struct sg_jval *secret)
{
    sg_auto_buf text;
    sg_buf_init(&text, 4096);
    for (const struct sg_jval *h = sg_api_first(secret, "hosts"); h; h = h->next)
        sg_buf_addf(&text, "%s%s", text.n ? " " : "", h->kind == SG_J_STRING ? h->s.p : "");
    sg_table_add(t, sg_buf_cstr(&text));
}

static void add_row(struct sg_table *t, const struct sg_jval *s)
{
    sg_table_add(t, sg_api_text(s, "name"));
    sg_table_addf(t, "%llu", (unsigned long long)sg_api_u64(s, "version"));
    sg_table_add(t, sg_short_since(sg_api_text(s, "updatedAt")).s);
    sg_table_add(t, sg_api_text(s, "id"));
    add_hosts(t, s);
}

int sg_cmd_secrets_list(struct sg_cli *cli)
{
    sg_auto_table t;
    sg_table_init(&t, "NAME", "VERSION", "CHANGED", "ID", "HOSTS");
    return sg_cli_list(cli, "/v1/secrets", "secrets", &t, add_row);
}

/* One line, which the terminal does not show. Ctrl-C ends us with the terminal as it was: the
 * driver's own signal would not wait for that. */
static int read_unseen(struct sg_buf *ret, struct sg_err *err)
{
    struct termios saved;
    char c = '\0';
    if (tcgetattr(STDIN_FILENO, &saved) < 0)
        return sg_fail_sys(err, "ask the terminal");
    struct termios quiet = saved;
    quiet.c_lflag &= ~(tcflag_t)(ECHO | ISIG);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    (void)!write(STDERR_FILENO, "value: ", 7); /* from here on nothing typed is lost */
    ssize_t n;
    while ((n = read(STDIN_FILENO, &c, 1)) == 1 && c != '\n' && c != '\x03')
        sg_buf_add(ret, &c, 1);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
    (void)!write(STDERR_FILENO, "\n", 1);
    if (n < 0)
        return sg_fail_sys(err, "read the value");
    if (c == '\x03')
        (void)raise(SIGINT);
    return sg_buf_check(ret, "the value", err);
}

/* What `echo` adds is not meant: one line end at the end does not count. */
static int read_value(struct sg_buf *ret, struct sg_err *err)
{
    if (sg_term_is_tty(STDIN_FILENO))
        return read_unseen(ret, err);
    if (sg_buf_read_fd(ret, STDIN_FILENO, "the standard input", err) < 0)
        return -1;
    if (ret->n && ret->p[ret->n - 1] == '\n')
        ret->n--;
    return 0;
}

static int check_value(const struct sg_buf *value, struct sg_err *err)
{
    if (!value->n)
        return sg_fail(err, SG_INVALID, "there is no value on the standard input");
    if (value->n > MAX_VALUE)
        return sg_fail(err, SG_INVALID, "a secret has at most %d bytes", MAX_VALUE);
    if (!sg_utf8_valid((const char *)value->p, value->n) || memchr(value->p, 0, value->n))
        return sg_fail(err, SG_INVALID, "the value is no text in UTF-8");
    return 0;
}

static void put_hosts(struct sg_json *j, const struct sg_config *c)
{
    sg_json_key(j, "hosts");
    sg_json_open(j, '[');
    for (size_t i = 0; i < c->secret_hosts.n; i++)
        sg_json_str(j, c->secret_hosts.v[i]);
    sg_json_close(j, ']');
    sg_json_key(j, "plainHttp");
    sg_json_bool(j, c->plain_http);
}

static int send(struct sg_cli *cli, const struct sg_buf *value, struct sg_buf *body)
{
    sg_auto_api api;
    sg_auto_buf target, out;
    struct sg_err err;
    struct sg_json j;
    const struct sg_jval *v;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&out, 4096);
    sg_json_init(&j, body);
    sg_json_open(&j, '{');
    sg_json_key(&j, "value");
    sg_json_text(&j, (struct sg_str) { (const char *)value->p, value->n });
    if (cli->config.metadata.n)
        sg_put_pairs(&j, "metadata", &cli->config.metadata);
    if (cli->config.secret_hosts.n)
        put_hosts(&j, &cli->config);
    sg_json_close(&j, '}');
    sg_api_path(&target, "secrets", cli->args[0]);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "PUT", sg_buf_cstr(&target), body, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    sg_add_clean(&out, sg_api_text(v, "name"));
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

int sg_cmd_secrets_set(struct sg_cli *cli)
{
    sg_auto_buf value, body;
    struct sg_err err;
    sg_buf_init(&value, MAX_VALUE + 2);
    sg_buf_init(&body, (size_t)8 * MAX_VALUE);
    if (cli->config.plain_http && !cli->config.secret_hosts.n) {
        (void)sg_fail(&err, SG_INVALID, "--plain-http is about hosts: name them with --host");
        return sg_cli_fail(cli, &err);
    }
    if (read_value(&value, &err) < 0 || check_value(&value, &err) < 0)
        return sg_cli_fail(cli, &err);
    return send(cli, &value, &body);
}

int sg_cmd_secrets_rm(struct sg_cli *cli)
{
    return sg_cli_remove(cli, "secrets", "removed");
}
