# SPDX-License-Identifier: Apache-2.0
"""The same conformance for every tier: what a sandbox can do does not depend on its wall.

One service for all of them. A tier that cannot run on a machine is not skipped: what it needs is in
`tools/deps run`.
"""
import contextlib
import io
import json
import tarfile

import pytest

import e2b_door
import web
from service import Box, Service, wait_for

MIB = 1 << 20
TIERS = ["cell", "gvisor", "docker"]
# Files in all states, and what is to be seen of them.
BUSY = """
import mmap, os, time
os.makedirs('/workspace/d')
os.chdir('/workspace/d')
def name(i): return f'f{i}'
for i in range(75):
    with open(name(i), 'wb') as f: f.write(os.urandom(1000 + i))
for i in range(0, 75, 3): os.unlink(name(i))
for i in range(1, 75, 3): os.rename(name(i), f'r{i}')
big = open('big', 'wb', buffering=0); big.write(os.urandom(3 << 20))
fd = os.open('map', os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 1 << 20)
seen = mmap.mmap(fd, 1 << 20); seen[:] = os.urandom(1 << 20)
log = open('log', 'ab', buffering=0)
for i in range(200): log.write(b'line')
os.link('r1', 'hard'); os.symlink('r1', 'soft'); os.chmod('r4', 0o751)
seen[5:9] = b'last'
print('ready', flush=True)
time.sleep(1000)
"""
LOOK = """
import hashlib, os
os.chdir('/workspace/d')
h = hashlib.sha256()
for name in sorted(os.listdir()):
    st = os.lstat(name)
    h.update(repr((name, oct(st.st_mode), st.st_uid, st.st_nlink, st.st_size)).encode())
    h.update(os.readlink(name).encode() if os.path.islink(name) else open(name, 'rb').read())
print(h.hexdigest(), len(os.listdir()))
"""
SLOW = 60  # seconds: a kernel that is a program, on a machine that has other things to do


@pytest.fixture(scope="module")
def service(engine):
    with Service(pool=1, settings={"pool": ["base=0", "host=1", "gvisor:host=1", "docker:host=1"]},
                 tables={"gvisor": {"runtime": "runsc"},
                         "docker": {"socket": engine.socket, "image": "tiny", "pull": False}}) as own:
        yield own


@pytest.fixture(scope="module", params=TIERS)
def tier(request):
    return request.param


@pytest.fixture(scope="module")
def box(service, tier):
    made = Box(service.operator, {"tier": tier, "timeoutMs": 600000})
    assert made.get()["tier"] == tier
    yield made
    made.destroy()


def test_a_command_runs_as_its_user_and_tells_its_end(box, tier):
    done = box.sh("echo out; echo err >&2; id -un; exit 3")
    assert (done["stdout"], done["stderr"], done["exitCode"]) == ("out\nuser\n", "err\n", 3)
    kernel = box.sh("uname -r")["stdout"].strip()
    assert (kernel == "4.4.0") == (tier == "gvisor"), kernel  # whose kernel it is that answers


def test_all_of_the_output_comes_and_in_order(box):
    done = box.exec("python3", "-c", "for i in range(60000): print('line', i)")
    assert done["stdout"] == "".join(f"line {i}\n" for i in range(60000)) and done["exitCode"] == 0


def test_input_goes_in_and_ends(box):
    run = box.exec("sh", "-c", "cat; echo end", stdin=True, background=True, expect=201)["id"]
    data = b"0123456789abcdef" * 20000
    box.client.post(f"{box.path}/execs/{run}/stdin", data, expect=204)
    box.client.post(f"{box.path}/execs/{run}/stdin", b"", query={"close": 1}, expect=204)
    box.wait(run, SLOW)
    assert box.output(run) == data + b"end\n"


