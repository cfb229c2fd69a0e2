# SPDX-License-Identifier: Apache-2.0
"""A sandbox as one file with its template, to a service that has no such template."""
import contextlib
import hashlib
import io
import json
import os
import signal
import struct
import subprocess
import tarfile

import oci
import pytest
from service import Box, Service, wait_for
from sg import BIN

MIB = 1 << 20
MAGIC = b"\x89SGX\r\n\x1a\n"
HEAD = 24
CONFIG = {"User": "app", "WorkingDir": "/work", "Env": ["FROM=the image", "PATH=/bin"]}


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


def sg(which, *argv, code=0):
    done = which.runner.sandglass(*argv, env={"SANDGLASS_CONFIG": str(which.config)})
    assert done.returncode == code, (argv, done)
    return done.stdout.strip() if code == 0 else done.stderr


@pytest.fixture(scope="module")
def small(service, tmp_path_factory):
    """A template of two layers that the first machine alone has; its name."""
    place = tmp_path_factory.mktemp("image") / "small"
    own = oci.layer(oci.entry("work", type=tarfile.DIRTYPE, mode=0o777), ("opt/one", b"another\n"),
                    ("opt/.wh.gone", b""))
    layers = [oci.layer(*oci.programs("sh", "cat", "ls", "stat")), oci.BASE, own]
    sg(service, "template", "import", "small", str(oci.layout(place, layers, config=CONFIG, how="none").archive()))
    return "small"


def out(box, script, **spec):
    done = box.exec("/bin/sh", "-c", script, **spec)
    assert done["exitCode"] == 0, done
    return done["stdout"]


def export(client, path, **query):
    reply = client.request("GET", f"{path}/export", query=query)
    assert reply.status == 200, reply
    return reply.body


def send(client, data, what="sandboxes", **query):
    return client.request("POST", f"/v1/{what}/import", body=data, query=query)


def box_of(client, made):
    assert made.status == 201, made
    box = Box.__new__(Box)
    box.client, box.made, box.id, box.path = client, made.json, made.json["id"], f"/v1/sandboxes/{made.json['id']}"
    return box


def parts(data):
    """The manifest and both archives, read as the page on the format says."""
    magic, version, flags, length, zeros = struct.unpack("<8sIIII", data[:HEAD])
    assert (magic, version, flags, zeros) == (MAGIC, 2, 0, 0)
    manifest, at, archives = json.loads(data[HEAD:HEAD + length]), HEAD + length, [b"", b""]
    for i in range(2):
        while True:
            (n,) = struct.unpack("<I", data[at:at + 4])
            at += 4
            if not n:
                break
            archives[i] += data[at:at + n]
            at += n
    assert struct.unpack("<Q", data[at:at + 8]) == (len(archives[0]) + len(archives[1]),)
    assert data[at + 8:] == hashlib.sha256(data[:at + 8]).digest()
    return manifest, *archives


def joined(manifest, template, archive):
    text = json.dumps(manifest).encode()
    data = struct.pack("<8sIIII", MAGIC, 2, 0, len(text), 0) + text
    for one in (template, archive):
        for at in range(0, len(one), 65536):
            piece = one[at:at + 65536]
            data += struct.pack("<I", len(piece)) + piece
        data += struct.pack("<I", 0)
    data += struct.pack("<Q", len(template) + len(archive))
    return data + hashlib.sha256(data).digest()


def stored(service):
    """What the store of templates has but `host`."""
    return sorted(p.name for p in (service.state / "templates").iterdir() if not p.name.startswith((".host-", ".pull")))


def is_settled(service, client):
    """Nothing is left of it: no cell, no snapshot, no template, no layer."""
    assert client.get("/v1/sandboxes", expect=200)["sandboxes"] == []
    assert client.get("/v1/snapshots", expect=200)["snapshots"] == []
    wait_for(lambda: client.get(f"/v1/orgs/{client.org}", expect=200)["inUse"]["sandboxes"] == 0, 60, "the end of ours")
    wait_for(lambda: stored(service) == [], 60, f"the end of {stored(service)}")
    return True


@pytest.fixture(scope="module")
def whole(service, small):
    """A whole file of a small sandbox."""
    org, client = service.tenant("whole")
    box = Box(client, {"template": small, "env": {"A": "1 2"}})
    out(box, "printf mine > f; cat opt/one 2>/dev/null || cat /opt/one; printf over >> /opt/one", user="root")
    data = export(client, box.path, whole=1)
    client.delete("/v1/sandboxes", expect=200)
    service.operator.delete(f"/v1/orgs/{org}", expect=204)
    return data


