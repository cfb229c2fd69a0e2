/* SPDX-License-Identifier: Apache-2.0 */
/* System calls without the C library: no errno, no locks, no thread-local storage.
 *
 * A child that shares its parent's memory until it execs (see engine/plan.h) may use nothing else:
 * a libc wrapper would write the parent's errno. Results are the kernel's own: >= 0, or -errno. */
#pragma once

#include <linux/sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#ifndef __x86_64__
#error "sys/raw.h knows x86-64 only; a port adds its system call instruction here"
#endif

static inline long sg_raw6(long nr, long a, long b, long c, long d, long e, long f)
{
#ifdef SG_RAW_HOOK /* tests/fault makes the Nth call fail */
    SG_RAW_HOOK(nr, a, b, c);
#endif
    long ret;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}

/* Pointers and integers alike, up to six. */
#define SG_RAW_ARG_(x) ((long)(x))
#define SG_RAW_N_(nr, a, b, c, d, e, f, ...)                                                       \
    sg_raw6(nr, SG_RAW_ARG_(a), SG_RAW_ARG_(b), SG_RAW_ARG_(c), SG_RAW_ARG_(d), SG_RAW_ARG_(e),    \
            SG_RAW_ARG_(f))
#define sg_raw(...) SG_RAW_N_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

_Noreturn static inline void sg_raw_exit(int code)
{
    for (;;)
        (void)sg_raw(SYS_exit_group, code);
}

/* clone3 for a child on its own stack (args->stack, args->stack_size) that runs fn(arg) and never
 * returns. In the parent: the pid, or -errno. */
static inline long sg_raw_clone3(struct clone_args *args, void (*fn)(void *), void *arg)
{
#ifdef SG_RAW_HOOK
    SG_RAW_HOOK(SYS_clone3, 0, 0, 0);
#endif
    long ret;
    register void (*r12)(void *) __asm__("r12") = fn;
    register void *r13 __asm__("r13") = arg;
    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xorl %%ebp, %%ebp\n\t" /* the end of the call chain, for debuggers */
                     "movq %%r13, %%rdi\n\t"
                     "callq *%%r12\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(ret)
                     : "a"(SYS_clone3), "D"(args), "S"(sizeof *args), "r"(r12), "r"(r13)
                     : "rcx", "r11", "memory");
    return ret;
}
