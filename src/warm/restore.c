/* SPDX-License-Identifier: Apache-2.0 */
/* The restorer: becomes the process that a warm image holds.
 *
 *   sandglass-thaw                          the Python kernel of a template
 *   sandglass-thaw IMAGE PROGRAM ARG...     another image, and what to run where it does not fit
 *
 * R1. Every doubt ends in the cold start: exec of PROGRAM, with the same arguments, environment and
 *     descriptors. That works until the last step, because all that exec needs is copied first, and
 *     lies with this program where no region can be.
 * R2. Nothing is believed that is not checked: sg_warm_check() before the first number is used.
 * R3. Whatever is mapped is private: no process changes what another one is made from.
 *
 * The image is trusted like any other file of the template; that a program inside may name another
 * one gives it nothing that it could not do itself. */
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "warm/image.h"
#include "warm/raw.h"
#include "warm/restore.h"
#include "base/banned.h"

#define DEFAULT_IMAGE   "/opt/sandglass/warm/python.img"
#define DEFAULT_PROGRAM "/usr/bin/python3"
#define DEFAULT_SCRIPT  "/opt/sandglass/python/kernel.py"

/* Our own mappings, below this program: its heap is above. */
#define WORDS_AT   SG_WARM_OWN_START
#define META_AT    (SG_WARM_OWN_START + (UINT64_C(1) << 32))
#define SCRATCH_AT (SG_WARM_OWN_START + (UINT64_C(1) << 33))

enum { SET_FS = 0x1002, SIGNAL_BYTES = 8, SIG_SETMASK_ = 2, REMAP_FIXED = 3 };
enum { RSEQ_SIGNATURE = 0x53053053, RSEQ_CPU_ID = 4 };

static struct {
    const char *image;
    char **argv, **env; /* of the cold start; copies */
    uint64_t env_text, env_bytes;
    uint64_t words_start, words_end; /* where the kernel put our arguments and environment */
    uint64_t vdso;
    const struct sg_warm_head *head;
    int image_fd;
    int fds[SG_WARM_MAX_FILES];
} self;

_Noreturn static void start_cold(const char *why)
{
    sg_raw_say("sandglass-thaw: cold start: ");
    sg_raw_say(why);
    sg_raw_say("\n");
    (void)sg_raw3(SYS_execve, (long)self.argv[0], (long)self.argv, (long)self.env);
    sg_raw_say("sandglass-thaw: cannot start '");
    sg_raw_say(self.argv[0]);
    sg_raw_say("'\n");
    for (;;)
        (void)sg_raw3(SYS_exit_group, 127, 0, 0);
}

/* ---- what exec gave us ---- */

static uint64_t words_bytes(char *const *list, size_t *ret_count)
{
    uint64_t bytes = 0;
    for (*ret_count = 0; list[*ret_count]; (*ret_count)++)
        bytes += sg_raw_strlen(list[*ret_count]) + 1;
    return bytes;
}

static char *copy_words(char **to, char *text, char *const *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): it was exec that filled the list */
        size_t bytes = sg_raw_strlen(from[i]) + 1;
        sg_raw_copy(text, from[i], bytes);
        to[i] = text;
        text += bytes;
    }
    to[count] = NULL;
    return text;
}

