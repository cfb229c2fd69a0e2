# SPDX-License-Identifier: Apache-2.0
"""The gate against servers that the test starts itself, in namespaces of its own (support/world.py).
"""
import json
import os

from gatebox import GET, Box
from service import Service, wait_for
from world import OTHER, PRIVATE, PUBLIC, SIX


# ---- what works ----

def test_without_a_network_nothing_is_reached(gate_box):
    b = gate_box({"mode": "none"})
    assert b.tries(["tcp", PUBLIC, 7, "x"], ["name", "example.com"], ["udp", PUBLIC, 53]) == [
        "OSError", "gaierror", "OSError"]
    assert b.log() == []


def test_a_name_gets_a_synthetic_address_that_leads_there(gate_box):
    b = gate_box({"mode": "filtered", "allow": ["example.com"]})
    address, = b.one("name", "example.com")
    assert address.startswith("198.18.")
    # who asks only for what the machine could use (AI_ADDRCONFIG) finds it, too
    assert address in b.run("getent", "ahostsv4", "example.com")["stdout"]
    assert b.one("tcp", "example.com", 7, "hello") == "hello"
    row = b.logged(name="example.com", verdict="allowed", port=7)
    assert (row["address"], row["rule"], row["bytesOut"], row["bytesIn"]) == (
        PUBLIC, "allow example.com", 5, 5)


def test_both_families_and_addresses_as_such(gate_box):
    b = gate_box({"mode": "filtered", "allow": [PUBLIC, f"{SIX}/64", "six.com"]})
    assert b.tries(["tcp", PUBLIC, 7, "4"], ["tcp", SIX, 7, "6"], ["tcp", "six.com", 7, "n"],
                   ["tcp", OTHER, 7, "x"]) == ["4", "6", "n", "ConnectionResetError"]


def test_mode_open_reaches_what_is_public_and_nothing_else(gate_box):
    b = gate_box({"mode": "open"})
    assert b.tries(["tcp", "example.com", 7, "a"], ["tcp", OTHER, 7, "b"], ["tcp", "inner.com", 7, "x"],
                   ["tcp", PRIVATE, 7, "x"]) == ["a", "b"] + 2 * ["ConnectionResetError"]


def test_wildcards_ports_and_denials(gate_box):
    b = gate_box({"mode": "filtered", "allow": ["*.example.com:7,80", "other.com:1-6"],
             "deny": ["deep.sub.example.com:80"]})
    assert b.tries(["tcp", "deep.sub.example.com", 7, "a"], ["name", "example.com"],
                   ["tcp", "other.com", 7, "x"]) == ["a", "gaierror", "ConnectionResetError"]
    assert "deny deep.sub.example.com:80" in b.one("tcp", "deep.sub.example.com", 80,
                                                   GET.format("deep.sub.example.com"))


def test_a_server_may_speak_first(gate_world, gate_box):
    gate_world.serve("1.1.1.1", 2525, lambda sock: (sock.sendall(b"220 ready\r\n"), sock.recv(100)))
    b = gate_box({"mode": "filtered", "allow": ["1.1.1.1"]})
    assert b.one("tcp", "1.1.1.1", 2525) == "220 ready\r\n"


def test_datagrams_pass_where_a_rule_says_so(gate_box):
    b = gate_box({"mode": "filtered", "allow": ["udp:example.com:123", f"udp:{PUBLIC}:123",
                                           f"udp:[{SIX}]:123", "other.com"]})
    assert b.tries(["udp", PUBLIC, 123, "q", 20], ["udp", PUBLIC, 123, "q", 20, True],
                   ["udp", SIX, 123, "q", 20], ["udp", OTHER, 123]) == [
        ["+q", PUBLIC, 123], ["+q", PUBLIC, 123], ["+q", SIX, 123], "TimeoutError"]
    reply = b.one("udp", "example.com", 123, "n", 20)
    assert reply[0] == "+n" and reply[1].startswith("198.18.") and reply[2] == 123


