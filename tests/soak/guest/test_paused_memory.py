# SPDX-License-Identifier: Apache-2.0
"""The memory of paused sandboxes, which the kernel is asked to take (memory.reclaim): with swap all of
it goes, without only what was read from files. Nobody waits for that, and nothing is lost by it."""
import contextlib
import fcntl
import json
import os
import pathlib
import socket
import struct
import subprocess
import tempfile
import time

import leaks
import pytest
from service import Box, Service, wait_for

pytestmark = pytest.mark.timeout(1200)
CGROUPS = pathlib.Path("/sys/fs/cgroup")
DISK = "/dev/nvme2n1"
MIB = 1 << 20
LIMIT = 400 * MIB  # no other sandbox has that
LIMITS = {"limits": {"memoryBytes": LIMIT}, "timeoutMs": 0}
PATIENT = 400  # seconds, on a machine that is emulated
FILL_MIB = 160
# Fills memory with numbers that differ from page to page; later says what it finds in it.
HOLDER = f"""
import os, struct, time, zlib
numbers = bytearray(os.urandom({MIB}) * {FILL_MIB})
for at in range(0, len(numbers), 4096):
    struct.pack_into("Q", numbers, at, at)
def write(name):
    open(name + ".new", "w").write(str(zlib.crc32(numbers)))
    os.rename(name + ".new", name)
write("before")
while not os.path.exists("go"):
    time.sleep(0.1)
write("after")
while True:
    time.sleep(1)
"""


def lo_up():
    """Nobody has done it: the machine has no service manager."""
    SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
    with socket.socket() as sock:
        row = fcntl.ioctl(sock, SIOCGIFFLAGS, struct.pack("16sh14x", b"lo", 0))
        flags = struct.unpack("16sh14x", row)[1] | IFF_UP
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))


@pytest.fixture(scope="module")
def service():
    lo_up()
    with (tempfile.TemporaryDirectory(dir="/var/tmp") as folder,  # this kernel shifts no ids on tmpfs
          Service(pool=1, settings={"pause_memory": "50ms"}, folder=folder) as running):
        running.operator.timeout = PATIENT
        yield running


@contextlib.contextmanager
def swap_on():
    subprocess.run(["mkswap", DISK], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["swapon", DISK], check=True)
    try:
        yield
    finally:
        subprocess.run(["swapoff", DISK], check=True)


@pytest.fixture
def swap():
    with swap_on():
        yield


@pytest.fixture
def box(service):
    made = Box(service.operator, LIMITS)
    yield made
    service.operator.delete(made.path)


def cgroup_of(box):
    """By its limit: it is the only one of that."""
    for folder in CGROUPS.glob("sandglass-*"):
        if (folder / "memory.max").read_text().strip() == str(LIMIT) and (folder / "cgroup.procs").read_text():
            return folder
    raise AssertionError("no cgroup of the sandbox")


def number(folder, name):
    return int((folder / name).read_text())


def helpers():
    return [pid for pid, row in leaks.process_table().items() if row[2].startswith("sandglass-recl") and row[1] != "Z"]


def hold_memory(box):
    box.write("/workspace/hold.py", HOLDER.encode())
    box.spawn("cd /workspace && exec python3 hold.py")
    wait_for(lambda: box.sh("test -e /workspace/before || ! sleep 1")["exitCode"] == 0, PATIENT, "memory that is full")
    return box.read("/workspace/before")


def memory_is_whole(box, before):
    box.sh("touch /workspace/go")
    wait_for(lambda: box.sh("test -e /workspace/after || ! sleep 1")["exitCode"] == 0, PATIENT, "an answer of the holder")
    assert box.read("/workspace/after") == before


def pause(box):
    assert box.client.post(f"{box.path}/pause", expect=200)["paused"] == "memory"


def resume(box):
    began = time.monotonic()
    box.client.post(f"{box.path}/resume", expect=200)
    return time.monotonic() - began


def metric(service, name):
    text = service.operator.get("/metrics", expect=200).decode()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))


def doctor(service):
    done = service.runner.sandglass("doctor", "--json")
    return next(c for c in json.loads(done.stdout)["checks"] if c["name"] == "paused memory")


def settled(box):
    """How much went in this pause, when that is over."""
    return wait_for(lambda: not helpers() and box.get()["reclaimedBytes"], PATIENT, "memory that goes")