def test_a_whole_file_needs_no_template_there(other, there, whole):
    manifest, template, _ = parts(whole)
    assert manifest["template"] == "small" and manifest["templateImage"]["bytes"] <= len(template)
    with tarfile.open(fileobj=io.BytesIO(template)) as tar:  # other programs can read it
        assert {"oci-layout", "index.json"} <= {m.name for m in tar}
    moved = box_of(there, send(there, whole))
    assert out(moved, "cat f /opt/one; printf %s \"$A$FROM\"; ls /opt") == "mineanother\nover1 2the imageone\n"
    assert out(moved, "stat -c %U:%a /work") == "root:777\n"
    assert moved.made["template"].startswith(".image-")
    # It goes on: as a file of its own, as a snapshot; but only whole, and to nobody by its name.
    reply = there.request("GET", f"{moved.path}/export")
    assert reply.status == 400 and "--whole" in reply.error["message"], reply
    again = export(there, moved.path, whole=1)
    assert parts(again)[1] == template  # with the digests that it came with
    made = there.post(f"{moved.path}/snapshots", {"name": "kept"}, expect=201)
    twice = box_of(there, send(there, again))
    assert twice.made["template"] == moved.made["template"]  # the layers are there already
    assert there.post("/v1/sandboxes", {"template": moved.made["template"]}).status == 400
    there.delete("/v1/sandboxes", expect=200)
    other.kill9_daemon()
    other.wait_ready()
    assert out(Box(there, {"template": "kept"}), "cat f") == "mine"
    there.delete("/v1/sandboxes", expect=200)
    there.delete(f"/v1/snapshots/{made['id']}", expect=204)
    # What nobody stands on any more goes with the next work on templates.
    assert send(there, whole[:-1]).status == 400
    assert is_settled(other, there)


def test_a_template_that_is_there_is_not_stored_twice(service, tenant, whole, small):
    manifest, template, archive = parts(whole)
    before = stored(service)
    moved = box_of(tenant, send(tenant, whole))
    assert moved.made["template"] == small and out(moved, "cat f") == "mine"
    moved = box_of(tenant, send(tenant, joined(manifest, b"whatever is passed over", archive), template=small))
    assert out(moved, "cat f") == "mine" and stored(service) == before
    assert json.loads(sg(service, "template", "list", "--json")) is not None


def hostile_template(*entries, config=None, tmp):
    place = tmp / "hostile"
    return oci.layout(place, [oci.layer(*entries)], config=config).archive().read_bytes()


