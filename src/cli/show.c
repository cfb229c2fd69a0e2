/* SPDX-License-Identifier: Apache-2.0 */
/* What a cell gives, for people: text as it is, pictures in the terminal where it can show them
 * (by kitty's or iTerm2's escape sequences, which take the file as it is), else as files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/cells.h"
#include "cli/out.h"
#include "cli/term.h"
#include "wire/base64.h"
#include "base/banned.h"

enum { CHUNK = 4096, PICTURE_MAX = 16 << 20, NUMBER_MAX = 10000 };

enum terminal { TERMINAL_PLAIN, TERMINAL_KITTY, TERMINAL_ITERM };

static bool is_set(const char *name, const char *value)
{
    const char *v = getenv(name);
    return v && (!value || strcmp(v, value) == 0);
}

/* Asking the terminal itself would take a moment of every run, and a timeout where it is silent. */
static enum terminal find_terminal(void)
{
    if (!sg_term_is_tty(STDOUT_FILENO) || is_set("TMUX", NULL) || is_set("STY", NULL))
        return TERMINAL_PLAIN;
    if (is_set("KITTY_WINDOW_ID", NULL) || is_set("TERM", "xterm-kitty") ||
        is_set("TERM_PROGRAM", "ghostty"))
        return TERMINAL_KITTY;
    if (is_set("TERM_PROGRAM", "iTerm.app") || is_set("TERM_PROGRAM", "WezTerm") ||
        is_set("LC_TERMINAL", "iTerm2"))
        return TERMINAL_ITERM;
    return TERMINAL_PLAIN;
}

static int show_kitty(struct sg_str base64, struct sg_err *err)
{
    sg_auto_buf out;
    sg_buf_init(&out, 2ul * PICTURE_MAX);
    for (size_t at = 0; at < base64.n || !at; at += CHUNK) {
        const size_t n = base64.n - at < CHUNK ? base64.n - at : CHUNK;
        sg_buf_addf(&out, "\033_G%sm=%d;", at ? "" : "a=T,f=100,", at + n < base64.n);
        sg_buf_add(&out, base64.p + at, n);
        sg_buf_add_str(&out, "\033\\");
    }
    sg_buf_add_str(&out, "\n");
    return sg_out_write(STDOUT_FILENO, out.p, out.n, err);
}

static int show_iterm(struct sg_str base64, struct sg_err *err)
{
    sg_auto_buf out;
    sg_buf_init(&out, 2ul * PICTURE_MAX);
    sg_buf_add_str(&out, "\033]1337;File=inline=1:");
    sg_buf_add(&out, base64.p, base64.n);
    sg_buf_add_str(&out, "\a\n");
    return sg_out_write(STDOUT_FILENO, out.p, out.n, err);
}

/* Never over a file that is there. */
static int save(struct sg_cells *c, const char *ending, const void *p, size_t n, struct sg_err *err)
{
    const char *dir = c->cli->config.save[0] ? c->cli->config.save : ".";
    while (c->pictures < NUMBER_MAX) {
        sg_auto_free char *name = sg_printf("%s/cell-%u.%s", dir, ++c->pictures, ending);
        sg_auto_fd fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd < 0 && errno == EEXIST)
            continue;
        if (fd < 0)
            return sg_fail_sys(err, "save %s", sg_quote(name).s);
        if (sg_out_write(fd, p, n, err) < 0)
            return -1;
        sg_cli_note(c->cli, "saved %s", name);
        return 0;
    }
    return sg_fail(err, SG_EXHAUSTED, "%d pictures are enough", NUMBER_MAX);
}

static const struct {
    const char *key, *ending;
    bool is_base64, has_inline; /* png alone is what every such terminal knows */
} pictures[] = {
    { "png", "png", true, true },
    { "jpeg", "jpg", true, false },
    { "svg", "svg", false, false },
    { "pdf", "pdf", true, false },
};

static int show_picture(struct sg_cells *c, size_t which, struct sg_str text, struct sg_err *err)
{
    sg_auto_buf bytes;
    sg_buf_init(&bytes, PICTURE_MAX);
    if (pictures[which].is_base64 && sg_base64_decode(&bytes, text, err) < 0)
        return sg_wrap(err, "a picture of the result");
    const enum terminal t = pictures[which].has_inline ? find_terminal() : TERMINAL_PLAIN;
    if (t == TERMINAL_KITTY)
        return show_kitty(text, err);
    if (t == TERMINAL_ITERM)
        return show_iterm(text, err);
    return pictures[which].is_base64 ? save(c, pictures[which].ending, bytes.p, bytes.n, err)
                                     : save(c, pictures[which].ending, text.p, text.n, err);
}

/* The plainest form that there is. */
static int show_result(struct sg_cells *c, const struct sg_jval *v, struct sg_err *err)
{
    static const char *const forms[] = { "text", "markdown", "latex", "html", "javascript" };
    for (size_t i = 0; i < SG_COUNT(forms); i++) {
        const struct sg_jval *form = sg_json_get(v, forms[i]);
        if (!form || form->kind != SG_J_STRING)
            continue;
        if (sg_out_write(STDOUT_FILENO, form->s.p, form->s.n, err) < 0 ||
            sg_out_write(STDOUT_FILENO, "\n", 1, err) < 0)
            return -1;
        break;
    }
    for (size_t i = 0; i < SG_COUNT(pictures); i++) {
        const struct sg_jval *p = sg_json_get(v, pictures[i].key);
        if (p && p->kind == SG_J_STRING && show_picture(c, i, p->s, err) < 0)
            return -1;
    }
    return 0;
}

static int show_error(const struct sg_jval *v, struct sg_err *err)
{
    sg_auto_buf out;
    sg_buf_init(&out, 2ul * PICTURE_MAX);
    const char *trace = sg_api_text(v, "traceback"), *name = sg_api_text(v, "name");
    sg_buf_add_str(&out, trace);
    if (out.n && out.p[out.n - 1] != '\n')
        sg_buf_add_str(&out, "\n");
    if (!strstr(trace, name) || !*name) /* some tell it at the end of the traceback */
        sg_buf_addf(&out, "%s: %s\n", name, sg_api_text(v, "value"));
    return sg_out_write(STDERR_FILENO, out.p, out.n, err);
}

int sg_cells_show(struct sg_cells *c, const struct sg_jval *v, struct sg_err *err)
{
    const char *type = sg_api_text(v, "type");
    const struct sg_jval *text = sg_json_get(v, "text");
    const struct sg_str said =
        text && text->kind == SG_J_STRING ? text->s : (struct sg_str) { "", 0 };
    if (strcmp(type, "stdout") == 0)
        return sg_out_write(STDOUT_FILENO, said.p, said.n, err);
    if (strcmp(type, "stderr") == 0)
        return sg_out_write(STDERR_FILENO, said.p, said.n, err);
    if (strcmp(type, "result") == 0)
        return show_result(c, v, err);
    return strcmp(type, "error") == 0 ? show_error(v, err) : 0;
}
