# SPDX-License-Identifier: Apache-2.0
"""The service, killed (kill -9) at every step of a sandbox's life: daemon and launcher in turn.

Each round starts one step, kills at a random moment of it, waits for the service to come back, and
looks: what was acknowledged is there, with every byte; what was not is whole or absent; a stream
that ran all the while has lost nothing; the reconciler finds nothing to put right. In the end
nothing is left on the machine.
"""
import collections
import hashlib
import http.client
import os
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import leaks  # noqa: E402
import service as services  # noqa: E402

KILLS = int(os.environ.get("SERVICE_KILLS", "224"))
VICTIMS = ("daemon", "launcher")
STREAM_LINES = 400
LOST = (OSError, http.client.HTTPException)


class Wrong(Exception):
    """What must not happen has happened."""


def demand(is_so, what):
    if not is_so:
        raise Wrong(what)


class Round:
    """One step with one kill. `act` is what the kill interrupts, `check` looks afterwards."""

    LONGEST_S = 0.003  # until the kill: a little more than the step takes

    def __init__(self, world):
        self.world = world
        self.client = world.service.client(world.key)  # its own connection: nothing is tried twice
        self.acked = None
        self.error = None

    def run(self):
        try:
            self.acked = self.act()
        except LOST as e:
            self.error = e
        except AssertionError as e:  # a clear refusal while the service starts is fine
            self.error = e

    def box(self):
        return self.world.stable

    def path(self, tail=""):
        return f"/v1/sandboxes/{self.box()}{tail}"


class Create(Round):
    def act(self):
        return self.client.post("/v1/sandboxes", {"timeoutMs": 0}, expect=201)["id"]

    def check(self):
        known = {self.world.stable, *([self.acked] if self.acked else [])}
        rows = {row["id"]: row for row in self.world.listed()}
        demand(known <= set(rows), f"an acknowledged sandbox is gone: {known - set(rows)}")
        # A reply that was on its way when the daemon died: one more may be there, and whole.
        extra = set(rows) - known
        demand(len(extra) <= 1, f"sandboxes that nobody asked for: {extra}")
        for name in known | extra:
            demand(rows[name]["state"] == "running", f"{name} is {rows[name]['state']}")
            self.world.echo(name)
        for name in (known | extra) - {self.world.stable}:
            self.world.destroy(name)


class Claim(Create):
    """As Create, with a pool that is full, so that it is a claim and not a making."""

    def __init__(self, world):
        super().__init__(world)
        world.service.wait_parked(1)


class Exec(Round):
    def act(self):
        reply = self.client.post(self.path("/exec"), {"cmd": "echo out; echo err >&2; exit 3"},
                                 expect=200)
        return reply["exitCode"], reply["stdout"], reply["stderr"]

    def check(self):
        demand(self.acked in (None, (3, "out\n", "err\n")), f"the exec said {self.acked}")
        self.world.echo(self.box())


class Stream(Round):
    """Starts a background exec; when it was acknowledged, all of its output must come."""

    LONGEST_S = 0.08

    def act(self):
        script = f"for i in $(seq {STREAM_LINES}); do echo line $i; done; sleep 0.05; echo end"
        return self.client.post(self.path("/exec"), {"cmd": script, "background": True},
                                expect=201)["id"]

    def check(self):
        if not self.acked:
            return
        text = self.world.whole_output(self.acked)
        want = "".join(f"line {i}\n" for i in range(1, STREAM_LINES + 1)) + "end\n"
        demand(text == want, f"{len(text)} of {len(want)} bytes came")


class Write(Round):
    SIZE = 1 << 20
    LONGEST_S = 0.012

    def act(self):
        self.new = os.urandom(self.SIZE)
        self.client.put(self.path("/files"), self.new, query={"path": "/workspace/data"}, expect=200)
        return hashlib.sha256(self.new).hexdigest()

    def check(self):
        have = self.world.file_hash("/workspace/data")
        new = hashlib.sha256(self.new).hexdigest()
        if self.acked:
            demand(have == new, "an acknowledged write is not there")
        demand(have in (new, self.world.data), "the file is neither the old nor the new one")
        self.world.data = have


class Pause(Round):
    def act(self):
        return self.client.post(self.path("/pause"), expect=200)["state"]

    def check(self):
        state = self.world.state(self.box())
        demand(state == "paused" if self.acked else state in ("running", "paused"),
               f"after pause: {state}")
        self.world.resume()


class Resume(Round):
    def __init__(self, world):
        super().__init__(world)
        world.client.post(self.path("/pause"), expect=200)

    def act(self):
        return self.client.post(self.path("/resume"), expect=200)["state"]

    def check(self):
        state = self.world.state(self.box())
        demand(state == "running" if self.acked else state in ("running", "paused"),
               f"after resume: {state}")
        self.world.resume()


