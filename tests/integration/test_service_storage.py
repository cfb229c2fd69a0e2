# SPDX-License-Identifier: Apache-2.0
"""The storage pool: limits, snapshots, forks, rollback, pauses that keep the files, and who may."""
import json
import os
import pathlib
import subprocess
import sys
import time

import leaks
import pytest
from service import Box, Service, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "soak"))

import power_cut  # noqa: E402
import storage_loop  # noqa: E402

MIB = 1 << 20
SHAPES = """
mkdir -p d/e; printf hello > d/f; ln d/f d/hard; ln -s ../d/f d/soft; chmod 4751 d/e; chmod 0640 d/f
truncate -s 64M sparse; printf x | dd of=sparse bs=1 seek=1M conv=notrunc 2>/dev/null; mkfifo pipe
rm -rf /opt 2>/dev/null; mkdir -p /tmp/t; printf tmp > /tmp/t/x
"""
LOOK = """
stat -c '%n %a %u %g %h %s' d d/e d/f d/hard sparse pipe; readlink d/soft; cat d/f /tmp/t/x; echo
test $(stat -c %b sparse) -lt 100 && echo sparse; test d/f -ef d/hard && echo hard; sha256sum sparse
"""


def snapshot(box, **spec):
    return box.client.post(f"{box.path}/snapshots", spec, expect=201)


def remove(client, made, **query):
    return client.call("DELETE", f"/v1/snapshots/{made['id']}", query=query)


def out(box, script, **spec):
    done = box.sh(script, **spec)
    assert done["exitCode"] == 0, done
    return done["stdout"]


@pytest.fixture
def mounts():
    with leaks.mount_folder() as folder:
        yield folder


@pytest.fixture
def clean(tenant):
    """No snapshot stays."""
    yield tenant
    for made in tenant.get("/v1/snapshots", expect=200)["snapshots"]:
        remove(tenant, made, cascade=1)
    assert tenant.get("/v1/snapshots", expect=200)["snapshots"] == []


def test_files_are_in_the_pool_and_the_api_says_so(service, tenant):
    box = Box(tenant, {"limits": {"memoryBytes": 64 * MIB, "diskBytes": 200 * MIB}})
    assert box.made["storage"] == "pool"
    assert out(box, "head -c 150M /dev/zero > big; wc -c < big").strip() == str(150 * MIB)
    pool = service.operator.get("/v1/storage", expect=200)
    assert pool["source"] == "image" and pool["limitsHold"] and not pool["full"]
    assert 0 < pool["freeBytes"] <= pool["totalBytes"] and pool["errors"] == 0

    def metrics():
        return dict(line.rsplit(" ", 1) for line in service.operator.get("/metrics", expect=200).decode().splitlines()
                    if line.startswith("sandglass_storage"))
    wait_for(lambda: metrics().get("sandglass_storage_limits_hold") == "1", 30, "metrics of the pool")
    told = metrics()
    assert told["sandglass_storage_full"] == "0" and told["sandglass_storage_errors_total"] == "0"
    assert 0 < int(told['sandglass_storage_bytes{what="free"}']) <= int(told['sandglass_storage_bytes{what="total"}'])
    assert int(told["sandglass_storage_errands"]) >= 0


def test_what_becomes_of_the_memory_of_a_paused_sandbox_is_told(service, tenant):
    told = service.operator.get("/v1/storage", expect=200)["pausedMemory"]
    if not pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
        assert (told["is"], told["why"]) == ("kept", "cgroup v1 has no memory.reclaim")
    box = Box(tenant)
    assert "reclaimedBytes" not in box.get()
    paused = tenant.post(f"{box.path}/pause", expect=200)
    assert (paused["paused"], paused["reclaimedBytes"]) == ("memory", 0)  # it begins later, if at all
    tenant.post(f"{box.path}/resume", expect=200)
    assert out(box, "echo on") == "on\n"


def test_doctor_tells_how_the_pool_is_and_what_a_pause_keeps(service):
    done = service.runner.sandglass("doctor", "--json", env={"SANDGLASS_CONFIG": str(service.config)})
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["storage pool"]["status"] == "ok"
    assert checks["pool in use"]["status"] == "ok" and "MiB are free" in checks["pool in use"]["detail"]
    assert "freezer" in checks["pause to disk"]["detail"] and "--drop-memory" in checks["pause to disk"]["fix"]


