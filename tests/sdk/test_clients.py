# SPDX-License-Identifier: Apache-2.0
"""The official clients, unmodified, against our service.

    SDK_WRITE=1 writes docs/compatibility.md from what was found."""
import os
import pathlib
import subprocess
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
    text = clients.table(RESULTS)
    if os.environ.get("SDK_NEWEST"):
        print(text)
        return
    if set(RESULTS) != set(clients.listed()):
        pytest.skip("not all clients were run")
    if os.environ.get("SDK_WRITE"):
        clients.TABLE.write_text(text)
    assert clients.TABLE.read_text() == text, "SDK_WRITE=1 writes it anew"


def readme_lines():
    text = (clients.ROOT / "README.md").read_text()
    block = text.split("## Use it with the E2B SDK")[1].split("```")[1]
    return [line for line in block.splitlines() if line.startswith(("python3", "node"))]


@pytest.mark.parametrize("line", readme_lines(), ids=lambda line: line.split()[0])
def test_the_lines_of_the_readme_work(line, service, cert):
    kind = line.split()[0].replace("python3", "python").replace("node", "npm")
    client = next(c for c in clients.listed() if (c.kind, c.mode) == (kind, "url"))
    try:
        clients.install(client)
    except clients.Unavailable as why:
        pytest.skip(f"cannot be installed: {why}")
    env = clients.environment(client, service, service.key(), cert[0])
    env["PATH"] = f"{client.folder / 'bin'}:{env['PATH']}"
    done = subprocess.run(["sh", "-c", line], cwd=client.folder, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.strip() == "hello", done