def test_a_policy_changes_while_it_runs(gate_box, gate_world):
    b = gate_box({"mode": "filtered", "allow": ["example.com"]})
    hold = b.op.post(f"/v1/sandboxes/{b.id}/exec", {"argv": ["python3", "-c", """
import socket
s = socket.create_connection(("example.com", 7)); s.sendall(b"x"); s.recv(1); print("up", flush=True)
try: print("end" if not s.recv(1) else "more")
except OSError as e: print(type(e).__name__)
"""], "background": True}, expect=201)
    output = f"/v1/sandboxes/{b.id}/execs/{hold['id']}/output"
    wait_for(lambda: "up" in b.op.get(output).body.decode(), what="the connection")
    assert b.set({"mode": "filtered", "allow": ["other.com"]})["allow"] == ["other.com"]
    wait_for(lambda: "ConnectionResetError" in b.op.get(output).body.decode(), what="its end")
    assert b.tries(["name", "example.com"], ["tcp", "other.com", 7, "o"]) == ["gaierror", "o"]
    b.set({"mode": "none"})
    assert b.one("tcp", OTHER, 7, "x") in ("ConnectionRefusedError", "OSError")
    b.set({"mode": "open"})
    assert b.one("tcp", "example.com", 7, "again") == "again"


def test_learning_records_what_would_have_sufficed(gate_box):
    b = gate_box({"mode": "filtered", "allow": ["example.com:7"], "learn": True, "deny": ["denied.net"]})
    assert b.tries(["tcp", "example.com", 7, "a"], ["tcp", "other.com", 7, "b"], ["tcp", OTHER, 7, "c"],
                   ["name", "denied.net"], ["tcp", PRIVATE, 7, "x"]) == [
        "a", "b", "c", "gaierror", "ConnectionResetError"]
    assert b.logged(name="other.com", verdict="learned")["rule"] == "learned"
    b.logged(address=OTHER, name="", verdict="learned")
    learned = b.op.get(f"/v1/sandboxes/{b.id}/network/learned", expect=200)
    assert sorted(learned["allow"]) == [f"{OTHER}:7", "example.com:7", "other.com:7"]
    b.set(learned)
    assert b.one("tcp", "other.com", 7, "b") == "b"


def test_an_organisation_and_a_template_bound_what_is_below(gate_service, gate_box):
    op = gate_service.operator
    org = op.get("/v1/orgs", expect=200)["orgs"][0]["id"]
    layers = (f"/v1/orgs/{org}/network", "/v1/templates/host/network")
    b = gate_box({"mode": "open"})
    assert b.tries(["tcp", "example.com", 7, "a"], ["tcp", OTHER, 7, "b"]) == ["a", "b"]
    try:
        op.put(layers[0], {"mode": "open", "deny": [OTHER], "maxConnections": 100}, expect=200)
        op.put(layers[1], {"mode": "filtered", "allow": ["example.com:7", OTHER, "udp:example.com:123"]}, expect=200)
        # The first that refuses, from above, is what decided; for what runs, too, and in the explanation.
        assert b.tries(["tcp", "example.com", 7, "a"], ["tcp", OTHER, 7, "b"], ["name", "other.com"]) == [
            "a", "ConnectionResetError", "gaierror"]
        b.logged(address=OTHER, verdict="denied", rule=f"organisation: deny {OTHER}")
        b.logged(name="other.com", verdict="denied", rule="template: no rule allows it")
        why = op.get(f"/v1/sandboxes/{b.id}/network/explain", query={"to": "example.com:80"}, expect=200)
        assert (why["allowed"], why["rule"]) == (False, "template: no rule allows it")
        # Made without a word about it: its template's; a word may ask for less, and gets no more.
        assert gate_box(None).one("tcp", "example.com", 7, "t") == "t"
        assert gate_box({"mode": "filtered", "allow": ["*"]}).tries(
            ["tcp", "example.com", 7, "a"], ["name", "other.com"]) == ["a", "gaierror"]
        assert gate_box({"mode": "none"}).one("tcp", PUBLIC, 7, "x") == "OSError"
        # A gate that is new is told of all of them.
        old = gate_service.gate_pid()
        gate_service.kill9(old)
        wait_for(lambda: gate_service.gate_pid() != old, what="another gate")
        wait_for(lambda: b.one("tcp", "example.com", 7, "a") == "a", what="the way back")
        assert b.one("tcp", OTHER, 7, "b") == "ConnectionResetError"
        gate_service.client(gate_service.key()).put(layers[0], {"mode": "open"}, expect=403)
        assert "10.0.0.0/33" in str(op.put(layers[1], {"allow": ["10.0.0.0/33"]}).json)
    finally:
        for layer in layers:
            op.delete(layer, expect=204)
    assert b.one("tcp", OTHER, 7, "b") == "b"
    op.get(layers[0], expect=404)


