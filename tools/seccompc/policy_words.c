/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a policy file: architectures, actions, errno names, kernel constants.
 *
 * Constants come from this machine's headers. The two architectures that we know share all of
 * those below, so a program made here for the other one is right too. */
#include "seccompc/policy.h"

#include <errno.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/btrfs.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/rtc.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/parse.h"

#include "base/banned.h"

struct word {
    const char *name;
    uint64_t value;
};

#define WORD(x)                                                                                    \
    {                                                                                              \
#x, (uint64_t)(x)                                                                          \
    }
#define PTRACE_WORD(x)                                                                             \
    {                                                                                              \
        "PTRACE_" #x, (uint64_t)PTRACE_##x                                                         \
    }
#define SOCK_TYPE_MASK_ 0xf /* the kernel's own SOCK_TYPE_MASK is in no header */

static const struct word constants[] = {
    WORD(ADDR_NO_RANDOMIZE),
    WORD(AF_INET),
    WORD(AF_INET6),
    WORD(AF_NETLINK),
    WORD(AF_UNIX),
    WORD(BTRFS_IOC_SNAP_CREATE),
    WORD(BTRFS_IOC_SNAP_CREATE_V2),
    WORD(BTRFS_IOC_SNAP_DESTROY),
    WORD(BTRFS_IOC_SNAP_DESTROY_V2),
    WORD(BTRFS_IOC_SUBVOL_CREATE),
    WORD(BTRFS_IOC_SUBVOL_CREATE_V2),
    WORD(CLONE_NEWCGROUP),
    WORD(CLONE_NEWIPC),
    WORD(CLONE_NEWNET),
    WORD(CLONE_NEWNS),
    WORD(CLONE_NEWPID),
    WORD(CLONE_NEWTIME),
    WORD(CLONE_NEWUSER),
    WORD(CLONE_NEWUTS),
    WORD(CLONE_THREAD),
    WORD(CLONE_VM),
    WORD(FIONBIO),
    WORD(FIONREAD),
    WORD(IPPROTO_ICMP),
    WORD(IPPROTO_ICMPV6),
    WORD(IPPROTO_IP),
    WORD(IPPROTO_TCP),
    WORD(IPPROTO_UDP),
    WORD(NETLINK_ROUTE),
    WORD(PER_LINUX),
    WORD(PER_LINUX32),
    WORD(PROT_EXEC),
    WORD(PR_SCHED_CORE),
    WORD(PR_SET_MM),
    WORD(PR_SET_NAME),
    WORD(PR_SET_TIMERSLACK),
    PTRACE_WORD(ATTACH),
    PTRACE_WORD(SEIZE),
    WORD(RTC_SET_TIME),
    WORD(SCHED_BATCH),
    WORD(SCHED_IDLE),
    { "SCHED_OTHER", SCHED_NORMAL },
    WORD(SCHED_RESET_ON_FORK),
    WORD(SIOCBRADDBR),
    WORD(SIOCBRDELBR),
    WORD(SIOCGIFBR),
    WORD(SIOCGIFVLAN),
    WORD(SIOCSIFBR),
    WORD(SIOCSIFVLAN),
    WORD(SOCK_DGRAM),
    WORD(SOCK_STREAM),
    { "SOCK_TYPE_MASK", SOCK_TYPE_MASK_ },
    WORD(S_IFIFO),
    WORD(S_IFMT),
    WORD(S_IFREG),
    WORD(S_IFSOCK),
    WORD(TCGETS),
    WORD(TIOCLINUX),
    WORD(TIOCSETD),
    WORD(TIOCSTI),
    WORD(UNAME26),
};

static const struct word arches[] = {
    { "x86_64", AUDIT_ARCH_X86_64 },
    { "aarch64", AUDIT_ARCH_AARCH64 },
};

static const struct word *find_word(const struct word *words, size_t count, struct sg_str name)
{
    for (size_t i = 0; i < count; i++)
        if (sg_str_is(name, words[i].name))
            return &words[i];
    return NULL;
}

int sg_policy_arch_find(const char *name, uint32_t *ret_arch, struct sg_err *err)
{
    const struct word *word = find_word(arches, SG_COUNT(arches), sg_str_of(name));
    if (!word)
        return sg_fail(err, SG_UNSUPPORTED, "no seccomp policy for architecture %s",
                       sg_quote(name).s);
    *ret_arch = (uint32_t)word->value;
    return 0;
}

static int errno_of_name(const char *name)
{
    enum { LAST_ERRNO = 133 }; /* EHWPOISON */
    for (int i = 1; i <= LAST_ERRNO; i++) {
        const char *known = strerrorname_np(i);
        if (known && strcmp(known, name) == 0)
            return i;
    }
    return 0;
}

int sg_policy_action_parse(const char *text, uint32_t *ret_action, struct sg_err *err)
{
    static const struct word plain[] = {
        { "allow", SECCOMP_RET_ALLOW },
        { "kill", SECCOMP_RET_KILL_PROCESS },
    };
    static const char prefix[] = "errno ";
    const struct word *word = find_word(plain, SG_COUNT(plain), sg_str_of(text));
    int code = sg_starts_with(text, prefix) ? errno_of_name(text + sizeof prefix - 1) : 0;
    if (!word && !code)
        return sg_fail(err, SG_INVALID, "%s is not 'allow', 'kill' or 'errno NAME'",
                       sg_quote(text).s);
    *ret_action = word ? (uint32_t)word->value : SECCOMP_RET_ERRNO | (uint32_t)code;
    return 0;
}

static bool parse_hex(struct sg_str s, uint64_t *ret)
{
    static const char digits[] = "0123456789abcdef";
    if (s.n < 3 || s.n > 2 + 16 || memcmp(s.p, "0x", 2) != 0)
        return false;
    uint64_t v = 0;
    for (size_t i = 2; i < s.n; i++) {
        const char *digit = s.p[i] ? strchr(digits, s.p[i]) : NULL;
        if (!digit)
            return false;
        v = v << 4 | (uint64_t)(digit - digits);
    }
    *ret = v;
    return true;
}

static int parse_term(struct sg_str term, uint64_t *ret, struct sg_err *err)
{
    const struct word *word = find_word(constants, SG_COUNT(constants), term);
    if (word)
        return *ret = word->value, 0;
    if (parse_hex(term, ret) || sg_parse_u64(term, 0, UINT64_MAX, ret, NULL) == 0)
        return 0;
    return sg_fail(err, SG_INVALID, "%s is neither a number nor a constant that seccompc knows",
                   sg_quote_str(term).s);
}

int sg_policy_value_parse(const char *text, uint64_t *ret_value, struct sg_err *err)
{
    uint64_t all = 0;
    for (const char *p = text;;) {
        uint64_t v;
        size_t n = strcspn(p, "|");
        if (parse_term((struct sg_str) { p, n }, &v, err) < 0)
            return -1;
        all |= v;
        if (!p[n])
            break;
        p += n + 1;
    }
    *ret_value = all;
    return 0;
}
