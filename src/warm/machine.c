/* SPDX-License-Identifier: Apache-2.0 */
/* What a frozen process depends on: the kernel's own code in it (the vdso), and the code that
 * libraries have chosen for this processor. */
#include <cpuid.h>

#include "warm/image.h"
#include "warm/raw.h"
#include "base/banned.h"

struct names { /* as uname has it */
    char system[65], node[65], release[65], version[65], machine[65], domain[65];
};

enum { OSXSAVE = 1 << 27 };

static uint64_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Each of these traps in a virtual machine, so there are only three. */
static void look_at_cpu(struct sg_warm_machine *m)
{
    uint32_t a, b, c, d;
    __cpuid(1, a, b, c, d); /* b: which core this is */
    m->cpu[0] = a;
    m->cpu[1] = c;
    m->cpu[2] = d;
    __cpuid_count(7, 0, a, b, c, d);
    m->cpu[3] = b;
    m->cpu[4] = c;
    m->cpu[5] = d;
    __cpuid(0x80000001, a, b, c, d);
    m->cpu[6] = c;
    m->cpu[7] = d;
    if (m->cpu[1] & OSXSAVE)
        m->xcr0 = read_xcr0();
}

/* A text and zeroes, whatever lay behind it. */
static void take(char to[65], const char from[65])
{
    for (size_t i = 0; i < 64 && from[i]; i++)
        to[i] = from[i];
}

void sg_warm_machine_look(struct sg_warm_machine *m)
{
    *m = (struct sg_warm_machine) { .release = "" };
    struct names names = { .system = "" };
    if (!sg_raw_failed(sg_raw3(SYS_uname, (long)&names, 0, 0))) {
        take(m->release, names.release);
        take(m->version, names.version);
    }
    look_at_cpu(m);
}

bool sg_warm_machine_fits(const struct sg_warm_machine *a, const struct sg_warm_machine *b)
{
    return sg_raw_is_equal(a, b, sizeof *a);
}
