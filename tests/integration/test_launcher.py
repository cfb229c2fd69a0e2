# SPDX-License-Identifier: Apache-2.0
"""sandglass-launcher, driven directly: we are its daemon."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

import launcher as support
from launcher import Failed, Launcher, new_id, run_inside, wait_until

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="needs root"),
    pytest.mark.skipif(not pathlib.Path(support.LAUNCHER).exists(), reason="no launcher built"),
]
TEMPLATE = "host"
MIB = 1 << 20
EXITED, MEMORY, KILLED = range(3)


@pytest.fixture
def run_dir():
    folder = tempfile.mkdtemp(prefix="sg-launcher-")
    yield pathlib.Path(folder) / "run"
    shutil.rmtree(folder)


@pytest.fixture
def launcher(run_dir):
    with Launcher(run_dir, pool=[f"{TEMPLATE}=2"]) as one:
        one.await_parked(2, TEMPLATE)
        yield one


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def groups_of(slot):
    found = []
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        found += [f"{folder}/{n}" for n in names if n == f"sandglass-{slot}"]
    return found


# ---- making ----


def test_a_create_takes_a_parked_cell_and_another_is_parked(launcher):
    cell = launcher.create(TEMPLATE)
    assert cell["flags"] & 1
    cell["init"].hello_init()
    code, output = run_inside(cell["init"], "id", "-u")
    assert (code, output) == (0, "0\n")
    launcher.await_parked(2, TEMPLATE)
    assert launcher.ask("l_list")["names"] == [cell["sandbox"]]


def test_creates_beyond_the_pool_are_made_on_the_spot(launcher):
    ids = [new_id() for _ in range(6)]
    numbers = [launcher.send("l_create", sandbox=i, template=TEMPLATE) for i in ids]
    cells = []
    while len(cells) < len(ids):  # in any order
        message = launcher.receive()
        if message["id"] in numbers:
            assert message["type"] == "l_cell"
            cells.append(message)
    assert sum(c["flags"] & 1 for c in cells) == 2
    assert sorted(launcher.ask("l_list")["names"]) == sorted(ids)
    for cell in cells:
        init = support.Channel(socket.socket(fileno=cell["fds"][0]))
        init.hello_init()
        assert run_inside(init, "true")[0] == 0


def test_a_pool_grows_with_a_burst_and_not_over_the_most(run_dir):
    with Launcher(run_dir, pool=[f"{TEMPLATE}=2"], pool_most=5) as one:
        one.await_parked(2, TEMPLATE)
        numbers = [one.send("l_create", sandbox=new_id(), template=TEMPLATE) for _ in range(8)]
        while numbers:
            message = one.receive()
            if message["id"] in numbers:
                assert message["type"] == "l_cell"
                os.close(message["fds"][0])
                numbers.remove(message["id"])
        one.await_parked(5, TEMPLATE)
        assert f"{TEMPLATE} 5 5" in one.ask("l_pool")["names"]


def test_limits_of_a_create_are_those_of_the_cell(launcher):
    cell = launcher.create(TEMPLATE, mem_bytes=96 * MIB, cpu_milli=250, pids=20, disk_bytes=10 * MIB)
    assert cell["disk_bytes"] == 10 * MIB
    stats = launcher.ask("l_stats", sandbox=cell["sandbox"])
    assert stats["mem_limit_bytes"] == 96 * MIB
    assert stats["disk_bytes"] == 10 * MIB
    assert stats["pids"] == 1
    launcher.ask("l_limit", sandbox=cell["sandbox"], mem_bytes=64 * MIB)
    stats = launcher.ask("l_stats", sandbox=cell["sandbox"])
    assert (stats["mem_limit_bytes"], stats["disk_bytes"]) == (64 * MIB, 10 * MIB)


def test_a_template_that_is_not_there_is_not_found(launcher):
    with pytest.raises(Failed) as failed:
        launcher.create("no-such-template")
    assert failed.value.kind == "not_found"
    assert launcher.create(TEMPLATE)["type"] == "l_cell"


def test_an_id_is_used_once(launcher):
    cell = launcher.create(TEMPLATE)
    with pytest.raises(Failed) as failed:
        launcher.ask("l_create", sandbox=cell["sandbox"], template=TEMPLATE)
    assert failed.value.kind == "conflict"


# ---- rules ----


def test_before_hello_nothing_is_done(run_dir):
    with Launcher(run_dir, hello=False) as one:
        with pytest.raises(Failed) as failed:
            one.ask("l_list")
        assert failed.value.kind == "denied"
        one.ask("l_hello", version=support.VERSION, epoch=1)
        assert one.ask("l_list")["names"] == []


@pytest.mark.parametrize("values, kind", [
    ({"sandbox": "../x", "template": TEMPLATE}, "invalid"),
    ({"sandbox": new_id(), "template": "/etc"}, "invalid"),
    ({"sandbox": new_id(), "template": TEMPLATE, "mem_bytes": 1}, "invalid"),
    ({"sandbox": new_id(), "template": TEMPLATE, "mem_bytes": 1 << 60}, "exhausted"),
])
def test_what_is_not_permitted_is_refused(launcher, values, kind):
    with pytest.raises(Failed) as failed:
        launcher.ask("l_create", **values)
    assert failed.value.kind == kind
    assert launcher.ask("l_list")["names"] == []


def test_a_packet_that_is_none_ends_the_connection(launcher):
    launcher.sock.send(b"nonsense")
    assert launcher.process.wait(support.PATIENCE) == 0


# ---- freezer ----


def test_a_frozen_cell_stands_still_and_can_be_destroyed(launcher):
    cell = launcher.create(TEMPLATE)
    cell["init"].hello_init()
    launcher.ask("l_freeze", sandbox=cell["sandbox"])
    number = cell["init"].send("info")
    cell["init"].sock.settimeout(0.05)
    with pytest.raises(TimeoutError):
        cell["init"].receive()
    cell["init"].sock.settimeout(support.PATIENCE)
    launcher.ask("l_thaw", sandbox=cell["sandbox"])
    assert cell["init"].answer(number)["type"] == "infoed"
    launcher.ask("l_freeze", sandbox=cell["sandbox"])
    launcher.ask("l_destroy", sandbox=cell["sandbox"])
    assert not is_alive(cell["pid"])


def test_memory_of_a_frozen_cell_is_taken_or_it_is_said_that_the_kernel_cannot(launcher):
    cell = launcher.create(TEMPLATE)
    cell["init"].hello_init()
    with pytest.raises(Failed) as failed:
        launcher.ask("l_reclaim", sandbox=cell["sandbox"])
    assert failed.value.kind == "conflict"  # it is not frozen
    launcher.ask("l_freeze", sandbox=cell["sandbox"])
    if launcher.ask("l_storage")["reclaim"] == 0:
        with pytest.raises(Failed) as failed:
            launcher.ask("l_reclaim", sandbox=cell["sandbox"])
        assert failed.value.kind == "unsupported"
    else:
        launcher.ask("l_reclaim", sandbox=cell["sandbox"])
        assert launcher.await_news("l_reclaimed")["sandbox"] == cell["sandbox"]
    launcher.ask("l_thaw", sandbox=cell["sandbox"])
    assert cell["init"].ask("info")["type"] == "infoed"


# ---- ending ----


def test_destroyed_means_that_nothing_is_left(launcher):
    cell = launcher.create(TEMPLATE)
    slot = launcher.slot_of(cell["sandbox"])
    assert groups_of(slot)
    launcher.ask("l_destroy", sandbox=cell["sandbox"])
    assert not is_alive(cell["pid"])
    assert not groups_of(slot)
    assert not list((launcher.run_dir / "cells").glob(f"{slot}.*"))
    assert launcher.ask("l_list")["names"] == []
    with pytest.raises(Failed) as failed:
        launcher.ask("l_destroy", sandbox=cell["sandbox"])
    assert failed.value.kind == "not_found"


def test_the_end_of_a_cell_is_news(launcher):
    cell = launcher.create(TEMPLATE)
    os.kill(cell["pid"], signal.SIGKILL)
    news = launcher.await_news("l_ended")
    assert (news["sandbox"], news["cause"]) == (cell["sandbox"], KILLED)
    assert launcher.ask("l_list")["names"] == []
    cell = launcher.create(TEMPLATE)
    cell["init"].close()  # without a word: it has nobody to live for
    news = launcher.await_news("l_ended")
    assert (news["sandbox"], news["cause"]) == (cell["sandbox"], EXITED)


def test_the_end_by_lack_of_memory_is_told(launcher):
    cell = launcher.create(TEMPLATE, mem_bytes=32 * MIB)
    cell["init"].hello_init()
    run_inside(cell["init"], "sh", "-c", "exec head -c 200m /dev/zero | tail > /dev/null")
    assert launcher.ask("l_stats", sandbox=cell["sandbox"])["oom_kills"] > 0
    os.kill(cell["pid"], signal.SIGKILL)
    news = launcher.await_news("l_ended")
    assert news["oom_kills"] > 0 and news["cause"] == MEMORY


def test_a_create_that_is_given_up_while_it_waits_is_told(run_dir):
    with Launcher(run_dir) as one:
        sandbox = new_id()
        creation = one.send("l_create", sandbox=sandbox, template=TEMPLATE)
        destruction = one.send("l_destroy", sandbox=sandbox)
        answers = {}
        while len(answers) < 2:
            message = one.receive()
            answers[message["id"]] = message["type"]
        assert answers[destruction] == "l_done"
        assert answers[creation] in ("l_failed", "l_cell")  # it may have been quick
        wait_until(lambda: one.ask("l_list")["names"] == [])


# ---- templates ----


@pytest.fixture
def state_dir():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sg-launcher-", dir="/var/tmp"))
    (folder / "templates").mkdir(mode=0o700)
    yield folder
    shutil.rmtree(folder)


def make_template(state_dir, name, marker):
    """Whole or absent, as `template import` makes them."""
    new = state_dir / "templates" / ".new-0123456789abcdef"
    (new / "root").mkdir(parents=True)
    (new / "root" / marker).touch()
    (new / "template.toml").write_text('user = "root"\nhome = "/root"\nidmapped = true\n')
    old = state_dir / "templates" / name
    if old.exists():
        old.rename(state_dir / "templates" / ".new-fedcba9876543210")
    new.rename(old)


def has_file(cell, name):
    init = cell["init"]
    init.hello_init()
    try:
        return init.ask("stat", path=f"/{name}")["type"] == "stated"
    except Failed:
        return False


def test_a_replaced_template_is_what_the_next_create_gets(run_dir, state_dir):
    make_template(state_dir, "mine", "first")
    with Launcher(run_dir, pool=["mine=3"], state_dir=state_dir) as one:
        one.await_parked(3, "mine")
        old = one.create("mine")
        assert has_file(old, "first")
        one.await_parked(3, "mine")
        make_template(state_dir, "mine", "second")
        new = one.create("mine")
        assert has_file(new, "second") and not has_file(new, "first")
        assert has_file(old, "first")
        one.await_parked(3, "mine")
        assert has_file(one.create("mine"), "second")
        assert sorted(one.ask("l_templates")["names"]) == ["host", "mine"]


def test_a_template_is_known_by_what_it_is_not_by_its_name(run_dir, state_dir):
    def stamp(launcher, name="mine"):
        return launcher.ask("l_identify", template=name)["stamp"]
    make_template(state_dir, "mine", "first")
    with Launcher(run_dir, state_dir=state_dir) as one:
        first, host = stamp(one), stamp(one, "host")
        assert first and host and first == stamp(one) != host
    with Launcher(run_dir, state_dir=state_dir) as one:
        assert (stamp(one), stamp(one, "host")) == (first, host)  # as before
        make_template(state_dir, "mine", "first")
        assert stamp(one) != first  # the same files, made anew
        with pytest.raises(Failed, match="none"):
            stamp(one, "none")
        with pytest.raises(Failed, match="not a template name"):
            stamp(one, "../mine")


def test_a_pool_of_a_template_that_comes_later_is_filled_then(run_dir, state_dir):
    with Launcher(run_dir, pool=["mine=1"], state_dir=state_dir) as one:
        assert one.parked("mine") == 0
        make_template(state_dir, "mine", "first")
        one.await_parked(1, "mine")


# ---- who comes after ----


def test_claimed_cells_are_adopted_and_all_others_end(run_dir):
    first = Launcher(run_dir, pool=[f"{TEMPLATE}=3"])
    cell = first.create(TEMPLATE, mem_bytes=80 * MIB)
    cell["init"].hello_init()
    first.await_parked(3, TEMPLATE)
    run_inside(cell["init"], "sh", "-c", "echo still here > /tmp/note")
    cell["init"].close()
    first.kill()
    with Launcher(run_dir) as second:
        assert second.ask("l_list")["names"] == [cell["sandbox"]]
        wait_until(lambda: len(second.records()) == 1)
        assert second.ask("l_stats", sandbox=cell["sandbox"])["mem_limit_bytes"] == 80 * MIB
        again = second.ask("l_adopt", sandbox=cell["sandbox"])
        assert again["pid"] == cell["pid"]
        assert (again["template"], again["missing"]) == (TEMPLATE, cell["missing"])
        second.ask("l_limit", sandbox=cell["sandbox"], cpu_milli=500)
        again["init"].hello_init()
        assert run_inside(again["init"], "cat", "/tmp/note") == (0, "still here\n")
        second.ask("l_destroy", sandbox=cell["sandbox"])
        assert second.records() == []
        assert not is_alive(cell["pid"])


def test_a_frozen_cell_is_adopted_and_answers_after_the_thaw(run_dir):
    first = Launcher(run_dir)
    cell = first.create(TEMPLATE)
    cell["init"].hello_init()
    first.ask("l_freeze", sandbox=cell["sandbox"])
    first.kill()
    cell["init"].close()
    with Launcher(run_dir) as second:
        again = second.ask("l_adopt", sandbox=cell["sandbox"])
        number = again["init"].send("hello", version=support.VERSION, flags=2, epoch=9)
        second.ask("l_thaw", sandbox=cell["sandbox"])
        assert again["init"].answer(number)["type"] == "ok"


def test_leftovers_of_a_cell_that_died_with_its_launcher_go(run_dir):
    first = Launcher(run_dir)
    cell = first.create(TEMPLATE)
    cell["init"].hello_init()
    slot = first.slot_of(cell["sandbox"])
    first.kill()
    os.kill(cell["pid"], signal.SIGKILL)
    wait_until(lambda: not is_alive(cell["pid"]))
    assert groups_of(slot)
    with Launcher(run_dir) as second:
        wait_until(lambda: not second.records() and not groups_of(slot))
        assert second.ask("l_list")["names"] == []
        assert list((run_dir / "cells").iterdir()) == []


def test_rubbish_among_the_records_is_swept_and_nothing_else(run_dir):
    (run_dir / "cells").mkdir(parents=True)
    (run_dir / "cells" / "17.rec").write_bytes(b"rubbish")
    (run_dir / "cells" / "18.sock").touch()
    (run_dir / "cells" / "notes.txt").touch()
    with Launcher(run_dir) as one:
        wait_until(lambda: not one.records())
        assert [p.name for p in (run_dir / "cells").iterdir()] == ["notes.txt"]
        one.ask("l_list")


@pytest.mark.parametrize("delay_ms", range(0, 24, 2))
def test_killed_at_any_moment_of_making_nothing_unpromised_stays(run_dir, delay_ms):
    first = Launcher(run_dir, pool=[f"{TEMPLATE}=8"])
    sandbox = new_id()
    number = first.send("l_create", sandbox=sandbox, template=TEMPLATE)
    time.sleep(delay_ms / 1000)
    first.process.kill()
    first.process.wait()
    promised = []
    try:
        while True:
            message = first.receive()
            if message["id"] == number and message["type"] == "l_cell":
                promised = [sandbox]
                init = support.Channel(socket.socket(fileno=message["fds"][0]))
                init.send("hello", version=support.VERSION, flags=2, epoch=3)
    except (ConnectionResetError, TimeoutError, OSError):
        pass
    with Launcher(run_dir) as second:
        if promised:
            assert second.ask("l_list")["names"] == promised
            again = second.ask("l_adopt", sandbox=sandbox)
            again["init"].hello_init()
            second.ask("l_destroy", sandbox=sandbox)
        else:  # it may have been claimed, but nobody was told
            for name in second.ask("l_list")["names"]:
                second.ask("l_destroy", sandbox=name)
        wait_until(lambda: not second.records())


# ---- without root ----


def test_without_root_what_is_missing_is_told_and_the_rest_works(user):
    home = user.home
    first = Launcher(home / "run", pool=["host=1"], uid=user.uid, env={"HOME": str(home)})
    assert first.welcome["flags"] & 6 == 2  # rootless, no freezer
    first.await_parked(1, "host")
    cell = first.create("host")
    assert cell["missing"] == 7 and cell["flags"] & 3 == 3
    cell["init"].hello_init(flags=3)
    assert run_inside(cell["init"], "id", "-u") == (0, "1000\n")
    assert first.ask("l_stats", sandbox=cell["sandbox"])["disk_bytes"] == cell["disk_bytes"]
    with pytest.raises(Failed) as failed:
        first.ask("l_freeze", sandbox=cell["sandbox"])
    assert failed.value.kind == "unsupported"
    cell["init"].close()
    first.kill()
    with Launcher(home / "run", uid=user.uid, env={"HOME": str(home)}) as second:
        again = second.ask("l_adopt", sandbox=cell["sandbox"])
        again["init"].hello_init(flags=3)
        assert run_inside(again["init"], "true")[0] == 0
        assert second.ask("l_stats", sandbox=cell["sandbox"])["oom_kills"] == 0
        second.ask("l_destroy", sandbox=cell["sandbox"])
        assert second.records() == []


# ---- start and end ----


def test_sigterm_leaves_what_was_promised_and_nothing_else(run_dir):
    first = Launcher(run_dir, pool=[f"{TEMPLATE}=2"])
    cell = first.create(TEMPLATE)
    cell["init"].hello_init()
    first.await_parked(2, TEMPLATE)
    assert first.end(signal.SIGTERM) == 0
    assert is_alive(cell["pid"])
    assert len(list((run_dir / "cells").glob("*.rec"))) == 1
    with Launcher(run_dir) as second:
        assert second.ask("l_list")["names"] == [cell["sandbox"]]
    assert not is_alive(cell["pid"])


def test_sigint_ends_everything(run_dir):
    one = Launcher(run_dir, pool=[f"{TEMPLATE}=2"])
    cell = one.create(TEMPLATE)
    cell["init"].hello_init()
    one.ask("l_freeze", sandbox=cell["sandbox"])
    assert one.end(signal.SIGINT) == 0
    assert not is_alive(cell["pid"])
    assert list(run_dir.iterdir()) == []


def test_one_launcher_a_directory(launcher, run_dir):
    second = subprocess.run([support.LAUNCHER], capture_output=True, text=True, timeout=20, check=False,
                            env={"SANDGLASS_RUN_DIR": str(run_dir), "HOME": "/root",
                                 "SANDGLASS_CONFIG": "/dev/null"})
    assert second.returncode == 75
    assert "runs already" in second.stderr


def test_a_port_that_is_taken_is_named(run_dir):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        done = subprocess.run([support.LAUNCHER], capture_output=True, text=True, timeout=20, check=False,
                              env={"SANDGLASS_RUN_DIR": str(run_dir), "SANDGLASS_LISTEN": address,
                                   "HOME": "/root", "SANDGLASS_CONFIG": "/dev/null"})
    assert done.returncode == 75
    assert address in done.stderr


def start_with_daemon(run_dir, script):
    """With a daemon that is a script; it gets the descriptors of the service."""
    program = run_dir.parent / "daemon"
    program.write_text(script)
    program.chmod(0o755)
    return subprocess.Popen([support.LAUNCHER, "--daemon", str(program)],
                            env={"SANDGLASS_RUN_DIR": str(run_dir), "SANDGLASS_LISTEN": "127.0.0.1:0",
                                 "SANDGLASS_POOL": "base=0", "SECRET": "of our own", "HOME": "/root",
                                 "SANDGLASS_CONFIG": "/dev/null"}, stderr=subprocess.DEVNULL)


def test_the_daemon_has_its_descriptors_and_is_started_again(run_dir):
    out = run_dir.parent / "starts"
    process = start_with_daemon(run_dir, f"""#!/bin/sh
{{ echo start; readlink /proc/self/fd/3 /proc/self/fd/4 /proc/self/fd/5; env; echo told; }} >> {out}
[ $(grep -c start {out}) -ge 3 ] && exec sleep 60
exit 1
""")
    try:
        wait_until(lambda: out.exists() and out.read_text().count("told\n") >= 3)
        text = out.read_text()
        assert text.count("socket:") == 9
        assert "SANDGLASS_CONFIG=/dev/null" in text and "SECRET" not in text
        assert (run_dir / "api.sock").stat().st_mode & 0o777 == 0o600
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(support.PATIENCE) == 0
    assert list(run_dir.iterdir()) == []


def test_a_daemon_that_closes_its_socket_is_ended(run_dir):
    out = run_dir.parent / "starts"
    process = start_with_daemon(run_dir, f"""#!/bin/sh
echo start >> {out}
[ $(grep -c start {out}) -ge 2 ] && exec sleep 60
exec 3>&-
exec sleep 60
""")
    try:
        wait_until(lambda: out.exists() and out.read_text().count("start\n") >= 2)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(support.PATIENCE) == 0
