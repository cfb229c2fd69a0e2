# SPDX-License-Identifier: Apache-2.0
"""The gate against servers that the test starts itself, in namespaces of its own (support/world.py).

A program inside (CLIENT) tries what it is told and prints what came of it, so that one exec makes
many attempts.
"""
import contextlib
import json
import socket
import ssl
import subprocess
import threading
import time

import pytest

import leaks
import world as worlds
from service import Service, wait_for
from world import METADATA, OTHER, PRIVATE, PUBLIC, SIX, World

CLIENT = r'''
import json, socket, ssl, struct, sys, time

def tcp(host, port, say="", wait=True, family=0):
    """What came back, or the error's name."""
    try:
        for info in socket.getaddrinfo(host, port, family, socket.SOCK_STREAM):
            with socket.socket(*info[:3]) as sock:
                sock.settimeout(8)
                sock.connect(info[4])
                if say:
                    sock.sendall(say.encode("latin-1"))
                if not wait:
                    return "connected"
                sock.shutdown(socket.SHUT_WR) if say == "" else None
                got = b""
                while len(got) < 65536:
                    piece = sock.recv(65536)
                    if not piece:
                        break
                    got += piece
                    if say and not say.startswith(("GET", "POST")) and len(got) >= len(say):
                        break
                    if say.startswith(("GET", "POST")) and b"\r\n\r\n" in got:
                        break
                return got.decode("latin-1")
    except OSError as e:
        return type(e).__name__

def tls(host, port, sni):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), 8) as sock:
            with context.wrap_socket(sock, server_hostname=sni) as secure:
                secure.sendall(b"hi")
                return secure.recv(100).decode()
    except OSError as e:
        return type(e).__name__

def udp(host, port, say="x", seconds=1.0, connected=False):
    try:
        info = socket.getaddrinfo(host, port, 0, socket.SOCK_DGRAM)[0]
        with socket.socket(*info[:3]) as sock:
            sock.settimeout(seconds)
            if connected:
                sock.connect(info[4])
                sock.send(say.encode("latin-1"))
            else:
                sock.sendto(say.encode("latin-1"), info[4])
            data, sender = sock.recvfrom(65536)
            return [data.decode("latin-1"), sender[0], sender[1]]
    except OSError as e:
        return type(e).__name__

def name(host):
    try:
        return sorted({info[4][0] for info in socket.getaddrinfo(host, 0)})
    except (OSError, UnicodeError) as e:
        return type(e).__name__

def dns(server, host, kind=1):
    """The reply's code and its addresses, asked of any server."""
    labels = b"".join(bytes([len(p)]) + p.encode("latin-1") for p in host.split("."))
    query = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0" + labels + b"\0" + struct.pack("!HH", kind, 1)
    got = udp(server, 53, query.decode("latin-1"))
    if isinstance(got, str):
        return got
    data = got[0].encode("latin-1")
    return [data[3] & 15, struct.unpack("!H", data[6:8])[0]]

for line in sys.argv[1:]:
    function, *args = json.loads(line)
    print(json.dumps(globals()[function](*args)), flush=True)
'''


class Box:
    def __init__(self, service, network, **create):
        self.service = service
        self.op = service.operator
        self.id = self.op.post("/v1/sandboxes", {"network": network, **create}, expect=201)["id"]
        self.op.put(f"/v1/sandboxes/{self.id}/files", CLIENT.encode(), query={"path": "/tmp/client.py"})

    def run(self, *argv, seconds=60):
        return self.op.post(f"/v1/sandboxes/{self.id}/exec",
                            {"argv": list(argv), "timeoutMs": seconds * 1000}, expect=200)

    def tries(self, *attempts):
        """One result for each [function, arguments...]."""
        got = self.run("python3", "/tmp/client.py", *map(json.dumps, attempts))
        assert got["exitCode"] == 0, got
        return [json.loads(line) for line in got["stdout"].splitlines()]

    def one(self, *attempt):
        return self.tries(attempt)[0]

    def set(self, network, expect=200):
        return self.op.put(f"/v1/sandboxes/{self.id}/network", network, expect=expect)

    def log(self):
        return self.op.get(f"/v1/sandboxes/{self.id}/connections", query={"limit": 1000},
                           expect=200)["connections"]

    def logged(self, **wanted):
        """Waits for a row that is so."""
        def look():
            return next((row for row in self.log()
                         if all(row[k] == v for k, v in wanted.items())), None)
        return wait_for(look, what=f"a row with {wanted}")

    def remove(self):
        self.op.delete(f"/v1/sandboxes/{self.id}", expect=204)