@pytest.mark.parametrize("where", ["/workspace", "/tmp", "/var/tmp", "/home/user"])
def test_the_disk_limit_holds_wherever_is_written(tenant, where):
    box = Box(tenant, {"limits": {"diskBytes": 32 * MIB}})
    done = box.sh(f"mkdir -p {where}; head -c 100M /dev/zero > {where}/big; stat -c %s {where}/big",
                  user="root")
    assert int(done["stdout"]) <= 32 * MIB and "quota" in done["stderr"].lower(), done
    assert box.sh(f"rm {where}/big && echo x > {where}/small", user="root")["exitCode"] == 0


def test_many_tiny_files_end_where_a_full_disk_would(tenant):
    box = Box(tenant, {"limits": {"diskBytes": 8 * MIB}})
    done = box.sh("i=0; while [ $i -lt 60000 ] && echo $i > f$i; do i=$((i+1)); done 2>/dev/null; echo $i")
    assert int(done["stdout"]) < 60000
    stats = tenant.get(f"{box.path}/stats", expect=200)
    assert stats["diskUsedBytes"] <= 9 * MIB and stats["diskBytes"] == 8 * MIB


def test_sparse_and_shared_extents_are_counted_by_what_they_take(tenant):
    box = Box(tenant, {"limits": {"diskBytes": 32 * MIB}})
    assert box.sh("truncate -s 10G hole && stat -c %s hole")["exitCode"] == 0
    assert box.sh("head -c 20M /dev/urandom > a && cp --reflink=always a b && cp --reflink=always a c"
                  " && head -c 20M /dev/urandom > d")["exitCode"] != 0


def test_no_place_inside_takes_more_than_the_limits(tenant):
    limits = {"diskBytes": 32 * MIB, "memoryBytes": 96 * MIB}
    tenant.post("/v1/volumes", {"name": "surface", "bytes": 24 * MIB}, expect=201)
    box = Box(tenant, {"limits": limits, "mounts": [{"volume": "surface", "path": "/v"}]})
    places = out(box, "cut -d' ' -f5 /proc/self/mountinfo", user="root").split()
    assert {"/", "/v", "/dev/shm", "/proc"} <= set(places)
    fill = 'head -c 400M /dev/zero > "$1/.fill"; stat -c %s "$1/.fill"; rm -f "$1/.fill"'
    written = {}
    # Last what is in memory: whoever fills it is killed, and what he wrote stays.
    for place in [*(p for p in places if p != "/dev/shm"), "/run", "/var/log", "/home", "/root", "/dev/shm"]:
        done = box.exec("sh", "-c", fill, "sh", place, user="root")
        written[place] = int(done["stdout"].strip() or 0)
    assert 0 < written["/"] <= 33 * MIB and 0 < written["/v"] <= 25 * MIB, written
    assert all(n <= 96 * MIB for n in written.values()), written  # what is in memory counts as memory
    box = Box(tenant, {"limits": limits})
    talk = box.sh("head -c 100M /dev/zero")  # of what a command says a part is kept
    assert talk["exitCode"] == 0 and talk["truncatedBytes"] > 0
    tenant.delete("/v1/sandboxes", expect=200)
    tenant.delete("/v1/volumes/surface", expect=204)


def test_nobody_inside_makes_a_subvolume(tenant):
    box = Box(tenant, {})
    program = """
import fcntl, os, struct
for path in ("/tmp", "/workspace", "/"):
    for number in (0x5000940e, 0x50009418, 0x50009401):
        fd = os.open(path, 0)
        try:
            fcntl.ioctl(fd, number, bytearray(struct.pack("q", 0) + b"sub".ljust(4088, b"\\0")), True)
            print("made", path)
        except OSError as e:
            print(e.errno)
"""
    box.write("/tmp/p.py", program.encode())
    assert set(out(box, "python3 /tmp/p.py", user="root").split()) == {"1"}


def test_a_snapshot_is_exact_and_a_sandbox_of_it_is_a_copy(clean):
    box = Box(clean, {"metadata": {"a": "b"}})
    out(box, SHAPES)
    before = out(box, LOOK)
    made = snapshot(box, name="shapes")
    assert made["name"] == "shapes" and made["tag"] == "default" and made["sandbox"] == box.id
    assert made["template"] == "host" and made["bytes"] > 0 and box.state() == "running"
    out(box, "echo changed > d/f; rm sparse")
    for ref in ("shapes", "shapes:default", made["id"], f"any/{'shapes'}"):
        copy = Box(clean, {"template": ref})
        assert copy.made["snapshot"] == made["id"] and copy.made["template"] == "host"
        assert out(copy, LOOK) == before
        out(copy, "echo own > d/f")
        copy.destroy()
    assert out(Box(clean, {"template": "shapes"}), LOOK) == before
    clean.post("/v1/sandboxes", {"template": "shapes:other"}, expect=400)


