/* SPDX-License-Identifier: Apache-2.0 */
/* What a cell is to be: plain data, filled by the caller, borrowed until sg_cell_build() returns.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SG_CELL_MAX_LAYERS = 32,
    SG_CELL_MAX_BINDS = 32,
    SG_CELL_MAX_HIDDEN = 8,
    SG_CELL_IDS = 65536, /* width of a cell's own uid and gid range */
};

#define SG_CELL_HOSTNAME "sandbox"
/* Whichever server is asked, the gate answers; this address is nobody else's. Also in the `host`
 * template. */
#define SG_CELL_RESOLV_CONF "nameserver 198.18.0.1\n"

enum sg_bind_flags {
    SG_BIND_READ_ONLY = 1,
    SG_BIND_IDMAP = 2, /* ids are stored as seen inside (0 to 65535): layers, volumes */
    SG_BIND_APART = 4, /* others change it, too: a runtime is told of it, and trusts no copy */
};

/* A host file or directory, seen inside. Always nosuid and nodev. A missing target is made. As
 * root, what a writable bind of an ordinary user's directory holds belongs to owner_id inside. */
struct sg_bind {
    const char *source; /* host path, opened with the caller's own rights */
    const char *target; /* absolute path inside */
    unsigned flags;
};

/* A cell around somebody else's wall: pid 1 is `program_fd` (static), which starts a runtime that
 * makes a sandbox of /rootfs: the overlay, which is the root of any other cell. What is trusted to
 * build walls has all capabilities in the cell's user namespace, and no filter of ours. */
struct sg_nested_file {
    const char *path; /* from the cell's root; its directory is made */
    const void *p;
    size_t n;
    uint32_t mode;
};
enum { SG_NESTED_MAX_FILES = 4 };
#define SG_NESTED_ROOT "rootfs"
struct sg_nested {
    int program_fd; /* borrowed */
    const char *program;
    const char *runtime; /* host path; seen as /runtime */
    bool has_kvm;        /* /dev/kvm is there, for root inside */
    struct sg_nested_file files[SG_NESTED_MAX_FILES];
    size_t file_count;
};

struct sg_limits {
    uint64_t mem_bytes; /* memory, and memory plus swap */
    uint64_t cpu_milli; /* 1000 is one cpu */
    uint64_t pids;
    uint64_t disk_bytes; /* writable layer and /tmp together; in memory: with /dev/shm */
    uint64_t open_files; /* per process */
    bool is_pooled;      /* the writable layer is on the storage pool, and limited there */
};

struct sg_cell_spec {
    const char *layers[SG_CELL_MAX_LAYERS]; /* host directories, topmost first */
    size_t layer_count;
    struct sg_bind binds[SG_CELL_MAX_BINDS];
    size_t bind_count;
    const char *hide[SG_CELL_MAX_HIDDEN]; /* absolute paths inside, covered by an empty directory */
    size_t hide_count;
    const char *hostname; /* SG_CELL_HOSTNAME is in the templates' own files */
    struct sg_limits limits;
    bool is_read_only;       /* root and binds; /tmp and /dev/shm stay writable */
    bool grants_sudo;        /* template profile: setuid works inside, instead of no_new_privs */
    bool is_idmapped;        /* layers hold ids 0 to 65535 (all stored templates; never rootless) */
    bool is_rootless;        /* the caller has become root of an own user namespace (userns.h) */
    const char *workdir;     /* absolute; made when missing, owned by owner_id */
    uint32_t owner_id;       /* uid and gid inside that own a directory made for workdir */
    const char *resolv_conf; /* text of /etc/resolv.conf; NULL: the template's own */
    /* The writable layer is this directory, which holds "up" and "wk" with ids as seen inside; else
     * it is made in memory. Borrowed; -1 or limits.is_pooled unset: none. */
    int disk_fd;
    const struct sg_nested *nested; /* NULL: an ordinary cell */
    int listen_fd; /* of a kept cell, borrowed: a listening SEQPACKET socket for pid 1 */
    /* Of sg_init_image_open(), borrowed: whoever makes many cells makes it once, and they share its
     * memory. Without has_init the cell has one of its own. */
    int init_fd;
    bool has_init;
};

/* Processes of the host for so many inside: each has a thread or two in a kernel that is a program,
 * which has some of its own. */
uint64_t sg_limits_nested_pids(uint64_t pids);

/* The size of the writable layer: less than asked for where that would be all of the memory. */
uint64_t sg_limits_disk_bytes(const struct sg_limits *l);