@pytest.fixture(scope="module")
def world():
    with World() as made:
        made.names.update({
            "example.com": [PUBLIC], "other.com": [OTHER], "inner.com": [PRIVATE],
            "meta.com": [METADATA], "six.com": [SIX], "both.com": [PRIVATE, PUBLIC],
            "six-private.com": ["fc00::7"], "six-meta.com": ["fd00:ec2::254"], "own.com": ["203.0.113.1"],
            "deep.sub.example.com": [PUBLIC], "xn--exmple-cua.com": [OTHER], "empty.com": [],
            "denied.net": [OTHER],
        })
        made.aliases["alias.com"] = "denied.net"
        for address in worlds.ADDRESSES[1:] + worlds.SIXES:
            made.echo(address, 7)
            made.http(address, 80)
        made.echo(PUBLIC, 22)
        made.datagrams(PUBLIC, 123)
        made.datagrams(SIX, 123)
        yield made


@pytest.fixture(scope="module")
def service(world):
    with Service(pool=2, gate=world.settings()) as made:
        yield made


@pytest.fixture
def box(service):
    made = []

    def make(network, **create):
        made.append(Box(service, network, **create))
        return made[-1]
    yield make
    for one in made:
        one.remove()


GET = "GET / HTTP/1.1\r\nHost: {}\r\n\r\n"


# ---- what works ----

def test_without_a_network_nothing_is_reached(box):
    b = box({"mode": "none"})
    assert b.tries(["tcp", PUBLIC, 7, "x"], ["name", "example.com"], ["udp", PUBLIC, 53]) == [
        "OSError", "gaierror", "OSError"]
    assert b.log() == []


def test_a_name_gets_a_synthetic_address_that_leads_there(box):
    b = box({"mode": "filtered", "allow": ["example.com"]})
    address, = b.one("name", "example.com")
    assert address.startswith("198.18.")
    assert b.one("tcp", "example.com", 7, "hello") == "hello"
    row = b.logged(name="example.com", verdict="allowed", port=7)
    assert (row["address"], row["rule"], row["bytesOut"], row["bytesIn"]) == (
        PUBLIC, "allow example.com", 5, 5)


def test_both_families_and_addresses_as_such(box):
    b = box({"mode": "filtered", "allow": [PUBLIC, f"{SIX}/64", "six.com"]})
    assert b.tries(["tcp", PUBLIC, 7, "4"], ["tcp", SIX, 7, "6"], ["tcp", "six.com", 7, "n"],
                   ["tcp", OTHER, 7, "x"]) == ["4", "6", "n", "ConnectionResetError"]


def test_mode_open_reaches_what_is_public_and_nothing_else(box):
    b = box({"mode": "open"})
    assert b.tries(["tcp", "example.com", 7, "a"], ["tcp", OTHER, 7, "b"], ["tcp", "inner.com", 7, "x"],
                   ["tcp", PRIVATE, 7, "x"]) == ["a", "b"] + 2 * ["ConnectionResetError"]


def test_wildcards_ports_and_denials(box):
    b = box({"mode": "filtered", "allow": ["*.example.com:7,80", "other.com:1-6"],
             "deny": ["deep.sub.example.com:80"]})
    assert b.tries(["tcp", "deep.sub.example.com", 7, "a"], ["name", "example.com"],
                   ["tcp", "other.com", 7, "x"]) == ["a", "gaierror", "ConnectionResetError"]
    assert "deny deep.sub.example.com:80" in b.one("tcp", "deep.sub.example.com", 80,
                                                   GET.format("deep.sub.example.com"))


