# SPDX-License-Identifier: Apache-2.0
"""sandglassd as the kernel sees it: what it is, what it can see, how it ends."""
import os
import pathlib
import signal
import subprocess

import pytest
import sg
from service import Box, Service, wait_for

DAEMON_ID = 1879048190


def facts(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def mounts(pid):
    """Mount point -> set of its flags."""
    rows = (line.split() for line in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines())
    return {row[4]: set(row[5].split(",")) for row in rows}


def check_confined(pid, uid):
    status = facts(pid)
    assert status["Uid"].split() == [str(uid)] * 4 and status["Gid"].split() == [str(uid)] * 4
    assert {kind: int(status[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {
        "Inh": 0, "Prm": 0, "Eff": 0, "Bnd": 0, "Amb": 0}
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    seen = mounts(pid)
    assert set(seen) == {"/", "/state"}
    assert {"ro", "nosuid", "nodev", "noexec"} <= seen["/"]
    assert {"rw", "nosuid", "nodev", "noexec"} <= seen["/state"]
    assert os.listdir(f"/proc/{pid}/root") == ["state"]
    for kind in ("mnt", "ipc", "uts", "net"):
        assert os.stat(f"/proc/{pid}/ns/{kind}").st_ino != os.stat(f"/proc/self/ns/{kind}").st_ino
    assert "Max core file size        0                    0" in pathlib.Path(f"/proc/{pid}/limits").read_text()


def test_as_root_it_is_an_id_of_its_own_that_can_do_nothing(root):
    with Service(pool=0) as service:
        check_confined(service.daemon_pid(), DAEMON_ID)
        # Not dumpable: what is below /proc/PID is root's, and nobody of the same id can trace it.
        assert os.stat(f"/proc/{service.daemon_pid()}/environ").st_uid == 0
        state = service.state / "daemon"
        assert (state.stat().st_uid, state.stat().st_mode & 0o777) == (DAEMON_ID, 0o700)


def test_as_a_user_it_is_confined_the_same_but_for_the_id(user):
    with Service(runner=user, pool=0) as service:
        check_confined(service.daemon_pid(), user.uid)


def test_all_its_threads_are_confined(root):
    with Service(pool=0) as service:
        tasks = os.listdir(f"/proc/{service.daemon_pid()}/task")
        assert len(tasks) > 1
        for task in tasks:
            status = facts(task)
            assert status["Uid"].split() == [str(DAEMON_ID)] * 4 and status["Seccomp"] == "2"


def test_it_holds_sockets_and_its_own_files_and_nothing_else(root):
    with Service(pool=1) as service:
        box = Box(service.operator)
        box.spawn("sleep 100")
        pid = service.daemon_pid()
        names = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd") if int(fd) > 2]
        strange = [name for name in names
                   if not name.startswith(("socket:", "pipe:", "anon_inode:", "/state/"))]
        assert not strange


def test_sigterm_ends_it_well_and_the_launcher_starts_another(root):
    with Service(pool=1) as service:
        box, first = Box(service.operator), service.daemon_pid()
        service.operator.close()
        os.kill(first, signal.SIGTERM)
        wait_for(lambda: service.daemon_pid() != first, what="another daemon")
        service.wait_ready()
        assert box.sh("echo there")["stdout"] == "there\n"
        ended = [row for row in service.log_rows() if row["message"] == "ending"]
        assert len(ended) == 1 and ended[0]["program"] == "sandglassd"


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGHUP])
def test_what_a_terminal_sends_to_all_is_the_launchers_to_judge(root, signal_number):
    with Service(pool=0) as service:
        pid = service.daemon_pid()
        os.kill(pid, signal_number)
        assert service.operator.get("/health").status == 200 and service.daemon_pid() == pid


def test_started_by_hand_it_says_who_starts_it():
    launcher = pathlib.Path(sg.BIN).resolve()
    found = [path for path in (launcher.parent.parent / "libexec/sandglass/sandglassd",
                               launcher.parent.parent / "daemon/sandglassd") if path.exists()]
    done = subprocess.run([found[0]], capture_output=True, text=True, timeout=10)
    assert done.returncode == 2 and "sandglass serve" in done.stderr
