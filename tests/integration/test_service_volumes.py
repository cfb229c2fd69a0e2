# SPDX-License-Identifier: Apache-2.0
"""Volumes: files that outlive sandboxes, shared between them, reached without one, limited, and nobody else's."""
import json
import os
import subprocess
import urllib.parse

import pytest
import sg
import web
from service import Box, Service, wait_for as sg_wait

MIB = 1 << 20


@pytest.fixture(scope="module")
def service():
    if os.getuid() != 0:
        pytest.skip("needs root")
    with Service(pool=3, settings={"storage": "image", "log_level": "debug"}) as shared:
        if shared.operator.post("/v1/volumes", {"name": "probe"}).status == 501:
            pytest.skip("no storage pool on this host")
        shared.operator.delete("/v1/volumes/probe", expect=204)
        shared.wait_parked()
        yield shared


@pytest.fixture
def tenant(service, request):
    org, client = service.tenant(request.node.name)
    client.org = org
    yield client
    client.delete("/v1/sandboxes", expect=200)
    for volume in client.get("/v1/volumes", expect=200)["volumes"]:
        client.delete(f"/v1/volumes/{volume['name']}", expect=204)
    assert client.get(f"/v1/orgs/{org}", expect=200)["inUse"] == {
        "sandboxes": 0, "memoryBytes": 0, "cpus": 0, "diskBytes": 0}
    client.close()
    service.operator.delete(f"/v1/orgs/{org}", expect=204)


class Content:
    """The content plane of one volume, by its token."""

    def __init__(self, service, made):
        self.id, self.token = made["volumeID"], made["token"]
        self.client = web.Client(service.tcp)

    def call(self, method, what, path, body=None, token=None, **query):
        query = urllib.parse.urlencode({"path": path, **query})
        return self.client.call(method, f"/volumecontent/{self.id}/{what}?{query}", body,
                                headers={"Authorization": f"Bearer {token or self.token}"})

    def write(self, path, data, **query):
        return self.call("PUT", "file", path, data, **query)

    def read(self, path):
        return self.call("GET", "file", path)

    def names(self, path="/", **query):
        return sorted(e["path"] for e in self.call("GET", "dir", path, **query).json)


@pytest.fixture
def content(service, tenant):
    return Content(service, tenant.post("/volumes", {"name": "data"}, expect=201))


def mounted(tenant, *mounts, **spec):
    rows = [dict(zip(("volume", "path", "readOnly"), mount)) for mount in mounts]
    return Box(tenant, {"mounts": rows, **spec})


# ---- their lives ----

def test_a_volume_is_made_listed_and_removed(tenant):
    made = tenant.post("/v1/volumes", {"name": "one", "bytes": 64 * MIB}, expect=201)
    assert made["bytes"] == 64 * MIB and made["sandboxes"] == 0 and "token" not in made
    assert tenant.get("/v1/volumes/one", expect=200)["usedBytes"] < MIB
    assert [v["id"] for v in tenant.get("/v1/volumes", expect=200)["volumes"]] == [made["id"]]
    assert tenant.post("/v1/volumes", {"name": "one"}).status == 409
    assert tenant.get(f"/v1/orgs/{tenant.org}", expect=200)["inUse"]["diskBytes"] == 64 * MIB
    tenant.delete(f"/v1/volumes/{made['id']}", expect=204)
    assert tenant.get("/v1/volumes/one").status == 404
    assert tenant.delete("/v1/volumes/one").status == 404


def test_what_is_wrong_is_refused(tenant):
    for name in ("", "a/b", "..", ".x", "-x", "a b", "x" * 129, "v" + "0" * 19, "\u00e4"):
        assert tenant.post("/v1/volumes", {"name": name}).status == 400, name
    for size in (1, MIB - 1, (16 << 40) + 1):
        assert tenant.post("/v1/volumes", {"name": "x", "bytes": size}).status == 400, size
    tenant.post("/v1/volumes", {"name": "v"}, expect=201)
    for path in ("", "rel", "/", "/a/../b", "/a//b", "/a/", "/proc/x", "/sys", "/dev/shm", "/etc", "/usr/x", "/" + "x" * 2000):
        reply = tenant.post("/v1/sandboxes", {"mounts": [{"volume": "v", "path": path}]})
        assert reply.status == 400, (path, reply)
    for mounts in ([{"volume": "none", "path": "/a"}], [{"path": "/a"}], [{"volume": "v"}],
                   [{"volume": "v", "path": "/a"}, {"volume": "v", "path": "/a/b"}],
                   [{"volume": "v", "path": f"/m{i}"} for i in range(17)], "v"):
        assert tenant.post("/v1/sandboxes", {"mounts": mounts}).status == 400, mounts
    assert tenant.get("/v1/sandboxes", expect=200)["sandboxes"] == []