def test_without_swap_it_is_said_that_only_pages_of_files_go(service):
    assert doctor(service)["detail"] == "file pages only: no swap"
    assert service.operator.get("/v1/storage", expect=200)["pausedMemory"] == {"is": "files", "swapBytes": 0, "why": "no swap"}


def test_without_swap_what_was_read_from_files_goes(service, box):
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")  # or it is counted for whoever read it first
    assert box.sh("find /usr/lib -type f -size +200k | head -n 20 | xargs cat | wc -c")["exitCode"] == 0
    group = cgroup_of(box)
    before = number(group, "memory.current")
    pause(box)
    gone = settled(box)
    assert gone > 4 * MIB and number(group, "memory.current") <= before - gone // 2
    resume(box)
    assert box.sh("cat /usr/lib/os-release | wc -c")["exitCode"] == 0


def test_with_swap_all_memory_goes_and_comes_back_as_it_was(service, swap, box):
    assert doctor(service)["detail"] == "reclaimed (swap 511 MiB)"
    assert service.operator.get("/v1/storage", expect=200)["pausedMemory"]["is"] == "reclaimed"
    before = hold_memory(box)
    group = cgroup_of(box)
    assert number(group, "memory.current") > FILL_MIB * MIB and number(group, "memory.swap.max") == 0
    counted = metric(service, "sandglass_reclaimed_bytes_total")
    pause(box)
    gone = settled(box)
    assert gone > FILL_MIB * MIB * 8 // 10
    assert number(group, "memory.current") < FILL_MIB * MIB // 4
    assert number(group, "memory.swap.current") > FILL_MIB * MIB // 2
    assert metric(service, "sandglass_reclaimed_bytes_total") >= counted + gone
    stats = service.operator.get(f"{box.path}/stats", expect=200)
    assert stats["memoryBytes"] < FILL_MIB * MIB // 4  # and so are its GiB-seconds
    resume(box)
    assert number(group, "memory.swap.max") == 0  # one that runs has what it has, and no more
    memory_is_whole(box, before)
    assert box.get()["state"] == "running" and "reclaimedBytes" not in box.get()
    assert service.operator.get(f"{box.path}/stats", expect=200)["oomKills"] == 0


def reclaiming(box):
    """Paused, and its memory on its way."""
    before = hold_memory(box)
    pause(box)
    return before, wait_for(helpers, PATIENT, "a helper")[0]


def test_a_resume_waits_for_no_reclaim(service, swap, box, capsys):
    group = cgroup_of(box)
    pause(box)
    plain = resume(box)  # before anything has begun
    before, helper = reclaiming(box)
    took = resume(box)
    out = number(group, "memory.swap.current") >> 20
    with capsys.disabled():
        print(f"# resumed with a reclaim under way within {took * 1000:.1f} ms, {out} MiB were out; without one {plain * 1000:.1f} ms", flush=True)
    assert box.state() == "running" and number(group, "memory.swap.max") == 0
    wait_for(lambda: helper not in helpers(), PATIENT, "the helper's end")
    memory_is_whole(box, before)
    pause(box)  # and again, to the end
    settled(box)
    resume(box)
    assert box.sh("echo on")["exitCode"] == 0


def test_a_sandbox_is_destroyed_while_its_memory_goes(service, swap, box):
    group = cgroup_of(box)
    _, helper = reclaiming(box)
    service.operator.delete(box.path, expect=204)
    wait_for(lambda: not group.exists() or not (group / "cgroup.procs").read_text(), PATIENT, "its end")
    wait_for(lambda: helper not in helpers(), PATIENT, "the helper's end")


def test_a_helper_that_is_killed_changes_nothing(service, swap, box):
    before, helper = reclaiming(box)
    with contextlib.suppress(ProcessLookupError):
        os.kill(helper, 9)
    wait_for(lambda: helper not in helpers(), PATIENT, "the helper's end")
    assert box.state() == "paused"
    resume(box)
    memory_is_whole(box, before)


def test_a_launcher_that_is_killed_takes_its_helper_along(service, swap, box):
    group = cgroup_of(box)
    before, helper = reclaiming(box)
    service.kill9_launcher()
    service.wait_ready(PATIENT)
    wait_for(lambda: helper not in helpers(), PATIENT, "the helper's end")
    wait_for(lambda: not helpers() and number(group, "memory.current") < FILL_MIB * MIB // 4, PATIENT,
             "the next one, which goes on with it")
    resume(box)
    assert number(group, "memory.swap.max") == 0
    memory_is_whole(box, before)
