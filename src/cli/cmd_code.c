/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass code [--lang L] [--sandbox ID] FILE|-`: one cell, in a sandbox that is there or in a
 * fresh one that ends with it. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/cells.h"
#include "cli/out.h"
#include "base/banned.h"

enum { CODE_MAX = 8 << 20 };

static int read_code(const char *path, struct sg_buf *out, struct sg_err *err)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    sg_auto_fd fd = is_stdin ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (!is_stdin && fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    if (sg_buf_read_fd(out, is_stdin ? STDIN_FILENO : fd, path, err) < 0)
        return -1;
    if (!sg_utf8_valid((const char *)out->p, out->n))
        return sg_fail(err, SG_INVALID, "%s is no text in UTF-8", sg_quote(path).s);
    return 0;
}

/* By the file's name, where nothing else is said. */
static void guess_language(struct sg_cli *cli)
{
    static const struct {
        const char *ending, *language;
    } known[] = { { ".py", "python" },     { ".js", "javascript" }, { ".mjs", "javascript" },
                  { ".ts", "typescript" }, { ".sh", "bash" },       { ".bash", "bash" },
                  { ".r", "r" },           { ".R", "r" },           { ".java", "java" } };
    const char *dot = strrchr(cli->args[0], '.');
    if (cli->config.lang[0] || !dot)
        return;
    for (size_t i = 0; i < SG_COUNT(known); i++)
        if (strcmp(dot, known[i].ending) == 0) {
            free(cli->config.lang);
            cli->config.lang = sg_strdup(known[i].language);
        }
}

int sg_cmd_code(struct sg_cli *cli)
{
    sg_auto_buf code;
    struct sg_err err;
    sg_buf_init(&code, CODE_MAX);
    guess_language(cli);
    if (read_code(cli->args[0], &code, &err) < 0)
        return sg_cli_fail(cli, &err);
    sg_auto_cells cells;
    if (sg_cells_open(&cells, cli, false, &err) < 0 ||
        sg_cells_run(&cells, (struct sg_str) { (const char *)code.p, code.n }, &err) < 0)
        return cells.got_signal ? SG_EXIT_SIGNAL + cells.got_signal : sg_cli_fail(cli, &err);
    return cells.has_failed ? SG_EXIT_FAILED : SG_EXIT_OK;
}
