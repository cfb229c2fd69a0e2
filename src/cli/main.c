/* SPDX-License-Identifier: Apache-2.0 */
/* The program `sandglass`: the table of commands, and the way from argv to a handler.
 *
 * Four steps: find the command, scan its flags, gather its settings, call it. The way to
 * `sandglass run` is kept short: no locale, no stdio, one open a settings file. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/hint.h"
#include "cli/cmd.h"
#include "cli/help.h"
#include "cli/image_work.h"
#include "cli/opt.h"
#include "cli/out.h"
#include "base/banned.h"

/* A new command: its handler declared in cmd.h, its file in meson.build, its row here, its bit in
 * config/option.h, its man page. */
/* clang-format off */
const struct sg_command sg_commands[] = {
    { .name = "run", .tail = "[options] -- command [args]", .bit = SG_FOR_RUN,
      .summary = "Run a command in a fresh sandbox that is gone when it ends.",
      .examples = { "run -- python3 -c 'print(1)'",
                    "run --memory 1g --copy-in job.py:. --copy-out out.csv:. -- python3 job.py" },
      .min_args = 1, .max_args = -1, .stops_at_word = true, .run = sg_cmd_run },
    { .name = "shell", .tail = "[options] [ID]", .bit = SG_FOR_SHELL,
      .summary = "Open a shell in a fresh sandbox, or in one of the service.",
      .examples = { "shell", "shell --template base --bind .:/workspace" },
      .max_args = 1, .words = "@sandboxes", .run = sg_cmd_shell },
    { .name = "serve", .tail = "[options]", .bit = SG_FOR_SERVE,
      .summary = "Run the service in the foreground; Ctrl-C ends it with its sandboxes.",
      .examples = { "serve", "serve --listen 127.0.0.1:9000 --pool base=8" },
      .run = sg_cmd_serve },
    { .name = "up", .tail = "[options]", .bit = SG_FOR_UP,
      .summary = "Start the service in the background; print its URL and a key.",
      .examples = { "up", "up --pool base=8 --json" },
      .run = sg_cmd_up },
    { .name = "down", .tail = "[options]", .bit = SG_FOR_DOWN,
      .summary = "End the service and its sandboxes.",
      .examples = { "down", "down --keep" },
      .run = sg_cmd_down },
    { .name = "env", .tail = "[options]", .bit = SG_FOR_ENV,
      .summary = "Print the variables that clients read, for eval.",
      .examples = { "env", "env --json" },
      .run = sg_cmd_env },
    { .name = "ps", .tail = "[options]", .bit = SG_FOR_PS, .is_client = true,
      .summary = "List the sandboxes of the service.",
      .examples = { "ps", "ps --state running --metadata team=blue" },
      .run = sg_cmd_ps },
    { .name = "create", .tail = "[options]", .bit = SG_FOR_CREATE, .is_client = true,
      .summary = "Create a sandbox in the service; print its id.",
      .examples = { "create", "create --memory 1g --timeout 1h --metadata team=blue --json" },
      .run = sg_cmd_create },
    { .name = "exec", .tail = "[options] ID [--] command [args]", .bit = SG_FOR_EXEC,
      .summary = "Run a command in a sandbox of the service.", .is_client = true,
      .examples = { "exec ID -- python3 -c 'print(1)'", "exec --detach ID -- sleep 100" },
      .min_args = 2, .max_args = -1, .stops_at_word = true, .run = sg_cmd_exec },
    { .name = "cp", .tail = "[options] SRC DST", .bit = SG_FOR_CP, .is_client = true,
      .summary = "Copy a file or directory; either side may be ID:PATH, - is stdin or stdout.",
      .examples = { "cp job.py ID:/workspace/", "cp ID:/workspace/out ." },
      .min_args = 2, .max_args = 2, .run = sg_cmd_cp },
    { .name = "logs", .tail = "[options] ID [EXEC]", .bit = SG_FOR_LOGS, .is_client = true,
      .summary = "Show the output of an exec: of the latest, or the one named.",
      .examples = { "logs ID", "logs --follow ID EXEC" },
      .min_args = 1, .max_args = 2, .words = "@sandboxes", .run = sg_cmd_logs },
    { .name = "top", .tail = "[options]", .bit = SG_FOR_TOP, .is_client = true,
      .summary = "Show what the sandboxes use, live.",
      .examples = { "top", "top --json" },
      .run = sg_cmd_top },
    { .name = "pause", .tail = "[options] ID...", .bit = SG_FOR_PAUSE, .is_client = true,
      .summary = "Freeze sandboxes; their memory stays.",
      .examples = { "pause ID", "pause --json ID" },
      .min_args = 1, .max_args = -1, .words = "@sandboxes", .run = sg_cmd_pause },
    { .name = "resume", .tail = "[options] ID...", .bit = SG_FOR_RESUME, .is_client = true,
      .summary = "Let paused sandboxes go on.",
      .examples = { "resume ID", "resume --json ID" },
      .min_args = 1, .max_args = -1, .words = "@sandboxes", .run = sg_cmd_resume },
    { .name = "snapshot", .tail = "[options] ID", .bit = SG_FOR_SNAPSHOT, .is_client = true,
      .summary = "Keep the files of a sandbox as they are now; others can be made of them.",
      .examples = { "snapshot ID", "snapshot --name work --tag v1 ID" },
      .min_args = 1, .max_args = 1, .words = "@sandboxes", .run = sg_cmd_snapshot },
    { .name = "snapshots list", .tail = "[options]", .bit = SG_FOR_SNAPSHOTS_LIST, .is_client = true,
      .summary = "List the snapshots.",
      .examples = { "snapshots list", "snapshots list --json" },
      .run = sg_cmd_snapshots_list },
    { .name = "snapshots rm", .tail = "[options] SNAPSHOT...", .bit = SG_FOR_SNAPSHOTS_RM, .is_client = true,
      .summary = "Remove snapshots.",
      .examples = { "snapshots rm work:v1", "snapshots rm --cascade SNAPSHOT" },
      .min_args = 1, .max_args = -1, .run = sg_cmd_snapshots_rm },
    { .name = "snapshots export", .tail = "[options] ID FILE", .bit = SG_FOR_SNAPSHOTS_EXPORT, .is_client = true,
      .summary = "Write a sandbox or snapshot to one file, for another machine.",
      .examples = { "snapshots export --whole ID work.sandbox", "snapshots export work:v1 - | ssh HOST sandglass snapshots import -" },
      .min_args = 2, .max_args = 2, .words = "@sandboxes", .run = sg_cmd_snapshots_export },
    { .name = "snapshots import", .tail = "[options] FILE", .bit = SG_FOR_SNAPSHOTS_IMPORT, .is_client = true,
      .summary = "Make a sandbox, or a snapshot, of such a file.",
      .examples = { "snapshots import work.sandbox", "snapshots import --name work work.sandbox" },
      .min_args = 1, .max_args = 1, .run = sg_cmd_snapshots_import },
    { .name = "snapshots gc", .tail = "[options]", .bit = SG_FOR_GC, .is_client = true,
      .summary = "Remove checkpoints, kept files and layers of builds that are of no use any more.",
      .examples = { "snapshots gc --dry-run", "snapshots gc --days 30" },
      .run = sg_cmd_gc },
    { .name = "fork", .tail = "[options] ID", .bit = SG_FOR_FORK, .is_client = true,
      .summary = "Make new sandboxes with the files of one.",
      .examples = { "fork ID", "fork --count 10 ID" },
      .min_args = 1, .max_args = 1, .words = "@sandboxes", .run = sg_cmd_fork },
    { .name = "rollback", .tail = "[options] ID SNAPSHOT", .bit = SG_FOR_ROLLBACK, .is_client = true,
      .summary = "Give a sandbox the files of a snapshot; its processes end.",
      .examples = { "rollback ID work:v1", "rollback --json ID SNAPSHOT" },
      .min_args = 2, .max_args = 2, .words = "@sandboxes", .run = sg_cmd_rollback },
    { .name = "tree", .tail = "[options]", .bit = SG_FOR_TREE, .is_client = true,
      .summary = "Show which sandbox and snapshot came from which.",
      .examples = { "tree", "tree --json" },
      .run = sg_cmd_tree },
    { .name = "kill", .tail = "[options] ID [EXEC]", .bit = SG_FOR_KILL, .is_client = true,
      .summary = "End an exec, or all that run in a sandbox.",
      .examples = { "kill ID", "kill --signal TERM ID EXEC" },
      .min_args = 1, .max_args = 2, .words = "@sandboxes", .run = sg_cmd_kill },
    { .name = "rm", .tail = "[options] ID...", .bit = SG_FOR_RM, .is_client = true,
      .summary = "Destroy sandboxes, with everything in them.",
      .examples = { "rm ID", "rm --all" },
      .max_args = -1, .words = "@sandboxes", .run = sg_cmd_rm },
    { .name = "stats", .tail = "[options] ID", .bit = SG_FOR_STATS, .is_client = true,
      .summary = "Show what a sandbox uses.",
      .examples = { "stats ID", "stats --json ID" },
      .min_args = 1, .max_args = 1, .words = "@sandboxes", .run = sg_cmd_stats },
    { .name = "events", .tail = "[options] [ID]", .bit = SG_FOR_EVENTS, .is_client = true,
      .summary = "Show what happened last, or with --follow what happens.",
      .examples = { "events", "events --follow --json ID" },
      .max_args = 1, .words = "@sandboxes", .run = sg_cmd_events },
    { .name = "code", .tail = "[options] FILE|-", .bit = SG_FOR_CODE, .is_client = true,
      .summary = "Run a cell of code, in a fresh sandbox or one of the service.",
      .examples = { "code plot.py", "code --lang bash --sandbox ID - < job.sh" },
      .min_args = 1, .max_args = 1, .run = sg_cmd_code },
    { .name = "repl", .tail = "[options]", .bit = SG_FOR_REPL, .is_client = true,
      .summary = "Type code into an interpreter in a sandbox that keeps its state.",
      .examples = { "repl", "repl --lang javascript --sandbox ID" },
      .run = sg_cmd_repl },
    { .name = "route", .tail = "[options]", .bit = SG_FOR_ROUTE, .is_client = true,
      .summary = "Show which tier an operation would get, and why; nothing is run.",
      .examples = { "route --operation execute_code", "route --explain -o bulk_scan --parallel 8 --json" },
      .run = sg_cmd_route },
    { .name = "task run", .tail = "[options] [--] [command [args]]", .bit = SG_FOR_TASK_RUN, .is_client = true,
      .summary = "Do one operation in a sandbox of the service that is gone afterwards.",
      .examples = { "task run --code job.py --collect 'out/*.csv' --into .",
                    "task run -o parse_document --file in.pdf:in.pdf -- pdftotext in.pdf -" },
      .max_args = -1, .stops_at_word = true, .run = sg_cmd_task_run },
    { .name = "parse", .tail = "[options] FILE", .bit = SG_FOR_PARSE, .is_client = true,
      .summary = "Read a document that nobody trusts in a fresh sandbox; print its text.",
      .examples = { "parse report.pdf", "parse --json --images pages report.pdf" },
      .min_args = 1, .max_args = 1, .run = sg_cmd_parse },
    { .name = "swarm", .tail = "[options] FILE", .bit = SG_FOR_SWARM, .is_client = true,
      .summary = "Do the tasks of a file side by side, each in a sandbox of its own.",
      .examples = { "swarm tasks.toml", "swarm --json tasks.toml" },
      .min_args = 1, .max_args = 1, .run = sg_cmd_swarm },
    { .name = "hook", .tail = "[options] < tool-call.json", .bit = SG_FOR_HOOK, .is_client = true,
      .summary = "Judge a coding agent's tool call; what it does happens in the session's sandbox.",
      .examples = { "hook < call.json", "hook --wait 5m < call.json" },
      .is_guard = true, .run = sg_cmd_hook },
    { .name = "usage", .tail = "[options]", .bit = SG_FOR_USAGE, .is_client = true,
      .summary = "Show what was used, and what it cost.",
      .examples = { "usage", "usage --by org,day,operation --since 30d --json" },
      .run = sg_cmd_usage },
    { .name = "approve", .tail = "[options] [APPROVAL]", .bit = SG_FOR_APPROVE, .is_client = true,
      .summary = "Approve of an operation that waits, or deny it; without a name, list them.",
      .examples = { "approve", "approve --deny --reason 'not on Fridays' APPROVAL" },
      .max_args = 1, .is_operators = true, .run = sg_cmd_approve },
    { .name = "keys list", .tail = "[options]", .bit = SG_FOR_KEYS_LIST, .is_client = true,
      .summary = "List the keys of the organisation.",
      .examples = { "keys list", "keys list --json" },
      .run = sg_cmd_keys_list },
    { .name = "keys create", .tail = "[options]", .bit = SG_FOR_KEYS_CREATE, .is_client = true,
      .summary = "Make a key; it is shown this once.",
      .examples = { "keys create --name ci", "keys create --scopes read --expires 30d" },
      .run = sg_cmd_keys_create },
    { .name = "keys revoke", .tail = "[options] KEY", .bit = SG_FOR_KEYS_REVOKE, .is_client = true,
      .summary = "End a key, by its id.",
      .examples = { "keys revoke KEY", "keys revoke --json KEY" },
      .min_args = 1, .max_args = 1, .run = sg_cmd_keys_revoke },
    { .name = "orgs list", .tail = "[options]", .bit = SG_FOR_ORGS_LIST, .is_client = true,
      .summary = "List the organisations and what they use.",
      .examples = { "orgs list", "orgs list --json" },
      .is_operators = true, .run = sg_cmd_orgs_list },
    { .name = "orgs create", .tail = "[options] NAME", .bit = SG_FOR_ORGS_CREATE, .is_client = true,
      .summary = "Make an organisation; the options are its quota.",
      .examples = { "orgs create blue", "orgs create --sandboxes 50 --memory 16g blue" },
      .min_args = 1, .max_args = 1, .is_operators = true, .run = sg_cmd_orgs_create },
    { .name = "orgs rm", .tail = "[options] ORG", .bit = SG_FOR_ORGS_RM, .is_client = true,
      .summary = "Remove an organisation that has no sandboxes.",
      .examples = { "orgs rm ORG", "orgs rm --json ORG" },
      .min_args = 1, .max_args = 1, .is_operators = true, .run = sg_cmd_orgs_rm },
    { .name = "orgs budget", .tail = "[options] ORG AMOUNT", .bit = SG_FOR_ORGS_BUDGET,
      .is_client = true,
      .summary = "Say what an organisation may spend in a period; 'none' is no limit.",
      .examples = { "orgs budget ORG 20", "orgs budget --period day --action pause ORG 1.5" },
      .min_args = 2, .max_args = 2, .is_operators = true, .run = sg_cmd_orgs_budget },
    { .name = "orgs budgets", .tail = "[options]", .bit = SG_FOR_ORGS_BUDGETS, .is_client = true,
      .summary = "List budgets, and what was spent of them.",
      .examples = { "orgs budgets", "orgs budgets --json" },
      .is_operators = true, .run = sg_cmd_orgs_budgets },
    { .name = "volume create", .tail = "[options] NAME", .bit = SG_FOR_VOLUME_CREATE,
      .is_client = true, .summary = "Make a volume, which sandboxes can mount; print its id.",
      .examples = { "volume create data", "volume create --disk 10g models" },
      .min_args = 1, .max_args = 1, .run = sg_cmd_volume_create },
    { .name = "volume ls", .tail = "[options]", .bit = SG_FOR_VOLUME_LS, .is_client = true,
      .summary = "List the volumes of the organisation.",
      .examples = { "volume ls", "volume ls --json" },
      .run = sg_cmd_volume_ls },
    { .name = "volume rm", .tail = "[options] NAME", .bit = SG_FOR_VOLUME_RM, .is_client = true,
      .summary = "Remove a volume and all that is in it.",
      .examples = { "volume rm data", "volume rm --force data" },
      .min_args = 1, .max_args = 1, .run = sg_cmd_volume_rm },
    { .name = "volume cp", .tail = "[options] SRC DST", .bit = SG_FOR_VOLUME_CP, .is_client = true,
      .summary = "Copy files in and out of a volume, without a sandbox.",
      .examples = { "volume cp model.bin models:/", "volume cp models:/logs ./logs" },
      .min_args = 2, .max_args = 2, .run = sg_cmd_volume_cp },
    { .name = "volume resize", .tail = "[options] NAME", .bit = SG_FOR_VOLUME_RESIZE,
      .is_client = true, .summary = "Change how much a volume may hold.",
      .examples = { "volume resize --disk 20g models", "volume resize --disk 512m --json data" },
      .min_args = 1, .max_args = 1, .run = sg_cmd_volume_resize },
    { .name = "secrets list", .tail = "[options]", .bit = SG_FOR_SECRETS_LIST, .is_client = true,
      .summary = "List the names of the organisation's secrets.",
      .examples = { "secrets list", "secrets list --json" },
      .run = sg_cmd_secrets_list },
    { .name = "secrets set", .tail = "[options] NAME", .bit = SG_FOR_SECRETS_SET, .is_client = true,
      .summary = "Keep a value from stdin or typed unseen; nobody can read it back.",
      .examples = { "secrets set --host api.openai.com openai-key", "secrets set --metadata team=blue key < key.txt" },
      .min_args = 1, .max_args = 1, .run = sg_cmd_secrets_set },
    { .name = "secrets rm", .tail = "[options] NAME", .bit = SG_FOR_SECRETS_RM, .is_client = true,
      .summary = "Remove a secret, by its name or id.",
      .examples = { "secrets rm openai-key", "secrets rm --json openai-key" },
      .min_args = 1, .max_args = 1, .run = sg_cmd_secrets_rm },
    { .name = "net log", .tail = "[options] ID", .bit = SG_FOR_NET_LOG, .is_client = true,
      .summary = "Show what a sandbox reached and what was refused, and why.",
      .examples = { "net log s0abc", "net log -f s0abc" },
      .min_args = 1, .max_args = 1, .run = sg_cmd_net_log },
    { .name = "net explain", .tail = "[options] ID HOST:PORT", .bit = SG_FOR_NET_EXPLAIN, .is_client = true,
      .summary = "Say whether a sandbox would get there, and by which rule.",
      .examples = { "net explain s0abc pypi.org:443", "net explain --json s0abc 10.0.0.1:22" },
      .min_args = 2, .max_args = 2, .run = sg_cmd_net_explain },
    { .name = "net set", .tail = "[options] ID", .bit = SG_FOR_NET_SET, .is_client = true,
      .summary = "Change what a sandbox, a template (template:NAME) or an organisation may reach.",
      .examples = { "net set --allow pypi.org:443 s0abc", "net set --net none template:base" },
      .min_args = 1, .max_args = 1, .run = sg_cmd_net_set },
    { .name = "forward", .tail = "[options] ID LOCAL[:PORT]", .bit = SG_FOR_FORWARD, .is_client = true,
      .summary = "Lead a port of this machine's loopback to one inside a sandbox.",
      .examples = { "forward s0abc 8080", "forward s0abc 8080:3000" },
      .min_args = 2, .max_args = 2, .run = sg_cmd_forward },
    { .name = "audit list", .tail = "[options]", .bit = SG_FOR_AUDIT_LIST, .is_client = true,
      .summary = "Show who did what, the latest first.",
      .examples = { "audit list", "audit list --limit 10 --json" },
      .is_operators = true, .run = sg_cmd_audit_list },
    { .name = "audit verify", .tail = "[options]", .bit = SG_FOR_AUDIT_VERIFY, .is_client = true,
      .summary = "Check that the record of actions is whole.",
      .examples = { "audit verify", "audit verify --json" },
      .is_operators = true, .run = sg_cmd_audit_verify },
    { .name = "template list", .tail = "[options]", .bit = SG_FOR_TEMPLATE_LIST,
      .summary = "List the templates that sandboxes can be made from.",
      .examples = { "template list", "template list --json" },
      .run = sg_cmd_template_list },
    { .name = "template build", .tail = "[options] NAME [SUITE | DIRECTORY]", .bit = SG_FOR_TEMPLATE_BUILD,
      .summary = "Build a template by its recipe, or by a Dockerfile.",
      .examples = { "template build base", "template build -f Dockerfile my-app ." },
      .min_args = 1, .max_args = 2, .words = "base", .run = sg_cmd_template_build },
    { .name = "template import", .tail = "[options] [NAME] FILE|DIRECTORY|-",
      .bit = SG_FOR_TEMPLATE_IMPORT,
      .summary = "Make a template from a container image, a root archive or a directory.",
      .examples = { "template import alpine alpine-minirootfs.tar.gz",
                    "template import --force tools ./rootfs" },
      .min_args = 1, .max_args = 2, .run = sg_cmd_template_import },
    { .name = "template export", .tail = "[options] NAME FILE|-", .bit = SG_FOR_TEMPLATE_EXPORT,
      .summary = "Write a template as a container image: an archive for other tools.",
      .examples = { "template export my-app my-app.tar", "template export my-app - | docker load" },
      .min_args = 2, .max_args = 2, .words = "@templates", .run = sg_cmd_template_export },
    { .name = "template pull", .tail = "[options] [NAME] IMAGE", .bit = SG_FOR_TEMPLATE_PULL,
      .summary = "Make a template from an image of a registry.",
      .examples = { "template pull docker.io/library/alpine:3.20",
                    "template pull tools localhost:5000/tools@sha256:..." },
      .min_args = 1, .max_args = 2, .run = sg_cmd_template_pull },
    { .name = "template push", .tail = "[options] NAME IMAGE", .bit = SG_FOR_TEMPLATE_PUSH,
      .summary = "Send a template to a registry, as an image.",
      .examples = { "template push my-app localhost:5000/my-app:1",
                    "template push --auth-file auth.json my-app registry.example.org/my-app" },
      .min_args = 2, .max_args = 2, .words = "@templates", .run = sg_cmd_template_push },
    { .name = "template rm", .tail = "[options] NAME...", .bit = SG_FOR_TEMPLATE_RM,
      .summary = "Remove templates that no sandbox uses.",
      .examples = { "template rm alpine", "template rm one two" },
      .min_args = 1, .max_args = -1, .words = "@templates", .run = sg_cmd_template_rm },
    { .name = "tls init", .tail = "[options]", .bit = SG_FOR_TLS_INIT,
      .summary = "Make a local authority and a certificate for the service.",
      .examples = { "tls init", "tls init --domain sandbox.example.org --force" },
      .run = sg_cmd_tls_init },
    { .name = "doctor", .tail = "[options]", .bit = SG_FOR_DOCTOR,
      .summary = "Show what this host can do, and what to change where it cannot.",
      .examples = { "doctor", "doctor --json" },
      .run = sg_cmd_doctor },
    { .name = "config show", .tail = "[options]", .bit = SG_FOR_CONFIG_SHOW,
      .summary = "Show every setting, its value and where it came from.",
      .examples = { "config show", "config show --memory 1g --json" },
      .run = sg_cmd_config_show },
    { .name = "completion", .tail = "bash|zsh|fish", .bit = SG_FOR_COMPLETION,
      .summary = "Print the completion script of a shell.",
      .examples = { "completion bash > /etc/bash_completion.d/sandglass",
                    "completion fish > ~/.config/fish/completions/sandglass.fish" },
      .min_args = 1, .max_args = 1, .needs_no_config = true, .words = "bash zsh fish",
      .run = sg_cmd_completion },
    { .name = "help", .tail = "[command]", .bit = SG_FOR_HELP,
      .summary = "Explain a command.",
      .examples = { "help run", "help --json" },
      .max_args = 2, .needs_no_config = true, .run = sg_cmd_help },
    { .name = "version", .tail = "[--json]", .bit = SG_FOR_VERSION,
      .summary = "Print the version.",
      .examples = { "version", "version --json" },
      .needs_no_config = true, .run = sg_cmd_version },
};
/* clang-format on */

