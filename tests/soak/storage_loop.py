# SPDX-License-Identifier: Apache-2.0
"""Files through everything that is done to them, with something killed (kill -9) at a random moment each time.

A round: many files are written; pause, resume, pause of the files alone, resume, snapshot, fork. Into
one step of them, drawn by lot, a kill falls: of the daemon, the launcher, a helper of the storage pool,
or of all at once. What was answered must be so afterwards; what was not must be whole or absent. At
the end of the round every file of the sandbox, of its forks and of what is made of its snapshot has the
hash that it had.

    python3 tests/soak/storage_loop.py [ROUNDS] [FILES]
"""
import http.client
import os
import pathlib
import random
import shutil
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import leaks  # noqa: E402
import web  # noqa: E402
from service import Service, children, wait_for  # noqa: E402

LOST = (OSError, http.client.HTTPException, AssertionError)
FORKS, PATIENCE = 3, 120
WRITE = """
import hashlib, os, random
rng = random.Random(%d)
sums = open("sums", "w")
for i in range(%d):
    folder = "d%%02d" %% (i %% 50)
    os.makedirs(folder, exist_ok=True)
    path, data = "%%s/f%%05d" %% (folder, i), rng.randbytes(rng.choice((0, 7, 300, 5000)))
    with open(path, "wb") as file:
        file.write(data)
    sums.write("%%s  %%s\\n" %% (hashlib.sha256(data).hexdigest(), path))
"""
CHECK = "sha256sum --quiet -c sums && wc -l < sums"


class Wrong(Exception):
    """What must not happen has happened."""


class World:
    def __init__(self, service, seed, files):
        self.service, self.rng, self.files = service, random.Random(seed), files

    def ask(self, method, path, body=None):
        client = web.Client(str(self.service.run / "api.sock"))
        try:
            return client.call(method, path, body)
        finally:
            client.close()

    def must(self, method, path, body=None, status=200):
        reply = self.ask(method, path, body)
        if reply.status != status:
            raise Wrong(f"{method} {path}: {reply}")
        return reply.json if reply.body else None

    # ---- deaths ----

    def kill(self, who):
        service = self.service
        if who == "daemon":
            service.kill9_daemon()
        elif who == "launcher":
            service.kill9_launcher()
        elif who == "hand":
            hands = [pid for pid, comm in children(service.launcher_pid()) if comm == "sandglass-hand"]
            if hands:
                service.kill9(self.rng.choice(hands))
        else:
            self.restart_machine()
        service.wait_ready()

    def restart_machine(self):
        """No process, no record of one and no mount of ours is left."""
        service = self.service
        all_of_it = service.tree()  # one that is stopped in the midst of its end may go to another parent than us
        service.end(9)
        service.discard()
        wait_for(lambda: service.kill_all(all_of_it) and not any(str(service.folder) in line for line in leaks.loop_devices()),
                 seconds=60, what="no loop device")
        shutil.rmtree(service.run)
        service.run.mkdir(mode=0o700)
        service.start()

    def step(self, deadly, method, path, body=None):
        """The reply, or None: it was lost, or refused while the service was on its way back."""
        found = []

        def act():
            try:
                found.append(self.ask(method, path, body))
            except LOST:
                pass
        thread = threading.Thread(target=act)
        thread.start()
        if deadly:
            time.sleep(self.rng.uniform(0, 0.03))
            self.kill(deadly)
        thread.join()
        return found[0] if found and found[0].status < 300 else None

    # ---- looking ----

    def verify(self, box, what):
        done = self.must("POST", f"/v1/sandboxes/{box}/exec", {"argv": ["sh", "-c", CHECK], "timeoutMs": 300000})
        if (done["exitCode"], done["stdout"].strip()) != (0, str(self.files)):
            raise Wrong(f"{what}: {done}")

    def state(self, box):
        told = self.must("GET", f"/v1/sandboxes/{box}")
        return told["state"], told.get("paused")

    def until(self, box, verb, body, wanted, deadly):
        """Asks until it is so; what was answered is so at once. False: it ended with the machine, unanswered."""
        path = f"/v1/sandboxes/{box}/{verb}"
        reply = self.step(deadly, "POST", path, body)
        if reply and self.state(box) != wanted:
            raise Wrong(f"{verb} was acknowledged, but it is {self.state(box)}")
        if not reply and deadly == "all" and self.state(box)[0] == "failed":
            return False

        deadline = time.monotonic() + PATIENCE
        while self.state(box) != wanted:
            if wanted == ("paused", "disk") and self.state(box) == ("paused", "memory"):
                self.ask("POST", f"/v1/sandboxes/{box}/resume")  # an unanswered one may have become the other kind
            reply = self.ask("POST", path, body)
            if time.monotonic() > deadline:
                raise Wrong(f"{verb} of {box} ({deadly} was killed): it is {self.state(box)}, {reply}")
        return True


