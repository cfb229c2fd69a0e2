# SPDX-License-Identifier: Apache-2.0
"""The rarer calls, as bytes: input in streams, metadata and pieces of files, metrics, tags."""
import base64
import contextlib
import hashlib
import json
import struct

import pytest
import web
from service import wait_for


# ---- input in a stream ----

def envelope(message, flags=0):
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(data)) + data


def data_of(text, kind="stdin"):
    return {"data": {"input": {kind: base64.b64encode(text).decode()}}}


def stream_input(sandbox, *messages):
    frames = sandbox.frames("process.Process/StreamInput", None, raw=b"".join(map(envelope, messages)))
    assert frames[-1][0] == 2
    return frames


@contextlib.contextmanager
def following(sandbox, script, **more):
    """A process, and what its stream says: (pid, events)."""
    body = {"process": {"cmd": "/bin/sh", "args": ["-c", script]}, "stdin": True, **more}
    with contextlib.closing(web.dial(sandbox.service.tcp)) as sock:
        data = envelope(body)
        head = "".join(f"{name}: {value}\r\n" for name, value in sandbox.headers().items())
        sock.sendall(f"POST /process.Process/Start HTTP/1.1\r\nHost: x\r\n{head}Content-Type: application/connect+json\r\n"
                     f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        got = b""
        while b'"pid":' not in got:
            got += sock.recv(65536)
        pid = int(got.split(b'"pid":')[1].split(b"}")[0])

        def rest():
            nonlocal got
            while not got.endswith(b"0\r\n\r\n"):
                got += sock.recv(65536)
            return b"".join(base64.b64decode(part.split(b'"')[0]) for part in got.split(b'"stdout":"')[1:])
        yield pid, rest


def test_input_comes_in_a_stream(sandbox):
    with following(sandbox, "head -c 11") as (pid, rest):
        frames = stream_input(sandbox, {"start": {"process": {"pid": pid}}}, data_of(b"hello "), {"keepalive": {}},
                              data_of(b"world"))
        assert frames == [(0, {}), (2, {})]
        assert rest() == b"hello world"


def test_a_stream_of_input_waits_for_a_slow_reader(sandbox):
    pieces = [bytes([65 + i % 26]) * 50000 for i in range(40)]
    with following(sandbox, "sleep 0.5; head -c 2000000 | md5sum") as (pid, rest):
        stream_input(sandbox, {"start": {"process": {"pid": pid}}}, *map(data_of, pieces))
        assert rest().split()[0] == hashlib.md5(b"".join(pieces)).hexdigest().encode()


def test_many_small_pieces_in_one_stream(sandbox):
    with following(sandbox, "head -c 5000 | wc -c") as (pid, rest):
        stream_input(sandbox, {"start": {"process": {"pid": pid}}}, *[data_of(b"x")] * 5000)
        assert rest() == b"5000\n"


def error_of(frames):
    assert len(frames) == 1 and frames[0][0] == 2, frames
    return frames[0][1]["error"]["code"]


def test_a_stream_of_input_that_makes_no_sense_is_told(sandbox):
    start = {"start": {"process": {"pid": 99999}}}
    assert error_of(stream_input(sandbox, start)) == "not_found"
    assert error_of(stream_input(sandbox, data_of(b"x"))) == "invalid_argument"
    assert error_of(stream_input(sandbox, b"no json")) == "invalid_argument"
    with following(sandbox, "sleep 60") as (pid, _):
        start = {"start": {"process": {"pid": pid}}}
        assert error_of(stream_input(sandbox, start, start)) == "invalid_argument"
        assert error_of(stream_input(sandbox, start, {"data": {"input": {}}})) == "invalid_argument"
        assert error_of(stream_input(sandbox, start, data_of(b"x", "pty"))) == "internal"
        raw = envelope(start) + b"\0\0\0\0\x20cut"
        assert error_of(sandbox.frames("process.Process/StreamInput", None, raw=raw)) == "invalid_argument"
        raw = envelope(start) + b"\0\xff\xff\xff\xff"
        assert error_of(sandbox.frames("process.Process/StreamInput", None, raw=raw)) == "resource_exhausted"
        raw = envelope(start) + envelope(b"{}", 1)
        assert error_of(sandbox.frames("process.Process/StreamInput", None, raw=raw)) == "unimplemented"
        sandbox.rpc("process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})


# ---- metadata of files ----

def upload(sandbox, path, data=b"x", **headers):
    return sandbox.envd("POST", f"/files?path={path}", data, **{"Content-Type": "application/octet-stream", **headers})


def metadata(sandbox, path):
    return sandbox.rpc("filesystem.Filesystem/Stat", {"path": path})["entry"].get("metadata")


def test_metadata_is_kept_with_a_file_and_replaced_as_a_whole(sandbox):
    reply = upload(sandbox, "/tmp/m", **{"X-Metadata-Color": "dark blue", "x-metadata-SIZE": "7"})
    assert reply.status == 200 and reply.json[0]["metadata"] == {"color": "dark blue", "size": "7"}, reply
    assert metadata(sandbox, "/tmp/m") == {"color": "dark blue", "size": "7"}
    inside = sandbox.run("python3 -c \"import os; print(os.getxattr('/tmp/m', 'user.e2b.color'))\"")
    assert base64.b64decode(inside[1][1]["event"]["data"]["stdout"]) == b"b'dark blue'\n"
    sandbox.rpc("filesystem.Filesystem/Move", {"source": "/tmp/m", "destination": "/tmp/n"})
    assert metadata(sandbox, "/tmp/n") == {"color": "dark blue", "size": "7"}
    reply = upload(sandbox, "/tmp/n", **{"X-Metadata-Other": "1"})
    assert reply.json[0]["metadata"] == metadata(sandbox, "/tmp/n") == {"other": "1"}
    reply = upload(sandbox, "/tmp/n")
    assert "metadata" not in reply.json[0] and metadata(sandbox, "/tmp/n") is None


def test_metadata_is_listed_and_of_all_files_of_a_form(sandbox):
    form = (b'--b\r\nContent-Disposition: form-data; name="file"; filename="/tmp/d/one"\r\n\r\n1\r\n'
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="/tmp/d/two"\r\n\r\n2\r\n--b--\r\n')
    reply = sandbox.envd("POST", "/files", form, **{"Content-Type": "multipart/form-data; boundary=b", "X-Metadata-A": "1"})
    assert [row["metadata"] for row in reply.json] == [{"a": "1"}] * 2, reply
    sandbox.run("touch /tmp/d/three; ln -s one /tmp/d/zlink")
    rows = sandbox.rpc("filesystem.Filesystem/ListDir", {"path": "/tmp/d", "depth": 1})["entries"]
    assert [(row["name"], row.get("metadata")) for row in rows] == [
        ("one", {"a": "1"}), ("three", None), ("two", {"a": "1"}), ("zlink", {"a": "1"})]


def test_metadata_where_only_root_may_write(sandbox):
    assert upload(sandbox, "/etc/labelled", **{"X-Metadata-A": "1"}).status == 200
    assert metadata(sandbox, "/etc/labelled") == {"a": "1"}


@pytest.mark.parametrize("headers", [{"X-Metadata-" + "k" * 247: "v"}, {"X-Metadata-": "v"}, {"X-Metadata-K": "v" * 4096},
                                     {"X-Metadata-K": "caf\u00e9"}, {f"X-Metadata-{i}": "v" * 1000 for i in range(5)}],
                         ids=["key", "no key", "value", "bytes", "all"])
def test_metadata_that_cannot_be_kept_is_refused(sandbox, headers):
    reply = upload(sandbox, "/tmp/refused", **headers)
    assert reply.status == 400 and reply.json["code"] == 400 and "metadata" in reply.json["message"], reply
    sandbox.rpc("filesystem.Filesystem/Stat", {"path": "/tmp/refused"}, expect=404)


# ---- one file out of several ----

def compose(sandbox, **body):
    return sandbox.envd("POST", "/files/compose", body)


def names(sandbox, path):
    return [row["name"] for row in sandbox.rpc("filesystem.Filesystem/ListDir", {"path": path}).get("entries", [])]


def test_a_file_is_composed_of_pieces_which_go(sandbox):
    pieces = [bytes([65 + i]) * size for i, size in enumerate((3 << 20, 0, 7, 1 << 20))]
    for i, piece in enumerate(pieces):
        assert upload(sandbox, f"/tmp/c/{i}", piece).status == 200
    reply = compose(sandbox, source_paths=[f"/tmp/c/{i}" for i in range(4)], destination="/tmp/c/deep/whole")
    assert reply.status == 200, reply
    assert (reply.json["path"], reply.json["size"], reply.json["owner"]) == ("/tmp/c/deep/whole", str((4 << 20) + 7), "user")
    assert sandbox.envd("GET", "/files?path=/tmp/c/deep/whole").body == b"".join(pieces)
    assert names(sandbox, "/tmp/c") == ["deep"] and names(sandbox, "/tmp/c/deep") == ["whole"]


def test_a_piece_may_become_the_whole(sandbox):
    for i in range(2):
        upload(sandbox, f"/tmp/c/{i}", b"%d" % i)
    assert compose(sandbox, sourcePaths=["/tmp/c/0", "/tmp/c/1"], destination="/tmp/c/0").status == 200
    assert sandbox.envd("GET", "/files?path=/tmp/c/0").body == b"01" and names(sandbox, "/tmp/c") == ["0"]


def test_pieces_that_cannot_be_composed_stay(sandbox):
    upload(sandbox, "/tmp/c/0", b"0")
    for body, status in (({"source_paths": ["/tmp/c/0", "/tmp/c/none"], "destination": "/tmp/c/x"}, 404),
                         ({"source_paths": ["/tmp/c/0", "/tmp"], "destination": "/tmp/c/x"}, 400),
                         ({"source_paths": ["/tmp/c/0"], "destination": "/tmp"}, 400),
                         ({"source_paths": [], "destination": "/tmp/c/x"}, 400),
                         ({"source_paths": ["/tmp/c/0"]}, 400), ({"source_paths": [7], "destination": "/tmp/c/x"}, 400),
                         ({"source_paths": ["/tmp/c/0"], "destination": "/tmp/c/x", "username": "nobody there"}, 401)):
        reply = compose(sandbox, **body)
        assert (reply.status, reply.json["code"]) == (status, status), (body, reply)
    assert names(sandbox, "/tmp/c") == ["0"]


# ---- what it used ----

def test_metrics_are_kept_over_its_life(sandbox):
    def metrics(**query):
        return sandbox.control("GET", f"/sandboxes/{sandbox.id}/metrics", query=query, expect=200)
    assert len(metrics()) >= 1  # at once
    rows = wait_for(lambda: (lambda rows: rows if len(rows) >= 3 else None)(metrics()), 15, "two samples of the past")
    times = [row["timestampUnix"] for row in rows]
    assert times == sorted(times) and rows[0]["memTotal"] > 0 and rows[0]["cpuCount"] >= 1
    assert metrics(start=1000, end=2000) == []
    first = times[0]
    assert [row["timestampUnix"] for row in metrics(start=first, end=first)] == [first]
    many = sandbox.control("GET", "/sandboxes/metrics", query={"sandbox_ids": f"{sandbox.id},sabsent"}, expect=200)
    assert list(many["sandboxes"]) == [sandbox.id] and many["sandboxes"][sandbox.id]["memTotal"] > 0
    assert sandbox.control("GET", "/sandboxes/metrics").status == 400


def test_a_busy_sandbox_shows_it(sandbox):
    sandbox.run("nohup sh -c 'while :; do :; done' >/dev/null 2>&1 &")
    wait_for(lambda: sandbox.control("GET", f"/sandboxes/{sandbox.id}/metrics", expect=200)[-1]["cpuUsedPct"] > 5, 20,
             "a share of the processors")


# ---- templates ----

def test_templates_have_one_build_and_one_tag(sandbox):
    build = sandbox.control("GET", "/templates/host/tags", expect=200)[0]["buildID"]
    listed = {row["templateID"]: row for row in sandbox.control("GET", "/templates", expect=200)}
    assert listed["host"]["buildID"] == build == sandbox.control("GET", "/templates/host", expect=200)["builds"][0]["buildID"]
    assert len({row["buildID"] for row in listed.values()}) == len(listed)
    assert sandbox.control("GET", "/templates/aliases/team%2FHost%3Adefault", expect=200)["templateID"] == "host"
    for name in ("none", "host%3Av1", "host%2Fnone"):
        reply = sandbox.control("GET", f"/templates/aliases/{name}")
        assert (reply.status, reply.json["code"]) == (404, 404), reply


@pytest.mark.parametrize("method,body,status", [
    ("POST", {"target": "host:default", "tags": ["default"]}, 400), ("POST", {"target": "host", "tags": ["v1"]}, 400),
    ("POST", {"target": ":x", "tags": ["a"]}, 400), ("POST", {"target": "host:", "tags": ["a"]}, 400),
    ("POST", {"target": "host", "tags": []}, 400), ("POST", {"target": "host", "tags": ["A b"]}, 400),
    ("POST", {"target": "none:default", "tags": ["a"]}, 404), ("POST", {"target": "host:v7", "tags": ["a"]}, 400),
    ("DELETE", {"name": "host", "tags": ["default"]}, 400), ("DELETE", {"name": "host:default", "tags": ["a"]}, 400),
    ("DELETE", {"name": "host", "tags": ["a"]}, 400), ("DELETE", {"name": "none", "tags": ["a"]}, 404)])
def test_tags_of_the_servers_templates_are_refused(sandbox, method, body, status):
    reply = sandbox.control(method, "/templates/tags", body)
    assert (reply.status, reply.json["code"]) == (status, status), reply


def test_templates_are_the_operators_to_change(sandbox):
    for method, path, body in (("DELETE", "/templates/host", None), ("PATCH", "/v2/templates/host", {"public": True})):
        assert sandbox.control(method, path, body).status == 400
        assert sandbox.control(method, path.replace("host", "none"), body).status == 404


# ---- small print ----

def test_a_file_that_did_not_change_is_not_sent_again(sandbox):
    upload(sandbox, "/tmp/same", b"content")
    date = sandbox.envd("GET", "/files?path=/tmp/same").headers["Last-Modified"]
    reply = sandbox.envd("GET", "/files?path=/tmp/same", **{"If-Modified-Since": date})
    assert (reply.status, reply.body) == (304, b"")
    for earlier in ("Thu, 01 Jan 1970 00:00:00 GMT", "yesterday"):
        assert sandbox.envd("GET", "/files?path=/tmp/same", **{"If-Modified-Since": earlier}).body == b"content"


def test_who_asks_too_often_is_told_when_to_come_again(service):
    org = service.org("hasty", sandboxes=1)
    caller = web.Client(service.tcp)
    headers = {"X-API-Key": service.key(org=org)}
    first = caller.call("POST", "/v2/sandboxes", {"templateID": "host"}, headers=headers, expect=201)
    reply = caller.call("POST", "/v2/sandboxes", {"templateID": "host"}, headers=headers)
    assert (reply.status, reply.json["code"], reply.headers["Retry-After"]) == (429, 429, "1"), reply
    caller.call("DELETE", f"/sandboxes/{first['sandboxID']}", headers=headers)
    caller.close()


def test_logs_of_both_generations(sandbox):
    sandbox.run("true")
    old = sandbox.control("GET", f"/sandboxes/{sandbox.id}/logs", expect=200)
    assert old["logs"] and len(old["logs"]) == len(old["logEntries"]) and json.loads(old["logs"][0]["line"])["level"] == "info"

    def new(**query):
        return sandbox.control("GET", f"/v2/sandboxes/{sandbox.id}/logs", query=query)
    backward, forward = (new(direction=way).json["logs"] for way in ("backward", "forward"))
    assert forward == backward[::-1] and len(forward) >= 2 and new().json["logs"] == backward
    assert [row["message"] for row in new(search="created").json["logs"]] == ["sandbox.created"]
    assert new(level="error").json["logs"] == [] and new(level="INFO").json["logs"] == backward
    assert len(new(limit=1).json["logs"]) == 1 and new(limit=1).json["logs"][0] == backward[0]
    for wrong in ({"direction": "up"}, {"level": "loud"}, {"limit": "x"}, {"cursor": "-1"}):
        assert new(**wrong).status == 400, wrong
