/* SPDX-License-Identifier: Apache-2.0 */
/* Which pages have to be in the image: runs of pages, with short gaps closed, since each region is
 * a mapping that has to be made whenever a process starts. */
#include "warm/scan.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "warm/raw.h"
#include "base/banned.h"

/* Pages that could come from elsewhere, but not for so little. */
enum { SHORT_BYTES = 32 * SG_PAGE };

static bool is_short(const struct sg_warm_region *r)
{
    return r->end - r->start < SHORT_BYTES;
}

static struct sg_warm_region *last_of_map(struct sg_scan *s)
{
    return s->region_count > s->first_of_map ? &s->regions[s->region_count - 1] : NULL;
}

/* A run behind the last one of the same mapping. A short run between two of the image, or before
 * one, becomes part of it. */
static int add(struct sg_scan *s, struct sg_warm_region run)
{
    struct sg_warm_region *last = last_of_map(s);
    if (run.source == SG_WARM_IMAGE && last && last->source != SG_WARM_IMAGE && is_short(last)) {
        run.start = last->start;
        s->region_count--;
        last = last_of_map(s);
    }
    if (last && last->source == run.source && last->end == run.start) {
        last->end = run.end;
        return 0;
    }
    if (s->region_count == SG_WARM_MAX_REGIONS)
        return -1;
    s->regions[s->region_count++] = run;
    return 0;
}

/* A short rest behind a run of the image. */
static void close_map(struct sg_scan *s)
{
    struct sg_warm_region *last = last_of_map(s);
    if (s->region_count < s->first_of_map + 2 || last->source == SG_WARM_IMAGE || !is_short(last) ||
        last[-1].source != SG_WARM_IMAGE)
        return;
    last[-1].end = last->end;
    s->region_count--;
}

uint64_t sg_scan_end(const struct sg_scan *s)
{
    return s->region_count ? s->regions[s->region_count - 1].end : 0;
}

int sg_scan_add_zero(struct sg_scan *s, uint64_t start, uint64_t end, uint32_t prot)
{
    s->first_of_map = s->region_count;
    return add(s, (struct sg_warm_region) { start, end, 0, prot, SG_WARM_ZERO, 0, 0 });
}

static bool is_zero(const void *page)
{
    const uint64_t *words = page;
    uint64_t any = 0;
    for (size_t i = 0; i < SG_PAGE / sizeof *words; i++)
        any |= words[i];
    return any == 0;
}

const char *sg_scan_memory(struct sg_scan *s, const struct sg_map *m)
{
    if (!(m->prot & PROT_READ))
        return sg_scan_add_zero(s, m->start, m->end, m->prot) < 0 ? "too many regions" : NULL;
    s->first_of_map = s->region_count;
    for (uint64_t at = m->start; at < m->end; at += SG_PAGE) {
        uint32_t source = is_zero((const void *)at) ? SG_WARM_ZERO : SG_WARM_IMAGE;
        if (add(s, (struct sg_warm_region) { at, at + SG_PAGE, 0, m->prot, source, 0, 0 }) < 0)
            return "too many regions";
    }
    close_map(s);
    return NULL;
}

/* ---- files ---- */

static bool is_text_equal(const char *a, const char *b)
{
    size_t n = sg_raw_strlen(a);
    return n == sg_raw_strlen(b) && sg_raw_is_equal(a, b, n);
}

/* The index of a file in the table; -1: there is no more room. */
static int find_file(struct sg_scan *s, const char *path, const struct stat *st)
{
    for (uint32_t i = 0; i < s->file_count; i++)
        if (is_text_equal(s->strings + s->files[i].path, path))
            return (int)i;
    size_t bytes = sg_raw_strlen(path) + 1;
    if (s->file_count == SG_WARM_MAX_FILES || bytes > SG_SCAN_STRINGS - s->string_bytes)
        return -1;
    s->files[s->file_count] = (struct sg_warm_file) { .bytes = (uint64_t)st->st_size,
                                                      .mtime_s = st->st_mtim.tv_sec,
                                                      .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
                                                      .path = s->string_bytes };
    sg_raw_copy(s->strings + s->string_bytes, path, bytes);
    s->string_bytes += (uint32_t)bytes;
    return (int)s->file_count++;
}

