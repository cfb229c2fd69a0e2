# SPDX-License-Identifier: Apache-2.0
"""Private networks: chosen sandboxes reach each other by name, and nobody else does."""
import json

import pytest

from gatebox import Box
from service import wait_for

PORT = 7070
SERVER = """
import socket, threading
def talk(sock):
    while data := sock.recv(65536): sock.sendall(b"%s:" + data)
    sock.close()
s = socket.create_server(("%s", 7070), family=socket.%s)
while True: threading.Thread(target=talk, args=(s.accept()[0],), daemon=True).start()
"""


def serve(box, word, address="127.0.0.1", family="AF_INET"):
    """A server on the sandbox's loopback that says who it is before what it heard."""
    box.op.post(f"/v1/sandboxes/{box.id}/exec", {"argv": ["python3", "-c", SERVER % (word, address, family)],
                                                 "background": True}, expect=201)
    wait_for(lambda: box.one("tcp", address, PORT, "up") == f"{word}:up", what="the server inside")


def team(name=None, **others):
    return {"mode": "none", "networks": ["team"], **({"name": name} if name else {}), **others}


@pytest.fixture(scope="module")
def db(gate_service):
    box = Box(gate_service, team("db"))
    serve(box, "db")
    yield box
    box.remove()


def test_members_talk_by_name_and_reach_nothing_else(gate_box, db):
    b = gate_box(team())
    serve(b, "web", "::1", "AF_INET6")
    assert b.tries(["tcp", "db.team.internal", PORT, "hi"], ["tcp", "DB.Team.Internal.", PORT, "hi"]) == 2 * ["db:hi"]
    row = b.logged(name="db.team.internal", verdict="allowed", rule="network team", port=PORT)
    assert (row["bytesOut"], row["bytesIn"]) == (2, 5)
    # By id where it has no other name; its server listens at ::1.
    assert db.one("tcp", f"{b.id}.team.internal", PORT, "hi") == "web:hi"
    # A client of IPv6 goes there as it goes to every name.
    address = b.one("name", "db.team.internal")[0]
    assert address.startswith("198.18.") and b.one("tcp", f"::ffff:{address}", PORT, "six") == "db:six"
    # Nothing else: no other name, no address, no datagram, nobody of that network, nothing of the world.
    assert b.tries(["name", "nobody.team.internal"], ["name", "db.other.internal"], ["name", "example.com"],
                   ["tcp", "93.184.216.34", 7, "x"], ["udp", "db.team.internal", PORT],
                   ["tcp", "db.team.internal", PORT + 1, "x"]) == 3 * ["gaierror"] + [
        "ConnectionResetError", "TimeoutError", "ConnectionResetError"]
    b.logged(name="nobody.team.internal", verdict="denied", rule="network team: nobody is called that")
    b.logged(address="93.184.216.34", verdict="denied", rule="mode none")
    b.logged(name="db.team.internal", protocol="udp", verdict="denied", rule="network team: only by name, and by TCP")
    got = b.op.get(f"/v1/sandboxes/{b.id}/network/explain", query={"to": "db.team.internal:80"}, expect=200)
    assert (got["allowed"], got["rule"]) == (True, "network team")


def test_strangers_do_not_get_there(gate_service, gate_world, gate_box, db):
    _, other = gate_service.tenant("strangers")
    same = [gate_box(network) for network in ({"mode": "open"}, {"mode": "filtered", "allow": ["*"]},
                                              {"mode": "none", "networks": ["others"]})]
    member = gate_box(team())
    address = member.one("name", "db.team.internal")[0]
    near = other.post("/v1/sandboxes", {"network": team("db")}, expect=201)["id"]
    far = other.post("/v1/sandboxes", {"network": team()}, expect=201)["id"]
    # One of another organisation with the same network and the same name is another's db.
    assert member.one("tcp", "db.team.internal", PORT, "hi") == "db:hi"
    for b in same:
        assert b.tries(["tcp", "db.team.internal", PORT, "x"], ["tcp", f"{db.id}.team.internal", PORT, "x"],
                       ["tcp", address, PORT, "x"]) == ["gaierror", "gaierror", "ConnectionResetError"]
    same[2].logged(name="db.team.internal", verdict="denied", rule="mode none")
    other.put(f"/v1/sandboxes/{far}/files", b"import socket\nfor name in ('db.team.internal', '%s.team.internal'):\n"
              b"    try: print(socket.create_connection((name, 7070), 9).recv(1))\n"
              b"    except OSError as e: print(type(e).__name__)\n" % db.id.encode(), query={"path": "/tmp/try.py"})
    got = other.post(f"/v1/sandboxes/{far}/exec", {"argv": ["python3", "/tmp/try.py"]}, expect=200)
    assert got["stdout"].split() == ["ConnectionResetError", "gaierror"]  # its own db has no server; ours is not there
    for one in (near, far):
        other.delete(f"/v1/sandboxes/{one}", expect=204)