def test_a_terminal_has_a_size_and_takes_another(box):
    run = box.exec("sh", tty={"rows": 24, "cols": 80}, stdin=True, background=True, expect=201)["id"]
    path = f"{box.path}/execs/{run}"
    box.client.post(f"{path}/resize", {"rows": 50, "cols": 132}, expect=204)
    box.client.post(f"{path}/stdin", b"stty size; tty; exit\n", expect=204)
    box.wait(run, SLOW)
    assert b"50 132" in box.output(run) and b"/dev/pts/" in box.output(run)


def test_files_go_in_and_come_out(box):
    data = bytes(range(256)) * 4000
    box.sh("mkdir /workspace/a")
    box.write("/workspace/a/b.bin", data)
    assert box.read("/workspace/a/b.bin") == data
    assert box.sh("cksum < /workspace/a/b.bin; chmod 600 /workspace/a/b.bin")["exitCode"] == 0
    names = [e["name"] for e in box.files("GET", "list", {"path": "/workspace/a"}, expect=200)["entries"]]
    assert names == ["b.bin"]
    assert box.files("GET", "stat", {"path": "/workspace/a/b.bin"}, expect=200)["mode"] == "0600"
    archive = box.files("GET", "tar", {"path": "/workspace/a"}, expect=200)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert tar.extractfile("b.bin").read() == data
    box.files("POST", "move", body={"from": "/workspace/a/b.bin", "to": "/workspace/c"}, expect=204)
    box.sh("ln -s /etc/passwd /workspace/link; ln -s /proc/1/root/etc /workspace/out")
    assert b"root" in box.read("/workspace/link")
    assert box.client.get(f"{box.path}/files", query={"path": "/workspace/none"}).status == 404
    assert box.client.get(f"{box.path}/files", query={"path": "/proc/self/root/etc/passwd"}).status >= 400


def test_changes_of_files_are_told(box):
    box.sh("mkdir -p /workspace/w")
    stream = box.client.stream("GET", f"{box.path}/files/watch", query={"path": "/workspace/w"})
    events = web.server_events(stream)
    with contextlib.closing(stream.connection):
        assert next(events)[0] == "ready"
        box.sh("echo 1 > /workspace/w/f")
        assert any("create" in e["what"] and e["path"] == "f" for e in (next(events)[1] for _ in range(3)))


def test_a_port_inside_can_be_reached(service, tier):
    sandbox = e2b_door.Sandbox(service, service.key(), metadata={"sandglass.tier": tier})
    assert service.operator.get(f"/v1/sandboxes/{sandbox.id}", expect=200)["tier"] == tier
    end = [row for flags, row in sandbox.run("echo from $(uname -r)") if "end" in json.dumps(row)]
    assert end, "no end came"
    sandbox.spawn("import http.server\nclass H(http.server.BaseHTTPRequestHandler):\n"
                  " def do_GET(self):\n  self.send_response(200); self.end_headers(); self.wfile.write(b'here ' * 30000)\n"
                  " def log_message(self, *a): pass\n"
                  "http.server.HTTPServer(('127.0.0.1', 8123), H).serve_forever()\n", 8123)
    reply = sandbox.port("GET", "/", 8123)
    assert reply.status == 200 and reply.body == b"here " * 30000
    sandbox.kill()


def test_time_ends_a_command_and_a_kill_ends_its_tree(box):
    late = box.sh("sleep 600 & sleep 600", timeoutMs=1000)
    assert late["ending"] == "timeout"
    run = box.spawn("sleep 601 & sleep 601")["id"]
    box.client.post(f"{box.path}/execs/{run}/signal", {"signal": "KILL"}, expect=204)
    assert box.wait(run, SLOW)["signal"] == 9
    assert wait_for(lambda: not box.sh("cat /proc/[0-9]*/cmdline | tr -d '\\0' | grep -o '[s]leep60[01]'")["stdout"],
                    SLOW, "the end of the tree")


