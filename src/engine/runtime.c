/* SPDX-License-Identifier: Apache-2.0 */
/* What an OCI runtime is told: config.json of its bundle, and its command line.
 *
 * The sandbox is one process, sandglass-init, with the channel as its standard input. Limits are
 * those of the cell around it; only what the cell's cgroup cannot tell apart (processes inside a
 * kernel that is a program) is also set within. */
#include "engine/runtime.h"

#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/init_image.h"
#include "base/banned.h"

#define GUEST_DIR "/.sandglass"

/* ---- the command ---- */

static const struct known {
    const char *name;     /* the beginning of the program's */
    const char *words[6]; /* before "run" */
    bool is_gvisor;
} known[] = {
    /* Newer ones would keep what is written to themselves: then no layer, snapshot or limit of
     * ours would know of it. */
    { "runsc", { "--ignore-cgroups", "--root=/run/runtime", "--overlay2=none" }, true },
    { "crun", { "--cgroup-manager=disabled", "--root=/run/runtime" }, false },
    { "", { "--root=/run/runtime" }, false },
};

static const struct known *known_by(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const struct known *k = known;
    while (strncmp(name, k->name, strlen(k->name)) != 0)
        k++;
    return k;
}

bool sg_runtime_is_gvisor(const char *path)
{
    return known_by(path)->is_gvisor;
}

char *sg_runtime_command(const struct sg_runtime *r)
{
    const struct known *k = known_by(r->path);
    sg_auto_buf out;
    sg_buf_init(&out, 16 << 10);
    sg_buf_add_str(&out, "/runtime\n");
    for (size_t i = 0; i < SG_COUNT(k->words) && k->words[i]; i++)
        sg_buf_addf(&out, "%s\n", k->words[i]);
    if (k->is_gvisor) {
        /* The gate's sockets are in the cell's network namespace, which has nothing else. */
        sg_buf_addf(&out, "--network=%s\n", r->has_gate ? "host" : "none");
        if (r->platform && *r->platform)
            sg_buf_addf(&out, "--platform=%s\n", r->platform);
    }
    for (size_t i = 0; i < r->argument_count; i++)
        sg_buf_addf(&out, "%s\n", r->arguments[i]);
    sg_buf_add_str(&out, "run\n--bundle=/bundle\nsandbox\n");
    return out.has_overflowed ? NULL : sg_strdup(sg_buf_cstr(&out));
}

char *sg_runtime_find(const char *name)
{
    static const char *const dirs[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                        "/usr/bin" };
    if (strchr(name, '/'))
        return access(name, X_OK) == 0 ? sg_strdup(name) : NULL;
    for (size_t i = 0; i < SG_COUNT(dirs); i++) {
        sg_auto_free char *path = sg_printf("%s/%s", dirs[i], name);
        if (access(path, X_OK) == 0)
            return sg_take_ptr(&path);
    }
    return NULL;
}

/* ---- config.json ---- */

static void put_str(struct sg_json *j, const char *key, const char *value)
{
    sg_json_key(j, key);
    sg_json_str(j, value);
}

static void put_list(struct sg_json *j, const char *key, const char *const *v, size_t n)
{
    sg_json_key(j, key);
    sg_json_open(j, '[');
    for (size_t i = 0; i < n; i++)
        sg_json_str(j, v[i]);
    sg_json_close(j, ']');
}

/* As those of root in a cell (engine/cell.c). */
static void put_capabilities(struct sg_json *j)
{
    static const char *const caps[] = {
        "CAP_CHOWN",   "CAP_DAC_OVERRIDE", "CAP_FOWNER",  "CAP_FSETID",           "CAP_KILL",
        "CAP_SETGID",  "CAP_SETUID",       "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT",
        "CAP_SETFCAP", "CAP_AUDIT_WRITE",
    };
    static const char *const sets[] = { "bounding", "effective", "permitted" };
    sg_json_key(j, "capabilities");
    sg_json_open(j, '{');
    for (size_t i = 0; i < SG_COUNT(sets); i++)
        put_list(j, sets[i], caps, SG_COUNT(caps));
    sg_json_close(j, '}');
}

static void put_rlimit(struct sg_json *j, const char *type, uint64_t value)
{
    sg_json_open(j, '{');
    put_str(j, "type", type);
    sg_json_key(j, "hard");
    sg_json_u64(j, value);
    sg_json_key(j, "soft");
    sg_json_u64(j, value);
    sg_json_close(j, '}');
}

static void put_process(struct sg_json *j, const struct sg_cell_spec *spec)
{
    static const char *const args[] = { GUEST_DIR "/init", "--channel" };
    sg_json_key(j, "process");
    sg_json_open(j, '{');
    sg_json_key(j, "terminal");
    sg_json_bool(j, false);
    sg_json_key(j, "user");
    sg_json_open(j, '{');
    sg_json_key(j, "uid");
    sg_json_u64(j, 0);
    sg_json_key(j, "gid");
    sg_json_u64(j, 0);
    sg_json_close(j, '}');
    put_list(j, "args", args, SG_COUNT(args));
    put_str(j, "cwd", "/");
    put_capabilities(j);
    sg_json_key(j, "rlimits");
    sg_json_open(j, '[');
    put_rlimit(j, "RLIMIT_NOFILE", spec->limits.open_files);
    put_rlimit(j, "RLIMIT_NPROC", spec->limits.pids);
    put_rlimit(j, "RLIMIT_CORE", 0);
    sg_json_close(j, ']');
    sg_json_key(j, "noNewPrivileges");
    sg_json_bool(j, !spec->grants_sudo);
    sg_json_close(j, '}');
}

