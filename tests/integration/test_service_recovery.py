# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the daemon, of the launcher, of serve: what was acknowledged is there afterwards."""
import concurrent.futures
import os
import signal
import threading
import time

import leaks
import pytest
import web
from service import Box, Service, children, wait_for

COUNT = "i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i; %s; done"


@pytest.fixture
def own(root):
    with Service(pool=2) as service:
        service.wait_parked()
        yield service


def numbers(count):
    return b"".join(b"%d\n" % n for n in range(1, count + 1))


def quiet(service):
    """What the reconciler finds once all is settled."""
    report = service.operator.post("/v1/reconcile", expect=200)
    return {name: report[name] for name in ("lost", "orphans", "staleJournals", "unknownExecs")}


CLEAN = {"lost": 0, "orphans": 0, "staleJournals": 0, "unknownExecs": 0}


@pytest.mark.parametrize("victim", ["daemon", "launcher"])
def test_running_commands_and_their_output_survive(own, victim):
    box, paused = Box(own.operator, {"metadata": {"a": "b"}, "timeoutMs": 500000}), Box(own.operator)
    own.operator.post(f"{paused.path}/pause", expect=200)
    total = 4000
    run = box.spawn(COUNT % (total, "[ $((i % 50)) = 0 ] && sleep 0.02"), tag="kept")["id"]
    over = box.spawn("echo ended; exit 7")["id"]
    box.wait(over)
    before = box.get()
    for _ in range(3):
        time.sleep(0.15)
        getattr(own, f"kill9_{victim}")()
        own.wait_ready()
    after = wait_for(lambda: box.get() if box.state() == "running" else None, what="the sandbox")
    assert {**after, "execs": 0} == {**before, "execs": 0}
    assert box.wait(run, 30)["exitCode"] == 0 and box.output(run) == numbers(total)
    assert box.execution(over)["exitCode"] == 7 and box.output(over) == b"ended\n"
    assert paused.state() == "paused"
    assert own.operator.post(f"{paused.path}/resume", expect=200)["state"] == "running"
    assert paused.sh("echo alive")["stdout"] == "alive\n"
    assert quiet(own) == CLEAN


def test_a_reader_comes_back_with_its_offset_and_misses_nothing(own):
    box = Box(own.operator)
    run = box.spawn(COUNT % (300, "sleep 0.005"))["id"]
    got, path = b"", f"{box.path}/execs/{run}/output"
    deaths = 0
    while not got.endswith(b"\n300\n"):
        try:
            stream = own.operator.stream("GET", path, query={"raw": 1, "follow": 1, "offset": len(got)})
            assert stream.status == 200, stream.read()
            while piece := stream.read1(4096):
                got += piece
                if deaths < 3 and len(got) > (deaths + 1) * 200:
                    deaths += 1
                    own.kill9_daemon()
            stream.connection.close()
        except (OSError, web.http.client.HTTPException):
            own.wait_ready()
    assert deaths == 3 and got == numbers(300)


def test_a_command_with_a_full_pipe_waits_for_the_next_daemon(own):
    """While nobody drains it, the child is held up and not hurt."""
    box = Box(own.operator)
    size = 900_000
    run = box.spawn(f"sleep 0.2; head -c {size} /dev/zero; echo end >&2")["id"]
    own.kill9_daemon()
    own.wait_ready()
    assert box.wait(run, 20)["exitCode"] == 0
    assert len(box.output(run)) == size + 4


def test_a_terminal_survives(own):
    box = Box(own.operator)
    run = box.exec("sh", tty={"rows": 30, "cols": 90}, stdin=True, background=True, expect=201)["id"]
    own.kill9_daemon()
    own.wait_ready()
    box.client.post(f"{box.path}/execs/{run}/stdin", b"stty size; exit 3\n", expect=204)
    assert box.wait(run)["exitCode"] == 3 and b"30 90" in box.output(run)


