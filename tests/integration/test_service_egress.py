# SPDX-License-Identifier: Apache-2.0
"""Connections that go through a SOCKS 5 proxy, and only so: against a proxy that the test starts itself."""
import json
import os
import socket
import subprocess
import threading

import e2b_door
import pytest
import sg
from gatebox import GET, Box
from service import Service, wait_for
from socks import Proxy
from test_service_secrets import everywhere, holds
from world import OTHER, PRIVATE, PUBLIC, SIX, inside

PASSWORD = "pass:word@4711/egress"
LOGIN = ("agent", PASSWORD)
PERMITTED = "192.168.7.7"  # private, and named by gate.permit
WHERE = "proxy.example.net:1080"
VIA = {"address": WHERE, "username": LOGIN[0], "password": PASSWORD}
LIES = {  # port: (what it says after so many bytes, the reason in the record)
    1081: ([(4, b"HTTP/1.1 400 Bad Request\r\n\r\n")], "it does not speak SOCKS 5"),
    1082: ([(4, b"\5\1")], "it chose a method that was not offered"),
    1083: ([(4, b"\5\0"), (10, b"\5\0\0")], "it closed the connection"),
    1084: ([], "it closed the connection"),
    1085: ([(4, b"\5\0"), (10, b"\5\2\0\1" + bytes(6))], "its own rules do not allow the connection"),
    1086: ([(4, b"\5\0"), (10, b"\5\0\0\7" + bytes(6))], "its answer cannot be read"),
}


class Place:
    pass


@pytest.fixture(scope="module")
def place(gate_world):
    p = Place()
    gate_world.names.update({"proxy.example.net": [OTHER], "inner-proxy.net": [PRIVATE], "hidden.net": ["1.1.1.1"]})

    def connect(host, port):
        with inside(gate_world.far):
            return socket.create_connection((gate_world.names.get(host, [host])[0], port), 10)
    p.free = threading.Event()
    p.proxy, p.open = Proxy(connect, LOGIN), Proxy(connect)
    gate_world.serve(OTHER, 1080, p.proxy)
    gate_world.serve(PERMITTED, 1080, p.open)
    gate_world.serve(PRIVATE, 1080, p.open)
    gate_world.serve(OTHER, 1090, Proxy(connect, hold=p.free))
    for port, (lies, _) in LIES.items():
        gate_world.serve(OTHER, port, Proxy(connect, lies=lies))
    p.echo = gate_world.echo("1.1.1.1", 9)
    with Service(pool=2, gate=gate_world.settings(permit=[f"{PERMITTED}/32"])) as p.service:
        yield p
        p.free.set()


@pytest.fixture
def gate_service(place):  # that gate_box uses
    return place.service


@pytest.fixture(scope="module")
def slow(place):
    """One that never answers is found out by the clock: it has all the time that the other tests take."""
    b = Box(place.service, {"mode": "open", "egressProxy": {**VIA, "address": f"{OTHER}:1090"}})
    run = b.op.post(f"/v1/sandboxes/{b.id}/exec", {"argv": [
        "python3", "-c", f"import socket; s = socket.create_connection(('{PUBLIC}', 80), 60); s.sendall(b'x'); "
        "print(s.recv(1000).decode())"], "background": True}, expect=201)["id"]
    yield b, run
    b.remove()


def via(**others):
    return {"mode": "filtered", "allow": ["example.com", "other.com", "*.sub.example.com", "inner.com", "both.com", f"{PUBLIC}/32",
                                          f"{PRIVATE}/32", f"{SIX}/128", "udp:example.com:123"], "egressProxy": VIA, **others}


def test_a_gate_or_daemon_that_is_killed_goes_no_other_way(place, gate_box):
    b = gate_box({"mode": "filtered", "allow": ["hidden.net"], "egressProxy": VIA})
    came = place.echo.came
    place.proxy.take()
    run = b.op.post(f"/v1/sandboxes/{b.id}/exec", {"argv": ["python3", "-c", """
import socket, time
end, seen = time.monotonic() + 1.5, set()
while time.monotonic() < end:
    try:
        s = socket.create_connection(("hidden.net", 9), 5); s.settimeout(5)
        s.sendall(b"abc"); seen.add(s.recv(3)); s.close()
    except OSError as e: seen.add(type(e).__name__)
print(seen)
"""], "background": True}, expect=201)["id"]
    output = f"/v1/sandboxes/{b.id}/execs/{run}/output"
    for _ in range(2):
        old = place.service.gate_pid()
        place.service.kill9(old)
        wait_for(lambda: place.service.gate_pid() not in (None, old), what="another gate")
    place.service.kill9_daemon()
    wait_for(lambda: '"complete":true' in b.op.get(output).body.decode(), seconds=60, what="the end of the load")
    assert wait_for(lambda: b.one("tcp", "hidden.net", 9, "back") == "back", what="the way back")
    # Nobody came but through the proxy; a proxy that was asked and then left may not have come there.
    asked = place.proxy.take()
    assert {row[:3] for row in asked} == {(LOGIN, "name", "hidden.net")}
    assert 0 < place.echo.came - came <= len(asked)
    # A copy has what its source had, the password among it.
    fork = Box.__new__(Box)
    fork.op, fork.id = b.op, b.op.post(f"/v1/sandboxes/{b.id}/fork", {}, expect=201)["forks"][0]["sandbox"]["id"]
    assert fork.one("tcp", "hidden.net", 9, "fork") == "fork" and len(place.proxy.take()) == 1
    fork.remove()