struct mount {
    const char *at, *type, *source, *options[5];
};

static void put_mount(struct sg_json *j, const struct mount *m)
{
    size_t n = 0;
    while (n < SG_COUNT(m->options) && m->options[n])
        n++;
    sg_json_open(j, '{');
    put_str(j, "destination", m->at);
    put_str(j, "type", m->type);
    put_str(j, "source", m->source);
    put_list(j, "options", m->options, n);
    sg_json_close(j, '}');
}

/* /tmp by name: gVisor would put memory of its own there, which no disk limit knows; with what is
 * mounted in it, since the kernel lets nobody look below that without its owner. Volumes are in
 * the root already, and told of once more: what is a mount of its own gVisor asks for each time,
 * the root it takes for its own. */
static void put_mounts(struct sg_json *j, const struct sg_cell_spec *spec)
{
    static const struct mount rows[] = {
        { "/proc", "proc", "proc", { "nosuid", "noexec", "nodev" } },
        { "/dev", "tmpfs", "tmpfs", { "nosuid", "mode=755", "size=64k" } },
        { "/dev/pts", "devpts", "devpts", { "nosuid", "noexec", "newinstance", "ptmxmode=0666" } },
        { "/dev/shm", "tmpfs", "shm", { "nosuid", "noexec", "nodev", "mode=1777", "size=64m" } },
        { "/tmp", "bind", "/" SG_NESTED_ROOT "/tmp", { "rbind", "nosuid", "nodev" } },
        { GUEST_DIR, "bind", "/bundle/guest", { "bind", "ro", "nosuid", "nodev" } },
    };
    sg_json_key(j, "mounts");
    sg_json_open(j, '[');
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        put_mount(j, &rows[i]);
    for (size_t i = 0; i < spec->bind_count; i++) {
        const struct sg_bind *b = &spec->binds[i];
        const char *mode = b->flags & SG_BIND_READ_ONLY ? "ro" : "rw";
        sg_auto_free char *source = sg_printf("/" SG_NESTED_ROOT "%s", b->target);
        if (b->flags & SG_BIND_APART)
            put_mount(j, &(struct mount) {
                             b->target, "bind", source, { "bind", mode, "nosuid", "nodev" } });
    }
    sg_json_close(j, ']');
}

static void put_linux(struct sg_json *j)
{
    static const char *const namespaces[] = { "pid", "ipc", "uts", "mount" };
    static const char *const masked[] = { "/proc/acpi",         "/proc/kcore", "/proc/keys",
                                          "/proc/bus",          "/proc/scsi",  "/proc/timer_list",
                                          "/proc/sysrq-trigger" };
    static const char *const fixed[] = { "/proc/fs", "/proc/irq", "/proc/sys" };
    sg_json_key(j, "linux");
    sg_json_open(j, '{');
    sg_json_key(j, "namespaces");
    sg_json_open(j, '[');
    for (size_t i = 0; i < SG_COUNT(namespaces); i++) {
        sg_json_open(j, '{');
        put_str(j, "type", namespaces[i]);
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
    put_list(j, "maskedPaths", masked, SG_COUNT(masked));
    put_list(j, "readonlyPaths", fixed, SG_COUNT(fixed));
    sg_json_close(j, '}');
}

static void put_config(struct sg_json *j, const struct sg_cell_spec *spec)
{
    sg_json_open(j, '{');
    put_str(j, "ociVersion", "1.0.2");
    put_process(j, spec);
    sg_json_key(j, "root");
    sg_json_open(j, '{');
    put_str(j, "path", "/" SG_NESTED_ROOT);
    sg_json_key(j, "readonly");
    sg_json_bool(j, false);
    sg_json_close(j, '}');
    put_str(j, "hostname", spec->hostname);
    put_mounts(j, spec);
    put_linux(j);
    sg_json_close(j, '}');
}

int sg_runtime_fill(const struct sg_runtime *r, const char *command, int bridge_fd,
                    const struct sg_cell_spec *spec, struct sg_buf *text, struct sg_nested *ret,
                    struct sg_err *err)
{
    struct sg_json j;
    size_t init_n;
    const void *init = sg_init_image_bytes(&init_n);
    sg_json_init(&j, text);
    put_config(&j, spec);
    if (sg_buf_check(text, "config.json", err) < 0)
        return -1;
    *ret = (struct sg_nested) {
        .program_fd = bridge_fd,
        .program = "sandglass-bridge",
        .runtime = r->path,
        .has_kvm = r->platform && strcmp(r->platform, "kvm") == 0,
        .files = { { "bundle/config.json", text->p, text->n, 0444 },
                   { "bundle/command", command, strlen(command), 0444 },
                   { "bundle/guest/init", init, init_n, 0555 } },
        .file_count = 3,
    };
    return 0;
}
