/* SPDX-License-Identifier: Apache-2.0 */
/* The rows. A new setting is a row here, a field in struct sg_config and a paragraph in its man
 * page; nothing else lists options. Rows are ordered as --help shows them. */
#include "config/option.h"

#include <string.h>

#include "base/auto.h"
#include "config/check.h"
#include "base/banned.h"

#define MIB    (1ull << 20)
#define PIB    (1ull << 50)
#define DAY_MS 86400000ull

#define AT(field) offsetof(struct sg_config, field)

static const struct sg_word net_words[] = {
    { "none", SG_NET_NONE, false },
    { "filtered", SG_NET_FILTERED, false },
    { "open", SG_NET_OPEN, false },
    { "bridge", SG_NET_OPEN, true },
    { "false", SG_NET_NONE, true },
    { "true", SG_NET_OPEN, true }, /* network_enabled */
    { NULL, 0, false },
};

static const struct sg_word tty_words[] = {
    { "auto", SG_TTY_AUTO, false }, { "on", SG_TTY_ON, false },    { "off", SG_TTY_OFF, false },
    { "true", SG_TTY_ON, true },    { "false", SG_TTY_OFF, true }, { NULL, 0, false },
};

static const struct sg_word expiry_words[] = { { "kill", SG_EXPIRY_KILL, false },
                                               { "pause", SG_EXPIRY_PAUSE, false },
                                               { NULL, 0, false } };