def test_a_mount_through_a_link_of_the_image_is_refused(tenant):
    tenant.post("/v1/volumes", {"name": "v"}, expect=201)
    for path in ("/var/run/x", "/bin"):
        reply = tenant.post("/v1/sandboxes", {"mounts": [{"volume": "v", "path": path}]})
        assert reply.status == 400 and "link" in reply.error["message"], reply
    reply = tenant.post("/v1/sandboxes", {"mounts": [{"volume": "v", "path": "/bin/x"}]})
    assert reply.status >= 400, reply  # nothing can be made there
    assert tenant.get("/v1/sandboxes", expect=200)["sandboxes"] == []


def test_quotas_count_volumes(service):
    org, client = service.tenant("volume-quota", diskBytes=100 * MIB)
    client.post("/v1/volumes", {"name": "a", "bytes": 60 * MIB}, expect=201)
    assert client.post("/v1/volumes", {"name": "b", "bytes": 60 * MIB}).status == 429
    assert service.operator.delete(f"/v1/orgs/{org}").status == 409  # it has a volume
    client.delete("/v1/volumes/a", expect=204)
    client.post("/v1/volumes", {"name": "b", "bytes": 60 * MIB}, expect=201)
    client.delete("/v1/volumes/b", expect=204)
    service.operator.delete(f"/v1/orgs/{org}", expect=204)


# ---- in sandboxes ----

def test_two_sandboxes_share_one(tenant):
    tenant.post("/v1/volumes", {"name": "shared"}, expect=201)
    a, b = (mounted(tenant, ("shared", "/mnt/deep/data")) for _ in range(2))
    a.sh("mkdir /mnt/deep/data/d && echo hello > /mnt/deep/data/d/f && chmod 600 /mnt/deep/data/d/f")
    assert b.sh("cat /mnt/deep/data/d/f; stat -c '%U %a' /mnt/deep/data/d/f")["stdout"].split()[0] == "hello"
    assert a.sh("stat -c %u:%g:%a /mnt/deep/data/d/f")["stdout"] == b.sh("stat -c %u:%g:%a /mnt/deep/data/d/f")["stdout"]
    assert tenant.get("/v1/volumes/shared", expect=200)["sandboxes"] == 2
    assert a.get()["mounts"][0]["path"] == "/mnt/deep/data"
    a.destroy()
    assert b.sh("cat /mnt/deep/data/d/f")["stdout"] == "hello\n"


def test_a_volume_outlives_its_sandboxes_and_is_mounted_elsewhere(tenant):
    tenant.post("/v1/volumes", {"name": "kept"}, expect=201)
    box = mounted(tenant, ("kept", "/data"))
    box.sh("seq 10000 > /data/numbers; sync")
    box.destroy()
    assert mounted(tenant, ("kept", "/other")).sh("tail -n 1 /other/numbers")["stdout"] == "10000\n"


def test_read_only_is(tenant):
    tenant.post("/v1/volumes", {"name": "ro"}, expect=201)
    writer, reader = mounted(tenant, ("ro", "/v")), mounted(tenant, ("ro", "/v", True))
    writer.sh("echo x > /v/f")
    for script in ("echo y > /v/f", "touch /v/new", "rm /v/f", "chmod 777 /v/f", "mkdir /v/d", "mv /v/f /v/g"):
        for user in ("root", "user"):
            assert reader.exec("sh", "-c", script, user=user)["exitCode"] != 0, (script, user)
    assert reader.sh("mount -o remount,rw /v 2>&1; echo y > /v/f; cat /v/f")["stdout"].endswith("x\n")
    assert writer.sh("cat /v/f; ls /v")["stdout"] == "x\nf\n"


