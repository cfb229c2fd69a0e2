# SPDX-License-Identifier: Apache-2.0
"""The gate around a sandbox of tier gvisor: its "host network" is a namespace with nothing but the gate."""
import json

import pytest
from gatebox import Box
from service import Service, wait_for
from world import OTHER, PRIVATE, PUBLIC

# Tries until it is told to end; what came of it, each kind once.
LOAD = f"""
import os, socket
outcomes = set()
def attempt(host, say):
    try:
        s = socket.create_connection((host, 7), 5); s.settimeout(5)
        s.sendall(say); outcomes.add(s.recv(9).decode() or "end"); s.close()
    except OSError as e: outcomes.add(type(e).__name__)
while not os.path.exists("/tmp/enough"):
    attempt("example.com", b"abc"); attempt("{OTHER}", b"leak"); attempt("other.com", b"leak")
    print(sorted(outcomes), flush=True)
"""


@pytest.fixture(scope="module")
def service(gate_world):
    with Service(pool=0, gate=gate_world.settings(), tables={"gvisor": {"runtime": "runsc"}}) as made:
        yield made


@pytest.fixture
def box(service):
    made = Box(service, {"mode": "filtered", "allow": ["example.com", f"{PUBLIC}:7", f"udp:{PUBLIC}:123"]}, tier="gvisor")
    yield made
    made.remove()


def test_a_gvisor_sandbox_reaches_what_is_allowed_and_nothing_else(box):
    assert box.op.get(f"/v1/sandboxes/{box.id}", expect=200)["tier"] == "gvisor"
    assert box.tries(["tcp", "example.com", 7, "by name"], ["tcp", PUBLIC, 7, "by address"], ["udp", PUBLIC, 123, "q"],
                     ["name", "other.com"], ["tcp", OTHER, 7, "x"], ["tcp", PRIVATE, 7, "x"], ["tcp", PUBLIC, 22, "x"],
                     ["udp", OTHER, 123, "x"]) == [
        "by name", "by address", ["+q", PUBLIC, 123], "gaierror"] + 3 * ["ConnectionResetError"] + ["TimeoutError"]
    row = box.logged(name="example.com", verdict="allowed", port=7)
    assert (row["address"], row["bytesOut"], row["bytesIn"]) == (PUBLIC, 7, 7)
    box.logged(address=OTHER, verdict="denied", port=7)
    box.set({"mode": "none"})  # from now on, and for what runs
    assert box.tries(["tcp", "example.com", 7, "x"], ["tcp", PUBLIC, 7, "x"])[1] in ("OSError", "ConnectionResetError", "ConnectionRefusedError")


def test_a_gvisor_sandbox_reaches_nothing_while_the_gate_is_gone(service, box):
    run = box.op.post(f"/v1/sandboxes/{box.id}/exec", {"argv": ["python3", "-c", LOAD], "background": True}, expect=201)
    path = f"/v1/sandboxes/{box.id}/execs/{run['id']}/output"

    def told():
        rows = [json.loads(line) for line in box.op.get(path).body.decode().splitlines()]
        return "".join(row.get("data", "") for row in rows)
    wait_for(lambda: "abc" in told(), 60, "the first connection")
    for _ in range(2):
        old = service.gate_pid()
        service.kill9(old)
        wait_for(lambda: (pid := service.gate_pid()) and pid != old, what="another gate")
    wait_for(lambda: box.one("tcp", "example.com", 7, "back") == "back", 60, "the way back")
    box.run("touch", "/tmp/enough")
    wait_for(lambda: '"complete":true' in box.op.get(path).body.decode(), 60, "the end of the load")
    assert "abc" in told() and "leak" not in told(), told()