def test_a_paused_sandbox_stands_still_and_goes_on(box):
    run = box.spawn("while :; do echo x; sleep 0.01; done")["id"]
    wait_for(lambda: box.output(run), SLOW, "some output")
    box.client.post(f"{box.path}/pause", expect=200)
    before = box.output(run)
    assert box.output(run) == before and box.state() == "paused"
    box.client.post(f"{box.path}/resume", expect=200)
    wait_for(lambda: len(box.output(run)) > len(before), SLOW, "more output")
    box.client.post(f"{box.path}/execs/{run}/signal", {"signal": "KILL"}, expect=204)
    box.wait(run, SLOW)


def test_volumes_are_written_shared_and_only_read_where_said(service, tier):
    """Below /workspace, where a container can have them, too; and in what a runtime binds once more."""
    client = service.operator
    place = "/workspace/note" if tier == "docker" else "/tmp/note"
    data, note = (client.post("/v1/volumes", {"name": name, "bytes": 16 * MIB}, expect=201)["id"] for name in ("data", "note"))
    client.put(f"/v1/volumes/{note}/files", b"from outside", query={"path": "/n"}, expect=200)
    both = [{"volume": data, "path": "/workspace/deep/data"}, {"volume": note, "path": place, "readOnly": True}]
    one = Box(client, {"tier": tier, "mounts": both})
    done = one.sh(f"id -un; cat {place}/n; echo x > {place}/x || echo refused; echo kept > /workspace/deep/data/f")
    assert done["stdout"] == "user\nfrom outsiderefused\n", done
    assert client.get(f"/v1/volumes/{data}/files", query={"path": "/f"}, expect=200) == b"kept\n"
    other = Box(client, {"tier": "cell", "mounts": [{"volume": data, "path": "/workspace/d"}]})
    assert other.sh("cat /workspace/d/f; echo changed > /workspace/d/f; echo more > /workspace/d/g; stat -c %u /workspace/d/f")["stdout"] == "kept\n1000\n"
    assert one.sh("cat /workspace/deep/data/f /workspace/deep/data/g")["stdout"] == "changed\nmore\n"
    client.put(f"/v1/volumes/{data}/files", b"outside again", query={"path": "/f"}, expect=200)
    assert one.sh("cat /workspace/deep/data/f")["stdout"] == "outside again"
    full = one.sh("head -c 33554432 /dev/zero > /workspace/deep/data/big && sync; ls /workspace/deep/data/big; echo $?")
    assert full["stderr"], full  # its size is its limit
    assert client.get(f"/v1/volumes/{data}", expect=200)["usedBytes"] <= 16 * MIB
    one.destroy()
    other.destroy()
    for volume in (data, note):
        client.delete(f"/v1/volumes/{volume}", expect=204)


def test_a_volume_is_refused_where_none_can_be(service, tier):
    volume = service.operator.post("/v1/volumes", {"name": "lonely", "bytes": 16 * MIB}, expect=201)["id"]
    for path in ("/etc/x", "/workspace/../x", "/.sandglass", "/bin/x"):  # the last leads through a link
        reply = service.operator.post("/v1/sandboxes", {"tier": tier, "mounts": [{"volume": volume, "path": path}]})
        assert reply.status in (400, 403), (path, reply)
    assert not [s for s in service.operator.get("/v1/sandboxes", expect=200)["sandboxes"] if s.get("mounts")]
    service.operator.delete(f"/v1/volumes/{volume}", expect=204)


def look(box):
    return box.exec("python3", "-c", LOOK)["stdout"]


def test_snapshots_hold_every_byte_also_of_what_is_open_and_serve_any_tier_that_has_them(service, tier):
    client = service.operator
    box = Box(client, {"tier": tier})
    if tier == "docker":  # what it writes is in memory: said, and nothing is changed
        for path, body in (("snapshots", {}), ("fork", {}), ("pause", {"memory": False})):
            reply = client.post(f"{box.path}/{path}", body)
            assert reply.status == 501 and "tier docker" in reply.error["message"], reply
        assert box.sh("echo still")["stdout"] == "still\n"
        box.destroy()
        return
    run = box.exec("python3", "-c", BUSY, background=True, expect=201)["id"]
    wait_for(lambda: box.output(run), SLOW, "all is written, and nothing synced or closed")
    made = client.post(f"{box.path}/snapshots", {}, expect=201)["id"]
    before = look(box)
    assert before.endswith(" 55\n")
    forks = [Box(client, made=row["sandbox"]) for row in client.post(f"{box.path}/fork", {"count": 2}, expect=201)["forks"]]
    others = [Box(client, {"tier": other, "template": made}) for other in ("cell", "gvisor")]
    assert [fork.get()["tier"] for fork in forks] == [tier, tier]
    assert {look(one) for one in (*forks, *others)} == {before}
    forks[0].sh("rm -r /workspace/d")
    assert look(forks[1]) == before == look(box)
    for one in (*forks, *others):
        one.destroy()
    box.destroy()
    client.delete(f"/v1/snapshots/{made}", expect=204)