def test_nothing_in_a_volume_gains_rights(tenant):
    tenant.post("/v1/volumes", {"name": "suid"}, expect=201)
    box = mounted(tenant, ("suid", "/v"))
    flags = box.sh("grep ' /v ' /proc/self/mountinfo")["stdout"]
    assert "nosuid" in flags and "nodev" in flags, flags
    assert box.exec("mknod", "/v/zero", "c", "1", "5", user="root")["exitCode"] != 0


def test_the_size_holds(tenant):
    tenant.post("/v1/volumes", {"name": "small", "bytes": 32 * MIB}, expect=201)
    a, b = (mounted(tenant, ("small", "/v")) for _ in range(2))
    done = a.exec("sh", "-c", "head -c 100000000 /dev/urandom > /v/big; echo $?; sync")
    assert "quota" in done["stderr"].lower() or "space" in done["stderr"].lower(), done
    assert int(b.sh("stat -c %s /v/big")["stdout"]) <= 33 * MIB
    assert b.exec("sh", "-c", "head -c 8000000 /dev/urandom > /v/more && sync /v/more")["exitCode"] != 0
    used = tenant.get("/v1/volumes/small", expect=200)["usedBytes"]
    assert used <= 33 * MIB, used
    assert a.sh("echo fine > /tmp/x; cat /tmp/x")["stdout"] == "fine\n"  # the sandbox's own disk is another's


def test_a_volume_in_use_goes_only_by_force(tenant):
    tenant.post("/v1/volumes", {"name": "busy"}, expect=201)
    box = mounted(tenant, ("busy", "/v"))
    reply = tenant.delete("/v1/volumes/busy")
    assert reply.status == 409 and "1 sandbox" in reply.error["message"], reply
    tenant.delete("/v1/volumes/busy", query={"force": "1"}, expect=204)
    assert tenant.get("/v1/volumes/busy").status == 404
    assert box.exec("sh", "-c", "echo x > /v/f")["exitCode"] != 0
    assert box.sh("echo alive")["stdout"] == "alive\n"


# ---- without a sandbox ----

def test_files_are_reached_without_a_sandbox(tenant, content):
    made = content.write("/a.txt", b"hello", mode=0o640, uid=5, gid=6)
    assert made.status == 201, made
    stat = made.json
    assert (stat["name"], stat["type"], stat["path"], stat["size"], stat["mode"], stat["uid"], stat["gid"]) == (
        "a.txt", "file", "/a.txt", 5, 0o640, 5, 6)
    assert content.read("/a.txt").body == b"hello"
    assert content.write("/x/y/z", b"deep").status == 404
    assert content.write("/x/y/z", b"deep", force="true").status == 201
    assert content.call("POST", "dir", "/x").status == 409
    assert content.call("POST", "dir", "/d/e").status == 404
    assert content.call("POST", "dir", "/d/e", force="true").json["type"] == "directory"
    assert content.names() == ["/a.txt", "/d", "/x"]
    assert content.names(depth=9) == ["/a.txt", "/d", "/d/e", "/x", "/x/y", "/x/y/z"]
    changed = content.call("PATCH", "path", "/a.txt", {"mode": 0o600, "uid": 7})
    assert (changed.status, changed.json["mode"], changed.json["uid"], changed.json["gid"]) == (200, 0o600, 7, 6)
    assert content.call("GET", "path", "/a.txt").json["mode"] == 0o600
    assert content.call("DELETE", "path", "/x").status == 204
    assert content.call("GET", "path", "/x").json["code"] == 404
    assert content.read("/none").json["code"] == 404
    assert content.read("/d").json["code"] == 400
    assert content.call("GET", "dir", "/none").json["code"] == 404
    assert tenant.get("/v1/sandboxes", expect=200)["sandboxes"] == []  # ours is nobody's business
    box = mounted(tenant, ("data", "/v"))
    assert box.sh("cat /v/a.txt || ls -ln /v", user="root")["stdout"] == "hello"
    box.sh("echo from inside > /v/b")
    assert content.read("/b").body == b"from inside\n"


def test_large_files_come_and_go_whole(content):
    data = os.urandom(20 * MIB)
    assert content.write("/big", data).json["size"] == len(data)
    assert content.read("/big").body == data
    assert content.write("/big", b"").json["size"] == 0
    assert content.read("/big").body == b""


