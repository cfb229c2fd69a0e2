# SPDX-License-Identifier: Apache-2.0
"""The leak check itself: it sees each kind of thing that it promises to see, and waits for the rest."""
import os
import pathlib
import signal
import subprocess

import leaks
import pytest

SOON = 0.2


def test_a_quiet_test_leaves_nothing():
    watch = leaks.Leaks()
    subprocess.run(["true"], check=True)
    assert watch.left(SOON) == []


def test_an_abandoned_process_is_seen_and_named():
    watch = leaks.Leaks()
    shell = subprocess.run(["sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!"], check=True,
                           capture_output=True, text=True)
    pid = int(shell.stdout)
    left = watch.left(SOON)
    os.kill(pid, signal.SIGKILL)
    assert left == [f"process {pid} (sleep) in state S"]
    assert watch.left() == []


def test_a_process_that_ends_in_time_is_no_leak():
    watch = leaks.Leaks()
    subprocess.run(["sh", "-c", "sleep 0.3 >/dev/null 2>&1 &"], check=True)
    assert watch.left(5) == []


def test_a_file_in_tmp_is_seen():
    path = pathlib.Path(f"/tmp/sandglass-leak-check-{os.getpid()}")
    watch = leaks.Leaks()
    path.touch()
    left = watch.left(SOON)
    path.unlink()
    assert left == [f"file {path}"]


def test_a_half_made_template_is_seen(tmp_path):
    watch = leaks.Leaks(state_dirs=[tmp_path])
    (tmp_path / "templates" / ".new-abc").mkdir(parents=True)
    assert watch.left(SOON) == [f"file {tmp_path}/templates/.new-abc"]


def test_a_mount_is_seen(root, tmp_path):
    watch = leaks.Leaks()
    subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path], check=True)
    left = watch.left(SOON)
    subprocess.run(["umount", tmp_path], check=True)
    assert len(left) == 1 and left[0].startswith(f"mount {tmp_path} ")


def test_a_cgroup_is_seen(root):
    parent = next((p for p in (leaks.CGROUPS / "pids", leaks.CGROUPS) if (p / "cgroup.procs").exists()), None)
    if parent is None:
        pytest.skip("no cgroup hierarchy is mounted")
    path = parent / f"sandglass-leak-check-{os.getpid()}"
    watch = leaks.Leaks()
    path.mkdir()
    left = watch.left(SOON)
    path.rmdir()
    assert left == [f"cgroup {path}"]


def test_a_network_namespace_is_seen(root):
    watch = leaks.Leaks()
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 60"],
                              stdout=subprocess.PIPE)
    holder.stdout.readline()
    left = watch.left(SOON, spare={holder.pid})
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert any(line.startswith("network namespace ") for line in left)


def test_an_ordinary_user_has_no_rights_and_a_home(user):
    if os.getuid() != 0:
        pytest.skip("needs root to become somebody else")
    done = user.command("sh", "-c", "id -u; id -G; touch ~/x && cat /etc/shadow")
    assert done.stdout.split() == [str(user.uid), str(user.uid)]
    assert done.returncode != 0
    status = user.command("cat", "/proc/self/status").stdout
    assert "CapEff:\t0000000000000000" in status and "CapInh:\t0000000000000000" in status