const size_t sg_command_count = SG_COUNT(sg_commands);

/* The errors of scanning come before the settings are known; people who asked for JSON anywhere
 * get it all the same. */
static bool asks_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

/* "template" alone: says what can follow. */
static int refuse_group(const char *group, struct sg_err *err)
{
    sg_auto_buf verbs;
    sg_buf_init(&verbs, 256);
    size_t n = strlen(group);
    for (size_t i = 0; i < sg_command_count; i++) {
        const char *name = sg_commands[i].name;
        if (strncmp(name, group, n) == 0 && name[n] == ' ')
            sg_buf_addf(&verbs, "%s%s", verbs.n ? ", " : "", name + n + 1);
    }
    return sg_fail(err, SG_INVALID, "'%s' needs one of: %s", group, sg_buf_cstr(&verbs));
}

static int refuse_unknown(const char *name, struct sg_err *err)
{
    struct sg_hint hint = { .word = sg_str_of(name) };
    for (size_t i = 0; i < sg_command_count; i++)
        sg_hint_try(&hint, sg_commands[i].name);
    return sg_fail(err, SG_INVALID, "unknown command %s%s; 'sandglass help' lists them",
                   sg_quote(name).s, sg_hint_text(&hint, "").s);
}

/* What no row is; `second` is NULL when there is none. */
static int refuse(const char *first, const char *second, struct sg_err *err)
{
    if (first[0] == '-')
        return sg_fail(err, SG_INVALID,
                       "unknown option %s: a command comes first, as in 'sandglass run'",
                       sg_quote(first).s);
    if (!sg_help_is_group(first))
        return refuse_unknown(first, err);
    if (!second || second[0] == '-')
        return refuse_group(first, err);
    sg_auto_free char *both = sg_printf("%s %s", first, second);
    return refuse_unknown(both, err);
}

