# SPDX-License-Identifier: Apache-2.0
"""A sandbox as one file, from one service to another one."""
import hashlib
import io
import json
import os
import struct
import tarfile

import pytest
from service import Box, Service, wait_for

MIB = 1 << 20
MAGIC = b"\x89SGX\r\n\x1a\n"
HEAD = 24
SHAPES = """
set -e
mkdir -p d/e "odd name"; printf hello > d/f; ln d/f d/hard; ln -s ../d/f d/soft; ln -s /nowhere d/dangling
chmod 4751 d/e; chmod 0640 d/f; chmod 1777 "odd name"; mkfifo -m 0621 pipe
truncate -s 64M sparse; printf x | dd of=sparse bs=1 seek=1M conv=notrunc status=none
truncate -s 8M hole; head -c 300000 /dev/urandom > random; touch -d 2001-02-03T04:05:06.789 random d/e
mkdir -p $(printf 'long%.0s/' $(seq 40)); printf x > "$(printf 'n%.0s' $(seq 200))"
python3 - <<'X'
import os, socket
os.setxattr("d/f", "user.colour", b"\\x00green\\n"); os.setxattr("d", "user.of", b"directory")
socket.socket(socket.AF_UNIX).bind("socket")
X
"""
AS_ROOT = """
set -e
chown 1234:4321 d/f; chown -h 7:8 d/soft; chown 3:4 "odd name"; chmod 2755 d/e
rm -rf /etc/skel /etc/profile.d; mkdir /etc/profile.d; printf mine > /etc/profile.d/mine.sh; rm -f /etc/motd
printf "# more" >> /etc/bash.bashrc; mkdir -p /opt/x; printf opt > /opt/x/y
"""
LOOK = r"""
import hashlib, os, stat, sys
def look(top):
    names = {}
    for at, dirs, files in os.walk(top):
        dirs.sort()
        for name in sorted(["."] + files + [d for d in dirs if os.path.islink(os.path.join(at, d))]):
            path = os.path.normpath(os.path.join(at, name)); st = os.lstat(path)
            if stat.S_ISSOCK(st.st_mode): continue
            row = [path, oct(st.st_mode), st.st_uid, st.st_gid]
            if not stat.S_ISDIR(st.st_mode): row += [st.st_nlink, st.st_size]
            row += [st.st_mtime_ns]
            if stat.S_ISLNK(st.st_mode): row.append(os.readlink(path))
            else: row.append(sorted((n, os.getxattr(path, n)) for n in os.listxattr(path)))
            if stat.S_ISREG(st.st_mode):
                row += [hashlib.sha256(open(path, "rb").read()).hexdigest(), st.st_blocks * 512 < st.st_size]
            if st.st_nlink > 1 and stat.S_ISREG(st.st_mode): row.append(names.setdefault(st.st_ino, path))
            print(row)
for top in sys.argv[1:]: look(top)
"""


@pytest.fixture(scope="module")
def other(service):
    """The other machine. That there is a first one says that this can be."""
    with Service(pool=1) as there:
        yield there


@pytest.fixture
def there(other, request):
    org, client = other.tenant(request.node.name)
    client.org = org
    yield client
    for made in client.get("/v1/snapshots", expect=200)["snapshots"]:
        client.delete(f"/v1/snapshots/{made['id']}", query={"cascade": 1}, expect=204)
    client.delete("/v1/sandboxes", expect=200)
    other.operator.delete(f"/v1/orgs/{org}", expect=204)


def out(box, script, **spec):
    done = box.sh(script, **spec)
    assert done["exitCode"] == 0, done
    return done["stdout"]


def look(box):
    """What the sandbox has, and of what its template has: the names. That is each machine's own."""
    done = box.exec("python3", "-c", LOOK, ".", "/opt", "/etc/profile.d", user="root")
    assert done["exitCode"] == 0, done
    return done["stdout"].splitlines() + out(box, "ls -A / /etc; tail -c 6 /etc/bash.bashrc").splitlines()


def export(client, path):
    reply = client.request("GET", f"{path}/export")
    assert reply.status == 200, reply
    return reply.body