def test_explain_names_the_rule(gate_box):
    b = gate_box({"mode": "filtered", "allow": ["*.example.com:443"], "deny": ["bad.example.com"]})

    def explain(to):
        got = b.op.get(f"/v1/sandboxes/{b.id}/network/explain", query={"to": to}, expect=200)
        return got["allowed"], got["rule"]
    assert explain("a.example.com:443") == (True, "allow *.example.com:443")
    assert explain("A.Example.COM.:443") == (True, "allow *.example.com:443")
    assert explain("a.example.com:80") == (False, "no rule allows it")
    assert explain("bad.example.com:443") == (False, "deny bad.example.com")
    assert explain("[::ffff:169.254.169.254]:80") == (False, "always refused: metadata")
    assert explain("10.0.0.1:80") == (False, "always refused: private")
    b.op.get(f"/v1/sandboxes/{b.id}/network/explain", query={"to": "0x7f.1:80"}, expect=400)


def test_bad_policies_are_refused_whole(gate_box):
    b = gate_box({"mode": "filtered", "allow": ["example.com"]})
    for bad, word in (({"mode": "sometimes"}, "mode"), ({"allow": ["10.0.0.0/33"]}, "10.0.0.0/33"),
                      ({"allow": ["a..b"]}, "a..b"), ({"allow": ["exa mple.com"]}, "only letters"),
                      ({"allow": ["example.com:0"]}, "port"), ({"allow": ["example.com:99999"]}, "port"),
                      ({"mode": "none", "allow": ["example.com"]}, "none"),
                      ({"allow": ["example.com"], "deny": ["example.com"]}, "both"),
                      ({"allow": ["ex\u00e4mple.com"]}, "only letters"), ({"allow": [7]}, "text"),
                      ({"mode": "open", "learn": True}, "learn"), ({"allow": ["2130706433"]}, "address"),
                      ({"allow": ["a.com"] * 257}, "256"), ({"allow": ["[::1"]}, "bracket"),
                      ({"networks": ["a.b"]}, "a.b"), ({"networks": [7]}, "text"), ({"name": "db"}, "networks"),
                      ({"networks": ["team"], "name": "a b"}, "only letters"), ({"networks": ["google"]}, "metadata"),
                      ({"allow": ["db.team.internal"], "networks": ["team"]}, "never count"),
                      ({"unknown": 1}, "unknown")):
        assert word in str(b.op.put(f"/v1/sandboxes/{b.id}/network", bad).json), bad
        b.op.put(f"/v1/sandboxes/{b.id}/network", bad, expect=429 if word == "256" else 400)
        assert b.op.post("/v1/sandboxes", {"network": bad}).status in (400, 429)
    assert b.one("tcp", "example.com", 7, "still") == "still"


# ---- limits ----

