# SPDX-License-Identifier: Apache-2.0
"""Header rules and secrets of the official clients: what they ask for gets to the server, and the value nowhere else."""
import json
import os
import subprocess

import clients
import pytest
from reflector import Reflector, make_authority, make_cert
from service import Service
from world import OTHER, PUBLIC, World

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root")
KINDS = ("python", "npm")
VALUE, NEXT = "sdk-live-value-0815", "sdk-next-value-4711"
# Each prints what curl saw inside, step by step, as one JSON object.
PROGRAMS = {
    "python": r"""
import json, sys
from e2b import Sandbox, Secret
value, newer = sys.argv[1:]
Secret.create("sdk-key", value)
def rules(**headers):
    return {"api.example.com": [{"transform": {"headers": headers}}]}
named = {"deny_out": ["0.0.0.0/0"], "allow_out": lambda ctx: list(ctx.rules)}
bearer = {"Authorization": "Bearer " + Secret.fill("sdk-key")}
box = Sandbox.create("host", network={**named, "rules": rules(**bearer, **{"X-Team": "blue"})})
def curl(path, host="api.example.com"):
    return box.commands.run(f"curl -sS -m 20 -H 'Authorization: mine' https://{host}/{path} 2>&1 || true").stdout
said = {"first": curl("first"), "elsewhere": curl("elsewhere", "other.com")}
said["environment"] = box.commands.run("env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'").stdout
Secret.update("sdk-key", newer)
said["rotated"] = curl("rotated")
box.update_network({**named, "rules": rules(**{"X-Other": "2"})})
said["updated"] = curl("updated")
try:
    box.update_network({**named, "rules": rules(**{"X-None": Secret.fill("sdk-none")})})
except Exception as e:
    said["refused"] = str(e)
said["kept"] = curl("kept")
box.kill()
Secret.destroy("sdk-key")
print(json.dumps(said))
""",
    "npm": r"""
const {Sandbox, Secret} = require("e2b");
(async () => {
  const [value, newer] = process.argv.slice(1);
  await Secret.create("sdk-key", value);
  const rules = headers => ({"api.example.com": [{transform: {headers}}]});
  const named = {denyOut: ["0.0.0.0/0"], allowOut: ({rules}) => [...rules.keys()]};
  const bearer = {Authorization: "Bearer " + Secret.fill("sdk-key")};
  const box = await Sandbox.create("host", {network: {...named, rules: rules({...bearer, "X-Team": "blue"})}});
  const curl = async (path, host = "api.example.com") => (await box.commands.run(
    `curl -sS -m 20 -H 'Authorization: mine' https://${host}/${path} 2>&1 || true`)).stdout;
  const said = {first: await curl("first"), elsewhere: await curl("elsewhere", "other.com")};
  said.environment = (await box.commands.run("env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'")).stdout;
  await Secret.update("sdk-key", newer);
  said.rotated = await curl("rotated");
  await box.updateNetwork({...named, rules: rules({"X-Other": "2"})});
  said.updated = await curl("updated");
  try { await box.updateNetwork({...named, rules: rules({"X-None": Secret.fill("sdk-none")})}); }
  catch (e) { said.refused = String(e); }
  said.kept = await curl("kept");
  await box.kill();
  await Secret.destroy("sdk-key");
  console.log(JSON.stringify(said));
})();
""",
}


class Place:
    pass


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    p, folder = Place(), tmp_path_factory.mktemp("authority")
    make_authority(folder, "good")
    with World() as world:
        world.names.update({"api.example.com": [PUBLIC], "other.com": [OTHER]})
        p.api, p.other = (Reflector(make_cert(folder, "good", name)) for name in ("api.example.com", "other.com"))
        world.serve(PUBLIC, 443, p.api)
        world.serve(OTHER, 443, p.other)
        with Service(pool=1, gate=world.settings(ca_file=f"{folder}/good.pem")) as p.service:
            yield p


def run(place, kind):
    client = clients.first(kind, "url")
    try:
        clients.install(client)
    except (clients.Unavailable, subprocess.TimeoutExpired) as why:
        pytest.skip(f"cannot be installed: {why}")
    org, _ = place.service.tenant(f"rules-{kind}")
    argv = ([client.folder / "bin" / "python", "-c"] if client.is_python else ["node", "-e"]) + [PROGRAMS[kind], VALUE, NEXT]
    done = subprocess.run(argv, env=clients.environment(client, place.service, place.service.key(org=org), {}), timeout=100,
                          cwd=client.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", KINDS)
def test_headers_of_a_clients_rules_are_added_on_the_way(place, kind):
    inside = run(place, kind)
    outside = {request.split(b" ")[1].decode().strip("/"): request.decode() for request in place.api.take()}
    assert set(outside) == {"first", "rotated", "updated", "kept"}
    assert f"Authorization: Bearer {VALUE}\r\nX-Team: blue\r\n" in outside["first"] and "mine" not in outside["first"]
    assert f"Authorization: Bearer {NEXT}\r\n" in outside["rotated"]
    for path in ("updated", "kept"):  # a change that was refused changes nothing
        assert "Authorization: mine\r\n" in outside[path] and "X-Other: 2\r\n" in outside[path]
    assert "Bearer ****" in inside["first"] and "sdk-none" in inside["refused"]
    assert not place.other.take() and "HTTP" not in inside["elsewhere"]
    for text in inside.values():
        assert VALUE not in text and NEXT not in text
