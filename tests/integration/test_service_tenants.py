# SPDX-License-Identifier: Apache-2.0
"""Organisations, keys, scopes, rates and quotas; and that nobody sees what is another's."""
import concurrent.futures
import contextlib
import datetime
import http.client
import json
import os
import re
import time

import openapi
import pytest
import kernels
import sg
import web
from service import NOBODY, Box, Service

MIB = 1 << 20


def soon(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


# ---- keys ----

def test_both_headers_carry_a_key(service, tenant):
    for headers in ({"Authorization": f"Bearer {tenant.key}"}, {"X-API-Key": tenant.key},
                    {"authorization": f"bearer {tenant.key}"}):
        assert service.client().get("/v1/whoami", headers=headers).status == 200, headers


@pytest.mark.parametrize("headers", [
    {}, {"X-API-Key": ""}, {"X-API-Key": "e2b_" + "0" * 40}, {"X-API-Key": "x"},
    {"X-API-Key": "e2b_" + "0" * 39}, {"X-API-Key": "e2b_" + "g" * 40}, {"X-API-Key": "a" * 8000},
    {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer"}, {"Authorization": "Bearer \xff"}])
def test_without_a_valid_key_there_is_one_answer(service, headers):
    reply = service.client().get("/v1/sandboxes", headers=headers)
    assert reply.status == 401 and reply.error["kind"] == "denied"
    assert "WWW-Authenticate" in reply.headers


def test_a_key_is_shown_once_and_kept_as_a_hash(service, tenant):
    made = tenant.post("/v1/keys", {"name": "mine"}, expect=201)
    assert re.fullmatch(r"e2b_[0-9a-f]{40}", made["key"]) and made["key"].startswith(made["shown"])
    assert made["scopes"] == ["read", "exec"] and made["org"] == tenant.org
    listed = tenant.get("/v1/keys", expect=200)["keys"]
    assert made["id"] in [k["id"] for k in listed] and not any("key" in k for k in listed)
    for path in (service.state / "daemon").glob("sandglass.db*"):
        data = path.read_bytes()
        assert made["key"].encode() not in data and made["key"][4:].encode() not in data
    assert service.client(made["key"]).get("/v1/whoami", expect=200)["key"]["id"] == made["id"]


def test_a_revoked_key_is_no_key(service, tenant):
    made = tenant.post("/v1/keys", {"name": "short"}, expect=201)
    client = service.client(made["key"])
    assert client.get("/v1/sandboxes").status == 200
    tenant.delete(f"/v1/keys/{made['id']}", expect=204)
    reply = client.get("/v1/sandboxes")
    unknown = service.client("e2b_" + "0" * 40).get("/v1/sandboxes")
    assert reply.status == 401 and reply.error["message"] == unknown.error["message"]


def test_a_key_ends_at_its_time(service, tenant):
    made = tenant.post("/v1/keys", {"name": "brief", "expiresAt": soon(1)}, expect=201)
    client = service.client(made["key"])
    assert client.get("/v1/sandboxes").status == 200
    deadline = time.monotonic() + 5
    while client.get("/v1/sandboxes").status != 401:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    reply = tenant.post("/v1/keys", {"name": "past", "expiresAt": "2001-01-01T00:00:00Z"})
    assert reply.status == 400 and "expiresAt" in reply.error["message"]


def open_ends(client, path, run):
    """What a key may have open for long: a terminal, an attached one, output, events, a watch."""
    shell = client.websocket(f"{path}/exec/ws")
    shell.send({"argv": ["sh", "-c", "echo up; cat"], "stdin": True})
    assert shell.receive()["type"] == "started" and shell.receive() == b"\x01up\n"
    streams = [client.stream("GET", f"{path}/execs/{run}/output?follow=1"),
               client.stream("GET", "/v1/events"),
               client.stream("GET", f"{path}/files/watch?path=/tmp")]
    for stream in streams:
        assert stream.readline()
    return shell, streams


def expect_ends(shell, streams):
    shell.sock.settimeout(5)
    with pytest.raises(web.Closed) as closed:
        while True:
            shell.receive()
    assert closed.value.code == 1008 and "key" in closed.value.reason
    for stream in streams:
        with contextlib.suppress(http.client.HTTPException, ConnectionError):
            while stream.readline():
                pass


def test_what_a_revoked_key_has_open_ends(service, tenant, box):
    run = box.spawn("while :; do echo tick; sleep 0.05; done")["id"]
    made = tenant.post("/v1/keys", {"name": "open"}, expect=201)
    kept = tenant.stream("GET", f"{box.path}/execs/{run}/output?follow=1")
    ends = open_ends(service.client(made["key"]), box.path, run)
    tenant.delete(f"/v1/keys/{made['id']}", expect=204)
    expect_ends(*ends)
    for _ in range(50):  # the others' go on
        assert kept.readline()


def test_what_an_expired_key_has_open_ends(service, tenant, box):
    run = box.spawn("while :; do echo tick; sleep 0.05; done")["id"]
    made = tenant.post("/v1/keys", {"name": "open", "expiresAt": soon(2)}, expect=201)
    expect_ends(*open_ends(service.client(made["key"]), box.path, run))


def test_a_key_may_revoke_itself(service, tenant):
    made = tenant.post("/v1/keys", {"name": "own", "scopes": ["admin"]}, expect=201)
    service.client(made["key"]).delete(f"/v1/keys/{made['id']}", expect=204)


def test_scopes_reach_as_far_as_they_say_on_every_route(service, tenant):
    """Of every operation: with the scope it is not refused for lack of one, without it it is."""
    clients = {scope: service.client(service.key(org=tenant.org, scopes=[scope]))
               for scope in ("read", "exec", "admin")}
    for method, path, op in openapi.operations():
        if "x-scope" not in op or "x-operator" in op or path == "/v1/events":
            continue
        where = re.sub(r"\{(\w+)\}", lambda m: NOBODY[m[1]], path)
        for scope, client in clients.items():
            reply = client.call(method.upper(), where)
            lacks = scope != op["x-scope"]
            if lacks:
                assert reply.status == 403 and f"'{op['x-scope']}'" in reply.error["message"], (method, path, scope, reply)
            else:
                assert reply.status != 401 and "has no scope" not in str(reply.body), (method, path, reply)


def test_operator_routes_are_the_operators(service, tenant):
    for method, path, op in openapi.operations():
        if op.get("x-operator"):
            where = path.replace("{org}", tenant.org)
            reply = tenant.call(method.upper(), where)
            assert reply.status == 403 and reply.error["kind"] == "denied", (method, path, reply)
    assert service.operator.get("/v1/whoami", expect=200)["operator"] is True
    assert tenant.get("/v1/whoami", expect=200)["operator"] is False


def test_nobody_gives_more_than_they_have(service, tenant):
    narrow = service.client(service.key(org=tenant.org, scopes=["admin"], templates=["host"]))
    for spec in ({"scopes": ["exec"]}, {"scopes": ["admin"]},
                 {"scopes": ["admin"], "templates": ["base"]}):
        assert narrow.post("/v1/keys", {"name": "more", **spec}).status == 403, spec
    narrow.post("/v1/keys", {"name": "same", "scopes": ["admin"], "templates": ["host"]}, expect=201)
    assert tenant.post("/v1/keys", {"name": "x", "scopes": ["root"]}).status == 400
    assert tenant.post("/v1/keys", {"name": "x", "scopes": []}).status == 400
    assert tenant.post("/v1/keys", {}).status == 400


def test_a_key_for_one_template_makes_nothing_else(service, tenant):
    client = service.client(service.key(org=tenant.org, templates=["base"]))
    reply = client.post("/v1/sandboxes", {"template": "host"})
    assert reply.status == 403 and "host" in reply.error["message"]


def test_a_key_has_its_rate(service, tenant):
    client = service.client(service.key(org=tenant.org, ratePerSecond=5))
    statuses = [client.get("/v1/whoami").status for _ in range(30)]
    assert 5 <= statuses.count(200) <= 12 and set(statuses) == {200, 429}
    reply = client.get("/v1/whoami")
    while reply.status == 200:
        reply = client.get("/v1/whoami")
    assert reply.error["kind"] == "exhausted"
    assert tenant.get("/v1/whoami").status == 200  # others are not held up
    time.sleep(0.5)
    assert client.get("/v1/whoami").status == 200


# ---- organisations and quotas ----

def test_an_organisation_is_made_changed_and_removed(service):
    op = service.operator
    made = op.post("/v1/orgs", {"name": "acme", "quota": {"sandboxes": 3, "cpus": 1.5}}, expect=201)
    assert made["quota"]["sandboxes"] == 3 and made["quota"]["cpus"] == 1.5
    assert op.post("/v1/orgs", {"name": "acme"}).status == 409
    path = f"/v1/orgs/{made['id']}"
    changed = op.patch(path, {"quota": {"sandboxes": 4}}, expect=200)
    assert changed["quota"]["sandboxes"] == 4 and changed["quota"]["cpus"] == 1.5
    assert op.patch(path, {"quota": {"sandboxs": 1}}).status == 400
    client = service.client(service.key(org=made["id"]))
    box = Box(client)
    assert op.delete(path).status == 409
    box.destroy()
    assert op.delete(path).status == 204 and op.get(path).status == 404
    assert client.get("/v1/sandboxes").status == 401  # its keys went with it
    assert op.delete(f"/v1/orgs/{op.get('/v1/whoami', expect=200)['org']['id']}").status == 409


def create_many(client, count, body=None, threads=50):
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda _: client.post("/v1/sandboxes", body or {}), range(count)))


def test_the_quota_of_sandboxes_is_exact_under_two_hundred_parallel_creates(service):
    org, client = service.tenant("exact", sandboxes=20)
    replies = create_many(client, 200)
    made = [r.json["id"] for r in replies if r.status == 201]
    assert len(made) == 20 and len(set(made)) == 20
    assert {r.status for r in replies} == {201, 429}
    assert {r.error["kind"] for r in replies if r.status == 429} == {"exhausted"}
    assert service.operator.get(f"/v1/orgs/{org}", expect=200)["inUse"]["sandboxes"] == 20
    assert len(client.get("/v1/sandboxes", expect=200)["sandboxes"]) == 20
    assert client.delete("/v1/sandboxes", expect=200) == {"destroyed": 20}
    assert client.post("/v1/sandboxes", {}).status == 201  # what was given back can be had again
    client.delete("/v1/sandboxes", expect=200)
    service.operator.delete(f"/v1/orgs/{org}", expect=204)


@pytest.mark.parametrize("quota, limit", [
    ({"memoryBytes": 300 * MIB}, {"memoryBytes": 100 * MIB}), ({"cpus": 1.5}, {"cpus": 0.5}),
    ({"diskBytes": 30 * MIB}, {"diskBytes": 10 * MIB})])
def test_quotas_of_resources_are_exact(service, quota, limit):
    org, client = service.tenant("resources", **quota)
    statuses = [r.status for r in create_many(client, 12, {"limits": limit}, 12)]
    assert statuses.count(201) == 3 and statuses.count(429) == 9
    box = client.get("/v1/sandboxes", expect=200)["sandboxes"][0]
    name, value = next(iter(limit.items()))
    assert client.patch(f"/v1/sandboxes/{box['id']}", {"limits": {name: value * 2}}).status == 429
    client.delete("/v1/sandboxes", expect=200)
    assert not any(service.operator.get(f"/v1/orgs/{org}", expect=200)["inUse"].values())
    service.operator.delete(f"/v1/orgs/{org}", expect=204)


def test_creates_have_a_rate(service):
    org, client = service.tenant("rate", createsPerSecond=3)
    start = time.monotonic()
    statuses = [client.post("/v1/sandboxes", {}).status for _ in range(15)]
    most = 3 + 3 * (time.monotonic() - start) + 1
    assert 3 <= statuses.count(201) <= most and set(statuses) == {201, 429}
    client.delete("/v1/sandboxes", expect=200)
    service.operator.delete(f"/v1/orgs/{org}", expect=204)


# ---- another's is as if it were not there ----

BODIES = {
    "changeSandbox": {"metadata": {"a": "b"}}, "setTimeout": {"timeoutMs": 1},
    "startExec": {"argv": ["touch", "/workspace/foreign"]}, "signalExec": {"signal": "KILL"},
    "resizeTerminal": {"rows": 1, "cols": 1}, "makeDirectory": {"path": "/workspace/foreign"},
    "moveFile": {"from": "/workspace/f", "to": "/workspace/foreign"},
    "changeMode": {"path": "/workspace/f", "mode": "0000"},
    "changeOrg": {"name": "taken over"}, "setSecret": {"value": "taken over"},
    "resizeVolume": {"bytes": 1 << 30}, "makeDirectoryInVolume": {"path": "/foreign"},
    "moveFileInVolume": {"from": "/f", "to": "/foreign"}, "changeModeInVolume": {"path": "/f", "mode": "0000"},
    "openPort": {}, "signPort": {},
}
QUERIES = {"path": "/workspace/f", "recursive": "1", "close": "1", "follow": "1"}
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
           "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}


def ask(client, method, path, op, ids, box_id):
    """The whole of the answer, with what must differ taken out."""
    where = re.sub(r"\{(\w+)\}", lambda m: ids[m[1]], path)
    known = [openapi.resolve(p)["name"] for p in op.get("parameters", ())]
    query = {name: value for name, value in QUERIES.items() if name in known}
    body = BODIES.get(op["operationId"])
    if op["operationId"] == "copyFiles":
        body = {"path": "/workspace/f", "toSandbox": box_id, "toPath": "/workspace/g"}
    if body is None and "requestBody" in op:
        body = b"data"
    headers = UPGRADE if path.endswith("/ws") else None
    reply = client.call(method.upper(), where, body, query=query, headers=headers)
    text = reply.body.decode()
    for name, value in ids.items():
        text = text if name == "port" else text.replace(value, "ID")
    text = re.sub(r'"requestId": ?"\w+"', '"requestId":""', text)
    names = sorted((k.lower(), v) for k, v in reply.headers.items()
                   if k.lower() not in ("date", "x-request-id", "content-length"))
    return reply.status, names, text


def test_what_is_anothers_answers_as_what_is_not_there_on_every_route(service, tenant, box):
    """Byte for byte but for the ids asked for and the request's own."""
    box.write("/workspace/f", b"untouched")
    run = box.spawn("sleep 1000")["id"]
    key = tenant.post("/v1/keys", {"name": "victim"}, expect=201)
    secret = tenant.put("/v1/secrets/victim", {"value": "v"}, expect=200)
    approval = tenant.post("/v1/approvals", {"operation": "entity_write"}, expect=201)
    kernels.install(tenant, box.id)
    context = tenant.post(f"{box.path}/contexts", {"language": "bash"}, expect=201)
    # A host without a storage pool has neither of these.
    volume = tenant.post("/v1/volumes", {"name": "victim"}).json.get("id", "v" + "1" * 19)
    snapshot = tenant.post(f"{box.path}/snapshots", {"name": "victim"}).json.get("id", "t" + "1" * 19)
    org, thief = service.tenant("thief")
    own = Box(thief)
    late = Box(tenant)  # after the thief's: its place in the list must not be told either
    theirs = {**NOBODY, "id": box.id, "exec": run, "key": key["id"], "secret": secret["id"], "volume": volume,
              "approval": approval["id"], "context": context["id"], "snapshot": snapshot, "org": tenant.org,
              "late": late.id}
    walked = 0
    for method, path, op in openapi.operations():
        names = re.findall(r"\{(\w+)\}", path)
        if not names:
            continue
        cases = [(theirs, NOBODY)]
        if {"exec", "context"} & set(names):  # of theirs, below a sandbox of one's own
            cases.append(({**theirs, "id": own.id}, {**NOBODY, "id": own.id}))
        for there, missing in cases:
            got = ask(thief, method, path, op, there, own.id)
            expected = ask(thief, method, path, op, missing, own.id)
            assert got == expected, (method, path)
            assert got[0] in (403,) if op.get("x-operator") else got[0] == 404, (method, path, got)
            walked += 1
    assert walked >= 40
    # ids that are not in the path
    for question in (
            lambda i: thief.get("/v1/events", query={"sandbox": i["id"]}),
            lambda i: thief.get("/v1/sandboxes", query={"after": i["late"]}),
            lambda i: thief.post(f"{own.path}/files/copy", {
                "path": "/etc/passwd", "toSandbox": i["id"], "toPath": "/workspace/g"}),
            lambda i: thief.post("/v1/keys", {"name": "x", "org": i["org"]})):
        answers = []
        for ids in (theirs, NOBODY):
            reply = question(ids)
            text = reply.body.decode()
            for value in ids.values():
                text = text.replace(value, "ID")
            answers.append((reply.status, re.sub(r'"requestId": ?"\w+"', "", text)))
        assert answers[0] == answers[1]
    assert box.read("/workspace/f") == b"untouched" and box.state() == "running"
    assert box.execution(run)["state"] == "running"
    assert box.sh("ls /workspace")["stdout"] == "f\n"
    assert service.client(key["key"]).get("/v1/whoami").status == 200
    assert [s["id"] for s in thief.get("/v1/sandboxes", expect=200)["sandboxes"]] == [own.id]
    for what, name in (("keys", "org"), ("orgs", "id")):
        assert {row[name] for row in thief.get(f"/v1/{what}", expect=200)[what]} == {org}
    assert thief.get("/v1/health", expect=200)["healthy"] == 1
    own.destroy()
    service.operator.delete(f"/v1/orgs/{org}", expect=204)


def test_a_websocket_of_anothers_exec_is_refused(service, box):
    run = box.spawn("sleep 100")["id"]
    _, thief = service.tenant("thief")
    with web.WebSocket(service.tcp, f"{box.path}/execs/{run}/ws", thief.headers(None)) as ws:
        assert ws.status == 404
        assert json.loads(ws.response.read())["error"]["kind"] == "not_found"


# ---- descriptors ----

@pytest.fixture
def small(tmp_path):
    """A service that has few descriptors."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    program = tmp_path / "sandglass"
    program.write_text(f'#!/bin/sh\nulimit -n 512\nexec "{sg.BIN}" "$@"\n')
    program.chmod(0o755)
    with Service(pool=1, binary=str(program)) as service:
        yield service


def test_the_execs_of_one_tenant_leave_descriptors_to_others(small):
    greedy, other = small.tenant("greedy")[1], small.tenant("other")[1]
    box = Box(other)
    crowd = Box(greedy, {"limits": {"pids": 1000}})
    spec = {"argv": ["sleep", "600"], "background": True, "stdin": True}
    for started in range(512):
        reply = greedy.post(f"{crowd.path}/exec", spec)
        if reply.status != 201:
            break
    assert reply.status == 429 and "its share" in reply.error["message"], reply
    assert started > 50 and len(os.listdir(f"/proc/{small.daemon_pid()}/fd")) < 300
    runs = [box.spawn("sleep 600") for _ in range(10)]
    assert len(runs) == 10 and box.sh("echo well")["stdout"] == "well\n"


def sandbox_head(caller):
    """A request to a sandbox of the caller's, without any key: its id and token name it."""
    made = caller.call("POST", "/v2/sandboxes", {"templateID": "host"}, headers={"X-API-Key": caller.key}, expect=201)
    return (f"GET /metrics HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: {made['sandboxID']}\r\nE2b-Sandbox-Port: 49983\r\n"
            f"X-Access-Token: {made['envdAccessToken']}\r\n\r\n")


@pytest.mark.parametrize("plane", ["by key", "to a sandbox"])
def test_the_connections_of_one_tenant_leave_some_to_others(small, plane):
    greedy, other = small.tenant("greedy")[1], small.tenant("other")[1]
    head = f"GET /v1/whoami HTTP/1.1\r\nHost: x\r\nX-API-Key: {greedy.key}\r\n\r\n"
    head = (head if plane == "by key" else sandbox_head(greedy)).encode()
    with contextlib.ExitStack() as stack:
        for opened in range(512):
            sock = stack.enter_context(web.dial(small.tcp))
            sock.sendall(head)
            reply = sock.recv(65536)
            if not reply.startswith(b"HTTP/1.1 200"):
                break
        assert reply.startswith(b"HTTP/1.1 429") and 64 <= opened < 128
        assert web.Client(small.tcp, other.key).get("/v1/whoami").status == 200
        assert small.operator.get("/v1/orgs").status == 200
    assert web.Client(small.tcp, greedy.key).get("/v1/whoami").status == 200  # and again, later
