/* SPDX-License-Identifier: Apache-2.0 */
/* The same sandbox in the words of the OCI runtime specification. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "contestants.h"
#include "base/banned.h"

enum {
    CONFIG_BYTES = 64 << 10,
    FIRST_ID = 0x6fff0000, /* below the ranges that cells claim */
    CPU_PERIOD_US = 100000,
};

/* A list of words. */
static void put_words(struct sg_json *o, const char *key, const char *const *words)
{
    sg_json_key(o, key);
    sg_json_open(o, '[');
    for (; *words; words++)
        sg_json_str(o, *words);
    sg_json_close(o, ']');
}

static void put_text(struct sg_json *o, const char *key, const char *text)
{
    sg_json_key(o, key);
    sg_json_str(o, text);
}

static void put_number(struct sg_json *o, const char *key, uint64_t value)
{
    sg_json_key(o, key);
    sg_json_u64(o, value);
}

static void put_process(struct sg_json *o, const struct sg_bench *b)
{
    static const char *const sets[] = { "bounding", "effective", "permitted", "inheritable",
                                        "ambient" };
    static const char *const none[] = { NULL };
    sg_json_key(o, "process");
    sg_json_open(o, '{');
    sg_json_key(o, "user");
    sg_json_open(o, '{');
    put_number(o, "uid", 1000);
    put_number(o, "gid", 1000);
    sg_json_close(o, '}');
    put_words(o, "args", (const char *const[]) { "/bin/true", NULL });
    put_words(o, "env", (const char *const *)b->env);
    put_text(o, "cwd", b->cell.workdir);
    sg_json_key(o, "noNewPrivileges");
    sg_json_bool(o, true);
    sg_json_key(o, "capabilities");
    sg_json_open(o, '{');
    for (size_t i = 0; i < SG_COUNT(sets); i++)
        put_words(o, sets[i], none);
    sg_json_close(o, '}');
    sg_json_close(o, '}');
}

static void put_mount(struct sg_json *o, const char *target, const char *type, const char *source,
                      const char *const *options)
{
    sg_json_open(o, '{');
    put_text(o, "destination", target);
    put_text(o, "type", type);
    put_text(o, "source", source);
    put_words(o, "options", options);
    sg_json_close(o, '}');
}

static void put_mounts(struct sg_json *o, const struct sg_bench *b)
{
    static const char *const bound[] = { "rbind", "ro", "nosuid", "nodev", NULL };
    static const char *const plain[] = { "nosuid", "nodev", "mode=1777", NULL };
    static const char *const proc[] = { "nosuid", "nodev", "noexec", NULL };
    static const char *const dev[] = { "nosuid", "mode=755", "size=65536k", NULL };
    static const char *const pts[] = { "nosuid",        "noexec",    "newinstance",
                                       "ptmxmode=0666", "mode=0620", NULL };
    static const char *const writable[] = { "/dev/shm", "/tmp", "/workspace", "/home/user" };
    sg_json_key(o, "mounts");
    sg_json_open(o, '[');
    for (size_t i = 0; i < b->host.bind_count; i++)
        put_mount(o, b->host.binds[i].target, "bind", b->host.binds[i].source, bound);
    for (size_t i = 0; i < b->host.hide_count; i++)
        put_mount(o, b->host.hide[i], "tmpfs", "tmpfs", plain);
    put_mount(o, "/proc", "proc", "proc", proc);
    put_mount(o, "/dev", "tmpfs", "tmpfs", dev);
    put_mount(o, "/dev/pts", "devpts", "devpts", pts);
    for (size_t i = 0; i < SG_COUNT(writable); i++)
        put_mount(o, writable[i], "tmpfs", "tmpfs", plain);
    sg_json_close(o, ']');
}

static void put_ids(struct sg_json *o, const char *key)
{
    sg_json_key(o, key);
    sg_json_open(o, '[');
    sg_json_open(o, '{');
    put_number(o, "containerID", 0);
    put_number(o, "hostID", FIRST_ID);
    put_number(o, "size", SG_CELL_IDS);
    sg_json_close(o, '}');
    sg_json_close(o, ']');
}

static void put_limits(struct sg_json *o, const struct sg_limits *l)
{
    sg_json_key(o, "resources");
    sg_json_open(o, '{');
    sg_json_key(o, "memory");
    sg_json_open(o, '{');
    put_number(o, "limit", l->mem_bytes);
    sg_json_close(o, '}');
    sg_json_key(o, "cpu");
    sg_json_open(o, '{');
    put_number(o, "quota", l->cpu_milli * CPU_PERIOD_US / 1000);
    put_number(o, "period", CPU_PERIOD_US);
    sg_json_close(o, '}');
    sg_json_key(o, "pids");
    sg_json_open(o, '{');
    put_number(o, "limit", l->pids);
    sg_json_close(o, '}');
    sg_json_close(o, '}');
}

static void put_linux(struct sg_json *o, const struct sg_bench *b)
{
    static const char *const namespaces[] = {
        "user", "mount", "pid", "network", "ipc", "uts", "cgroup",
    };
    static const char *const masked[] = { "/proc/kcore", "/proc/keys", "/proc/timer_list", NULL };
    sg_auto_free char *cgroup = sg_printf("/sgbench-crun-%d", (int)getpid());
    sg_json_key(o, "linux");
    sg_json_open(o, '{');
    put_ids(o, "uidMappings");
    put_ids(o, "gidMappings");
    put_limits(o, &b->cell.limits);
    put_text(o, "cgroupsPath", cgroup);
    sg_json_key(o, "namespaces");
    sg_json_open(o, '[');
    for (size_t i = 0; i < SG_COUNT(namespaces); i++) {
        sg_json_open(o, '{');
        put_text(o, "type", namespaces[i]);
        sg_json_close(o, '}');
    }
    sg_json_close(o, ']');
    put_words(o, "maskedPaths", masked);
    sg_json_close(o, '}');
}

static void put_config(struct sg_json *o, const struct sg_bench *b, const char *rootfs)
{
    sg_json_open(o, '{');
    put_text(o, "ociVersion", "1.0.0");
    put_process(o, b);
    sg_json_key(o, "root");
    sg_json_open(o, '{');
    put_text(o, "path", rootfs);
    sg_json_key(o, "readonly");
    sg_json_bool(o, true);
    sg_json_close(o, '}');
    put_text(o, "hostname", b->cell.hostname);
    put_mounts(o, b);
    put_linux(o, b);
    sg_json_close(o, '}');
}

int sg_crun_write_config(const struct sg_bench *b, struct sg_err *err)
{
    sg_auto_free char *dir = sg_printf("%s/bundle", b->dir);
    sg_auto_free char *path = sg_printf("%s/config.json", dir);
    sg_auto_free char *rootfs = sg_printf("%s/rootfs", b->dir);
    sg_auto_buf text;
    struct sg_json o;
    sg_buf_init(&text, CONFIG_BYTES);
    sg_json_init(&o, &text);
    put_config(&o, b, rootfs);
    if (sg_buf_check(&text, "crun's configuration", err) < 0)
        return -1;
    (void)mkdir(dir, 0755); /* what is wrong with it shows when the file is made */
    sg_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text.p, text.n) != (ssize_t)text.n)
        return sg_fail_sys(err, "write '%s'", path);
    return 0;
}
