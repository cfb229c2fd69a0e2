/* SPDX-License-Identifier: Apache-2.0 */
#include "init/tar_exact.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/str.h"
#include "ctl/msg.h"
#include "base/banned.h"

enum { NAMES_MAX = 64 * 1024, VALUE_MAX = 64 * 1024, NAME_MAX_BYTES = 255 }; /* the kernel's own */

static const char attribute_key[] = "SCHILY.xattr.", opaque_key[] = "SANDGLASS.opaque",
                  size_key[] = "GNU.sparse.size", map_key[] = "GNU.sparse.map";

/* ---- attributes ---- */

static bool goes_along(const char *name)
{
    return strncmp(name, "user.", 5) == 0 || strcmp(name, "security.capability") == 0 ||
           strcmp(name, "system.posix_acl_access") == 0 ||
           strcmp(name, "system.posix_acl_default") == 0;
}

static int put_attribute(struct sg_buf *records, int fd, const char *name, struct sg_err *err)
{
    char value[VALUE_MAX], key[sizeof attribute_key + NAME_MAX_BYTES];
    const ssize_t n = fgetxattr(fd, name, value, sizeof value);
    if (n < 0 && errno == ENODATA)
        return 0;
    if (n < 0)
        return sg_fail_sys(err, "read attribute %s", sg_quote(name).s);
    (void)snprintf(key, sizeof key, "%s%s", attribute_key, name);
    sg_tar_put_record(records, key, value, (size_t)n);
    return 0;
}

int sg_tar_put_attributes(struct sg_buf *records, int fd, const struct stat *st, struct sg_err *err)
{
    char names[NAMES_MAX], time[40];
    const ssize_t n = fd < 0 ? 0 : flistxattr(fd, names, sizeof names);
    if (n < 0 && errno != EOPNOTSUPP)
        return sg_fail_sys(err, "read the attributes of a file");
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
        if (S_ISDIR(st->st_mode) && strcmp(names + at, SG_CTL_OPAQUE) == 0)
            sg_tar_put_record(records, opaque_key, "1", 1);
        else if (goes_along(names + at) && put_attribute(records, fd, names + at, err) < 0)
            return -1;
    }
    const int digits = snprintf(time, sizeof time, "%lld.%09ld",
                                (long long)(st->st_mtim.tv_sec > 0 ? st->st_mtim.tv_sec : 0),
                                st->st_mtim.tv_sec > 0 ? st->st_mtim.tv_nsec : 0L);
    sg_tar_put_record(records, "mtime", time, (size_t)digits);
    return 0;
}

int sg_tar_set_attributes(int fd, struct sg_str pax, struct sg_err *err)
{
    struct sg_str key, value;
    const size_t prefix = strlen(attribute_key);
    while (sg_tar_next_record(&pax, &key, &value) > 0) {
        char name[NAME_MAX_BYTES + 1];
        if (key.n <= prefix || memcmp(key.p, attribute_key, prefix) != 0)
            continue;
        if (key.n - prefix > NAME_MAX_BYTES)
            return sg_fail(err, SG_INVALID, "an attribute has too long a name");
        memcpy(name, key.p + prefix, key.n - prefix);
        name[key.n - prefix] = '\0';
        if (!goes_along(name) || strlen(name) != key.n - prefix)
            return sg_fail(err, SG_INVALID, "attribute %s may not be set", sg_quote(name).s);
        if (fsetxattr(fd, name, value.p, value.n, 0) < 0)
            return sg_fail_sys(err, "set attribute %s", sg_quote(name).s);
    }
    return 0;
}

bool sg_tar_is_opaque(struct sg_str pax)
{
    struct sg_str key, value;
    while (sg_tar_next_record(&pax, &key, &value) > 0)
        if (sg_str_is(key, opaque_key))
            return true;
    return false;
}

/* ---- holes ---- */

void sg_tar_pieces_done(struct sg_tar_pieces *p)
{
    free(p->v);
    *p = (struct sg_tar_pieces) { 0 };
}

static void add_piece(struct sg_tar_pieces *p, uint64_t at, uint64_t bytes)
{
    if (!p->v)
        p->v = sg_alloc(SG_TAR_PIECES_MAX * sizeof *p->v);
    p->v[p->n++] = (struct sg_tar_piece) { at, bytes };
    p->bytes += bytes;
}