def test_allowed_connections_go_through_the_proxy_and_others_go_nowhere(place, gate_box, slow):
    b = gate_box(via())
    place.proxy.take()
    assert b.tries(["tcp", "example.com", 7, "one"], ["tcp", "deep.sub.example.com", 7, "two"], ["tcp", PUBLIC, 7, "three"],
                   ["tcp", SIX, 7, "four"], ["tcp", "both.com", 7, "five"]) == ["one", "two", "three", "four", "five"]
    # The name goes to the proxy where a rule about names decided, and nothing that it leads to was refused here.
    assert place.proxy.take() == [(LOGIN, "name", "example.com", 7), (LOGIN, "name", "deep.sub.example.com", 7),
                                  (LOGIN, "four", PUBLIC, 7), (LOGIN, "six", SIX, 7), (LOGIN, "four", PUBLIC, 7)]
    row = b.logged(name="example.com", verdict="allowed", port=7)
    assert (row["rule"], row["address"], row["bytesOut"], row["bytesIn"]) == (f"allow example.com via {WHERE}", "", 3, 3)
    assert b.logged(name="both.com", verdict="allowed")["address"] == PUBLIC
    # What is refused without a proxy is refused with one, and the proxy is not asked.
    assert b.tries(["name", "denied.net"], ["tcp", OTHER, 7, "x"], ["tcp", "inner.com", 7, "x"], ["tcp", PRIVATE, 7, "x"],
                   ["udp", "example.com", 123]) == ["gaierror"] + 3 * ["ConnectionResetError"] + ["TimeoutError"]
    b.logged(name="inner.com", rule="always refused: private")
    b.logged(name="example.com", protocol="udp", verdict="denied", rule="egress proxy: datagrams do not go through it")
    # What is said is looked at as ever.
    assert "200 OK" in b.one("tcp", "example.com", 80, GET.format("example.com"))
    assert "the host is another one" in b.one("tcp", "example.com", 80, GET.format("other.com"))
    assert [row[1:] for row in place.proxy.take()][0] == ("name", "example.com", 80)
    # In mode open no rule is about names: addresses go to the proxy, those that were judged here.
    b.set({"mode": "open", "egressProxy": VIA})
    assert b.one("tcp", "example.com", 7, "six") == "six"
    assert place.proxy.take() == [(LOGIN, "four", PUBLIC, 7)]


def test_the_password_is_with_the_gate_and_the_proxy_and_nobody_else(place, gate_box):
    b = gate_box(via())
    assert b.one("tcp", "example.com", 7, "x") == "x"
    shown = [b.op.get(f"/v1/sandboxes/{b.id}", expect=200), b.set(via()), b.log(),
             b.op.get(f"/v1/sandboxes/{b.id}/network", expect=200), b.run("env")["stdout"]]
    assert shown[3]["egressProxy"] == {"address": WHERE, "username": LOGIN[0]}
    assert PASSWORD not in json.dumps(shown)
    assert b.one("tcp", "example.com", 7, "x") == "x"
    # What the daemon reads requests into is used again, for the next one.
    b.op.put(f"/v1/sandboxes/{b.id}/files", b"x" * (1 << 20), query={"path": "/tmp/much"})
    assert holds(place.service.gate_pid(), PASSWORD.encode())
    assert not holds(place.service.daemon_pid(), PASSWORD.encode())
    assert not holds(place.service.launcher_pid(), PASSWORD.encode())
    for path, data in everywhere(place.service.folder):
        assert PASSWORD.encode() not in data, path


