# SPDX-License-Identifier: Apache-2.0
"""What an operator looks at: metrics, logs, the audit record, the processes themselves."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import ssl
import subprocess

import pytest
import web
from service import Box, Service, children, wait_for

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[^{}]*\})? (-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|\+?Inf|NaN))')
LABELS = re.compile(r'\{(?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*"(?:,|(?=\})))+\}')


def metrics(service):
    """{name: {labels: value}}, after a look at every line."""
    reply = service.client().get("/metrics")
    assert reply.status == 200 and reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found, kinds, done = {}, {}, set()
    current = None
    for line in reply.body.decode().splitlines():
        if line.startswith("# HELP "):
            current = line.split()[2]
            assert current not in done, f"{current} is there twice"
            done.add(current)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name == current and kind in ("counter", "gauge", "histogram")
            kinds[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match, f"malformed: {line!r}"
            name, labels, value = match.groups()
            assert not labels or LABELS.fullmatch(labels), line
            base = re.sub(r"_(bucket|sum|count)$", "", name) if kinds[current] == "histogram" else name
            assert base == current, f"{name} below {current}"
            assert kinds[current] != "counter" or name.endswith("_total"), name
            found.setdefault(name, {})[labels or ""] = float(value)
    check_histograms(found, kinds)
    return found


def check_histograms(found, kinds):
    for name in (n for n, kind in kinds.items() if kind == "histogram"):
        buckets = found[f"{name}_bucket"]
        values = list(buckets.values())
        assert values == sorted(values), f"{name} is not cumulative"
        assert list(buckets)[-1].endswith('le="+Inf"}') and values[-1] == sum(found[f"{name}_count"].values())


def test_metrics_are_well_formed_and_count(service, tenant):
    before = metrics(service)
    box = Box(tenant)
    box.sh("true")
    after = metrics(service)
    states = next(rows for name, rows in after.items() if any('state="running"' in k for k in rows))
    assert next(v for k, v in states.items() if 'state="running"' in k) >= 1
    grown = {name for name in after for labels in after[name]
             if after[name][labels] > before.get(name, {}).get(labels, 0)}
    assert any("create" in name for name in grown) and any("exec" in name for name in grown), grown
    assert any("http_requests" in name for name in grown)
    assert any("pool" in name or "parked" in name for name in after), list(after)


def test_errors_and_limits_hit_are_counted(service, tenant):
    def total(word):
        return sum(v for name, rows in metrics(service).items() if word in name for v in rows.values())

    org, client = service.tenant("full", sandboxes=1)
    Box(client)
    hits, errors = total("limit"), total("error")
    assert client.post("/v1/sandboxes", {}).status == 429
    assert total("limit") > hits and total("error") >= errors
    client.delete("/v1/sandboxes", expect=200)
    service.operator.delete(f"/v1/orgs/{org}", expect=204)


# ---- logs ----

def test_logs_are_json_lines_with_the_request_and_without_any_key(service, tenant):
    reply = tenant.get("/v1/sandboxes/nope")
    request = reply.error["requestId"]
    rows = [json.loads(line) for line in service.log().splitlines()]  # every one of them
    assert {"time", "level", "program"} <= set(rows[0]), rows[0]
    assert {row["program"] for row in rows} >= {"sandglassd", "sandglass-launcher"}
    text = service.log()
    assert tenant.key not in text and tenant.key[4:] not in text
    assert not re.search(r"e2b_[0-9a-f]{40}", text)
    wait_for(lambda: request in service.log(), 5, "the request in the log")


def test_the_reply_carries_the_requests_id(tenant):
    reply = tenant.get("/v1/whoami")
    assert re.fullmatch(r"r[a-z0-9]{19}", reply.headers["X-Request-Id"])


# ---- audit ----

def test_who_did_what_is_on_record(service, tenant, box):
    start = len(service.audit())
    box.sh("echo secret-argument")
    box.write("/workspace/f", b"content")
    run = box.spawn("sleep 100")["id"]
    box.client.delete(f"{box.path}/execs/{run}", expect=204)
    reader = service.client(service.key(org=tenant.org, scopes=["read"]))
    assert reader.post(f"{box.path}/pause").status == 403
    box.destroy()
    rows = [r for r in service.audit()[start:] if r["org"] == tenant.org]
    actions = [r["action"] for r in rows]
    for action in ("exec.start", "exec.kill", "sandbox.destroy"):
        assert action in actions, actions
    assert any(a.startswith("file") for a in actions) and any("denied" in a for a in actions), actions
    started = next(r for r in rows if r["action"] == "exec.start")
    assert "secret-argument" in json.dumps(started["detail"]) and started["sandbox"] == box.id
    assert started["actor"] and re.fullmatch(r"r[a-z0-9]{19}", started["request"])
    assert [r["seq"] for r in rows] == sorted(r["seq"] for r in rows)
    verdict = service.operator.get("/v1/audit/verify", expect=200)
    assert verdict["whole"] and verdict["records"] >= len(rows) and len(verdict["head"]) == 64


def tampered(change):
    """Runs a service, changes its record behind its back, and asks what a new one says."""
    service = Service(pool=0)
    try:
        service.start()
        for _ in range(3):
            Box(service.operator).destroy()
        assert service.operator.get("/v1/audit/verify", expect=200)["whole"]
        service.stop()
        database = sqlite3.connect(service.state / "daemon" / "sandglass.db")
        for name, in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        middle, = database.execute("SELECT seq FROM audit ORDER BY seq LIMIT 1 OFFSET 2").fetchone()
        database.execute(change, (middle,))
        database.commit()
        database.close()
        service.start()
        verdict = service.operator.get("/v1/audit/verify", expect=200)
        service.stop()
        return middle, verdict
    finally:
        service.discard()
        service.remove()


@pytest.mark.parametrize("change", ["UPDATE audit SET actor = 'somebody else' WHERE seq = ?",
                                    "DELETE FROM audit WHERE seq = ?"], ids=["changed", "removed"])
def test_a_record_that_was_tampered_with_is_found(root, change):
    middle, verdict = tampered(change)
    assert verdict["whole"] is False and middle <= verdict["brokenAt"] <= middle + 1


# ---- the processes ----

def status_of(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def test_the_daemon_holds_no_power(service):
    pid = service.daemon_pid()
    status = status_of(pid)
    assert set(status["Uid"].split()) == {"1879048190"} and status["NoNewPrivs"] == "1"
    assert all(int(status[f"Cap{kind}"], 16) == 0 for kind in ("Inh", "Prm", "Eff", "Amb"))
    assert status["Seccomp"] == "2" and status["Groups"].split() in ([], ["1879048190"])
    assert os.stat(f"/proc/{pid}/ns/mnt").st_ino != os.stat("/proc/self/ns/mnt").st_ino
    seen = os.listdir(f"/proc/{pid}/root")
    assert "etc" not in seen and "state" in seen
    assert children(pid) == []


def test_the_launcher_has_one_thread_and_listens_nowhere_else(service):
    assert os.listdir(f"/proc/{service.launcher_pid()}/task") == [str(service.launcher_pid())]


def test_the_doors_are_where_they_should_be(service):
    assert (service.run.stat().st_mode & 0o777) == 0o700
    listening = subprocess.run(["ss", "-Hltn", f"sport = :{service.port}"], capture_output=True, text=True).stdout
    assert f"127.0.0.1:{service.port}" in listening


def test_whoever_may_open_the_unix_socket_is_asked_who_he_is(service):
    """Its directory is closed; a descriptor that leaked would still not be enough."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            sock = socket.socket(socket.AF_UNIX)
            folder = os.open(service.run, os.O_PATH)
            os.setgroups([])
            os.setresuid(65534, 65534, 65534)
            try:
                sock.connect(f"/proc/self/fd/{folder}/api.sock")
                sock.sendall(b"GET /v1/whoami HTTP/1.1\r\nHost: x\r\n\r\n")
                code = 0 if b" 401 " in sock.recv(100) else 1
            except PermissionError:
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_serve_ends_by_sigterm_and_leaves_the_sandboxes_for_the_next(root):
    service = Service(pool=1)
    try:
        service.start()
        box = Box(service.operator)
        run = box.spawn("i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done")["id"]
        wait_for(lambda: box.execution(run)["outputBytes"] > 3, what="output")
        assert service.end(signal.SIGTERM) in (0, 128 + signal.SIGTERM)
        service.start()
        assert box.state() == "running" and box.execution(run)["state"] == "running"
        before = box.execution(run)["outputBytes"]
        wait_for(lambda: box.execution(run)["outputBytes"] > before, what="more output")
        numbers = [int(n) for n in box.output(run).split()[:-1]]
        assert numbers == list(range(1, len(numbers) + 1))
        service.stop()
    finally:
        service.discard()
        service.remove()


