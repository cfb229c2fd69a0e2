# SPDX-License-Identifier: Apache-2.0
"""The official clients behind each wall, which they choose by metadata."""
import os
import subprocess

import clients
import dockerd
import pytest
from service import Service

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
KINDS = ("python", "npm")
KERNELS = {"cell": os.uname().release, "docker": os.uname().release, "gvisor": "4.4.0"}  # who answers uname inside
PROGRAMS = {
    "python": """
import sys
from e2b import Sandbox
box = Sandbox.create("host", metadata={"sandglass.tier": sys.argv[1]})
box.files.write("/tmp/f", "kept")
print(box.commands.run("cat /tmp/f; echo; uname -r").stdout)
box.kill()
""",
    "npm": """
const {Sandbox} = require("e2b");
(async () => {
  const box = await Sandbox.create("host", {metadata: {"sandglass.tier": process.argv[1]}});
  await box.files.write("/tmp/f", "kept");
  console.log((await box.commands.run("cat /tmp/f; echo; uname -r")).stdout);
  await box.kill();
})();
""",
}


@pytest.fixture(scope="module")
def service():
    with dockerd.Engine() as engine:
        engine.import_tiny()
        with Service(pool=1, settings={"pool": ["base=0", "host=1", "gvisor:host=1", "docker:host=1"]},
                     tables={"gvisor": {"runtime": "runsc"},
                             "docker": {"socket": engine.socket, "image": "tiny", "pull": False}}) as own:
            yield own


@pytest.mark.parametrize("tier", KERNELS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_client_runs_behind_the_wall_that_it_asks_for(service, kind, tier):
    client = clients.first(kind, "url")
    try:
        clients.install(client)
    except (clients.Unavailable, subprocess.TimeoutExpired) as why:
        pytest.skip(f"cannot be installed: {why}")
    argv = ([client.folder / "bin" / "python", "-c", PROGRAMS[kind], tier] if client.is_python
            else ["node", "-e", PROGRAMS[kind], tier])
    done = subprocess.run(argv, env=clients.environment(client, service, service.key(), {}), cwd=client.folder, timeout=100,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and done.stdout.split() == ["kept", KERNELS[tier]], done.stdout
