# SPDX-License-Identifier: Apache-2.0
"""`sandglass doctor` on this machine, and on this machine with something taken away."""
import ctypes
import json
import os
import pathlib
import re
import resource
import struct
import time

import pytest
import sg
from service import wait_for

CHECK_KEYS = {"group", "name", "status", "need", "purpose", "detail", "fix"}
STATUSES = {"ok", "degraded", "missing", "info"}
NEEDS = {"needed", "useful", "information"}
NAMES = [
    "kernel", "architecture", "core dumps", "/dev/kvm", "runsc", "user namespaces", "mount namespaces",
    "pid namespaces", "net namespaces", "ipc namespaces", "uts namespaces", "cgroup namespaces",
    "mount API", "tmpfs", "overlayfs", "proc", "devpts", "devices", "clone3", "pidfd", "openat2",
    "close_range", "memfd exec", "seccomp filter", "landlock", "newuidmap", "cgroup layout",
    "memory limit", "swap limit", "cpu limit", "pids limit", "freezer", "favordynmods", "id ranges",
    "idmapped mounts", "state directory", "storage pool", "pool in use", "start commands", "pause to disk",
    "paused memory", "gate",
    "a sandbox", "leftovers",
]
ROOT_ONLY = ["rootless start", "rootless overlayfs", "rootless proc"]


def doctor(runner, *prefix, **kw):
    """The report, and the exit code."""
    done = runner.command(*prefix, sg.BIN, "doctor", "--json", **kw)
    assert done.stderr == ""
    return json.loads(done.stdout), done.returncode


def by_name(report):
    return {check["name"]: check for check in report["checks"]}


# ---- this machine ----

def test_says_that_sandboxes_work_where_they_do(runner):
    report, code = doctor(runner)
    ran = runner.sandglass("run", "--", "true").returncode == 0
    assert (report["works"], code) == (ran, 0 if ran else 1)
    assert by_name(report)["a sandbox"]["detail"].startswith("/bin/true in ")
    assert ran, "the machine of the tests must be able to run sandboxes"


def test_the_shape_of_the_json_is_stable(runner):
    report, _ = doctor(runner)
    assert set(report) == {"works", "verdict", "as_root", "checks"}
    assert report["as_root"] is runner.is_root
    for check in report["checks"]:
        assert set(check) == CHECK_KEYS
        assert check["status"] in STATUSES and check["need"] in NEEDS
        if check["status"] in ("missing", "degraded"):
            assert check["detail"] and check["fix"]
        else:
            assert check["fix"] is None
    names = [check["name"] for check in report["checks"]]
    assert sorted(names) == sorted(NAMES + (ROOT_ONLY if runner.is_root else []))


def test_it_tells_what_becomes_of_the_memory_of_paused_sandboxes(runner):
    found = by_name(doctor(runner)[0])["paused memory"]
    swap = int(re.search(r"SwapTotal: +(\d+) kB", pathlib.Path("/proc/meminfo").read_text())[1]) >> 10
    if not pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
        assert (found["status"], found["detail"]) == ("missing", "kept: cgroup v1 has no memory.reclaim")
    elif found["status"] != "missing":
        assert found["detail"] == (f"reclaimed (swap {swap} MiB)" if swap else "file pages only: no swap")


def test_an_ordinary_user_is_told_what_root_has_more(user):
    report, code = doctor(user)
    checks = by_name(report)
    assert code == 0
    assert report["verdict"].startswith("yes, but: ")
    for name in ("id ranges", "idmapped mounts"):
        assert checks[name]["status"] == "degraded" and name in report["verdict"]
        assert "root" in checks[name]["fix"]


def test_it_tells_how_connections_come_to_the_gate(runner):
    way = "sk_lookup" if runner.is_root else "nft"
    wait_for(lambda: by_name(doctor(runner)[0])["gate"]["detail"] == f"connections come to it by {way}",
             seconds=60, what="an answer in time")  # a row has two seconds, whoever else is busy


