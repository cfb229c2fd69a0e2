# SPDX-License-Identifier: Apache-2.0
"""Files in a sandbox through the API: as the sandboxed user, whole or not at all, of any size."""
import concurrent.futures
import contextlib
import hashlib
import io
import os
import stat
import tarfile
import threading
import time

import make_hostile_tars as hostile
import pytest
import web
from service import Box, Service, wait_for

MIB = 1 << 20
BIG = 300 * MIB


def names(box, path):
    return sorted(e["name"] for e in box.files("GET", "list", {"path": path}, expect=200)["entries"])


def disk_used(box):
    return box.client.get(f"{box.path}/stats", expect=200)["diskUsedBytes"]


# ---- one file ----

@pytest.mark.parametrize("size", [0, 1, 4095, 65536, 3 * MIB + 7])
def test_what_was_written_is_read_back(box, size):
    data = os.urandom(size)
    assert box.write("/workspace/f", data) == {"bytes": size}
    assert box.read("/workspace/f") == data


def test_names_of_any_kind_go_through(box):
    for name in ("a b", "ü€𝄞", "per%cent+plus&and=is?", "new\nline", "-rf"):
        box.write(f"/workspace/{name}", name.encode())
        assert box.read(f"/workspace/{name}") == name.encode()
    assert "new\nline" in names(box, "/workspace")


def test_a_relative_path_starts_in_the_working_directory(box):
    box.write("here", b"x")
    assert box.read("/workspace/here") == b"x"


def test_mode_and_user_of_a_new_file_are_the_ones_asked_for(box):
    box.write("/tmp/f", b"#!/bin/sh\necho ran\n", mode="0750", user="root")
    info = box.files("GET", "stat", {"path": "/tmp/f", "user": "root"}, expect=200)
    assert (info["mode"], info["owner"], info["type"]) == ("0750", "root", "file")
    assert box.exec("/tmp/f", user="root")["stdout"] == "ran\n"


def test_a_file_that_is_replaced_keeps_its_mode_unless_asked(box):
    mode = lambda: box.files("GET", "stat", {"path": "/workspace/f"}, expect=200)["mode"]
    modes = []
    for given in ({}, {"mode": "0750"}, {}, {"mode": "0600"}):
        box.write("/workspace/f", b"x", **given)
        modes.append(mode())
    assert modes == ["0644", "0750", "0750", "0600"]


def test_append_adds_at_the_end_and_makes_the_file(box):
    for piece in (b"one", b"", b"two"):
        reply = box.files("POST", "append", {"path": "/workspace/log"}, piece, expect=200)
        assert reply == {"bytes": len(piece)}
    assert box.read("/workspace/log") == b"onetwo"


def test_a_chunked_upload_needs_no_length(box):
    pieces = [b"abc", b"", b"d" * 100000, b"e"]
    reply = box.client.request("PUT", f"{box.path}/files?path=/workspace/c",
                               (p for p in pieces), encode_chunked=True,
                               headers={"Transfer-Encoding": "chunked"})
    assert reply.status == 200 and box.read("/workspace/c") == b"".join(pieces)


def test_expect_100_continue_is_answered_before_the_body(box):
    with web.dial(box.client.address) as sock:
        sock.sendall(f"PUT {box.path}/files?path=/workspace/e HTTP/1.1\r\nHost: x\r\n"
                     f"Authorization: Bearer {box.client.key}\r\nContent-Length: 5\r\n"
                     "Expect: 100-continue\r\n\r\n".encode())
        assert sock.recv(1000).startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
        sock.sendall(b"hello")
        assert sock.recv(1000).startswith(b"HTTP/1.1 200 ")
    assert box.read("/workspace/e") == b"hello"


def test_a_refused_upload_is_told_before_the_body_is_asked_for(box):
    with web.dial(box.client.address) as sock:
        sock.sendall(f"PUT {box.path}/files?path=/proc/nope/x HTTP/1.1\r\nHost: x\r\n"
                     f"Authorization: Bearer {box.client.key}\r\nContent-Length: 5\r\n"
                     "Expect: 100-continue\r\n\r\n".encode())
        assert sock.recv(1000).startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("path, status", [
    ("/no/such/file", 404), ("/etc/shadow", 403), ("/workspace", 400), ("/dev/null", 400),
    ("/proc/self/fd/3", (400, 403, 404)), ("x" * 300, 400), ("a\0b", 400), ("", 400)])