def test_a_name_leads_to_the_newest_and_the_older_one_stays_by_its_id(clean):
    box = Box(clean, {})
    out(box, "echo 1 > n")
    first = snapshot(box, name="n", tag="v")
    out(box, "echo 2 > n")
    second = snapshot(box, name="n", tag="v")
    assert out(Box(clean, {"template": "n:v"}), "cat n").strip() == "2"
    assert out(Box(clean, {"template": first["id"]}), "cat n").strip() == "1"
    assert clean.get("/v1/snapshots/n:v", expect=200)["id"] == second["id"]
    listed = clean.get("/v1/snapshots", query={"sandbox": box.id}, expect=200)["snapshots"]
    assert [s["id"] for s in listed] == [second["id"], first["id"]]


def test_a_snapshot_in_use_is_not_removed_unless_asked_to_go_with_its_sandboxes(clean):
    box = Box(clean, {})
    made = snapshot(box)
    user = Box(clean, {"template": made["id"]})
    reply = remove(clean, made)
    assert reply.status == 409 and "1 sandboxes" in reply.error["message"]
    assert remove(clean, made, cascade=1).status == 204
    assert user.state() is None and box.state() == "running"
    assert remove(clean, made).status == 404


def test_another_organisation_knows_nothing_of_it(service, clean):
    box = Box(clean, {})
    made = snapshot(box, name="secret")
    org, other = service.tenant("other")
    for reply in (other.get(f"/v1/snapshots/{made['id']}"), remove(other, made),
                  other.post("/v1/sandboxes", {"template": made["id"]}),
                  other.get("/v1/snapshots/secret")):
        assert reply.status == 404, reply
    assert other.get("/v1/snapshots", expect=200)["snapshots"] == []
    assert other.get("/v1/tree", expect=200)["nodes"] == []
    other.close()
    service.operator.delete(f"/v1/orgs/{org}", expect=204)
    assert service.operator.delete(f"/v1/orgs/{clean.org}").status == 409


def test_a_fork_has_the_files_and_is_somebody_else(clean):
    box = Box(clean, {"metadata": {"job": "7"}, "env": {"E": "v"}, "captureFiles": ["*.keep"], "checkpointEvery": 100})
    out(box, "echo state > f; echo 10.9.9.9 mine >> /etc/hosts", user="root")
    forks = clean.post(f"{box.path}/fork", {"count": 3}, expect=201)["forks"]
    ids = {fork["sandbox"]["id"] for fork in forks}
    assert len(ids) == 3 and box.id not in ids
    identity = ("cat f; echo $E; date +%s; hostname; cat /proc/sys/kernel/random/boot_id; cat /etc/machine-id;"
                " head -c 16 /dev/urandom | od -An -tx1 | tr -d ' '; python3 -c 'import random; print(random.random())'")
    seen, parents = set(), set(out(box, identity).split()[3:])
    for fork in forks:
        assert fork["sandbox"]["parent"] == box.id and fork["sandbox"]["metadata"] == {"job": "7"}
        copy = Box.__new__(Box)
        copy.client, copy.id, copy.path = clean, fork["sandbox"]["id"], f"/v1/sandboxes/{fork['sandbox']['id']}"
        state, env, clock, *own = out(copy, identity).split()
        assert (state, env) == ("state", "v") and len(own[2]) == 32
        assert fork["sandbox"]["captureFiles"] == ["*.keep"] and fork["sandbox"]["checkpointEvery"] == 100
        hosts = out(copy, "cat /etc/hostname; getent hosts $(hostname) | cut -d' ' -f1; grep -c $(printf '\\tsandbox-') /etc/hosts; tail -1 /etc/hosts")
        assert hosts.split("\n")[:4] == [own[0], "127.0.1.1", "1", "10.9.9.9 mine"], hosts
        assert abs(int(clock) - time.time()) < 60
        seen |= set(own)
    assert len(seen) == 15 and not seen & parents  # each: hostname, boot id, machine id, random numbers
    other = clean.post(f"{box.path}/fork", {"captureFiles": [], "checkpointEvery": 0}, expect=201)["forks"][0]["sandbox"]
    assert "captureFiles" not in other and "checkpointEvery" not in other
    assert clean.get("/v1/snapshots", expect=200)["snapshots"] == []
    tree = {node["id"]: node for node in clean.get("/v1/tree", expect=200)["nodes"]}
    assert all(tree[one]["parent"] == box.id for one in ids)


