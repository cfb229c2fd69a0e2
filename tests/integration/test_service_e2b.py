# SPDX-License-Identifier: Apache-2.0
"""The E2B door as bytes: what clients of that API send and must get, without any of them."""
import base64
import contextlib
import gzip
import hashlib
import json
import os
import socket
import struct
import time
import urllib.parse

import pytest
import web
from e2b_door import ENVD, Sandbox
from service import Service, wait_for

SERVER = """
import http.server, sys, time
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path.startswith("/slow"):
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for i in range(3):
                self.wfile.write(b"2\\r\\n%d\\n\\r\\n" % i)
                self.wfile.flush()
                time.sleep(0.2)
            self.wfile.write(b"0\\r\\n\\r\\n")
            return
        if self.path == "/silent":
            self.connection.close()
            return
        body = (self.path + " " + str(self.headers.get("Host")) + " " + str(self.headers.get("X-Forwarded-Host"))).encode()
        self.send_response(200)
        self.send_header("X-Own", "yes")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while (n := int(self.rfile.readline(), 16)):
                body += self.rfile.read(n)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_PUT = do_PROPFIND = do_POST
    def do_DELETE(self):
        self.send_response(204)
        self.end_headers()
    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "1234")
        self.end_headers()
    def log_message(self, *a):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), H).serve_forever()
"""
WEBSOCKET = """
import base64, hashlib, socket
s = socket.create_server(("127.0.0.1", 8001))
while True:
    c, _ = s.accept()
    head = b""
    while b"\\r\\n\\r\\n" not in head and (data := c.recv(4096)):
        head += data
    if b"\\r\\n\\r\\n" not in head:
        continue
    key = [l.split(b": ")[1] for l in head.split(b"\\r\\n") if l.lower().startswith(b"sec-websocket-key")][0]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    c.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
              b"Sec-WebSocket-Accept: " + accept + b"\\r\\n\\r\\n")
    while (data := c.recv(65536)):
        c.sendall(data)
    c.close()
"""


# ---- the control plane ----

def test_errors_have_the_status_as_a_number(service, sandbox):
    rows = [("GET", "/sandboxes/sxxxxxxxxxxxxxxxxxxx", None, 404),
            ("DELETE", "/sandboxes/none", None, 404),
            ("POST", "/v2/sandboxes", {}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "host", "timeout": 0}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "host", "timeout": -5}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "host", "timeout": "long"}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "no-such-template"}, 404),
            ("POST", "/v2/sandboxes", {"templateID": "host:other-tag"}, 404),
            ("POST", "/v2/sandboxes", {"templateID": "host", "volumeMounts": [{"name": "v", "path": "/v"}]}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "host", "iam": {"tokens": {}}}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "host", "autoPauseMemory": False}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "host", "network": {"denyOut": ["example.com"]}}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "host", "network": {"allowOut": ["example.com"]}}, 400),
            ("POST", "/v2/sandboxes", {"templateID": "host", "network": {"httpsPorts": [8443]}}, 400),
            ("POST", "/sandboxes", {"templateID": "host", "network": {"allowPublicTraffic": False}}, 400),
            ("POST", f"/sandboxes/{sandbox.id}/resume", {}, 409),
            ("POST", f"/sandboxes/{sandbox.id}/timeout", {}, 400),
            ("POST", f"/sandboxes/{sandbox.id}/snapshots", {"name": "a b"}, 400),
            ("POST", f"/sandboxes/{sandbox.id}/fork", {"count": 0}, 400),
            ("POST", f"/sandboxes/{sandbox.id}/fork", {"count": 101}, 400),
            ("POST", f"/sandboxes/{'s' * 20}/fork", {}, 404),
            ("POST", "/v2/sandboxes", {"templateID": "taaaaaaaaaaaaaaaaaaa"}, 404),
            ("DELETE", "/templates/taaaaaaaaaaaaaaaaaaa", None, 404),
            ("GET", "/v2/sandboxes?state=sleeping", None, 400),
            ("GET", "/v2/sandboxes?nextToken=rubbish", None, 400),
            ("GET", "/v2/no/such/path", None, 404),
            ("PATCH", "/sandboxes", None, 405),
            ("POST", "/v3/templates", {"name": "-x"}, 400),
            ("POST", "/volumes", {"name": "x/y"}, 400),
            ("GET", "/volumes/none", None, 404),
            ("GET", "/volumecontent/none/path?path=/", None, 401),
            ("GET", "/secrets/none", None, 404),
            ("GET", "/templates/aliases/no-such-template", None, 404)]
    for method, path, body, status in rows:
        reply = sandbox.control(method, path, body)
        assert (reply.status, reply.json["code"]) == (status, status), (method, path, body, reply)
        assert reply.json["message"], reply
    for headers in ({}, {"X-API-Key": "e2b_" + "0" * 40}, {"X-API-Key": "rubbish"}):
        reply = web.Client(service.tcp).get("/v2/sandboxes", headers=headers)
        assert (reply.status, reply.json["code"]) == (401, 401), reply


