/* SPDX-License-Identifier: Apache-2.0 */
#include "warm/image.h"

#include "warm/raw.h"
#include "base/banned.h"

enum { PROT_ALL = 7, PROT_WRITES = 2, PROT_EXECUTES = 4 };

_Static_assert(sizeof(struct sg_warm_head) % 8 == 0, "regions follow");
_Static_assert(offsetof(struct sg_warm_head, checksum) % 8 == 0, "checksum is words of 8 bytes");

uint64_t sg_warm_checksum(const struct sg_warm_head *h)
{
    const uint64_t *words = (const uint64_t *)(const void *)h;
    uint64_t sum = UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < h->head_bytes / sizeof *words; i++) {
        uint64_t word = i == offsetof(struct sg_warm_head, checksum) / sizeof *words ? 0 : words[i];
        sum = (sum ^ word) * UINT64_C(0x100000001b3);
        sum ^= sum >> 29;
    }
    return sum;
}

static bool is_page(uint64_t n)
{
    return n % SG_PAGE == 0;
}

static const char *check_sizes(const struct sg_warm_head *h, uint64_t bytes, uint64_t file_bytes)
{
    if (bytes < sizeof *h || !sg_raw_is_equal(h->magic, SG_WARM_MAGIC, sizeof h->magic))
        return "not an image";
    if (h->version != SG_WARM_VERSION)
        return "another version";
    if (h->head_bytes < sizeof *h || h->head_bytes > SG_WARM_MAX_HEAD || h->head_bytes > bytes ||
        !is_page(h->head_bytes))
        return "bad size of the metadata";
    if (h->file_bytes != file_bytes || file_bytes < h->head_bytes)
        return "cut";
    if (h->checksum != sg_warm_checksum(h))
        return "damaged";
    if (h->region_count == 0 || h->region_count > SG_WARM_MAX_REGIONS ||
        h->file_count > SG_WARM_MAX_FILES || h->special_count > SG_WARM_MAX_SPECIAL ||
        h->string_bytes > SG_WARM_MAX_HEAD)
        return "bad counts";
    uint64_t need = sizeof *h + (uint64_t)h->region_count * sizeof(struct sg_warm_region) +
                    (uint64_t)h->file_count * sizeof(struct sg_warm_file) + h->string_bytes;
    return need > h->head_bytes ? "tables beyond the metadata" : NULL;
}

static const char *check_files(const struct sg_warm_head *h)
{
    const char *strings = sg_warm_strings(h);
    if (h->file_count && (h->string_bytes == 0 || strings[h->string_bytes - 1] != '\0'))
        return "paths without end";
    for (uint32_t i = 0; i < h->file_count; i++) {
        const struct sg_warm_file *f = &sg_warm_files(h)[i];
        if (f->path >= h->string_bytes || strings[f->path] != '/')
            return "bad path";
    }
    return NULL;
}

static bool is_own(uint64_t start, uint64_t end)
{
    return start < SG_WARM_OWN_END && end > SG_WARM_OWN_START;
}

static const char *check_region(const struct sg_warm_head *h, const struct sg_warm_region *r,
                                uint64_t after)
{
    if (!is_page(r->start) || !is_page(r->end) || r->start >= r->end || r->start < after ||
        r->start < SG_PAGE || r->end > SG_WARM_TOP || is_own(r->start, r->end))
        return "bad region";
    if ((r->prot & ~(uint32_t)PROT_ALL) != 0 || r->source >= SG_WARM_SOURCE_COUNT)
        return "bad kind of region";
    uint64_t bytes = r->end - r->start, end;
    if (!is_page(r->offset) || __builtin_add_overflow(r->offset, bytes, &end))
        return "bad offset";
    if (r->source == SG_WARM_IMAGE && (r->offset < h->head_bytes || end > h->file_bytes))
        return "pages beyond the image";
    if (r->source != SG_WARM_FILE)
        return NULL;
    /* What begins behind the end of a file cannot be touched; what ends there can, to the page. */
    if (r->file >= h->file_count || r->offset >= sg_warm_files(h)[r->file].bytes)
        return "pages beyond a file";
    return NULL;
}

static const struct sg_warm_region *find(const struct sg_warm_head *h, uint64_t address)
{
    for (uint32_t i = 0; i < h->region_count; i++) {
        const struct sg_warm_region *r = &sg_warm_regions(h)[i];
        if (address >= r->start && address < r->end)
            return r;
    }
    return NULL;
}

/* Whether what is to be written there is memory that can be. */
static bool is_writable(const struct sg_warm_head *h, uint64_t address, uint64_t bytes)
{
    const struct sg_warm_region *r = find(h, address);
    return r && (r->prot & PROT_WRITES) && r->end - address >= bytes;
}

static const char *check_pointers(const struct sg_warm_head *h)
{
    const struct sg_warm_region *code = find(h, h->registers.rip);
    if (!code || !(code->prot & PROT_EXECUTES))
        return "nowhere to go on";
    /* Below the first byte, too: that is what the stack is for. */
    if (h->registers.rsp < 256 || !is_writable(h, h->registers.rsp - 256, 256 + 8))
        return "no stack";
    if (!is_writable(h, h->tid, sizeof(uint32_t)) || h->tid % sizeof(uint32_t) != 0 ||
        !is_writable(h, h->fs_base, 64) ||
        !is_writable(h, h->handover, sizeof(struct sg_warm_handover)) || h->handover % 8 != 0)
        return "no thread";
    if (h->rseq && (!is_writable(h, h->rseq, h->rseq_bytes) || h->rseq_bytes < 32))
        return "no rseq";
    return NULL;
}

static const char *check_special(const struct sg_warm_head *h)
{
    for (uint32_t i = 0; i < h->special_count; i++) {
        const struct sg_warm_special *s = &h->special[i];
        uint64_t end;
        if (!is_page(s->start) || !is_page(s->bytes) || s->bytes == 0 || s->start < SG_PAGE ||
            __builtin_add_overflow(s->start, s->bytes, &end) || end > SG_WARM_TOP ||
            is_own(s->start, end))
            return "bad vdso";
        for (uint32_t j = 0; j < h->region_count; j++) {
            const struct sg_warm_region *r = &sg_warm_regions(h)[j];
            if (r->start < end && r->end > s->start)
                return "vdso in a region";
        }
        if (i > 0 && s->start < h->special[i - 1].start + h->special[i - 1].bytes)
            return "vdso out of order";
    }
    return NULL;
}

const char *sg_warm_check(const struct sg_warm_head *h, uint64_t bytes, uint64_t file_bytes)
{
    const char *wrong = check_sizes(h, bytes, file_bytes);
    if (!wrong)
        wrong = check_files(h);
    uint64_t after = 0;
    for (uint32_t i = 0; !wrong && i < h->region_count; i++) {
        const struct sg_warm_region *r = &sg_warm_regions(h)[i];
        wrong = check_region(h, r, after);
        after = r->end;
    }
    if (!wrong)
        wrong = check_special(h);
    return wrong ? wrong : check_pointers(h);
}
