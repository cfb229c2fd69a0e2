# SPDX-License-Identifier: Apache-2.0
"""Many short cells, in each of which something is killed at a random moment from outside.

The victim is the program, its sweeper, or pid 1 inside; sometimes two of them. In the end nothing
may be left. One kind of leftover is permitted on the way: when program and sweeper both die, their
cgroup directory waits, empty, until a later cell takes its slot or `sandglass doctor` sweeps it.
"""
import collections
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import leaks  # noqa: E402

RUNS = int(os.environ.get("CHAOS_RUNS", "2000"))
AT_ONCE = 4
LONGEST_S = 0.04  # until the kill: a whole run takes some 10 ms
PATIENCE_S = 20
SWEEPER, INIT = "sandglass-sweep", "sandglass-init"
VICTIMS = [("program",), (SWEEPER,), (INIT,), ("program", SWEEPER), (SWEEPER, INIT),
           (INIT, "program")]

hits = collections.Counter()


class Run:
    """One cell; it is killed when its moment has come."""

    def __init__(self, program, dice):
        self.cli = subprocess.Popen([program, "run", "--", "sleep", "0.03"],
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
        self.victims = dice.choice(VICTIMS)
        self.moment = time.monotonic() + dice.uniform(0, LONGEST_S)
        self.deadline = time.monotonic() + PATIENCE_S
        self.is_struck = False

    def strike(self):
        """Descendants of ours only, and looked up this instant: no other's process is hit."""
        self.is_struck = True
        below = {pid: name for pid, parent, _, name in leaks.descendants()
                 if parent == self.cli.pid}
        for victim in self.victims:
            pids = [pid for pid, name in below.items() if name == victim]
            for pid in [self.cli.pid] if victim == "program" else pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                    hits[victim] += 1
                except ProcessLookupError:
                    pass

    def is_over(self):
        now = time.monotonic()
        if self.cli.poll() is not None:
            return True
        if not self.is_struck and now >= self.moment:
            self.strike()
        return False

    def is_stuck(self):
        return time.monotonic() > self.deadline


def all_runs(program, dice):
    """How many hung; they are ended."""
    started = stuck = 0
    running = []
    while started < RUNS or running:
        while started < RUNS and len(running) < AT_ONCE:
            running.append(Run(program, dice))
            started += 1
            if started % 500 == 0:
                print(f"# {started} of {RUNS} runs", flush=True)
        for run in [r for r in running if r.is_stuck()]:
            run.cli.kill()
            run.cli.wait()
            stuck += 1
        running = [r for r in running if not r.is_over()]
        leaks.reap({r.cli.pid for r in running})
        time.sleep(0.001)
    return stuck


def results(program):
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(1 << 32)))
    print(f"# {RUNS} runs, CHAOS_SEED={seed}", flush=True)
    leaks.adopt_orphans()
    watch = leaks.Leaks()
    stuck = all_runs(program, random.Random(seed))
    waiting = watch.left(seconds=15)
    print(f"# killed: {dict(hits)}; left to be swept: {len(waiting)}", flush=True)
    subprocess.run([program, "doctor"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    left = watch.left(seconds=5)
    last = subprocess.run([program, "run", "--", "echo", "well"], capture_output=True, text=True)
    return [
        ("every kind of victim is hit", "passed" if len(hits) == 3 else "failed", str(dict(hits))),
        ("every run ends", "failed" if stuck else "passed", f"{stuck} hung, seed {seed}"),
        ("nothing is left", "failed" if left else "passed", "; ".join(left[:10])),
        ("the next run is well", "passed" if last.stdout == "well\n" else "failed", last.stderr),
    ]
