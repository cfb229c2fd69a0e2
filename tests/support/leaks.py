# SPDX-License-Identifier: Apache-2.0
"""What a sandbox could leave behind, as a set of lines: take one before, one after, and compare.

Processes are found by descent. `adopt_orphans()` makes this process the parent of every orphan
below it, so that whatever a test started and abandoned is still a descendant and can be named;
processes of other people on the machine are never looked at.
"""
import contextlib
import ctypes
import fcntl
import os
import pathlib
import re
import shutil
import struct
import tempfile
import time

PR_SET_CHILD_SUBREAPER = 36
CGROUPS = pathlib.Path("/sys/fs/cgroup")
CGROUP_DEPTH = 5
SLOTS = pathlib.Path("/run/sandglass/slots")
F_OFD_GETLK = 36  # fcntl(2); not in this Python's module
# The common parent of all cells may stay: it holds no process.
PERMITTED_CGROUPS = {"sandglass"}
# The lock file of the slots stays, for root and for each ordinary user; the rest is of unit tests
# that somebody runs beside us.
PERMITTED_FILES = re.compile(r"/run/sandglass/slots|/tmp/sandglass-\d+"
                             r"|/tmp/sandglass-(keep|place|rig|state|tars|unpack)-.*")
# Mounts that come and go by themselves on a machine that also runs containers.
OTHERS_MOUNTS = ("/docker", "/containerd", "/run/user/")
# Processes whose descendants come and go between tests: a service that many tests share. It is
# looked at as a whole when it ends.
spared = set()


def adopt_orphans():
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def process_table():
    """pid: (parent, state, name) of every process."""
    table = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", errors="replace") as file:
                text = file.read()
        except OSError:
            continue  # gone meanwhile
        name, rest = text[text.index("(") + 1:].rsplit(")", 1)
        state, parent = rest.split()[:2]
        table[int(entry)] = (int(parent), state, name)
    return table


def descendants(table=None):
    table = table or process_table()
    found, queue = [], [os.getpid()]
    while queue:
        parent = queue.pop()
        children = [pid for pid, row in table.items() if row[0] == parent and pid not in spared]
        found += children
        queue += children
    return [(pid, *table[pid]) for pid in found]


def reap(spare):
    """Collects adopted zombies; `spare` are the children that somebody else waits for."""
    for pid, parent, state, _ in descendants():
        if state == "Z" and parent == os.getpid() and pid not in spare:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def processes(table):
    for pid, _, state, name in descendants(table):
        yield f"process {pid} ({name}) in state {state}"


@contextlib.contextmanager
def mount_folder():
    """A folder for mounts of a test's own, which tests that somebody runs beside us do not take for theirs."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"sg-mounts-{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def is_others_folder(table, path):
    """In such a folder of a living process that is none of ours?"""
    found = re.search(r"/sg-mounts-(\d+)-", path)
    return found and int(found[1]) in table and int(found[1]) not in family(table)


def mounts(table):
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if not any(word in line for word in OTHERS_MOUNTS) and not is_others_folder(table, fields[4]):
            yield f"mount {fields[4]} (id {fields[0]}, {' '.join(fields[fields.index('-') + 1:])})"


def is_owned(name):
    """Does somebody hold the slot that a cgroup is named after? Then it is a cell of somebody else
    on this machine, or of a process of ours, which is listed itself."""
    slot = name.removeprefix("sandglass-")
    if not slot.isdigit() or not SLOTS.exists():
        return False
    with open(SLOTS, "rb") as file:
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, int(slot), 1, 0)
        found = fcntl.fcntl(file, F_OFD_GETLK, lock)
    return struct.unpack("hhqqi4x", found)[0] != fcntl.F_UNLCK


def cgroups():
    for folder, names, _ in os.walk(CGROUPS):
        if len(pathlib.Path(folder).relative_to(CGROUPS).parts) >= CGROUP_DEPTH:
            names.clear()
        for name in names:
            if (name.startswith("sandglass") and name not in PERMITTED_CGROUPS
                    and not is_owned(name)):
                yield f"cgroup {folder}/{name}"


def net_namespaces(table):
    """Held by a live process that descends from us."""
    own = os.stat("/proc/self/ns/net").st_ino
    for pid, *_ in descendants(table):
        try:
            inode = os.stat(f"/proc/{pid}/ns/net").st_ino
        except OSError:
            continue
        if inode != own:
            yield f"network namespace {inode}"


def pinned_namespaces():
    """Held by a descriptor of ours."""
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if target.startswith(("net:[", "mnt:[", "user:[", "pid:[")):
            yield f"descriptor {fd} on {target}"


POOL = "/state/pool/image"  # below the folder of a service


def family(table):
    """All who descend from us."""
    found = {os.getpid()}
    while more := {pid for pid, row in table.items() if row[0] in found} - found:
        found |= more
    return found


def is_others_pool(table, image):
    """The storage pool of a living service that somebody else runs beside us?"""
    if not image.endswith(POOL):
        return False
    config, own = f"SANDGLASS_CONFIG={image.removesuffix(POOL)}/".encode(), family(table)
    for pid, row in table.items():
        if row[2] == "sandglass-launc" and pid not in own:
            try:
                if config in pathlib.Path(f"/proc/{pid}/environ").read_bytes():
                    return True
            except OSError:
                continue
    return False


def loop_devices(table=None):
    table = table or process_table()
    found = []
    for path in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            image = path.read_text().strip()
        except OSError:
            continue
        if not is_others_pool(table, image) and not is_others_folder(table, image):
            # by its file: a launcher that was started anew may have got another device
            found.append(image)
            yield f"loop device {found.count(image)} on {image}"


def half_made_files(state_dirs):
    for folder, pattern in [("/run/sandglass", "*"), ("/tmp", "sandglass*"),
                            ("/dev/shm", "sandglass*"), ("/var/tmp", "sandglass*")]:
        yield from (f"file {path}" for path in pathlib.Path(folder).glob(pattern)
                    if not PERMITTED_FILES.fullmatch(str(path)))
    for folder in state_dirs:
        yield from (f"file {path}" for path in pathlib.Path(folder).glob("templates/.new-*"))


def identity(line):
    """A process is the same one in another state: a fixture's may run or sleep."""
    return line.partition(" in state ")[0]


class Leaks:
    """A snapshot, and the question what is there now that was not there then."""

    def __init__(self, state_dirs=("/var/lib/sandglass",)):
        self.state_dirs = state_dirs
        self.before = {identity(line) for line in self.look()}

    def look(self):
        table = process_table()
        sources = (processes(table), mounts(table), cgroups(), net_namespaces(table), pinned_namespaces(),
                   loop_devices(table), half_made_files(self.state_dirs))
        return {line for source in sources for line in source}

    def left(self, seconds=5.0, spare=()):
        """What is still left after waiting for teardown that runs behind, at most so long."""
        deadline = time.monotonic() + seconds
        while True:
            reap(spare)
            found = sorted(line for line in self.look() if identity(line) not in self.before)
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.02)