def test_what_cannot_be_read_is_told(box, path, status):
    reply = box.client.get(f"{box.path}/files", query={"path": path})
    assert reply.status in (status if isinstance(status, tuple) else (status,)), reply
    assert reply.error["message"]


@pytest.mark.parametrize("path, status", [("/usr/x", (403, 409)), ("/no/such/dir/f", (403, 404)),
                                          ("/workspace/dir", (400, 409)), ("/etc/passwd/x", (400, 404, 409))])
def test_what_cannot_be_written_is_told(box, path, status):
    box.sh("mkdir /workspace/dir")
    assert box.client.put(f"{box.path}/files", b"x", query={"path": path}).status in status


def test_climbing_out_ends_at_the_sandboxs_own_root(box):
    host = open("/etc/hostname").read() if os.path.exists("/etc/hostname") else ""
    box.sh("ln -s ../../../../../../etc/hostname /workspace/link; ln -s / /workspace/root")
    inside = box.exec("cat", "/etc/hostname")["stdout"].encode()
    for path in ("../../../../etc/hostname", "/workspace/link", "/workspace/root/etc/hostname"):
        got = box.client.get(f"{box.path}/files", query={"path": path})
        assert (got.body if got.status == 200 else b"") == inside, path
    assert not host or inside.decode() != host or host == "sandbox\n"


def test_a_full_disk_is_told_and_leaves_no_part(tenant):
    box = Box(tenant, {"limits": {"diskBytes": 8 * MIB, "memoryBytes": 128 * MIB}})
    before = names(box, "/workspace")
    reply = box.client.put(f"{box.path}/files", b"x" * (20 * MIB), query={"path": "/workspace/big"})
    assert reply.status == 429 and "space" in reply.error["message"].lower()
    assert names(box, "/workspace") == before
    assert box.write("/workspace/small", b"fits") == {"bytes": 4}


# ---- whole or not at all ----

def test_readers_see_the_old_file_or_the_new_one(box):
    size, stop = 512 << 10, threading.Event()
    box.write("/workspace/f", b"a" * size)
    seen, client = set(), web.Client(box.client.address, box.client.key)

    def write():
        for n in range(30):
            client.request("PUT", f"{box.path}/files?path=/workspace/f", b"ab"[n % 2:n % 2 + 1] * size)
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not stop.is_set():
        data = box.read("/workspace/f")
        assert len(data) == size and len(set(data)) == 1
        seen.add(data[0])
    writer.join()
    assert seen == {ord("a"), ord("b")}


def test_an_upload_is_invisible_until_its_last_byte_and_gone_when_abandoned(box):
    box.write("/workspace/f", b"old")
    before = names(box, "/workspace")
    sock = web.dial(box.client.address)
    sock.sendall(f"PUT {box.path}/files?path=/workspace/f HTTP/1.1\r\nHost: x\r\n"
                 f"Authorization: Bearer {box.client.key}\r\nContent-Length: 1000000\r\n\r\n".encode())
    used = disk_used(box)
    sock.sendall(b"n" * 500000)
    wait_for(lambda: disk_used(box) >= used + 400000, what="the bytes")
    assert names(box, "/workspace") == before and box.read("/workspace/f") == b"old"
    sock.close()
    wait_for(lambda: disk_used(box) <= used + 8192, what="their removal")
    assert names(box, "/workspace") == before and box.read("/workspace/f") == b"old"


def test_a_daemon_that_dies_in_an_upload_leaves_the_old_file():
    with Service(pool=1) as service:
        _, client = service.tenant("upload")
        box = Box(client)
        box.write("/workspace/f", b"old")
        before, used = names(box, "/workspace"), disk_used(box)
        with web.dial(client.address) as sock:
            sock.sendall(f"PUT {box.path}/files?path=/workspace/f HTTP/1.1\r\nHost: x\r\n"
                         f"Authorization: Bearer {client.key}\r\nContent-Length: 1000000\r\n\r\n".encode())
            sock.sendall(b"n" * 500000)
            wait_for(lambda: disk_used(box) >= used + 400000, what="the bytes")
            client.close()
            service.kill9_daemon()
            service.wait_ready()
        wait_for(lambda: disk_used(box) <= used + 8192, what="their removal")
        assert names(box, "/workspace") == before and box.read("/workspace/f") == b"old"
        box.destroy()
        client.close()


