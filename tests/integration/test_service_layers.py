# SPDX-License-Identifier: Apache-2.0
"""Layers of builds that nothing stands on: what is collected, what never is, and a kill -9 in the middle."""
import os
import threading

import pytest
import web
from service import Service, wait_for
from test_service_builds import Builder, output, step


@pytest.fixture(scope="module")
def service():
    if os.getuid() != 0:
        pytest.skip("needs root")
    with Service(pool=1) as own:
        yield own


@pytest.fixture
def builder(service, tenant):
    made = Builder(service, service.key(org=tenant.org, scopes=["read", "exec"]))
    yield made
    made.api.close()


def collect(client, **spec):
    return client.post("/v1/gc", {"layerDays": 0, **spec}, expect=200)


def stored(service):
    return service.operator.get("/v1/storage", expect=200)["snapshots"]


def wait_stored(service, n):
    wait_for(lambda: stored(service) == n, 60, f"{n} snapshots and layers")


def test_only_layers_that_nothing_stands_on_are_collected(service, builder, tenant):
    before = stored(service)
    steps = [step("RUN", "echo 1 > ~/one"), step("RUN", "echo 2 > ~/two")]
    builder.build("kept", *steps)
    box = builder.sandbox("kept")
    assert stored(service) == before + 2
    assert tenant.post("/v1/gc", {}, expect=200)["layers"] == []  # a build may want them tomorrow
    dry = collect(tenant, dryRun=True)
    assert len(dry["layers"]) == 1 and dry["layerBytes"] > 0 and stored(service) == before + 2
    done = service.runner.sandglass("snapshots", "gc", "--dry-run", "--layer-days", "0", "--url", f"http://127.0.0.1:{service.port}",
                                    env={"SANDGLASS_API_KEY": builder.key})
    assert (done.returncode, done.stdout) == (0, f"layer {dry['layers'][0]}\n"), done
    assert collect(tenant)["layers"] == dry["layers"]
    assert collect(tenant)["layers"] == []
    wait_stored(service, before + 1)
    assert output(box, "cat one two") == output(builder.sandbox("kept"), "cat one two") == "1\n2\n"
    again = builder.build("kept", *steps)  # the first is made again, the second is there
    assert sum(line.startswith("CACHED") for line in builder.log(again)) == 1
    tenant.delete("/v1/sandboxes", expect=200)
    assert builder.call("DELETE", "/templates/kept").status == 204
    assert len(collect(tenant)["layers"]) == 2
    wait_stored(service, before)


def test_nothing_is_collected_while_a_build_runs_and_none_of_others(service, builder, tenant):
    builder.build("busy", step("RUN", "echo 1 > ~/one"), step("RUN", "echo 2 > ~/two"))
    assert builder.call("DELETE", "/templates/busy").status == 204
    running = builder.create("running")
    builder.start(running, [step("RUN", "sleep 1000")])
    assert collect(tenant)["layers"] == []
    org, other = service.tenant("other")
    assert collect(other)["layers"] == []
    other.close()
    service.operator.delete(f"/v1/orgs/{org}", expect=204)
    assert tenant.call("DELETE", f"/v1/builds/{running['buildID']}").status < 300
    builder.wait(running, "error")
    assert len(collect(tenant)["layers"]) == 2


def test_kill_9_in_the_middle_leaves_whole_templates_and_nothing_else(service, builder, tenant):
    before = stored(service)
    builder.build("whole", *[step("RUN", f"echo {i} > ~/f{i}") for i in range(5)])

    def ask():
        client = web.Client(service.tcp, key=None)
        try:
            client.call("POST", "/v1/gc", {"layerDays": 0}, headers={"X-API-Key": builder.key})
        except OSError:
            pass  # it died
    asking = threading.Thread(target=ask)
    asking.start()
    service.kill9_daemon()
    asking.join()
    service.wait_ready()
    builder.api.close()
    builder.api = web.Client(service.tcp)
    assert output(builder.sandbox("whole"), "cat f0 f4") == "0\n4\n"
    collect(tenant)
    wait_stored(service, before + 1)
    tenant.delete("/v1/sandboxes", expect=200)
    assert builder.call("DELETE", "/templates/whole").status == 204
    collect(tenant)
    wait_stored(service, before)