def test_a_snapshot_larger_than_the_usual_disk_is_forked_and_gone_back_to(clean):
    box = Box(clean, {"limits": {"diskBytes": 2 << 30}})
    out(box, "head -c 1100M /dev/zero > big")
    made = snapshot(box)
    assert made["bytes"] > 1 << 30
    fork = clean.post(f"{box.path}/fork", {}, expect=201)["forks"][0]["sandbox"]
    assert fork["limits"]["diskBytes"] == 2 << 30
    clean.post(f"{box.path}/rollback", {"snapshot": made["id"]}, expect=200)
    assert out(box, "wc -c < big; head -c 2G /dev/zero > more || echo full").split() == [str(1100 * MIB), "full"]
    reply = clean.post("/v1/sandboxes", {"template": made["id"], "limits": {"diskBytes": 1 << 30}})
    assert reply.status == 409 and "stored" in reply.error["message"], reply


@pytest.mark.parametrize("count", [0, 101, -1, "x"])
def test_a_fork_counts_from_one_to_a_hundred(clean, count):
    assert clean.post(f"{Box(clean, {}).path}/fork", {"count": count}).status == 400


def test_rollback_goes_back_in_place(clean):
    box = Box(clean, {})
    out(box, "echo good > f")
    made = snapshot(box, name="good")
    sleeper = box.spawn("sleep 1000")["id"]
    out(box, "echo bad > f; touch more")
    back = clean.post(f"{box.path}/rollback", {"snapshot": "good"}, expect=200)
    assert back["id"] == box.id and back["state"] == "running" and back["snapshot"] == made["id"]
    assert out(box, "cat f; ls") == "good\nf\n"
    assert box.execution(sleeper)["ending"] == "lost"
    out(box, "echo bad > f")
    clean.post(f"{box.path}/rollback", {"snapshot": made["id"]}, expect=200)
    assert out(box, "cat f") == "good\n"
    assert clean.post(f"{box.path}/rollback", {"snapshot": "none"}).status == 404


def test_a_pause_without_memory_ends_the_processes_and_keeps_the_files(clean):
    box = Box(clean, {})
    out(box, SHAPES)
    before, boot = out(box, LOOK), out(box, "cat /proc/sys/kernel/random/boot_id")
    box.spawn("sleep 1000")
    paused = clean.post(f"{box.path}/pause", {"memory": False}, expect=200)
    assert paused["state"] == "paused" and paused["paused"] == "disk"
    assert clean.post(f"{box.path}/exec", {"argv": ["true"]}).status == 409
    assert clean.post(f"{box.path}/resume", expect=200)["state"] == "running"
    assert out(box, LOOK) == before and "sleep" not in out(box, "ps ax")
    assert out(box, "cat /proc/sys/kernel/random/boot_id") != boot
    assert clean.post(f"{box.path}/pause", {}, expect=200)["paused"] == "memory"
    assert clean.post(f"{box.path}/pause", {"memory": False}).status == 409
    clean.post(f"{box.path}/resume", expect=200)
    assert clean.get("/v1/snapshots", expect=200)["snapshots"] == []


def test_what_is_paused_on_disk_can_be_destroyed(service, clean):
    box = Box(clean, {})
    clean.post(f"{box.path}/pause", {"memory": False}, expect=200)
    assert box.destroy().status == 204
    assert box.state() is None


# ---- checkpoints and files that are kept ----

