# SPDX-License-Identifier: Apache-2.0
"""What strangers send: one clear answer each, and a service that goes on."""
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import leaks
import openapi
import pytest
import sg
import web
from service import NOBODY, Box, Service, wait_for

KEY = "KEY"  # put in place of it: the tenant's
PROBE = b"GET /v1/probe-that-must-not-be-read HTTP/1.1\r\nHost: x\r\n\r\n"


def heads(data):
    """The statuses of all replies in what came back."""
    return [int(m) for m in re.findall(rb"HTTP/1\.1 (\d{3}) ", data)]


def request(line="GET /v1/whoami HTTP/1.1", *fields, body=b"", host=True):
    rows = [line, *(["Host: x"] if host else []), f"X-API-Key: {KEY}", *fields]
    return "\r\n".join(rows).encode("latin-1") + b"\r\n\r\n" + body


CREATE = "POST /v1/sandboxes HTTP/1.1"
# name: (bytes, statuses that are right)
MALFORMED = {
    "no method": (b" / HTTP/1.1\r\nHost: x\r\n\r\n", [400]),
    "no version": (b"GET /health\r\nHost: x\r\n\r\n", [400]),
    "two spaces": (b"GET  /health HTTP/1.1\r\nHost: x\r\n\r\n", [400]),
    "version 2": (b"GET /health HTTP/2.0\r\nHost: x\r\n\r\n", [400, 505]),
    "preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400, 505]),
    "a method nobody knows": (request("BREW /v1/whoami HTTP/1.1"), [405, 501]),
    "a lower-case method": (request("get /v1/whoami HTTP/1.1"), [400, 405, 501]),
    "no host": (request(host=False), [400]),
    "two hosts": (request("GET /v1/whoami HTTP/1.1", "Host: y"), [400]),
    "a control byte in a name": (request("GET /v1/whoami HTTP/1.1", "X\x01: y"), [400]),
    "NUL in a value": (request("GET /v1/whoami HTTP/1.1", "X: a\0b"), [400]),
    "a bare line feed": (b"GET /health HTTP/1.1\nHost: x\n\n", [400]),
    "a bare carriage return": (b"GET /health HTTP/1.1\r\nHost: x\rX: y\r\n\r\n", [400]),
    "a field without a colon": (request("GET /v1/whoami HTTP/1.1", "nothing"), [400]),
    "a target that is no path": (request("GET whoami HTTP/1.1"), [400]),
    "a bad escape": (request("GET /v1/sandboxes/%zz HTTP/1.1"), [400, 404]),
    "an escaped NUL": (request("GET /v1/sandboxes/%00 HTTP/1.1"), [400, 404]),
    "TLS where there is none": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64, [400]),
    "noise": (bytes(range(256)) * 8, [400]),
    "a head that is too large": (request("GET /v1/whoami HTTP/1.1", "X: " + "a" * 70000), [431]),
    "too many fields": (request("GET /v1/whoami HTTP/1.1", *(f"X{n}: y" for n in range(200))), [431]),
    "a target that is too long": (request("GET /v1/whoami?" + "a" * 20000 + " HTTP/1.1"), [414, 431]),
    "an expectation nobody meets": (request(CREATE, "Expect: miracles", "Content-Length: 2", body=b"{}"), [417]),
}
SMUGGLING = {
    "length and chunked": request(CREATE, "Content-Length: 5", "Transfer-Encoding: chunked",
                                  body=b"0\r\n\r\n" + PROBE),
    "chunked and length": request(CREATE, "Transfer-Encoding: chunked", "Content-Length: 5",
                                  body=b"0\r\n\r\n" + PROBE),
    "two lengths": request(CREATE, "Content-Length: 2", "Content-Length: 0", body=b"{}" + PROBE),
    "two equal lengths": request(CREATE, "Content-Length: 2", "Content-Length: 2", body=b"{}" + PROBE),
    "a list of lengths": request(CREATE, "Content-Length: 2, 2", body=b"{}" + PROBE),
    "a signed length": request(CREATE, "Content-Length: +2", body=b"{}" + PROBE),
    "a negative length": request(CREATE, "Content-Length: -2", body=b"{}" + PROBE),
    "a hexadecimal length": request(CREATE, "Content-Length: 0x2", body=b"{}" + PROBE),
    "a length that overflows": request(CREATE, "Content-Length: 18446744073709551618", body=b"{}" + PROBE),
    "an empty length": request(CREATE, "Content-Length: ", body=b"{}" + PROBE),
    "another coding": request(CREATE, "Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n" + PROBE),
    "chunked twice": request(CREATE, "Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n" + PROBE),
    "two codings": request(CREATE, "Transfer-Encoding: chunked", "Transfer-Encoding: identity",
                           body=b"0\r\n\r\n" + PROBE),
    "almost chunked": request(CREATE, "Transfer-Encoding: xchunked", body=b"0\r\n\r\n" + PROBE),
    "chunked with a tab": request(CREATE, "Transfer-Encoding:\x0bchunked", body=b"0\r\n\r\n" + PROBE),
    "chunked in HTTP/1.0": request("POST /v1/sandboxes HTTP/1.0", "Transfer-Encoding: chunked",
                                   body=b"0\r\n\r\n" + PROBE),
    "a folded field": request(CREATE, "Transfer-Encoding:\r\n chunked", "Content-Length: 2",
                              body=b"{}" + PROBE),
    "a space before the colon": request(CREATE, "Content-Length : 2", body=b"{}" + PROBE),
    "a space before the name": request(CREATE, " Content-Length: 2", body=b"{}" + PROBE),
    "another host in the target": request("GET http://evil/v1/whoami HTTP/1.1", body=PROBE),
    "a chunk size with 0x": request(CREATE, "Transfer-Encoding: chunked", body=b"0x2\r\n{}\r\n0\r\n\r\n" + PROBE),
    "a chunk size that overflows": request(CREATE, "Transfer-Encoding: chunked",
                                           body=b"10000000000000002\r\n{}\r\n0\r\n\r\n" + PROBE),
    "a signed chunk size": request(CREATE, "Transfer-Encoding: chunked", body=b"+2\r\n{}\r\n0\r\n\r\n" + PROBE),
    "a chunk that is longer than it says": request(CREATE, "Transfer-Encoding: chunked",
                                                   body=b"2\r\n{}X\r\n0\r\n\r\n" + PROBE),
    "a chunk line ended by a line feed": request(CREATE, "Transfer-Encoding: chunked",
                                                 body=b"2\n{}\r\n0\r\n\r\n" + PROBE),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_request_gets_one_clear_answer(service, tenant, name):
    data, right = MALFORMED[name]
    got = web.exchange(service.tcp, data.replace(KEY.encode(), tenant.key.encode()), timeout=2)
    assert len(heads(got)) == 1 and heads(got)[0] in right, got[:300]
    error = json.loads(got.partition(b"\r\n\r\n")[2])["error"]
    assert error["kind"] and error["message"] and error["requestId"]
    assert tenant.get("/v1/whoami").status == 200


@pytest.mark.parametrize("name", SMUGGLING)
def test_a_request_that_could_be_read_in_two_ways_is_refused_and_the_rest_is_not_read(service, tenant, name):
    data = SMUGGLING[name].replace(KEY.encode(), tenant.key.encode())
    got = web.exchange(service.tcp, data, timeout=2)
    assert len(heads(got)) == 1 and heads(got)[0] in (400, 501), got[:600]
    assert b"onnection: close" in got
    assert tenant.get("/v1/sandboxes", expect=200)["sandboxes"] == []


def test_requests_that_come_together_are_answered_in_order(service, tenant):
    data = b"".join(request(f"GET /v1/sandboxes?limit={n} HTTP/1.1") for n in (1, 0, 2)) + request(
        "GET /health HTTP/1.1", "Connection: close")
    got = web.exchange(service.tcp, data.replace(KEY.encode(), tenant.key.encode()))
    assert heads(got) == [200, 400, 200, 200]


def test_any_cut_of_a_request_is_the_same_request(service, tenant):
    data = request("GET /v1/whoami HTTP/1.1", "Connection: close").replace(KEY.encode(), tenant.key.encode())
    with web.dial(service.tcp) as sock:
        for byte in data:
            sock.sendall(bytes([byte]))
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_half_open_and_silent_connections_hold_up_nobody(service, tenant):
    idle = [web.dial(service.tcp) for _ in range(300)]
    for number, sock in enumerate(idle):
        sock.sendall(b"GET /health HTTP/1.1\r\nX: "[:number % 26])
    start = time.monotonic()
    assert tenant.get("/v1/whoami").status == 200
    assert service.client().get("/health").status == 200 and time.monotonic() - start < 2
    for sock in idle:
        sock.close()


# ---- routes and bodies ----

@pytest.mark.parametrize("path", ["/", "/v1", "/v1/nothing", "/v1/sandboxes/", "/v9/sandboxes",
                                  "/v1/sandboxes/x/y/z", "/health/", "//health", "/v1/../health",
                                  "/v1/%2e%2e/health", "/v1/" + "a/" * 200])
def test_what_is_no_route_is_not_found(service, tenant, path):
    reply = tenant.request("GET", path)
    assert reply.status == 404 and reply.error["kind"] == "not_found"


@pytest.mark.parametrize("method, path", [("PUT", "/v1/sandboxes"), ("POST", "/health"),
                                          ("PATCH", "/v1/keys"), ("DELETE", "/v1/whoami")])
def test_another_method_is_told_which_ones_there_are(tenant, method, path):
    reply = tenant.request(method, path)
    assert reply.status == 405 and reply.headers["Allow"]


def test_head_is_get_without_a_body(service):
    reply = service.client().request("HEAD", "/health")
    assert reply.status == 200 and reply.body == b"" and int(reply.headers["Content-Length"]) > 0


@pytest.mark.parametrize("body, word", [
    (b"{", "line"), (b"[]", "object"), (b"null", ""), (b"5", ""), (b'{"a":1,}', ""), (b"\xff\xfe", "xff"),
    (b'{"template":"host","template":"host"}', "template"), (b'{"a":' * 100 + b"1" + b"}" * 100, ""),
    (b'{"metadata":{"a":"\\ud800"}}', ""), (b"{} {}", ""), (b"{'a':1}", ""), (b'{"timeoutMs":1e400}', ""),
    (b'{"templat":"host"}', "templat"), (b'{"template":5}', "template"), (b'{"timeoutMs":-1}', "timeoutMs"),
    (b'{"timeoutMs":1.5}', "timeoutMs"), (b'{"timeoutMs":"5"}', "timeoutMs"), (b'{"retries":11}', "retries"),
    (b'{"limits":{"memoryBytes":0}}', "memoryBytes"), (b'{"limits":{"ram":1}}', "ram"),
    (b'{"limits":{"memoryBytes":1}}', "memory"), (b'{"limits":{"cpus":-1}}', "cpus"),
    (b'{"metadata":{"a":null}}', "metadata"), (b'{"metadata":["a"]}', "metadata"), (b'{"onExpiry":"sleep"}', "sleep"),
    (b'{"env":{"A\\u0000B":"x"}}', ""), (b'{"env":{"A=B":"x"}}', "env"), (b'{"env":{"A":"a\\u0000b"}}', "env"),
    (b'{"template":"../../etc"}', "etc"), (b'{"template":""}', ""), (b'{"timeoutMs":99999999999999999999}', "timeoutMs"),
])
def test_a_wrong_body_is_told_what_is_wrong(tenant, body, word):
    reply = tenant.post("/v1/sandboxes", body)
    assert reply.status in (400, 404 if b"template" in body else 400), reply
    assert word in reply.error["message"], reply
    assert tenant.get("/v1/sandboxes", expect=200)["sandboxes"] == []


def test_a_near_miss_is_named_with_what_was_meant(tenant):
    message = tenant.post("/v1/sandboxes", {"timeoutms": 5}).json["error"]
    assert "timeoutms" in str(message) and "timeoutMs" in str(message)


def test_an_unknown_query_name_is_refused_by_name_on_every_route(service, tenant, box):
    volume = tenant.post("/v1/volumes", {"name": "asked"}, expect=201)["id"]
    ids = {**NOBODY, "id": box.id, "exec": box.spawn("sleep 100")["id"], "org": tenant.org, "volume": volume}
    for method, path, op in openapi.operations():
        if op.get("security") == [] and path != "/v1/openapi.json":
            continue  # health and metrics: probes add what they like
        where = re.sub(r"\{(\w+)\}", lambda m: ids[m[1]], path)
        needs = [p for p in map(openapi.resolve, op.get("parameters", ())) if p.get("required")]
        client = service.operator if op.get("x-operator") else tenant
        reply = client.call(method.upper(), where,
                            query={**{p["name"]: "/tmp" for p in needs}, "wrogn": 1})
        assert reply.status == 400 and "'wrogn'" in reply.error["message"], (method, path, reply)


def test_control_bytes_in_what_is_quoted_are_escaped(tenant):
    reply = tenant.get("/v1/sandboxes/%1b%5b31m")
    assert reply.status == 404 and "\x1b" not in reply.error["message"]


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_over_the_limit_is_refused_without_being_read(service, tenant, is_chunked):
    size = 9 << 20
    how = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {size}"
    head = request(CREATE, how).replace(KEY.encode(), tenant.key.encode())
    with web.dial(service.tcp) as sock:
        sock.sendall(head)
        piece = b"10000\r\n" + b" " * 65536 + b"\r\n" if is_chunked else b" " * 65536
        try:
            for _ in range(size // 65536 + 1):
                sock.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            got = sock.recv(65536)
        except ConnectionResetError:
            got = b""
    assert not got or got.startswith(b"HTTP/1.1 413 "), got
    if not is_chunked:  # told at once, from the length alone
        assert web.exchange(service.tcp, head, timeout=3).startswith(b"HTTP/1.1 413 ")


# ---- what the machine does to it ----

def log_has(service, *words):
    return all(word in service.log() for word in words)


def test_a_taken_port_ends_it_with_the_reason(root):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        service = Service(pool=0, settings={"listen": "127.0.0.1:%d" % taken.getsockname()[1]})
        try:
            service.start(wait=False)
            assert service.process.wait(15) not in (0, None)
            assert str(taken.getsockname()[1]) in service.log() and "taken" in service.log()
            assert service.log().count("taken") <= 2  # said once, not again and again
        finally:
            service.discard()
            service.remove()


def test_a_missing_launcher_ends_it_with_the_reason(root, tmp_path):
    tmp_path.chmod(0o755)
    alone = tmp_path / "sandglass"
    shutil.copy(sg.BIN, alone)
    service = Service(pool=0, binary=str(alone))
    try:
        service.start(wait=False)
        assert service.process.wait(15) not in (0, None)
        assert "sandglass-launcher" in service.log()
    finally:
        service.discard()
        service.remove()


def test_a_second_service_on_the_same_directories_is_refused(root):
    with Service(pool=0) as first:
        second = Service(pool=0, folder=first.folder)  # with a port of its own
        second.log_path = first.folder / "log2"
        try:
            second.start(wait=False)
            assert second.process.wait(15) not in (0, None) and second.log()
        finally:
            second.discard()
        assert first.operator.get("/health").status == 200


def test_a_locked_store_is_told_and_waited_for(root):
    service = Service(pool=0)
    folder = service.state / "daemon"
    folder.mkdir(mode=0o700)
    lock = open(folder / "sandglass.db-lock", "w")
    os.chmod(folder / "sandglass.db-lock", 0o666)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        service.start(wait=False)
        wait_for(lambda: log_has(service, "another process uses"), 15, "the reason")
        assert service.process.poll() is None
        lock.close()
        service.wait_ready()
        assert service.operator.post("/v1/sandboxes", {}).status == 201
        service.stop()
    finally:
        lock.close()
        service.discard()
        service.remove()


def test_a_damaged_store_is_put_aside_and_the_service_starts(root):
    service = Service(pool=0)
    try:
        service.start()
        box = service.operator.post("/v1/sandboxes", {}, expect=201)
        service.end(signal.SIGTERM)  # the sandbox stays
        database = service.state / "daemon" / "sandglass.db"
        for path in database.parent.glob("sandglass.db-*"):
            if path.name != "sandglass.db-lock":
                path.unlink()
        data = bytearray(database.read_bytes())
        data[100:4096] = os.urandom(3996)
        database.write_bytes(data)
        service.start()
        assert log_has(service, "damaged") and list(database.parent.glob("sandglass.db.damaged-*"))
        assert service.operator.get(f"/v1/sandboxes/{box['id']}").status == 404
        assert service.operator.post("/v1/sandboxes", {}).status == 201
        wait_for(lambda: service.operator.post("/v1/reconcile", expect=200)["orphans"] == 0,
                 what="no cell without a row")
        service.stop()
    finally:
        service.discard()
        service.remove()


def test_a_full_disk_is_told_and_what_runs_goes_on(root):
    with leaks.mount_folder() as small:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=0755", "none", small], check=True)
        try:
            fill_the_disk_of_a_service(small)
        finally:
            subprocess.run(["umount", small], check=True)


def fill_the_disk_of_a_service(small):
    # The storage pool has a full disk of its own, in test_service_storage.py.
    with Service(pool=0, folder=small, settings={"storage": "tmpfs"}) as service:
        box = Box(service.operator)
        with open(small / "ballast", "wb") as ballast:
            try:
                while ballast.write(b"\0" * 65536):
                    ballast.flush()
            except OSError:
                pass
        statuses = {service.operator.post("/v1/sandboxes", {}).status for _ in range(5)}
        assert statuses <= {201, 429, 503}, statuses
        assert service.operator.get("/health").status == 200
        assert box.state() == "running"
        (small / "ballast").unlink()
        wait_for(lambda: service.operator.post("/v1/sandboxes", {}).status == 201, 20, "a create")
        assert box.sh("echo fine")["stdout"] == "fine\n"


@pytest.mark.parametrize("settings, words", [
    ({"listen": "nowhere"}, ["serve.listen", "nowhere"]), ({"pool": ["host"]}, ["serve.pool"]),
    ({"journal": "1k"}, ["serve.journal"]), ({"lisen": "127.0.0.1:1"}, ["lisen"]),
    ({"log_level": "loud"}, ["loud"])])
def test_wrong_settings_are_named(root, settings, words):
    service = Service(pool=0, settings=settings)
    try:
        service.start(wait=False)
        assert service.process.wait(15) not in (0, None)
        for word in words:
            assert word in service.log(), service.log()
    finally:
        service.discard()
        service.remove()


@pytest.mark.parametrize("is_there", [False, True])
def test_a_certificate_that_cannot_be_read_ends_it_with_the_reason(root, tmp_path, is_there):
    cert = tmp_path / "cert.pem"
    if is_there:
        cert.write_text("no certificate\n")
    service = Service(pool=0, settings={"tls_cert": str(cert), "tls_key": str(cert)})
    try:
        service.start(wait=False)
        assert service.process.wait(15) == 2
        assert log_has(service, "certificate") and (is_there or log_has(service, str(cert)))
    finally:
        service.discard()
        service.remove()
