# SPDX-License-Identifier: Apache-2.0
"""Code without end: CODE_RUNS (10,000) executions in one context and CODE_CONTEXTS (200) contexts in one
sandbox. The last ones take no longer than the first, the daemon does not grow, the journal stays small."""
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support")]

import kernels  # noqa: E402
from service import Service, wait_for  # noqa: E402

GROWTH_BYTES = 8 << 20
JOURNAL_BYTES = 16 << 20


def timed(work, count):
    took = []
    for i in range(count):
        start = time.monotonic()
        work(i)
        took.append(time.monotonic() - start)
    return took


def many_runs(service, box, count):
    """(what went wrong or "", a line for people)"""
    context = box.context(language="python")["id"]
    box.code("n = 0", context=context)

    def one(i):
        got = box.code("n += 1; print('x' * 1000); n", context=context)
        assert got["results"][0]["text"] == str(i + 1), got
    tenth = max(1, count // 10)
    took = timed(one, tenth)
    before = service.daemon_rss()[0]
    took += timed(lambda i: one(i + tenth), count - tenth)
    first, last = (statistics.median(part) for part in (took[:tenth], took[-tenth:]))
    kernel = next(x for x in box.client.get(f"{box.path}/execs", expect=200)["execs"] if x["state"] == "running")
    journal = service.state / "daemon" / "journal" / f"{kernel['id']}.out"
    grown, held = service.daemon_rss()[0] - before, journal.stat().st_blocks * 512
    line = f"{count} runs: median {first * 1000:.1f} ms, at the end {last * 1000:.1f} ms; daemon +{grown >> 10} KiB, journal {held >> 10} KiB"
    wrong = [words for words, is_so in (("slower", last > 2 * first), ("the daemon grew", grown > GROWTH_BYTES),
                                        ("the journal grew", held > JOURNAL_BYTES)) if is_so]
    return ", ".join(wrong), line


def many_contexts(service, box, count):
    made = []

    def one(i):
        """With its first cell, or all interpreters would start at the same time and wait for each other."""
        made.append(box.context(language="bash")["id"])
        assert "error" not in box.code(f"mine={i}", context=made[-1])
    took = timed(one, count)

    def check(i):
        got = box.code("echo $mine", context=made[i])
        assert got["stdout"] == f"{i}\n", got
    again = timed(check, count)
    before = service.daemon_rss()[0]
    for context in made:
        box.client.delete(f"{box.path}/contexts/{context}", expect=204)
    wait_for(lambda: not any(x["state"] == "running" and x["argv"][0].endswith("/bash")
                             for x in box.client.get(f"{box.path}/execs", expect=200)["execs"]), 30)
    tenth = max(1, count // 10)
    first, last = (statistics.median(part) for part in (took[:tenth], took[-tenth:]))
    line = (f"{count} contexts: made in {first * 1000:.1f} ms, the last in {last * 1000:.1f} ms; a run {statistics.median(again) * 1000:.1f} ms; "
            f"daemon {before >> 20} MiB")
    return "slower" if last > 4 * first + 0.05 else "", line


def results(binary):
    runs = int(os.environ.get("CODE_RUNS", "10000"))
    contexts = int(os.environ.get("CODE_CONTEXTS", "200"))
    found = []
    with Service(pool=1, binary=binary) as service:
        service.wait_parked()
        _, client = service.tenant("code-load")
        box = kernels.Box(client, limits={"memoryBytes": 6 << 30, "pids": 2000})
        for work, count in ((many_runs, runs), (many_contexts, contexts)):
            wrong, line = work(service, box, count)
            found.append((line, "failed" if wrong else "passed", wrong))
        client.delete("/v1/sandboxes", expect=200)
        client.close()
    return found


if __name__ == "__main__":
    print(*results(os.environ.get("SANDGLASS_BIN")), sep="\n")
