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

/* clang-format off */
const struct sg_option sg_options[] = {
    { .key = "run.template", .flag = "template", .env = "SANDGLASS_TEMPLATE", .letter = 'T',
      .type = SG_OPTION_STRING, .commands = SG_FOR_CELL, .offset = AT(template),
      .fallback = "host", .arg = "TEMPLATE", .check = sg_check_filled,
      .help = "template to run in, or a directory (with a slash)" },
    { .key = "run.memory", .flag = "memory", .env = "SANDGLASS_MEMORY", .letter = 'm',
      .type = SG_OPTION_BYTES, .commands = SG_FOR_CELL, .offset = AT(memory_bytes),
      .min = 4 * MIB, .max = PIB, .fallback = "512m", .arg = "SIZE",
      .help = "memory and swap (4m and up: the kernel's own share)" },
    { .key = "run.cpus", .flag = "cpus", .env = "SANDGLASS_CPUS",
      .type = SG_OPTION_MILLI, .commands = SG_FOR_CELL, .offset = AT(cpu_milli),
      .min = 10, .max = 1024000, .fallback = "1", .arg = "NUMBER",
      .help = "processors, fractions allowed (0.01 to 1024)" },
    { .key = "run.pids", .flag = "pids", .env = "SANDGLASS_PIDS",
      .type = SG_OPTION_COUNT, .commands = SG_FOR_CELL, .offset = AT(pids),
      .min = 2, .max = 1000000, .fallback = "256", .arg = "NUMBER",
      .help = "processes and threads (2 and up: init is one)" },
    { .key = "run.disk", .flag = "disk", .env = "SANDGLASS_DISK",
      .type = SG_OPTION_BYTES, .commands = SG_FOR_CELL, .offset = AT(disk_bytes),
      .min = MIB, .max = PIB, .fallback = "1g", .arg = "SIZE",
      .help = "bytes written, at most 3/4 of memory unless set (1m up)" },
    { .key = "run.open_files", .flag = "open-files", .env = "SANDGLASS_OPEN_FILES",
      .type = SG_OPTION_COUNT, .commands = SG_FOR_CELL, .offset = AT(open_files),
      .min = 64, .max = 1048576, .fallback = "1024", .arg = "NUMBER",
      .help = "open files of each process (64 and up: init needs some)" },
    { .key = "run.timeout", .flag = "timeout", .env = "SANDGLASS_TIMEOUT",
      .type = SG_OPTION_DURATION, .commands = SG_FOR_CELL, .offset = AT(timeout_ms),
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
      .type = SG_OPTION_LIST, .commands = SG_FOR_CELL, .offset = AT(env),
      .arg = "NAME[=VALUE]", .check = sg_check_env,
      .help = "set a variable, or pass on the caller's own" },
    { .key = "run.workdir", .flag = "workdir", .env = "SANDGLASS_WORKDIR", .letter = 'w',
      .type = SG_OPTION_STRING, .commands = SG_FOR_CELL, .offset = AT(workdir),
      .fallback = "/workspace", .arg = "DIR", .check = sg_check_absolute,
      .help = "directory inside to start in, made if missing" },
    { .key = "run.user", .flag = "user", .env = "SANDGLASS_USER", .letter = 'u',
      .type = SG_OPTION_STRING, .commands = SG_FOR_CELL, .offset = AT(user),
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
      .type = SG_OPTION_SWITCH, .commands = SG_FOR_CELL, .offset = AT(tty), .words = tty_words,
      .fallback = "auto", .help = "a terminal inside, or none (as the caller has)" },
    { .key = "run.quiet", .flag = "quiet", .env = "SANDGLASS_QUIET", .letter = 'q',
      .type = SG_OPTION_BOOL, .commands = SG_FOR_CELL | SG_FOR_TEMPLATE, .offset = AT(quiet),
      .fallback = "false", .help = "no notes and no progress on stderr" },
    { .key = "state_dir", .env = "SANDGLASS_STATE_DIR",
      .type = SG_OPTION_STRING, .commands = SG_FOR_CELL | SG_FOR_TEMPLATE | SG_FOR_DOCTOR,
      .offset = AT(state_dir), .arg = "DIR", .check = sg_check_absolute,
      .help = "where templates are kept" },
    { .flag = "name", .type = SG_OPTION_STRING, .commands = SG_FOR_TEMPLATE_IMPORT,
      .offset = AT(name), .fallback = "", .arg = "NAME", .check = sg_check_filled,
      .help = "name of the template (from the file's name)" },
    { .flag = "sudo", .type = SG_OPTION_BOOL, .commands = SG_FOR_TEMPLATE_IMPORT,
      .offset = AT(sudo), .fallback = "false",
      .help = "let setuid programs work inside, sudo among them" },
    { .flag = "force", .type = SG_OPTION_BOOL,
      .commands = SG_FOR_TEMPLATE_BUILD | SG_FOR_TEMPLATE_IMPORT, .offset = AT(force),
      .fallback = "false", .help = "replace a template that is there already" },
    { .flag = "names", .type = SG_OPTION_BOOL, .commands = SG_FOR_TEMPLATE_LIST,
      .offset = AT(names), .fallback = "false", .help = "print only the names, one a line" },
    { .flag = "config", .type = SG_OPTION_STRING,
      .commands = SG_FOR_CELL | SG_FOR_TEMPLATE | SG_FOR_DOCTOR, .offset = AT(config_file),
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

const struct sg_option *sg_option_find_flag(struct sg_str flag, unsigned commands)
{
    for (size_t i = 0; i < sg_option_count; i++) {
        const struct sg_option *o = &sg_options[i];
        if (o->flag && (o->commands & commands) && sg_str_is(flag, o->flag))
            return o;
    }
    return NULL;
}

const struct sg_option *sg_option_find_letter(char letter, unsigned commands)
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