HOLD = """
import socket
s = socket.create_connection(("%s.team.internal", 7070)); s.sendall(b"a"); print(s.recv(9), flush=True)
try: print(s.recv(9))
except OSError as e: print(type(e).__name__)
"""


def hold(box, name):
    """An open connection; returns a function that gives what the client printed, once it has ended."""
    run = box.op.post(f"/v1/sandboxes/{box.id}/exec", {"argv": ["python3", "-c", HOLD % name], "background": True},
                      expect=201)
    path = f"/v1/sandboxes/{box.id}/execs/{run['id']}/output"

    def printed(**query):
        return box.op.get(path, query={"raw": "1", **query}).body.decode()
    wait_for(lambda: "mine:a" in printed(), what="an open connection")
    return lambda: printed(follow="1").split()[-1]


def test_who_leaves_or_ends_is_gone_at_once(gate_service, gate_box):
    b, peer = gate_box(team()), gate_box(team("peer"))
    serve(peer, "mine")
    end = hold(b, "peer")
    peer.set({"mode": "open"})
    assert end() == "ConnectionResetError"
    assert b.one("name", "peer.team.internal") == "gaierror"
    # Back again under another name; a second of that name makes it nobody's.
    peer.set(team("twin"))
    end = hold(b, "twin")
    twin = gate_box(team("twin"))
    assert end() == "ConnectionResetError"
    assert b.one("name", "twin.team.internal") == "gaierror"
    b.logged(name="twin.team.internal", verdict="denied", rule="network team: several are called that")
    twin.set({"mode": "none"})
    assert b.one("tcp", "twin.team.internal", PORT, "x") == "mine:x"
    # The client leaves; then the other one ends.
    end = hold(b, "twin")
    b.set({"mode": "none", "networks": ["elsewhere"]})
    assert end() == "ConnectionResetError"
    b.set(team())
    last = Box(gate_service, team("last"))
    serve(last, "mine")
    end = hold(b, "last")
    last.remove()
    assert end() in ("ConnectionResetError", "b''")
    assert b.one("name", "last.team.internal") == "gaierror"


def test_many_bytes_pass_whole_and_a_gate_that_is_killed_comes_back(gate_service, gate_box, db):
    b = gate_box(team())
    got = b.run("python3", "-c", """
import os, socket, threading
s = socket.create_connection(("db.team.internal", 7070))
sent = os.urandom(3 << 20).replace(b"d", b"e"); half = threading.Thread(target=lambda: (s.sendall(sent), s.shutdown(socket.SHUT_WR)))
half.start(); back = b""
while piece := s.recv(65536): back += piece
half.join(); print(back.replace(b"db:", b"") == sent, len(back) > len(sent))
""")
    assert got["stdout"].split() == ["True", "True"], got
    old = gate_service.gate_pid()
    gate_service.kill9(old)
    wait_for(lambda: (pid := gate_service.gate_pid()) and pid != old, what="another gate")
    wait_for(lambda: b.one("tcp", "db.team.internal", PORT, "back") == "db:back", what="the way back")


def test_who_leaves_or_ends_while_there_is_no_gate_is_gone_for_the_next_one(gate_service, gate_box, db):
    b, left, ended = gate_box(team()), gate_box(team("left")), Box(gate_service, team("ended"))
    serve(left, "left")
    assert b.one("tcp", "left.team.internal", PORT, "x") == "left:x"
    old = gate_service.gate_pid()
    gate_service.kill9(old)
    left.set({"mode": "open"})
    ended.remove()
    wait_for(lambda: b.one("tcp", "db.team.internal", PORT, "back") == "db:back", what="the way back")
    assert gate_service.gate_pid() != old
    assert b.tries(["name", "left.team.internal"], ["name", "ended.team.internal"]) == 2 * ["gaierror"]