def test_limits_on_connections_and_bytes(gate_box, gate_world):
    gate_world.serve(PUBLIC, 9000, lambda sock: sock.sendall(b"x" * 3_000_000))
    b = gate_box({"mode": "filtered", "allow": ["example.com"], "maxConnections": 3})
    got = b.run("python3", "-c", """
import socket
held = []
for i in range(6):
    try:
        s = socket.create_connection(("example.com", 7), 5); s.settimeout(5)
        s.sendall(b"x"); s.recv(1); held.append(s)
    except OSError as e: pass
print(len(held))
""")
    assert got["stdout"] == "3\n", got
    b.logged(rule="limit: connections", verdict="denied")
    b.set({"mode": "filtered", "allow": ["example.com"], "maxBytes": 1_000_000})
    got = b.run("python3", "-c", """
import socket
n = 0
try:
    s = socket.create_connection(("example.com", 9000), 5)
    while piece := s.recv(65536): n += len(piece)
except OSError as e: print(type(e).__name__)
print(n < 3000000)
""")
    assert got["stdout"].split()[-1] == "True", got
    assert "limit: bytes" in b.logged(port=9000)["rule"]
    b.set({"mode": "filtered", "allow": ["example.com"], "connectionsPerSecond": 2})
    got = b.tries(*[["tcp", "example.com", 7, "x"]] * 20)
    assert "ConnectionResetError" in got and "x" in got


def test_bandwidth_is_shared_out(gate_box, gate_world):
    gate_world.serve(PUBLIC, 9001, lambda sock: sock.sendall(b"x" * 4_000_000))
    b = gate_box({"mode": "filtered", "allow": ["example.com"], "mbps": 16})  # 2 MB a second
    got = b.run("python3", "-c", """
import socket
n = 0
s = socket.create_connection(("example.com", 9001), 5)
while piece := s.recv(65536): n += len(piece)
print(n)
""")
    assert got["stdout"] == "4000000\n", got
    # A law that holds on any machine: never more than what the time allows, and the bucket of 100 KB (and a chunk
    # of 256 KiB that may go beyond it).
    row = b.logged(port=9001, verdict="allowed")
    assert row["bytesIn"] == 4_000_000
    assert row["bytesIn"] <= (row["durationMs"] + 1) * 2000 + 100_000 + (256 << 10), row


# ---- the gate's own life ----

def test_62_a_gate_that_is_killed_is_closed_and_comes_back(gate_service, gate_box):
    b = gate_box({"mode": "filtered", "allow": ["example.com"]})
    others = [gate_box({"mode": "open"}) for _ in range(3)]
    run = b.op.post(f"/v1/sandboxes/{b.id}/exec", {"argv": ["python3", "-c", """
import socket, time, threading
outcomes = set()
def work():
    end = time.monotonic() + 3
    while time.monotonic() < end:
        try:
            s = socket.create_connection(("example.com", 7), 5); s.settimeout(5)
            s.sendall(b"abc"); outcomes.add(s.recv(3).decode() or "end"); s.close()
        except OSError as e: outcomes.add(type(e).__name__)
        try:
            s = socket.create_connection(("151.101.1.69", 7), 5); s.settimeout(5)
            s.sendall(b"leak"); outcomes.add("leak" if s.recv(4) else "end"); s.close()
        except OSError as e: outcomes.add(type(e).__name__)
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(outcomes))
"""], "background": True}, expect=201)
    output = f"/v1/sandboxes/{b.id}/execs/{run['id']}/output"
    launcher, starts = gate_service.launcher_pid(), []
    held = len(os.listdir(f"/proc/{launcher}/fd"))
    for _ in range(3):
        old = gate_service.gate_pid()
        gate_service.kill9(old)
        starts.append(wait_for(lambda: (pid := gate_service.gate_pid()) != old and pid, what="another gate"))
    assert len(set(starts)) == 3  # each was followed by exactly one (how soon: _Static_assert in launcher/child.h)
    wait_for(lambda: '"complete":true' in b.op.get(output).body.decode(), seconds=20,
             what="the end of the load")
    text = json.loads(b.op.get(output).body.decode().splitlines()[0])["data"]
    assert "abc" in text and "leak" not in text, text
    assert wait_for(lambda: b.one("tcp", "example.com", 7, "back") == "back", what="the way back")
    for other in others:
        wait_for(lambda: other.one("tcp", OTHER, 7, "o") == "o", what="the others' way back")
    assert b.op.get(f"/v1/sandboxes/{b.id}", expect=200)["state"] == "running"
    # Nothing of the gates that are gone is left with the launcher.
    wait_for(lambda: len(os.listdir(f"/proc/{launcher}/fd")) <= held, what="as many descriptors as before")


