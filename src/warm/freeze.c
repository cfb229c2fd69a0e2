/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded into the process that is to be frozen. It changes none of that process's memory but its
 * own scratch mapping, which stays out of the image, until all is written.
 *
 * F1. One thread, no shared memory that somebody could write: or there is no image.
 * F2. A page that is the same in its file is mapped from there; all others are in the image. So a
 *     relocated library is right, whatever wrote to it.
 * F3. The stack below the caller's frame is written as it is while we run; nobody goes back there.
 */
#include "warm/freeze.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "warm/image.h"
#include "warm/maps.h"
#include "warm/raw.h"
#include "warm/scan.h"
#include "base/banned.h"

enum {
    GET_FS = 0x1003,      /* arch_prctl */
    GET_TID_ADDRESS = 40, /* prctl */
    SIGNAL_BYTES = 8,     /* of a set of signals */
    TASK_LINKS = 2,       /* of /proc/self/task, without threads */
    MAX_STACK = 8 << 20,  /* what the main thread may grow to */
    STACK_GAP = 1 << 20,  /* to what lies below it */
    TEXT_BYTES = 128,
};

int sg_warm_save(struct sg_warm_registers *r) __attribute__((returns_twice, visibility("hidden")));

static struct sg_warm_handover handover;
static char why[TEXT_BYTES];

__attribute__((visibility("default"))) const char *sg_freeze_why(void)
{
    return why;
}

__attribute__((visibility("default"))) const char *sg_freeze_env(uint64_t *ret_bytes)
{
    *ret_bytes = handover.env_bytes;
    return (const char *)handover.env;
}

static int fail(const char *what, const char *which)
{
    size_t n = 0;
    for (const char *part = what; *part && n < sizeof why - 1; part++)
        why[n++] = *part;
    for (const char *part = which; *part && n < sizeof why - 1; part++)
        why[n++] = *part;
    why[n] = '\0';
    return -22; /* EINVAL */
}

/* ---- what the kernel knows about us ---- */

static int look_at_thread(struct sg_warm_head *h, const struct sg_freeze_libc *libc)
{
    struct stat st = { .st_nlink = 0 };
    if (sg_raw_failed(sg_raw3(SYS_stat, (long)"/proc/self/task", (long)&st, 0)) ||
        st.st_nlink != TASK_LINKS + 1)
        return fail("there is more than one thread", "");
    if (sg_raw_failed(sg_raw3(SYS_arch_prctl, GET_FS, (long)&h->fs_base, 0)) ||
        sg_raw_failed(sg_raw3(SYS_prctl, GET_TID_ADDRESS, (long)&h->tid, 0)) || h->tid == 0)
        return fail("the thread's own addresses cannot be asked for", "");
    long robust = sg_raw3(SYS_get_robust_list, 0, (long)&h->robust, (long)&h->robust_bytes);
    if (sg_raw_failed(robust))
        h->robust = h->robust_bytes = 0;
    h->rseq = libc->rseq;
    h->rseq_bytes = libc->rseq_bytes;
    h->handover = (uint64_t)&handover;
    return 0;
}

static int look_at_signals(struct sg_warm_head *h)
{
    for (int i = 0; i < SG_WARM_SIGNALS; i++)
        if (sg_raw_failed(sg_raw4(SYS_rt_sigaction, i + 1, 0, (long)&h->actions[i], SIGNAL_BYTES)))
            return fail("the actions of signals cannot be asked for", "");
    if (sg_raw_failed(sg_raw4(SYS_rt_sigprocmask, 0, 0, (long)&h->signal_mask, SIGNAL_BYTES)) ||
        sg_raw_failed(sg_raw3(SYS_sigaltstack, 0, (long)&h->alternate, 0)))
        return fail("the signal mask cannot be asked for", "");
    h->alternate.zero = 0;
    return 0;
}

/* ---- the address space ---- */

static bool starts_with(const char *text, const char *prefix)
{
    return sg_raw_is_equal(text, prefix, sg_raw_strlen(prefix));
}

static bool is_deleted(const char *name)
{
    static const char mark[] = " (deleted)";
    size_t n = sg_raw_strlen(name);
    return n >= sizeof mark - 1 &&
           sg_raw_is_equal(name + n - (sizeof mark - 1), mark, sizeof mark - 1);
}

static int add_special(struct sg_warm_head *h, const struct sg_map *m)
{
    if (h->special_count == SG_WARM_MAX_SPECIAL)
        return fail("too many mappings of the kernel's own", "");
    h->special[h->special_count++] = (struct sg_warm_special) {
        .start = m->start, .bytes = m->end - m->start, .is_vdso = starts_with(m->name, "[vdso]")
    };
    return 0;
}

/* A mapping from the image cannot grow downwards as stacks do, so that much is mapped at once. */
static int add_stack(struct sg_scan *s, const struct sg_map *m)
{
    uint64_t low = m->end - MAX_STACK, after = sg_scan_end(s) + STACK_GAP;
    if (low < after)
        low = after;
    if (low < m->start && sg_scan_add_zero(s, low, m->start, m->prot) < 0)
        return fail("too many regions", "");
    return 0;
}

