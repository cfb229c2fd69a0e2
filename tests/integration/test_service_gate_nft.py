# SPDX-License-Identifier: Apache-2.0
"""The gate where connections are led to it by nftables: as an ordinary user, and as root where the settings say so."""
import socket

import pytest
import sg
from gatebox import GET
from service import Service, wait_for
from socks import Proxy
from world import OTHER, PRIVATE, PUBLIC, SIX, inside


@pytest.fixture(scope="module", params=["user", "root"])
def gate_service(request, gate_world):
    with sg.ordinary_user() if request.param == "user" else sg.account() as runner:
        runner.home.chmod(0o755)
        with Service(runner=runner if request.param == "user" else None, pool=1,
                     gate=gate_world.settings(lead="nft" if request.param == "root" else "auto")) as made:
            made.whose = request.param
            yield made


def test_all_that_is_reached_and_not_is_as_with_the_other_way(gate_service, gate_box):
    b = gate_box({"mode": "filtered", "allow": ["example.com", f"{SIX}/128", "six.com", "1.1.1.1:7", "udp:example.com:123", f"udp:[{SIX}]:123",
                                                "inner.com"]})
    assert b.tries(["tcp", "example.com", 7, "name"], ["tcp", "1.1.1.1", 7, "four"], ["tcp", SIX, 7, "six"], ["tcp", "six.com", 7, "6"],
                   ["tcp", "1.1.1.1", 9, "x"], ["tcp", PUBLIC, 7, "x"], ["tcp", "inner.com", 7, "x"], ["name", "other.com"]) == [
        "name", "four", "six", "6"] + 3 * ["ConnectionResetError"] + ["gaierror"]
    got = b.tries(["udp", "example.com", 123, "hi", 20], ["udp", SIX, 123, "six", 20], ["udp", PUBLIC, 123], ["dns", "8.8.8.8", "example.com"],
                  ["dns_tcp", "8.8.8.8", "example.com", "other.com"])
    assert got[0][0] == "+hi" and got[0][2] == 123 and got[1] == ["+six", SIX, 123] and got[2] == "TimeoutError"
    assert got[3] == [0, 1] and got[4] == [[0, 1], [3, 0]]
    assert "200 OK" in b.one("tcp", "example.com", 80, GET.format("example.com"))
    assert "another one" in b.one("tcp", "example.com", 80, GET.format("other.com"))
    row = b.logged(name="example.com", verdict="allowed", port=7)
    assert (row["address"], row["rule"], row["bytesOut"]) == (PUBLIC, "allow example.com", 4)
    b.logged(address=PUBLIC, port=7, verdict="denied", rule="no rule allows it")
    b.logged(name="inner.com", verdict="denied", rule="always refused: private")


def test_its_own_servers_are_its_own_and_take_nobody_elses_connections(gate_box):
    b = gate_box({"mode": "filtered", "allow": [f"{PUBLIC}/32"]})
    got = b.run("python3", "-c", f"""
import socket
own = socket.create_server(("::", 7), family=socket.AF_INET6, dualstack_ipv6=True)
for host in ("127.0.0.1", "::1", "127.9.9.9"):
    with socket.create_connection((host, 7), 5): own.accept()[0].sendall(b"own")
with socket.create_connection(("{PUBLIC}", 7), 5) as far:
    far.sendall(b"far"); print(far.recv(3))
try: socket.create_connection(("{OTHER}", 7), 5).recv(1); print("reached")
except OSError as e: print(type(e).__name__)
own.settimeout(0)
try: own.accept(); print("taken")
except BlockingIOError: print("nobody")
""")
    assert got["stdout"] == "b'far'\nConnectionResetError\nnobody\n", got
    # Whoever is root inside has no right over the rules.
    got = b.run("sh", "-c", "nft flush ruleset 2>&1; ip route flush table local 2>&1; ip link set lo down 2>&1; id -u")
    assert b.one("tcp", OTHER, 7, "x") == "ConnectionResetError" and b.one("tcp", PUBLIC, 7, "x") == "x", got


def test_a_gate_that_is_killed_is_closed_and_comes_back(gate_service, gate_box):
    b, none = gate_box({"mode": "filtered", "allow": ["example.com"]}), gate_box({"mode": "none"})
    old = gate_service.gate_pid()
    assert b.one("tcp", "example.com", 7, "x") == "x"
    gate_service.kill9(old)
    wait_for(lambda: gate_service.gate_pid() not in (None, old), what="another gate")
    assert wait_for(lambda: b.one("tcp", "example.com", 7, "back") == "back", what="the way back")
    assert b.one("tcp", OTHER, 7, "x") == "ConnectionResetError"
    assert none.tries(["tcp", PUBLIC, 7, "x"], ["name", "example.com"]) == ["OSError", "gaierror"]
    b.set({"mode": "none"})
    assert b.one("tcp", "example.com", 7, "x") in ("gaierror", "ConnectionRefusedError", "OSError")
    b.set({"mode": "open"})
    assert b.tries(["tcp", OTHER, 7, "open"], ["tcp", PRIVATE, 7, "x"]) == ["open", "ConnectionResetError"]


def test_a_password_is_opened_by_the_gate(gate_world, gate_service, gate_box):
    def connect(host, port):
        with inside(gate_world.far):
            return socket.create_connection((gate_world.names.get(host, [host])[0], port), 10)
    proxy = Proxy(connect, ("agent", "word"))
    server = gate_world.serve(OTHER, 1080 + (gate_service.whose == "root"), proxy)
    b = gate_box({"mode": "open", "egressProxy": {"address": f"{OTHER}:{server.sock.getsockname()[1]}", "username": "agent", "password": "word"}})
    assert b.one("tcp", "example.com", 7, "x") == "x"
    assert proxy.take() == [(("agent", "word"), "four", PUBLIC, 7)]


def test_a_way_that_is_none_is_no_setting(root, tmp_path):
    config = tmp_path / "sandglass.toml"
    config.write_text('[gate]\nlead = "sideways"\n')
    done = root.command(sg.BIN, "config", "show", env={"SANDGLASS_CONFIG": str(config)})
    assert done.returncode != 0 and "gate.lead" in done.stderr and "sk_lookup" in done.stderr, done