def test_more_than_fits_is_refused_and_leaves_what_was(service, tenant):
    tenant.post("/v1/volumes", {"name": "tiny", "bytes": 8 * MIB}, expect=201)
    content = Content(service, tenant.get("/volumes/tiny", expect=200))
    assert content.write("/f", b"first").status == 201
    reply = content.write("/f", os.urandom(20 * MIB))
    assert reply.status in (413, 429, 507), reply
    assert content.read("/f").body == b"first"
    assert content.names() == ["/f"]


@pytest.mark.parametrize("path", ["/../../etc/passwd", "../etc/passwd", "/link/passwd", "/abs", "/up/etc/passwd", "/proc/1/root/etc/passwd",
                                  "/magic", "/a/b/../../../../../etc/passwd"])
def test_no_path_leads_out(tenant, content, path):
    box = mounted(tenant, ("data", "/v"))
    box.sh("cd /v; ln -s /etc link; ln -s /etc/passwd abs; ln -s ../../../.. up; ln -s /proc/self/root/etc/passwd magic; mkdir -p a/b")
    assert content.read(path).status == 404, path
    assert content.call("GET", "dir", path).status == 404
    content.write(path, b"mine", force="true")  # wherever it lands, it is in the volume
    content.call("PATCH", "path", path, {"mode": 0o777})
    content.call("DELETE", "path", path)
    assert box.sh("head -n 1 /etc/passwd; ls -l /etc/passwd")["stdout"].startswith("root:")
    assert content.read("/../v/../a").status == 404


def test_links_lead_where_they_would_with_the_volume_as_root(tenant, content):
    box = mounted(tenant, ("data", "/v"))
    content.write("/etc/passwd", b"of the volume", force="true")
    box.sh("ln -s /etc/passwd /v/abs; ln -s ../../../../etc/passwd /v/up")
    for path in ("/abs", "/up", "/../etc/passwd"):
        assert content.read(path).body == b"of the volume", path
    assert content.call("GET", "path", "/abs").json["target"] == "/etc/passwd"
    assert content.call("DELETE", "path", "/abs").status == 204
    assert content.read("/etc/passwd").body == b"of the volume"


def test_a_link_that_is_swapped_all_the_time_leads_nowhere(tenant, content):
    box = mounted(tenant, ("data", "/v"))
    box.sh("mkdir /v/d; echo inside > /v/d/passwd")
    run = box.spawn("cd /v; while :; do mv d e; ln -s /etc d; rm d; mv e d; done")
    for _ in range(200):
        reply = content.read("/d/passwd")
        assert reply.status in (404, 503) or reply.body == b"inside\n", reply
    tenant.delete(f"/v1/sandboxes/{box.id}/execs/{run['id']}")


def test_only_the_token_of_the_volume_opens_it(service, tenant, content):
    content.write("/f", b"x")
    other = tenant.post("/volumes", {"name": "other"}, expect=201)
    for token in (other["token"], "x", "", content.token[:-1], content.token[:-1] + "!", "e2b_" + "0" * 40,
                  service.key(org=tenant.org)):
        reply = content.call("GET", "file", "/f", token=token or " ")
        assert (reply.status, reply.json["code"]) == (401, 401), (token, reply)
    assert web.Client(service.tcp).get(f"/volumecontent/{content.id}/file?path=/f").status == 401
    foreign = service.client(service.key(org=service.org("volume-foreign")))
    assert foreign.get(f"/volumes/{content.id}").status == 404
    assert foreign.get("/v1/volumes/data").status == 404
    assert foreign.delete("/volumes/data").status == 404
    assert foreign.post("/v1/sandboxes", {"mounts": [{"volume": content.id, "path": "/v"}]}).status == 400
    assert content.call("DELETE", "path", "/").status >= 400
    assert content.call("GET", "path", "").status == 400


def test_the_e2b_create_mounts(service, tenant, content):
    content.write("/hello", b"from the volume")
    made = tenant.post("/v2/sandboxes", {"templateID": "host", "volumeMounts": [{"name": "data", "path": "/mnt/v"}]},
                       expect=201)
    info = tenant.get(f"/sandboxes/{made['sandboxID']}", expect=200)
    assert info["volumeMounts"] == [{"name": "data", "path": "/mnt/v"}]
    done = tenant.post(f"/v1/sandboxes/{made['sandboxID']}/exec", {"argv": ["cat", "/mnt/v/hello"]}, expect=200)
    assert done["stdout"] == "from the volume"
    reply = tenant.post("/v2/sandboxes", {"templateID": "host", "volumeMounts": [{"name": "none", "path": "/mnt/v"}]})
    assert (reply.status, reply.json["code"]) == (400, 400)
    assert [v["name"] for v in tenant.get("/volumes", expect=200)] == ["data"]