def test_another_tenants_sandbox_is_like_a_missing_one(service, sandbox):
    other = service.key(org=service.org("e2b-other"), scopes=["read", "exec"])
    for method, path, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/timeout", {"timeout": 5}),
                               ("POST", "/pause", {}), ("POST", "/connect", {"timeout": 5}), ("GET", "/metrics", None),
                               ("GET", "/logs", None), ("PUT", "/network", {}), ("POST", "/snapshots", {})):
        there = sandbox.api.call(method, f"/sandboxes/{sandbox.id}{path}", body, headers={"X-API-Key": other})
        missing = sandbox.api.call(method, f"/sandboxes/{'s' * 20}{path}", body, headers={"X-API-Key": other})
        assert there.status == missing.status == 404, (method, path, there, missing)
        assert there.json["message"].replace(sandbox.id, "ID") == missing.json["message"].replace("s" * 20, "ID")
    assert sandbox.control("GET", f"/sandboxes/{sandbox.id}").status == 200


def test_both_generations_create(service, key):
    made = Sandbox(service, key, metadata={"a b": "c&d"}, timeout=30)
    assert made.made["templateID"] == "host" and made.made["envdVersion"] and made.made["clientID"]
    assert len(made.token) == 64
    old = made.control("POST", "/sandboxes", {"templateID": "host"}, expect=201)
    assert "envdAccessToken" not in old
    # open: whoever knows its id may ask
    reply = made.api.get("/files?path=/etc/passwd", headers={"E2b-Sandbox-Id": old["sandboxID"], "E2b-Sandbox-Port": "49983"})
    assert reply.status == 200
    again = made.control("POST", f"/v2/sandboxes/{made.id}-6532622b/connect", expect=200)
    assert again["envdAccessToken"] == made.token
    info = made.control("GET", f"/sandboxes/{made.id}", expect=200)
    assert info["state"] == "running" and info["envdAccessToken"] == made.token and info["metadata"] == {"a b": "c&d"}
    query = urllib.parse.quote(urllib.parse.quote(urllib.parse.quote("a b") + "=" + urllib.parse.quote("c&d")))
    rows = made.control("GET", f"/v2/sandboxes?metadata={query}&state=running,paused&order=asc", expect=200)
    assert [row["sandboxID"] for row in rows] == [made.id]
    assert {row["sandboxID"] for row in made.control("GET", "/sandboxes", expect=200)} == {made.id, old["sandboxID"]}
    made.control("DELETE", f"/sandboxes/{old['sandboxID']}", expect=204)
    made.kill()


def test_a_sandbox_of_another_door_is_entered_by_connecting(service, tenant, key):
    made = Sandbox(service, key)
    native = tenant.post("/v1/sandboxes", {}, expect=201)["id"]
    headers = {"E2b-Sandbox-Id": native, "E2b-Sandbox-Port": "49983"}
    assert made.api.get("/health", headers=headers).status == 502
    token = made.control("POST", f"/v2/sandboxes/{native}/connect", {}, expect=200)["envdAccessToken"]
    assert made.api.get("/health", headers=headers).status == 204
    assert made.api.get("/envs", headers=headers).status == 401
    assert made.api.get("/envs", headers={**headers, "X-Access-Token": token}).status == 200
    made.kill()


