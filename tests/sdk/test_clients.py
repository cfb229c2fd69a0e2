# SPDX-License-Identifier: Apache-2.0
"""The official clients, unmodified, against our service.

    SDK_WRITE=1 writes docs/compatibility.md from what was found."""
import concurrent.futures
import contextlib
import os
import pathlib
import socket
import subprocess
import threading

import built_template
import clients
import pytest
from service import Service
from socks import Proxy
from world import Server

RESULTS = {}
AT_ONCE = 3
ALL_SECONDS = 900  # to install and run all
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


class Far:
    """A server that greets, on an address of this machine that is not loopback's: what sandboxes reach, or not.
    A machine of its own needs one, and so has one; no packet is sent to find it."""

    def __init__(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))
            self.address = probe.getsockname()[0]
        self.sock = socket.create_server((self.address, 0))
        self.port = self.sock.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()
        # A proxy of SOCKS 5, with a login, that says of itself where it leads.
        proxy = Proxy(lambda *_: socket.create_connection(self.marked.getsockname(), 10), ("sdk", "proxy-password"))
        self.marked = socket.create_server((self.address, 0))
        threading.Thread(target=self.run, args=(self.marked, b"*"), daemon=True).start()
        self.proxy = Server(socket.create_server((self.address, 0)), proxy)
        self.proxy_port = self.proxy.sock.getsockname()[1]

    def run(self, sock=None, word=b"+"):
        with contextlib.suppress(OSError):
            while True:
                conn, _ = (sock or self.sock).accept()
                with conn:
                    conn.sendall(word)

    def close(self):
        self.proxy.close()
        for sock in (self.sock, self.marked):
            sock.shutdown(socket.SHUT_RDWR)
            sock.close()


def serve(pool, has_tls):
    """A service whose clients get the template that they name by themselves."""
    with contextlib.ExitStack() as stack:
        try:
            far = Far()
        except OSError as why:
            pytest.skip(f"this machine has no address but loopback's, and so no registry: {why}")
        stack.callback(far.close)
        try:
            service = Service(pool=pool, template="base", gate={"permit": [f"{far.address}/32"]})
            service.far = f"{far.address} {far.port}"
            service.proxy = f"{far.address}:{far.proxy_port}"
            service.trust = clients.authority(service) if has_tls else {}
            stack.enter_context(service)
        except built_template.Unavailable as why:
            pytest.skip(f"no template 'base': {why}")
        service.wait_parked()
        yield service


@pytest.fixture(scope="module")
def service():
    yield from serve(4, True)


@pytest.fixture(scope="module")
def plain_service():
    yield from serve(1, False)


def try_client(client, service, key):
    """(what was found, what it said, its status), or why it cannot be had."""
    try:
        clients.install(client)
        return clients.run(client, service, key, service.trust, "base")
    except (clients.Unavailable, subprocess.TimeoutExpired) as why:
        return why


@pytest.fixture(scope="module")
def outcomes(request, service):
    """{client: (its organisation's caller, what came of it)} of those that are tested. A client mostly
    waits, so several run at once; all have ended before the first test looks for what is left."""
    params = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    tested = [p["client"] for p in params if "client" in p]
    tenants = [service.tenant(str(client)) for client in tested]
    keys = [service.key(org=org) for org, _ in tenants]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda client, key: try_client(client, service, key), tested, keys)
        yield dict(zip(tested, zip((caller for _, caller in tenants), list(found))))


@pytest.mark.timeout(ALL_SECONDS)
@pytest.mark.parametrize("client", clients.listed(), ids=str)
def test_client(client, outcomes):
    caller, outcome = outcomes[client]
    if isinstance(outcome, clients.Unavailable):
        pytest.skip(f"cannot be installed: {outcome}")
    assert not isinstance(outcome, Exception), f"{outcome}: {outcome.stdout}"
    found, said, status = outcome
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
    """(the line that sets the environment, then a program), as they stand and with the default template."""
    text = (clients.ROOT / "README.md").read_text()
    first, *programs = text.split("## Use it with the E2B SDK")[1].split("```")[1].strip().splitlines()
    return [f"{first}\n{line}" for program in programs for line in (program, program.replace('"host"', ""))]


@pytest.mark.parametrize("lines", readme_lines(), ids=lambda lines: lines.split("\n")[1].split("(")[0].split()[0])
def test_the_lines_of_the_readme_work(lines, plain_service):
    kind = "python" if "python3 " in lines else "npm"
    client = clients.first(kind, "url")
    try:
        clients.install(client)
    except clients.Unavailable as why:
        pytest.skip(f"cannot be installed: {why}")
    programs = (client.folder / "bin", pathlib.Path(plain_service.binary).parent)
    env = {"PATH": ":".join([*map(str, programs), os.environ["PATH"]]), "HOME": str(client.folder),
           "SANDGLASS_CONFIG": str(plain_service.config), "SANDGLASS_API_KEY": plain_service.key()}
    done = subprocess.run(["sh", "-ec", lines], cwd=client.folder, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.strip() == "hello", done
