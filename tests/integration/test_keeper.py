# SPDX-License-Identifier: Apache-2.0
"""sandglass-keeper with a real Docker Engine; we are the launcher."""
import os
import pathlib

import keeper as keepers
import launcher
import pytest

LIMITS = {"mem_bytes": 256 << 20, "cpu_milli": 1000, "pids": 64, "disk_bytes": 8 << 20, "open_files": 1024}


@pytest.fixture
def keeper(engine, tmp_path):
    with keepers.Keeper(tmp_path, engine.socket, "pull = false") as own:
        yield own
        for name in own.names():
            own.remove(name)
        assert own.names() == []


@pytest.fixture
def box(keeper):
    made = keeper.make("tiny", **LIMITS)
    made.init.hello_init()
    yield made
    made.init.close()


def shell(box, text, user="user"):
    return launcher.run_inside(box.init, "/bin/sh", "-c", text, user=user)


def test_init_serves_execs_in_a_container_through_the_socket_beside_it(keeper, box):
    assert shell(box, "id -u; pwd; echo hello > /workspace/x; cat /workspace/x") == (0, "1000\n/\nhello\n")
    assert shell(box, "exit 7")[0] == 7
    assert keeper.names() == [box.name]
    assert keeper.await_news("k_state")["is_up"] == 1


@pytest.mark.parametrize("user", ["user", "root"])
def test_programs_have_no_rights_no_network_and_a_root_that_is_read_only(box, user):
    _, text = shell(box, "cat /proc/self/status; ls /sys/class/net; touch /etc/x || echo refused", user)
    rows = dict(line.split(":\t") for line in text.splitlines() if ":\t" in line)
    assert {rows[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert rows["NoNewPrivs"] == "1" and rows["Seccomp"] == "2"
    assert text.endswith("refused\n")
    assert "\nlo\n" in text and "eth0" not in text
    assert shell(box, "unshare -Ur true; mount -t tmpfs x /tmp", user)[0] != 0


def test_nobody_inside_finds_a_socket_to_come_to(box):
    assert shell(box, "ls /.sandglass; touch /.sandglass/x 2>/dev/null || echo refused", "root") == (0, "init\nrefused\n")
    assert not (box.place / "ctl").exists()


def test_what_is_written_is_limited(box):
    code, text = shell(box, "dd if=/dev/zero of=/workspace/big bs=1M count=16 2>/dev/null || stat -c %s /workspace/big")
    assert (code, text) == (0, f"{8 << 20}\n")


def test_an_image_that_is_missing_is_named(keeper):
    with pytest.raises(launcher.Failed, match="no image 'nothing'.*docker.pull") as refused:
        keeper.make("nothing")
    assert refused.value.kind == "not_found"
    assert keeper.names() == []


@pytest.mark.parametrize("wrong", [{"container": "other"}, {"container": "sandglass-a/../b"}, {"image": "a?b"},
                                   {"image": "../x"}, {"dir": "relative"}, {"dir": "/a:/b"}])
def test_names_that_are_none_of_ours_are_refused(keeper, wrong):
    question = {"container": "sandglass-x", "image": "tiny", "dir": "/run", **wrong}
    with pytest.raises(launcher.Failed) as refused:
        keeper.ask("k_make", **question)
    assert refused.value.kind == "invalid"


def test_a_container_that_does_not_start_leaves_nothing(keeper, tmp_path, engine):
    (tmp_path / "empty").mkdir()
    with pytest.raises(launcher.Failed, match="start the container"):
        keeper.ask("k_make", container="sandglass-x", image="tiny", dir=str(tmp_path / "empty"))
    assert keeper.names() == []
    assert engine.call("GET", "/containers/sandglass-x/json")[0] == 404


def test_what_is_gone_is_removed(keeper):
    keeper.remove("sandglass-nobody")


def test_containers_of_others_are_neither_seen_nor_touched(keeper, engine):
    status, made = engine.call("POST", "/containers/create?name=sandglass-others",
                               {"Image": "tiny", "Cmd": ["/bin/true"], "HostConfig": {"NetworkMode": "none"}})
    assert status == 201, made
    try:
        assert keeper.names() == []
    finally:
        engine.call("DELETE", f"/containers/{made['Id']}?force=1")


def test_an_engine_that_is_not_there_is_said_so(tmp_path):
    if os.getuid() != 0:
        pytest.skip("needs root")
    with keepers.Keeper(tmp_path, str(tmp_path / "docker.sock")) as own:
        told = own.await_news("k_state")
        assert not told["is_up"] and "docker.sock" in told["why"]
        with pytest.raises(launcher.Failed, match="no Docker Engine answers at") as refused:
            own.ask("k_make", container="sandglass-x", image="tiny", dir="/run")
        assert refused.value.kind == "unavailable"


def test_the_keeper_has_an_id_of_its_own_and_one_capability(keeper):
    keeper.names()
    status = pathlib.Path(f"/proc/{keeper.process.pid}/status").read_text()
    rows = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert set(rows["Uid"].split()) == {str(0x6ffffffc)}
    assert {rows[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {"0000000000000002"}
    assert rows["NoNewPrivs"] == "1" and rows["Seccomp"] == "2"
    assert os.listdir(f"/proc/{keeper.process.pid}/root") == ["view"]