def test_doctor_and_run_agree_on_the_limits_of_an_ordinary_user(user):
    checks = by_name(doctor(user)[0])
    unenforced = " ".join(user.run_json("true")["not_enforced"])
    for name in ("memory", "cpu", "pids"):
        assert (checks[f"{name} limit"]["status"] != "ok") == (f"{name}: " in unenforced)


def test_the_text_is_aligned_and_plain_without_a_terminal(runner):
    done = runner.sandglass("doctor")
    lines = done.stdout.splitlines()
    assert "\033" not in done.stdout
    assert [line for line in lines if len(line) > 98 and line.count(" /") == 0] == []
    assert sum(line.startswith("sandboxes work: yes") for line in lines) == 1
    checks = [line for line in lines if line[2:10].strip() in STATUSES and line[:2] == "  "]
    assert len(checks) == len(NAMES) + (len(ROOT_ONLY) if runner.is_root else 0)
    assert {line[10:12] for line in checks} == {"  "}


def test_takes_less_than_a_second_of_work(runner):
    """Of work, not of time: the machine may be busy with other tests."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    runner.sandglass("doctor")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


def test_the_fix_for_limits_without_root_helps(root, user):
    before = by_name(doctor(user)[0])["memory limit"]
    if "cgroup/{memory" not in (before["fix"] or ""):
        pytest.skip("only hosts with cgroup v1 have this fix")
    *as_root, as_user = before["fix"].splitlines()
    try:
        for line in as_root:
            root.command("bash", "-c", line.removeprefix("as root: ")).check_returncode()
        script = f"{as_user.removeprefix('then, in bash: ')} >/dev/null; {sg.BIN} doctor --json"
        checks = by_name(json.loads(user.command("bash", "-c", script).stdout))
        assert {checks[f"{name} limit"]["status"] for name in ("memory", "cpu", "pids")} == {"ok"}
    finally:
        for folder in pathlib.Path("/sys/fs/cgroup").glob(f"*/u{user.uid}"):
            remove_soon(folder)


def remove_soon(folder):
    """The sweeper of the trial may still be inside."""
    deadline = time.monotonic() + 5
    while True:
        try:
            return folder.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


# ---- leftovers ----

def test_removes_cgroups_of_sandboxes_that_are_gone(root):
    folder = pathlib.Path("/sys/fs/cgroup/pids")
    if not folder.is_dir():
        folder = pathlib.Path("/sys/fs/cgroup")
    left = folder / "sandglass-4095"
    left.mkdir()
    report, code = doctor(root)
    assert by_name(report)["leftovers"]["detail"].startswith("removed ")
    assert code == 0 and not left.exists()
    assert by_name(doctor(root)[0])["leftovers"]["detail"] == "none"


def test_platforms_of_gvisor_are_tried_and_the_one_that_is_taken_is_named(root):
    found = by_name(doctor(root, env={"SANDGLASS_GVISOR_RUNTIME": "runsc"})[0])
    rows = [found[f"gvisor {name}"] for name in ("kvm", "systrap", "ptrace")]
    assert all(row["status"] == "ok" or row["detail"] and row["fix"] for row in rows), rows
    best = [row for row in rows if row["status"] == "ok"][0]  # what tests run with has one of them
    assert [row for row in rows if "the service takes it" in (row["detail"] or "")] == [best]
    named = by_name(doctor(root, env={"SANDGLASS_GVISOR_RUNTIME": "runsc", "SANDGLASS_GVISOR_PLATFORM": best["name"][7:]})[0])
    assert named[best["name"]] == best
    assert not any(name.startswith("gvisor") for name in by_name(doctor(root)[0]))  # nothing is tried unasked


# ---- something is missing ----

def test_a_limit_of_no_user_namespaces_is_named_with_the_setting(root):
    script = f"echo 0 > /proc/sys/user/max_user_namespaces; exec {sg.BIN} doctor --json"
    done = root.command("unshare", "--user", "--map-root-user", "sh", "-c", script)
    check = by_name(json.loads(done.stdout))["user namespaces"]
    assert (check["status"], check["fix"]) == ("missing", "sysctl -w user.max_user_namespaces=65536")
    assert done.returncode == 1


# Numbers of x86-64; each call, and the line that must say so.
CALLS = {
    "unshare": (272, "user namespaces"),
    "fsopen": (430, "mount API"),
    "mount_setattr": (442, "mount API"),
    "openat2": (437, "openat2"),
    "close_range": (436, "close_range"),
    "memfd_create": (319, "memfd exec"),
    "seccomp": (317, "seccomp filter"),
}


def without_call(number):
    """For preexec_fn: a filter that answers ENOSYS to one call, and lets all others pass."""
    code = b"".join(struct.pack("=HBBI", *op) for op in (
        (0x20, 0, 0, 0),                     # load the number
        (0x15, 0, 1, number),                # is it this one?
        (0x06, 0, 0, 0x00050000 | 38),       # errno ENOSYS
        (0x06, 0, 0, 0x7fff0000)))           # allow
    libc = ctypes.CDLL(None, use_errno=True)

    def install():
        buffer = ctypes.create_string_buffer(code, len(code))
        program = struct.pack("=HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
        if libc.prctl(38, 1, 0, 0, 0) < 0 or libc.prctl(22, 2, program, 0, 0) < 0:
            raise OSError(ctypes.get_errno(), "prctl")
    return install


@pytest.mark.parametrize("call", CALLS)
def test_without_a_call_that_is_needed_the_answer_is_no_and_the_fix_is_there(runner, call):
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86-64")
    number, name = CALLS[call]
    report, code = doctor(runner, preexec_fn=without_call(number))
    check = by_name(report)[name]
    assert (check["status"], code, report["works"]) == ("missing", 1, False)
    assert check["fix"] and "not implemented" in check["detail"]
    assert report["verdict"].startswith("no: missing ") and name in report["verdict"]


def test_without_landlock_sandboxes_work_and_the_line_says_so(runner):
    report, code = doctor(runner, preexec_fn=without_call(444))
    assert by_name(report)["landlock"]["status"] == "missing"
    assert (report["works"], code) == (True, 0)
    assert report["verdict"].startswith("yes, but: missing landlock")


def test_a_state_directory_that_cannot_be_written_is_named(user):
    report, code = doctor(user, env={"SANDGLASS_STATE_DIR": "/proc/nowhere"})
    checks = by_name(report)
    assert checks["state directory"]["status"] == "missing"
    assert checks["a sandbox"]["detail"] == "not tried"
    assert "/proc" in checks["state directory"]["detail"] and code == 1


def test_the_settings_of_a_named_file_count(user):
    config = user.home / "other.toml"
    config.write_text('state_dir = "/proc/nowhere"\n')
    done = user.sandglass("doctor", "--json", "--config", config)
    assert by_name(json.loads(done.stdout))["state directory"]["status"] == "missing"
    config.write_text(f'state_dir = "{user.home}/kept"\n')
    done = user.sandglass("doctor", "--config", config)
    assert done.returncode == 0 and (user.home / "kept" / "templates").is_dir()


CRIU = """#!/bin/sh
case $1 in
--version) echo 'Version: 9.8.7' ;;
check) echo "$SAYS"; exit $ENDS ;;
esac
"""


@pytest.mark.parametrize("ends, says, told", [
    (0, "Looks good.", ["criu 9.8.7 works", "takes no process of a sandbox"]),
    (1, "Error: no vDSO", ["'criu check' of 9.8.7 fails: Error: no vDSO"])])
def test_a_criu_is_named_with_its_version_and_why_it_is_not_used(root, tmp_path, ends, says, told):
    (tmp_path / "criu").write_text(CRIU)
    (tmp_path / "criu").chmod(0o755)
    report, _ = doctor(root, "unshare", "-m", "sh", "-c",
                       f"mount --bind {tmp_path} /usr/local/sbin; SAYS='{says}' ENDS={ends} exec \"$@\"", "sh")
    line = by_name(report)["pause to disk"]
    assert line["status"] == "missing" and "ends with the machine" in line["detail"]
    assert all(text in line["detail"] for text in told), line
    assert "--drop-memory" in line["fix"]


def test_takes_no_arguments(root):
    done = root.sandglass("doctor", "now")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
