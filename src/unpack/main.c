/* SPDX-License-Identifier: Apache-2.0 */
/* sandglass-unpack: one archive from stdin, written below a directory.
 *
 *   sandglass-unpack [--one-user] [--keep-setuid] [--skip-devices]
 *                    [--max-entries N] [--max-bytes N]
 *                    [--images] [--platform OS/ARCH] [--image NAME]
 *                    [--layer] [--diff HEX] DIRECTORY
 *
 * --images: an archive of an image (an OCI layout, `docker save`) is taken apart into its blobs,
 * which are layers and are then unpacked one by one with --layer and the digest in --diff.
 *
 *   sandglass-unpack --pack ROOT DIRECTORY
 *
 * is the other way: a tree into the parts of an image, by a configuration from stdin.
 *
 * Runs inside a cell that shows it only the new layer, because decoders are where archives attack.
 * Landlock is a second wall for the same case: it also holds where the program is run by hand, and
 * it takes away even what the cell has beside the layer. Without Landlock the summary says so.
 *
 * Success: one JSON line on stdout, exit 0. Failure: one line on stderr, and exit 1 when the
 * archive is refused, 2 for usage, 3 when the system failed (a full disk, say). */
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/parse.h"
#include "sys/landlock.h"
#include "unpack/pack.h"

#include "base/banned.h"

enum { DRAIN_BYTES = 16 << 20, SUMMARY_BYTES = 1 << 20 };

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#endif

static const struct {
    const char *name;
    size_t flag;   /* offset of a bool ... */
    size_t number; /* ... or of an uint64_t with a value after the name ... */
    size_t text;   /* ... or of a text */
} flags[] = {
    { "--one-user", offsetof(struct sg_unpack_options, is_one_user), 0, 0 },
    { "--keep-setuid", offsetof(struct sg_unpack_options, keeps_setuid), 0, 0 },
    { "--skip-devices", offsetof(struct sg_unpack_options, skips_devices), 0, 0 },
    { "--layer", offsetof(struct sg_unpack_options, is_layer), 0, 0 },
    { "--max-entries", 0, offsetof(struct sg_unpack_options, max_entries), 0 },
    { "--max-bytes", 0, offsetof(struct sg_unpack_options, max_bytes), 0 },
    { "--diff", 0, 0, offsetof(struct sg_unpack_options, diff) },
    { "--image", 0, 0, offsetof(struct sg_unpack_options, image) },
};

static int set_option(struct sg_unpack_options *o, char **argv, int *at, struct sg_err *err)
{
    for (size_t i = 0; i < SG_COUNT(flags); i++) {
        if (strcmp(argv[*at], flags[i].name) != 0)
            continue;
        if (flags[i].flag) {
            *(bool *)((char *)o + flags[i].flag) = true;
            return 0;
        }
        const char *value = argv[*at + 1];
        if (!value)
            return sg_fail(err, SG_INVALID, "%s needs a value", flags[i].name);
        *at += 1;
        if (flags[i].text) {
            memcpy((char *)o + flags[i].text, &value, sizeof value);
            return 0;
        }
        uint64_t *number = (uint64_t *)(void *)((char *)o + flags[i].number);
        if (sg_parse_u64(sg_str_of(value), 1, UINT64_C(1) << 50, number, err) < 0)
            return sg_wrap(err, "%s", flags[i].name);
        return 0;
    }
    return sg_fail(err, SG_INVALID, "unknown option %s", sg_quote(argv[*at]).s);
}

/* What it takes to know an image when one comes. */
struct images {
    struct sg_arena arena;
    struct sg_oci_platform platform;
};

static int parse_arguments(char **argv, struct sg_unpack_options *o, struct images *images,
                           const char **ret_dir, struct sg_err *err)
{
    int at = 1;
    for (; argv[at] && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "--images") == 0) {
            o->arena = &images->arena;
        } else if (strcmp(argv[at], "--platform") == 0 && argv[at + 1]) {
            if (sg_oci_platform_parse(argv[++at], &images->arena, &images->platform, err) < 0)
                return -1;
        } else if (set_option(o, argv, &at, err) < 0) {
            return -1;
        }
    }
    if (o->diff && !sg_oci_is_hex(sg_str_of(o->diff)))
        return sg_fail(err, SG_INVALID, "--diff needs 64 hexadecimal digits");
    if (!argv[at] || argv[at + 1])
        return sg_fail(err, SG_INVALID, "usage: sandglass-unpack [options] DIRECTORY <ARCHIVE");
    *ret_dir = argv[at];
    return 0;
}

