# SPDX-License-Identifier: Apache-2.0
"""Ports of sandboxes without a network: opened to visitors, signed, forwarded."""
import base64
import hashlib
import json
import os
import re
import socket
import struct
import subprocess
import time

import pytest

import sg
from service import Service, free_port, wait_for

CROWD = 12
SERVER = r'''
import base64, hashlib, socket, threading
def one(c):
    head = b""
    while b"\r\n\r\n" not in head:
        piece = c.recv(4096)
        if not piece: return
        head += piece
    if head.startswith(b"raw"):
        c.sendall(b"echo:" + head); c.close(); return
    if b"/switch" in head:
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\ntunnel"); c.close(); return
    if b"pgrade: websocket" in head:
        key = next(l.split(b": ")[1] for l in head.split(b"\r\n") if l.lower().startswith(b"sec-websocket-key"))
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        c.sendall(b"ws:" + c.recv(100)); c.close(); return
    c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
    if b"/wait" in head:
        open("/tmp/asked", "w").close()
        import os, time
        while not os.path.exists("/tmp/go"): time.sleep(0.01)
    c.sendall(b"6\r\nsecond\r\n0\r\n\r\n"); c.close()
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", 8080)); s.listen(64)
print("up", flush=True)
while True:
    c, _ = s.accept(); threading.Thread(target=one, args=(c,), daemon=True).start()
'''


class Visitor:
    """Asks the service for a port, by the host that names it, and nothing else."""

    def __init__(self, service, sandbox, port=8080):
        self.service, self.host = service, f"{port}-{sandbox}.localhost"

    def open(self, path="/", *fields):
        sock = socket.create_connection(("127.0.0.1", self.service.port), 30)
        lines = [f"GET {path} HTTP/1.1", f"Host: {self.host}", *fields]
        sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return sock

    def get(self, path="/", *fields):
        """The status, the head and the rest, of a connection that is closed afterwards."""
        with self.open(path, "Connection: close", *fields) as sock:
            got = b""
            while piece := sock.recv(65536):
                got += piece
        head, _, body = got.decode().partition("\r\n\r\n")
        return int(head.split()[1]), head, body


def serving(service):
    """A sandbox with a server at port 8080: its id and its path."""
    box = service.operator.post("/v1/sandboxes", {}, expect=201)
    assert box["network"]["mode"] == "none"
    path = f"/v1/sandboxes/{box['id']}"
    service.operator.put(f"{path}/files", SERVER.encode(), query={"path": "/tmp/server.py"})
    run = service.operator.post(f"{path}/exec", {"argv": ["python3", "/tmp/server.py"], "background": True},
                                expect=201)
    wait_for(lambda: "up" in service.operator.get(f"{path}/execs/{run['id']}/output").body.decode(),
             seconds=30, what="the server inside")
    return box["id"], path


@pytest.fixture(scope="module")
def place():
    with Service(pool=1, settings={"max_visitors": CROWD}) as service:
        yield service, *serving(service)


def test_a_port_is_nobodys_until_it_is_opened_to_all(place):
    service, box, path = place
    visitor, op = Visitor(service, box), service.operator
    nobody = Visitor(service, "s" + "0" * 19)

    def without_names(reply):
        return re.sub(r"s[a-z0-9]{19}|date: .*|x-request-id: .*", "", reply[1] + reply[2], flags=re.I)
    # Not open, not there, and no sandbox at all: the same answer.
    assert without_names(visitor.get()) == without_names(nobody.get())
    opened = op.put(f"{path}/ports/8080", {"access": "public"}, expect=200)
    assert opened["url"].startswith("http") and f"8080-{box}." in opened["url"]
    status, head, body = visitor.get()
    assert status == 200 and "first" in body and "second" in body
    assert op.get(f"{path}/ports", expect=200)["ports"][0]["access"] == "public"
    op.delete(f"{path}/ports/8080", expect=204)
    op.delete(f"{path}/ports/8080", expect=404)
    assert without_names(visitor.get()) == without_names(nobody.get())