def test_a_server_may_speak_first(world, box):
    world.serve("1.1.1.1", 2525, lambda sock: (sock.sendall(b"220 ready\r\n"), sock.recv(100)))
    b = box({"mode": "filtered", "allow": ["1.1.1.1"]})
    assert b.one("tcp", "1.1.1.1", 2525) == "220 ready\r\n"


def test_datagrams_pass_where_a_rule_says_so(box):
    b = box({"mode": "filtered", "allow": ["udp:example.com:123", f"udp:{PUBLIC}:123",
                                           f"udp:[{SIX}]:123", "other.com"]})
    assert b.tries(["udp", PUBLIC, 123, "q"], ["udp", PUBLIC, 123, "q", 1.0, True],
                   ["udp", SIX, 123, "q"], ["udp", OTHER, 123]) == [
        ["+q", PUBLIC, 123], ["+q", PUBLIC, 123], ["+q", SIX, 123], "TimeoutError"]
    reply = b.one("udp", "example.com", 123, "n")
    assert reply[0] == "+n" and reply[1].startswith("198.18.") and reply[2] == 123


def test_a_policy_changes_while_it_runs(box, world):
    b = box({"mode": "filtered", "allow": ["example.com"]})
    hold = b.op.post(f"/v1/sandboxes/{b.id}/exec", {"argv": ["python3", "-c", f"""
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


def test_learning_records_what_would_have_sufficed(box):
    b = box({"mode": "filtered", "allow": ["example.com:7"], "learn": True, "deny": ["denied.net"]})
    assert b.tries(["tcp", "example.com", 7, "a"], ["tcp", "other.com", 7, "b"], ["tcp", OTHER, 7, "c"],
                   ["name", "denied.net"], ["tcp", PRIVATE, 7, "x"]) == [
        "a", "b", "c", "gaierror", "ConnectionResetError"]
    assert b.logged(name="other.com", verdict="learned")["rule"] == "learned"
    b.logged(address=OTHER, name="", verdict="learned")
    learned = b.op.get(f"/v1/sandboxes/{b.id}/network/learned", expect=200)
    assert sorted(learned["allow"]) == [f"{OTHER}:7", "example.com:7", "other.com:7"]
    b.set(learned)
    assert b.one("tcp", "other.com", 7, "b") == "b"


def test_explain_names_the_rule(box):
    b = box({"mode": "filtered", "allow": ["*.example.com:443"], "deny": ["bad.example.com"]})

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


def test_bad_policies_are_refused_whole(box):
    b = box({"mode": "filtered", "allow": ["example.com"]})
    for bad, word in (({"mode": "sometimes"}, "mode"), ({"allow": ["10.0.0.0/33"]}, "10.0.0.0/33"),
                      ({"allow": ["a..b"]}, "a..b"), ({"allow": ["exa mple.com"]}, "only letters"),
                      ({"allow": ["example.com:0"]}, "port"), ({"allow": ["example.com:99999"]}, "port"),
                      ({"mode": "none", "allow": ["example.com"]}, "none"),
                      ({"allow": ["example.com"], "deny": ["example.com"]}, "both"),
                      ({"allow": ["ex\u00e4mple.com"]}, "only letters"), ({"allow": [7]}, "text"),
                      ({"mode": "open", "learn": True}, "learn"), ({"allow": ["2130706433"]}, "address"),
                      ({"allow": ["a.com"] * 257}, "256"), ({"allow": ["[::1"]}, "bracket"),
                      ({"unknown": 1}, "unknown")):
        assert word in str(b.op.put(f"/v1/sandboxes/{b.id}/network", bad).json), bad
        b.op.put(f"/v1/sandboxes/{b.id}/network", bad, expect=429 if word == "256" else 400)
        assert b.op.post("/v1/sandboxes", {"network": bad}).status in (400, 429)
    assert b.one("tcp", "example.com", 7, "still") == "still"


# ---- what must not happen: the cases of docs/design/security-cases.md, Network ----

def test_52_metadata_in_every_spelling(world, box):
    b = box({"mode": "open"})
    spellings = [METADATA, "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518",
                 "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "fd00:ec2::254", "meta.com", "six-meta.com",
                 "100.100.100.200"]
    for got in b.tries(*(["tcp", host, 80, GET.format("x")] for host in spellings)):
        assert "hello" not in got and ("always refused: metadata" in got or got.endswith("Error")), got
    b.logged(address=METADATA, verdict="denied", rule="always refused: metadata")
    # A redirect is a new connection like any other.
    world.serve("1.1.1.1", 8001, lambda sock: (sock.recv(4096), sock.sendall(
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n"
        b"Connection: close\r\n\r\n")))
    got = b.run("curl", "-sSL", "-m", "8", "http://1.1.1.1:8001/")
    assert "always refused: metadata" in got["stdout"]


def test_53_private_and_own_addresses(service, world, box):
    b = box({"mode": "open"})
    hosts = [PRIVATE, "192.168.7.7", "172.20.1.1", "203.0.113.1", "203.0.113.2", "fc00::7", "2001:db8::1",
             "fe80::1%lo", "::ffff:10.9.8.7", "64:ff9b::a09:807", "2002:a09:807::1", "0.0.0.0", "inner.com",
             "own.com", "six-private.com", "198.18.0.1", "198.19.255.255"]
    got = b.tries(*(["tcp", host, 7, "x"] for host in hosts))
    assert all(one.endswith("Error") for one in got), dict(zip(hosts, got))
    # The service's own port, by the loopback address (which is the sandbox's own) and the cable's.
    got = b.tries(["tcp", "127.0.0.1", service.port, "x"], ["tcp", "203.0.113.1", service.port, "x"])
    assert got == ["ConnectionRefusedError", "ConnectionResetError"]


def test_53_only_the_settings_open_private_networks(world):
    with Service(pool=0, gate=world.settings(permit=["10.9.8.0/24"])) as service:
        b = Box(service, {"mode": "filtered", "allow": ["inner.com", "192.168.7.7"]})
        assert b.tries(["tcp", "inner.com", 7, "in"], ["tcp", PRIVATE, 7, "x"],
                       ["tcp", "192.168.7.7", 7, "x"]) == ["in"] + 2 * ["ConnectionResetError"]
        b.remove()


def test_54_rebinding_and_aliases(world, box):
    answers = []

    def rebind():
        answers.append(1)
        return [PUBLIC] if len(answers) <= 1 else [PRIVATE]
    world.names["rebind.com"] = rebind
    b = box({"mode": "filtered", "allow": ["rebind.com", "alias.com", "both.com"], "deny": ["denied.net"]})
    # Whatever is answered later, only an address that was judged is dialled.
    got = b.tries(*[["tcp", "rebind.com", 7, "x"]] * 5)
    assert set(got) <= {"x", "ConnectionResetError"}
    assert all(row["address"] != PRIVATE or row["verdict"] == "denied" for row in b.log())
    world.names["rebind.com"] = lambda: [PRIVATE]
    assert b.tries(["tcp", "alias.com", 7, "x"], ["tcp", "both.com", 7, "b"]) == ["ConnectionResetError", "b"]
    b.logged(name="alias.com", verdict="denied", rule="deny denied.net")
    b.logged(name="both.com", verdict="allowed", address=PUBLIC)


def certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2",
                    "-subj", "/CN=example.com"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def test_55_names_in_tls_must_agree(world, box, tmp_path):
    context = certificate(tmp_path)

    def handle(sock):
        with context.wrap_socket(sock, server_side=True) as secure:
            secure.sendall(b"secret:" + secure.recv(100))
    world.serve(PUBLIC, 443, handle)
    world.serve(PUBLIC, 8443, handle)
    b = box({"mode": "filtered", "allow": ["example.com", f"{PUBLIC}:8443"]})
    assert b.tries(["tls", "example.com", 443, "example.com"], ["tls", "example.com", 443, "EXAMPLE.com"],
                   ["tls", "example.com", 443, "other.com"], ["tls", "example.com", 443, None],
                   ["tls", "example.com", 8443, "other.com"], ["tls", PUBLIC, 8443, None],
                   ["tcp", "example.com", 443, "SSH-2.0-x"]) == [
        "secret:hi", "secret:hi"] + 3 * ["ConnectionResetError"] + ["secret:hi", "ConnectionResetError"]
    b.logged(rule="tls: no server is named", verdict="denied")
    # In pieces, over several records, it is read all the same; an encrypted hello is not.
    b.set({"mode": "open", "deny": ["other.com"]})
    assert b.tries(["tls", PUBLIC, 443, "other.com"], ["tls", PUBLIC, 443, "fine.com"]) == [
        "ConnectionResetError", "secret:hi"]


def test_55_every_request_names_its_host(world, box):
    b = box({"mode": "filtered", "allow": ["example.com"]})
    good = GET.format("example.com")
    assert " example.com hello" in b.one("tcp", "example.com", 80, good)
    for say in (GET.format("other.com"), "GET / HTTP/1.0\r\n\r\n", GET.format("example.com:81"),
                "GET http://other.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
                "CONNECT other.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: example.com\r\nHost: other.com\r\n\r\n",
                "GET / HTTP/1.1\nHost: example.com\n\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"):
        got = b.one("tcp", "example.com", 80, say)
        assert "403 Forbidden" in got and "hello" not in got, (say, got)
    # A second request on the same connection, behind a body, is read like the first.
    script = f"""
import socket
s = socket.create_connection(("example.com", 80))
s.sendall(b"POST /a HTTP/1.1\\r\\nHost: example.com\\r\\nContent-Length: 3\\r\\n\\r\\nabc")
print(s.recv(1000).split(b"\\r\\n\\r\\n")[1])
s.sendall(b"POST /b HTTP/1.1\\r\\nHost: example.com\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n3\\r\\nabc\\r\\n0\\r\\n\\r\\n"
          b"GET /c HTTP/1.1\\r\\nHost: other.com\\r\\n\\r\\n")
got = b""
try:
    while piece := s.recv(1000): got += piece
except OSError as e: got += type(e).__name__.encode()
print(b"/c" in got, b"other.com" in got)
"""
    got = b.run("python3", "-c", script)
    assert got["stdout"].splitlines() == ["b'/a example.com hello\\n'", "False False"], got


def test_55_an_upgrade_that_is_none_hides_nothing(world, box):
    def refuse(sock):
        sock.recv(4096)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
        sock.sendall(b"got:" + sock.recv(4096))

    def accept(sock):
        sock.recv(4096)
        sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
        sock.sendall(b"got:" + sock.recv(4096))
    world.serve(PUBLIC, 8080, refuse)
    world.serve(PUBLIC, 8081, accept)
    b = box({"mode": "filtered", "allow": ["example.com"]})
    script = """
import socket, sys
for port in (8080, 8081):
    s = socket.create_connection(("example.com", port))
    s.sendall(b"GET / HTTP/1.1\\r\\nHost: example.com:%d\\r\\nConnection: upgrade\\r\\nUpgrade: x\\r\\n\\r\\n" % port)
    s.recv(1000)
    try:
        s.sendall(b"GET / HTTP/1.1\\r\\nHost: other.com\\r\\n\\r\\n")
        print(b"got:" in s.recv(1000) + s.recv(1000))
    except OSError as e: print(type(e).__name__)
"""
    got = b.run("python3", "-c", script)["stdout"].split()
    assert got[0] in ("False", "ConnectionResetError") and got[1] == "True", got


def test_56_names_have_one_form(world, box):
    b = box({"mode": "filtered", "allow": ["Example.COM."]})
    names = ["example.com", "EXAMPLE.com", "example.com.", "xn--exmple-cua.com", "example.com.other.com",
             "a" * 64 + ".com", ".".join(["a" * 60] * 5), "example%2ecom", "exa mple.com"]
    got = b.tries(*(["name", one] for one in names))
    assert got[0] == got[1] == got[2] and got[0][0].startswith("198.18."), got
    assert all(isinstance(one, str) for one in got[3:]), got
    labels = ["example\0.com", "example.com\0.other.com", "exam\u00e4ple.com"]
    assert all(one[0] in (1, 3) and one[1] == 0
               for one in b.tries(*(["dns", "198.18.0.1", one] for one in labels)))


def test_57_only_the_gate_answers_for_names(world, box):
    b = box({"mode": "filtered", "allow": ["example.com", "1.1.1.1"]})
    del world.asked[:]
    # Any server is the gate; what no rule allows is asked for nowhere.
    assert b.tries(["dns", "8.8.8.8", "example.com"], ["dns", worlds.DNS, "secret-data.other.com"],
                   ["dns", "198.18.0.1", "example.com", 16], ["dns", "2001:4860:4860::8888", "example.com"]) == [
        [0, 1], [3, 0], [0, 0], [0, 1]]
    assert {name for name, _ in world.asked} <= {"example.com"}
    # DNS over TCP, over TLS, over QUIC; other datagrams.
    b.set({"mode": "open"})
    assert b.tries(["tcp", worlds.DNS, 53, "x"], ["tcp", "1.1.1.1", 853, "x"], ["udp", "1.1.1.1", 853],
                   ["udp", PUBLIC, 443], ["udp", PUBLIC, 123]) == [
        "ConnectionResetError", "ConnectionResetError"] + 3 * ["TimeoutError"]
    b.logged(port=853, verdict="denied", protocol="tcp")
    b.logged(port=123, verdict="denied", protocol="udp")


def test_57_questions_are_capped(world, box):
    b = box({"mode": "filtered", "allow": ["*.flood.com"]})
    del world.asked[:]
    got = b.run("python3", "-c", """
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(5000):
    label = b"n%d" % i
    s.sendto(struct.pack("!HHHHHH", i, 256, 1, 0, 0, 0) + bytes([len(label)]) + label + b"\\5flood\\3com\\0\\0\\1\\0\\1", ("9.9.9.9", 53))
print("sent")
""")
    assert got["stdout"] == "sent\n"
    assert len({name for name, _ in world.asked}) < 1500


def test_59_raw_sockets_and_other_families_lead_nowhere(box):
    b = box({"mode": "open"})
    got = b.run("python3", "-c", """
import socket
for family, kind, proto in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_PACKET, socket.SOCK_RAW, 3),
                            (socket.AF_INET, socket.SOCK_DGRAM, 1), (socket.AF_INET6, socket.SOCK_RAW, 58)):
    try: socket.socket(family, kind, proto); print("made")
    except OSError as e: print(type(e).__name__)
""")
    assert "made" not in got["stdout"], got
    root = b.op.post(f"/v1/sandboxes/{b.id}/exec", {"argv": ["sh", "-c", """
ip route flush table local 2>&1 | head -1; ip link add d type dummy 2>&1 | head -1; id -u"""], "user": "root"},
                     expect=200)
    assert b.one("tcp", PUBLIC, 7, "still") == "still", root


def test_a_listener_inside_does_not_catch_what_is_meant_for_others(box):
    b = box({"mode": "filtered", "allow": ["example.com"]})
    got = b.run("python3", "-c", """
import socket
server = socket.socket(); server.bind(("0.0.0.0", 9999)); server.listen(); server.settimeout(1)
own = socket.create_connection(("127.0.0.1", 9999)); print("own", bool(server.accept()))
try:
    s = socket.create_connection(("93.184.216.34", 9999), 5); s.recv(1); print("other")
except OSError as e: print(type(e).__name__)
try: server.accept(); print("caught")
except OSError as e: print(type(e).__name__)
""")
    assert got["stdout"].split() == ["own", "True", "ConnectionResetError", "TimeoutError"], got


# ---- limits ----

def test_limits_on_connections_and_bytes(box, world):
    world.serve(PUBLIC, 9000, lambda sock: sock.sendall(b"x" * 3_000_000))
    b = box({"mode": "filtered", "allow": ["example.com"], "maxConnections": 3})
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
s = socket.create_connection(("example.com", 9000), 5); n = 0
try:
    while piece := s.recv(65536): n += len(piece)
except OSError as e: print(type(e).__name__)
print(n < 3000000)
""")
    assert got["stdout"].split()[-1] == "True", got
    b.set({"mode": "filtered", "allow": ["example.com"], "connectionsPerSecond": 2})
    got = b.tries(*[["tcp", "example.com", 7, "x"]] * 20)
    assert "ConnectionResetError" in got and "x" in got