def test_network_settings_are_kept(sandbox):
    settings = {"allowOut": ["1.1.1.1", "*.example.com"], "denyOut": ["0.0.0.0/0"]}
    assert sandbox.control("PUT", f"/sandboxes/{sandbox.id}/network", settings).status == 204
    info = sandbox.control("GET", f"/sandboxes/{sandbox.id}", expect=200)
    assert info["network"] == settings and info["envdAccessToken"] == sandbox.token
    assert sandbox.control("PUT", f"/sandboxes/{sandbox.id}/network", {"denyOut": ["nonsense"]}).status == 400


def test_logs_and_templates_and_teams(sandbox, tenant):
    sandbox.run("true")
    logs = sandbox.control("GET", f"/sandboxes/{sandbox.id}/logs", expect=200)
    assert all(json.loads(row["line"])["level"] for row in logs["logs"]) and logs["logEntries"]
    newest = sandbox.control("GET", f"/v2/sandboxes/{sandbox.id}/logs?limit=1", expect=200)["logs"]
    oldest = sandbox.control("GET", f"/v2/sandboxes/{sandbox.id}/logs?limit=1&direction=forward", expect=200)["logs"]
    assert len(newest) == len(oldest) == 1 and newest[0]["timestamp"] >= oldest[0]["timestamp"]
    assert "host" in [row["templateID"] for row in sandbox.control("GET", "/templates", expect=200)]
    assert sandbox.control("GET", "/templates/aliases/host", expect=200)["templateID"] == "host"
    assert sandbox.control("GET", "/teams", expect=200)[0]["teamID"] == tenant.org


def test_pages_of_other_origins_may_ask(sandbox):
    ask = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST",
           "Access-Control-Request-Headers": "x-api-key"}
    for headers, path in ((ask, "/v2/sandboxes"), ({**ask, **sandbox.headers()}, "/process.Process/Start")):
        reply = sandbox.api.call("OPTIONS", path, headers=headers)
        assert reply.status == 204 and reply.headers["Access-Control-Allow-Origin"] == "*", reply
        assert reply.headers["Access-Control-Allow-Headers"] == "x-api-key"
    reply = sandbox.api.get("/envs", headers={"Origin": "https://page.example", **sandbox.headers()})
    assert reply.headers["Access-Control-Allow-Origin"] == "*"
    assert sandbox.api.get("/v2/sandboxes", headers={"Origin": "https://page.example"}).status == 401
    native = sandbox.api.get("/v1/whoami", headers={"Origin": "https://page.example"})
    assert "Access-Control-Allow-Origin" not in native.headers


# ---- which sandbox ----

def test_a_sandbox_is_found_by_header_host_token_and_signature(sandbox):
    api = sandbox.api
    token = {"X-Access-Token": sandbox.token}
    for host in (f"49983-{sandbox.id}.e2b.example", f"49983-{sandbox.id}-client.e2b.example:8443"):
        assert api.get("/envs", headers={"Host": host, **token}).status == 200, host
        assert api.get("/envs", headers={"Host": host}).status == 401, host
    assert api.get("/envs", headers=token).status == 200
    sandbox.envd("POST", "/files?path=/tmp/signed", b"by url", **{"Content-Type": "application/octet-stream"})
    def signature(path, operation, user, *more):
        text = ":".join([path, operation, user, sandbox.token, *more])
        return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    def fetch(**query):
        return api.get("/files?" + urllib.parse.urlencode(query))
    good = signature("/tmp/signed", "read", "")
    assert fetch(path="/tmp/signed", signature=good).body == b"by url"
    assert fetch(path="/tmp/other", signature=good).status == 502  # nobody's
    late = str(int(time.time()) - 5)
    reply = fetch(path="/tmp/signed", signature=signature("/tmp/signed", "read", "", late), signature_expiration=late)
    assert (reply.status, reply.json["message"]) == (401, "signature is already expired")
    soon = str(int(time.time()) + 60)
    assert fetch(path="/tmp/signed", signature=signature("/tmp/signed", "read", "", soon), signature_expiration=soon).status == 200
    assert api.post("/files?" + urllib.parse.urlencode({"path": "/tmp/signed", "signature": good}), b"x",
                    headers={"Content-Type": "application/octet-stream"}).status == 502  # good for reading only