def test_where_the_proxy_fails_there_is_no_other_way(place, gate_box):
    b = gate_box({"mode": "open", "egressProxy": VIA})
    came = place.echo.came
    cases = [({**VIA, "password": "wrong"}, "it did not accept the user name and password"),
             ({"address": WHERE}, "it wants a user name and password"),
             ({"address": f"{OTHER}:1"}, "Connection refused"),
             ({"address": "nobody.example.net:1080"}, "its name does not exist"),
             ({"address": "inner-proxy.net:1080"}, "always refused: private"),
             ({"address": "own.com:1080"}, "always refused: documentation")]
    cases += [({**VIA, "address": f"{OTHER}:{port}"}, reason) for port, (_, reason) in LIES.items()]
    for proxy, reason in cases:
        b.set({"mode": "open", "egressProxy": proxy})
        # A client of HTTP reads why.
        got = b.tries(["tcp", "1.1.1.1", 9, "x"], ["tcp", PUBLIC, 80, GET.format("a")])
        assert got[0] == "ConnectionResetError" and f"egress proxy: {reason}" in got[1], (proxy, got)
        b.logged(address="1.1.1.1", port=9, verdict="denied", rule=f"egress proxy: {reason}")
    # Where it is the far end that cannot be reached, that is what is said.
    b.set({"mode": "open", "egressProxy": VIA})
    assert b.one("tcp", "1.1.1.1", 10, "x") == "ConnectionResetError"
    assert b.logged(address="1.1.1.1", port=10)["rule"] == f"mode open via {WHERE} (egress proxy: connection refused)"
    assert place.echo.came == came


def test_private_proxies_only_where_the_settings_name_them(place, gate_box):
    b = gate_box({"mode": "open", "egressProxy": {"address": f"{PERMITTED}:1080"}})
    place.open.take()
    assert b.one("tcp", "example.com", 7, "x") == "x"
    assert place.open.take() == [(None, "four", PUBLIC, 7)]
    for address in (f"{PRIVATE}:1080", "127.0.0.1:1080", "169.254.169.254:80", "[::1]:1080"):
        said = b.set({"mode": "open", "egressProxy": {"address": address}}, expect=400)
        assert "gate.permit" in str(said), said


def test_bad_settings_are_refused_whole(place, gate_box):
    b = gate_box({"mode": "open", "egressProxy": {"address": f"{PERMITTED}:1080"}})
    for bad, word in (({"address": "example.com"}, "HOST:PORT"), ({"address": "exa mple:1"}, "only letters"), ({}, "address"),
                      ({"address": "udp:example.com:1"}, "HOST:PORT"), ({"address": "example.com:0"}, "HOST:PORT"),
                      ({"address": WHERE, "password": "x"}, "username"), ({"address": WHERE, "username": ""}, "255"),
                      ({"address": WHERE, "username": "x" * 256}, "255"), ({"address": WHERE, "sealed": "x"}, "sealed"),
                      ({"address": WHERE, "username": "x", "password": "x" * 256}, "255"), (7, "object")):
        assert word in str(b.set({"mode": "open", "egressProxy": bad}, expect=400)), bad
        b.op.post("/v1/sandboxes", {"network": {"mode": "open", "egressProxy": bad}}, expect=400)
    assert "none" in str(b.set({"mode": "none", "egressProxy": VIA}, expect=400))
    assert "sandbox" in str(b.op.put("/v1/templates/host/network", {"mode": "open", "egressProxy": VIA}, expect=400))
    assert b.one("tcp", "example.com", 7, "still") == "still"


def test_what_lies_above_a_policy_holds_for_its_proxy(place):
    org, client = place.service.tenant("bounded")
    op = place.service.operator
    b = Box(place.service, {"mode": "open", "egressProxy": VIA}, op=client)
    try:
        for policy, rule in (({"mode": "filtered", "allow": ["example.com"]}, "organisation: no rule allows it"),
                             ({"mode": "open", "deny": ["proxy.example.net"]}, "organisation: deny proxy.example.net")):
            op.put(f"/v1/orgs/{org}/network", policy, expect=200)
            assert b.one("tcp", "example.com", 7, "x") == "ConnectionResetError"
            b.logged(name="example.com", rule=f"egress proxy: {rule}", verdict="denied")
        op.put(f"/v1/orgs/{org}/network", {"mode": "filtered", "allow": ["example.com", "proxy.example.net:1080"]}, expect=200)
        assert b.one("tcp", "example.com", 7, "x") == "x"
    finally:
        op.delete(f"/v1/orgs/{org}/network", expect=204)
        b.remove()
        client.close()


HOLDER = """
import socket
s = socket.create_connection(("example.com", 7), 30)
s.sendall(b"held"); print(s.recv(4).decode(), flush=True)
try: print(s.recv(1))
except OSError as e: print(type(e).__name__, flush=True)
"""