/* An xz dictionary can ask for 1.5 GiB; what is made for machines of ours needs a tenth. */
static void limit_memory(void)
{
#ifndef HAS_ASAN
    const struct rlimit memory = { UINT64_C(768) << 20, UINT64_C(768) << 20 };
    (void)setrlimit(RLIMIT_AS, &memory);
#endif
    const struct rlimit no_core = { 0, 0 };
    (void)setrlimit(RLIMIT_CORE, &no_core);
}

/* Archives end in padding that the decoder does not ask for; whoever pipes it in would see EPIPE.
 */
static void drain(int fd)
{
    char chunk[65536];
    for (size_t left = DRAIN_BYTES; left;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got <= 0)
            return;
        left -= (size_t)got < left ? (size_t)got : left;
    }
}

static int print_summary(const struct sg_unpack_result *r, bool has_landlock, struct sg_err *err)
{
    sg_auto_buf out;
    sg_buf_init(&out, SUMMARY_BYTES);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "entries");
    sg_json_u64(&j, r->entries);
    sg_json_key(&j, "bytes");
    sg_json_u64(&j, r->bytes);
    sg_json_key(&j, "skipped");
    sg_json_u64(&j, r->skipped);
    sg_json_key(&j, "first_skipped");
    sg_json_str(&j, r->first_skipped[0] ? r->first_skipped : NULL);
    sg_json_key(&j, "setuid_dropped");
    sg_json_u64(&j, r->setuid_dropped);
    sg_json_key(&j, "landlock");
    sg_json_bool(&j, has_landlock);
    if (r->image) {
        sg_json_key(&j, "image");
        sg_oci_image_format(r->image, &j);
    }
    sg_json_close(&j, '}');
    sg_buf_add_str(&out, "\n");
    if (sg_buf_check(&out, "summary", err) < 0)
        return -1;
    if (fwrite(out.p, 1, out.n, stdout) != out.n || fflush(stdout) != 0)
        return sg_fail_sys(err, "write the summary");
    return 0;
}

static int pack(const char *root, const char *dir, struct sg_arena *a, struct sg_err *err)
{
    struct sg_unpack_result result;
    sg_auto_buf config;
    sg_buf_init(&config, SUMMARY_BYTES);
    sg_auto_fd from = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_fd to = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from < 0 || to < 0)
        return sg_fail_sys(err, "open %s", sg_quote(from < 0 ? root : dir).s);
    if (sg_buf_read_fd(&config, STDIN_FILENO, "configuration", err) < 0 ||
        sg_pack(from, to, (struct sg_str) { (const char *)config.p, config.n }, a, &result, err) <
            0)
        return -1;
    return print_summary(&result, false, err);
}

static int unpack(const char *dir, const struct sg_unpack_options *options, struct sg_err *err)
{
    sg_auto_fd target = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (target < 0)
        return sg_fail_sys(err, "open %s", sg_quote(dir).s);
    struct sg_err no_landlock;
    bool has_landlock = sg_landlock_keep_only(target, &no_landlock) == 0;
    if (!has_landlock && no_landlock.kind != SG_UNSUPPORTED) {
        *err = no_landlock;
        return -1;
    }
    struct sg_unpack_result result;
    if (sg_unpack(STDIN_FILENO, target, options, &result, err) < 0)
        return -1;
    drain(STDIN_FILENO);
    return print_summary(&result, has_landlock, err);
}

int main(int argc, char **argv)
{
    struct sg_err err = { 0 };
    struct sg_unpack_options options = sg_unpack_defaults();
    const char *dir = NULL;
    static struct images images;
    sg_arena_init(&images.arena, SG_OCI_ARENA);
    images.platform = sg_oci_platform_own();
    options.platform = &images.platform;
    const bool is_pack = argc == 4 && strcmp(argv[1], "--pack") == 0;
    bool is_usage = !is_pack && parse_arguments(argv, &options, &images, &dir, &err) < 0;
    if (!is_usage) {
        (void)setlocale(LC_CTYPE, "C.UTF-8"); /* so that names in pax headers arrive unchanged */
        (void)umask(0077);
        limit_memory();
        if ((is_pack ? pack(argv[2], argv[3], &images.arena, &err) : unpack(dir, &options, &err)) ==
            0)
            return 0;
    }
    (void)fprintf(stderr, "sandglass-unpack: %s\n", err.msg);
    return is_usage ? 2 : err.sys ? 3 : 1;
}
