# SPDX-License-Identifier: Apache-2.0
"""Sandboxes with a network, for tests of the gate: fixtures `world`, `service` and `box`.

A program inside (CLIENT) tries what it is told and prints what came of it, so that one exec makes
many attempts.
"""
import json

import pytest

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
            sock.settimeout(1.0)
            if connected:
                sock.connect(info[4])
            while True:  # once a second: a datagram may be lost
                sock.send(say.encode("latin-1")) if connected else sock.sendto(say.encode("latin-1"), info[4])
                try:
                    data, sender = sock.recvfrom(65536)
                    return [data.decode("latin-1"), sender[0], sender[1]]
                except TimeoutError:
                    seconds -= 1
                    if seconds <= 0:
                        raise
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

def dns_tcp(server, *hosts):
    """The same by one TCP connection: codes and counts of addresses."""
    got = []
    try:
        with socket.create_connection((server, 53), 8) as sock:
            for host in hosts:
                labels = b"".join(bytes([len(p)]) + p.encode("latin-1") for p in host.split("."))
                query = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0" + labels + b"\0\0\1\0\1"
                sock.sendall(struct.pack("!H", len(query)) + query[:5])
                sock.sendall(query[5:])
                stream = sock.makefile("rb")
                data = stream.read(struct.unpack("!H", stream.read(2))[0])
                got.append([data[3] & 15, struct.unpack("!H", data[6:8])[0]])
            return got
    except (OSError, struct.error) as e:
        return type(e).__name__

def hello(host, port, sni, pieces=1, ech=False):
    """Only a TLS hello, made by hand, in so many segments; whether anybody answers."""
    name = sni.encode()
    names = struct.pack("!HBH", len(name) + 3, 0, len(name)) + name
    extensions = struct.pack("!HH", 0, len(names)) + names
    extensions += struct.pack("!HHHHHH", 10, 4, 2, 23, 13, 4) + struct.pack("!HH", 2, 0x0403)
    if ech:
        inner = b"\0" + struct.pack("!HHBH", 1, 1, 7, 4) + b"keys" + struct.pack("!H", 4) + b"load"
        extensions += struct.pack("!HH", 0xfe0d, len(inner)) + inner
    body = b"\3\3" + bytes(32) + b"\0" + struct.pack("!HH", 2, 0xc02b) + b"\1\0"
    body += struct.pack("!H", len(extensions)) + extensions
    record = b"\1" + struct.pack("!I", len(body))[1:] + body
    said = b"\x16\3\1" + struct.pack("!H", len(record)) + record
    try:
        with socket.create_connection((host, port), 8) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            step = -(-len(said) // pieces)
            for i in range(0, len(said), step):
                sock.sendall(said[i:i + step])
                time.sleep(0.01 if pieces > 1 else 0)
            return "answered" if sock.recv(1) else "ended"
    except OSError as e:
        return type(e).__name__

for line in sys.argv[1:]:
    function, *args = json.loads(line)
    print(json.dumps(globals()[function](*args)), flush=True)
'''


class Box:
    def __init__(self, service, network, op=None, **create):
        self.service = service
        self.op = op or service.operator
        self.id = self.op.post("/v1/sandboxes", {**({"network": network} if network else {}), **create},
                               expect=201)["id"]
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
def gate_world():
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
def gate_service(gate_world):
    with Service(pool=2, gate=gate_world.settings()) as made:
        yield made


@pytest.fixture
def gate_box(gate_service):
    made = []

    def make(network, **create):
        made.append(Box(gate_service, network, **create))
        return made[-1]
    yield make
    for one in made:
        one.remove()


GET = "GET / HTTP/1.1\r\nHost: {}\r\n\r\n"