def test_what_is_not_there_is_502_and_bad_names_are_400(service, sandbox):
    api = sandbox.api
    for headers in ({"E2b-Sandbox-Id": "s" * 20, "E2b-Sandbox-Port": "49983"}, {"Host": f"8000-{'s' * 20}.x"},
                    {"X-Access-Token": "s" * 20 + "0" * 44}):
        for path in ("/health", "/", "/process.Process/List"):
            reply = api.get(path, headers=headers)
            assert (reply.status, reply.json["code"]) == (502, 502), (headers, path, reply)
    big = api.post("/files?path=/x", b"x" * 3000000, headers={"E2b-Sandbox-Id": "s" * 20, "E2b-Sandbox-Port": "49983"})
    assert big.status == 502
    for headers in ({"E2b-Sandbox-Id": sandbox.id}, {"E2b-Sandbox-Port": "49983"},
                    {"E2b-Sandbox-Id": sandbox.id, "E2b-Sandbox-Port": "0"},
                    {"E2b-Sandbox-Id": sandbox.id, "E2b-Sandbox-Port": "70000"}):
        assert api.get("/health", headers=headers).status == 400, headers
    assert api.get("/health").json == {"status": "ok"}


def test_a_wrong_token_is_refused_everywhere_but_for_health(sandbox):
    wrong = {"E2b-Sandbox-Id": sandbox.id, "E2b-Sandbox-Port": "49983"}
    for extra in ({}, {"X-Access-Token": "x"}, {"X-Access-Token": sandbox.token[:-1] + ("0" if sandbox.token[-1] != "0" else "1")}):
        headers = {**wrong, **extra}
        assert sandbox.api.get("/health", headers=headers).status == 204
        for method, path in (("GET", "/envs"), ("GET", "/metrics"), ("GET", "/files?path=/etc/passwd"),
                             ("POST", "/files?path=/tmp/x"), ("POST", "/process.Process/List"),
                             ("POST", "/process.Process/Start"), ("POST", "/filesystem.Filesystem/Stat"), ("GET", "/nowhere")):
            reply = sandbox.api.call(method, path, b"{}" if method == "POST" else None, headers=headers)
            assert (reply.status, reply.json["code"]) == (401, 401), (method, path, reply)


# ---- RPCs ----

def test_a_stream_begins_with_start_and_ends_with_its_end(sandbox):
    found = sandbox.run("echo hi; exit 3")
    assert [flags for flags, _ in found] == [0] * (len(found) - 1) + [2]
    assert found[0][1]["event"]["start"]["pid"] > 1
    assert found[1][1] == {"event": {"data": {"stdout": base64.b64encode(b"hi\n").decode()}}}
    assert found[-2][1]["event"]["end"] == {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}
    assert found[-1][1] == {}


def test_errors_of_streams_come_in_the_last_envelope(sandbox):
    start = "process.Process/Start"
    for body, raw, code in (({}, None, "invalid_argument"),
                            ({"process": {"cmd": "/no/such/program"}}, None, "invalid_argument"),
                            ({"process": {"cmd": "true", "cwd": "/no/such/dir"}}, None, "invalid_argument"),
                            ({"process": {"cmd": "true", "args": [1]}}, None, "invalid_argument"),
                            (None, b"\0\0\0\0\2{", "invalid_argument"), (None, b"\0\0\0", "invalid_argument"),
                            (None, b"\0\0\0\0\2no", "invalid_argument"), (None, b"\x40\0\0\0\0", "invalid_argument"),
                            (None, b"\1\0\0\0\2{}", "unimplemented")):
        found = sandbox.frames(start, body, raw)
        assert [flags for flags, _ in found] == [2] and found[0][1]["error"]["code"] == code, (body, raw, found)
    found = sandbox.frames("process.Process/Connect", {"process": {"pid": 99999}})
    assert found[0][1]["error"]["code"] == "not_found"
    found = sandbox.run("true", Authorization="Basic " + base64.b64encode(b"nobody-such:").decode())
    assert found[0][1]["error"]["code"] == "unauthenticated", found