def one_round(world, number):
    deadly = world.rng.choice(("daemon", "launcher", "hand", "all"))
    # All that runs ends with everything; only what is on the disk is asked to survive that.
    steps = ("snapshot", "pause files") if deadly == "all" else (
        "pause", "resume", "pause files", "resume files", "snapshot", "fork")
    fatal = world.rng.choice(steps)

    def death(step):
        return deadly if step == fatal else None

    box = world.must("POST", "/v1/sandboxes", {"timeoutMs": 0, "limits": {"diskBytes": 1 << 30}}, 201)["id"]
    done = world.must("POST", f"/v1/sandboxes/{box}/exec",
                      {"argv": ["python3", "-c", WRITE % (number, world.files)], "timeoutMs": 300000})
    if done["exitCode"] != 0:
        raise Wrong(f"writing: {done}")
    world.until(box, "pause", {}, ("paused", "memory"), death("pause"))
    world.until(box, "resume", None, ("running", None), death("resume"))

    reply = world.step(death("snapshot"), "POST", f"/v1/sandboxes/{box}/snapshots", {})
    there = [s["id"] for s in world.must("GET", "/v1/snapshots")["snapshots"]]
    if reply and reply.json["id"] not in there:
        raise Wrong("a snapshot was acknowledged and is gone")
    for made in there:  # acknowledged or not: what is there is whole
        copy = world.must("POST", "/v1/sandboxes", {"template": made, "limits": {"diskBytes": 1 << 30}}, 201)["id"]
        world.verify(copy, f"what was made of snapshot {made}")
        world.must("DELETE", f"/v1/snapshots/{made}?cascade=1", status=204)
    if world.state(box)[0] == "failed":  # everything was killed: what ran is gone, what was kept was looked at
        world.must("DELETE", f"/v1/sandboxes/{box}", status=204)
        return f"{deadly} at {fatal}"

    if not world.until(box, "pause", {"memory": False}, ("paused", "disk"), death("pause files")):
        world.must("DELETE", f"/v1/sandboxes/{box}", status=204)
        return f"{deadly} at {fatal}"
    world.until(box, "resume", None, ("running", None), death("resume files"))
    world.verify(box, "the sandbox itself")

    reply = world.step(death("fork"), "POST", f"/v1/sandboxes/{box}/fork", {"count": FORKS})
    children_ids = [one["id"] for one in world.must("GET", "/v1/sandboxes")["sandboxes"]
                    if one["id"] != box and one["state"] == "running"]
    if reply and len(children_ids) < FORKS:
        raise Wrong("forks were acknowledged and are gone")
    for child in children_ids:
        world.verify(child, "a fork")
    world.verify(box, "the sandbox after its fork")
    world.must("DELETE", "/v1/sandboxes")
    return f"{deadly} at {fatal}"


def rounds(binary, count, files, seed=None):
    """A line of what happened a round; raises Wrong."""
    seed = seed if seed is not None else int.from_bytes(os.urandom(4), "big")
    with Service(pool=2, binary=binary, settings={"storage": "image", "storage_size": "4g"}) as service:
        world = World(service, seed, files)
        for number in range(count):
            try:
                yield f"{number}: {one_round(world, number)}"
            except Wrong as e:
                raise Wrong(f"round {number} of seed {seed}: {e}") from None
        service.operator.delete("/v1/sandboxes")


def results(binary, count=None, files=None):
    count, files = count or int(os.environ.get("STORAGE_ROUNDS", "20")), files or 10000
    name = f"{count} rounds with {files} files"
    try:
        for line in rounds(binary, count, files):
            print(line, flush=True)
    except Wrong as e:
        return [(name, "failed", str(e)[:2000])]
    return [(name, "passed", "")]


if __name__ == "__main__":
    leaks.adopt_orphans()
    for row in results(None, *(int(a) for a in sys.argv[1:3])):
        print(*row)
