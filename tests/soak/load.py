# SPDX-License-Identifier: Apache-2.0
"""Many runners side by side, each starting one cell after the other: all succeed, nothing stays."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import leaks  # noqa: E402

RUNNERS = 20
SECONDS = float(os.environ.get("LOAD_SECONDS", "60"))
CELL = ["run", "--memory", "64m", "--", "sh", "-c", "echo $((6 * 7)); ls / >/dev/null"]


def one_runner(program, deadline):
    """The number of cells that were as they should be, and what was wrong with the first other."""
    good, bad = 0, ""
    while time.monotonic() < deadline and not bad:
        done = subprocess.run([program, *CELL], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60)
        if (done.returncode, done.stdout) == (0, "42\n"):
            good += 1
        else:
            bad = f"status {done.returncode}, said '{done.stdout}{done.stderr}'"
    return good, bad


def results(program):
    leaks.adopt_orphans()
    watch = leaks.Leaks()
    deadline = time.monotonic() + SECONDS
    with concurrent.futures.ThreadPoolExecutor(RUNNERS) as pool:
        done = list(pool.map(lambda _: one_runner(program, deadline), range(RUNNERS)))
    count = sum(good for good, _ in done)
    wrong = [bad for _, bad in done if bad]
    print(f"# {count} cells by {RUNNERS} runners, {count / SECONDS:.0f} each second", flush=True)
    left = watch.left(seconds=10)
    return [
        ("every cell does its work", "failed" if wrong or not count else "passed",
         "; ".join(wrong[:3])),
        ("nothing is left", "failed" if left else "passed", "; ".join(left[:10])),
    ]
