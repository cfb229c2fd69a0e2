# SPDX-License-Identifier: Apache-2.0
"""The service as an ordinary user: it works, and what is not enforced there is named."""
import pytest
from service import Box, Service


@pytest.fixture
def service_of(user):
    user.home.chmod(0o755)
    with Service(runner=user, pool=1) as service:
        yield service


def test_a_users_own_service_works(service_of):
    box = Box(service_of.operator)
    assert box.sh("id -u; echo hi")["stdout"] == "1000\nhi\n"
    box.write("/workspace/f", b"x" * 100000)
    assert box.read("/workspace/f") == b"x" * 100000
    run = box.spawn("sleep 1000")["id"]
    service_of.client(service_of.key()).delete(f"{box.path}/execs/{run}", expect=204)
    assert box.wait(run)["state"] == "ended"
    assert box.destroy().status == 204


def test_what_is_not_enforced_is_listed(service_of, root):
    box = Box(service_of.operator)
    assert set(box.made["unenforced"]) <= {"memory", "cpu", "pids"}
    assert box.made["unenforced"] or "memoryLimitBytes" in service_of.operator.get(f"{box.path}/stats", expect=200)
    reply = service_of.operator.post(f"{box.path}/pause")
    assert reply.status in (200, 501)
    if reply.status == 501:
        assert reply.error["kind"] == "unsupported" and reply.error["message"]
        assert box.sh("echo still")["stdout"] == "still\n"


def test_it_survives_its_daemon(service_of):
    box = Box(service_of.operator)
    run = box.spawn("i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo $i; sleep 0.01; done")["id"]
    service_of.kill9_daemon()
    service_of.wait_ready()
    assert box.wait(run)["exitCode"] == 0
    assert box.output(run) == b"".join(b"%d\n" % n for n in range(1, 51))


def test_only_its_user_is_its_operator(service_of):
    assert service_of.operator.get("/v1/whoami", expect=200)["operator"] is True
    assert service_of.client().get("/v1/sandboxes").status == 401
