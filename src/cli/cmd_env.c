/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass env`: the variables that clients read, for eval "$(sandglass env)". Asks nobody: they
 * are what a running service noted, or the settings, and the key that `up` wrote. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/api.h"
#include "cli/out.h"
#include "base/banned.h"

/* In single quotes, where only the quote itself is special. */
static void add_quoted(struct sg_buf *out, const char *text)
{
    sg_buf_add_str(out, "'");
    for (; *text; text++) {
        if (*text == '\'')
            sg_buf_add_str(out, "'\\'");
        sg_buf_add(out, text, 1);
    }
    sg_buf_add_str(out, "'");
}

static int print(const struct sg_cli *cli, const char *url, const char *key)
{
    const struct {
        const char *name, *value;
    } variables[] = {
        { "SANDGLASS_URL", url },   { "SANDGLASS_API_KEY", key },  { "E2B_API_URL", url },
        { "E2B_SANDBOX_URL", url }, { "E2B_VOLUME_API_URL", url }, { "E2B_API_KEY", key },
    };
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, 64 << 10);
    sg_json_init(&j, &out);
    if (cli->config.json)
        sg_json_open(&j, '{');
    for (size_t i = 0; i < SG_COUNT(variables); i++) {
        if (cli->config.json) {
            sg_json_key(&j, variables[i].name);
            sg_json_str(&j, variables[i].value);
            continue;
        }
        sg_buf_addf(&out, "export %s=", variables[i].name);
        add_quoted(&out, variables[i].value);
        sg_buf_add_str(&out, "\n");
    }
    if (cli->config.json) {
        sg_json_close(&j, '}');
        sg_buf_add_str(&out, "\n");
    }
    return sg_cli_print(&out);
}

int sg_cmd_env(struct sg_cli *cli)
{
    struct sg_err err;
    const char *given = getenv("SANDGLASS_API_KEY");
    sg_auto_free char *url =
        *cli->config.url ? sg_strdup(cli->config.url) : sg_api_running_url(cli);
    sg_auto_free char *key = given && *given ? sg_strdup(given) : sg_api_read_key(cli);
    if (*key)
        return print(cli, url, key);
    (void)sg_fail(&err, SG_NOT_FOUND, "there is no key yet: 'sandglass up' makes one");
    return sg_cli_fail(cli, &err);
}
