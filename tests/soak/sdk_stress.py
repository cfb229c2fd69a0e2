# SPDX-License-Identifier: Apache-2.0
"""Fifty E2B clients at once for two minutes (SDK_CLIENTS, SDK_SECONDS): no error that nobody expected,
nothing left, and a daemon and a launcher whose memory does not grow from one half to the next."""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent / "sdk")]

import clients  # noqa: E402
from service import Service  # noqa: E402

GROWTH_BYTES = 8 << 20


def stress(client, service, count, seconds):
    env = clients.environment(client, service, service.key(), None)
    done = subprocess.run(["node", HERE.parent / "sdk" / "stress.mjs", client.folder, "base", str(count), str(seconds)],
                          env=env, capture_output=True, text=True, timeout=seconds + 120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def results(binary):
    count = int(os.environ.get("SDK_CLIENTS", "50"))
    seconds = int(os.environ.get("SDK_SECONDS", "120"))
    client = clients.first("npm", "url")
    clients.install(client)
    with Service(pool=8, binary=binary, template="base") as service:
        service.wait_parked()
        halves, sizes = [], []
        for _ in range(2):
            halves.append(stress(client, service, count, seconds // 2))
            sizes.append([service.rss(pid)[0] for pid in (service.daemon_pid(), service.launcher_pid())])
        left = service.operator.get("/v1/sandboxes", expect=200)["sandboxes"]
        report = service.operator.post("/v1/reconcile", expect=200)
    rounds, errors = (sum(half[key] for half in halves) for key in ("rounds", "count"))
    print(f"   {rounds} rounds, {errors} errors; memory of daemon and launcher after each half: {sizes}", flush=True)
    first = next((half["errors"][0] for half in halves if half["errors"]), "")
    outcomes = [("no error", not errors and rounds, first), ("nothing is left", not left, str(left)),
                ("nothing had to be put right", not (report["lost"] or report["orphans"]), str(report)),
                ("memory is flat", all(b - a < GROWTH_BYTES for a, b in zip(*sizes)), str(sizes))]
    return [(f"{count} clients, {seconds} s: {name}", "passed" if good else "failed", "" if good else why)
            for name, good, why in outcomes]
