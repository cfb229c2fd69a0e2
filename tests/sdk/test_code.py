# SPDX-License-Identifier: Apache-2.0
"""The official clients of the code interpreter, unmodified, against kernels of the repository in a `host` sandbox.

The template itself has the same kernels; what it takes to build it is not for this suite."""
import os
import subprocess

import clients
import kernels
import pytest
import web
from service import Service

LISTED = [clients.Client("python", "e2b-code-interpreter", "2.11.5", "url"), clients.Client("npm", "@e2b/code-interpreter", "2.8.0", "url")]
if os.environ.get("SDK_NEWEST"):
    LISTED = [clients.Client(c.kind, c.package, clients.newest(c.kind, c.package), c.mode) for c in LISTED]
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


@pytest.fixture(scope="module")
def service():
    with Service(pool=2) as shared:
        shared.wait_parked()
        yield shared


@pytest.mark.parametrize("client", LISTED, ids=str)
def test_code_interpreter(client, service):
    try:
        clients.install(client)
    except clients.Unavailable as why:
        pytest.skip(f"cannot be installed: {why}")
    org, caller = service.tenant("code")
    key = service.key(org=org)
    api = web.Client(service.tcp)
    made = api.post("/v2/sandboxes", {"templateID": "host", "timeout": 600}, headers={"X-API-Key": key}, expect=201)
    api.close()
    kernels.install(caller, made["sandboxID"])
    script = [client.folder / "bin" / "python", clients.HERE / "code.py"] if client.is_python else ["node", clients.HERE / "code.mjs", client.folder]
    done = subprocess.run([*script, made["sandboxID"]], env=clients.environment(client, service, key, None), timeout=clients.RUN_SECONDS,
                          cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and "\nok " in done.stdout and "not ok" not in done.stdout, done.stdout
    assert caller.get("/v1/sandboxes", expect=200)["sandboxes"] == []
    caller.close()
