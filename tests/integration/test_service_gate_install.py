# SPDX-License-Identifier: Apache-2.0
"""Packages installed inside a sandbox that may reach their registry and nothing else.

The registries are those that this machine uses; where none answers, there is nothing to test."""
import ipaddress
import re
import socket
import subprocess
import urllib.parse
import urllib.request

import pytest

from gatebox import Box
from service import Service, wait_for

AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
PACKAGE = "six"
MODULE = "isarray"


def said(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    return done.stdout.strip() if done.returncode == 0 else ""


def fetch(url):
    with urllib.request.urlopen(url, timeout=20) as reply:
        return reply.read().decode()


def registries():
    """{what: (its address, the names that it needs)} of those that answer."""
    found = {}
    index = said("/usr/bin/python3", "-m", "pip", "config", "get", "global.index-url") or "https://pypi.org/simple"
    npm = said("npm", "config", "get", "registry") or "https://registry.npmjs.org/"
    try:
        page = fetch(f"{index.rstrip('/')}/{PACKAGE}/")
        link = urllib.parse.urljoin(f"{index.rstrip('/')}/{PACKAGE}/", re.search(r'href="([^"#]+)', page)[1])
        found["pip"] = index, {urllib.parse.urlsplit(u).hostname for u in (index, link)}
    except (OSError, TypeError):
        pass
    try:
        tarball = re.search(r'"tarball": *"([^"]+)"', fetch(f"{npm.rstrip('/')}/{MODULE}/latest"))[1]
        found["npm"] = npm, {urllib.parse.urlsplit(u).hostname for u in (npm, tarball)}
    except (OSError, TypeError):
        pass
    return found


@pytest.fixture(scope="module")
def found():
    return registries()


@pytest.fixture(scope="module")
def service(found):
    """A registry's mirror may have a private address: the settings then name it, as an operator would."""
    addresses = {info[4][0] for _, names in found.values() for name in names
                 for info in socket.getaddrinfo(name, 443, socket.AF_INET)}
    permit = [f"{a}/32" for a in sorted(addresses) if not ipaddress.ip_address(a).is_global]
    with Service(pool=1, gate={"permit": permit} if permit else {}) as made:
        yield made


COMMANDS = {
    "pip": ["python3", "-m", "pip", "install", "--no-cache-dir", "--disable-pip-version-check", "--retries", "0",
            "--timeout", "30", "--target", "/tmp/packages", "--index-url", "{index}", PACKAGE],
    "npm": ["npm", "install", "--prefix", "/tmp/modules", "--cache", "/tmp/npm", "--no-audit", "--no-fund",
            "--fetch-retries", "0", "--registry", "{index}", MODULE],
}
RESULTS = {"pip": f"/tmp/packages/{PACKAGE}.py", "npm": f"/tmp/modules/node_modules/{MODULE}/package.json"}


@pytest.mark.parametrize("what", sorted(COMMANDS))
def test_a_package_is_installed_with_its_registry_allowed_and_not_without(found, service, what):
    if what not in found:
        pytest.skip(f"no registry of {what} is reachable from here")
    index, names = found[what]
    box = Box(service, {"mode": "filtered", "allow": [f"{name}:443" for name in sorted(names)]})
    with open(AUTHORITIES, "rb") as file:
        service.operator.put(f"/v1/sandboxes/{box.id}/files", file.read(), query={"path": "/tmp/ca.crt"})
    run = {"argv": [word.format(index=index) for word in COMMANDS[what]], "timeoutMs": 100_000,
           "env": {"PIP_CERT": "/tmp/ca.crt", "NODE_EXTRA_CA_CERTS": "/tmp/ca.crt", "HOME": "/tmp"}}
    # Without its registry: it fails, and the record says why.
    box.set({"mode": "filtered", "allow": ["example.com"]})
    failed = service.operator.post(f"/v1/sandboxes/{box.id}/exec", run, expect=200)
    assert failed["exitCode"] != 0, failed
    refused = box.logged(verdict="denied", rule="no rule allows it")
    assert refused["name"] in names, refused
    box.set({"mode": "filtered", "allow": [f"{name}:443" for name in sorted(names)]})
    done = service.operator.post(f"/v1/sandboxes/{box.id}/exec", run, expect=200)
    assert done["exitCode"] == 0, done
    assert box.run("test", "-s", RESULTS[what])["exitCode"] == 0
    wait_for(lambda: {row["name"] for row in box.log() if row["verdict"] == "allowed"} >= {
        urllib.parse.urlsplit(index).hostname}, what="the record")
    assert {row["name"] for row in box.log() if row["verdict"] == "allowed"} <= names
    box.remove()