# ---- what is uploaded counts as the sandbox's own ----

def test_uploads_count_as_memory_of_the_sandbox(tenant):
    box = Box(tenant, {"limits": {"memoryBytes": 128 * MIB, "diskBytes": 90 * MIB}})
    before = box.client.get(f"{box.path}/stats", expect=200)["memoryBytes"]
    box.write("/workspace/big", b"x" * (40 * MIB))
    box.files("POST", "append", {"path": "/workspace/big"}, b"y" * (8 * MIB), expect=200)
    assert box.client.get(f"{box.path}/stats", expect=200)["memoryBytes"] - before > 47 * MIB


def test_an_upload_over_what_is_left_of_memory_fails_and_nothing_else_does(root):
    with Service(pool=1, settings={"storage": "tmpfs"}) as service:
        fill_memory(Box(service.operator, {"limits": {"memoryBytes": 128 * MIB,
                                                      "diskBytes": 90 * MIB}}))


def fill_memory(box):
    hold = "x = bytearray(90 << 20); print('held', flush=True); import time; time.sleep(60)"
    held = box.spawn(f'exec python3 -c "{hold}"')["id"]
    wait_for(lambda: b"held" in box.client.request(
        "GET", f"{box.path}/execs/{held}/output?raw=1").body, what="the memory")
    before = names(box, "/workspace")
    for path in ("files", "files/append"):
        reply = box.client.request("PUT" if path == "files" else "POST", f"{box.path}/{path}?path=/workspace/big",
                                   b"x" * (60 * MIB))
        assert reply.status == 429 and "memory" in reply.error["message"], reply
    assert set(names(box, "/workspace")) <= set(before) | {"big"}  # an append that broke stays
    assert box.execution(held)["state"] == "running"
    assert box.client.get(box.path, expect=200)["state"] == "running"


def test_many_uploads_at_once_are_all_whole(box):
    def put(n):
        with contextlib.closing(web.Client(box.client.address, box.client.key)) as client:
            data = bytes([n]) * (100000 + n)
            return client.request("PUT", f"{box.path}/files?path=/workspace/{n}", data).status
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        assert set(pool.map(put, range(40))) == {200}
    for n in range(40):
        assert box.read(f"/workspace/{n}") == bytes([n]) * (100000 + n)


