# SPDX-License-Identifier: Apache-2.0
"""The life of a sandbox through the API: made, found, changed, paused, stopped, expired, ended."""
import concurrent.futures
import datetime
import os
import pathlib
import signal
import time

import leaks
import pytest
from service import Box, wait_for

MIB = 1 << 20


def unix_ms(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000


def host_pid(marker):
    """The process on the host whose command line holds the marker."""
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                return int(entry.parent.name)
        except OSError:
            continue
    return None


def pid_one(service, box):
    """Pid 1 of the sandbox, as the host counts: the ancestor that the launcher made."""
    marker = f"sleep 9{int.from_bytes(box.id[-3:].encode(), 'big')}"
    box.spawn(f"exec {marker}")
    pid = wait_for(lambda: host_pid(marker.replace(" ", "\0")), what="the marker")
    table, launcher = leaks.process_table(), service.launcher_pid()
    while table[pid][0] not in (launcher, 1, os.getpid()):
        pid = table[pid][0]
    return pid


# ---- create and look ----

def test_a_sandbox_is_what_was_asked_for(tenant):
    asked = {"template": "host", "metadata": {"a": "1", "ключ": "значение"}, "timeoutMs": 60000,
             "idleTimeoutMs": 50000, "onExpiry": "pause", "retries": 2,
             "limits": {"memoryBytes": 64 * MIB, "cpus": 0.5, "pids": 32, "diskBytes": 16 * MIB}}
    made = tenant.post("/v1/sandboxes", asked, expect=201)
    assert made["state"] == "running" and made["org"] == tenant.org and made["tier"] == "cell"
    for name in ("template", "metadata", "timeoutMs", "idleTimeoutMs", "onExpiry", "limits"):
        assert made[name] == asked[name], name
    assert made["retries"] == {"left": 2, "used": 0} and made["execs"] == 0
    life = unix_ms(made["expiresAt"]) - unix_ms(made["startedAt"])
    assert 59000 <= life <= 61000
    assert tenant.get(f"/v1/sandboxes/{made['id']}", expect=200) == made


def test_an_empty_body_gives_a_sandbox_with_the_defaults(tenant):
    made = tenant.post("/v1/sandboxes", expect=201)
    assert made["template"] == "host" and made["metadata"] == {} and made["timeoutMs"] == 300000
    assert made["limits"]["memoryBytes"] == 512 * MIB and made["onExpiry"] == "kill"


def test_a_parked_sandbox_is_taken_and_the_pool_refills(service, tenant):
    service.wait_parked()
    assert tenant.post("/v1/sandboxes", {}, expect=201)["wasParked"] is True
    service.wait_parked()


def test_parked_or_not_the_limits_are_the_ones_asked_for(service, tenant):
    service.wait_parked()
    for memory in (32 * MIB, 96 * MIB):  # the pool knows no sizes
        box = Box(tenant, {"limits": {"memoryBytes": memory, "pids": 20}})
        assert box.client.get(f"{box.path}/stats", expect=200)["memoryLimitBytes"] == memory
        done = box.sh("n=0; while [ $n -lt 30 ]; do sleep 5 & n=$((n+1)); done; echo survived")
        assert "survived" not in done["stdout"] or "fork" in done["stderr"]


def test_environment_of_the_sandbox_reaches_every_exec(tenant):
    box = Box(tenant, {"env": {"A": "sandbox", "B": "sandbox"}})
    done = box.exec("sh", "-c", "echo $A $B $C", env={"B": "exec", "C": "exec"})
    assert done["stdout"] == "sandbox exec exec\n"


def test_an_unknown_template_is_named(tenant):
    reply = tenant.post("/v1/sandboxes", {"template": "no-such"})
    assert reply.status == 404 and "no-such" in reply.error["message"]
    assert tenant.get(f"/v1/orgs/{tenant.org}", expect=200)["inUse"]["sandboxes"] == 0


def test_list_is_newest_first_in_pages_without_gaps_or_repeats(tenant):
    ids = [Box(tenant, {"metadata": {"n": str(n)}}).id for n in range(7)]
    found, query = [], {"limit": 3}
    while True:
        page = tenant.get("/v1/sandboxes", query=query, expect=200)
        found += [s["id"] for s in page["sandboxes"]]
        assert len(page["sandboxes"]) <= 3
        if "next" not in page:
            break
        query["after"] = page["next"]
    assert found == ids[::-1]


def test_a_page_goes_on_after_a_sandbox_that_went_meanwhile(tenant):
    boxes = [Box(tenant) for _ in range(4)]
    first = tenant.get("/v1/sandboxes", query={"limit": 2}, expect=200)
    assert first["next"] == boxes[2].id
    boxes[2].destroy()
    rest = tenant.get("/v1/sandboxes", query={"limit": 2, "after": first["next"]}, expect=200)
    assert [s["id"] for s in rest["sandboxes"]] == [boxes[1].id, boxes[0].id]


def test_list_filters_by_state_and_metadata(tenant):
    a = Box(tenant, {"metadata": {"team": "red", "n": "1"}})
    b = Box(tenant, {"metadata": {"team": "red", "n": "2"}})
    c = Box(tenant, {"metadata": {"team": "blue & co", "ключ=": "ж"}})
    tenant.post(f"{b.path}/pause", expect=200)

    def found(**query):
        rows = tenant.get("/v1/sandboxes", query=query, expect=200)["sandboxes"]
        return {row["id"] for row in rows}

    assert found(**{"metadata.team": "red"}) == {a.id, b.id}
    assert found(**{"metadata.team": "red", "metadata.n": "2"}) == {b.id}
    assert found(**{"metadata.team": "blue & co"}) == {c.id}
    assert found(**{"metadata.ключ=": "ж"}) == {c.id}
    assert found(**{"metadata.team": "green"}) == set()
    assert found(state="paused") == {b.id}
    assert found(state="paused,running") == {a.id, b.id, c.id}
    assert found(state="paused", **{"metadata.n": "1"}) == set()


@pytest.mark.parametrize("query, word", [({"state": "asleep"}, "asleep"), ({"limit": "0"}, "limit"),
                                         ({"limit": "many"}, "limit"), ({"limti": "5"}, "limti")])
def test_a_wrong_list_query_is_named(tenant, query, word):
    reply = tenant.get("/v1/sandboxes", query=query)
    assert reply.status == 400 and word in reply.error["message"]


# ---- change ----

def test_limits_change_while_it_runs_and_the_kernel_knows(box, tenant):
    changed = tenant.patch(box.path, {"limits": {"memoryBytes": 128 * MIB, "pids": 40}}, expect=200)
    assert changed["limits"]["memoryBytes"] == 128 * MIB and changed["limits"]["pids"] == 40
    assert changed["limits"]["cpus"] == box.made["limits"]["cpus"]  # what was not named stays
    assert tenant.get(f"{box.path}/stats", expect=200)["memoryLimitBytes"] == 128 * MIB
    done = box.exec("sh", "-c", "head -c 200m /dev/zero | tail >/dev/null; echo $?")
    assert done["stdout"].strip() != "0" or done["ending"] != "exit"


def test_metadata_and_lifetime_change_together(box, tenant):
    changed = tenant.patch(box.path, {"metadata": {"x": "y"}, "timeoutMs": 120000}, expect=200)
    assert changed["metadata"] == {"x": "y"} and changed["timeoutMs"] == 120000
    assert box.get() == changed


@pytest.mark.parametrize("body, word", [
    ({"limits": {"memory": 1}}, "memory"), ({"metadata": {"a": 1}}, "metadata"),
    ({"timeout": 5}, "timeout"), ({"limits": {"cpus": "many"}}, "cpus"), ({"limits": 4}, "limits")])
def test_a_wrong_patch_is_named_and_changes_nothing(box, tenant, body, word):
    reply = tenant.patch(box.path, body)
    assert reply.status == 400 and word in reply.error["message"]
    assert box.get()["limits"] == box.made["limits"]


def test_timeout_and_keepalive_set_the_end_anew(tenant):
    box = Box(tenant, {"timeoutMs": 5000})
    first = unix_ms(box.made["expiresAt"])
    later = tenant.post(f"{box.path}/timeout", {"timeoutMs": 90000}, expect=200)
    assert later["timeoutMs"] == 90000 and unix_ms(later["expiresAt"]) > first + 80000
    time.sleep(0.05)
    again = tenant.post(f"{box.path}/keepalive", expect=200)
    assert unix_ms(again["expiresAt"]) > unix_ms(later["expiresAt"])
    assert "expiresAt" not in tenant.post(f"{box.path}/timeout", {"timeoutMs": 0}, expect=200)


# ---- pause, stop ----

def test_pause_stops_every_process_and_resume_lets_them_go_on(box, tenant):
    run = box.spawn("while :; do echo x; sleep 0.02; done")["id"]
    wait_for(lambda: box.execution(run)["outputBytes"] > 4, what="output")
    assert tenant.post(f"{box.path}/pause", expect=200)["state"] == "paused"
    before = box.execution(run)["outputBytes"]
    time.sleep(0.15)
    assert box.execution(run)["outputBytes"] == before
    assert tenant.post(f"{box.path}/pause", expect=200)["state"] == "paused"  # no error
    reply = tenant.post(f"{box.path}/exec", {"argv": ["true"]})
    assert reply.status == 409 and "paused" in reply.error["message"]
    assert tenant.post(f"{box.path}/resume", expect=200)["state"] == "running"
    wait_for(lambda: box.execution(run)["outputBytes"] > before, what="more output")
    assert box.sh("echo back")["stdout"] == "back\n"


def test_a_paused_sandbox_can_be_destroyed(box, tenant):
    tenant.post(f"{box.path}/pause", expect=200)
    assert box.destroy().status == 204 and box.state() is None


def test_stop_ends_processes_and_keeps_files_and_start_allows_them_again(box, tenant):
    box.write("/workspace/kept", b"kept")
    run = box.spawn("sleep 1000")["id"]
    assert tenant.post(f"{box.path}/stop", expect=200)["state"] == "stopped"
    ended = box.wait(run)
    assert ended["state"] == "ended" and ended["ending"] == "signal"
    assert tenant.post(f"{box.path}/exec", {"argv": ["true"]}).status == 409
    assert tenant.post(f"{box.path}/start", expect=200)["state"] == "running"
    assert box.sh("cat /workspace/kept; ls /proc | grep -c '^[0-9]'")["stdout"].startswith("kept")


@pytest.mark.parametrize("first, then", [("pause", "stop"), ("stop", "pause"), ("stop", "resume"),
                                         ("pause", "start")])
def test_what_a_state_does_not_permit_is_a_conflict(box, tenant, first, then):
    tenant.post(f"{box.path}/{first}", expect=200)
    reply = tenant.post(f"{box.path}/{then}")
    assert reply.status == 409 and reply.error["kind"] == "conflict"


# ---- its end ----

def test_its_lifetime_ends_it(tenant):
    box = Box(tenant, {"timeoutMs": 300})
    box.spawn("sleep 1000")
    wait_for(lambda: box.state() is None, 5, "its end")
    assert tenant.get("/v1/sandboxes", expect=200)["sandboxes"] == []


def test_its_lifetime_pauses_it_where_that_was_asked_for(tenant):
    box = Box(tenant, {"timeoutMs": 300, "onExpiry": "pause"})
    wait_for(lambda: box.state() == "paused", 5, "its pause")
    assert tenant.post(f"{box.path}/resume", expect=200)["state"] == "running"
    assert box.sh("echo back")["stdout"] == "back\n"


def test_idle_counts_running_work_and_open_streams_not_only_calls(tenant):
    busy, watched, idle = (Box(tenant, {"idleTimeoutMs": 400}) for _ in range(3))
    busy.spawn("sleep 1.2")
    stream = tenant.stream("GET", f"{watched.path}/files/watch", query={"path": "/tmp"})
    rows = lambda: {s["id"] for s in tenant.get("/v1/sandboxes", expect=200)["sandboxes"]}
    wait_for(lambda: idle.id not in rows(), 5, "the idle one's end")
    time.sleep(0.3)
    assert {busy.id, watched.id} <= rows()  # three times its idle time, no call in between
    wait_for(lambda: busy.id not in rows(), 5, "the end of the one whose work ended")
    assert watched.id in rows()
    stream.connection.close()
    stream.close()
    wait_for(lambda: watched.id not in rows(), 5, "the end of the one nobody watches any more")


def test_calls_keep_an_idle_sandbox_alive(tenant):
    box = Box(tenant, {"idleTimeoutMs": 500})
    for _ in range(5):
        time.sleep(0.2)
        assert box.state() == "running"


def test_destroy_leaves_nothing_that_answers(box, tenant):
    run = box.spawn("sleep 1000")["id"]
    assert box.destroy().status == 204
    for path in (box.path, f"{box.path}/execs/{run}", f"{box.path}/files?path=/tmp"):
        reply = tenant.get(path)
        assert reply.status == 404 and reply.error["kind"] == "not_found"
    assert box.destroy().status == 404


def test_destroy_all_counts_and_touches_only_the_callers(service, tenant):
    other = Box(service.client(service.key(org=service.org("other"))))
    for _ in range(3):
        Box(tenant)
    assert tenant.delete("/v1/sandboxes", expect=200) == {"destroyed": 3}
    assert tenant.delete("/v1/sandboxes", expect=200) == {"destroyed": 0}
    assert other.state() == "running"
    other.destroy()


def test_many_destroys_at_once_are_one(box, tenant):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: box.destroy().status, range(8)))
    assert set(replies) <= {204, 404} and 204 in replies