def test_errors_of_unary_calls_have_a_code_and_its_status(sandbox):
    fs, process = "filesystem.Filesystem", "process.Process"
    for method, body, status, code in (
            (f"{fs}/Stat", {"path": "/no/such"}, 404, "not_found"),
            (f"{fs}/Stat", {"path": "~other/x"}, 400, "invalid_argument"),
            (f"{fs}/ListDir", {"path": "/etc/passwd"}, 400, "invalid_argument"),
            (f"{fs}/MakeDir", {"path": "/tmp"}, 409, "already_exists"),
            (f"{fs}/MakeDir", {"path": "/etc/passwd"}, 400, "invalid_argument"),
            (f"{fs}/Move", {"source": "/no/such", "destination": "/tmp/x"}, 404, "not_found"),
            (f"{fs}/GetWatcherEvents", {"watcherId": "none"}, 404, "not_found"),
            (f"{fs}/CreateWatcher", {"path": "/no/such"}, 404, "not_found"),
            (f"{process}/SendInput", {"process": {"pid": 99999}, "input": {"stdin": "eA=="}}, 404, "not_found"),
            (f"{process}/SendSignal", {"process": {"pid": 99999}, "signal": "SIGNAL_SIGKILL"}, 404, "not_found"),
            (f"{process}/NoSuch", {}, 501, "unimplemented")):
        reply = sandbox.envd("POST", f"/{method}", body)
        assert (reply.status, reply.json["code"]) == (status, code), (method, body, reply)
    assert sandbox.envd("POST", f"/{fs}/Stat", b"{not json").json["code"] == "invalid_argument"


def test_a_stream_keeps_quiet_connections_alive(sandbox):
    found = sandbox.run("sleep 2.5", **{"Keepalive-Ping-Interval": "1"})
    assert {"event": {"keepalive": {}}} in [message for _, message in found]


def test_a_process_ends_at_its_deadline(sandbox):
    began = time.monotonic()
    found = sandbox.run("sleep 30", **{"Connect-Timeout-Ms": "500"})
    assert time.monotonic() - began < 3
    assert found[-1][1]["error"] == {"code": "deadline_exceeded", "message": "context deadline exceeded"}
    wait_for(lambda: not sandbox.rpc("process.Process/List", {})["processes"], what="its end")


def test_many_readers_follow_one_process(sandbox):
    response = sandbox.api.stream("POST", "/process.Process/Start",
                                  (lambda b: struct.pack(">BI", 0, len(b)) + b)(json.dumps(
                                      {"process": {"cmd": "/bin/sh", "args": ["-c", "sleep 1; echo done"]}, "tag": "it"}).encode()),
                                  headers=sandbox.headers(**{"Content-Type": "application/connect+json"}))
    found = sandbox.frames("process.Process/Connect", {"process": {"tag": "it"}})
    assert found[1][1]["event"]["data"]["stdout"] == base64.b64encode(b"done\n").decode()
    assert b"exit status 0" in response.read()
    response.connection.close()


def test_a_killed_sandbox_drops_its_streams(sandbox):
    response = sandbox.api.stream("POST", "/process.Process/Start",
                                  (lambda b: struct.pack(">BI", 0, len(b)) + b)(b'{"process":{"cmd":"/bin/sleep","args":["60"]}}'),
                                  headers=sandbox.headers(**{"Content-Type": "application/connect+json"}))
    assert response.read(5)
    sandbox.control("DELETE", f"/sandboxes/{sandbox.id}", expect=204)
    with pytest.raises(Exception):
        response.read()  # cut off, without an end
    response.connection.close()
    assert sandbox.envd("GET", "/health").status == 502


# ---- files ----

def test_parts_of_a_file_are_served(sandbox):
    sandbox.envd("POST", "/files?path=/tmp/range.txt", b"0123456789", **{"Content-Type": "application/octet-stream"})
    for asked, status, body in (("bytes=2-4", 206, b"234"), ("bytes=7-", 206, b"789"), ("bytes=-3", 206, b"789"),
                                ("bytes=5-100", 206, b"56789"), ("bytes=10-", 416, None), ("lines=1-2", 200, b"0123456789")):
        reply = sandbox.envd("GET", "/files?path=/tmp/range.txt", Range=asked)
        assert reply.status == status and (body is None or reply.body == body), (asked, reply)