def test_volumes_follow_forks_and_pauses_that_keep_the_files_alone(tenant, content):
    content.write("/f", b"x")
    made = tenant.post("/v2/sandboxes", {"templateID": "host", "volumeMounts": [{"name": "data", "path": "/mnt/v"}]},
                       expect=201)["sandboxID"]

    def seen(sandbox):
        return tenant.post(f"/v1/sandboxes/{sandbox}/exec", {"argv": ["cat", "/mnt/v/f"]}, expect=200)["stdout"]
    fork = tenant.post(f"/v1/sandboxes/{made}/fork", {}, expect=201)["forks"][0]["sandbox"]["id"]
    assert seen(fork) == "x"
    tenant.post(f"/sandboxes/{made}/pause", {"memory": False}, expect=204)
    tenant.post(f"/v2/sandboxes/{made}/connect", {"timeout": 60}, expect=201)
    assert seen(made) == "x"
    assert tenant.get("/v1/volumes/data", expect=200)["sandboxes"] == 2


def test_our_own_sandbox_ends_and_comes_back(service, tenant, content):
    content.write("/f", b"1")
    pid = service.daemon_pid()
    cells = service.operator.get("/v1/reconcile", expect=200)
    assert cells["lost"] == 0
    service.kill9_daemon()
    service.wait_ready()
    assert service.daemon_pid() != pid
    content.client = web.Client(service.tcp)
    assert content.read("/f").body == b"1"
    report = service.operator.post("/v1/reconcile", expect=200)
    assert report["orphans"] == 0 and report["lost"] == 0, report


# ---- what survives ----

def test_acknowledged_means_there_after_kill_9_of_everything():
    with Service(pool=1, settings={"storage": "image"}) as service:
        made = service.operator.post("/volumes", {"name": "kept"})
        if made.status in (400, 501):
            pytest.skip("no storage pool on this host")
        content = Content(service, made.json)
        box = Box(service.operator, {"mounts": [{"volume": "kept", "path": "/v"}]})
        for number in range(3):
            assert content.write(f"/f{number}", f"content {number}".encode()).status == 201
            (service.kill9_daemon, service.kill9_launcher, service.kill9_daemon)[number]()
            service.wait_ready()
            content.client = web.Client(service.tcp)
            for seen in range(number + 1):
                assert content.read(f"/f{seen}").body == f"content {seen}".encode()
            assert box.sh("ls /v | wc -l")["stdout"].strip() == str(number + 1)
        assert service.operator.get("/v1/volumes/kept", expect=200)["sandboxes"] == 1
        box.destroy()
        service.operator.delete("/v1/volumes/kept", expect=204)


# ---- the native way to the files ----

def native(tenant, method, tail, path, body=None, **query):
    return tenant.call(method, f"/v1/volumes/data/files{tail}", body, query={"path": path, **query})


def test_the_native_api_reaches_the_files_without_a_sandbox(service, tenant, content):
    assert native(tenant, "PUT", "", "/a/b.txt", b"one").status == 404  # no such directory yet
    assert tenant.post("/v1/volumes/data/files/mkdir", {"path": "/a/deep", "parents": True}).status == 204
    assert native(tenant, "PUT", "", "/a/b.txt", b"one", mode="0640").json == {"bytes": 3}
    assert content.read("/a/b.txt").body == b"one"  # both planes see the same
    told = native(tenant, "GET", "/stat", "/a/b.txt").json
    assert (told["type"], told["mode"], told["uid"], told["gid"]) == ("file", "0640", 1000, 1000)
    assert [e["name"] for e in native(tenant, "GET", "/list", "/a").json["entries"]] in (["b.txt", "deep"], ["deep", "b.txt"])
    assert tenant.post("/v1/volumes/data/files/move", {"from": "/a/b.txt", "to": "/a/deep/c"}).status == 204
    assert tenant.post("/v1/volumes/data/files/chmod", {"path": "/a/deep/c", "mode": "0600"}).status == 204
    archive = native(tenant, "GET", "/tar", "/a").body
    tenant.post("/v1/volumes/data/files/mkdir", {"path": "/copy"}, expect=204)
    assert native(tenant, "PUT", "/tar", "/copy", archive).status == 204
    assert native(tenant, "GET", "", "/copy/deep/c").body == b"one"
    assert [f["path"] for f in native(tenant, "GET", "/search", "/copy", name="c").json["found"]] == ["deep/c"]
    assert native(tenant, "DELETE", "", "/a").status == 409 and native(tenant, "DELETE", "", "/a", recursive=1).status == 204
    box = mounted(tenant, ("data", "/v"))
    assert box.sh("cat /v/copy/deep/c; echo more > /v/copy/new")["stdout"] == "one"
    assert native(tenant, "GET", "", "/copy/new").body == b"more\n"
    assert native(tenant, "GET", "", "/../../etc/passwd").status == 404
    other = service.tenant("nobody")[1]
    assert native(other, "GET", "/stat", "/").status == 404
    assert tenant.get("/v1/sandboxes", expect=200)["sandboxes"][0]["id"] == box.id  # ours is in no list