def test_a_sandbox_that_dies_is_failed_with_the_cause(service, box, tenant):
    os.kill(pid_one(service, box), signal.SIGKILL)
    wait_for(lambda: box.state() == "failed", what="the failure")
    assert box.get()["cause"]
    assert tenant.post(f"{box.path}/exec", {"argv": ["true"]}).status == 409
    assert box.destroy().status == 204


def test_a_sandbox_that_dies_is_made_anew_where_that_was_asked_for(service, tenant):
    box = Box(tenant, {"retries": 1})
    os.kill(pid_one(service, box), signal.SIGKILL)
    wait_for(lambda: box.get()["retries"] == {"left": 0, "used": 1} and box.state() == "running",
             what="a fresh one")
    assert box.get()["cause"] and box.sh("echo fresh")["stdout"] == "fresh\n"
    os.kill(pid_one(service, box), signal.SIGKILL)
    wait_for(lambda: box.state() == "failed", what="the failure")


def test_programs_that_start_others_all_the_time_can_be_paused(box, tenant):
    """One in the midst of a vfork() is frozen, too."""
    for _ in range(6):
        box.spawn("while :; do /bin/true; done")
    for _ in range(100):
        tenant.post(f"{box.path}/pause", expect=200)
        tenant.post(f"{box.path}/resume", expect=200)