def test_a_pause_without_memory_and_a_rollback_give_the_files_back(service, tier):
    if tier == "docker":
        return  # the test before this one has it
    client = service.operator
    volume = client.post("/v1/volumes", {"name": "aside", "bytes": 16 * MIB}, expect=201)["id"]
    box = Box(client, {"tier": tier, "mounts": [{"volume": volume, "path": "/data"}]})
    run = box.exec("python3", "-c", BUSY, background=True, expect=201)["id"]
    wait_for(lambda: box.output(run), SLOW, "all is written, and nothing synced or closed")
    good = client.post(f"{box.path}/snapshots", {}, expect=201)["id"]
    before = look(box)
    assert client.post(f"{box.path}/pause", {"memory": False}, expect=200)["paused"] == "disk"
    assert client.post(f"{box.path}/resume", expect=200)["state"] == "running"
    assert look(box) == before and box.get()["tier"] == tier
    box.sh("rm -r /workspace/d; echo 1 > /workspace/new; echo aside > /data/x")
    client.post(f"{box.path}/rollback", {"snapshot": good}, expect=200)
    done = box.sh("ls /workspace/new || echo gone; cat /data/x; uname -r")
    assert done["stdout"].startswith("gone\naside\n") and ("4.4.0" in done["stdout"]) == (tier == "gvisor"), done
    assert look(box) == before
    box.destroy()
    client.delete(f"/v1/snapshots/{good}", expect=204)
    client.delete(f"/v1/volumes/{volume}", expect=204)


def test_limits_hold(service, tier):
    box = Box(service.operator, {"tier": tier, "limits": {"memoryBytes": 256 * MIB, "diskBytes": 32 * MIB,
                                                          "pids": 64, "cpus": 0.5}})
    full = box.sh("head -c 67108864 /dev/zero > /workspace/big; echo $?; rm -f /workspace/big; echo fine > /workspace/f")
    assert full["stdout"].splitlines()[0] != "0" and full["exitCode"] == 0, full
    stats = service.operator.get(f"{box.path}/stats", expect=200)
    assert stats["memoryLimitBytes"] == 256 * MIB and stats["cpuMs"] > 0, stats
    bomb = box.exec("python3", "-c", "import os\nn = 0\ntry:\n"
                    " while n < 3000:\n  if os.fork() == 0:\n   import time; time.sleep(100)\n  n += 1\n"
                    "except OSError: pass\nprint(n)\nos.kill(0, 9)")
    assert bomb["ending"] != "exit" or int(bomb["stdout"]) < 3000
    box.destroy()


def test_a_create_says_how_many_processes_there_may_be(service, tier):
    box = Box(service.operator, {"tier": tier, "limits": {"pids": 24}})
    done = box.exec("python3", "-c", """
import os, signal, time
made = []
try:
    while len(made) < 500:
        made.append(os.fork() or time.sleep(100))
except OSError: pass
print(len(made), flush=True)
for pid in made: os.kill(pid, signal.SIGKILL)
""")
    assert done["exitCode"] == 0 and 5 < int(done["stdout"]) <= 24, done
    box.destroy()


