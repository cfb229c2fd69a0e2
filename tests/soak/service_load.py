# SPDX-License-Identifier: Apache-2.0
"""The service under load: 1,000 sandboxes at once, 10,000 execs among them, creates in parallel up
to the quota and past it. Every count is exact, nothing fails, nothing is left."""
import concurrent.futures
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import leaks  # noqa: E402
import service as services  # noqa: E402

SANDBOXES = int(os.environ.get("SERVICE_SANDBOXES", "1000"))
EXECS = int(os.environ.get("SERVICE_EXECS", "10000"))
PAST_QUOTA = 200
CALLERS = 32


def many(count, work):
    with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
        return list(pool.map(work, range(count)))


def creates(client):
    """Past the quota by PAST_QUOTA, all at once."""
    replies = many(SANDBOXES + PAST_QUOTA,
                   lambda _: client.post("/v1/sandboxes", {"timeoutMs": 0}))
    made = [reply.json["id"] for reply in replies if reply.status == 201]
    refused = [reply for reply in replies if reply.status == 429]
    others = [reply for reply in replies if reply.status not in (201, 429)]
    counts = f"{len(made)} made, {len(refused)} refused, {len(others)} otherwise: {others[:2]}"
    is_exact = (len(set(made)), len(refused)) == (SANDBOXES, PAST_QUOTA)
    yield f"{SANDBOXES} of {SANDBOXES + PAST_QUOTA} creates pass the quota", is_exact, counts
    listed, after = set(), None
    while True:
        page = client.get("/v1/sandboxes", expect=200,
                          query={"limit": 300, **({"after": after} if after else {})})
        listed |= {row["id"] for row in page["sandboxes"]}
        after = page.get("next")
        if not after:
            break
    yield "the list has every one", listed == set(made), f"{len(listed)} listed"


def execs(client, boxes):
    def one(i):
        reply = client.post(f"/v1/sandboxes/{boxes[i % len(boxes)]}/exec",
                            {"argv": ["/bin/echo", str(i)]})
        return reply.status == 200 and reply.json["exitCode"] == 0 and reply.json["stdout"] == f"{i}\n"

    start = time.monotonic()
    good = sum(many(EXECS, one))
    print(f"# {EXECS / (time.monotonic() - start):.0f} execs each second", flush=True)
    yield f"{EXECS} execs say what they should", good == EXECS, f"{good} did"
    counted = sum(row["execs"] for row in client.get(
        "/v1/sandboxes", query={"limit": 1000}, expect=200)["sandboxes"])
    yield "as many execs are on record", counted == EXECS, f"{counted} are"


def end(client, org):
    destroyed = client.delete("/v1/sandboxes", expect=200)["destroyed"]
    yield "all are destroyed in one call", destroyed == SANDBOXES, f"{destroyed} were"
    use = client.get(f"/v1/orgs/{org}", expect=200)["inUse"]
    yield "the quota is given back exactly", not any(use.values()), str(use)


def checks(service):
    org, client = service.tenant("load", sandboxes=SANDBOXES)
    yield from creates(client)
    boxes = [row["id"] for row in client.get("/v1/sandboxes", query={"limit": 1000},
                                             expect=200)["sandboxes"]]
    yield from execs(client, boxes)
    rss, _ = service.daemon_rss()
    print(f"# the daemon holds {rss >> 20} MiB", flush=True)
    yield from end(client, org)
    report = service.operator.post("/v1/reconcile", expect=200)
    bad = {k: report[k] for k in ("lost", "orphans", "staleJournals", "unknownExecs") if report[k]}
    yield "the reconciler finds nothing", not bad, str(bad)


def results(program):
    leaks.adopt_orphans()
    found = []
    try:
        with services.Service(pool=16, binary=str(program),
                              settings={"max_sandboxes": 2000}) as service:
            for name, is_good, why in checks(service):
                found.append((name, "passed" if is_good else "failed", "" if is_good else why))
        found.append(("nothing is left", "passed", ""))
    except AssertionError as e:
        found.append(("the run as a whole", "failed", str(e)))
    return found
