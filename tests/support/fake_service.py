# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the service on a unix socket: answers the way docs/design/service.md says, remembers
what it was asked. For tests of the client alone; the sandboxes are dictionaries, a command is a
function of its argv.

    with FakeService(directory) as service:
        sandglass("ps", "--run-dir", directory)
        assert service.requests[-1].path == "/v1/sandboxes"
"""
import base64
import dataclasses
import hashlib
import io
import json
import socketserver
import struct
import tarfile
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler

SANDBOX = "s" + "a" * 19
EXEC = "x" + "b" * 19
KEY = "e2b_" + "0123456789" * 4


@dataclasses.dataclass
class Request:
    method: str
    path: str
    query: dict
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


def sandbox(**more):
    return {"id": SANDBOX, "org": "o" + "c" * 19, "template": "base", "state": "running", "tier": "cell",
            "metadata": {"team": "blue"}, "limits": {"memoryBytes": 1 << 29, "cpus": 0.5, "pids": 256,
                                                     "diskBytes": 1 << 30},
            "createdAt": "2026-01-01T00:00:00.000Z", "expiresAt": "2099-01-01T00:00:00.000Z",
            "timeoutMs": 300000, "execs": 1} | more


def exec_(**more):
    return {"id": EXEC, "sandbox": SANDBOX, "pid": 7, "argv": ["true"], "tty": False,
            "background": True, "state": "ended", "ending": "exit", "exitCode": 0,
            "startedAt": "2026-01-01T00:00:00.000Z", "outputBytes": 0, "complete": True} | more


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def address_string(self):
        return "unix"

    @property
    def fake(self):
        return self.server.fake

    def read_body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status, value=None, kind="application/json"):
        body = b"" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, lines, kind="application/x-ndjson"):
        """Chunks that care for no line end: a client must not either."""
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in lines:
            for part in (piece[:7], piece[7:]):
                if part:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                    self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def handle_any(self):
        url = urllib.parse.urlsplit(self.path)
        request = Request(self.command, url.path, dict(urllib.parse.parse_qsl(url.query)),
                          dict(self.headers), self.read_body())
        self.fake.requests.append(request)
        if self.fake.refusal:
            status, kind, message, hint = self.fake.refusal
            self.answer(status, {"error": {"kind": kind, "message": message, "hint": hint,
                                           "requestId": "r" + "d" * 19}})
            return
        parts = url.path.strip("/").split("/")
        if parts[:2] == ["v1", "sandboxes"] and len(parts) > 2 and parts[2] != SANDBOX:
            self.answer(404, {"error": {"kind": "not_found", "message": "no such sandbox",
                                        "requestId": "r" + "d" * 19}})
            return
        name = "_".join(p for p in parts[1:] if p not in (SANDBOX, EXEC)) or parts[0]
        handler = getattr(self, f"on_{self.command.lower()}_{name}", None)
        if handler:
            handler(request)
        else:
            self.answer(404, {"error": {"kind": "not_found", "message": f"no route {self.path}",
                                        "requestId": "r" + "d" * 19}})

    do_GET = do_POST = do_PUT = do_DELETE = handle_any

    def on_get_health(self, _):
        self.answer(200, {"status": "ok"})

    def on_get_sandboxes(self, request):
        if request.path.endswith(SANDBOX):
            self.answer(200, sandbox())
        elif request.query.get("after"):
            self.answer(200, {"sandboxes": [sandbox(id="s" + "z" * 19, metadata={})]})
        else:
            self.answer(200, {"sandboxes": [sandbox(), sandbox(metadata={"x": "\x1b[31m"})],
                              "next": "s" + "y" * 19})

    def on_post_sandboxes(self, _):
        self.answer(201, sandbox(unenforced=["memory"]))

    def on_delete_sandboxes(self, request):
        if request.path.endswith(SANDBOX):
            self.answer(204)
        else:
            self.answer(200, {"destroyed": 3})

    def on_post_sandboxes_pause(self, _):
        self.answer(200, sandbox(state="paused"))

    def on_post_sandboxes_resume(self, _):
        self.answer(200, sandbox())

    def on_get_sandboxes_stats(self, _):
        self.answer(200, {"memoryBytes": 3 << 20, "cpuMs": 1500, "pids": 2, "oomKills": 0})

    def on_post_sandboxes_exec(self, request):
        if request.json["argv"][0] == "/missing":
            self.answer(404, {"error": {"kind": "not_found", "message": "no such file",
                                        "requestId": "r" + "d" * 19}})
            return
        self.fake.started.set()
        self.answer(201, exec_(state="running"))

    def on_post_sandboxes_execs_stdin(self, _):
        self.fake.input_done.set()
        self.answer(204)

    def on_get_sandboxes_execs(self, _):
        self.answer(200, {"execs": [exec_(id=EXEC, state="running"),
                                    exec_(id="x" + "o" * 19, startedAt="2025-01-01T00:00:00.000Z")]})

    def on_delete_sandboxes_execs(self, _):
        self.answer(204)

    def on_post_sandboxes_execs_signal(self, _):
        self.answer(204)

    def output_lines(self):
        if self.fake.waits_for_input:
            self.fake.input_done.wait(10)
        for line in [*self.fake.output, {"end": self.fake.end}]:
            yield json.dumps(line).encode() + b"\n"

    def on_get_sandboxes_execs_output(self, _):
        self.stream(self.output_lines())

    def on_get_events(self, request):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for seq in (1, 2):
            data = json.dumps({"seq": seq, "at": "2026-01-01T00:00:00.000Z", "org": "o", "sandbox": SANDBOX,
                               "type": "sandbox.created", "data": {"n": seq}})
            text = f"id: {seq}\nevent: sandbox.created\ndata: {data}\n\n: comment\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        self.wfile.flush()
        self.fake.stopped.wait(10)
        self.close_connection = True

    def on_get_keys(self, _):
        self.answer(200, {"keys": [{"id": "k" + "e" * 19, "org": "o", "name": "ci", "shown": "e2b_0123",
                                    "scopes": ["read", "exec"], "templates": [], "ratePerSecond": 0,
                                    "createdAt": "2026-01-01T00:00:00.000Z"}]})

    def on_post_keys(self, _):
        self.answer(201, {"id": "k" + "e" * 19, "key": KEY})

    def do_revoke(self, _):
        self.answer(204)

    def __getattr__(self, name):
        if name.startswith(("on_delete_keys_k", "on_delete_orgs_o")):
            return self.do_revoke
        raise AttributeError(name)

    def on_get_whoami(self, request):
        good = request.headers.get("Authorization") == f"Bearer {KEY}"
        self.answer(200 if good else 401, {} if good else {"error": {
            "kind": "denied", "message": "this key is not known", "requestId": "r" + "d" * 19}})

    def on_get_orgs(self, _):
        amounts = {"sandboxes": 2, "memoryBytes": 1 << 30, "cpus": 1, "diskBytes": 0}
        self.answer(200, {"orgs": [{"id": "o" + "c" * 19, "name": "blue", "quota": amounts, "inUse": amounts}]})

    def on_post_orgs(self, _):
        self.answer(201, {"id": "o" + "c" * 19, "name": "blue"})

    def on_get_audit(self, request):
        after = int(request.query["after"])
        records = [{"seq": after + n, "at": "2026-01-01T00:00:00.000Z", "org": "o", "actor": "key k1",
                    "action": "sandbox.create", "sandbox": SANDBOX, "request": "r", "detail": {"n": n},
                    "hash": "0" * 64} for n in (1, 2, 3)]
        self.answer(200, {"records": records} | ({"next": 3} if after == 0 else {}))

    def on_get_audit_verify(self, _):
        self.answer(200, self.fake.verdict)

    # ---- files ----

    def on_get_sandboxes_files_stat(self, request):
        path = request.query["path"]
        if path in self.fake.directories:
            self.answer(200, {"type": "directory", "mode": "0755"})
        elif path in self.fake.files:
            self.answer(200, {"type": "file", "mode": "0640"})
        else:
            self.answer(404, {"error": {"kind": "not_found", "message": f"{path}: no such file",
                                        "requestId": "r" + "d" * 19}})

    def on_put_sandboxes_files(self, request):
        self.fake.files[request.query["path"]] = request.body
        self.answer(200, {"bytes": len(request.body)})

    def on_get_sandboxes_files(self, request):
        self.answer(200, self.fake.files[request.query["path"]], "application/octet-stream")

    def on_post_sandboxes_files_mkdir(self, request):
        self.fake.directories.add(request.json["path"])
        self.answer(200, {})

    def on_post_sandboxes_files_copy(self, _):
        self.answer(204)

    def on_put_sandboxes_files_tar(self, request):
        with tarfile.open(fileobj=io.BytesIO(request.body)) as archive:
            self.fake.tree = {m.name: (m.type, archive.extractfile(m).read() if m.isfile() else m.linkname, m.mode)
                              for m in archive}
        self.answer(204)

    def on_get_sandboxes_files_tar(self, _):
        self.stream([self.fake.archive], "application/x-tar")

    # ---- a WebSocket: echoes what comes in, in upper case, and ends at the end of input ----

    def on_get_sandboxes_exec_ws(self, request):
        key = request.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        self.fake.messages.append(self.receive_frame())
        self.send_frame(1, json.dumps({"type": "started", "exec": exec_()}).encode())
        self.send_frame(9, b"are you there")
        while message := self.receive_frame():
            self.fake.messages.append(message)
            opcode, data = message
            if opcode == 2:
                self.send_frame(2, b"\x01" + data[1:].upper())
            if opcode == 1 and json.loads(data)["type"] == "closeStdin" or (opcode == 2 and b"\x04" in data):
                self.send_frame(1, json.dumps({"type": "end", "exec": self.fake.end}).encode())
                self.send_frame(8, struct.pack("!H", 1000))
                return

    def receive_frame(self):
        head = self.rfile.read(2)
        if len(head) < 2:
            return None
        size = head[1] & 0x7f
        if size == 126:
            size = struct.unpack("!H", self.rfile.read(2))[0]
        mask = self.rfile.read(4)
        return head[0] & 15, bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size)))

    def send_frame(self, opcode, data):
        size = struct.pack("!B", len(data)) if len(data) < 126 else struct.pack("!BH", 126, len(data))
        self.wfile.write(bytes([0x80 | opcode]) + size + data)
        self.wfile.flush()


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def get_request(self):
        connection, _ = super().get_request()
        return connection, ("unix", 0)


class FakeService:
    def __init__(self, directory):
        self.requests, self.messages = [], []
        self.refusal = None
        self.output, self.end = [], exec_()
        self.files, self.directories, self.tree, self.archive = {}, {"/workspace"}, None, b""
        self.waits_for_input = False
        self.verdict = {"whole": True, "records": 3, "head": "0" * 64}
        self.started, self.input_done, self.stopped = threading.Event(), threading.Event(), threading.Event()
        self.server = Server(str(directory / "api.sock"), Handler)
        self.server.fake = self

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.server.shutdown()
        self.server.server_close()

    def asked(self, method, path):
        return [r for r in self.requests if (r.method, r.path) == (method, path)]