static bool keep_words(char *const *argv, char *const *env)
{
    size_t args, vars;
    uint64_t bytes = words_bytes(argv, &args);
    bytes += words_bytes(env, &vars);
    uint64_t lists = (args + vars + 2) * sizeof(char *);
    long at = sg_raw_mmap(WORDS_AT, lists + bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (sg_raw_failed(at))
        return false;
    self.argv = (char **)at;
    self.env = self.argv + args + 1;
    char *text = copy_words(self.argv, (char *)at + lists, argv, args);
    self.env_text = (uint64_t)text;
    self.env_bytes = (uint64_t)(copy_words(self.env, text, env, vars) - text);
    return true;
}

/* The stack as exec leaves it: argc, argv, NULL, environment, NULL, auxiliary vector. */
static bool read_start(uint64_t *sp)
{
    static const char *const cold[] = { DEFAULT_PROGRAM, DEFAULT_SCRIPT, NULL };
    uint64_t argc = sp[0];
    char **argv = (char **)(sp + 1), **env = argv + argc + 1;
    size_t vars = 0;
    while (env[vars])
        vars++;
    const Elf64_auxv_t *aux = (const Elf64_auxv_t *)(const void *)(env + vars + 1);
    for (; aux->a_type != AT_NULL; aux++)
        if (aux->a_type == AT_SYSINFO_EHDR)
            self.vdso = aux->a_un.a_val;
    if (argc) {
        const char *last = vars ? env[vars - 1] : argv[argc - 1];
        self.words_start = (uint64_t)argv[0] & -(uint64_t)SG_PAGE;
        self.words_end = ((uint64_t)last + sg_raw_strlen(last) + SG_PAGE) & -(uint64_t)SG_PAGE;
    }
    self.image = argc > 2 ? argv[1] : DEFAULT_IMAGE;
    return keep_words(argc > 2 ? argv + 2 : (char *const *)(uintptr_t)cold, env);
}

/* ---- the image, and whether it fits ---- */

static void open_image(void)
{
    struct stat st = { .st_size = 0 };
    self.image_fd = (int)sg_raw_open(self.image, O_RDONLY | O_CLOEXEC, 0);
    if (self.image_fd < 0)
        start_cold("no image");
    if (sg_raw_failed(sg_raw3(SYS_fstat, self.image_fd, (long)&st, 0)) || !S_ISREG(st.st_mode))
        start_cold("not an image");
    /* Whole pages of the file: what is cut behind the metadata is found by its size. */
    uint64_t file_bytes = (uint64_t)st.st_size;
    uint64_t bytes = file_bytes < SG_WARM_MAX_HEAD ? file_bytes : SG_WARM_MAX_HEAD;
    if (bytes < sizeof(struct sg_warm_head))
        start_cold("not an image");
    long at =
        sg_raw_mmap(META_AT, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, self.image_fd, 0);
    if (sg_raw_failed(at))
        start_cold("the image cannot be mapped");
    self.head = (const struct sg_warm_head *)at;
    const char *wrong = sg_warm_check(self.head, bytes, file_bytes);
    if (wrong)
        start_cold(wrong);
    struct sg_warm_machine here;
    sg_warm_machine_look(&here);
    if (!sg_warm_machine_fits(&here, &self.head->machine))
        start_cold("another kernel or processor");
}

static void open_files(void)
{
    for (uint32_t i = 0; i < self.head->file_count; i++) {
        const struct sg_warm_file *f = &sg_warm_files(self.head)[i];
        struct stat st = { .st_size = 0 };
        int fd = (int)sg_raw_open(sg_warm_strings(self.head) + f->path, O_RDONLY | O_CLOEXEC, 0);
        if (fd < 0 || sg_raw_failed(sg_raw3(SYS_fstat, fd, (long)&st, 0)))
            start_cold("a library is gone");
        if ((uint64_t)st.st_size != f->bytes || st.st_mtim.tv_sec != f->mtime_s ||
            (uint64_t)st.st_mtim.tv_nsec != f->mtime_ns)
            start_cold("a library has changed");
        self.fds[i] = fd;
    }
}

/* ---- the address space ---- */

/* Where the kernel's own mappings are now, relative to where they were. */
static uint64_t special_distance(void)
{
    for (uint32_t i = 0; i < self.head->special_count; i++)
        if (self.head->special[i].is_vdso)
            return self.vdso - self.head->special[i].start;
    if (self.vdso || self.head->special_count)
        start_cold("another vdso");
    return 0;
}

static bool is_free(uint64_t start, uint64_t end)
{
    const struct sg_warm_head *h = self.head;
    for (uint32_t i = 0; i < h->region_count; i++)
        if (sg_warm_regions(h)[i].start < end && sg_warm_regions(h)[i].end > start)
            return false;
    for (uint32_t i = 0; i < h->special_count; i++)
        if (h->special[i].start < end && h->special[i].start + h->special[i].bytes > start)
            return false;
    return true;
}

struct range {
    uint64_t start, end;
};

/* Everything goes but ourselves, the vdso, and the words by which others know this process
 * (/proc/PID/cmdline), unless something else has to be there. */
static void clear(uint64_t distance)
{
    const struct sg_warm_head *h = self.head;
    struct range keep[3] = { { SG_WARM_OWN_START, SG_WARM_OWN_END } };
    size_t count = 1;
    if (h->special_count) {
        const struct sg_warm_special *last = &h->special[h->special_count - 1];
        keep[count++] =
            (struct range) { h->special[0].start + distance, last->start + last->bytes + distance };
    }
    if (self.words_start && is_free(self.words_start, self.words_end))
        keep[count++] = (struct range) { self.words_start, self.words_end };
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && keep[j - 1].start > keep[j].start; j--) {
            struct range lower = keep[j];
            keep[j] = keep[j - 1];
            keep[j - 1] = lower;
        }
    uint64_t at = 0;
    for (size_t i = 0; i <= count; i++) {
        uint64_t end = i < count ? keep[i].start : SG_WARM_TOP;
        if (end > at && sg_raw_failed(sg_raw_munmap(at, end - at)))
            start_cold("memory cannot be unmapped");
        at = i < count ? keep[i].end : end;
    }
}