def test_bandwidth_is_shared_out(box, world):
    world.serve(PUBLIC, 9001, lambda sock: sock.sendall(b"x" * 4_000_000))
    b = box({"mode": "filtered", "allow": ["example.com"], "mbps": 16})  # 2 MB a second
    got = b.run("python3", "-c", """
import socket, time
t = time.monotonic(); n = 0
s = socket.create_connection(("example.com", 9001), 5)
while piece := s.recv(65536): n += len(piece)
print(n, time.monotonic() - t)
""")
    n, seconds = got["stdout"].split()
    assert int(n) == 4_000_000 and float(seconds) > 1.5, got


# ---- the gate's own life ----

def test_62_a_gate_that_is_killed_is_closed_and_comes_back(service, box, world):
    b = box({"mode": "filtered", "allow": ["example.com"]})
    others = [box({"mode": "open"}) for _ in range(3)]
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
    for _ in range(3):
        old = service.gate_pid()
        service.kill9(old)
        wait_for(lambda: service.gate_pid() != old, what="another gate")
    wait_for(lambda: '"complete":true' in b.op.get(output).body.decode(), seconds=20,
             what="the end of the load")
    text = json.loads(b.op.get(output).body.decode().splitlines()[0])["data"]
    assert "abc" in text and "leak" not in text, text
    assert wait_for(lambda: b.one("tcp", "example.com", 7, "back") == "back", what="the way back")
    for other in others:
        wait_for(lambda: other.one("tcp", OTHER, 7, "o") == "o", what="the others' way back")
    assert b.op.get(f"/v1/sandboxes/{b.id}", expect=200)["state"] == "running"