def test_checkpoints_come_every_few_commands_and_go_when_their_sandbox_has(clean):
    box = Box(clean, {"checkpointEvery": 2})
    assert box.made["checkpointEvery"] == 2

    def tags():
        return sorted(s["tag"] for s in clean.get("/v1/snapshots", expect=200)["snapshots"] if s.get("name") == box.id)

    for i in range(1, 5):
        out(box, f"echo {i} > f")
        wait_for(lambda: len(tags()) == i // 2, 30, "the checkpoint")
    assert tags() == ["c1", "c2"]
    clean.post(f"{box.path}/rollback", {"snapshot": f"{box.id}:c1"}, expect=200)
    assert out(box, "cat f") == "2\n"
    assert clean.post("/v1/gc", {}, expect=200)["snapshots"] == []  # it lives
    box.destroy()
    dry = clean.post("/v1/gc", {"dryRun": True}, expect=200)
    assert len(dry["snapshots"]) == 2 and len(tags()) == 2
    assert sorted(clean.post("/v1/gc", {}, expect=200)["snapshots"]) == sorted(dry["snapshots"])
    wait_for(lambda: tags() == [], 30, "their end")
    for wrong in (-1, 1000001, "x"):
        assert clean.post("/v1/sandboxes", {"checkpointEvery": wrong}).status == 400


def test_files_by_pattern_are_kept_when_a_sandbox_ends(clean):
    def kept(path):
        return clean.call("GET", "/v1/volumes/artifacts/files", query={"path": path})

    box = Box(clean, {"captureFiles": ["*.csv", "/tmp/out/*", "none/*"]})
    assert box.made["captureFiles"][0] == "*.csv"
    out(box, "echo a > a.csv; mkdir -p d/e; echo b > d/e/b.csv; echo no > c.txt; mkdir -p /tmp/out/tree; "
             "echo t > /tmp/out/tree/leaf; echo x > '/tmp/out/a b'; ln -s /etc/passwd /tmp/out/link")
    assert box.destroy().status == 204
    assert kept(f"/{box.id}/a.csv").body == b"a\n" and kept(f"/{box.id}/d/e/b.csv").body == b"b\n"
    assert kept(f"/{box.id}/tmp/out/tree/leaf").body == b"t\n" and kept(f"/{box.id}/tmp/out/a b").body == b"x\n"
    assert kept(f"/{box.id}/c.txt").status == 404
    expiring = Box(clean, {"captureFiles": ["/tmp/*"], "timeoutMs": 3000})
    expiring.sh("echo late > /tmp/f")
    wait_for(lambda: expiring.state() is None, 60, "its end")
    assert kept(f"/{expiring.id}/tmp/f").body == b"late\n"
    found = clean.post("/v1/gc", {"dryRun": True, "artifactDays": 0}, expect=200)["artifacts"]
    assert sorted(found) == sorted([box.id, expiring.id])
    assert clean.post("/v1/gc", {}, expect=200)["artifacts"] == []  # they are not old
    assert sorted(clean.post("/v1/gc", {"artifactDays": 0}, expect=200)["artifacts"]) == sorted(found)
    assert kept(f"/{box.id}/a.csv").status == 404
    for wrong in (["../x"], ["a/../../b"], [""], ["dir/"], ["x"] * 17, [1], "x"):
        assert clean.post("/v1/sandboxes", {"captureFiles": wrong}).status == 400, wrong
    clean.delete("/v1/volumes/artifacts", expect=204)


# ---- layers that are used again ----

def layers(service, folder):
    pool = pathlib.Path(f"/proc/{service.launcher_pid()}/root{service.run}/pool")
    return {path.name for path in (pool / folder).iterdir()}


def test_a_layer_is_used_again_with_nothing_of_who_had_it(root):
    with Service(pool=0) as service:
        operator = service.operator
        fresh = Box(operator, {})
        look = "find / -xdev -path /usr -prune -o -path /proc -prune -o -printf '%p %m %U %G %y %l\\n' | sort"
        seen = out(fresh, look, user="root")
        used = operator.get(f"{fresh.path}/stats", expect=200)["diskUsedBytes"]
        box = Box(operator, {"limits": {"diskBytes": 300 * MIB}})
        out(box, "echo mine > /tmp/.hidden; mkdir -p a/b/c /etc/new; echo x > a/b/c/d; mkfifo a/p; ln -s / a/l; "
                 "rm -rf /opt /etc/hosts; chmod 711 /; chmod 700 /tmp; setfattr -n user.mine -v x /workspace || true",
            user="root")
        operator.delete(box.path, expect=204)
        wait_for(lambda: len(layers(service, "spare")) == 1, 30, "a spare")
        (first,) = layers(service, "spare")
        again = Box(operator, {})
        assert not layers(service, "spare")
        assert out(again, look, user="root") == seen
        stats = operator.get(f"{again.path}/stats", expect=200)
        assert stats["diskUsedBytes"] <= used + 64 * 1024 and stats["diskBytes"] == (1 << 30)
        # What is large goes as a whole.
        out(again, "head -c 20M /dev/urandom > big; i=0; while [ $i -lt 300 ]; do echo > f$i; i=$((i+1)); done")
        operator.delete(again.path, expect=204)
        operator.delete(fresh.path, expect=204)
        wait_for(lambda: not layers(service, "cells"), 30, "the end of all layers")
        left = layers(service, "spare")
        assert len(left) == 1 and first not in left


def test_a_layer_with_a_file_that_is_still_read_is_not_used_again(root):
    with Service(pool=0) as service:
        operator = service.operator
        box = Box(operator, {"limits": {"diskBytes": 64 * MIB}})
        out(box, "head -c 40M /dev/urandom > big")
        reading = operator.stream("GET", f"{box.path}/files", query={"path": "/workspace/big"})
        out(box, "rm big")
        operator.delete(box.path, expect=204)
        wait_for(lambda: not layers(service, "cells"), 30, "the end of its layer")
        assert not layers(service, "spare")
        # Who comes next has all the room that it was promised.
        again = Box(operator, {"limits": {"diskBytes": 64 * MIB}})
        assert again.sh("head -c 40M /dev/urandom > big")["exitCode"] == 0
        reading.connection.close()


# ---- deaths ----

def loops():
    return sorted(leaks.loop_devices())


def test_snapshots_and_pauses_survive_every_kill_and_the_end_of_the_machine(root):
    before = loops()
    with Service(pool=1, settings={"pause_files": "100ms"}) as service:
        operator = service.operator
        box, paused, frozen, running = (Box(operator, {"timeoutMs": 0}) for _ in range(4))
        out(box, "echo kept > f")
        made = snapshot(box, name="kept")
        out(paused, "echo slept > f")
        operator.post(f"{paused.path}/pause", {"memory": False}, expect=200)
        out(frozen, "echo cold > f")
        sleeper = frozen.spawn("sleep 1000")["id"]
        assert operator.post(f"{frozen.path}/pause", expect=200)["paused"] == "memory"
        wait_for(lambda: frozen.get()["filesKept"], 60, "the files on the disk")
        operator.post(f"{frozen.path}/resume", expect=200)  # what is kept is what was there at the last pause
        out(frozen, "echo colder > f")
        operator.post(f"{frozen.path}/pause", expect=200)
        wait_for(lambda: frozen.get()["filesKept"], 60, "the files on the disk")
        out(running, "echo on > f")
        for kill in (service.kill9_daemon, service.kill9_launcher):
            kill()
            service.wait_ready()
            assert out(running, "cat f") == "on\n" and paused.get()["paused"] == "disk"
            assert frozen.get()["paused"] == "memory" and frozen.get()["filesKept"]
            assert out(Box(operator, {"template": "kept"}), "cat f") == "kept\n"
        # As a restart of the machine: no process, no record of one, no mount is left.
        service.end(9)
        service.discard()
        wait_for(lambda: loops() == before, what="the end of the loop device")
        subprocess.run(["rm", "-rf", service.run], check=True)
        service.run.mkdir(mode=0o700)
        service.start()
        operator.post(f"{paused.path}/resume", expect=200)
        assert out(paused, "cat f") == "slept\n"
        assert (frozen.state(), frozen.get()["paused"], frozen.get()["filesKept"]) == ("paused", "disk", True)
        assert frozen.execution(sleeper)["ending"] == "lost"
        operator.post(f"{frozen.path}/resume", expect=200)
        assert out(frozen, "cat f") == "colder\n"
        assert out(Box(operator, {"template": made["id"]}), "cat f") == "kept\n"
        assert running.state() == "failed"
    assert loops() == before


def test_a_full_pool_refuses_new_work_and_lets_what_runs_go_on(root):
    with Service(pool=0, settings={"storage_size": "256m"}) as service:
        box = Box(service.operator, {"limits": {"diskBytes": 1 << 30}})
        box.sh("head -c 1G /dev/urandom > big; sync")
        wait_for(lambda: service.operator.get("/v1/storage", expect=200)["full"], what="a full pool")
        reply = service.operator.post("/v1/sandboxes", {})
        assert reply.status == 429 and "storage pool" in reply.error["message"], reply
        assert service.operator.post(f"{box.path}/snapshots", {}).status == 429
        assert box.sh("rm big; sync; echo on")["stdout"] == "on\n"
        wait_for(lambda: not service.operator.get("/v1/storage", expect=200)["full"], 60, "room")
        Box(service.operator, {})
        mounts = pathlib.Path(f"/proc/{service.launcher_pid()}/mountinfo")
        wait_for(lambda: "discard=async" in mounts.read_text(), what="an image that is trimmed again")


def test_without_a_pool_snapshots_are_refused_by_name(root):
    with Service(pool=0, settings={"storage": "tmpfs"}) as service:
        box = Box(service.operator, {})
        assert box.made["storage"] == "tmpfs"
        for path, body in (("snapshots", {}), ("fork", {}), ("pause", {"memory": False})):
            reply = service.operator.post(f"{box.path}/{path}", body)
            assert reply.status == 501 and "memory" in reply.error["message"], reply


def test_a_directory_on_btrfs_is_used_as_it_is_and_another_is_refused(root, tmp_path, mounts):
    image, place = mounts / "image", mounts / "place"
    place.mkdir()
    with open(image, "wb") as file:
        file.truncate(512 * MIB)
    subprocess.run(["mkfs.btrfs", "-q", str(image)], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    try:
        with Service(pool=1, settings={"storage": str(place)}) as service:
            box = Box(service.operator, {})
            out(box, "echo x > f")
            snapshot(box, name="here")
            assert service.operator.get("/v1/storage", expect=200)["source"] == "directory"
            assert os.listdir(place) == ["sandglass"] and (place / "sandglass").stat().st_mode & 0o77 == 0
    finally:
        subprocess.run(["umount", str(place)], check=True)
    refused(tmp_path, "btrfs")


def refused(place, word):
    service = Service(settings={"storage": str(place)})
    service.start(wait=False)
    assert service.process.wait(20) != 0 and word in service.log()
    service.discard()
    service.remove()


def test_a_directory_on_xfs_is_refused_by_name(root, mounts):
    image, place = mounts / "image", mounts / "place"
    place.mkdir()
    with open(image, "wb") as file:
        file.truncate(512 * MIB)
    subprocess.run(["mkfs.xfs", "-q", str(image)], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    try:
        refused(place, "XFS")
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_pool_grows_when_the_settings_say_so(root):
    with Service(pool=0, settings={"storage_size": "300m"}) as service:
        small = service.operator.get("/v1/storage", expect=200)["totalBytes"]
        service.stop()
        service.settings["storage_size"] = "600m"
        service.write_config()
        service.start()
        assert service.operator.get("/v1/storage", expect=200)["totalBytes"] == small + 300 * MIB


def test_power_cuts_take_nothing_that_was_acknowledged(root):
    found = {i: wrong for i, wrong in power_cut.cuts(None, 6, seed=8) if wrong}
    assert not found, found


def test_files_come_through_pauses_snapshots_forks_and_a_death(root):
    assert len(list(storage_loop.rounds(None, 1, 1000, seed=3))) == 1


# ---- the command line ----

def test_the_command_line_makes_forks_and_goes_back(root):
    with Service(pool=1) as service:
        def sg(*argv, code=0):
            done = service.runner.sandglass(*argv, env={"SANDGLASS_CONFIG": str(service.config)})
            assert done.returncode == code, (argv, done)
            return done.stdout.strip() if code == 0 else done.stderr

        box = sg("create")
        sg("exec", box, "sh", "-c", "echo one > f")
        made = sg("snapshot", "--name", "work", "--tag", "v1", box)
        sg("exec", box, "sh", "-c", "echo two > f")
        sg("rollback", box, "work:v1")
        assert sg("exec", box, "cat", "f") == "one"
        forks = sg("fork", "--count", "2", box).split()
        assert [sg("exec", fork, "cat", "f") for fork in forks] == ["one", "one"]
        tree = sg("tree").splitlines()
        assert tree[0].startswith(f"sandbox {box}") and len(tree) == 4, tree
        assert {line.split()[1] for line in tree[1:] if line.startswith("  s")} == {made, *forks}, tree
        assert made in sg("snapshots", "list") and "work:v1" in sg("snapshots", "list")
        assert "cascade" in sg("snapshots", "rm", "work:v1", code=1)
        assert sg("pause", "--drop-memory", forks[0]) == forks[0]
        assert sg("resume", forks[0]) == forks[0] and sg("exec", forks[0], "cat", "f") == "one"
        assert sg("snapshots", "rm", "--cascade", "work:v1") == "work:v1"
        assert box not in sg("ps", "--ids")