def test_tokens_let_in_for_their_port_and_their_time(place):
    service, box, path = place
    visitor, op = Visitor(service, box), service.operator
    op.put(f"{path}/ports/8080", {}, expect=200)
    forever = op.post(f"{path}/ports/8080/sign", {}, expect=200)
    assert "expiresAt" not in forever and forever["token"] in forever["url"]
    refused = visitor.get()[0]
    assert refused in (403, 404, 502)
    token = forever["token"]
    for how in (("/", f"X-Sandglass-Token: {token}"), ("/", f"Cookie: a=b; sandglass_token={token}"),
                (f"/?sandglass_token={token}",)):
        assert visitor.get(*how)[0] == 200, how
    assert f"set-cookie: sandglass_token={token}" in visitor.get(f"/?sandglass_token={token}")[1].lower()
    # Expired, of another port, changed, of a port that was opened anew.
    short = op.post(f"{path}/ports/8080/sign", {"expiresInMs": 1000}, expect=200)["token"]
    until, signature = short.split(".")
    assert visitor.get("/", f"X-Sandglass-Token: {int(until) + 3600}.{signature}")[0] == refused
    wait_for(lambda: time.time() > int(until) + 1, what="its end")
    assert visitor.get("/", f"X-Sandglass-Token: {short}")[0] == refused
    op.put(f"{path}/ports/8081", {}, expect=200)
    other = op.post(f"{path}/ports/8081/sign", {}, expect=200)["token"]
    for bad in (other, "", "0.", "x", token[:-1], "9" * 400 + ".a"):
        assert visitor.get("/", f"X-Sandglass-Token: {bad}")[0] == refused, bad
    op.put(f"{path}/ports/8080", {}, expect=200)
    assert visitor.get("/", f"X-Sandglass-Token: {token}")[0] == refused
    fresh = op.post(f"{path}/ports/8080/sign", {}, expect=200)["token"]
    service.kill9_daemon()
    service.wait_ready()
    assert visitor.get("/", f"X-Sandglass-Token: {fresh}")[0] == 200  # it is kept
    # Only who may use the sandbox opens and signs; what is wrong is said.
    reader = service.client(service.key(scopes=["read"]))
    reader.put(f"{path}/ports/8080", {}, expect=403)
    reader.post(f"{path}/ports/8080/sign", {}, expect=403)
    op.put(f"{path}/ports/0", {}, expect=400)
    op.put(f"{path}/ports/8080", {"access": "some"}, expect=400)
    op.post(f"{path}/ports/9/sign", {}, expect=404)


def test_answers_stream_and_websockets_pass(place):
    service, box, path = place
    visitor, op = Visitor(service, box), service.operator
    op.put(f"{path}/ports/8080", {"access": "public"}, expect=200)
    with visitor.open("/wait") as sock:
        got = b""
        while b"first" not in got:  # it is here while the rest is not written yet
            got += sock.recv(4096)
        assert b"second" not in got
        op.put(f"{path}/files", b"", query={"path": "/tmp/go"})
        while b"second" not in got:
            got += sock.recv(4096)
    key = base64.b64encode(os.urandom(16)).decode()
    with visitor.open("/", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                      f"Sec-WebSocket-Key: {key}") as sock:
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(4096)
        digest = hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
        assert b"101" in head and base64.b64encode(digest) in head
        sock.sendall(b"frame")
        assert sock.recv(100) == b"ws:frame"


def read_until(sock, end):
    got = b""
    while not got.endswith(end) and (piece := sock.recv(4096)):
        got += piece
    return got.decode()