def send(client, data, what="sandboxes", **query):
    return client.request("POST", f"/v1/{what}/import", body=data, query=query)


def parts(data):
    """The manifest and the archive, read as the page on the format says."""
    magic, version, flags, length, zeros = struct.unpack("<8sIIII", data[:HEAD])
    assert (magic, version, flags, zeros) == (MAGIC, 1, 0, 0)
    manifest, at, archive = json.loads(data[HEAD:HEAD + length]), HEAD + length, b""
    while True:
        (n,) = struct.unpack("<I", data[at:at + 4])
        at += 4
        if not n:
            break
        archive += data[at:at + n]
        at += n
    assert struct.unpack("<Q", data[at:at + 8]) == (len(archive),)
    assert data[at + 8:] == hashlib.sha256(data[:at + 8]).digest()
    return manifest, archive


def joined(manifest, archive, version=1):
    text = json.dumps(manifest).encode()
    data = struct.pack("<8sIIII", MAGIC, version, 0, len(text), 0) + text
    for at in range(0, len(archive), 65536):
        piece = archive[at:at + 65536]
        data += struct.pack("<I", len(piece)) + piece
    data += struct.pack("<IQ", 0, len(archive))
    return data + hashlib.sha256(data).digest()


def tar_of(*members):
    """(name, what) each: bytes, or a TarInfo whose name is set."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, what in members:
            info = what if isinstance(what, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.name = name
            info.size = len(what) if isinstance(what, bytes) else 0
            tar.addfile(info, io.BytesIO(what) if isinstance(what, bytes) else None)
    return made.getvalue()


def special(kind, **fields):
    info = tarfile.TarInfo()
    info.type = kind
    for name, value in fields.items():
        setattr(info, name, value)
    return info


def is_empty(client):
    return (client.get("/v1/sandboxes", expect=200)["sandboxes"] == [] and
            client.get("/v1/snapshots", expect=200)["snapshots"] == [])


def is_settled(service, client):
    """Nothing is left, not even of ours: neither a cell nor a snapshot."""
    pool = service.state / "pool"
    assert is_empty(client)
    wait_for(lambda: client.get(f"/v1/orgs/{client.org}", expect=200)["inUse"]["sandboxes"] == 0, 60, "the end of ours")
    return pool.exists()


@pytest.fixture(scope="module")
def small(service):
    """A file of a small sandbox, as its manifest and archive."""
    org, client = service.tenant("small")
    box = Box(client, {"metadata": {"a": "b"}})
    out(box, "printf small > f")
    data = export(client, box.path)
    client.delete("/v1/sandboxes", expect=200)
    service.operator.delete(f"/v1/orgs/{org}", expect=204)
    return data


# ---- there and back ----

def test_a_sandbox_is_the_same_on_the_other_machine(service, tenant, there):
    spec = {"limits": {"memoryBytes": 192 * MIB, "diskBytes": 300 * MIB, "pids": 77}, "env": {"A": "1 2"},
            "metadata": {"who": "me"}, "timeoutMs": 3600000, "network": {"mode": "none"}}
    box = Box(tenant, spec)
    out(box, SHAPES)
    out(box, AS_ROOT, user="root")
    before = look(box)
    assert any("/etc/profile.d/mine.sh" in row for row in before) and len(before) > 30
    data = export(tenant, box.path)
    assert out(box, "cat d/f", user="root") == "hello"  # it runs on
    manifest, archive = parts(data)
    assert manifest["settings"]["env"] == {"A": "1 2"} and manifest["template"] == "host"
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:  # other programs can read it
        names = {m.name: m for m in tar}
    assert names["workspace/d/hard"].islnk() or names["workspace/d/f"].islnk()
    assert names["workspace/sparse"].size == 64 * MIB and "workspace/socket" not in names
    assert len(archive) < 8 * MIB
    made = send(there, data)
    assert made.status == 201, made
    moved = Box.__new__(Box)
    moved.client, moved.made, moved.id, moved.path = there, made.json, made.json["id"], f"/v1/sandboxes/{made.json['id']}"
    assert made.json["limits"]["memoryBytes"] == 192 * MIB and made.json["metadata"] == {"who": "me"}
    assert made.json["limits"]["pids"] == 77 and moved.id != box.id
    assert look(moved) == before
    assert out(moved, "printf %s \"$A\"; test ! -e /etc/skel; ls -A /etc/profile.d") == "1 2mine.sh\n"
    again = export(there, moved.path)
    assert sorted(m.name for m in tarfile.open(fileobj=io.BytesIO(parts(again)[1]))) == sorted(names)


def test_a_snapshot_is_moved_and_outlives_kill_9(other, tenant, there):
    box = Box(tenant)
    out(box, "head -c 3M /dev/urandom > f")
    digest = out(box, "sha256sum f")
    made = tenant.post(f"{box.path}/snapshots", {"name": "work"}, expect=201)
    data = export(tenant, f"/v1/snapshots/{made['id']}")
    tenant.delete(f"/v1/snapshots/{made['id']}", expect=204)
    kept = send(there, data, "snapshots", name="moved", tag="v1")
    assert kept.status == 201 and (kept.json["name"], kept.json["tag"]) == ("moved", "v1"), kept
    other.kill9_daemon()
    other.wait_ready()
    assert out(Box(there, {"template": "moved:v1"}), "sha256sum f") == digest


def test_a_pause_that_keeps_the_files_is_exported_as_it_is(tenant, there):
    box = Box(tenant)
    out(box, "printf kept > f")
    tenant.post(f"{box.path}/pause", {"memory": False}, expect=200)
    made = send(there, export(tenant, box.path))
    assert made.status == 201, made
    assert there.request("GET", f"/v1/sandboxes/{made.json['id']}/files", query={"path": "f"}).body == b"kept"
    assert box.state() == "paused"


def test_the_network_of_one_that_was_moved_is_no_wider_than_it_was(other, tenant, there):
    other.operator.put(f"/v1/orgs/{there.org}/network", {"mode": "open"}, expect=200)
    for network in ({"mode": "none"}, {"mode": "none", "networks": ["team"]}, {"mode": "filtered", "allow": ["example.com"]}):
        made = send(there, export(tenant, Box(tenant, {"network": network}).path), keepNetwork=1)
        assert made.status == 201 and "notices" not in made.json, made
        found = there.get(f"/v1/sandboxes/{made.json['id']}/network", expect=200)
        assert {**found, **network} == found, (network, found)
    other.operator.delete(f"/v1/orgs/{there.org}/network", expect=204)


def test_a_private_network_and_a_proxy_of_a_file_are_the_importer_s_to_give(there, small):
    manifest, archive = parts(small)

    def network(found, **query):
        manifest["settings"]["network"] = found
        made = send(there, joined(manifest, archive), **query)
        assert made.status == 201, made
        return there.get(f"/v1/sandboxes/{made.json['id']}/network", expect=200), " ".join(made.json.get("notices", []))

    found, notices = network({"mode": "filtered", "allow": ["example.com"], "networks": ["team", "others"]})
    assert found["mode"] == "filtered" and not found.get("networks") and "team, others" in notices, (found, notices)
    proxy = {"address": "proxy.example.com:1080", "username": "someone"}
    for more in ({}, {"sealed": "x" * 5000}):
        found, notices = network({"mode": "open", "egressProxy": {**proxy, **more}})
        assert found["mode"] == "none" and "egressProxy" not in found, found
        assert "proxy.example.com:1080" in notices and "no network" in notices and "someone" not in notices, notices
        found, notices = network({"mode": "open", "egressProxy": {**proxy, **more}}, keepNetwork=1)
        assert found["mode"] == "open" and found["egressProxy"] == proxy and "set it again" in notices, (found, notices)
    manifest["settings"]["network"] = {"mode": "open", "egressProxy": {"address": "169.254.169.254:80"}}
    reply = send(there, joined(manifest, archive), keepNetwork=1)
    assert reply.status == 400 and "metadata" in reply.error["message"], reply


def test_the_password_in_the_address_of_a_proxy_is_told_to_nobody(there, small):
    manifest, archive = parts(small)
    bad = {"mode": "open", "egressProxy": {"address": "someone:hunter2@proxy.example.com:1080"}}
    manifest["settings"]["network"] = bad
    for reply in (there.request("POST", "/v1/sandboxes", body={"network": bad}), send(there, joined(manifest, archive))):
        assert reply.status == 400 and "hunter2" not in reply.body.decode() and "HOST:PORT" in reply.error["message"], reply


# ---- what is refused, and leaves nothing ----

def test_a_file_that_is_cut_or_altered_or_none_leaves_nothing(other, there, small):
    flipped = bytearray(small)
    flipped[-3000] ^= 1
    manifest, archive = parts(small)
    length = HEAD + len(json.dumps(manifest).encode())
    cases = [(small[:-1], "cut off"), (small[:len(small) // 2], "cut off"), (small[:HEAD + 10], "cut off"), (small[:7], "no file of"),
             (b"", "no file of"), (b"x" * 5000, "no file of"), (bytes(flipped), "altered"), (small + b"x", "altered"),
             (joined(manifest, archive[:-2000]), "ends early"),
             (small[:HEAD] + b"{" + small[HEAD + 1:HEAD + 2] + b"!" + small[HEAD + 3:], "manifest"), (small[:length][:8] + b"\3" + small[9:], "version 3"),
             (small[:8] + b"\2" + small[9:], "another version")]
    for data, words in cases:
        reply = send(there, data)
        assert reply.status in (400, 501) and words in reply.error["message"], (words, reply)
    assert is_settled(other, there)


HOSTILE = {
    "../up": ("../escaped", b"x"), "absolute": ("/etc/escaped", b"x"), "a device": ("d", special(tarfile.CHRTYPE, devmajor=1, devminor=3)),
    "a disk": ("d", special(tarfile.BLKTYPE, devmajor=8, devminor=0)), "an owner": ("f", special(tarfile.REGTYPE, uid=70000)),
    "a link out": ("l", special(tarfile.LNKTYPE, linkname="../../etc/shadow")),
    "an attribute": ("f", special(tarfile.REGTYPE, pax_headers={"SCHILY.xattr.trusted.overlay.opaque": "y"})),
    "a map": ("f", special(tarfile.REGTYPE, pax_headers={"GNU.sparse.size": "5", "GNU.sparse.map": "9,9"})),
    "another file system": ("proc/sys/x", b"x"),
}


def test_a_hostile_archive_is_refused_and_leaves_nothing(other, there, small):
    manifest, _ = parts(small)
    for case, member in HOSTILE.items():
        reply = send(there, joined(manifest, tar_of(member)))
        assert reply.status == 400, (case, reply)
    reply = send(there, joined(manifest, tar_of(("l", special(tarfile.SYMTYPE, linkname="/etc")), ("l/x", b"x"))))
    assert reply.status == 400 and "symbolic link" in reply.error["message"], reply
    assert is_settled(other, there)


def test_what_does_not_fit_is_refused_and_leaves_nothing(other, there, small):
    manifest, _ = parts(small)
    manifest["settings"]["diskBytes"] = 16 * MIB
    reply = send(there, joined(manifest, tar_of(("big", os.urandom(24 * MIB)))))
    assert reply.status in (400, 409, 429), reply
    assert is_settled(other, there)
    org, poor = other.tenant("poor", memoryBytes=256 * MIB)
    manifest["settings"].update(diskBytes=64 * MIB, memoryBytes=512 * MIB)
    assert send(poor, joined(manifest, tar_of(("f", b"x")))).status == 429
    other.operator.delete(f"/v1/orgs/{org}", expect=204)


def test_a_manifest_that_asks_for_too_much_leaves_nothing(other, there, small):
    manifest, archive = parts(small)
    reply = send(there, joined({**manifest, "traits": {"env": {f"A{i}": "x" * 1000 for i in range(200)}}}, archive))
    assert reply.status == 400 and "traits is over" in reply.error["message"], reply
    assert is_settled(other, there)


def test_a_template_that_is_missing_or_another_one_is_told(other, there, small):
    manifest, archive = parts(small)
    reply = send(there, joined({**manifest, "template": "nowhere"}, archive))
    assert reply.status == 404 and "needs template 'nowhere'" in reply.error["message"], reply
    reply = send(there, joined({**manifest, "templateIdentity": "0123"}, archive))
    assert reply.status == 409 and "another one here" in reply.error["message"], reply
    assert is_settled(other, there)
    made = send(there, joined({**manifest, "templateIdentity": "0123"}, archive), template="host")
    assert made.status == 201, made
    reply = send(there, joined({**manifest, "architecture": "pdp11"}, archive))
    assert reply.status == 501 and "pdp11" in reply.error["message"], reply


def test_nobody_exports_what_is_another_organisation_s(service, tenant, other):
    box = Box(tenant)
    org, stranger = service.tenant("stranger")
    assert stranger.request("GET", f"{box.path}/export").status == 404
    key = service.key(org=tenant.org, scopes=["read"])
    assert service.client(key).request("GET", f"{box.path}/export").status == 403
    assert service.client(key).request("POST", "/v1/sandboxes/import", body=b"x").status == 403
    service.operator.delete(f"/v1/orgs/{org}", expect=204)


# ---- who goes in the midst of it ----

def test_a_client_that_goes_in_the_midst_leaves_nothing(service, tenant, other, there, small):
    box = Box(tenant)
    out(box, "head -c 40M /dev/urandom > f")
    connection = tenant.fresh()
    connection.request("GET", f"{box.path}/export", headers=tenant.headers(None))
    assert len(connection.getresponse().read(100000)) == 100000
    connection.sock.close()
    connection.close()
    connection = there.fresh()
    connection.putrequest("POST", "/v1/sandboxes/import")
    for name, value in {**there.headers(None), "Content-Length": str(len(small) + MIB)}.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(small[:-20])
    connection.close()
    assert is_settled(other, there)
    assert len(export(tenant, box.path)) > 40 * MIB  # and it can be had again


def test_kill_9_in_the_midst_of_both_leaves_nothing(service, tenant, other, there):
    source = Box(there)
    out(source, "head -c 30M /dev/urandom > f")
    data = export(there, source.path)
    there.delete("/v1/sandboxes", expect=200)
    connection = there.fresh()
    connection.putrequest("POST", "/v1/snapshots/import")
    for name, value in {**there.headers(None), "Content-Length": str(len(data))}.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(data[:20 * MIB])
    other.kill9_daemon()
    other.wait_ready()
    connection.close()
    assert is_settled(other, there)
    report = other.operator.post("/v1/reconcile", expect=200)
    assert not report["orphans"], report
    assert send(there, data, "snapshots").status == 201


# ---- the command line ----

def test_the_command_line_moves_a_sandbox(service, tenant, other, there, tmp_path):
    def sg(which, *argv, code=0):
        done = which.runner.sandglass(*argv, env={"SANDGLASS_CONFIG": str(which.config)})
        assert done.returncode == code, (argv, done)
        return done.stdout.strip() if code == 0 else done.stderr

    box = sg(service, "create")
    file = tmp_path / "box.sandbox"
    sg(service, "exec", box, "sh", "-c", "printf moved > f")
    sg(service, "snapshots", "export", box, str(file))
    sg(service, "rm", box)
    assert [p.name for p in tmp_path.iterdir()] == [file.name] and file.stat().st_mode & 0o777 == 0o600
    moved = sg(other, "snapshots", "import", str(file))
    assert sg(other, "exec", moved, "cat", "f") == "moved"
    kept = json.loads(sg(other, "snapshots", "import", "--name", "kept", "--json", str(file)))
    assert kept["name"] == "kept" and kept["id"] in sg(other, "snapshots", "list")
    file.write_bytes(file.read_bytes()[:-5])
    assert "cut off" in sg(other, "snapshots", "import", str(file), code=2)
    assert "No such file" in sg(other, "snapshots", "import", str(tmp_path / "none"), code=1)
    sg(other, "rm", moved)
    sg(other, "snapshots", "rm", kept["id"])
