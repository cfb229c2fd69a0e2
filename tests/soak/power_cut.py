# SPDX-License-Identifier: Apache-2.0
"""Power cuts: the state of a busy service as it was at one instant, started anew and looked at.

The state directory (database and pool image) lies on a btrfs of our own. A snapshot of that is what
a disk would hold had the power gone at that moment: what the service had sent to the disk is there,
of the rest any part may be. Each is mounted elsewhere and served by a fresh service: every
snapshot and pause that had been acknowledged before the cut must be there, whole, and of a pause with
memory the files, once it was said that they are kept; what had not been is absent or whole.

    python3 tests/soak/power_cut.py [CUTS]
"""
import contextlib
import pathlib
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import leaks  # noqa: E402
import web  # noqa: E402
from service import Box, Service, wait_for  # noqa: E402

FILES = "for i in $(seq 40); do echo %s $i > f$i; done; head -c 3M /dev/urandom > big; sha256sum f* big > sums"
CHECK = "sha256sum --quiet -c sums && wc -l < sums"
COPIED = ("daemon", "pool")


def tool(*argv):
    subprocess.run([str(a) for a in argv], check=True, capture_output=True)


@contextlib.contextmanager
def disk(folder):
    """A btrfs of our own, with a subvolume `live`."""
    image, place = folder / "disk", folder / "disk.d"
    place.mkdir()
    with open(image, "wb") as file:
        file.truncate(8 << 30)
    tool("mkfs.btrfs", "-q", image)
    tool("mount", "-o", "loop,noatime", image, place)
    try:
        tool("btrfs", "subvolume", "create", place / "live")
        yield place
    finally:
        tool("umount", "-l", place)


class Worker(threading.Thread):
    """Makes snapshots and pauses, and notes what was acknowledged, and when what was taken back began."""

    def __init__(self, service):
        super().__init__()
        self.client = web.Client(str(service.run / "api.sock"))
        self.snapshots, self.paused, self.gone, self.stop = {}, {}, set(), False

    def run(self):
        round_number = 0
        while not self.stop:
            round_number += 1
            box = Box(self.client, {"template": "host", "timeoutMs": 0})
            box.sh(FILES % box.id)
            made = self.client.post(f"{box.path}/snapshots", {}, expect=201)["id"]
            self.snapshots[made] = box.id
            if round_number % 2:
                self.client.post(f"{box.path}/pause", {"memory": round_number % 4 == 3}, expect=200)
                wait_for(lambda kept=box: kept.get()["filesKept"], 60, "the files of a paused sandbox on the disk")
                self.paused[box.id] = box.id
            else:
                box.destroy()
            if round_number % 5 == 0:
                old = next(iter(self.snapshots))
                self.gone.add(old)
                self.client.delete(f"/v1/snapshots/{old}")
                self.snapshots.pop(old)


def look(binary, state, known):
    """What is wrong with what a fresh service finds there."""
    snapshots, paused, gone = known
    service = Service(pool=0, binary=binary, settings={"storage_size": "4g"})
    for name in COPIED:
        tool("cp", "-a", "--sparse=always", state / name, service.state / name)
    with service:
        operator, wrong = service.operator, []
        there = {s["id"] for s in operator.get("/v1/snapshots", expect=200)["snapshots"]}
        wrong += [f"snapshot {s} is lost" for s in snapshots if s not in there and s not in gone]
        for made in sorted(there):
            reply = operator.post("/v1/sandboxes", {"template": made})
            if reply.status != 201 and made in gone:
                continue
            if reply.status != 201:
                wrong.append(f"snapshot {made}: {reply}")
                continue
            box = f"/v1/sandboxes/{reply.json['id']}"
            done = operator.post(f"{box}/exec", {"argv": ["sh", "-c", CHECK]}, expect=200)
            if (done["exitCode"], done["stdout"].strip()) != (0, "41"):
                wrong.append(f"snapshot {made} is damaged: {done}")
            operator.delete(box)
        for one in paused:
            reply = operator.post(f"/v1/sandboxes/{one}/resume")
            done = reply.status == 200 and operator.post(f"/v1/sandboxes/{one}/exec",
                                                         {"argv": ["sh", "-c", CHECK]}, expect=200)
            if not done or done["exitCode"] != 0:
                wrong.append(f"paused {one}: {reply} {done}")
        operator.delete("/v1/sandboxes")
    return wrong


def cuts(binary, count, seed=None):
    """One line of what is wrong a cut."""
    rng = random.Random(seed)
    with leaks.mount_folder() as folder, disk(folder) as place:
        with Service(pool=1, binary=binary, folder=place / "live",
                     settings={"storage_size": "4g", "pause_files": "20ms"}) as service:
            worker = Worker(service)
            worker.start()
            taken = []
            for i in range(count):
                time.sleep(rng.uniform(0.05, 0.6))
                known = dict(worker.snapshots), dict(worker.paused), worker.gone
                tool("btrfs", "subvolume", "snapshot", "-r", place / "live", place / f"cut{i}")
                taken.append((place / f"cut{i}" / "state", known))
            worker.stop = True
            worker.join()
            service.operator.delete("/v1/sandboxes")
        for i, (state, known) in enumerate(taken):
            yield i, look(binary, state, known)


def results(binary, count=100):
    bad = {i: wrong for i, wrong in cuts(binary, count) if wrong}
    return [(f"{count} power cuts", "failed" if bad else "passed", str(bad)[:2000] if bad else "")]


if __name__ == "__main__":
    leaks.adopt_orphans()
    for row in results(None, int(sys.argv[1]) if len(sys.argv) > 1 else 100):
        print(*row)
