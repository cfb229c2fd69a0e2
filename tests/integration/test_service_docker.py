# SPDX-License-Identifier: Apache-2.0
"""What is the tier docker's own, behind the service's doors, with a Docker Engine of our own. What every tier can do is in
test_service_tiers.py."""
import signal

import pytest
from dockerd import tiny_tar
from service import Box, Service, wait_for

SMALL = tiny_tar(("sh", "bash", "cat", "head", "id", "stat"), has_python=False)


def serve(engine):
    return Service(pool=0, settings={"pool": ["base=0", "host=0", "docker:host=1"]},
                   tables={"docker": {"socket": engine.socket, "image": "tiny", "images": ["tiny:*"], "pull": False}})


@pytest.fixture(scope="module")
def service(engine):
    with serve(engine) as own:
        yield own
    assert left(engine, own) == []


@pytest.fixture
def box(service):
    made = Box(service.operator, {"tier": "docker"})
    yield made
    made.destroy()


def left(engine, service):
    """Names of containers of that service."""
    return [row["Names"] for row in engine.containers() if row["Labels"].get("sandglass.service") == str(service.run)]


def parked(service):
    return sum(row["parked"] for row in service.operator.get("/v1/pool", expect=200)["pool"]
               if row["template"] == "docker:host")


def test_a_parked_container_is_claimed_with_its_limits(service, engine):
    wait_for(lambda: parked(service), 120, "a parked container")
    box = Box(service.operator, {"tier": "docker", "limits": {"memoryBytes": 96 << 20, "pids": 20, "diskBytes": 4 << 20}})
    assert box.made["tier"] == "docker" and box.made["wasParked"] and box.made["user"] == "user"
    ran = box.sh("id -u; pwd; dd if=/dev/zero of=/workspace/x bs=1M count=8 2>/dev/null || stat -c %s /workspace/x")
    assert ran["stdout"] == f"1000\n/workspace\n{4 << 20}\n"
    stats = box.client.get(f"{box.path}/stats", expect=200)
    assert stats["memoryLimitBytes"] == 96 << 20 and stats["diskUsedBytes"] == 4 << 20 and stats["pids"] >= 1
    assert box.sh("for i in $(seq 40); do sleep 60 & done; wait")["exitCode"] != 0
    box.client.patch(box.path, {"limits": {"memoryBytes": 128 << 20}}, expect=200)
    assert box.client.get(f"{box.path}/stats", expect=200)["memoryLimitBytes"] == 128 << 20
    assert box.destroy().status == 204


def test_it_stands_still_and_goes_on(box):
    run = box.spawn("while :; do echo x >> /workspace/beat; sleep 0.01; done")
    wait_for(lambda: box.sh("stat -c %s /workspace/beat")["stdout"].strip() not in ("", "0"))
    assert box.client.post(f"{box.path}/pause", expect=200)["state"] == "paused"
    assert box.client.post(f"{box.path}/resume", expect=200)["state"] == "running"
    size = int(box.sh("stat -c %s /workspace/beat")["stdout"])
    wait_for(lambda: int(box.sh("stat -c %s /workspace/beat")["stdout"]) > size)
    box.client.delete(f"{box.path}/execs/{run['id']}")


def test_its_network_is_the_gates(service):
    box = Box(service.operator, {"tier": "docker", "network": {"mode": "filtered", "allow": ["example.com:443"]}})
    box.exec("bash", "-c", "exec 3<>/dev/tcp/192.0.2.1/80; head -c 1 <&3")
    seen = wait_for(lambda: box.client.get(f"{box.path}/connections", expect=200)["connections"])
    assert (seen[0]["address"], seen[0]["port"], seen[0]["verdict"]) == ("192.0.2.1", 80, "denied"), seen
    box.destroy()


def test_a_volume_is_shown_inside(service):
    volume = service.operator.post("/v1/volumes", {"name": "for-docker", "bytes": 16 << 20}, expect=201)
    try:
        for script, said in (("echo kept > /workspace/v/x; id -u", "1000\n"), ("cat /workspace/v/x", "kept\n")):
            box = Box(service.operator, {"tier": "docker", "mounts": [{"volume": volume["id"], "path": "/workspace/v"}]})
            assert box.sh(script)["stdout"] == said
            box.destroy()
    finally:
        service.operator.delete(f"/v1/volumes/{volume['id']}", expect=204)


def test_snapshots_are_refused_with_the_reason(box):
    reply = box.client.post(f"{box.path}/snapshots", {"name": "x"})
    assert reply.status == 501 and "tier docker" in str(reply.json), reply


def test_the_router_takes_it_for_parallel_and_long_work(service):
    for operation in ("parallel_agents", "bulk_scan", "long_running"):
        assert service.operator.post("/v1/route", {"operation": operation}, expect=200)["tier"] == "docker"
    assert service.operator.post("/v1/route", {"operation": "parse_document"}, expect=200)["tier"] != "docker"
    done = service.operator.post("/v1/run", {"operation": "bulk_scan", "cmd": "cat /proc/1/comm; ls -d /.sandglass"},
                                 expect=200)
    assert (done["tier"], done["stdout"]) == ("docker", "sandglass-init\n/.sandglass\n")


