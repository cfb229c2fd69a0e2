# SPDX-License-Identifier: Apache-2.0
"""For the tests of the service: one that they share, and callers of it.

  service   shared by all tests of a run that break nothing of it
  tenant    a client with all scopes, of an organisation made for this test
  box       a running sandbox of that tenant
  key       of that tenant, for reading and running
  sandbox   a running one, through the E2B door
  engine    a Docker Engine of our own, with the image `tiny`
"""
import os

import dockerd
import e2b_door
import pytest
from service import Box, Service


@pytest.fixture(scope="session")
def service():
    if os.getuid() != 0:
        pytest.skip("needs root")
    with Service(pool=3, settings={"journal": "1m", "log_level": "debug"}) as shared:
        shared.wait_parked()
        yield shared


@pytest.fixture(scope="session")
def engine():
    if not dockerd.is_there():
        pytest.skip("needs root and dockerd")
    with dockerd.Engine() as own:
        own.import_tiny()
        yield own


@pytest.fixture
def tenant(service, request):
    org, client = service.tenant(request.node.name)
    client.org = org
    yield client
    client.delete("/v1/sandboxes", expect=200)
    for volume in client.get("/v1/volumes", expect=200)["volumes"]:
        client.delete(f"/v1/volumes/{volume['id']}", expect=204)
    assert client.get("/v1/sandboxes", expect=200)["sandboxes"] == []
    assert client.get(f"/v1/orgs/{org}", expect=200)["inUse"] == {
        "sandboxes": 0, "memoryBytes": 0, "cpus": 0, "diskBytes": 0}
    client.close()
    service.operator.delete(f"/v1/orgs/{org}", expect=204)
    report = service.operator.post("/v1/reconcile", expect=200)
    found = {name: report[name] for name in ("lost", "orphans", "staleJournals", "unknownExecs")}
    assert not any(found.values()), found


@pytest.fixture
def box(tenant):
    return Box(tenant)


@pytest.fixture
def key(service, tenant):
    return service.key(org=tenant.org, scopes=["read", "exec"])


@pytest.fixture
def sandbox(service, key):
    made = e2b_door.Sandbox(service, key)
    yield made
    made.kill()
