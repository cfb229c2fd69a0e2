/* SPDX-License-Identifier: Apache-2.0 */
/* The warm image: a process at rest, as a file.
 *
 *   head        struct sg_warm_head
 *   regions     struct sg_warm_region[], ascending, none overlapping
 *   files       struct sg_warm_file[]: what regions are mapped from
 *   strings     their paths, each ended by a NUL
 *   (to a page)
 *   pages       the contents of regions that are mapped from the image itself
 *
 * The first four are the metadata, and the checksum covers them. Pages are not read when a process
 * starts, so nothing covers them: the image lies in a template, which no sandbox can change.
 *
 * All numbers are of the machine; an image is for the kernel and the processor that it was made on,
 * and refused elsewhere (sg_warm_machine_fits). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SG_WARM_MAGIC "SGwarm\n\1"

enum {
    SG_WARM_VERSION = 1,
    SG_WARM_MAX_REGIONS = 8192,
    SG_WARM_MAX_FILES = 512,
    SG_WARM_MAX_HEAD = 2 << 20, /* bytes of metadata */
    SG_WARM_MAX_SPECIAL = 4,
    SG_WARM_SIGNALS = 64,
};

/* Where the restorer is linked, and its own mappings: no program and no library gets there by
 * itself, with any setting of vm.mmap_rnd_bits. A region may not touch this range. */
#define SG_WARM_OWN_START UINT64_C(0x0f0000000000)
#define SG_WARM_OWN_END   UINT64_C(0x110000000000)
#define SG_WARM_LINKED_AT UINT64_C(0x100000000000)
#define SG_WARM_TOP       UINT64_C(0x7ffffffff000) /* of a process */

enum sg_warm_source {
    SG_WARM_ZERO,  /* fresh memory */
    SG_WARM_IMAGE, /* pages of the image, private */
    SG_WARM_FILE,  /* pages of a file that is as it was, private */
    SG_WARM_SOURCE_COUNT
};

struct sg_warm_region {
    uint64_t start, end; /* addresses, whole pages */
    uint64_t offset;     /* in the image or the file */
    uint32_t prot;
    uint32_t source; /* enum sg_warm_source */
    uint32_t file;   /* index */
    uint32_t zero;
};

struct sg_warm_file {
    uint64_t bytes;
    int64_t mtime_s;
    uint32_t mtime_ns;
    uint32_t path; /* offset in the strings */
};

/* What has to be the same. Words of cpuid that programs choose their code by. */
struct sg_warm_machine {
    char release[65], version[65]; /* of the kernel; zeroes behind the text */
    char zero[6];
    uint32_t cpu[10];
    uint64_t xcr0;
};

/* [vvar], [vdso] and their like: code and data of the kernel. */
struct sg_warm_special {
    uint64_t start, bytes;
    uint64_t is_vdso;
};

struct sg_warm_action { /* as rt_sigaction has it */
    uint64_t handler, flags, restorer, mask;
};

struct sg_warm_stack { /* as sigaltstack has it */
    uint64_t sp;
    int32_t flags;
    uint32_t zero;
    uint64_t bytes;
};

/* What setjmp keeps. */
struct sg_warm_registers {
    uint64_t rbx, rbp, r12, r13, r14, r15, rsp, rip;
    uint32_t mxcsr;
    uint16_t x87;
    uint16_t zero;
};

struct sg_warm_head {
    char magic[8];
    uint32_t version;
    uint32_t head_bytes; /* of all metadata, whole pages */
    uint64_t file_bytes;
    uint64_t checksum; /* over the metadata, itself taken as 0 */
    uint32_t region_count, file_count, string_bytes, special_count;
    struct sg_warm_machine machine;
    struct sg_warm_special special[SG_WARM_MAX_SPECIAL];
    struct sg_warm_registers registers;
    uint64_t fs_base, tid, robust, robust_bytes, rseq, rseq_bytes;
    uint64_t handover; /* a struct sg_warm_handover in the frozen process */
    uint64_t signal_mask;
    struct sg_warm_stack alternate;
    struct sg_warm_action actions[SG_WARM_SIGNALS]; /* of signal 1 and on */
};

/* What a new process tells the old one. */
struct sg_warm_handover {
    uint64_t env, env_bytes; /* "A=b", each with its NUL */
};

/* The tables behind a head that was checked. */
static inline const struct sg_warm_region *sg_warm_regions(const struct sg_warm_head *h)
{
    return (const struct sg_warm_region *)(const void *)(h + 1);
}

static inline const struct sg_warm_file *sg_warm_files(const struct sg_warm_head *h)
{
    return (const struct sg_warm_file *)(const void *)(sg_warm_regions(h) + h->region_count);
}

static inline const char *sg_warm_strings(const struct sg_warm_head *h)
{
    return (const char *)(sg_warm_files(h) + h->file_count);
}

uint64_t sg_warm_checksum(const struct sg_warm_head *h);

/* Whether `bytes` at `h` (8-aligned) begin an image of `file_bytes` that can be mapped without
 * looking further: every number in it leads to where it should. NULL, or what is wrong. */
const char *sg_warm_check(const struct sg_warm_head *h, uint64_t bytes, uint64_t file_bytes);

/* This machine. */
void sg_warm_machine_look(struct sg_warm_machine *m);
bool sg_warm_machine_fits(const struct sg_warm_machine *a, const struct sg_warm_machine *b);