def test_a_file_is_asked_about(sandbox):
    sandbox.envd("POST", "/files?path=/tmp/asked.json", b"{}", **{"Content-Type": "application/octet-stream"})
    reply = sandbox.envd("HEAD", "/files?path=/tmp/asked.json")
    assert (reply.status, reply.headers["Content-Length"], reply.body) == (200, "2", b"")
    assert reply.headers["Content-Type"] == "application/json" and "asked.json" in reply.headers["Content-Disposition"]
    assert sandbox.envd("HEAD", "/files?path=/tmp/nothing").status == 404


def test_files_without_a_size_are_read(sandbox):
    assert b"Pid:" in sandbox.envd("GET", "/files?path=/proc/self/status").body


def test_bad_uploads_are_refused(sandbox):
    form = "multipart/form-data; boundary=b"
    for path, body, kind, status in (("/files", b"x", "application/octet-stream", 400),
                                     ("/files?path=/tmp", b"x", "application/octet-stream", 400),
                                     ("/files?path=/tmp/x", b"x", "text/plain", 400),
                                     ("/files?path=/tmp/x", b"x", "multipart/form-data", 400),
                                     ("/files?path=/tmp/x", b"--b--\r\n", form, 400),
                                     ("/files?path=/tmp/x", b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\ncut', form, 400),
                                     ("/files", b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n--b--\r\n', form, 400),
                                     ("/files?path=/tmp/x&username=nobody-such", b"x", "application/octet-stream", 401)):
        reply = sandbox.envd("POST", path, body, **{"Content-Type": kind})
        assert (reply.status, reply.json["code"]) == (status, status), (path, body, kind, reply)
    reply = sandbox.envd("POST", "/files?path=/tmp/x", b"not gzip", **{"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"})
    assert reply.status == 400
    reply = sandbox.envd("POST", "/files?path=/tmp/x", b"x", **{"Content-Type": "application/octet-stream", "Content-Encoding": "br"})
    assert reply.status == 400


def test_large_uploads_pass_in_pieces(sandbox):
    one, two = os.urandom(9 << 20), b"\1" * 70000
    part = '--b\r\nContent-Disposition: form-data; name="file"; filename="{}"\r\n\r\n'
    body = b"".join((part.format("/tmp/new/dir/one").encode(), one, b"\r\n", part.format("/tmp/two").encode(), two,
                     b"\r\n", part.format("/tmp/none").encode(), b"\r\n--b--\r\n"))
    reply = sandbox.envd("POST", "/files", body, **{"Content-Type": "multipart/form-data; boundary=b"})
    assert reply.status == 200 and [f["name"] for f in reply.json] == ["one", "two", "none"], reply
    for path, data in (("/tmp/new/dir/one", one), ("/tmp/two", two), ("/tmp/none", b"")):
        assert sandbox.envd("GET", f"/files?path={path}").body == data, path
    zeros = bytes(24 << 20)  # a thousand times as long as what is sent
    reply = sandbox.envd("POST", "/files?path=/tmp/zeros", gzip.compress(zeros),
                         **{"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"})
    assert reply.status == 200, reply
    assert sandbox.envd("GET", "/files?path=/tmp/zeros").body == zeros


def test_a_full_sandbox_says_so(sandbox):
    reply = sandbox.envd("POST", "/files?path=/tmp/big", bytes(1 << 30), **{"Content-Type": "application/octet-stream"})
    assert reply.status == 507 and "space" in reply.json["message"], reply


# ---- other ports ----

def test_a_service_inside_is_reached(sandbox):
    sandbox.spawn(SERVER, 8000)
    reply = sandbox.port("GET", "/a%20path?x=1&y=%2F", 8000)
    assert reply.status == 200 and reply.headers["X-Own"] == "yes"
    assert reply.body.startswith(b"/a%20path?x=1&y=%2F "), reply
    assert sandbox.port("POST", "/", 8000, b"z" * 500000).body == b"z" * 500000
    assert sandbox.port("PUT", "/", 8000, iter([b"in ", b"pieces"])).body == b"in pieces"
    assert sandbox.port("DELETE", "/", 8000).status == 204
    assert sandbox.port("PROPFIND", "/", 8000, b"any method").body == b"any method"
    head = sandbox.port("HEAD", "/", 8000)
    assert head.status == 200 and head.headers["Content-Length"] == "1234"
    assert sandbox.api.get("/by-host", headers={"Host": f"8000-{sandbox.id}.e2b.example"}).body.startswith(b"/by-host 8000-")
    response = sandbox.api.stream("GET", "/slow", headers=sandbox.headers(8000))
    began = time.monotonic()
    assert response.read(2) == b"0\n" and time.monotonic() - began < 0.15  # not held back
    assert response.read() == b"1\n2\n"
    response.connection.close()
    reply = sandbox.port("GET", "/silent", 8000)
    assert reply.status == 502 and reply.json["port"] == 8000, reply


def test_bytes_go_both_ways_after_an_upgrade(service, sandbox):
    sandbox.spawn(WEBSOCKET, 8001)
    ws = web.WebSocket(service.tcp, "/socket", sandbox.headers(8001))
    ws.sock.sendall(b"anything " * 10000)
    got = b""
    while len(got) < 90000:
        got += ws.sock.recv(65536)
    assert got == b"anything " * 10000
    ws.sock.close()


def test_a_port_that_nobody_has_opened_is_502(sandbox):
    began = time.monotonic()
    reply = sandbox.port("GET", "/", 9999)
    assert reply.status == 502 and reply.json["message"] == "The sandbox is running but port is not open", reply
    assert 0.8 < time.monotonic() - began < 3  # it was given a chance


def test_private_traffic_needs_its_token(service, key):
    made = Sandbox(service, key, network={"allowPublicTraffic": False, "maskRequestHost": "inside:${PORT}"})
    made.spawn(SERVER, 8000)
    assert made.port("GET", "/", 8000).status == 403
    assert made.port("GET", "/", 8000, **{"E2B-Traffic-Access-Token": "x" * 64}).status == 403
    reply = made.port("GET", "/", 8000, **{"E2B-Traffic-Access-Token": made.made["trafficAccessToken"]})
    assert reply.status == 200 and reply.body.startswith(b"/ inside:8000 "), reply
    assert made.envd("GET", "/envs").status == 200
    made.kill()


# ---- clients that go away ----

def request_bytes(sandbox, port, path, kind, body):
    head = "".join(f"{name}: {value}\r\n" for name, value in sandbox.headers(port).items())
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\n{head}Content-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def test_a_client_may_go_at_any_byte(service, sandbox):
    sandbox.spawn(SERVER, 8000)
    start = b'{"process":{"cmd":"/bin/sh","args":["-c","echo hi; sleep 0.2"]}}'
    form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="/tmp/cut"\r\n\r\n' + b"x" * 300 + b"\r\n--b--\r\n"
    fs = "/filesystem.Filesystem"
    whole = [request_bytes(sandbox, ENVD, "/process.Process/Start", "application/connect+json", struct.pack(">BI", 0, len(start)) + start),
             request_bytes(sandbox, ENVD, "/files", "multipart/form-data; boundary=b", form),
             request_bytes(sandbox, ENVD, "/files?path=/tmp/cut", "application/octet-stream", b"y" * 500),
             request_bytes(sandbox, ENVD, f"{fs}/ListDir", "application/json", b'{"path":"/usr","depth":2}'),
             request_bytes(sandbox, ENVD, f"{fs}/WatchDir", "application/connect+json", b"\0\0\0\0\x0f" + b'{"path":"/tmp"}'),
             request_bytes(sandbox, 8000, "/echo", "text/plain", b"z" * 500)]
    for data in whole:
        begin = data.index(b"\r\n\r\n") - 5
        for cut in (*range(begin, len(data), 41), len(data), len(data)):
            with web.dial(service.tcp) as sock:
                if cut % 2:  # a reset instead of an end
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.sendall(data[:cut])
                if cut == len(data):
                    sock.settimeout(0.05)
                    with contextlib.suppress(TimeoutError):
                        sock.recv(10)
    assert sandbox.run("echo still here")[1][1]["event"]["data"]["stdout"] == base64.b64encode(b"still here\n").decode()
    # its server was started beside a command that has ended
    wait_for(lambda: not sandbox.rpc("process.Process/List", {})["processes"], what="the end of all commands")


# ---- what outlives what ----

@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_tokens_settings_and_processes_survive_the_daemon():
    with Service(pool=1) as own:
        look_for_survivors(own, Sandbox(own, own.key(), network={"denyOut": ["10.0.0.0/8"]}, timeout=120))


def look_for_survivors(service, made):
    response = made.api.stream("POST", "/process.Process/Start",
                               (lambda b: struct.pack(">BI", 0, len(b)) + b)(json.dumps({"process": {
                                   "cmd": "/bin/sh", "args": ["-c", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.3; done; exit 9"]}}).encode()),
                               headers=made.headers(**{"Content-Type": "application/connect+json"}))
    _, n = struct.unpack(">BI", response.read(5))
    pid = json.loads(response.read(n))["event"]["start"]["pid"]
    service.kill9_daemon()
    service.wait_ready()
    response.connection.close()
    made.api.close()
    assert made.envd("GET", "/envs").status == 200
    found = made.frames("process.Process/Connect", {"process": {"pid": pid}})
    data = b"".join(base64.b64decode(m["event"]["data"]["stdout"]) for f, m in found if "data" in m.get("event", {}))
    assert data.endswith(b"5\n6\n") and found[-2][1]["event"]["end"]["exitCode"] == 9, found
    assert made.control("GET", f"/sandboxes/{made.id}", expect=200)["network"] == {"denyOut": ["10.0.0.0/8"]}
    made.kill()


def test_snapshots_are_templates_and_forks_are_sandboxes(sandbox):
    path = f"/sandboxes/{sandbox.id}"
    made = sandbox.control("POST", f"{path}/snapshots", {"name": "E2b-Snap:v2"})
    assert made.status == 201 and made.json["snapshotID"].endswith("/e2b-snap:v2"), made
    again = sandbox.control("POST", f"{path}/snapshots", {})
    assert again.json["snapshotID"].endswith(":default") and again.json["names"] == []
    listed = sandbox.control("GET", f"/snapshots?sandboxID={sandbox.id}&limit=1")
    assert len(listed.json) == 1 and listed.headers["X-Next-Token"]
    rest = sandbox.control("GET", f"/snapshots?sandboxID={sandbox.id}&nextToken={listed.headers['X-Next-Token']}")
    assert [s["snapshotID"] for s in rest.json] == [made.json["snapshotID"]]
    assert sandbox.control("GET", "/snapshots?name=none").json == []
    copy = sandbox.control("POST", "/v2/sandboxes", {"templateID": made.json["snapshotID"]})
    assert copy.status == 201, copy
    name = made.json["snapshotID"].replace("/", "%2F").replace(":", "%3A")
    assert sandbox.control("DELETE", f"/templates/{name}").status == 400
    forks = sandbox.control("POST", f"{path}/fork", {"count": 2, "timeout": 30})
    assert forks.status == 201 and len(forks.json) == 2, forks
    tokens = {fork["sandbox"]["envdAccessToken"] for fork in forks.json}
    assert len(tokens) == 2
    for one in [copy.json, *(fork["sandbox"] for fork in forks.json)]:
        assert sandbox.control("DELETE", f"/sandboxes/{one['sandboxID']}").status == 204
    for ref in (name, again.json["snapshotID"].replace(":", "%3A")):
        assert sandbox.control("DELETE", f"/templates/{ref}").status == 204
        assert sandbox.control("DELETE", f"/templates/{ref}").status == 404


def test_a_pause_without_memory_boots_from_the_disk(sandbox):
    path = f"/sandboxes/{sandbox.id}"
    assert sandbox.control("POST", f"{path}/pause", {"memory": False}).status == 204
    assert sandbox.control("POST", f"{path}/pause", {"memory": False}).status == 409
    assert sandbox.control("POST", f"/v2{path}/connect", {}).status == 201
    assert sandbox.control("POST", f"{path}/pause", {}).status == 204
    assert sandbox.control("POST", f"/v2{path}/connect", {"memory": False}).status == 201
    assert sandbox.control("GET", path).json["state"] == "running"