int sg_tar_find_pieces(int fd, uint64_t bytes, struct sg_tar_pieces *ret, struct sg_err *err)
{
    struct sg_tar_pieces p = { 0 };
    off_t at = 0;
    while ((uint64_t)at < bytes) {
        const off_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break; /* a hole up to the end */
        off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
        if (data < 0 || hole < 0 ||
            p.n == SG_TAR_PIECES_MAX - 1) { /* it cannot be told, or all of it */
            add_piece(&p, (uint64_t)(data < 0 ? at : data),
                      bytes - (uint64_t)(data < 0 ? at : data));
            break;
        }
        if ((uint64_t)hole > bytes)
            hole = (off_t)bytes;
        if ((uint64_t)data < bytes)
            add_piece(&p, (uint64_t)data, (uint64_t)(hole - data));
        at = hole;
    }
    if (lseek(fd, 0, SEEK_SET) < 0) {
        sg_tar_pieces_done(&p);
        return sg_fail_sys(err, "read a file");
    }
    *ret = p;
    return 0;
}

bool sg_tar_has_holes(const struct sg_tar_pieces *p, uint64_t bytes)
{
    return p->bytes != bytes;
}

void sg_tar_put_pieces(struct sg_buf *records, const struct sg_tar_pieces *p, uint64_t bytes)
{
    sg_auto_buf map;
    char size[24];
    sg_buf_init(&map, (size_t)SG_TAR_PIECES_MAX * 42);
    for (size_t i = 0; i < p->n; i++)
        sg_buf_addf(&map, "%s%llu,%llu", i ? "," : "", (unsigned long long)p->v[i].at,
                    (unsigned long long)p->v[i].bytes);
    if (!p->n) /* one of no bytes at the end: a map is never empty */
        sg_buf_addf(&map, "%llu,0", (unsigned long long)bytes);
    const int n = snprintf(size, sizeof size, "%llu", (unsigned long long)bytes);
    sg_tar_put_record(records, size_key, size, (size_t)n);
    sg_tar_put_record(records, map_key, map.p, map.n);
}

static int take_number(struct sg_str *text, uint64_t *ret)
{
    const char *comma = memchr(text->p, ',', text->n);
    const struct sg_str one = { text->p, comma ? (size_t)(comma - text->p) : text->n };
    if (sg_parse_u64(one, 0, INT64_MAX, ret, NULL) < 0)
        return -1;
    const size_t used = one.n + (comma != NULL);
    *text = (struct sg_str) { text->p + used, text->n - used };
    return 0;
}

/* Ordered, without overlap, within the file, and as many bytes as there are. */
static int take_map(struct sg_str map, uint64_t bytes, struct sg_tar_pieces *p)
{
    uint64_t end = 0;
    while (map.n) {
        uint64_t at, n;
        if (p->n == SG_TAR_PIECES_MAX || take_number(&map, &at) < 0 || take_number(&map, &n) < 0 ||
            at < end || at > bytes || n > bytes - at)
            return -1;
        add_piece(p, at, n);
        end = at + n;
    }
    return 0;
}

int sg_tar_read_pieces(struct sg_str pax, uint64_t data_bytes, struct sg_tar_pieces *ret,
                       uint64_t *ret_bytes, bool *ret_is_sparse, struct sg_err *err)
{
    struct sg_str key, value, map = { NULL, 0 };
    struct sg_tar_pieces p = { 0 };
    uint64_t bytes = 0;
    bool is_sized = false;
    while (sg_tar_next_record(&pax, &key, &value) > 0) {
        if (sg_str_is(key, size_key))
            is_sized = sg_parse_u64(value, 0, INT64_MAX, &bytes, NULL) == 0;
        else if (sg_str_is(key, map_key))
            map = value;
        else if (key.n > 10 && memcmp(key.p, "GNU.sparse", 10) == 0 &&
                 !sg_str_is(key, "GNU.sparse.numblocks"))
            return sg_fail(err, SG_UNSUPPORTED, "the archive has sparse files of another kind");
    }
    *ret_is_sparse = map.p && is_sized;
    if (!map.p && !is_sized)
        return 0;
    if (!*ret_is_sparse || take_map(map, bytes, &p) < 0 || p.bytes != data_bytes) {
        sg_tar_pieces_done(&p);
        return sg_fail(err, SG_INVALID, "a map of holes makes no sense");
    }
    *ret = p;
    *ret_bytes = bytes;
    return 0;
}
