/* SPDX-License-Identifier: Apache-2.0 */
/* Tar archives as a stream: what a host sends to be unpacked, and what it gets of a tree.
 *
 * Read: ustar and its elder brother, pax (path, linkpath, size, mtime), GNU long names. Written:
 * ustar, with pax for what does not fit, and (exact, tar_exact.h) for what ustar knows nothing of.
 * The reader knows the format and nothing of file systems; whether a name is fit to be used is for
 * tar_in.c to say. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum {
    SG_TAR_BLOCK = 512,
    SG_TAR_NAME_MAX = 4095,
    SG_TAR_MAX_ENTRIES = 1000 * 1000,
    SG_TAR_ROOM = 64 * 1024,
};

/* The header block: where each field starts and how long it is. */
#define SG_TAR_NAME_AT     0, 100
#define SG_TAR_MODE_AT     100, 8
#define SG_TAR_UID_AT      108, 8
#define SG_TAR_GID_AT      116, 8
#define SG_TAR_SIZE_AT     124, 12
#define SG_TAR_MTIME_AT    136, 12
#define SG_TAR_CHECKSUM_AT 148, 8
#define SG_TAR_KIND_AT     156, 1
#define SG_TAR_TARGET_AT   157, 100
#define SG_TAR_MAGIC_AT    257, 8
#define SG_TAR_MAJOR_AT    329, 8
#define SG_TAR_MINOR_AT    337, 8
#define SG_TAR_PREFIX_AT   345, 155

/* The last two only where the archive is exact: a device 0/0 says that the name is no more. */
enum sg_tar_kind {
    SG_TAR_FILE,
    SG_TAR_DIR,
    SG_TAR_SYMLINK,
    SG_TAR_HARDLINK,
    SG_TAR_FIFO,
    SG_TAR_WHITEOUT,
};

struct sg_tar_entry {
    enum sg_tar_kind kind;
    uint32_t mode; /* permissions and set-id bits, as the archive says */
    uint32_t uid, gid;
    struct sg_str pax; /* exact: the records of its header; until the next entry */
    uint64_t bytes;    /* of a file's data; 0 for the others */
    struct timespec mtime;
    char name[SG_TAR_NAME_MAX + 1], target[SG_TAR_NAME_MAX + 1]; /* target: of links */
};

/* Some bytes; 0 at the end, -1 with errno. */
typedef ssize_t sg_tar_pull(void *arg, void *p, size_t n);

struct sg_tar_reader {
    sg_tar_pull *pull;
    void *arg;
    uint64_t data_left, pad_left; /* of the entry in hand */
    unsigned entry_count;
    bool is_exact;         /* to be set after init: more kinds, records kept, sparse files */
    struct sg_buf records; /* of a pax header, or a long name */
    size_t at, n;          /* room[at .. n) is read and not used */
    uint8_t room[SG_TAR_ROOM];
};

void sg_tar_reader_init(struct sg_tar_reader *t, sg_tar_pull *pull, void *arg);
void sg_tar_reader_done(struct sg_tar_reader *t);

/* The next entry (data of the last one is skipped): 1; 0 at the end of the archive; -1. An archive
 * that just stops has no end. Errors name the entry, where there is one. */
int sg_tar_next(struct sg_tar_reader *t, struct sg_tar_entry *ret, struct sg_err *err);
/* Some data of the entry in hand, valid until the next call. Returns how much; 0 at its end. */
ssize_t sg_tar_data(struct sg_tar_reader *t, const uint8_t **ret, struct sg_err *err);
/* Reads on to the end of the stream: archives are padded, and whoever sends one should not have
 * its last words refused. Gives up where there is far more than padding. */
void sg_tar_drain(struct sg_tar_reader *t);

/* Appends the header of an entry: one block, or three and more where pax is needed. `uid` and `gid`
 * are told as they are; names of owners are not. */
void sg_tar_put_header(struct sg_buf *out, const struct sg_tar_entry *e, uint32_t uid,
                       uint32_t gid);
/* The same with more records, which are added to. */
void sg_tar_put_header_with(struct sg_buf *out, const struct sg_tar_entry *e, uint32_t uid,
                            uint32_t gid, struct sg_buf *records);
void sg_tar_put_record(struct sg_buf *records, const char *key, const void *value, size_t n);
/* Takes the next record off the front; 0: no more, -1: broken. */
int sg_tar_next_record(struct sg_str *all, struct sg_str *ret_key, struct sg_str *ret_value);