def test_a_large_file_goes_both_ways_without_being_held_in_memory(service, tenant):
    box = Box(tenant, {"limits": {"memoryBytes": 1024 * MIB, "diskBytes": 512 * MIB}})
    block, digest = os.urandom(MIB), hashlib.sha256()
    before, _ = service.daemon_rss()
    sent = (block for _ in range(BIG // MIB))
    reply = box.client.request("PUT", f"{box.path}/files?path=/workspace/big", sent,
                               headers={"Content-Length": str(BIG)})
    assert reply.status == 200 and reply.json == {"bytes": BIG}
    for _ in range(BIG // MIB):
        digest.update(block)
    inside = box.exec("sha256sum", "/workspace/big")["stdout"].split()[0]
    assert inside == digest.hexdigest()
    response = box.client.stream("GET", f"{box.path}/files", query={"path": "/workspace/big"})
    got = hashlib.sha256()
    with contextlib.closing(response.connection):
        while piece := response.read(MIB):
            got.update(piece)
    assert got.hexdigest() == digest.hexdigest()
    now, most = service.daemon_rss()
    assert now - before < 32 * MIB and most - before < 64 * MIB, (before, now, most)


# ---- directories and attributes ----

def test_make_list_stat_move_chmod_remove(box):
    box.files("POST", "mkdir", body={"path": "/workspace/a/b/c", "parents": True}, expect=204)
    assert box.files("POST", "mkdir", body={"path": "/workspace/x/y"}).status == 404
    assert box.files("POST", "mkdir", body={"path": "/workspace/a"}).status == 409
    box.write("/workspace/a/f", b"12345")
    listed = {e["name"]: e for e in
              box.files("GET", "list", {"path": "/workspace/a"}, expect=200)["entries"]}
    assert listed["b"]["type"] == "directory" and listed["f"]["bytes"] == 5
    box.files("POST", "move", body={"from": "/workspace/a/f", "to": "/workspace/a/g"}, expect=204)
    box.write("/workspace/a/f", b"other")
    reply = box.files("POST", "move", body={"from": "/workspace/a/f", "to": "/workspace/a/g",
                                            "replace": False})
    assert reply.status == 409 and box.read("/workspace/a/g") == b"12345"
    box.files("POST", "chmod", body={"path": "/workspace/a/g", "mode": "0600"}, expect=204)
    assert box.files("GET", "stat", {"path": "/workspace/a/g"}, expect=200)["mode"] == "0600"
    assert box.files("POST", "chmod", body={"path": "/workspace/a/g"}).status == 400
    assert box.client.delete(f"{box.path}/files", query={"path": "/workspace/a"}).status == 409
    assert box.client.delete(f"{box.path}/files",
                             query={"path": "/workspace/a", "recursive": 1}).status == 204
    assert box.files("GET", "stat", {"path": "/workspace/a"}).status == 404


def test_a_link_is_told_from_what_it_leads_to(box):
    box.sh("echo hi > /workspace/f; ln -s f /workspace/l; mkfifo /workspace/p")
    assert box.files("GET", "stat", {"path": "/workspace/l"}, expect=200)["type"] == "file"
    info = box.files("GET", "stat", {"path": "/workspace/l", "follow": 0}, expect=200)
    assert info["type"] == "symlink" and info["target"] == "f"
    assert box.files("GET", "stat", {"path": "/workspace/p"}, expect=200)["type"] == "fifo"
    start = time.monotonic()
    assert box.client.get(f"{box.path}/files", query={"path": "/workspace/p"}).status == 400
    assert time.monotonic() - start < 5  # nobody waits for a writer


def test_a_directory_of_many_entries_is_listed_whole(box):
    box.sh("mkdir /workspace/many; cd /workspace/many; seq -f 'a-rather-long-name-%05g' 5000 | xargs touch")
    assert len(names(box, "/workspace/many")) == 5000


@pytest.mark.parametrize("what, body, word", [
    ("mkdir", {}, "path"), ("mkdir", {"path": "/x", "mode": "999"}, "mode"), ("move", {"from": "/a"}, "to"),
    ("chmod", {"path": "/x", "mod": "1"}, "mod"), ("copy", {"path": "/x"}, "toSandbox"),
    ("mkdir", {"path": 5}, "path")])
def test_a_wrong_body_is_named(box, what, body, word):
    reply = box.files("POST", what, body=body)
    assert reply.status == 400 and word in reply.error["message"]


@pytest.mark.parametrize("what", ["stat", "list", "search", "watch", "tar"])
def test_a_wrong_query_is_named(box, what):
    for query, word in (({}, "path"), ({"path": "/tmp", "recusrive": 1}, "recusrive")):
        reply = box.files("GET", what, query)
        assert reply.status == 400 and word in reply.error["message"], reply


# ---- search and watch ----

def test_search_by_name_and_by_text(box):
    box.sh("mkdir -p /workspace/s/deep; cd /workspace/s; printf 'one\\ntwo needle\\n' > a.txt;"
           "printf 'needle\\n' > deep/b.py; printf 'x\\0needle' > bin; ln -s /etc link")
    found = box.files("GET", "search", {"path": "/workspace/s", "name": "*.py"}, expect=200)["found"]
    assert [f["path"] for f in found] == ["deep/b.py"]
    found = box.files("GET", "search", {"path": "/workspace/s", "text": "needle"}, expect=200)["found"]
    assert sorted((f["path"], f["line"], f["text"]) for f in found) == [
        ("a.txt", 2, "two needle"), ("deep/b.py", 1, "needle")]
    assert len(box.files("GET", "search", {"path": "/usr/share", "max": 10}, expect=200)["found"]) == 10
    assert box.files("GET", "search", {"path": "/no/such"}).status == 404


def test_a_search_that_takes_too_long_ends(box):
    query = {"path": "/usr", "text": "no file has this 5d41402a", "timeoutMs": 1}
    reply = box.files("GET", "search", query)
    assert reply.status == 504 and reply.error["kind"] == "timeout" and "too long" in reply.error["message"], reply
    wait_for(lambda: "sandglass-find" not in box.sh("cat /proc/[0-9]*/comm 2>/dev/null; true")["stdout"], what="the worker's end")
    for wrong in ("0", "600001", "x"):
        assert box.files("GET", "search", {**query, "timeoutMs": wrong}).status == 400


def test_a_search_ends_with_its_caller(service, tenant, box):
    box.sh("mkdir /tmp/many; cd /tmp/many; seq 20000 | xargs touch")
    head = (f"GET {box.path}/files/search?path=/&text=no+file+has+this+5d41402a HTTP/1.1\r\nHost: x\r\n"
            f"X-API-Key: {tenant.key}\r\n\r\n")
    def workers():
        return box.sh("cat /proc/[0-9]*/comm 2>/dev/null; true")["stdout"].count("sandglass-find")
    with web.dial(service.tcp) as sock:
        sock.sendall(head.encode())
        wait_for(lambda: workers() == 1, what="the search")
    wait_for(lambda: workers() == 0, what="its end")


def test_changes_are_watched_below_a_directory(box):
    box.sh("mkdir -p /workspace/w/sub")
    stream = box.client.stream("GET", f"{box.path}/files/watch",
                               query={"path": "/workspace/w", "recursive": 1})
    assert stream.status == 200 and stream.headers["Content-Type"].startswith("text/event-stream")
    events = web.server_events(stream)
    assert next(events)[0] == "ready"
    seen = []

    def until(what, path):
        while not any(what in e["what"] and e["path"] == path for e in seen):
            seen.append(next(events)[1])

    with contextlib.closing(stream.connection):
        box.sh("cd /workspace/w; echo 1 > sub/f")
        until("create", "sub/f")
        until("write", "sub/f")
        box.sh("cd /workspace/w; mkdir sub/new; sleep 0.1; echo 2 > sub/new/g; mv sub/f h; rm h")
        until("create", "sub/new/g")
        until("rename", "sub/f")
        until("remove", "h")
        assert any(e["isDir"] for e in seen if e["path"] == "sub/new")


def test_a_watch_ends_with_its_sandbox(box):
    stream = box.client.stream("GET", f"{box.path}/files/watch", query={"path": "/tmp"})
    events = web.server_events(stream)
    next(events)
    box.destroy()
    assert list(events) == []
    stream.connection.close()


# ---- trees ----

def tar(*entries):
    return hostile.tar(*entries)


def test_a_tree_goes_in_and_comes_out_as_one_archive(box):
    data = os.urandom(200000)
    archive = tar(hostile.directory("d"), hostile.entry("d/f", data=data, mode=0o640),
                  hostile.symlink("d/l", "f"), hostile.entry("d/x", data=b"#!/bin/sh\n", mode=0o755),
                  hostile.entry("long/" + "n" * 150 + "/" + "m" * 90, data=b"long"))
    assert box.files("PUT", "tar", {"path": "/workspace/in"}, archive).status == 204
    assert box.read("/workspace/in/d/f") == data
    assert box.sh("readlink /workspace/in/d/l; test -x /workspace/in/d/x && echo yes")["stdout"] == "f\nyes\n"
    got = box.files("GET", "tar", {"path": "/workspace/in"}, expect=200)
    with tarfile.open(fileobj=io.BytesIO(got)) as out:
        members = {m.name: m for m in out.getmembers()}
        assert out.extractfile("d/f").read() == data
        assert members["d/l"].issym() and members["d/l"].linkname == "f"
        assert stat.S_IMODE(members["d/f"].mode) == 0o640
        assert f"long/{'n' * 150}/{'m' * 90}" in members
    one = box.files("GET", "tar", {"path": "/workspace/in/d/f"}, expect=200)
    with tarfile.open(fileobj=io.BytesIO(one)) as out:
        assert out.getnames() == ["f"] and out.extractfile("f").read() == data


def test_a_large_tree_passes_in_pieces(box):
    box.sh("mkdir /workspace/t; cd /workspace/t; for i in $(seq 40); do head -c 500000 /dev/urandom > f$i; done")
    got = box.files("GET", "tar", {"path": "/workspace/t"}, expect=200)
    assert len(got) > 20_000_000
    assert box.files("PUT", "tar", {"path": "/workspace/u"}, got).status == 204
    assert box.sh("diff -r /workspace/t /workspace/u && echo same")["stdout"] == "same\n"


BLOCK = 512
ATTACKS = {
    "absolute": tar(hostile.entry("/tmp/out", data=b"x")),
    "climbs": tar(hostile.entry("a/../../out", data=b"x")),
    "through a link": tar(hostile.symlink("l", "/tmp"), hostile.entry("l/out", data=b"x")),
    "link out": tar(hostile.symlink("out", "../../../etc/passwd")),
    "absolute link": tar(hostile.symlink("out", "/etc/shadow")),
    "hard link out": tar(hostile.hardlink("out", "/etc/passwd")),
    "hard link climbs": tar(hostile.hardlink("out", "../../etc/passwd")),
    "device": tar(hostile.entry("dev", tarfile.CHRTYPE, dev=(1, 3))),
    "block device": tar(hostile.entry("dev", tarfile.BLKTYPE, dev=(8, 0))),
    "fifo": tar(hostile.entry("fifo", tarfile.FIFOTYPE)),
    "checksum": bytes(b ^ (1 if i == 3 else 0) for i, b in enumerate(tar(hostile.entry("f", data=b"x")))),
    "cut": tar(hostile.entry("f", data=b"x" * 5000))[:3 * BLOCK],
    "noise": b"\xff" * 4096,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_archive_is_refused(box, name):
    reply = box.files("PUT", "tar", {"path": "/workspace/in"}, ATTACKS[name])
    assert reply.status == 400, reply
    left = box.sh("ls /tmp; find /workspace/in ! -type d ! -name l ! -name f; echo; id >/dev/null && echo alive")
    assert left["stdout"].split() == ["alive"], left


def test_set_id_bits_do_not_survive_an_archive(box):
    box.files("PUT", "tar", {"path": "/workspace/in", "user": "root"},
              tar(hostile.entry("su", data=b"x", mode=0o6755)), expect=204)
    assert box.files("GET", "stat", {"path": "/workspace/in/su"}, expect=200)["mode"] == "0755"


def test_a_sender_that_stops_in_the_middle_of_an_archive_leaves_no_worker(box):
    sock = web.dial(box.client.address)
    data = tar(hostile.entry("f", data=b"x" * 3_000_000))
    sock.sendall(f"PUT {box.path}/files/tar?path=/workspace/in HTTP/1.1\r\nHost: x\r\n"
                 f"Authorization: Bearer {box.client.key}\r\nContent-Length: {len(data)}\r\n\r\n".encode()
                 + data[:1_000_000])
    count = lambda: box.client.get(f"{box.path}/stats", expect=200)["pids"]
    wait_for(lambda: count() >= 2, what="a worker")
    sock.close()
    wait_for(lambda: count() == 1, what="its end")


def test_a_tree_is_copied_from_sandbox_to_sandbox(service, tenant, box):
    to = Box(tenant)
    box.sh("mkdir -p /workspace/src/d; echo one > /workspace/src/d/f; ln -s d/f /workspace/src/l")
    copy = {"path": "/workspace/src", "toSandbox": to.id, "toPath": "/workspace/dst"}
    box.files("POST", "copy", body=copy, expect=204)
    found = to.sh("cd /workspace/dst; find . -type f -o -type l | sort; cat d/f; readlink l")
    assert found["stdout"].split() == ["./d/f", "./l", "one", "d/f"], found
    box.files("POST", "copy", body={**copy, "path": "/workspace/src/d/f", "toPath": "/workspace/one"},
              expect=204)
    assert to.read("/workspace/one") == b"one\n"
    assert box.files("POST", "copy", body={**copy, "path": "/no/such"}).status == 404
    _, other = service.tenant("other")
    foreign = Box(other)
    reply = box.files("POST", "copy", body={**copy, "toSandbox": foreign.id})
    assert reply.status == 404
    foreign.destroy()
