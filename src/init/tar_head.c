/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of an archive: ustar, and pax for what does not fit into that. */
#include <stdio.h>
#include <string.h>

#include "init/tar.h"
#include "base/banned.h"

enum {
    NAME_FIELD = 100,
    PREFIX_FIELD = 155,
    HEADER_MAX_BYTES = 16 * 1024, /* two names at their longest, as records, and two blocks */
};
static const uint64_t MAX_OCTAL_11 = 077777777777, MAX_OCTAL_7 = 07777777;

static void put_text(uint8_t *block, size_t at, size_t n, const char *s, size_t bytes)
{
    memcpy(block + at, s, bytes < n ? bytes : n);
}

/* Octal digits and a NUL; what is too large is told as large as can be. */
static void put_number(uint8_t *block, size_t at, size_t n, uint64_t v)
{
    uint64_t most = n == 8 ? MAX_OCTAL_7 : MAX_OCTAL_11;
    if (v > most)
        v = most;
    for (size_t i = n - 1; i-- > 0; v >>= 3)
        block[at + i] = (uint8_t)('0' + (v & 7));
}

static void put_block(struct sg_buf *out, uint8_t *block, char kind)
{
    static const uint8_t magic[8] = { 'u', 's', 't', 'a', 'r', 0, '0', '0' };
    unsigned sum = 0;
    block[156] = (uint8_t)kind;
    memcpy(block + 257, magic, sizeof magic);
    memset(block + 148, ' ', 8);
    for (unsigned i = 0; i < SG_TAR_BLOCK; i++)
        sum += block[i];
    (void)snprintf((char *)block + 148, 8, "%06o", sum); /* NUL, and the blank after it stays */
    sg_buf_add(out, block, SG_TAR_BLOCK);
}

/* A record is told with its own length, digits included. */
void sg_tar_put_record(struct sg_buf *records, const char *key, const void *value, size_t bytes)
{
    size_t n = strlen(key) + bytes + 3, total = n + 1;
    while (total < n + (size_t)snprintf(NULL, 0, "%zu", total))
        total++;
    sg_buf_addf(records, "%zu %s=", total, key);
    sg_buf_add(records, value, bytes);
    sg_buf_add(records, "\n", 1);
}

static void put_record(struct sg_buf *out, const char *key, const char *value)
{
    sg_tar_put_record(out, key, value, strlen(value));
}

static void put_prelude(struct sg_buf *out, const struct sg_buf *records)
{
    static const uint8_t zeros[SG_TAR_BLOCK];
    uint8_t block[SG_TAR_BLOCK] = { 0 };
    put_text(block, SG_TAR_NAME_AT, "PaxHeaders", strlen("PaxHeaders"));
    put_number(block, SG_TAR_MODE_AT, 0644);
    put_number(block, SG_TAR_UID_AT, 0);
    put_number(block, SG_TAR_GID_AT, 0);
    put_number(block, SG_TAR_SIZE_AT, records->n);
    put_number(block, SG_TAR_MTIME_AT, 0);
    put_block(out, block, 'x');
    sg_buf_add(out, records->p, records->n);
    sg_buf_add(out, zeros, -records->n % SG_TAR_BLOCK);
}

/* Puts the name into its two fields; false where it does not fit. */
static bool put_name(uint8_t *block, const char *name)
{
    size_t n = strlen(name);
    if (n <= NAME_FIELD) {
        put_text(block, SG_TAR_NAME_AT, name, n);
        return true;
    }
    const char *slash = strchr(name + (n - NAME_FIELD - 1), '/');
    if (!slash)
        return false;
    size_t at = (size_t)(slash - name);
    if (at > PREFIX_FIELD || at == 0 || at + 1 >= n)
        return false;
    put_text(block, SG_TAR_PREFIX_AT, name, at);
    put_text(block, SG_TAR_NAME_AT, slash + 1, n - at - 1);
    return true;
}

void sg_tar_put_header(struct sg_buf *out, const struct sg_tar_entry *e, uint32_t uid, uint32_t gid)
{
    sg_auto_buf records;
    sg_buf_init(&records, HEADER_MAX_BYTES);
    sg_tar_put_header_with(out, e, uid, gid, &records);
}

void sg_tar_put_header_with(struct sg_buf *out, const struct sg_tar_entry *e, uint32_t uid,
                            uint32_t gid, struct sg_buf *records)
{
    static const char kinds[] = {
        [SG_TAR_FILE] = '0',     [SG_TAR_DIR] = '5',  [SG_TAR_SYMLINK] = '2',
        [SG_TAR_HARDLINK] = '1', [SG_TAR_FIFO] = '6', [SG_TAR_WHITEOUT] = '3',
    };
    uint8_t block[SG_TAR_BLOCK] = { 0 };
    if (!put_name(block, e->name)) {
        put_record(records, "path", e->name);
        put_text(block, SG_TAR_NAME_AT, e->name, NAME_FIELD);
    }
    size_t target_n = strlen(e->target);
    put_text(block, SG_TAR_TARGET_AT, e->target, target_n);
    if (target_n > NAME_FIELD)
        put_record(records, "linkpath", e->target);
    if (e->bytes > MAX_OCTAL_11) {
        char size[24];
        (void)snprintf(size, sizeof size, "%llu", (unsigned long long)e->bytes);
        put_record(records, "size", size);
    }
    if (records->n)
        put_prelude(out, records);
    put_number(block, SG_TAR_MODE_AT, e->mode);
    put_number(block, SG_TAR_UID_AT, uid);
    put_number(block, SG_TAR_GID_AT, gid);
    put_number(block, SG_TAR_SIZE_AT, e->bytes);
    if (e->kind == SG_TAR_WHITEOUT) {
        put_number(block, SG_TAR_MAJOR_AT, 0);
        put_number(block, SG_TAR_MINOR_AT, 0);
    }
    put_number(block, SG_TAR_MTIME_AT, e->mtime.tv_sec > 0 ? (uint64_t)e->mtime.tv_sec : 0);
    put_block(out, block, kinds[e->kind]);
}
