# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that wait with the start command of their template running: what a create gets of one, and what not."""
import json
import os

import pytest
from service import Box, Service, wait_for
from test_service_builds import Builder, give_base, output, step

MIB = 1 << 20
START = "echo said; echo $$ > /tmp/pid; env > /tmp/env; cat /proc/uptime > /tmp/at; echo up > /tmp/up; exec sleep 1000"
READY = "[ -f /tmp/up ]"


@pytest.fixture(scope="module")
def service():
    if os.getuid() != 0:
        pytest.skip("needs root")
    with Service(pool=1, settings={"started": 3, "started_each": 1}) as own:
        yield own
        own.runner.sandglass("template", "rm", "anew", env={"SANDGLASS_CONFIG": str(own.config)})  # and what it replaced


@pytest.fixture
def builder(service, tenant):
    made = Builder(service, service.key(org=tenant.org, scopes=["read", "exec"]))
    made.client = tenant
    yield made
    tenant.delete("/v1/sandboxes", expect=200)
    for row in made.call("GET", "/templates", expect=200):
        if not row["public"]:  # which the server's are
            assert made.call("DELETE", f"/templates/{row['templateID']}").status == 204
    wait_for(lambda: started(service)["wanted"] == 0, 60, "the end of those that wait")
    made.api.close()


def started(service):
    return service.operator.get("/v1/pool", expect=200)["started"]


def wait_ready(service, n=1):
    def look():
        found = started(service)
        return found["ready"] == n and not found["starting"] and found
    return wait_for(look, 60, f"{n} that wait with their start command running")


def billed(tenant):
    return {row["sandbox"] for row in tenant.get("/v1/usage", expect=200)["usage"]}


def text(box, script, **spec):
    done = box.sh(script, **spec)
    assert done["exitCode"] == 0, done
    return done["stdout"]


def test_a_create_gets_one_whose_start_command_runs_already_and_makes_it_its_own(service, builder, tenant):
    builder.build("ready", step("ENV", "A", "b"), startCmd=START, readyCmd=READY)
    before, paid = wait_ready(service), billed(tenant)
    assert tenant.get("/v1/sandboxes", expect=200)["sandboxes"] == []  # nobody's yet, and on no bill
    assert tenant.get(f"/v1/orgs/{tenant.org}", expect=200)["inUse"]["sandboxes"] == 0
    box = Box(tenant, {"template": "ready", "env": {"MINE": "x"}, "metadata": {"k": "v"}, "timeoutMs": 600000,
                       "limits": {"memoryBytes": 96 * MIB}, "network": {"mode": "open"}})
    made = box.get()
    assert (made["wasParked"], made["state"], made["metadata"], made["limits"]["memoryBytes"]) == (True, "running", {"k": "v"}, 96 * MIB)
    assert started(service)["taken"] == before["taken"] + 1
    assert box.client.get(f"{box.path}/stats", expect=200)["memoryLimitBytes"] == 96 * MIB
    assert text(box, "kill -0 $(cat /tmp/pid) && cat /tmp/up; echo $A $MINE") == "up\nb x\n"
    env = text(box, "cat /tmp/env")
    assert "A=b\n" in env and "MINE" not in env  # the start command is the template's
    ran = {row["tag"]: row for row in tenant.get(f"{box.path}/execs", expect=200)["execs"] if row.get("tag")}
    assert ran["start"]["state"] == "running" and box.output(ran["start"]["id"]) == b"said\n"
    assert ran["start"]["startedAt"] <= made["createdAt"]
    assert billed(tenant) - paid == {box.id}
    wait_ready(service)  # the next one
    assert Box(tenant, {"template": "ready"}).get()["wasParked"]


def test_the_network_of_one_that_waited_is_what_its_caller_asked_for(service, builder, tenant):
    builder.build("netted", startCmd=START, readyCmd=READY)
    wait_ready(service)
    asks = "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 9), 60).recv(1)' 2>&1 | tail -1"
    shut = Box(tenant, {"template": "netted"})
    wait_ready(service)
    box = Box(tenant, {"template": "netted", "network": {"mode": "filtered", "deny": ["192.0.2.1"]}})
    assert shut.get()["wasParked"] and box.get()["wasParked"]
    assert "unreachable" in text(shut, asks) and "reset" in text(box, asks)  # by the gate


