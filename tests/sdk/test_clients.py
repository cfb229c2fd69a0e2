# SPDX-License-Identifier: Apache-2.0
"""The official clients, unmodified, against our service.

    SDK_WRITE=1 writes docs/compatibility.md from what was found."""
import os
import pathlib
import tempfile

import clients
import pytest
from service import Service

RESULTS = {}
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


@pytest.fixture(scope="module")
def place():
    with tempfile.TemporaryDirectory() as folder:
        yield pathlib.Path(folder)


@pytest.fixture(scope="module")
def cert(place):
    return clients.certificate(place)


@pytest.fixture(scope="module")
def service(cert):
    with Service(pool=4, settings={"tls_cert": str(cert[0]), "tls_key": str(cert[1])}) as shared:
        shared.wait_parked()
        yield shared


@pytest.mark.parametrize("client", clients.listed(), ids=str)
def test_client(client, service, cert):
    try:
        clients.install(client)
    except clients.Unavailable as why:
        pytest.skip(f"cannot be installed: {why}")
    org, caller = service.tenant(str(client))
    found, said, status = clients.run(client, service, service.key(org=org), cert[0], "host")
    RESULTS[client] = found
    assert status == 0 and found and "not ok" not in found.values(), said
    left = caller.get("/v1/sandboxes", expect=200)["sandboxes"]
    assert not left, left
    caller.close()


def test_the_published_table_is_what_was_found():
    if set(RESULTS) != set(clients.listed()):
        pytest.skip("not all clients were run")
    text = clients.table(RESULTS)
    if os.environ.get("SDK_WRITE"):
        clients.TABLE.write_text(text)
    assert clients.TABLE.read_text() == text, "SDK_WRITE=1 writes it anew"