static int add_map(struct sg_scan *s, struct sg_warm_head *h, const struct sg_map *m)
{
    if (m->start >= m->end || starts_with(m->name, "[vsyscall]"))
        return 0;
    if (starts_with(m->name, "[vvar") || starts_with(m->name, "[vdso"))
        return add_special(h, m);
    /* What nobody may touch is only there to keep its place: gaps in libraries are such. */
    bool has_file = m->name[0] == '/' && !is_deleted(m->name) && m->prot != PROT_NONE;
    if (m->is_shared && m->prot != PROT_NONE && ((m->prot & PROT_WRITE) || !has_file))
        return fail("memory is shared: ", m->name);
    if (starts_with(m->name, "[stack]") && add_stack(s, m) < 0)
        return -1;
    const char *wrong = has_file ? sg_scan_file(s, m) : sg_scan_memory(s, m);
    return wrong ? fail(wrong, m->name) : 0;
}

/* The scratch memory stays out; the kernel shows it as one with what is beside it. */
static int add_around_scratch(struct sg_scan *s, struct sg_warm_head *h, const struct sg_map *m)
{
    uint64_t start = (uint64_t)s, end = start + sizeof *s;
    if (m->start >= end || m->end <= start)
        return add_map(s, h, m);
    struct sg_map below = *m, above = *m;
    below.end = start;
    above.start = end;
    return add_map(s, h, &below) < 0 || add_map(s, h, &above) < 0 ? -1 : 0;
}

static int look_at_memory(struct sg_scan *s, struct sg_warm_head *h)
{
    struct sg_maps *maps = &s->maps;
    if (!sg_maps_open(maps))
        return fail("/proc/self/maps cannot be read", "");
    struct sg_map m;
    int got;
    while ((got = sg_maps_next(maps, &m)) > 0)
        if (add_around_scratch(s, h, &m) < 0)
            break;
    sg_maps_close(maps);
    return got == 0 ? 0 : got < 0 ? fail("/proc/self/maps has an odd line", "") : -1;
}

/* ---- the file ---- */

static int write_all(int fd, const void *from, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        long n = sg_raw3(SYS_write, fd, (long)from + (long)done, (long)(bytes - done));
        if (sg_raw_failed(n) || n == 0)
            return fail("the image cannot be written", "");
        done += (uint64_t)n;
    }
    return 0;
}

static int write_image(int fd, const struct sg_warm_head *h)
{
    if (write_all(fd, h, h->head_bytes) < 0)
        return -1;
    for (uint32_t i = 0; i < h->region_count; i++) {
        const struct sg_warm_region *r = &sg_warm_regions(h)[i];
        if (r->source == SG_WARM_IMAGE &&
            write_all(fd, (const void *)r->start, r->end - r->start) < 0)
            return -1;
    }
    return sg_raw_failed(sg_raw3(SYS_fsync, fd, 0, 0)) ? fail("the image cannot be synced", "") : 0;
}

static int write_found(int fd, struct sg_scan *s)
{
    const struct sg_warm_head *h = sg_scan_finish(s);
    if (!h)
        return fail("too much metadata", "");
    const char *wrong = sg_warm_check(h, h->head_bytes, h->file_bytes);
    return wrong ? fail("the image would be refused: ", wrong) : write_image(fd, h);
}

static int write_down(struct sg_scan *s, const char *path, const struct sg_freeze_libc *libc)
{
    struct sg_warm_head *h = &s->head;
    if (look_at_thread(h, libc) < 0 || look_at_signals(h) < 0)
        return -1;
    sg_warm_machine_look(&h->machine);
    int fd = (int)sg_raw_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
    if (fd < 0)
        return fail("cannot be made: ", path);
    int done = look_at_memory(s, h) < 0 ? -1 : write_found(fd, s);
    sg_raw_close(fd);
    return done;
}

/* Apart from sg_freeze(), whose frame two processes go on from. */
__attribute__((noinline)) static int freeze_now(struct sg_scan *s, const char *path,
                                                const struct sg_freeze_libc *libc)
{
    uint64_t *current_break = (uint64_t *)libc->current_break;
    uint64_t before = current_break ? *current_break : 0;
    if (current_break)
        *current_break = 0;
    int done = write_down(s, path, libc);
    if (current_break)
        *current_break = before;
    (void)sg_raw_munmap((uint64_t)s, sizeof *s);
    return done < 0 ? -22 : 0;
}

__attribute__((visibility("default"))) int sg_freeze(const char *path,
                                                     const struct sg_freeze_libc *libc)
{
    why[0] = '\0';
    long at = sg_raw_mmap(0, sizeof(struct sg_scan), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sg_raw_failed(at))
        return (int)at;
    struct sg_scan *s = (struct sg_scan *)at;
    if (sg_warm_save(&s->head.registers))
        return 1; /* another process, another time; there is no `s` */
    return freeze_now(s, path, libc);
}