def test_it_survives_the_death_of_daemon_launcher_and_keeper(service, engine):
    box = Box(service.operator, {"tier": "docker", "env": {"GREETING": "hello"}})
    run = box.spawn("while ! [ -e /workspace/go ]; do sleep 0.02; done; echo after")
    for kill in (service.kill9_daemon, service.kill9_launcher,
                 lambda: service.kill9(wait_for(lambda: service.find(service.launcher_pid(), "sandglass-keeper")))):
        kill()
        service.wait_ready()
        assert box.sh("echo $GREETING; id -un")["stdout"] == "hello\nuser\n"
    box.sh("touch /workspace/go")
    assert box.wait(run["id"])["exitCode"] == 0
    assert box.output(run["id"]) == b"after\n"

    def another():
        made = service.operator.post("/v1/sandboxes", {"tier": "docker"})
        return made.status == 201 and service.operator.delete(f"/v1/sandboxes/{made.json['id']}").status == 204
    wait_for(another, 60, "a keeper that was started anew")
    assert box.destroy().status == 204
    wait_for(lambda: len(left(engine, service)) <= 1, 60, "the end of all but the parked one")


def test_images_are_named_where_the_settings_permit_it(service):
    def refused(template, status, words, tier="docker"):
        reply = service.operator.post("/v1/sandboxes", {"tier": tier, "template": template})
        assert reply.status == status and words in str(reply.json), reply

    named = Box(service.operator, {"tier": "docker", "template": "tiny:latest"})
    assert (named.made["template"], named.sh("id -u")["stdout"]) == ("tiny:latest", "1000\n")
    named.destroy()
    refused("tiny:other", 404, "no image 'tiny:other'")
    refused("nothing", 404, "no image 'nothing'")
    refused("elsewhere.example/tiny:latest", 403, "docker.images")
    refused("tiny:latest", 400, "tier docker", tier="cell")
    refused("../x", 400, "image")
    assert service.operator.get("/v1/sandboxes", expect=200)["sandboxes"] == []


def ours(engine, service):
    """Images that are templates of that service, by name, and how many have none."""
    rows = engine.call("GET", "/images/json")[1]
    mine = [row for row in rows if (row["Labels"] or {}).get("sandglass.service") == str(service.run)]
    names = [tag for row in mine for tag in row["RepoTags"] or [] if tag != "<none>:<none>"]
    return sorted(names), len(mine) - len(names)


def test_a_template_of_ours_is_imported_at_its_first_use_and_goes_with_it(service, engine, tmp_path):
    def template(*words):
        done = service.runner.sandglass("template", *words, env={"SANDGLASS_STATE_DIR": str(service.state)})
        assert done.returncode == 0, done.stderr

    def run(script):
        box = Box(service.operator, {"tier": "docker", "template": "own"})
        assert box.made["template"] == "own"
        said = box.sh(script)["stdout"]
        box.destroy()
        return said

    archive = tmp_path / "own.tar"
    archive.write_bytes(SMALL)
    template("import", "own", str(archive))
    assert run("id -un; cat /etc/passwd | head -1; stat -c %u /home/user") == "user\nroot:x:0:0:root:/root:/bin/bash\n1000\n"
    (first,), nameless = ours(engine, service)
    assert first.startswith("sandglass-template:own-") and nameless == 0
    boxes = [Box(service.operator, {"tier": "docker", "template": "own"}) for _ in range(2)]
    assert ours(engine, service) == ([first], 0), "it is imported once"
    template("import", "--force", "own", str(archive))  # built anew: another one, whatever is in it
    assert run("id -u") == "1000\n"
    assert len(ours(engine, service)[0]) == 2, "what has containers stays"
    for box in boxes:
        box.destroy()
    wait_for(lambda: len(ours(engine, service)[0]) == 1 and first not in ours(engine, service)[0], 60, "the end of the old one")
    template("rm", "own")
    wait_for(lambda: ours(engine, service) == ([], 0), 60, "the end of the image")
    refused = service.operator.post("/v1/sandboxes", {"tier": "docker", "template": "own"})
    assert refused.status == 404 and "no image 'own'" in str(refused.json), refused


def test_an_import_that_was_cut_off_leaves_no_image(service, engine, tmp_path):
    """Whoever imported it is gone: it has our label and no name."""
    status, answer = engine.call("POST", f"/images/create?fromSrc=-&changes=LABEL%20sandglass.service%3D{service.run}",
                                 SMALL)
    assert status == 200 and ours(engine, service) == ([], 1), answer
    service.kill9(wait_for(lambda: service.find(service.launcher_pid(), "sandglass-keeper")))
    wait_for(lambda: ours(engine, service) == ([], 0), 60, "the end of the nameless image")


def test_without_an_engine_the_tier_is_refused_with_the_remedy():
    with Service(pool=0) as own:
        reply = own.operator.post("/v1/sandboxes", {"tier": "docker"})
        assert reply.status == 501 and "docker.socket" in str(reply.json), reply
        assert own.operator.post("/v1/route", {"operation": "bulk_scan"}, expect=200)["tier"] == "cell"


def test_sigterm_leaves_them_and_the_next_start_takes_them_over(service, box):
    box.sh("echo kept > /workspace/x")
    service.end(signal.SIGTERM)
    service.start()
    assert box.sh("cat /workspace/x")["stdout"] == "kept\n"


def test_an_engine_that_goes_is_told_and_one_that_comes_back_is_cleaned(service, engine):
    box = Box(service.operator, {"tier": "docker"})
    wait_for(lambda: parked(service), 120, "a parked container")
    engine.kill9()
    assert box.sh("echo still")["stdout"] == "still\n"

    def create():
        reply = service.operator.post("/v1/sandboxes", {"tier": "docker"})
        if reply.status == 201:
            service.operator.delete(f"/v1/sandboxes/{reply.json['id']}", expect=204)
        return reply

    told = wait_for(lambda: (lambda r: r if r.status == 503 else None)(create()))
    assert "no Docker Engine answers at" in str(told.json), told
    assert box.destroy().status == 204
    engine.start()
    wait_for(lambda: create().status == 201, 120, "a create")
    wait_for(lambda: len(left(engine, service)) <= 1, 60, "the end of all but the parked one")
