# SPDX-License-Identifier: Apache-2.0
"""An ordinary user to whom a part of the cgroup tree was delegated, as a service manager does it:
the directory and its control files are the user's, the user's processes are in a leaf of it."""
import contextlib
import os
import pathlib
import time

import pytest

CGROUPS = pathlib.Path("/sys/fs/cgroup")
TREE = CGROUPS / "delegated"
CONTROLLERS = "+memory +cpu +pids"


def remove(folder):
    """The sweeper of the last cell may still be on its way out."""
    deadline = time.monotonic() + 5
    while True:
        try:
            return folder.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


@contextlib.contextmanager
def delegated(user, leaf):
    """An option for subprocess: start in the leaf ("" is the delegated directory itself)."""
    (CGROUPS / "cgroup.subtree_control").write_text(CONTROLLERS)
    home = TREE / leaf
    home.mkdir(parents=True)
    folders = [home, TREE] if leaf else [TREE]
    for folder in folders:
        for path in (folder, folder / "cgroup.procs", folder / "cgroup.subtree_control"):
            os.chown(path, user.uid, user.uid)
    try:
        yield {"preexec_fn": lambda: (home / "cgroup.procs").write_text(str(os.getpid()))}
    finally:
        for folder in folders:
            remove(folder)


@pytest.fixture
def in_leaf(user):
    with delegated(user, "shell") as where:
        yield where


def not_enforced(result):
    """The limits that the result says are not there; not the disk's, which is memory anywhere."""
    return {line.split(":")[0] for line in result["not_enforced"]} - {"disk"}


def test_a_delegated_user_has_all_limits_but_ids(user, in_leaf):
    result = user.run_json("true", **in_leaf)
    assert result["exit_code"] == 0 and not_enforced(result) == {"ids"}
    assert result["memory_peak_bytes"] > 0
    assert [path.name for path in TREE.iterdir() if path.is_dir()] == ["shell"]


def test_memory_of_a_delegated_user_ends_at_its_limit(user, in_leaf):
    result = user.run_json("python3", "-c", "x = bytearray(200 << 20)",
                           options=["--memory", "64m"], **in_leaf)
    assert (result["exit_code"], result["limit"]) == (137, "memory")


def test_processes_of_a_delegated_user_end_at_their_limit(user, in_leaf):
    result = user.run_json("sh", "-c", "for i in $(seq 40); do sleep 30 & done; wait",
                           options=["--pids", "16", "--timeout", "20s"], **in_leaf)
    assert result["pids_refused"] >= 1


def test_a_delegated_user_has_half_a_cpu_when_it_asks_for_half(user, in_leaf):
    result = user.run_json("timeout", "4", "sh", "-c", "while :; do :; done",
                           options=["--cpus", "0.5"], **in_leaf)
    assert 0.3 < result["cpu_ms"] / result["wall_ms"] < 0.65, result


def test_a_user_outside_of_any_leaf_is_told_what_is_not_enforced(user):
    with delegated(user, "") as where:
        result = user.run_json("true", **where)
    assert result["exit_code"] == 0 and not_enforced(result) == {"memory", "cpu", "pids", "ids"}


def test_a_user_without_delegation_is_told_what_is_not_enforced(user):
    result = user.run_json("true")
    assert result["exit_code"] == 0 and not_enforced(result) == {"memory", "cpu", "pids", "ids"}