def test_ending_waits_for_what_is_under_way_but_not_for_streams(root):
    with Service(pool=1) as service:
        box = Box(service.operator)
        stream = service.operator.stream("GET", "/v1/events")
        follow = service.operator.stream("POST", f"{box.path}/exec", {"argv": ["sleep", "100"]},
                                         query={"stream": 1})
        service.stop()
        for response in (stream, follow):
            with contextlib.suppress(web.http.client.IncompleteRead):
                response.read()
            response.connection.close()


def test_who_still_waits_at_the_end_is_answered(root):
    with Service(pool=1, settings={"log_level": "debug"}) as service:
        box = Box(service.operator)
        client = service.client(service.key(scopes=["read", "exec"]))
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(client.post, f"{box.path}/exec", body={"argv": ["sleep", "100"]})
            wait_for(lambda: service.operator.get(f"{box.path}/execs", expect=200)["execs"], what="the exec")
            os.kill(service.daemon_pid(), signal.SIGTERM)
            reply = waiting.result(30)
        assert reply.status == 503 and reply.error["kind"] == "unavailable"
        service.wait_ready()


# ---- TLS ----

@pytest.fixture
def certificate(tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return str(cert), str(key)


def test_tls_and_plain_share_the_port(root, certificate):
    cert, key = certificate
    with Service(pool=0, settings={"tls_cert": cert, "tls_key": key}) as service:
        context = ssl.create_default_context(cafile=cert)
        assert service.client().get("/health").status == 200
        with context.wrap_socket(web.dial(service.tcp), server_hostname="127.0.0.1") as sock:
            assert sock.version() in ("TLSv1.2", "TLSv1.3")
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert sock.recv(1000).startswith(b"HTTP/1.1 200 ")
        secret = service.key()
        box = Box(service.client(secret))
        with context.wrap_socket(web.dial(service.tcp), server_hostname="127.0.0.1") as sock:
            data = os.urandom(3 << 20)
            sock.sendall(f"PUT {box.path}/files?path=/workspace/f HTTP/1.1\r\nHost: x\r\nX-API-Key: {secret}\r\n"
                         f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
            assert sock.recv(1000).startswith(b"HTTP/1.1 200 ")
            sock.sendall(f"GET {box.path}/files?path=/workspace/f HTTP/1.1\r\nHost: x\r\nX-API-Key: {secret}\r\n"
                         "Connection: close\r\n\r\n".encode())
            got = b""
            while piece := sock.recv(65536):
                got += piece
        assert got.partition(b"\r\n\r\n")[2] == data