def test_62_daemon_and_launcher_may_die_too(gate_world):
    with Service(pool=1, gate=gate_world.settings()) as service:
        b = Box(service, {"mode": "filtered", "allow": ["example.com"]})
        service.kill9_daemon()
        # The gate goes on by itself; what was recorded meanwhile is told to the next daemon.
        service.wait_ready()
        assert b.one("tcp", "example.com", 7, "d") == "d"
        assert b.one("tcp", OTHER, 7, "x") == "ConnectionResetError"
        b.logged(address=OTHER, verdict="denied")
        service.kill9_launcher()
        service.wait_ready()
        wait_for(lambda: b.one("tcp", "example.com", 7, "l") == "l", what="the way back")
        assert b.one("tcp", OTHER, 7, "x") == "ConnectionResetError"
        b.remove()


def test_names_that_cannot_be_looked_up_fail_clearly(gate_world, gate_box):
    b = gate_box({"mode": "open"})
    assert b.tries(["name", "no.such.name.com"], ["name", "empty.com"], ["name", "plain"]) == 3 * ["gaierror"]
    gate_world.answers_names = False
    try:
        assert b.one("name", "never.asked.com") == "gaierror"
    finally:
        gate_world.answers_names = True
    # A port where nobody listens: the connection is reset, and the record says why.
    assert b.one("tcp", "example.com", 4321, "x") == "ConnectionResetError"
    assert "refused" in b.logged(port=4321)["rule"]


def test_bytes_are_counted(gate_service, gate_box):
    b = gate_box({"mode": "open"})
    assert len(b.one("tcp", PUBLIC, 7, "y" * 5000)) == 5000

    def used():
        rows = gate_service.operator.get("/v1/usage", expect=200)["usage"]
        return any(r.get("sandbox") == b.id and r["networkBytesOut"] >= 5000
                   and r["networkBytesIn"] >= 5000 for r in rows)
    wait_for(used, what="the usage")
    text = gate_service.operator.get("/metrics").body.decode()
    assert "sandglass_net_connections_total" in text and "sandglass_net_refused_total" in text


def test_many_connections_at_once(gate_box):
    b = gate_box({"mode": "open"}, limits={"memoryBytes": 1 << 29})
    got = b.run("python3", "-c", """
import resource, socket
held = []
for i in range(900):
    s = socket.create_connection(("93.184.216.34", 7), 10); held.append(s)
for s in held: s.settimeout(10); s.sendall(b"ping")
print(sum(s.recv(4) == b"ping" for s in held))
""")
    assert got["stdout"] == "900\n", got


def test_a_stream_arrives_whole_in_both_directions(gate_box):
    b = gate_box({"mode": "filtered", "allow": ["example.com"]})
    got = b.run("python3", "-c", """
import hashlib, os, socket, threading
data = os.urandom(1 << 20) * 24
s = socket.create_connection(("example.com", 7), 10)
def send(): s.sendall(data); s.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
h = hashlib.sha256()
while piece := s.recv(1 << 20): h.update(piece)
print(h.hexdigest() == hashlib.sha256(data).hexdigest())
""")
    assert got["stdout"] == "True\n", got