static bool is_help(const char *word)
{
    return word && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0);
}

static int gather(struct sg_cli *cli, const struct sg_flags *flags, char *const *env,
                  struct sg_err *err)
{
    sg_config_init(&cli->config, &cli->origins);
    sg_auto_free char *named = sg_flags_config_file(flags);
    if (!cli->command->needs_no_config &&
        sg_config_load(&cli->config, &cli->origins, named, env, err) < 0)
        return -1;
    return sg_flags_apply(flags, &cli->config, &cli->origins, err);
}

static int run_command(const struct sg_command *command, int argc, char **argv, struct sg_cli *cli)
{
    struct sg_err err;
    sg_auto_flags flags = { 0 };
    if (sg_flags_scan(command, argc, argv, &flags, &err) < 0)
        return sg_cli_fail(cli, &err); /* which is SG_EXIT_USAGE */
    if (flags.wants_help)
        return sg_help_command(command);
    bool wants_json = cli->config.json;
    cli->command = command;
    cli->args = flags.args;
    cli->arg_count = flags.arg_count;
    int code;
    if (gather(cli, &flags, environ, &err) < 0) {
        cli->config.json = wants_json;
        code = sg_cli_fail(cli, &err);
        code = command->is_guard ? SG_EXIT_USAGE : code;
    } else {
        code = command->run(cli);
    }
    sg_config_done(&cli->config, &cli->origins);
    return code;
}

/* A descriptor that we open must never be taken for our input or output: what a command writes
 * would go there. Whoever closed one of the three gets /dev/null for it. */
static void fill_stdio(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)!open("/dev/null", O_RDWR); /* the lowest free number is this one */
}

int main(int argc, char **argv)
{
    fill_stdio();
    if (argc == 1 && strcmp(argv[0], "sandglass-image") == 0)
        return sg_image_work();
    struct sg_cli cli = { .config = { .json = asks_for_json(argc, argv) } };
    const char *first = argc > 1 ? argv[1] : "--help";
    const char *second = argc > 2 ? argv[2] : NULL;
    if (is_help(first))
        return sg_help_overview();
    if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0)
        first = "version";
    int used;
    const struct sg_command *command = sg_help_find(first, second, &used);
    if (command)
        return run_command(command, argc - 1 - used, argv + 1 + used, &cli);
    if (is_help(second) && sg_help_is_group(first))
        return sg_help_group(first);
    struct sg_err err;
    (void)refuse(first, second, &err);
    return sg_cli_fail(&cli, &err);
}