class Destroy(Round):
    def __init__(self, world):
        super().__init__(world)
        self.victim = world.client.post("/v1/sandboxes", {"timeoutMs": 0}, expect=201)["id"]

    def act(self):
        self.client.delete(f"/v1/sandboxes/{self.victim}", expect=204)
        return True

    def check(self):
        state = self.world.state(self.victim)
        demand(not (self.acked and state), f"a destroyed sandbox is {state}")
        if state:
            self.world.destroy(self.victim)


STEPS = (Create, Claim, Exec, Stream, Write, Pause, Resume, Destroy)


class World:
    """What lives through all rounds: one sandbox with a file and a process that writes."""

    def __init__(self, service):
        self.service = service
        self.key = service.key(scopes=["read", "exec", "admin"])
        self.client = service.client(self.key)
        self.stable = self.client.post("/v1/sandboxes", {"timeoutMs": 0}, expect=201)["id"]
        self.path = f"/v1/sandboxes/{self.stable}"
        self.client.put(f"{self.path}/files", b"old", query={"path": "/workspace/data"}, expect=200)
        self.data = hashlib.sha256(b"old").hexdigest()
        self.ticker = self.client.post(f"{self.path}/exec", {
            "cmd": "i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.02; done",
            "background": True}, expect=201)["id"]
        self.ticks = 0

    def listed(self):
        return self.client.get("/v1/sandboxes", query={"limit": 1000}, expect=200)["sandboxes"]

    def state(self, name):
        reply = self.client.get(f"/v1/sandboxes/{name}")
        return reply.json["state"] if reply.status == 200 else None

    def destroy(self, name):
        self.client.delete(f"/v1/sandboxes/{name}", expect=204)

    def resume(self):
        if self.state(self.stable) == "paused":
            self.client.post(f"{self.path}/resume", expect=200)

    def echo(self, name):
        said = self.client.post(f"/v1/sandboxes/{name}/exec", {"argv": ["echo", "here"]}, expect=200)
        demand(said["stdout"] == "here\n", f"{name} said {said}")

    def whole_output(self, name):
        reply = self.client.get(f"{self.path}/execs/{name}/output", query={"raw": 1, "follow": 1},
                                expect=200)
        return reply.decode()

    def file_hash(self, path):
        body = self.client.get(f"{self.path}/files", query={"path": path}, expect=200)
        return hashlib.sha256(body).hexdigest()

    def check(self):
        """The ticker has not missed a beat, and there is nothing to put right."""
        text = self.client.get(f"{self.path}/execs/{self.ticker}/output", query={"raw": 1},
                               expect=200).decode()
        lines = text.splitlines()
        demand(text.endswith("\n") or not lines, "a line was cut")
        demand(lines == [f"tick {i}" for i in range(1, len(lines) + 1)], "output was lost or doubled")
        demand(len(lines) >= self.ticks, "output that was there is gone")
        self.ticks = len(lines)
        report = self.service.operator.post("/v1/reconcile", expect=200)
        bad = {k: report[k] for k in ("lost", "orphans", "staleJournals", "unknownExecs") if report[k]}
        demand(not bad, f"the reconciler found {bad}")


def one_kill(world, step, victim, dice):
    attempt = step(world)
    moment = dice.uniform(0, attempt.LONGEST_S)
    pid, daemon = getattr(world.service, f"{victim}_pid")(), world.service.daemon_pid()
    thread = threading.Thread(target=attempt.run)
    thread.start()
    time.sleep(moment)  # the moment is what is tried
    world.service.kill9(pid)
    thread.join(60)
    demand(not thread.is_alive(), "the caller hangs")
    # The old daemon may answer for a moment longer than its launcher lives.
    services.wait_for(lambda: daemon not in leaks.process_table(), what="the old daemon's end")
    world.service.wait_ready()
    attempt.check()
    world.check()
    return attempt.acked is not None


def rounds(world):
    """(name, outcome, why) for every step and victim."""
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(1 << 32)))
    print(f"# seed {seed}, {KILLS} kills", flush=True)
    dice = random.Random(seed)
    each = max(1, -(-KILLS // (len(STEPS) * len(VICTIMS))))
    for victim in VICTIMS:
        for step in STEPS:
            name = f"kill -9 of the {victim} at {step.__name__.lower()}"
            counts = collections.Counter()
            why = ""
            try:
                for _ in range(each):
                    counts[one_kill(world, step, victim, dice)] += 1
            except (Wrong, AssertionError, *LOST) as e:
                why = f"{type(e).__name__}: {e}"
            print(f"# {name}: {counts[True]} acknowledged, {counts[False]} not{'; ' + why if why else ''}",
                  flush=True)
            yield name, "failed" if why else "passed", why
            if why:
                return  # the world is not what it should be


def results(program):
    leaks.adopt_orphans()
    found = []
    try:
        with services.Service(pool=4, binary=str(program), settings={"reconcile": "1h"}) as service:
            found += rounds(World(service))
        found.append(("nothing is left", "passed", ""))
    except AssertionError as e:
        found.append(("nothing is left", "failed", str(e)))
    return found
