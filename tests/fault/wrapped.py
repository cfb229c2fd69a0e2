#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every function of libc which the engine calls is either wrapped by this suite, or
known never to enter the kernel in a way that could fail.

    wrapped.py WRAPPED,NAMES LIBRARY...
"""
import subprocess
import sys

# Pure computation, the compiler's own, or formatting.
HARMLESS = """
    _GLOBAL_OFFSET_TABLE_ __assert_fail __errno_location __stack_chk_fail __udivti3 abort
    getenv memchr memcmp memcpy memmove memset snprintf strcmp strchr strcspn strerror strlen
    strncasecmp strncmp strrchr strspn strstr vasprintf vsnprintf dirfd readdir64
"""
# Release and questions about oneself: the kernel does not refuse them. Waits are left alone because
# the number of their calls is a matter of luck.
NEVER_REFUSED = """
    clock_gettime close closedir free getegid geteuid getpid getrandom getrlimit64 kill munmap nanosleep
    sched_getcpu sigfillset sigprocmask umask waitpid
"""
# Whose failure nobody needs to know of: a line in the cell's own /etc/hosts.
UNHEARD = "dprintf ftruncate64 lseek64 pread64"
# Parts of the libraries that no cell is made of: doctor tries calls in order to see them fail.
# Kept cells are asked for what may be refused at any time (tests/unit/test_kept.c); the pool is the launcher's.
# The gate's sockets are made for cells that run already (test_service_gate*.py). Connections are made by clients; a cell
# around another runtime is the tier's, which tries it first (test_service_tiers.py). Memory is taken of cells that stand
# still (tests/unit/test_reclaim.c).
ELSEWHERE = ("probe", "kept", "cgroup_kept", "btrfs", "loopdev", "dial", "lead_", "nested", "netsock", "reclaim", "runtime")


def undefined(library):
    out = subprocess.run(["nm", "-u", library], check=True, capture_output=True, text=True)
    member, names = "", set()
    for line in out.stdout.split("\n"):
        if line.endswith(":"):
            member = line.split("/")[-1]
        elif line and not member.startswith(ELSEWHERE):
            names.add(line.split()[-1])
    return names


def main():
    wrapped = set(sys.argv[1].split(","))
    known = wrapped | set(HARMLESS.split()) | set(NEVER_REFUSED.split()) | set(UNHEARD.split())
    used = set().union(*(undefined(library) for library in sys.argv[2:]))
    missing = sorted(n for n in used - known if not n.startswith(("sg_", "__asan", "__ubsan")))
    for name in missing:
        print(f"{name}: called by the engine, but neither wrapped in tests/fault nor listed here")
    print("1..1")
    print(f"{'not ok' if missing else 'ok'} 1 - every_kernel_function_of_the_engine_is_wrapped")
    sys.exit(1 if missing else 0)


main()
