/* SPDX-License-Identifier: Apache-2.0 */
/* System calls and the few functions of a C library that the freezer and the restorer need.
 *
 * Neither has a C library: the freezer is a guest in a process whose memory it writes down, so it
 * must not change any of it; the restorer throws its own address space away. A call returns what
 * the kernel returned: -errno for a failure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

enum { SG_PAGE = 4096 };

static inline long sg_raw6(long nr, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long ret;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}

static inline long sg_raw4(long nr, long a, long b, long c, long d)
{
    return sg_raw6(nr, a, b, c, d, 0, 0);
}

static inline long sg_raw3(long nr, long a, long b, long c)
{
    return sg_raw6(nr, a, b, c, 0, 0, 0);
}

static inline bool sg_raw_failed(long ret)
{
    return (unsigned long)ret > -4096UL;
}

static inline long sg_raw_mmap(uint64_t addr, uint64_t bytes, int prot, int flags, int fd,
                               uint64_t offset)
{
    return sg_raw6(SYS_mmap, (long)addr, (long)bytes, prot, flags, fd, (long)offset);
}

static inline long sg_raw_munmap(uint64_t addr, uint64_t bytes)
{
    return sg_raw3(SYS_munmap, (long)addr, (long)bytes, 0);
}

static inline long sg_raw_open(const char *path, int flags, int mode)
{
    return sg_raw4(SYS_openat, -100 /* AT_FDCWD */, (long)path, flags, mode);
}

static inline void sg_raw_close(int fd)
{
    (void)sg_raw3(SYS_close, fd, 0, 0);
}

static inline size_t sg_raw_strlen(const char *s)
{
    size_t n = 0;
    while (s[n])
        n++;
    return n;
}

static inline bool sg_raw_is_equal(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            return false;
    return true;
}

static inline void sg_raw_copy(void *to, const void *from, size_t n)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    for (size_t i = 0; i < n; i++)
        t[i] = f[i];
}

static inline void sg_raw_say(const char *text)
{
    (void)sg_raw3(SYS_write, 2, (long)text, (long)sg_raw_strlen(text));
}