/* clang-format off */
const struct sg_option sg_options[] = {
    { .key = "run.template", .flag = "template", .env = "SANDGLASS_TEMPLATE", .letter = 'T',
      .type = SG_OPTION_STRING, .commands = SG_FOR_CELL | SG_FOR_CREATE | SG_FOR_KEYS_CREATE | SG_FOR_CELLS,
      .offset = AT(template),
      .fallback = "host", .arg = "TEMPLATE", .check = sg_check_filled,
      .help = "template to run in, or a directory (with a slash)" },
    { .key = "run.memory", .flag = "memory", .env = "SANDGLASS_MEMORY", .letter = 'm',
      .type = SG_OPTION_BYTES, .commands = SG_FOR_CELL | SG_FOR_CREATE | SG_FOR_ORGS_CREATE, .offset = AT(memory_bytes),
      .min = 4 * MIB, .max = PIB, .fallback = "512m", .arg = "SIZE",
      .help = "memory and swap (4m and up: the kernel's own share)" },
    { .key = "run.cpus", .flag = "cpus", .env = "SANDGLASS_CPUS",
      .type = SG_OPTION_MILLI, .commands = SG_FOR_CELL | SG_FOR_CREATE | SG_FOR_ORGS_CREATE, .offset = AT(cpu_milli),
      .min = 10, .max = 1024000, .fallback = "1", .arg = "NUMBER",
      .help = "processors, fractions allowed (0.01 to 1024)" },
    { .key = "run.pids", .flag = "pids", .env = "SANDGLASS_PIDS",
      .type = SG_OPTION_COUNT, .commands = SG_FOR_CELL | SG_FOR_CREATE, .offset = AT(pids),
      .min = 2, .max = 1000000, .fallback = "256", .arg = "NUMBER",
      .help = "processes and threads (2 and up: init is one)" },
    { .key = "run.disk", .flag = "disk", .env = "SANDGLASS_DISK",
      .type = SG_OPTION_BYTES, .commands = SG_FOR_CELL | SG_FOR_CREATE | SG_FOR_ORGS_CREATE, .offset = AT(disk_bytes),
      .min = MIB, .max = PIB, .fallback = "1g", .arg = "SIZE",
      .help = "bytes written, at most 3/4 of memory unless set (1m up)" },
    { .key = "run.open_files", .flag = "open-files", .env = "SANDGLASS_OPEN_FILES",
      .type = SG_OPTION_COUNT, .commands = SG_FOR_CELL, .offset = AT(open_files),
      .min = 64, .max = 1048576, .fallback = "1024", .arg = "NUMBER",
      .help = "open files of each process (64 and up: init needs some)" },
    { .key = "run.timeout", .flag = "timeout", .env = "SANDGLASS_TIMEOUT",
      .type = SG_OPTION_DURATION, .commands = SG_FOR_CELL | SG_FOR_CREATE | SG_FOR_EXEC | SG_FOR_CELLS, .offset = AT(timeout_ms),
      .min = 0, .max = 365 * DAY_MS, .fallback = "300s", .arg = "TIME",
      .help = "wall-clock time, then the run is ended (0: none)" },
    { .key = "run.output_limit", .flag = "output-limit", .env = "SANDGLASS_OUTPUT_LIMIT",
      .type = SG_OPTION_BYTES, .commands = SG_FOR_CELL, .offset = AT(output_bytes),
      .min = 0, .max = PIB, .fallback = "64m", .arg = "SIZE",
      .help = "bytes of output, then the run is ended (0: no limit)" },
    { .key = "run.net", .flag = "net", .env = "SANDGLASS_NET",
      .type = SG_OPTION_WORD, .commands = SG_FOR_CELL, .offset = AT(net), .words = net_words,
      .fallback = "none", .arg = "MODE", .help = "network: none, filtered or open" },
    { .key = "run.env", .flag = "env", .letter = 'e',
      .type = SG_OPTION_LIST, .commands = SG_FOR_CELL | SG_FOR_CREATE | SG_FOR_EXEC | SG_FOR_CELLS, .offset = AT(env),
      .arg = "NAME[=VALUE]", .check = sg_check_env,
      .help = "set a variable, or pass on the caller's own" },
    { .key = "run.workdir", .flag = "workdir", .env = "SANDGLASS_WORKDIR", .letter = 'w',
      .type = SG_OPTION_STRING, .commands = SG_FOR_CELL | SG_FOR_EXEC, .offset = AT(workdir),
      .fallback = "/workspace", .arg = "DIR", .check = sg_check_absolute,
      .help = "directory inside to start in, made if missing" },
    { .key = "run.user", .flag = "user", .env = "SANDGLASS_USER", .letter = 'u',
      .type = SG_OPTION_STRING, .commands = SG_FOR_CELL | SG_FOR_EXEC, .offset = AT(user),
      .fallback = "", .arg = "USER", .check = sg_check_user,
      .help = "user inside: a name or UID[:GID] (the template's)" },
    { .key = "run.hostname", .flag = "hostname", .env = "SANDGLASS_HOSTNAME",
      .type = SG_OPTION_STRING, .commands = SG_FOR_CELL, .offset = AT(hostname),
      .fallback = "sandbox", .arg = "NAME", .check = sg_check_hostname,
      .help = "host name inside" },
    { .key = "run.copy_in", .flag = "copy-in",
      .type = SG_OPTION_LIST, .commands = SG_FOR_CELL, .offset = AT(copy_in),
      .arg = "SRC:DST", .check = sg_check_copy,
      .help = "copy a file or directory in before the run" },
    { .key = "run.copy_out", .flag = "copy-out",
      .type = SG_OPTION_LIST, .commands = SG_FOR_CELL, .offset = AT(copy_out),
      .arg = "SRC:DST", .check = sg_check_copy,
      .help = "copy a file or directory out after the run" },
    { .key = "run.bind", .flag = "bind",
      .type = SG_OPTION_LIST, .commands = SG_FOR_CELL, .offset = AT(bind),
      .arg = "SRC:DST[:ro|:rw]", .check = sg_check_bind,
      .help = "show a host file or directory inside" },
    { .key = "run.read_only", .flag = "read-only", .env = "SANDGLASS_READ_ONLY",
      .type = SG_OPTION_BOOL, .commands = SG_FOR_CELL, .offset = AT(read_only),
      .fallback = "false", .help = "only /tmp, /dev/shm and the work directory are writable" },
    { .key = "run.tty", .flag = "tty", .letter = 't',
      .type = SG_OPTION_SWITCH, .commands = SG_FOR_CELL | SG_FOR_EXEC, .offset = AT(tty), .words = tty_words,
      .fallback = "auto", .help = "a terminal inside, or none (as the caller has)" },
    { .key = "run.quiet", .flag = "quiet", .env = "SANDGLASS_QUIET", .letter = 'q',
      .type = SG_OPTION_BOOL,
      .commands = SG_FOR_CELL | SG_FOR_TEMPLATE | SG_FOR_CLIENT | SG_FOR_SERVICE | SG_FOR_DOWN |
                  SG_FOR_TLS_INIT,
      .offset = AT(quiet),
      .fallback = "false", .help = "no notes and no progress on stderr" },
    { .key = "state_dir", .env = "SANDGLASS_STATE_DIR",
      .type = SG_OPTION_STRING,
      .commands = SG_FOR_CELL | SG_FOR_TEMPLATE | SG_FOR_DOCTOR | SG_FOR_SERVICE | SG_FOR_TLS_INIT,
      .offset = AT(state_dir), .arg = "DIR", .check = sg_check_absolute,
      .help = "where templates and the service's own files are kept" },
    { .key = "url", .flag = "url", .env = "SANDGLASS_URL",
      .type = SG_OPTION_STRING, .commands = SG_FOR_CLIENT | SG_FOR_SHELL | SG_FOR_ENV | SG_FOR_CONFIG_SHOW,
      .offset = AT(url),
      .fallback = "", .arg = "URL", .check = sg_check_url,
      .help = "the service: http[s]://HOST:PORT or unix:PATH (this machine's)" },
    { .key = "tls_ca", .env = "SANDGLASS_TLS_CA",
      .type = SG_OPTION_STRING, .commands = SG_FOR_CLIENT | SG_FOR_SHELL | SG_FOR_CONFIG_SHOW,
      .offset = AT(tls_ca), .fallback = "", .arg = "FILE", .check = sg_check_absolute,
      .help = "who may sign the certificate of an https service" },
    { .key = "serve.listen", .flag = "listen", .env = "SANDGLASS_LISTEN",
      .type = SG_OPTION_STRING, .commands = SG_FOR_SERVICE | SG_FOR_ENV,
      .offset = AT(serve_listen),
      .fallback = "127.0.0.1:8787", .arg = "ADDRESS:PORT", .check = sg_check_listen,
      .help = "where the service listens" },
    { .key = "serve.run_dir", .flag = "run-dir", .env = "SANDGLASS_RUN_DIR",
      .type = SG_OPTION_STRING,
      .commands = SG_FOR_SERVICE | SG_FOR_DOWN | SG_FOR_ENV | SG_FOR_CLIENT | SG_FOR_SHELL |
                  SG_FOR_CONFIG_SHOW,
      .offset = AT(serve_run_dir), .arg = "DIR", .check = sg_check_absolute,
      .help = "sockets and records of the running service" },
    { .key = "serve.template", .env = "SANDGLASS_SERVE_TEMPLATE",
      .type = SG_OPTION_STRING, .commands = SG_FOR_SERVICE, .offset = AT(serve_template),
      .fallback = "base", .arg = "TEMPLATE", .check = sg_check_filled,
      .help = "template of a sandbox whose maker named none" },
    { .key = "serve.pool", .flag = "pool", .env = "SANDGLASS_POOL",
      .type = SG_OPTION_LIST, .commands = SG_FOR_SERVICE, .offset = AT(serve_pool),
      .fallback = "base=4", .arg = "TEMPLATE=NUMBER", .check = sg_check_pool,
      .help = "keep so many parked sandboxes ready" },
    { .key = "serve.max_sandboxes", .flag = "max-sandboxes", .env = "SANDGLASS_MAX_SANDBOXES",
      .type = SG_OPTION_COUNT, .commands = SG_FOR_SERVICE, .offset = AT(serve_max_sandboxes),
      .min = 1, .max = 100000, .fallback = "1000", .arg = "NUMBER",
      .help = "sandboxes of all organisations together" },
    { .key = "serve.storage", .flag = "storage", .env = "SANDGLASS_STORAGE",
      .type = SG_OPTION_STRING, .commands = SG_FOR_SERVICE, .offset = AT(serve_storage),
      .fallback = "auto", .arg = "WHERE", .check = sg_check_storage,
      .help = "writable layers: auto, image, tmpfs or a btrfs directory" },
    { .key = "serve.storage_size", .env = "SANDGLASS_STORAGE_SIZE",
      .type = SG_OPTION_BYTES, .commands = SG_FOR_SERVICE, .offset = AT(serve_storage_bytes),
      .min = 256 * MIB, .max = PIB, .fallback = "32g", .arg = "SIZE",
      .help = "how large the storage image may become" },
    { .key = "serve.journal", .env = "SANDGLASS_JOURNAL",
      .type = SG_OPTION_BYTES, .commands = SG_FOR_SERVICE, .offset = AT(serve_journal_bytes),
      .min = 65536, .max = 1024 * MIB, .fallback = "4m", .arg = "SIZE",
      .help = "output that is kept of each exec" },
    { .key = "serve.log_level", .flag = "log-level", .env = "SANDGLASS_LOG_LEVEL",
      .type = SG_OPTION_STRING, .commands = SG_FOR_SERVICE, .offset = AT(serve_log_level),
      .fallback = "info", .arg = "LEVEL", .check = sg_check_level,
      .help = "debug, info, warn or error" },
    { .key = "serve.tls_cert", .env = "SANDGLASS_TLS_CERT",
      .type = SG_OPTION_STRING, .commands = SG_FOR_SERVICE, .offset = AT(serve_tls_cert),
      .fallback = "", .arg = "FILE", .check = sg_check_absolute,
      .help = "certificate chain: TLS on the same port" },
    { .key = "serve.tls_key", .env = "SANDGLASS_TLS_KEY",
      .type = SG_OPTION_STRING, .commands = SG_FOR_SERVICE, .offset = AT(serve_tls_key),
      .fallback = "", .arg = "FILE", .check = sg_check_absolute,
      .help = "private key of the certificate" },
    { .key = "serve.domain", .flag = "domain", .env = "SANDGLASS_DOMAIN",
      .type = SG_OPTION_STRING, .commands = SG_FOR_SERVICE | SG_FOR_TLS_INIT,
      .offset = AT(serve_domain), .fallback = "", .arg = "NAME[:PORT]", .check = sg_check_domain,
      .help = "sandboxes are reached at PORT-ID.NAME (the certificate's)" },
    { .key = "serve.max_memory", .env = "SANDGLASS_MAX_MEMORY",
      .type = SG_OPTION_BYTES, .commands = SG_FOR_SERVICE, .offset = AT(serve_max_memory_bytes),
      .min = 0, .max = PIB, .fallback = "0", .arg = "SIZE",
      .help = "the most memory that one sandbox may ask for (0: any)" },
    { .key = "serve.max_cpus", .env = "SANDGLASS_MAX_CPUS",
      .type = SG_OPTION_MILLI, .commands = SG_FOR_SERVICE, .offset = AT(serve_max_cpu_milli),
      .min = 0, .max = 1024000, .fallback = "0", .arg = "NUMBER",
      .help = "the most processors that one sandbox may ask for (0: any)" },
    { .key = "serve.reconcile", .env = "SANDGLASS_RECONCILE",
      .type = SG_OPTION_DURATION, .commands = SG_FOR_SERVICE, .offset = AT(serve_reconcile_ms),
      .min = 0, .max = DAY_MS, .fallback = "60s", .arg = "TIME",
      .help = "how often what is there is compared with what should be (0: never)" },
    { .key = "serve.timeout", .env = "SANDGLASS_SERVE_TIMEOUT",
      .type = SG_OPTION_DURATION, .commands = SG_FOR_SERVICE, .offset = AT(serve_timeout_ms),
      .min = 0, .max = 365 * DAY_MS, .fallback = "300s", .arg = "TIME",
      .help = "lifetime of a sandbox whose maker named none (0: no end)" },
    { .key = "router.rules", .env = "SANDGLASS_ROUTER_RULES",
      .type = SG_OPTION_STRING, .commands = SG_FOR_SERVICE, .offset = AT(router_rules),
      .fallback = "", .arg = "FILE", .check = sg_check_absolute,
      .help = "rules of the router (/etc/sandglass/router.toml, or built in)" },
    { .key = "router.tiers", .env = "SANDGLASS_ROUTER_TIERS",
      .type = SG_OPTION_LIST, .commands = SG_FOR_SERVICE, .offset = AT(router_tiers),
      .arg = "TIER", .check = sg_check_filled,
      .help = "tiers that the router takes for available (those that are)" },
    { .flag = "operation", .letter = 'o', .type = SG_OPTION_STRING, .commands = SG_FOR_ROUTE,
      .offset = AT(operation), .fallback = "execute_code", .arg = "NAME",
      .check = sg_check_filled, .help = "what is to be done" },
    { .flag = "trust", .type = SG_OPTION_STRING, .commands = SG_FOR_ROUTE,
      .offset = AT(trust), .fallback = "", .arg = "LEVEL", .check = sg_check_filled,
      .help = "trusted, limited or untrusted (as of the operation)" },
    { .flag = "parallel", .type = SG_OPTION_COUNT, .commands = SG_FOR_ROUTE,
      .offset = AT(parallel), .min = 0, .max = 100000, .fallback = "0", .arg = "NUMBER",
      .help = "how many of it run at a time" },
    { .flag = "seconds", .type = SG_OPTION_DURATION, .commands = SG_FOR_ROUTE,
      .offset = AT(seconds_ms), .min = 0, .max = 365 * DAY_MS, .fallback = "0", .arg = "TIME",
      .help = "how long it is expected to run" },
    { .flag = "agent", .type = SG_OPTION_STRING, .commands = SG_FOR_ROUTE,
      .offset = AT(agent), .fallback = "", .arg = "TYPE", .check = sg_check_filled,
      .help = "type of the agent, whose own tiers may be in the rules" },
    { .flag = "tier", .type = SG_OPTION_STRING, .commands = SG_FOR_ROUTE,
      .offset = AT(tier), .fallback = "", .arg = "TIER", .check = sg_check_filled,
      .help = "this tier or none" },
    { .flag = "network", .type = SG_OPTION_STRING, .commands = SG_FOR_ROUTE,
      .offset = AT(needs_network), .fallback = "", .arg = "MODE", .check = sg_check_filled,
      .help = "network that it needs: none, filtered or open" },
    { .flag = "files", .type = SG_OPTION_STRING, .commands = SG_FOR_ROUTE,
      .offset = AT(needs_files), .fallback = "", .arg = "NEED", .check = sg_check_filled,
      .help = "files that it needs: none, read or write" },
    { .flag = "want", .type = SG_OPTION_LIST, .commands = SG_FOR_ROUTE,
      .offset = AT(wants), .arg = "CAPABILITY", .check = sg_check_filled,
      .help = "code, terminal, gui or browser" },
    { .flag = "explain", .type = SG_OPTION_BOOL, .commands = SG_FOR_ROUTE,
      .offset = AT(explain), .fallback = "false",
      .help = "every tier and rule, and why it was not taken" },
    { .flag = "lang", .letter = 'l', .type = SG_OPTION_STRING, .commands = SG_FOR_CELLS,
      .offset = AT(lang), .fallback = "", .arg = "LANGUAGE", .check = sg_check_filled,
      .help = "python, javascript, typescript or bash" },
    { .flag = "sandbox", .type = SG_OPTION_STRING, .commands = SG_FOR_CELLS,
      .offset = AT(sandbox), .fallback = "", .arg = "ID", .check = sg_check_filled,
      .help = "sandbox to run in (a fresh one that ends after it)" },
    { .flag = "save", .type = SG_OPTION_STRING, .commands = SG_FOR_CELLS,
      .offset = AT(save), .fallback = "", .arg = "DIR", .check = sg_check_filled,
      .help = "where pictures are saved (the current directory)" },
    { .flag = "idle-timeout", .type = SG_OPTION_DURATION, .commands = SG_FOR_CREATE,
      .offset = AT(idle_timeout_ms), .min = 0, .max = 365 * DAY_MS, .fallback = "0", .arg = "TIME",
      .help = "time without work until it expires (0: none)" },
    { .flag = "on-expiry", .type = SG_OPTION_WORD, .commands = SG_FOR_CREATE,
      .offset = AT(on_expiry), .words = expiry_words, .fallback = "kill", .arg = "ACTION",
      .help = "at the end of either time: kill or pause" },
    { .flag = "metadata", .type = SG_OPTION_LIST,
      .commands = SG_FOR_CREATE | SG_FOR_PS | SG_FOR_SECRETS_SET,
      .offset = AT(metadata), .arg = "NAME=VALUE", .check = sg_check_pair,
      .help = "a label of what is made; of ps: only those that have it" },
    { .flag = "retries", .type = SG_OPTION_COUNT, .commands = SG_FOR_CREATE,
      .offset = AT(retries), .min = 0, .max = 10, .fallback = "0", .arg = "NUMBER",
      .help = "fresh sandboxes in its place, should it fail" },
    { .flag = "state", .type = SG_OPTION_STRING, .commands = SG_FOR_PS,
      .offset = AT(state), .fallback = "", .arg = "STATE[,STATE]", .check = sg_check_filled,
      .help = "only those in one of these states" },
    { .flag = "ids", .type = SG_OPTION_BOOL, .commands = SG_FOR_PS,
      .offset = AT(ids), .fallback = "false", .help = "print only the ids, one a line" },
    { .flag = "detach", .letter = 'd', .type = SG_OPTION_BOOL,
      .commands = SG_FOR_EXEC | SG_FOR_SERVE,
      .offset = AT(detach), .fallback = "false", .help = "go on in the background" },
    { .flag = "keep", .letter = 'k', .type = SG_OPTION_BOOL, .commands = SG_FOR_DOWN,
      .offset = AT(keep), .fallback = "false",
      .help = "leave the sandboxes running for the next start" },
    { .flag = "follow", .letter = 'f', .type = SG_OPTION_BOOL,
      .commands = SG_FOR_LOGS | SG_FOR_EVENTS,
      .offset = AT(follow), .fallback = "false", .help = "go on with what is to come" },
    { .flag = "signal", .letter = 's', .type = SG_OPTION_STRING, .commands = SG_FOR_KILL,
      .offset = AT(signal), .fallback = "KILL", .arg = "NAME", .check = sg_check_filled,
      .help = "signal to send, as TERM; KILL ends the whole tree" },
    { .flag = "all", .letter = 'a', .type = SG_OPTION_BOOL, .commands = SG_FOR_RM,
      .offset = AT(all), .fallback = "false", .help = "every sandbox of the organisation" },
    { .flag = "interval", .type = SG_OPTION_DURATION, .commands = SG_FOR_TOP,
      .offset = AT(interval_ms), .min = 100, .max = DAY_MS, .fallback = "2s", .arg = "TIME",
      .help = "time between two looks" },
    { .flag = "limit", .letter = 'n', .type = SG_OPTION_COUNT,
      .commands = SG_FOR_AUDIT_LIST | SG_FOR_EVENTS,
      .offset = AT(limit), .min = 1, .max = 10000, .fallback = "50", .arg = "NUMBER",
      .help = "how many of the latest" },
    { .flag = "org", .type = SG_OPTION_STRING,
      .commands = SG_FOR_KEYS_CREATE, .offset = AT(org),
      .fallback = "", .arg = "ORG", .check = sg_check_filled,
      .help = "organisation that the key speaks for (the caller's own)" },
    { .flag = "scopes", .type = SG_OPTION_STRING, .commands = SG_FOR_KEYS_CREATE,
      .offset = AT(scopes), .fallback = "read,exec", .arg = "SCOPE[,SCOPE]",
      .check = sg_check_filled, .help = "of read, exec and admin" },
    { .flag = "expires", .type = SG_OPTION_DURATION, .commands = SG_FOR_KEYS_CREATE,
      .offset = AT(expires_ms), .min = 0, .max = 36500 * DAY_MS, .fallback = "0", .arg = "TIME",
      .help = "time until the key ends (0: it does not)" },
    { .flag = "rate", .type = SG_OPTION_COUNT, .commands = SG_FOR_KEYS_CREATE,
      .offset = AT(rate), .min = 0, .max = 1000000, .fallback = "0", .arg = "NUMBER",
      .help = "requests a second (0: any)" },
    { .flag = "sandboxes", .type = SG_OPTION_COUNT, .commands = SG_FOR_ORGS_CREATE,
      .offset = AT(sandboxes), .min = 0, .max = 100000, .fallback = "0", .arg = "NUMBER",
      .help = "quota: sandboxes at a time (0: any)" },
    { .flag = "creates-per-second", .type = SG_OPTION_COUNT, .commands = SG_FOR_ORGS_CREATE,
      .offset = AT(creates_per_second), .min = 0, .max = 1000000, .fallback = "0",
      .arg = "NUMBER", .help = "quota: new sandboxes a second (0: any)" },
    { .flag = "name", .type = SG_OPTION_STRING,
      .commands = SG_FOR_TEMPLATE_IMPORT | SG_FOR_KEYS_CREATE,
      .offset = AT(name), .fallback = "", .arg = "NAME", .check = sg_check_filled,
      .help = "its name (of a template: from the file's name)" },
    { .flag = "sudo", .type = SG_OPTION_BOOL, .commands = SG_FOR_TEMPLATE_IMPORT,
      .offset = AT(sudo), .fallback = "false",
      .help = "let setuid programs work inside, sudo among them" },
    { .flag = "force", .type = SG_OPTION_BOOL,
      .commands = SG_FOR_TEMPLATE_BUILD | SG_FOR_TEMPLATE_IMPORT | SG_FOR_TLS_INIT,
      .offset = AT(force),
      .fallback = "false", .help = "replace what is there already" },
    { .flag = "dir", .type = SG_OPTION_STRING, .commands = SG_FOR_TLS_INIT,
      .offset = AT(dir), .fallback = "", .arg = "DIR", .check = sg_check_filled,
      .help = "where the files go (tls in the state directory)" },
    { .flag = "names", .type = SG_OPTION_BOOL, .commands = SG_FOR_TEMPLATE_LIST,
      .offset = AT(names), .fallback = "false", .help = "print only the names, one a line" },
    { .flag = "config", .type = SG_OPTION_STRING,
      .commands = SG_FOR_CELL | SG_FOR_TEMPLATE | SG_FOR_DOCTOR | SG_FOR_CLIENT | SG_FOR_SERVICE |
                  SG_FOR_DOWN | SG_FOR_ENV | SG_FOR_TLS_INIT,
      .offset = AT(config_file),
      .fallback = "", .arg = "FILE", .check = sg_check_filled,
      .help = "read settings from FILE only" },
    { .flag = "json", .type = SG_OPTION_BOOL, .commands = SG_FOR_ALL, .offset = AT(json),
      .fallback = "false", .help = "print the result as JSON" },
};
/* clang-format on */