# ---- as the E2B clients say it ----

class E2b:
    """A sandbox made by that door, looked at through ours."""

    def __init__(self, service, key, **create):
        self.call = service.client(key)
        made = self.call.post("/v2/sandboxes", {"templateID": "host", **create}, expect=201)
        self.id, self.op = made["sandboxID"], service.operator

    def reaches(self, *hosts):
        script = """
import socket, sys
for host in sys.argv[1:]:
    try:
        with socket.create_connection((host, 7), 5) as s:
            s.sendall(b"x"); print(s.recv(1) == b"x")
    except OSError: print(False)
"""
        got = self.op.post(f"/v1/sandboxes/{self.id}/exec", {"argv": ["python3", "-c", script, *hosts]},
                           expect=200)
        return [line == "True" for line in got["stdout"].split()]

    def put(self, network, status=204):
        assert self.call.put(f"/sandboxes/{self.id}/network", network).status == status


def test_e2b_settings_are_enforced(gate_service):
    key = gate_service.key()
    everything = ("example.com", PUBLIC, OTHER, PRIVATE)

    def made(**create):
        box = E2b(gate_service, key, **create)
        got = box.reaches(*everything)
        return box, got
    box, got = made()
    assert got == [True, True, True, False]
    box.put({"denyOut": [OTHER]})
    assert box.reaches(*everything) == [True, True, False, False]
    box.put({"allowOut": ["example.com"], "denyOut": ["0.0.0.0/0"]})
    assert box.reaches(*everything) == [True, False, False, False]
    box.put({"allow_internet_access": False})
    assert box.reaches(*everything) == [False, False, False, False]
    box.put({"allowOut": ["example.com"]}, 400)  # a name needs everything else denied
    assert box.reaches(*everything) == [False, False, False, False]
    box.put({})
    assert box.reaches(*everything) == [True, True, True, False]
    for create, expected in (
            ({"allow_internet_access": False}, [False, False, False, False]),
            ({"network": {"denyOut": ["0.0.0.0/0"], "allowOut": [OTHER]}}, [False, False, True, False]),
            # What is allowed beats what is denied, and private addresses stay what they are.
            ({"network": {"denyOut": [f"{OTHER}/8"], "allowOut": [OTHER, PRIVATE]}}, [True, True, True, False])):
        assert made(**create)[1] == expected, create
    for one in gate_service.client(key).get("/v2/sandboxes", expect=200):
        gate_service.client(key).delete(f"/sandboxes/{one['sandboxID']}", expect=204)


def test_the_command_line(gate_service, gate_box):
    def cli(*words):
        return gate_service.runner.sandglass("net", *words, env={"SANDGLASS_CONFIG": str(gate_service.config)})
    b = gate_box("open")
    assert b.one("tcp", "example.com", 7, "x") == "x"
    done = cli("set", "--allow", "example.com:7", "--block", "other.com", b.id)
    assert json.loads(done.stdout) == {"mode": "filtered", "allow": ["example.com:7"], "deny": ["other.com"]}
    assert b.one("tcp", PUBLIC, 7, "x") == "ConnectionResetError"
    b.logged(verdict="denied", address=PUBLIC)
    done = cli("log", b.id)
    assert "example.com:7 (93.184.216.34)  out 1 in 1  mode open" in done.stdout
    assert f"denied   tcp  {PUBLIC}:7" in done.stdout
    done = cli("explain", b.id, "example.com:7")
    assert (done.returncode, done.stdout) == (0, "allowed: allow example.com:7\n")
    done = cli("explain", b.id, "other.com:7")
    assert (done.returncode, done.stdout) == (1, "denied: deny other.com\n")
    done = cli("set", "--allow", "a..b", b.id)
    assert done.returncode == 2 and "a..b" in done.stderr