# ---- questions ----

def test_stats_tell_what_is_used(box, tenant):
    box.spawn("sleep 100")
    box.write("/workspace/f", b"x" * MIB)
    stats = tenant.get(f"{box.path}/stats", expect=200)
    assert stats["pids"] >= 2 and stats["memoryBytes"] > 0
    assert stats["memoryLimitBytes"] == box.made["limits"]["memoryBytes"]
    assert stats["diskUsedBytes"] >= MIB and stats["oomKills"] == 0


def test_health_of_one_and_of_all(box, tenant):
    paused = Box(tenant)
    assert tenant.get(f"{box.path}/health", expect=200)["healthy"] is True
    tenant.post(f"{paused.path}/pause", expect=200)
    assert tenant.get("/v1/health", expect=200) == {"healthy": 1, "unhealthy": []}


def test_templates_pool_and_usage(service, box, tenant):
    known = tenant.get("/v1/templates", expect=200)
    assert "host" in [t["name"] for t in known["templates"]] and known["default"] == "host"
    service.wait_parked()
    pool = {row["template"]: row for row in tenant.get("/v1/pool", expect=200)["pool"]}
    assert pool["host"]["wanted"] == 3 and pool["host"]["parked"] == 3
    box.sh("true")
    box.destroy()
    usage = wait_for(lambda: [row for row in tenant.get("/v1/usage", expect=200)["usage"]
                              if row["sandbox"] == box.id], what="usage")
    assert usage[0]["creates"] == 1 and usage[0]["execs"] == 1 and usage[0]["org"] == tenant.org
    others = {row["org"] for row in tenant.get("/v1/usage", expect=200)["usage"]}
    assert others == {tenant.org}