def test_61_an_upgrade_that_is_none_and_a_request_in_two_readings_hide_nothing(place):
    service, box, path = place
    visitor, op = Visitor(service, box), service.operator
    op.put(f"{path}/ports/8080", {"access": "public"}, expect=200)
    # What comes behind an upgrade that the server did not take is a request like any other, judged by its own host.
    with visitor.open("/", "Connection: Upgrade", "Upgrade: h2c") as sock:
        sock.sendall(f"GET / HTTP/1.1\r\nHost: 22-{box}.localhost\r\nConnection: close\r\n\r\n".encode())
        got = read_until(sock, b"nothing ends like this")
    assert [line.split()[1] for line in got.split("\r\n") if line.startswith("HTTP/1.1")] == ["200", "502"], got
    # One that nobody asked for is none.
    status, _, body = visitor.get("/switch")
    assert status == 502 and "tunnel" not in body
    status, _, body = visitor.get("/", "Content-Length: 4", "Transfer-Encoding: chunked")
    assert status == 400 and "first" not in body
    op.delete(f"{path}/ports/8080", expect=204)


def test_61_idle_visitors_hold_up_nobody_but_their_own_crowd(place):
    service, box, path = place
    visitor, op = Visitor(service, box), service.operator
    other, other_path = serving(service)
    for each in (path, other_path):
        op.put(f"{each}/ports/8080", {"access": "public"}, expect=200)
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
    busy = [visitor.open("/", *upgrade) for _ in range(CROWD)]
    assert all(" 101 " in read_until(sock, b"\r\n\r\n") for sock in busy)
    # Those who have a connection each and say nothing keep others out of this sandbox, and of nothing else.
    status, head, body = visitor.get("/")
    assert status == 429 and f"{CROWD} visitors" in body
    assert "Connection: close" in head
    assert Visitor(service, other).get("/")[0] == 200
    assert Visitor(service, box, 8081).get("/")[0] == 502  # who may not is not told of the crowd
    assert op.get(path, expect=200)["state"] == "running"
    busy.pop().close()
    wait_for(lambda: visitor.get("/")[0] == 200, what="room for another")
    for sock in busy:
        sock.close()
    # Idle ones make room: whoever asked first is gone first.
    wait_for(lambda: visitor.get("/")[0] == 200, what="room for all")
    idle = []
    for _ in range(3 * CROWD):
        idle.append(visitor.open("/"))
        assert " 200 " in read_until(idle[-1], b"\r\n0\r\n\r\n")
    assert [sock.recv(1) for sock in idle[:2 * CROWD]] == 2 * CROWD * [b""]
    idle[-1].sendall(f"GET / HTTP/1.1\r\nHost: {visitor.host}\r\n\r\n".encode())
    assert " 200 " in read_until(idle[-1], b"\r\n0\r\n\r\n")
    for sock in idle:
        sock.close()
    op.delete(other_path, expect=204)
    op.delete(f"{path}/ports/8080", expect=204)


def test_forward_leads_a_local_port_inside(place):
    service, box, path = place
    local = free_port()
    process = subprocess.Popen([str(sg.BIN), "forward", "--url", f"unix:{service.run}/api.sock", "--json", box,
                                f"{local}:8080"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "SANDGLASS_CONFIG": str(service.config)})
    try:
        assert json.loads(process.stdout.readline()) == {"sandbox": box, "local": local, "port": 8080}
        said = [b"raw %d\r\n\r\n" % i + struct.pack("!I", i) for i in range(20)]
        socks = [socket.create_connection(("127.0.0.1", local), 30) for _ in said]
        for sock, words in zip(socks, said):
            sock.sendall(words)
        for sock, words in zip(socks, said):
            got = b""
            while piece := sock.recv(4096):
                got += piece
            assert got == b"echo:" + words
            sock.close()
    finally:
        process.terminate()
        process.wait(30)
    gone = subprocess.run([str(sg.BIN), "forward", "--url", f"unix:{service.run}/api.sock", "s" + "0" * 19, "1"],
                          capture_output=True, text=True, timeout=60,
                          env={**os.environ, "SANDGLASS_CONFIG": str(service.config)})
    assert gone.returncode == 1 and "no sandbox" in gone.stderr
    service.operator.get(f"{path}/ports/8080/connect", expect=400)