def test_too_much_memory_is_told_as_such(service, tier):
    """A cell loses the program; where a whole kernel is in the limit, that may go instead."""
    box = Box(service.operator, {"tier": tier, "limits": {"memoryBytes": 256 * MIB}})
    box.exec("python3", "-c", "x = b'a' * (1 << 30)", background=True, expect=201)

    def verdict():
        row = service.operator.get(box.path)
        if row.status != 200:
            return "gone"
        if row.json["state"] == "failed":
            return row.json["cause"]
        ended = [x for x in service.operator.get(f"{box.path}/execs", expect=200)["execs"] if x["complete"]]
        # what was lost with its sandbox is so before that has its cause
        return ended[0]["ending"] if ended and ended[0]["ending"] != "lost" else None

    told = wait_for(verdict, SLOW, "a verdict")
    assert "memory" in told or told == "oom", told
    box.destroy()


def test_a_killed_daemon_and_a_killed_launcher_lose_nothing(service, tier):
    box = Box(service.operator, {"tier": tier})
    run = box.spawn("i=0; while [ $i -lt 4000 ]; do echo line $i; i=$((i+1)); [ $((i % 100)) = 0 ] && sleep 0.02; done; exit 7")["id"]
    wait_for(lambda: box.output(run), SLOW, "some output")
    service.kill9_daemon()
    service.wait_ready()
    wait_for(lambda: len(box.output(run)) > 2000, SLOW, "more output")
    service.kill9_launcher()
    service.wait_ready()
    done = box.wait(run, SLOW)
    assert done["exitCode"] == 7 and box.output(run) == b"".join(b"line %d\n" % i for i in range(4000))
    assert box.get()["tier"] == tier and box.sh("echo again")["stdout"] == "again\n"
    box.destroy()


def test_a_sandbox_that_is_made_ahead_is_there_at_once(service, tier):
    name = "host" if tier == "cell" else f"{tier}:host"
    wait_for(lambda: any(row["template"] == name and row["parked"] for row in
                         service.operator.get("/v1/pool", expect=200)["pool"]), SLOW, "one is parked")
    box = Box(service.operator, {"tier": tier})
    assert box.made["wasParked"] and box.sh("echo hi")["stdout"] == "hi\n"
    box.destroy()


def test_another_runtime_can_be_named(root):
    with Service(pool=0, tables={"gvisor": {"runtime": "crun"}, "router": {"templates": ["host=gvisor"]}}) as own:
        box = Box(own.operator)
        assert box.get()["tier"] == "gvisor"  # as the settings say of the template
        assert box.sh("echo out; id -un")["stdout"] == "out\nuser\n"
        box.write("/workspace/f", b"data")
        assert box.read("/workspace/f") == b"data"
        assert "another runtime" in own.log()


def test_a_runtime_that_fails_is_heard(root):
    with Service(pool=0, tables={"gvisor": {"runtime": "/bin/false"}}) as own:
        reply = own.operator.post("/v1/sandboxes", {"tier": "gvisor"})
        assert reply.status >= 500 and "runtime" in reply.error["message"]
        assert own.operator.post("/v1/sandboxes", {"tier": "cell"}).status == 201


def test_a_platform_that_does_not_run_is_an_error_and_not_replaced(root):
    with Service(pool=0, tables={"gvisor": {"runtime": "runsc", "platform": "steam"}}) as own:
        reply = own.operator.post("/v1/sandboxes", {"tier": "gvisor"})
        said = reply.error["message"] + reply.error["hint"]
        assert reply.status == 501 and "gvisor.platform" in said and "unknown platform: steam" in said and "doctor" in said, said
        assert own.operator.post("/v1/sandboxes", {"tier": "cell"}).status == 201


def test_what_a_tier_cannot_do_is_said(service):
    reply = service.operator.post("/v1/sandboxes", {"tier": "microvm"})
    assert reply.status == 501 and "microvm" in reply.error["message"]
    assert service.operator.post("/v1/sandboxes", {"metadata": {"sandglass.tier": "steel"}}).status == 400
    assert service.operator.post("/v1/sandboxes", {"tier": "none"}).status in (403, 501)