def test_a_volume_changes_its_size_and_the_limit_follows(service):
    org, client = service.tenant("resize", diskBytes=200 * MIB)
    client.post("/v1/volumes", {"name": "data", "bytes": 20 * MIB}, expect=201)
    box = mounted(client, ("data", "/v"), limits={"diskBytes": 64 * MIB})
    assert box.sh("head -c 30M /dev/urandom > /v/big && sync")["exitCode"] != 0
    assert client.patch("/v1/volumes/data", {"bytes": 60 * MIB}, expect=200)["bytes"] == 60 * MIB
    assert box.sh("head -c 40M /dev/urandom > /v/big && sync")["exitCode"] == 0
    assert client.get(f"/v1/orgs/{org}", expect=200)["inUse"]["diskBytes"] == (60 + 64) * MIB
    reply = client.patch("/v1/volumes/data", {"bytes": 10 * MIB})
    assert reply.status == 409 and "stored" in reply.error["message"]
    assert client.patch("/v1/volumes/data", {"bytes": 400 * MIB}).status == 429
    assert client.patch("/v1/volumes/data", {"bytes": 1}).status == 400
    box.sh("rm /v/big; sync")
    sg_wait(lambda: client.patch("/v1/volumes/data", {"bytes": 10 * MIB}).status == 200, 30, "room")
    assert client.get("/v1/volumes/data", expect=200)["bytes"] == 10 * MIB
    assert box.sh("head -c 30M /dev/urandom > /v/big && sync")["exitCode"] != 0
    box.destroy()
    client.delete("/v1/volumes/data", expect=204)


def test_the_command(service, tmp_path):
    def volume(*args):
        return subprocess.run([sg.BIN, *args, "--run-dir", str(service.run)], capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "SANDGLASS_CONFIG": str(service.config)})
    made = volume("volume", "create", "--disk", "16m", "by-hand")
    assert made.returncode == 0, made.stderr
    assert "by-hand" in volume("volume", "ls").stdout
    box = volume("create", "--volume", "by-hand:/v:ro", "--volume", "by-hand:/w").stdout.strip()
    assert volume("volume", "rm", "by-hand").returncode == 1
    assert volume("exec", box, "--", "sh", "-c", "echo x > /w/f; cat /v/f").stdout == "x\n"
    assert volume("rm", box).returncode == 0
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "leaf").write_text("green")
    assert volume("volume", "cp", tmp_path / "tree", "by-hand:/").returncode == 0
    assert volume("volume", "cp", "by-hand:/tree/leaf", "-").stdout == "green"
    assert volume("volume", "cp", "by-hand:/tree", tmp_path / "back").returncode == 0
    assert (tmp_path / "back" / "leaf").read_text() == "green"
    assert "both" in volume("volume", "cp", "by-hand:/a", "by-hand:/b").stderr
    assert "No such file" in volume("volume", "cp", "by-hand:/none", "-").stderr
    assert volume("volume", "resize", "--disk", "32m", "by-hand").returncode == 0
    assert volume("volume", "resize", "by-hand").returncode != 0  # to which size?
    assert json.loads(volume("volume", "ls", "--json").stdout)["volumes"][0]["bytes"] == 32 * MIB
    assert volume("volume", "rm", "by-hand").returncode == 0