def test_another_proxy_or_none_ends_what_went_the_old_way(place, gate_box):
    b = gate_box(via())
    for change, rule in ((via(egressProxy={**VIA, "address": f"{OTHER}:1080"}), f"{OTHER}:1080"), ({"mode": "open"}, None)):
        run = b.op.post(f"/v1/sandboxes/{b.id}/exec", {"argv": ["python3", "-c", HOLDER], "background": True}, expect=201)["id"]
        output = f"/v1/sandboxes/{b.id}/execs/{run}/output"
        wait_for(lambda: "held" in b.op.get(output).body.decode(), what="the connection")
        b.set(change)
        wait_for(lambda: "ConnectionResetError" in b.op.get(output).body.decode(), what="its end")
        place.proxy.take()
        assert b.one("tcp", "example.com", 7, "x") == "x"
        assert len(place.proxy.take()) == (1 if rule else 0)
    rows = [row["rule"] for row in b.log() if "has changed" in row["rule"]]
    assert rows == [f"allow example.com via {WHERE} (the egress proxy has changed)",
                    f"allow example.com via {OTHER}:1080 (the egress proxy has changed)"]


def test_the_command_line_reads_the_password_unseen(place):
    def cli(*words, status=0, **kw):
        done = subprocess.run([sg.BIN, *words], env={**os.environ, "SANDGLASS_CONFIG": str(place.service.config)},
                              capture_output=True, text=True, **kw)
        assert done.returncode == status, done
        return done
    made = cli("create", "--net", "open", "--egress-proxy", f"agent@{WHERE}", input=PASSWORD + "\n").stdout.strip()
    place.proxy.take()
    assert cli("exec", made, "--", "python3", "-c", "import socket; s = socket.create_connection(('example.com', 7), 9); "
               "s.sendall(b'x'); print(s.recv(1))").stdout == "b'x'\n"
    assert place.proxy.take() == [(LOGIN, "four", PUBLIC, 7)]
    said = json.loads(cli("net", "set", made, "--net", "open", "--egress-proxy", f"{PERMITTED}:1080", "--json").stdout)
    assert said["egressProxy"] == {"address": f"{PERMITTED}:1080"}
    refused = cli("create", "--net", "open", "--egress-proxy", f"agent:{PASSWORD}@{WHERE}", status=2, input="")
    assert "standard input" in refused.stderr and "4711" not in refused.stderr
    assert "HOST:PORT" in cli("create", "--net", "open", "--egress-proxy", "nowhere", status=2, input="").stderr
    cli("rm", made)


def test_clients_of_e2b_have_it_too(place):
    s = e2b_door.Sandbox(place.service, place.service.key(), network={"egressProxy": VIA, "denyOut": ["8.8.8.8"]})
    script = "python3 -c \"import socket; s = socket.create_connection(('example.com', 7), 9); s.sendall(b'x'); print(s.recv(1))\""

    def reaches():
        return any("stdout" in json.dumps(frame) for _, frame in s.run(script))
    place.proxy.take()
    assert reaches() and place.proxy.take() == [(LOGIN, "four", PUBLIC, 7)]
    shown = {"address": WHERE, "username": LOGIN[0]}
    assert s.control("GET", f"/sandboxes/{s.id}", expect=200)["network"] == {"egressProxy": shown, "denyOut": ["8.8.8.8"]}
    path = f"/sandboxes/{s.id}/network"
    assert s.control("PUT", path, {"egress_proxy": {**VIA, "password": "wrong"}}).status == 204
    assert not reaches()
    assert s.control("PUT", path, {"egressProxy": None}).status == 204
    assert reaches() and not place.proxy.take()
    for bad, word in (({**VIA, "tls": {"enabled": True}}, "tls"), ({"username": "x"}, "address"), ({**VIA, "more": 1}, "more"),
                      ({"address": "10.0.0.1:1080"}, "private"), ({"address": WHERE, "password": "x"}, "username")):
        reply = s.control("PUT", path, {"egressProxy": bad})
        assert reply.status == 400 and word in str(reply.json), (bad, reply)
    assert s.control("PUT", path, {"egressProxy": {**VIA, "tls": {"enabled": False}}}).status == 204
    for path, data in everywhere(place.service.folder):
        assert PASSWORD.encode() not in data, path
    s.kill()


def test_a_proxy_that_never_answers_is_given_up(slow):
    b, run = slow
    output = f"/v1/sandboxes/{b.id}/execs/{run}/output"
    wait_for(lambda: "did not answer in time" in b.op.get(output).body.decode(), seconds=60, what="the page")
    b.logged(address=PUBLIC, verdict="denied", rule="egress proxy: it did not answer in time")