const size_t sg_option_count = SG_COUNT(sg_options);
_Static_assert(SG_COUNT(sg_options) <= SG_MAX_OPTIONS, "sg_origins has a place for every option");

/* "run" and "memory" against "run.memory"; no section: "" and "state_dir". */
static bool is_key(const char *key, struct sg_str section, struct sg_str name)
{
    const char *dot = strchr(key, '.');
    if (!dot)
        return section.n == 0 && sg_str_is(name, key);
    size_t n = (size_t)(dot - key);
    return section.n == n && memcmp(section.p, key, n) == 0 && sg_str_is(name, dot + 1);
}

const struct sg_option *sg_option_find_key(struct sg_str section, struct sg_str name)
{
    for (size_t i = 0; i < sg_option_count; i++)
        if (sg_options[i].key && is_key(sg_options[i].key, section, name))
            return &sg_options[i];
    return NULL;
}

const struct sg_option *sg_option_find_flag(struct sg_str flag, uint64_t commands)
{
    for (size_t i = 0; i < sg_option_count; i++) {
        const struct sg_option *o = &sg_options[i];
        if (o->flag && (o->commands & commands) && sg_str_is(flag, o->flag))
            return o;
    }
    return NULL;
}

const struct sg_option *sg_option_find_letter(char letter, uint64_t commands)
{
    for (size_t i = 0; i < sg_option_count; i++)
        if (letter && sg_options[i].letter == letter && (sg_options[i].commands & commands))
            return &sg_options[i];
    return NULL;
}

bool sg_option_takes_argument(const struct sg_option *o)
{
    return o->type != SG_OPTION_BOOL && o->type != SG_OPTION_SWITCH;
}