/* Fills the chunk from the file, zeroes behind its end. */
static bool read_chunk(struct sg_scan *s, int fd, uint64_t offset, uint64_t bytes)
{
    uint64_t have = 0;
    while (have < bytes) {
        long n = sg_raw4(SYS_pread64, fd, (long)(s->chunk + have), (long)(bytes - have),
                         (long)(offset + have));
        if (sg_raw_failed(n))
            return false;
        if (n == 0)
            break;
        have += (uint64_t)n;
    }
    for (; have < bytes; have++)
        s->chunk[have] = 0;
    return true;
}

static const char *compare(struct sg_scan *s, const struct sg_map *m, int fd, uint32_t file)
{
    for (uint64_t at = m->start; at < m->end; at += SG_SCAN_CHUNK) {
        uint64_t bytes = m->end - at < SG_SCAN_CHUNK ? m->end - at : SG_SCAN_CHUNK;
        if (!read_chunk(s, fd, m->offset + (at - m->start), bytes))
            return "cannot be read: ";
        for (uint64_t i = 0; i < bytes; i += SG_PAGE) {
            uint64_t page = at + i, offset = m->offset + (page - m->start);
            bool is_same = sg_raw_is_equal((const void *)page, s->chunk + i, SG_PAGE);
            uint32_t source = is_same ? SG_WARM_FILE : SG_WARM_IMAGE;
            if (add(s, (struct sg_warm_region) { page, page + SG_PAGE, offset, m->prot, source,
                                                 file, 0 }) < 0)
                return "too many regions: ";
        }
    }
    return NULL;
}

static const char *scan_open_file(struct sg_scan *s, const struct sg_map *m, int fd)
{
    struct stat st = { .st_size = 0 };
    if (sg_raw_failed(sg_raw3(SYS_fstat, fd, (long)&st, 0)) || !S_ISREG(st.st_mode))
        return "not a plain file: ";
    uint64_t whole = ((uint64_t)st.st_size + SG_PAGE - 1) / SG_PAGE * SG_PAGE;
    if (m->offset + (m->end - m->start) > whole)
        return "mapped beyond its end: ";
    int file = find_file(s, m->name, &st);
    if (file < 0)
        return "too many files: ";
    s->first_of_map = s->region_count;
    if (m->prot & PROT_READ) {
        const char *wrong = compare(s, m, fd, (uint32_t)file);
        close_map(s);
        return wrong;
    }
    return add(s, (struct sg_warm_region) { m->start, m->end, m->offset, m->prot, SG_WARM_FILE,
                                            (uint32_t)file, 0 }) < 0
               ? "too many regions: "
               : NULL;
}

const char *sg_scan_file(struct sg_scan *s, const struct sg_map *m)
{
    int fd = (int)sg_raw_open(m->name, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return "cannot be opened: ";
    const char *wrong = scan_open_file(s, m, fd);
    sg_raw_close(fd);
    return wrong;
}

/* ---- all of it ---- */

const struct sg_warm_head *sg_scan_finish(struct sg_scan *s)
{
    struct sg_warm_head *h = &s->head;
    uint64_t need = sizeof *h + s->region_count * sizeof s->regions[0] +
                    s->file_count * sizeof s->files[0] + s->string_bytes;
    if (need > SG_WARM_MAX_HEAD)
        return NULL;
    sg_raw_copy(h->magic, SG_WARM_MAGIC, sizeof h->magic);
    h->version = SG_WARM_VERSION;
    h->head_bytes = (uint32_t)((need + SG_PAGE - 1) / SG_PAGE * SG_PAGE);
    h->region_count = s->region_count;
    h->file_count = s->file_count;
    h->string_bytes = s->string_bytes;
    uint64_t at = h->head_bytes;
    for (uint32_t i = 0; i < s->region_count; i++)
        if (s->regions[i].source == SG_WARM_IMAGE) {
            s->regions[i].offset = at;
            s->regions[i].file = 0;
            at += s->regions[i].end - s->regions[i].start;
        }
    h->file_bytes = at;
    struct sg_warm_head *whole = (struct sg_warm_head *)(void *)s->whole;
    sg_raw_copy(whole, h, sizeof *h);
    sg_raw_copy((void *)(uintptr_t)sg_warm_regions(whole), s->regions,
                s->region_count * sizeof s->regions[0]);
    sg_raw_copy((void *)(uintptr_t)sg_warm_files(whole), s->files,
                s->file_count * sizeof s->files[0]);
    sg_raw_copy((void *)(uintptr_t)sg_warm_strings(whole), s->strings, s->string_bytes);
    whole->checksum = sg_warm_checksum(whole);
    return whole;
}
