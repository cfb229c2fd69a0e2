/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the kernel, in the order in which people read them. A row that fails the same way as
 * an earlier one is no harm: the first is where to begin. */
#include <sched.h>

#include "base/auto.h"
#include "sys/probe_internal.h"
#include "base/banned.h"

/* In a container the usual reason is its filter; elsewhere it is the age of the kernel. */
#define NEWER(version)                                                                             \
    "boot Linux " version " or newer; in a container:\ndocker run --security-opt "                 \
    "seccomp=unconfined"
#define MORE(kind) "sysctl -w user.max_" kind "_namespaces=65536"

#define MUST   SG_NEED_MUST
#define USEFUL SG_NEED_USEFUL
#define KNOW   SG_NEED_KNOW
#define NEVER  SG_NEED_NOTHING

/* clang-format off */
const struct sg_probe sg_kernel_probes[] = {
    /* group, name, purpose, for root, for a user, as an ordinary user, value, probe, fix */
    { "Host", "kernel", "", KNOW, KNOW, false, 0, sg_probe_release, NULL },
    { "Host", "architecture", "the machine this build is for", MUST, MUST, false, 0,
      sg_probe_machine, "build Sandglass on and for x86_64" },
    { "Host", "core dumps", "always off inside", KNOW, KNOW, false, 0,
      sg_probe_core_pattern, NULL },
    { "Host", "/dev/kvm", "for stronger walls to come", KNOW, KNOW, false, 0, sg_probe_kvm,
      NULL },
    { "Host", "runsc", "tier gvisor, with gvisor.runtime = \"runsc\"", KNOW, KNOW, false, 0,
      sg_probe_runsc, NULL },

    { "Namespaces", "user namespaces", "root inside is nobody outside", MUST, MUST, false, 0,
      sg_probe_userns, NULL },
    { "Namespaces", "mount namespaces", "own view of files", MUST, MUST, false, CLONE_NEWNS,
      sg_probe_namespace, MORE("mnt") },
    { "Namespaces", "pid namespaces", "own processes, all ended with the first", MUST, MUST, false,
      CLONE_NEWPID, sg_probe_namespace, MORE("pid") },
    { "Namespaces", "net namespaces", "no network but a loopback of its own", MUST, MUST, false,
      CLONE_NEWNET, sg_probe_namespace, MORE("net") },
    { "Namespaces", "ipc namespaces", "own shared memory and queues", MUST, MUST, false,
      CLONE_NEWIPC, sg_probe_namespace, MORE("ipc") },
    { "Namespaces", "uts namespaces", "own host name", MUST, MUST, false, CLONE_NEWUTS,
      sg_probe_namespace, MORE("uts") },
    { "Namespaces", "cgroup namespaces", "own limits are the top of the tree", MUST, MUST, false,
      CLONE_NEWCGROUP, sg_probe_namespace, MORE("cgroup") },

    { "Files", "mount API", "mounts by descriptor: fsopen, open_tree, mount_setattr", MUST, MUST,
      false, 0, sg_probe_mount_api, NEWER("5.12") },
    { "Files", "tmpfs", "writable layer, its size is the disk limit", MUST, MUST, false, 0,
      sg_probe_tmpfs, "boot a kernel with CONFIG_TMPFS" },
    { "Files", "overlayfs", "templates are shared, changes are private", MUST, MUST, false, 0,
      sg_probe_overlay, "modprobe overlay (as an ordinary user, Linux 5.11 or newer as well)" },
    { "Files", "proc", "own /proc, which shows own processes only", MUST, MUST, false, 0,
      sg_probe_proc,
      "in a container: docker run --security-opt systempaths=unconfined" },
    { "Files", "devpts", "own terminals", MUST, MUST, false, 0, sg_probe_devpts,
      "boot a kernel with CONFIG_UNIX98_PTYS" },
    { "Files", "devices", "/dev/null and its like, nothing else", MUST, MUST, false, 0,
      sg_probe_devices, "in a container: docker run --cap-add MKNOD" },

    { "System calls", "clone3", "born in its namespaces and its cgroup", MUST, MUST, false, 0,
      sg_probe_clone3, NEWER("5.7") },
    { "System calls", "pidfd", "processes without reused numbers", MUST, MUST, false, 0,
      sg_probe_pidfd, NEWER("5.3") },
    { "System calls", "openat2", "no path leads out, whatever links say", MUST, MUST, false, 0,
      sg_probe_openat2, NEWER("5.6") },
    { "System calls", "close_range", "no descriptor of ours gets in", MUST, MUST, false, 0,
      sg_probe_close_range, NEWER("5.11") },
    { "System calls", "memfd exec", "pid 1 inside comes from memory, not from a file", MUST, MUST,
      false, 0, sg_probe_memfd, "sysctl -w vm.memfd_noexec=1" },
    { "System calls", "seccomp filter", "a short list of system calls inside", MUST, MUST, false, 0,
      sg_probe_seccomp, "boot a kernel with CONFIG_SECCOMP_FILTER" },
    { "System calls", "landlock", "who unpacks an archive sees nothing else", USEFUL, USEFUL, false,
      0, sg_probe_landlock,
      "boot with lsm=landlock,... (the rest as in /sys/kernel/security/lsm)" },

    { "Ordinary users", "rootless start", "'sandglass run' without root", USEFUL, NEVER, true, 0,
      sg_probe_userns, NULL },
    { "Ordinary users", "rootless overlayfs", "their writable layer", USEFUL, NEVER, true, 0,
      sg_probe_overlay, "boot Linux 5.11 or newer" },
    { "Ordinary users", "rootless proc", "their /proc", USEFUL, NEVER, true, 0, sg_probe_proc,
      "in a container: docker run --security-opt systempaths=unconfined" },
    { "Ordinary users", "newuidmap", "more than one id for them; not used yet", KNOW, KNOW, false,
      0, sg_probe_newuidmap, NULL },
};
/* clang-format on */

const size_t sg_kernel_probe_count = SG_COUNT(sg_kernel_probes);