def test_a_hostile_template_is_refused_and_leaves_nothing(other, there, whole, tmp_path):
    manifest, template, archive = parts(whole)
    flipped = bytearray(template)
    flipped[template.index(b"another\n")] ^= 1
    cases = {
        "a device": hostile_template(oci.entry("d", type=tarfile.CHRTYPE, devmajor=1, devminor=3), tmp=tmp_path / "a"),
        "../up": hostile_template(("../escaped", b"x"), tmp=tmp_path / "b"),
        "through a link": hostile_template(oci.entry("l", type=tarfile.SYMTYPE, linkname="/etc"), ("l/x", b"x"), tmp=tmp_path / "c"),
        "a whiteout that is none": hostile_template(oci.entry(".wh..", b""), tmp=tmp_path / "d"),
        "another digest": bytes(flipped), "no image": oci.layer(("f", b"x")), "nothing": b"", "garbage": os.urandom(100000),
        "half": template[:len(template) // 2],
    }
    for case, data in cases.items():
        reply = send(there, joined(manifest, data, archive))
        assert reply.status in (400, 403) and "the template of the file" in reply.error["message"], (case, reply)
    reply = send(there, joined({**manifest, "templateImage": {"bytes": 1, "unpackedBytes": 1 << 60}}, template, archive))
    assert reply.status == 429 and "disk of the templates" in reply.error["message"], reply
    wrong = {k: v for k, v in manifest.items() if k != "templateImage"}
    assert send(there, joined(wrong, template, archive)).status == 400
    named = {**wrong, "template": ".image-" + "0" * 40}
    data = joined(named, template, archive)
    assert send(there, data[:8] + b"\1" + data[9:]).status == 400
    assert is_settled(other, there)


@pytest.fixture
def small_disk(tmp_path):
    image, place = tmp_path / "disk", tmp_path / "state"
    place.mkdir()
    with open(image, "wb") as f:
        f.truncate(420 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-m0", "-N", "20000", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def image_work(state, config, request, data):
    """One piece of work as the launcher has it done; the lines that it says."""
    pipes = [os.pipe() for _ in range(3)]
    ends = pipes[0][0], pipes[1][1], pipes[2][0]
    script = 'exec 3<&$1 4>&$2 5<&$3; exec -a sandglass-image "$0"'
    config.write_text(f'state_dir = "{state}"\n')
    work = subprocess.Popen(["bash", "-c", script, BIN, *map(str, ends)], pass_fds=ends,
                            env={"PATH": os.environ["PATH"], "SANDGLASS_CONFIG": str(config)})
    for end in ends:
        os.close(end)
    with open(pipes[0][1], "wb", 0) as asks, open(pipes[1][0], "rb") as says, open(pipes[2][1], "wb", 0) as gives:
        asks.write(json.dumps(request).encode() + b"\n")
        with contextlib.suppress(BrokenPipeError):
            gives.write(data)
        gives.close()
        lines = []
        for line in says:
            lines.append(json.loads(line))
            if "template" in lines[-1]:
                break
    work.wait(60)
    return lines


def test_a_template_larger_than_its_file_says_does_not_fill_the_disk(service, small_disk, tmp_path):
    """More than is free but for the spare part, in two layers that share nothing."""
    layers = [oci.layer((f"big{i}", os.urandom(MIB) * 60)) for i in range(2)]
    archive = oci.layout(tmp_path / "big", [oci.BASE, *layers], config=CONFIG, how="none").archive().read_bytes()
    request = {"action": "import", "bytes": 1, "unpacked": 1, "sudo": False}
    said = image_work(small_disk, tmp_path / "own.toml", request, archive)[-1]
    assert said["error"]["kind"] == 5 and "larger than was said" in said["error"]["message"], said
    assert [p.name for p in (small_disk / "templates").iterdir() if not p.name.startswith(".host-")] == []


def test_the_machine_itself_is_in_no_file(tenant):
    box = Box(tenant)
    reply = tenant.request("GET", f"{box.path}/export", query={"whole": 1})
    assert reply.status == 400 and "'host'" in reply.error["message"], reply


def begin(client, data, n):
    connection = client.fresh()
    connection.putrequest("POST", "/v1/snapshots/import")
    for name, value in {**client.headers(None), "Content-Length": str(len(data))}.items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(data[:n])
    return connection


def test_who_goes_in_the_midst_of_a_template_leaves_nothing(other, there, whole):
    manifest, template, _ = parts(whole)
    cut = HEAD + len(json.dumps(manifest)) + len(template) // 2
    connection = begin(there, whole, cut)
    wait_for(lambda: stored(other), 60, "the beginning")
    connection.close()
    assert is_settled(other, there)
    connection = begin(there, whole, cut)
    wait_for(lambda: stored(other), 60, "the beginning")
    other.kill9_daemon()
    other.wait_ready()
    connection.close()
    assert is_settled(other, there)
    assert not other.operator.post("/v1/reconcile", expect=200)["orphans"]
    assert send(there, whole, "snapshots").status == 201


def test_the_template_of_a_sandbox_outlives_launchers(service, small, whole, tmp_path):
    """One without a name, and one that was replaced: where nobody holds them for a moment."""
    (tmp_path / "file").write_bytes(whole)
    layers = [oci.layer(*oci.programs("sh", "cat")), oci.BASE, oci.layer(oci.entry("work", type=tarfile.DIRTYPE, mode=0o777))]
    first, second = (str(oci.layout(tmp_path / name, some, config=CONFIG, how="none").archive())
                     for name, some in (("first", layers), ("second", [oci.BASE])))
    with Service(pool=1) as own:
        sg(own, "template", "import", "mine", first)
        boxes = [sg(own, "snapshots", "import", str(tmp_path / "file")), sg(own, "create", "--template", "mine")]
        for box in boxes:
            sg(own, "exec", box, "/bin/sh", "-c", "printf kept > g")
        kept = sg(own, "snapshot", boxes[1])
        sg(own, "template", "import", "--force", "mine", second)
        assert own.end(signal.SIGTERM) == 0
        (pin,) = own.state.glob(f"templates/.new-*/pins/{kept}")
        pin.rename(pin.with_name(f"+{kept}"))  # as if it was killed in the midst of the making of it
        pin.with_name("+tbegun").touch()  # and of another, which it did not come to make
        sg(own, "template", "import", "other", second)  # whoever makes one sweeps
        own.start()
        own.kill9_launcher()
        sg(own, "template", "import", "--force", "other", second)
        own.wait_ready()
        for box in boxes:  # as the user that the template names, with its own files
            assert sg(own, "exec", box, "/bin/sh", "-c", "cat g /etc/passwd") == "kept" + oci.USERS.decode().strip()
            sg(own, "rm", box)
        box = sg(own, "create", "--template", kept)
        assert sg(own, "exec", box, "/bin/cat", "g") == "kept"
        sg(own, "rm", box)
        sg(own, "snapshots", "rm", kept)
        for name in ("mine", "other"):
            sg(own, "template", "rm", name)
        wait_for(lambda: stored(own) == [], 60, "the end of the templates")


def test_the_command_line_moves_it_whole(service, small, other, tmp_path):
    file = tmp_path / "box.sandbox"
    box = sg(service, "create", "--template", small)
    sg(service, "exec", box, "/bin/sh", "-c", "printf moved > f")
    sg(service, "snapshots", "export", "--whole", box, str(file))
    sg(service, "rm", box)
    moved = sg(other, "snapshots", "import", str(file))
    assert sg(other, "exec", moved, "/bin/cat", "f") == "moved"
    sg(other, "rm", moved)
