/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in processes that share their parent's memory: raw system calls only. */
#include "engine/net.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <sys/socket.h>
#include <time.h>

#include "sys/raw.h"
#include "base/banned.h"

enum { PATIENCE_S = 10 };

static long loopback_up(void)
{
    long fd = sg_raw(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    struct ifreq r = { .ifr_name = "lo" };
    r.ifr_flags = IFF_UP | IFF_RUNNING;
    long ret = sg_raw(SYS_ioctl, fd, SIOCSIFFLAGS, &r);
    (void)sg_raw(SYS_close, fd);
    return ret;
}

/* Any port is for anybody: there is nobody else in it. A kernel without the setting is fine, root
 * inside may bind low ports all the same. */
void sg_net_open_ports_raw(int dir_fd, const char *path)
{
    long fd = sg_raw(SYS_openat, dir_fd, path, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sg_raw(SYS_write, fd, "0", 1);
    (void)sg_raw(SYS_close, fd);
}

long sg_net_make_raw(void)
{
    long ret = sg_raw(SYS_unshare, CLONE_NEWNET);
    return ret < 0 ? ret : loopback_up();
}

void sg_net_announce_raw(uint32_t *word, long made)
{
    const uint32_t state = made < 0 ? SG_NET_FAILED + (uint32_t)-made : SG_NET_READY;
    __atomic_store_n(word, state, __ATOMIC_RELEASE);
    (void)sg_raw(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

long sg_net_await_raw(uint32_t *word)
{
    const struct timespec patience = { .tv_sec = PATIENCE_S };
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == SG_NET_PENDING)
        if (sg_raw(SYS_futex, word, FUTEX_WAIT_PRIVATE, SG_NET_PENDING, &patience, 0, 0) == -110)
            return -110; /* ETIMEDOUT */
    const uint32_t state = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    return state == SG_NET_READY ? 0 : -(long)(state - SG_NET_FAILED);
}