LOOP = """
import socket, threading
seen = [0]
def pass_on(sock):
    seen[0] += 1
    try: other = socket.create_connection(("ring.team.internal", 7071), 9); sock.sendall(other.recv(99) or b"end")
    except OSError as e: sock.sendall(type(e).__name__.encode())
    sock.close()
def serve(s):
    while True: threading.Thread(target=pass_on, args=(s.accept()[0],), daemon=True).start()
threading.Thread(target=serve, args=(socket.create_server(("127.0.0.1", 7071)),), daemon=True).start()
print(socket.create_connection(("127.0.0.1", 7071), 30).recv(99).decode(), seen[0])
"""


def test_a_loop_ends_at_the_limit_of_connections(gate_box):
    b = gate_box(team("ring", maxConnections=12))
    assert b.run("python3", "-c", LOOP)["stdout"].split() == ["ConnectionResetError", "13"]
    b.logged(verdict="denied", rule="limit: connections")


def test_one_that_is_paused_is_not_woken(gate_box):
    b, peer = gate_box(team()), gate_box(team("asleep"))
    serve(peer, "mine")
    peer.op.post(f"/v1/sandboxes/{peer.id}/pause", {}, expect=200)
    assert b.one("tcp", "asleep.team.internal", PORT, "x") == "ConnectionResetError"
    assert peer.op.get(f"/v1/sandboxes/{peer.id}", expect=200)["state"] == "paused"
    peer.op.post(f"/v1/sandboxes/{peer.id}/resume", {}, expect=200)
    assert b.one("tcp", "asleep.team.internal", PORT, "x") == "mine:x"


def test_what_lies_above_holds_for_members_too(gate_service):
    org, tenant = gate_service.tenant("bounded")
    operator = gate_service.operator
    operator.put(f"/v1/orgs/{org}/network", team(), expect=400)
    operator.put(f"/v1/orgs/{org}/network", {"mode": "filtered", "allow": ["*.team.internal"]}, expect=200)
    box = tenant.post("/v1/sandboxes", {"network": team("self")}, expect=201)["id"]

    def explain():
        return tenant.get(f"/v1/sandboxes/{box}/network/explain", query={"to": "self.team.internal:80"}, expect=200)["rule"]
    assert explain() == "network team"
    operator.put(f"/v1/orgs/{org}/network", {"mode": "none"}, expect=200)
    assert explain() == "organisation: mode none"
    operator.delete(f"/v1/orgs/{org}/network")
    tenant.delete(f"/v1/sandboxes/{box}", expect=204)


def test_a_door_that_does_not_know_networks_does_not_clear_them(gate_service, db):
    op = gate_service.operator
    box = op.post("/sandboxes", {"templateID": "host"}, expect=201)["sandboxID"]
    op.put(f"/v1/sandboxes/{box}/network", team("door"), expect=200)
    op.put(f"/sandboxes/{box}/network", {"denyOut": ["0.0.0.0/0"]}, expect=204)
    assert op.get(f"/v1/sandboxes/{box}/network", expect=200)["networks"] == ["team"]
    assert db.one("name", "door.team.internal")[0].startswith("198.18.")
    op.delete(f"/v1/sandboxes/{box}", expect=204)


def test_the_command_line(gate_service, db):
    def cli(*words):
        return gate_service.runner.sandglass(*words, env={"SANDGLASS_CONFIG": str(gate_service.config)})
    made = cli("create", "--join", "team", "--join-as", "cli")
    assert made.returncode == 0, made.stderr
    box = made.stdout.strip()
    assert db.one("name", "cli.team.internal")[0].startswith("198.18.")
    done = cli("net", "set", "--join", "a", "--join", "b", box)
    assert json.loads(done.stdout) == {"mode": "none", "allow": [], "deny": [], "networks": ["a", "b"]}
    assert cli("rm", box).returncode == 0
