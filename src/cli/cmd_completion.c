/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/complete.h"
#include "cli/out.h"
#include "base/banned.h"

static const struct {
    const char *name;
    void (*write)(struct sg_buf *out);
} shells[] = {
    { "bash", sg_complete_bash },
    { "zsh", sg_complete_zsh },
    { "fish", sg_complete_fish },
};

int sg_cmd_completion(struct sg_cli *cli)
{
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++)
        if (strcmp(cli->args[0], shells[i].name) == 0) {
            sg_auto_buf out;
            sg_buf_init(&out, 1 << 20);
            shells[i].write(&out);
            return sg_cli_print(&out);
        }
    struct sg_err err;
    (void)sg_fail(&err, SG_INVALID, "no completion for %s: bash, zsh or fish",
                  sg_quote(cli->args[0]).s);
    return sg_cli_fail(cli, &err);
}