def test_others_get_none_of_an_organisations(service, builder, tenant):
    made = builder.build("mine", startCmd=START, readyCmd=READY)
    before = wait_ready(service)
    builder.call("PATCH", f"/templates/{made['templateID']}", {"public": True}, expect=200)
    org, other = service.tenant("other")
    box = Box(other, {"template": f"{tenant.org}/mine"})
    assert text(box, "cat /tmp/up") == "up\n"  # started for it
    assert started(service)["taken"] == before["taken"] and started(service)["ready"] == 1
    assert other.get("/v1/pool", expect=200)["started"]["wanted"] == 0
    other.delete("/v1/sandboxes", expect=200)
    builder.call("PATCH", f"/templates/{made['templateID']}", {"public": False}, expect=200)
    service.operator.delete(f"/v1/orgs/{org}", expect=204)
    other.close()


def test_a_new_build_takes_the_place_of_the_old_one(service, builder, tenant):
    builder.build("renewed", startCmd="echo 1 > /tmp/up; sleep 1000", readyCmd=READY)
    wait_ready(service)
    builder.build("renewed", startCmd="echo 2 > /tmp/up; sleep 1000", readyCmd=READY)
    for _ in range(2):
        assert text(Box(tenant, {"template": "renewed"}), "cat /tmp/up") == "2\n"


def test_one_of_a_base_that_was_made_anew_is_replaced(service, builder, tenant, tmp_path):
    give_base(service, tmp_path, b"1\n")
    builder.build("based", fromTemplate="anew", startCmd="echo up > /tmp/up; sleep 1000", readyCmd=READY)
    wait_ready(service)
    give_base(service, tmp_path, b"2\n")
    wait_for(lambda: started(service)["ready"] == 0, 60, "the end of the old one")
    wait_ready(service)
    box = Box(tenant, {"template": "based"})
    assert box.get()["wasParked"] and text(box, "cat /etc/version /tmp/up") == "2\nup\n"


def test_one_whose_start_command_ends_is_not_handed_out_and_is_reported(service, builder, tenant):
    builder.build("dying", startCmd="echo up > /tmp/up; sleep 0.4; exit 3", readyCmd=READY)
    found = wait_for(lambda: (s := started(service))["failing"] and s, 60, "a failure")
    assert found["why"] == "its start command ended" and found["failures"] > 0
    metrics = service.operator.get("/metrics", expect=200).decode()
    assert 'sandglass_started{what="failing"} 1' in metrics and 'sandglass_started{what="wanted"} 1' in metrics
    done = service.runner.sandglass("doctor", "--json", env={"SANDGLASS_CONFIG": str(service.config)})
    check = {check["name"]: check for check in json.loads(done.stdout)["checks"]}["start commands"]
    assert check["status"] == "degraded" and "its start command ended" in check["detail"], check
    assert text(Box(tenant, {"template": "dying"}), "cat /tmp/up") == "up\n"


@pytest.mark.parametrize("who", ["daemon", "launcher"])
def test_kill_9_leaves_none_behind_and_there_are_others_afterwards(service, builder, tenant, who):
    builder.build("killed", startCmd=START, readyCmd=READY)
    wait_ready(service)
    kept = Box(tenant, {"template": "killed"})
    pid = text(kept, "cat /tmp/pid")
    wait_ready(service)
    getattr(service, f"kill9_{who}")()
    service.wait_ready()
    wait_ready(service)
    assert text(kept, "cat /tmp/pid; kill -0 $(cat /tmp/pid)") == pid
    assert [row["id"] for row in tenant.get("/v1/sandboxes", expect=200)["sandboxes"]] == [kept.id]
    again = Box(tenant, {"template": "killed"})
    assert again.get()["wasParked"] and text(again, "cat /tmp/up") == "up\n"


def test_the_e2b_door_hands_one_out_with_a_token_of_its_own(service, builder):
    builder.build("door", startCmd=START, readyCmd=READY)
    before = wait_ready(service)
    one = builder.sandbox("door")
    assert started(service)["taken"] == before["taken"] + 1
    wait_ready(service)
    two = builder.sandbox("door")
    assert one.id != two.id and one.token != two.token
    assert output(one, "cat /tmp/up") == output(two, "cat /tmp/up") == "up\n"
    assert one.envd("GET", "/files?path=/tmp/up", **{"X-Access-Token": two.token}).status in (401, 403, 404, 502)
    one.kill()
    two.kill()