static void move_special(const struct sg_warm_special *s, uint64_t from, uint64_t to)
{
    if (from != to && sg_raw_failed(sg_raw6(SYS_mremap, (long)from, (long)s->bytes, (long)s->bytes,
                                            REMAP_FIXED, (long)to, 0)))
        start_cold("the vdso cannot be moved");
}

/* By way of a place of ours: where they are and where they were may overlap. */
static void move_specials(uint64_t distance)
{
    const struct sg_warm_head *h = self.head;
    if (distance == 0)
        return;
    for (uint32_t i = 0; i < h->special_count; i++)
        move_special(&h->special[i], h->special[i].start + distance,
                     SCRATCH_AT + (h->special[i].start - h->special[0].start));
    for (uint32_t i = 0; i < h->special_count; i++)
        move_special(&h->special[i], SCRATCH_AT + (h->special[i].start - h->special[0].start),
                     h->special[i].start);
}

static void map_regions(void)
{
    static const int flags[SG_WARM_SOURCE_COUNT] = {
        [SG_WARM_ZERO] = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE,
        [SG_WARM_IMAGE] = MAP_PRIVATE | MAP_FIXED,
        [SG_WARM_FILE] = MAP_PRIVATE | MAP_FIXED,
    };
    const struct sg_warm_head *h = self.head;
    for (uint32_t i = 0; i < h->region_count; i++) {
        const struct sg_warm_region *r = &sg_warm_regions(h)[i];
        int fd = r->source == SG_WARM_ZERO    ? -1
                 : r->source == SG_WARM_IMAGE ? self.image_fd
                                              : self.fds[r->file];
        if (sg_raw_failed(sg_raw_mmap(r->start, r->end - r->start, (int)r->prot, flags[r->source],
                                      fd, r->source == SG_WARM_ZERO ? 0 : r->offset)))
            start_cold("a region cannot be mapped");
    }
    for (uint32_t i = 0; i < h->file_count; i++)
        sg_raw_close(self.fds[i]);
    sg_raw_close(self.image_fd);
}

/* ---- the thread ---- */

static void restore_signals(void)
{
    const struct sg_warm_head *h = self.head;
    for (int i = 0; i < SG_WARM_SIGNALS; i++)
        if (h->actions[i].handler)
            (void)sg_raw4(SYS_rt_sigaction, i + 1, (long)&h->actions[i], 0, SIGNAL_BYTES);
    (void)sg_raw3(SYS_sigaltstack, (long)&h->alternate, 0, 0);
    (void)sg_raw4(SYS_rt_sigprocmask, SIG_SETMASK_, (long)&h->signal_mask, 0, SIGNAL_BYTES);
}

static void restore_thread(void)
{
    const struct sg_warm_head *h = self.head;
    if (sg_raw_failed(sg_raw3(SYS_arch_prctl, SET_FS, (long)h->fs_base, 0)))
        start_cold("the thread pointer cannot be set");
    *(uint32_t *)h->tid = (uint32_t)sg_raw3(SYS_set_tid_address, (long)h->tid, 0, 0);
    if (h->robust)
        (void)sg_raw3(SYS_set_robust_list, (long)h->robust, (long)h->robust_bytes, 0);
    if (h->rseq &&
        sg_raw_failed(sg_raw4(SYS_rseq, (long)h->rseq, (long)h->rseq_bytes, 0, RSEQ_SIGNATURE)))
        *(int32_t *)(h->rseq + RSEQ_CPU_ID) = -1; /* not registered: the library asks the kernel */
    *(struct sg_warm_handover *)h->handover =
        (struct sg_warm_handover) { .env = self.env_text, .env_bytes = self.env_bytes };
}

void sg_restore_main(uint64_t *sp)
{
    if (!read_start(sp)) {
        sg_raw_say("sandglass-thaw: no memory\n");
        (void)sg_raw3(SYS_exit_group, 127, 0, 0);
    }
    open_image();
    open_files();
    uint64_t distance = special_distance();
    clear(distance);
    move_specials(distance);
    map_regions();
    restore_thread();
    static struct sg_warm_registers registers;
    registers = self.head->registers;
    restore_signals();
    (void)sg_raw_munmap(META_AT, SG_WARM_MAX_HEAD);
    sg_restore_jump(&registers);
}