def test_no_acknowledged_create_is_lost_and_no_other_stays(own):
    """Kills while a crowd creates and destroys; then the books must balance."""
    client, stop = own.operator, threading.Event()
    alive, unsure = set(), set()

    def work(_):
        mine = web.Client(client.address)
        while not stop.is_set():
            try:
                reply = mine.request("POST", "/v1/sandboxes", {"metadata": {"t": "1"}})
                if reply.status != 201:
                    continue
                box = reply.json["id"]
                alive.add(box)
                if len(alive) > 20:
                    unsure.add(box)
                    if mine.request("DELETE", f"/v1/sandboxes/{box}").status == 204:
                        alive.discard(box)
                        unsure.discard(box)
            except (OSError, web.http.client.HTTPException):
                time.sleep(0.02)

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(work, n) for n in range(6)]
        for victim in ("daemon", "launcher", "daemon", "daemon", "launcher"):
            time.sleep(0.3)
            getattr(own, f"kill9_{victim}")()
            own.wait_ready()
        stop.set()
        for job in jobs:
            job.result()
    rows = client.get("/v1/sandboxes", query={"limit": 1000}, expect=200)["sandboxes"]
    there = {row["id"] for row in rows if row["state"] == "running"}
    assert alive - unsure <= there
    assert {row["state"] for row in rows} <= {"running"}, rows
    first = quiet(own)
    assert first["lost"] == 0 and quiet(own) == CLEAN
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        outputs = list(pool.map(lambda i: web.Client(client.address).request(
            "POST", f"/v1/sandboxes/{i}/exec", {"argv": ["echo", "yes"]}).json["stdout"], sorted(there)))
    assert set(outputs) <= {"yes\n"}
    client.delete("/v1/sandboxes", expect=200)


def test_files_written_before_a_crash_are_whole_or_absent(own):
    box = Box(own.operator)
    size, done = 200_000, []

    def upload():
        mine = web.Client(own.operator.address)
        for n in range(200):
            try:
                if mine.request("PUT", f"{box.path}/files?path=/workspace/f{n}", b"%03d" % n * (size // 3)).status == 200:
                    done.append(n)
            except (OSError, web.http.client.HTTPException):
                return

    writer = threading.Thread(target=upload)
    writer.start()
    wait_for(lambda: len(done) > 5, what="some uploads")
    own.kill9_daemon()
    writer.join()
    own.wait_ready()
    wait_for(lambda: box.state() == "running", what="the sandbox")
    for n in done:
        assert box.read(f"/workspace/f{n}") == b"%03d" % n * (size // 3)
    sizes = box.sh("stat -c '%n %s' /workspace/f*")["stdout"].split()
    assert set(sizes[1::2]) == {str(size // 3 * 3)}


def test_serve_itself_can_be_killed_and_the_next_finds_all(root):
    service = Service(pool=1)
    try:
        service.start()
        box = Box(service.operator)
        run = box.spawn(COUNT % (60, "sleep 0.02"))["id"]
        launcher, daemon = service.launcher_pid(), service.daemon_pid()
        os.kill(service.process.pid, signal.SIGKILL)
        service.process.wait()
        wait_for(lambda: all(leaks.process_table().get(pid, (0, "Z"))[1] == "Z" for pid in (launcher, daemon)), 15,
                 "the end of what serve had started")
        service.start()
        assert box.wait(run, 20)["exitCode"] == 0 and box.output(run) == numbers(60)
        service.stop()
    finally:
        service.discard()
        service.remove()


def test_what_a_dead_launcher_leaves_is_reaped(own):
    """By serve, whose it becomes: not every pid 1 does that."""
    def left():
        return [pid for pid, name in children(own.process.pid) if name == "sandglass-init"]

    box = Box(own.operator)
    own.kill9_launcher()
    own.wait_ready()
    wait_for(lambda: len(left()) == 1, what="the end of the parked ones")
    box.client.delete(box.path, expect=204)
    wait_for(lambda: not left(), what="its burial")


def test_lifetimes_go_on_counting_over_a_crash(own):
    box = Box(own.operator, {"timeoutMs": 1500})
    own.kill9_daemon()
    own.wait_ready()
    wait_for(lambda: box.state() is None, 10, "its end")


def test_keys_and_events_survive(own):
    key = own.key()
    box = Box(own.client(key))
    last = own.operator.get("/v1/audit", expect=200)["records"][-1]["seq"]
    own.kill9_launcher()
    own.wait_ready()
    assert own.client(key).get(box.path).status == 200
    verdict = own.operator.get("/v1/audit/verify", expect=200)
    assert verdict["whole"] and verdict["records"] >= last
