/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass repl`: cells typed one after the other, in a context that keeps its state. A line that
 * leaves something open goes on until an empty one. */
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/cells.h"
#include "cli/edit.h"
#include "cli/out.h"
#include "cli/term.h"
#include "base/banned.h"

enum { CELL_MAX = 1 << 20 };

/* It ends in the midst of something, or is indented. */
static bool is_open(const struct sg_buf *line)
{
    size_t n = line->n;
    while (n && (line->p[n - 1] == ' ' || line->p[n - 1] == '\t'))
        n--;
    return n && strchr(":{([,\\", line->p[n - 1]);
}

static bool is_empty(const struct sg_buf *line)
{
    for (size_t i = 0; i < line->n; i++)
        if (line->p[i] != ' ' && line->p[i] != '\t')
            return false;
    return true;
}

/* The next cell. */
static enum sg_edited read_cell(struct sg_ring *history, struct sg_buf *cell)
{
    sg_auto_buf line;
    sg_buf_init(&line, SG_EDIT_LINE_MAX + 1);
    sg_buf_clear(cell);
    for (bool goes_on = false;;) {
        const enum sg_edited got = sg_edit_line(goes_on ? "... " : ">>> ", history, &line);
        if (got == SG_EDITED_ABANDONED || (got == SG_EDITED_END && !cell->n))
            return got;
        sg_buf_add(cell, line.p, line.n);
        sg_buf_add_str(cell, "\n");
        goes_on = goes_on ? !is_empty(&line) : is_open(&line);
        if (!goes_on || got == SG_EDITED_END)
            return SG_EDITED_LINE;
    }
}

static bool is_word(const struct sg_buf *cell, const char *word)
{
    size_t n = cell->n;
    while (n && (cell->p[n - 1] == '\n' || cell->p[n - 1] == ' '))
        n--;
    return sg_str_is((struct sg_str) { (const char *)cell->p, n }, word);
}

/* A session that is typed goes on after an error; what is piped in is a script. */
static int run_cells(struct sg_cells *c, bool is_typed, struct sg_err *err)
{
    sg_auto_ring history;
    sg_auto_buf cell;
    bool has_failed = false;
    sg_ring_init(&history, SG_EDIT_HISTORY);
    sg_buf_init(&cell, CELL_MAX);
    for (enum sg_edited got; (got = read_cell(&history, &cell)) != SG_EDITED_END;) {
        if (got == SG_EDITED_ABANDONED || is_word(&cell, ""))
            continue;
        if (is_word(&cell, ":quit"))
            break;
        const bool restarts = is_word(&cell, ":restart");
        const struct sg_str code = { (const char *)cell.p, cell.n };
        if ((restarts ? sg_cells_restart(c, err) : sg_cells_run(c, code, err)) < 0)
            return -1;
        has_failed |= c->has_failed;
        if (has_failed && !is_typed)
            break;
    }
    return !is_typed && has_failed ? SG_EXIT_FAILED : SG_EXIT_OK;
}

int sg_cmd_repl(struct sg_cli *cli)
{
    struct sg_err err;
    sg_auto_cells cells;
    const bool is_typed = sg_term_is_tty(STDIN_FILENO);
    if (sg_cells_open(&cells, cli, true, &err) < 0)
        return cells.got_signal ? SG_EXIT_SIGNAL + cells.got_signal : sg_cli_fail(cli, &err);
    if (is_typed)
        sg_cli_note(cli, "Ctrl-D ends, Ctrl-C interrupts, :restart begins anew; sandbox %s",
                    cells.sandbox);
    const int code = run_cells(&cells, is_typed, &err);
    if (code < 0)
        return cells.got_signal ? SG_EXIT_SIGNAL + cells.got_signal : sg_cli_fail(cli, &err);
    return code;
}
