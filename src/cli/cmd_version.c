/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "cli/out.h"
#include "base/banned.h"

int sg_cmd_version(struct sg_cli *cli)
{
    sg_auto_buf out;
    sg_buf_init(&out, 256);
    struct sg_json j;
    sg_json_init(&j, &out);
    if (cli->config.json) {
        sg_json_open(&j, '{');
        sg_json_key(&j, "version");
        sg_json_str(&j, SG_VERSION);
        sg_json_close(&j, '}');
    } else {
        sg_buf_add_str(&out, "sandglass " SG_VERSION);
    }
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}
