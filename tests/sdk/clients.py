# SPDX-License-Identifier: Apache-2.0
"""Installing and running the clients of versions.txt, and the table of what each can do."""
import dataclasses
import fcntl
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
INSTALLED = ROOT / "build-check" / "sdk"
TABLE = ROOT / "docs" / "compatibility.md"
DOMAIN = "sandglass.localhost"
INSTALL_SECONDS, RUN_SECONDS = 300, 240

HEAD = """# Compatibility with E2B clients

Written by `tests/sdk`, which installs each of these versions and runs it against the service; not by
hand. "yes": the check passed. "–": this version of the client has no such call. Empty: the check is not
in this client's script. How a client finds the server: `url` by `E2B_API_URL` and `E2B_SANDBOX_URL`,
`domain` by `E2B_DOMAIN`, over TLS.

"""


class Unavailable(Exception):
    """There is no registry to install from."""


@dataclasses.dataclass(frozen=True)
class Client:
    kind: str
    package: str
    version: str
    mode: str

    def __str__(self):
        return f"{self.kind}-{self.package.replace('/', '-')}-{self.version}-{self.mode}"

    @property
    def title(self):
        return f"{self.kind} {self.version} {self.mode}"

    @property
    def is_python(self):
        return self.kind.startswith("python")

    @property
    def folder(self):
        kind = "python" if self.is_python else "npm"
        return INSTALLED / f"{kind}-{self.package.replace('/', '-')}-{self.version}"


def pinned():
    lines = (HERE / "versions.txt").read_text().splitlines()
    return [Client(*line.split()) for line in lines if line.strip() and not line.startswith("#")]


@functools.cache
def newest(kind, package):
    if kind != "python":
        return subprocess.run(["npm", "view", package, "version"], capture_output=True, text=True, check=True).stdout.strip()
    with urllib.request.urlopen(f"https://pypi.org/pypi/{package}/json", timeout=30) as reply:
        return json.load(reply)["info"]["version"]


@functools.cache
def listed():
    """Those that are pinned; with SDK_NEWEST=1 what the registries have now, once of each kind and way."""
    if not os.environ.get("SDK_NEWEST"):
        return pinned()
    found = [Client(c.kind, c.package, newest(c.kind.split("-")[0], c.package), c.mode) for c in pinned()]
    return list(dict.fromkeys(found))


def call(argv, **kw):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=INSTALL_SECONDS, **kw)
    if done.returncode:
        raise Unavailable((done.stderr or done.stdout).strip()[-400:])


def install(client):
    """Once, whoever comes first, in this process or another: what was completed has a mark."""
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with open(f"{client.folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (client.folder / "ready").exists():
            install_anew(client)


def install_anew(client):
    shutil.rmtree(client.folder, ignore_errors=True)
    client.folder.mkdir()
    if client.is_python:
        call(["/usr/bin/python3", "-m", "venv", client.folder])
        call([client.folder / "bin" / "pip", "install", "--quiet", f"{client.package}=={client.version}"])
    else:
        (client.folder / "package.json").write_text("{}")
        call(["npm", "install", "--no-audit", "--no-fund", f"{client.package}@{client.version}"], cwd=client.folder)
    (client.folder / "ready").touch()


def first(kind, mode):
    """The one of its kind that is pinned first, which is the newest."""
    return next(c for c in listed() if (c.kind, c.mode) == (kind, mode))


def authority(service):
    """Makes the service's certificate, before its start; the variables that clients are told to set."""
    done = service.runner.sandglass("tls", "init", "--domain", DOMAIN, "--json", env={"SANDGLASS_CONFIG": str(service.config)})
    assert done.returncode == 0, done
    return json.loads(done.stdout)["environment"]


def environment(client, service, key, trust):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("E2B_", "PYTHON", "NODE_"))}
    env["E2B_API_KEY"] = key
    env["SDK_FAR"] = getattr(service, "far", "")
    env["SDK_PROXY"] = getattr(service, "proxy", "")
    if client.mode == "domain":
        env.update(trust, E2B_DOMAIN=f"{DOMAIN}:{service.port}", NODE_OPTIONS=f"-r {HERE / 'names.cjs'}",
                   PYTHONPATH=str(HERE / "names"))
    else:
        url = f"http://127.0.0.1:{service.port}"
        env.update(E2B_API_URL=url, E2B_SANDBOX_URL=url)
    return env


def run(client, service, key, trust, template):
    """{check: "ok" | "not ok" | "skip"}, and all that was printed."""
    if client.is_python:
        script = {"python": "client.py", "python-async": "client_async.py"}[client.kind]
        argv = [client.folder / "bin" / "python", HERE / script, template]
    elif client.kind == "cli":
        argv = ["/usr/bin/python3", HERE / "client_cli.py", client.folder, template]
    else:
        argv = ["node", HERE / "client.mjs", client.folder, template]
    done = subprocess.run(argv, env=environment(client, service, key, trust), timeout=RUN_SECONDS, cwd="/",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    rows = re.findall(r"^(ok|not ok|skip) ([^:\n]+)", done.stdout, re.M)
    return {name.replace("_", " "): outcome for outcome, name in rows}, done.stdout, done.returncode


def table(results):
    """`results`: {Client: {check: outcome}}. One row a check, one column a client."""
    clients = list(results)
    names = []
    for row in results.values():
        names += [name for name in row if name not in names]
    lines = ["| | " + " | ".join(client.title for client in clients) + " |",
             "|---|" + "---|" * len(clients)]
    for name in names:
        cells = ({"ok": "yes", "skip": "–", None: ""}.get(results[c].get(name), "no") for c in clients)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":  # clients.py KIND MODE: installs the newest, prints where it is
    wanted = first(*sys.argv[1:])
    try:
        install(wanted)
    except Unavailable as why:
        sys.exit(f"{wanted.title} cannot be installed: {why}")
    print(wanted.folder)
