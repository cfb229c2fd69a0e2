# SPDX-License-Identifier: Apache-2.0
"""Talking to the service: HTTP with nothing but the standard library, and a small WebSocket client.

    c = Client(address, key)              # address: a path (unix socket) or (host, port)
    reply = c.get("/v1/sandboxes", query={"limit": 5})
    box = c.post("/v1/sandboxes", {"template": "host"}, expect=201)      # the JSON of the reply
    for line in c.stream("GET", path): ...                               # as it comes
"""
import base64
import hashlib
import http.client
import json
import os
import socket
import struct
import threading
import urllib.parse

TIMEOUT = 30


def dial(address, timeout=TIMEOUT, uid=None):
    """`uid`: as whom a unix socket is connected to; the other side sees it."""
    if isinstance(address, str):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(timeout)
        own = os.geteuid()
        try:
            os.seteuid(own if uid is None else uid)
            sock.connect(address)
        finally:
            os.seteuid(own)
        return sock
    sock = socket.create_connection(address, timeout)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Connection(http.client.HTTPConnection):
    def __init__(self, address, timeout, uid=None):
        super().__init__("localhost", timeout=timeout)
        self.address = address
        self.uid = uid

    def connect(self):
        self.sock = dial(self.address, self.timeout, self.uid)


class Reply:
    def __init__(self, response, body):
        self.status = response.status
        self.headers = response.headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The error object, which must look as the schema says."""
        error = self.json["error"]
        assert set(error) <= {"kind", "message", "hint", "requestId"}, error
        assert error["kind"] and error["message"] and error["requestId"], error
        return error

    def __repr__(self):
        return f"<{self.status} {self.body[:400]!r}>"


def target(path, query):
    return path + ("?" + urllib.parse.urlencode(query) if query else "")


class Client:
    """One caller. Each thread has a connection of its own, which is kept."""

    def __init__(self, address, key=None, timeout=TIMEOUT, check=None, uid=None):
        """`check`: called with method, path and reply of every whole reply. `uid`: see dial()."""
        self.address = address
        self.key = key
        self.check = check
        self.uid = uid
        self.timeout = timeout
        self.local = threading.local()

    def headers(self, more, body=None):
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        if isinstance(body, (dict, list)):
            headers["Content-Type"] = "application/json"
        return {**headers, **(more or {})}

    @staticmethod
    def encoded(body):
        return json.dumps(body).encode() if isinstance(body, (dict, list)) else body

    def fresh(self, timeout=None):
        return Connection(self.address, timeout or self.timeout, self.uid)

    def request(self, method, path, body=None, query=None, headers=None, **kw):
        """The whole reply. A connection that the service closed meanwhile is opened anew, once."""
        connection = getattr(self.local, "connection", None)
        is_used = connection is not None
        if not is_used:
            connection = self.local.connection = self.fresh()
        try:
            try:
                connection.request(method, target(path, query), self.encoded(body),
                                   self.headers(headers, body), **kw)
            except (BrokenPipeError, ConnectionResetError):
                if not body:
                    raise
                # refused before all of the body was sent: the answer may be there
                connection._HTTPConnection__state = http.client._CS_REQ_SENT
            response = connection.getresponse()
            return Reply(response, response.read())
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self.close()
            if not is_used or hasattr(body, "read"):
                raise
            return self.request(method, path, body, query, headers, **kw)
        except BaseException:
            self.close()
            raise

    def close(self):
        connection = getattr(self.local, "connection", None)
        if connection is not None:
            connection.close()
            self.local.connection = None

    def call(self, method, path, body=None, query=None, headers=None, expect=None):
        reply = self.request(method, path, body, query, headers)
        if self.check:
            self.check(method, path, reply)
        if expect is None:
            return reply
        assert reply.status == expect, (method, path, reply)
        is_json = reply.headers.get("Content-Type", "").startswith("application/json")
        return reply.json if is_json else reply.body

    def get(self, path, **kw):
        return self.call("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.call("POST", path, body, **kw)

    def put(self, path, body=None, **kw):
        return self.call("PUT", path, body, **kw)

    def patch(self, path, body=None, **kw):
        return self.call("PATCH", path, body, **kw)

    def delete(self, path, **kw):
        return self.call("DELETE", path, **kw)

    def stream(self, method, path, body=None, query=None, headers=None, timeout=None):
        """A reply that goes on: an http.client response on a connection of its own."""
        connection = self.fresh(timeout)
        connection.request(method, target(path, query), self.encoded(body),
                           self.headers(headers, body))
        response = connection.getresponse()
        response.connection = connection
        return response

    def websocket(self, path, query=None):
        return WebSocket(self.address, target(path, query), self.headers(None))


def lines(response):
    """NDJSON, a value at a time."""
    for line in response:
        yield json.loads(line)


def server_events(response):
    """(event, data, id) of a stream of server-sent events."""
    event, data, number = None, None, None
    for line in response:
        line = line.decode().rstrip("\n")
        name, _, value = line.partition(": ")
        if name == "event":
            event = value
        elif name == "data":
            data = json.loads(value)
        elif name == "id":
            number = int(value)
        elif not line and data is not None:
            yield event, data, number
            event, data, number = None, None, None


def exchange(address, data, timeout=10, half_close=False):
    """Raw bytes there, all that comes back until the other side closes or has no more to say."""
    with dial(address, timeout) as sock:
        try:
            sock.sendall(data)
            if half_close:
                sock.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was sent: the answer is there
        got = b""
        try:
            while piece := sock.recv(65536):
                got += piece
                sock.settimeout(0.3)  # for another reply, which would come at once
        except (TimeoutError, ConnectionResetError):
            pass
        return got


class Closed(Exception):
    def __init__(self, code, reason):
        super().__init__(f"{code} {reason}")
        self.code, self.reason = code, reason


TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class WebSocket:
    """RFC 6455, as a client: whole frames, no extensions."""

    def __init__(self, address, path, headers, timeout=TIMEOUT):
        self.sock = dial(address, timeout)
        self.file = self.sock.makefile("rb")
        nonce = base64.b64encode(os.urandom(16)).decode()
        head = {"Host": "localhost", "Upgrade": "websocket", "Connection": "Upgrade",
                "Sec-WebSocket-Key": nonce, "Sec-WebSocket-Version": "13", **headers}
        self.sock.sendall((f"GET {path} HTTP/1.1\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in head.items()) + "\r\n").encode())
        self.response = http.client.HTTPResponse(self.sock)
        self.response.begin()
        self.status = self.response.status
        if self.status == 101:
            digest = hashlib.sha1((nonce + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
            assert self.response.headers["Sec-WebSocket-Accept"] == base64.b64encode(digest).decode()
            self.file = self.response.fp  # it may have read on

    def send(self, payload, opcode=None, fin=True, mask=True):
        if isinstance(payload, dict):
            payload = json.dumps(payload)
        if opcode is None:
            opcode = TEXT if isinstance(payload, str) else BINARY
        payload = payload.encode() if isinstance(payload, str) else payload
        key = os.urandom(4) if mask else b""
        size, bit = len(payload), 0x80 if mask else 0
        head = bytes([fin << 7 | opcode])
        if size < 126:
            head += bytes([bit | size])
        elif size < 65536:
            head += bytes([bit | 126]) + struct.pack(">H", size)
        else:
            head += bytes([bit | 127]) + struct.pack(">Q", size)
        if mask:
            stream = (key * (size // 4 + 1))[:size]
            payload = (int.from_bytes(payload, "big") ^ int.from_bytes(stream, "big")).to_bytes(size, "big")
        self.sock.sendall(head + key + payload)

    def exactly(self, size):
        data = self.file.read(size)
        if len(data) != size:
            raise Closed(1006, "the connection ended without a close frame")
        return data

    def frame(self):
        first, second = self.exactly(2)
        assert not second & 0x80, "a server does not mask"
        size = second & 0x7F
        if size == 126:
            size, = struct.unpack(">H", self.exactly(2))
        elif size == 127:
            size, = struct.unpack(">Q", self.exactly(8))
        return first & 0x0F, bool(first & 0x80), self.exactly(size)

    def receive(self):
        """The next message: a dict for text, bytes for binary. Raises Closed at its end."""
        whole, kind = b"", None
        while True:
            opcode, fin, payload = self.frame()
            if opcode == PING:
                self.send(payload, PONG)
            elif opcode == CLOSE:
                code = struct.unpack(">H", payload[:2])[0] if payload else 1005
                raise Closed(code, payload[2:].decode())
            elif opcode != PONG:
                kind = kind or opcode
                whole += payload
                if fin:
                    return json.loads(whole) if kind == TEXT else whole

    def until_end(self):
        """(stdout, stderr, the messages) until the service closes."""
        out, messages = {1: b"", 2: b""}, []
        while True:
            try:
                message = self.receive()
            except Closed as closed:
                messages.append({"type": "closed", "code": closed.code})
                return out[1], out[2], messages
            if isinstance(message, dict):
                messages.append(message)
            else:
                out[message[0]] += message[1:]

    def close(self):
        try:
            self.file.close()
        finally:
            self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
