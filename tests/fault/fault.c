/* SPDX-License-Identifier: Apache-2.0 */
/* Also runs in processes that share their parent's memory (engine/plan.h): no libc in here. */
#include "fault.h"

#include <linux/futex.h>

#include "hook.h"
#undef SG_RAW_HOOK
#include "sys/raw.h"
#include "base/banned.h"

struct fault *fault;

static void copy(char *ret, unsigned cap, const char *text)
{
    unsigned n = 0;
    while (text && text[n] && n + 1 < cap) {
        ret[n] = text[n];
        n++;
    }
    ret[n] = '\0';
}

static void halt(void)
{
    while (!__atomic_load_n(&fault->is_released, __ATOMIC_ACQUIRE))
        (void)sg_raw(SYS_futex, &fault->is_released, FUTEX_WAIT, 0, 0);
}

int fault_call(const char *name, long nr, long arg, const char *detail)
{
    if (!fault || !__atomic_load_n(&fault->is_armed, __ATOMIC_ACQUIRE) ||
        __atomic_add_fetch(&fault->count, 1, __ATOMIC_ACQ_REL) != fault->stop_at)
        return 0;
    fault->nr = nr;
    fault->arg = arg;
    fault->was_ending = __atomic_load_n(&fault->is_ending, __ATOMIC_ACQUIRE);
    copy(fault->name, sizeof fault->name, name);
    copy(fault->detail, sizeof fault->detail, detail);
    __atomic_store_n(&fault->is_hit, 1, __ATOMIC_RELEASE);
    if (fault->mode == FAULT_FAIL)
        return fault->sys;
    halt();
    return 0;
}

void fault_release(void)
{
    __atomic_store_n(&fault->is_released, 1, __ATOMIC_RELEASE);
    (void)sg_raw(SYS_futex, &fault->is_released, FUTEX_WAKE, 64);
}

/* Calls that the kernel does not refuse to a correct caller, so that an error would prove nothing:
 * what ends or closes. A wait may end early, but how often it is called is a matter of luck, and
 * the count must not be. */
static bool cannot_fail(long nr, long flags)
{
    switch (nr) {
    case SYS_close:
    case SYS_exit_group:
    case SYS_futex:
    case SYS_getppid:
    case SYS_nanosleep:
    case SYS_pidfd_send_signal:
    case SYS_rmdir: /* of the sweeper, which tries again and again */
        return true;
    case SYS_close_range:
        return flags == 0;
    default:
        return false;
    }
}

/* What a descriptor is, for the report. */
static const char *name_of(long fd, char *room, long cap)
{
    char path[] = "/proc/self/fd/??????";
    unsigned n = sizeof "/proc/self/fd/" - 1;
    for (long unit = 10000; unit > 0; unit /= 10)
        if (fd >= unit || unit == 1)
            path[n++] = (char)('0' + fd / unit % 10);
    path[n] = '\0';
    const long got = sg_raw(SYS_readlink, path, room, cap - 1);
    room[got > 0 ? got : 0] = '\0';
    return room;
}

long fault_raw(long nr, long a, long b, long c)
{
    char room[72];
    const char *detail = 0;
    if (cannot_fail(nr, c))
        return 0;
    if (nr == SYS_openat)
        detail = (const char *)(uintptr_t)b;
    else if (nr == SYS_write)
        detail = name_of(a, room, sizeof room);
    return -fault_call("raw", nr, a, detail);
}