def test_62_daemon_and_launcher_may_die_too(world):
    with Service(pool=1, gate=world.settings()) as service:
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


def test_names_that_cannot_be_looked_up_fail_clearly(world, box):
    b = box({"mode": "open"})
    assert b.tries(["name", "no.such.name.com"], ["name", "empty.com"], ["name", "plain"]) == 3 * ["gaierror"]
    world.answers_names = False
    try:
        assert b.one("name", "never.asked.com") == "gaierror"
    finally:
        world.answers_names = True
    # A port where nobody listens: the connection is reset, and the record says why.
    assert b.one("tcp", "example.com", 4321, "x") == "ConnectionResetError"
    assert "refused" in b.logged(port=4321)["rule"]


def test_bytes_are_counted(service, box):
    b = box({"mode": "open"})
    assert len(b.one("tcp", PUBLIC, 7, "y" * 5000)) == 5000

    def used():
        rows = service.operator.get("/v1/usage", expect=200)["usage"]
        return any(r.get("sandbox") == b.id and r["bytesOut"] >= 5000 and r["bytesIn"] >= 5000 for r in rows)
    wait_for(used, what="the usage")
    text = service.operator.get("/metrics").body.decode()
    assert "sandglass_net_connections_total" in text and "sandglass_net_refused_total" in text


def test_many_connections_at_once(box):
    b = box({"mode": "open"}, limits={"memoryBytes": 1 << 29})
    got = b.run("python3", "-c", """
import resource, socket
held = []
for i in range(900):
    s = socket.create_connection(("93.184.216.34", 7), 10); held.append(s)
for s in held: s.settimeout(10); s.sendall(b"ping")
print(sum(s.recv(4) == b"ping" for s in held))
""")
    assert got["stdout"] == "900\n", got


def test_a_stream_arrives_whole_in_both_directions(box):
    b = box({"mode": "filtered", "allow": ["example.com"]})
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
