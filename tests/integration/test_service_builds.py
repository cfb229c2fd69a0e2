# SPDX-License-Identifier: Apache-2.0
"""Templates that are built through the service: steps, layers, files, start commands, tags, and what goes wrong."""
import hashlib
import io
import tarfile
import urllib.parse

import dockerd
import e2b_door
import pytest
import web
from service import Box, Service, wait_for

OVER = ("ready", "error")


class Builder:
    """What a client of this API does to build a template."""

    def __init__(self, service, key):
        self.service, self.key = service, key
        self.api = web.Client(service.tcp)

    def call(self, method, path, body=None, expect=None):
        return self.api.call(method, path, body, headers={"X-API-Key": self.key}, expect=expect)

    def create(self, name, **more):
        return self.call("POST", "/v3/templates", {"name": name, **more}, expect=202)

    def start(self, made, steps=(), **spec):
        spec = {"fromTemplate": "host", **spec} if "fromImage" not in spec else spec
        reply = self.call("POST", f"/v2/templates/{made['templateID']}/builds/{made['buildID']}",
                          {"steps": list(steps), "force": False, **spec})
        assert (reply.status, reply.body, reply.headers["Content-Length"]) == (202, b"", "0"), reply

    def status(self, made, offset=0):
        return self.call("GET", f"/templates/{made['templateID']}/builds/{made['buildID']}/status?logsOffset={offset}",
                         expect=200)

    def wait(self, made, state="ready"):
        found = wait_for(lambda: (s := self.status(made))["status"] in OVER and s, 60, "the build's end")
        assert found["status"] == state, found
        return found

    def log(self, made):
        lines, more = [], True
        while more:
            more = self.status(made, len(lines))["logEntries"]
            lines += more
        return [line["message"] for line in lines]

    def build(self, name, *steps, state="ready", **spec):
        made = self.create(name)
        self.start(made, steps, **spec)
        self.wait(made, state)
        return made

    def upload(self, made, files):
        """An archive with these {name: content}, as the client names it."""
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz") as tar:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(content), 0o640
                tar.addfile(info, io.BytesIO(content))
        digest = hashlib.sha256(data.getvalue()).hexdigest()
        where = self.call("GET", f"/templates/{made['templateID']}/files/{digest}", expect=201)
        assert where["present"] is False
        url = urllib.parse.urlsplit(where["url"])
        assert self.api.call("PUT", url.path, data.getvalue()).status == 200
        assert self.call("GET", f"/templates/{made['templateID']}/files/{digest}", expect=201)["present"] is True
        return digest

    def sandbox(self, name):
        return e2b_door.Sandbox(self.service, self.key, templateID=name)


def step(kind, *args, **more):
    return {"type": kind, "args": list(args), "force": False, **more}


def output(box, script, **more):
    frames = box.run(script, **more)
    import base64
    return b"".join(base64.b64decode(f["event"]["data"].get("stdout", "")) for _, f in frames
                    if "data" in f.get("event", {})).decode()


@pytest.fixture
def builder(service, tenant):
    made = Builder(service, service.key(org=tenant.org, scopes=["read", "exec"]))
    yield made
    tenant.delete("/v1/sandboxes", expect=200)
    for row in made.call("GET", "/templates", expect=200):
        if not row["templateID"] == "host" and not row["public"]:
            assert made.call("DELETE", f"/templates/{row['templateID']}").status == 204
    made.api.close()


def test_a_template_is_built_of_steps_and_used(builder):
    made = builder.create("steps", cpuCount=1, memoryMB=256)
    files = builder.upload(made, {"app/a.txt": b"one\n", "app/sub/b.txt": b"two\n"})
    steps = [step("ENV", "GREETING", "hello there", "EMPTY", ""), step("WORKDIR", "work"), step("COPY", "app", "here/", filesHash=files),
             step("COPY", "app/a.txt", "/opt/name", "root", "0600", filesHash=files), step("RUN", "pwd; echo $GREETING > made; id -un"),
             step("RUN", "id -un", "root")]
    builder.start(made, steps)
    assert builder.status(made)["status"] in ("building", "ready")
    builder.wait(made)
    log = builder.log(made)
    assert "/workspace/work" in log and "user" in log and "root" in log, log
    assert builder.call("GET", "/templates/aliases/steps", expect=200)["templateID"] == made["templateID"]
    box = builder.sandbox("steps")
    assert box.made["templateID"] == made["templateID"] and box.made["alias"] == "steps"
    assert output(box, "cat made here/a.txt here/sub/b.txt; echo $GREETING; pwd; stat -c '%a %U' here/a.txt here here/sub /opt/name .") == (
        "hello there\none\ntwo\nhello there\n/workspace/work\n640 user\n755 user\n755 user\n600 root\n755 user\n")
    listed = next(r for r in builder.call("GET", "/templates", expect=200) if r["templateID"] == made["templateID"])
    assert (listed["spawnCount"], listed["cpuCount"], listed["memoryMB"], listed["aliases"]) == (1, 1, 256, ["steps"])
    assert listed["createdAt"] > "2020" and listed["lastSpawnedAt"] >= listed["createdAt"]
    assert builder.call("DELETE", f"/templates/{made['templateID']}").status == 400  # a sandbox of it lives
    box.kill()
    assert builder.call("DELETE", "/templates/steps").status == 204
    assert builder.call("GET", "/templates/aliases/steps").status == 404


def test_layers_are_used_again_until_something_changes(builder):
    steps = [step("RUN", "date +%N > ~/one"), step("RUN", "date +%N > ~/two")]
    first = builder.build("cached", *steps)
    again = builder.build("cached", *steps)
    assert again["templateID"] == first["templateID"] and again["buildID"] != first["buildID"]
    assert sum(line.startswith("CACHED") for line in builder.log(again)) == 2
    box = builder.sandbox("cached")
    was = output(box, "cat one two")
    other = builder.build("cached", steps[0], step("RUN", "echo other > ~/two"))
    assert sum(line.startswith("CACHED") for line in builder.log(other)) == 1
    now = output(builder.sandbox("cached"), "cat one two")
    assert now == was.split("\n")[0] + "\nother\n"
    assert output(box, "cat one two") == was
    forced = builder.build("cached", steps[0], {**steps[1], "force": True})
    assert sum(line.startswith("CACHED") for line in builder.log(forced)) == 1
    assert not any(line.startswith("CACHED") for line in builder.log(builder.build("cached", *steps, force=True)))


def test_layers_are_the_organisations_own(service, builder, tenant):
    steps = [step("RUN", "echo secret > ~/mine")]
    builder.build("own", *steps)
    org, client = service.tenant("another")
    other = Builder(service, service.key(org=org))
    assert other.call("GET", "/templates/aliases/own").status == 404
    assert other.call("POST", "/v2/sandboxes", {"templateID": "own"}).status == 404
    made = other.build("own", *steps)
    assert not any(line.startswith("CACHED") for line in other.log(made))
    assert other.call("DELETE", "/templates/own").status == 204
    reply = builder.call("PATCH", "/v2/templates/own", {"public": True}, expect=200)
    assert reply == {"names": ["own"]}
    box = other.call("POST", "/v2/sandboxes", {"templateID": f"{tenant.org}/own"}, expect=201)
    assert other.call("POST", "/v2/sandboxes", {"templateID": "own"}).status == 404
    assert other.call("DELETE", f"/templates/{tenant.org}%2Fown").status == 404
    other.call("DELETE", f"/sandboxes/{box['sandboxID']}")
    builder.call("PATCH", "/templates/own", {"public": False}, expect=200)
    other.api.close()
    client.close()
    assert service.operator.delete(f"/v1/orgs/{org}").status == 204


def give_base(service, folder, version):
    """A template of the server's that is made anew."""
    archive = folder / "tiny.tar"
    archive.write_bytes(dockerd.tiny_tar())
    with tarfile.open(archive, "a") as tar:
        info = tarfile.TarInfo("etc/version")
        info.size, info.mode = len(version), 0o644
        tar.addfile(info, io.BytesIO(version))
    done = service.runner.sandglass("template", "import", "--force", "anew", str(archive),
                                    env={"SANDGLASS_CONFIG": str(service.config)})
    assert done.returncode == 0, done.stderr


def test_layers_that_stand_on_an_older_base_are_not_used(service, builder, tmp_path):
    def cached(made):
        return sum(line.startswith("CACHED") for line in builder.log(made))
    give_base(service, tmp_path, b"1\n")
    run = step("RUN", "cat /etc/version > /home/user/it")
    builder.build("onto", run, fromTemplate="anew")
    assert cached(builder.build("onto", run, fromTemplate="anew")) == 1
    give_base(service, tmp_path, b"2\n")
    old = builder.sandbox("onto")
    assert output(old, "cat /home/user/it /etc/version") == "1\n1\n"  # stays on what it was built on
    assert cached(builder.build("onto", run, fromTemplate="anew")) == 0
    assert output(builder.sandbox("onto"), "cat /home/user/it /etc/version") == "2\n2\n"
    for value in ("one", "two"):  # what is below has steps that are no layer
        builder.build("below", step("ENV", "WHICH", value))
        builder.build("above", step("RUN", "echo $WHICH > ~/which"), fromTemplate="below")
        assert output(builder.sandbox("above"), "cat which") == f"{value}\n"


def test_a_start_command_runs_and_is_ready_in_each_sandbox(builder):
    start = "echo $$ > /tmp/pid; sleep 0.3; echo up > /tmp/up; sleep 1000"
    made = builder.build("started", step("ENV", "A", "b"), startCmd=start, readyCmd="[ -f /tmp/up ]")
    for _ in range(2):
        box = builder.sandbox("started")
        assert output(box, "cat /tmp/up; kill -0 $(cat /tmp/pid) && echo alive; echo $A") == "up\nalive\nb\n"
    child = builder.build("child", step("RUN", "echo child > ~/child"), fromTemplate="started")
    assert output(builder.sandbox("child"), "cat child /tmp/up; kill -0 $(cat /tmp/pid) && echo alive") == "child\nup\nalive\n"
    assert builder.log(made)[-1] == builder.log(child)[-1] == "Build finished"


@pytest.mark.parametrize("spec, reason, where", [
    ({"steps": [step("RUN", "echo fine"), step("RUN", "echo said >&2; exit 7")]}, "failed to run command 'echo said >&2; exit 7': exit status 7", "2"),
    ({"steps": [step("RUN", "whoami", "root123")]}, "failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'", "1"),
    ({"steps": [step("COPY", "a", "b", filesHash="0" * 64)]}, "files 000000000000... were not uploaded, or have expired", "1"),
    ({"steps": [], "fromTemplate": "no-such"}, "no template 'no-such'", "1"),
    ({"steps": [], "fromImage": "alpine:3.20"}, "image 'alpine:3.20' is not on this server", "base"),
    ({"steps": [], "startCmd": "echo wrong; exit 3", "readyCmd": "false"}, "the start command ended before it was ready: exit status 3: 'wrong'", "finalize"),
], ids=["step", "user", "files", "base", "image", "start"])
def test_a_build_that_fails_says_why_and_where_and_leaves_nothing(builder, spec, reason, where):
    if spec.get("fromTemplate") == "no-such":
        spec = {**spec, "steps": [step("RUN", "true")]}
    made = builder.create("failing")
    steps = spec.pop("steps") if "steps" in spec else []
    builder.start(made, steps, **{k: v for k, v in spec.items() if k != "steps"})
    found = builder.wait(made, "error")
    assert reason in found["reason"]["message"] and found["reason"]["step"] == where, found
    if where == "2":
        assert "said" in builder.log(made)
    assert builder.call("GET", "/templates/aliases/failing").status == 404
    assert builder.call("POST", "/v2/sandboxes", {"templateID": "failing"}).status == 404
    assert builder.call("DELETE", f"/templates/{made['templateID']}").status == 204


def test_a_template_stays_what_it_was_when_a_build_of_it_fails(builder):
    builder.build("kept", step("RUN", "echo good > ~/it"))
    builder.build("kept", step("RUN", "echo bad > ~/it"), step("RUN", "false"), state="error")
    assert output(builder.sandbox("kept"), "cat it") == "good\n"


def test_tags_lead_to_builds(builder):
    one = builder.build("tagged:v1", step("RUN", "echo 1 > ~/v"))
    made = builder.create("tagged", tags=["v2", "latest"])
    builder.start(made, [step("RUN", "echo 2 > ~/v")])
    builder.wait(made)
    assert output(builder.sandbox("tagged:v1"), "cat v") == "1\n" and output(builder.sandbox("tagged:latest"), "cat v") == "2\n"
    assert builder.call("POST", "/v2/sandboxes", {"templateID": "tagged"}).status == 404  # no default one
    tagged = builder.call("POST", "/templates/tags", {"target": "tagged:v1", "tags": ["default", "old"]}, expect=201)
    assert tagged == {"buildID": one["buildID"], "tags": ["default", "old"]}
    assert output(builder.sandbox("tagged"), "cat v") == "1\n"
    rows = {row["tag"]: row["buildID"] for row in builder.call("GET", "/templates/tagged/tags", expect=200)}
    assert rows == {"v1": one["buildID"], "old": one["buildID"], "default": one["buildID"], "v2": made["buildID"], "latest": made["buildID"]}
    assert builder.call("DELETE", "/templates/tags", {"name": "tagged", "tags": ["old"]}).status == 204
    assert builder.call("POST", "/v2/sandboxes", {"templateID": "tagged:old"}).status == 404
    for method, body, status in (("POST", {"target": ":x", "tags": ["a"]}, 400), ("POST", {"target": "tagged:", "tags": ["a"]}, 400),
                                 ("POST", {"target": "none", "tags": ["a"]}, 404), ("POST", {"target": "tagged:none", "tags": ["a"]}, 404),
                                 ("POST", {"target": "tagged", "tags": ["A!"]}, 400), ("DELETE", {"name": "tagged", "tags": ["default"]}, 400),
                                 ("DELETE", {"name": "tagged:v1", "tags": ["v1"]}, 400), ("DELETE", {"name": "tagged", "tags": ["none"]}, 404)):
        assert builder.call(method, "/templates/tags", body).status == status, body


def test_what_makes_no_sense_is_refused(builder):
    made = builder.create("senseless")
    path = f"/v2/templates/{made['templateID']}/builds/{made['buildID']}"
    for body, reason in (({"steps": []}, "one of fromImage and fromTemplate"), ({"fromTemplate": "host", "fromImage": "x", "steps": []}, "one of"),
                         ({"fromTemplate": "host", "steps": [step("FLY")]}, "not 'FLY'"), ({"fromTemplate": "host", "steps": [step("RUN")]}, "one argument"),
                         ({"fromTemplate": "host", "steps": [step("COPY", "a", "b")]}, "filesHash"),
                         ({"fromTemplate": "host", "steps": [step("ENV", "A")]}, "pairs"),
                         ({"fromTemplate": "host", "steps": [step("COPY", "a", "b", "", "9", filesHash="0" * 64)]}, "octal")):
        reply = builder.call("POST", path, body)
        assert reply.status == 400 and reason in reply.json["message"], reply
    for name in ("", "two words", "-x", "..", "b" + "a" * 19):
        assert builder.call("POST", "/v3/templates", {"name": name}).status == 400, name
    assert builder.call("POST", "/v3/templates", {"name": "x", "tags": ["?"]}).status == 400
    assert builder.call("POST", "/v2/templates", {"dockerfile": "FROM x"}).status == 400
    assert builder.call("POST", f"/v2/templates/none/builds/{made['buildID']}", {}).status == 404
    assert builder.call("GET", f"/templates/{made['templateID']}/builds/none/status").status == 404
    assert builder.call("GET", f"/templates/{made['templateID']}/files/short").status == 400
    assert builder.api.call("PUT", "/templates/files/" + "x" * 118, b"x").status in (401, 403)
    builder.start(made)
    builder.wait(made)
    assert builder.call("POST", path, {"fromTemplate": "host", "steps": []}).status == 400  # a second time


# ---- the native door ----

def spec(name, *steps, **more):
    return {"name": name, "stages": [{"template": "host", "steps": list(steps)}], **more}


def native(kind, *args, **more):
    return {"type": kind, "args": list(args), **more}


def finished(client, build):
    return wait_for(lambda: (b := client.get(f"/v1/builds/{build['id']}?waitMs=1000", expect=200))["state"] in OVER and b, 60)


def archive(files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    return data.getvalue()


def drop(client, name):
    assert client.delete(f"/v1/templates/{name}").status == 204


def test_stages_hand_files_on_and_only_those_that_are_needed_run(service, tenant):
    files = tenant.call("PUT", "/v1/builds/files", archive({"bin/tool": b"#!/bin/sh\necho tool\n"}), expect=201)["files"]
    build = tenant.post("/v1/builds", {"name": "staged", "asDockerfile": True, "stages": [
        {"template": "host", "steps": [native("USER", "root"), native("WORKDIR", "/out"), native("COPY", "", "/out", files=files), native("RUN", "echo made > list")]},
        {"template": "host", "steps": [native("RUN", "exit 1")]},
        {"stage": 1, "steps": [native("RUN", "echo more >> /out/list")]},
        {"template": "host", "steps": [native("COPY", "/out", "/opt/copied", stage=3), native("COPY", "out/bin/tool", "/opt/", stage=1, user="user", mode="0700"),
                                       native("USER", "user"), native("RUN", "id -un; pwd", shell=["/bin/sh", "-c"])]}]}, expect=202)
    assert build["state"] == "building"
    build = finished(tenant, build)
    assert build["state"] == "ready" and "user" in [line["text"] for line in build["log"]], build
    box = Box(tenant, {"template": "staged"})
    done = box.sh("cat /opt/copied/list; /opt/copied/bin/tool; stat -c '%a %U' /opt/tool /opt/copied; id -un")
    assert done["stdout"] == "made\nmore\ntool\n700 user\n755 root\nuser\n", done
    rows = {row["name"]: row for row in tenant.get("/v1/templates", expect=200)["templates"]}
    assert rows["staged"]["tags"] == ["default"] and rows["staged"]["sandboxes"] == 1 and "id" not in rows["host"]
    assert tenant.delete("/v1/templates/staged").status == 409
    box.destroy()
    drop(tenant, "staged")


def test_a_build_is_cancelled(service, tenant):
    build = tenant.post("/v1/builds", spec("cancelled", native("RUN", "echo begun; sleep 1000")), expect=202)
    wait_for(lambda: "begun" in str(tenant.get(f"/v1/builds/{build['id']}", expect=200)["log"]))
    assert tenant.delete("/v1/templates/cancelled").status == 409
    assert tenant.delete(f"/v1/builds/{build['id']}").status == 204
    build = finished(tenant, build)
    assert (build["state"], build["error"], build["failedStep"]) == ("error", "the build was cancelled", "1")
    assert tenant.delete(f"/v1/builds/{build['id']}").status == 409
    assert tenant.post("/v1/sandboxes", {"template": "cancelled"}).status == 404
    assert tenant.get("/v1/sandboxes", expect=200)["sandboxes"] == []


def test_bad_bodies_leave_no_build(service, tenant):
    for body in ({}, {"name": "x"}, {"name": "x", "stages": []}, {"name": "x", "stages": [{}]}, {"name": "-", "stages": [{"template": "host"}]},
                 {"name": "x", "stages": [{"stage": 1}]}, {"name": "x", "stages": [{"template": "host", "image": "y"}]},
                 spec("x", native("FLY", "a")), spec("x", native("RUN")), spec("x", native("COPY", "a", "b", stage=1)), spec("x", tags=["?"]),
                 spec("x", native("COPY", "a", "b", files="short"))):
        assert tenant.post("/v1/builds", body).status == 400, body
    assert tenant.get("/v1/builds/none").status == 404
    assert "x" not in [row["name"] for row in tenant.get("/v1/templates", expect=200)["templates"]]


def test_a_build_that_a_kill_cuts_off_leaves_nothing_half_made():
    with Service(pool=0) as service:
        client = service.operator
        assert finished(client, client.post("/v1/builds", spec("kept", native("RUN", "echo good > /tmp/it")), expect=202))["state"] == "ready"
        builds = [client.post("/v1/builds", spec(name, native("RUN", "echo bad > /tmp/it"), native("RUN", "echo there; sleep 1000")), expect=202)
                  for name in ("kept", "new")]
        wait_for(lambda: all("there" in str(client.get(f"/v1/builds/{b['id']}", expect=200)["log"]) for b in builds))
        service.kill9_daemon()
        service.wait_ready()
        for build in builds:
            build = client.get(f"/v1/builds/{build['id']}", expect=200)
            assert build["state"] == "error" and "restarted" in build["error"], build
        assert [row["name"] for row in client.get("/v1/templates", expect=200)["templates"] if "id" in row] == ["kept"]
        assert client.get("/v1/sandboxes", expect=200)["sandboxes"] == []
        box = Box(client, {"template": "kept"})
        assert box.sh("cat /tmp/it")["stdout"] == "good\n"
        box.destroy()
        again = finished(client, client.post("/v1/builds", spec("kept", native("RUN", "echo good > /tmp/it")), expect=202))
        assert any(line["text"].startswith("CACHED") for line in again["log"])


# ---- Dockerfiles ----

DOCKERFILE = """# syntax=docker/dockerfile:1
ARG BASE=host
FROM ${BASE} AS builder
ARG VERSION=1
ENV NAME=world
WORKDIR /build
COPY src/ ./
RUN echo "hello $NAME $VERSION" > greeting && ls
FROM builder AS unused
RUN exit 1
FROM host
LABEL a=b
COPY --from=builder --chmod=0644 /build/greeting /opt/greeting
COPY --chown=user *.txt /opt/texts/
ADD packed.tar /opt/unpacked/
RUN <<EOF
id -un > /opt/who
pwd >> /opt/who
EOF
RUN ["touch", "/opt/exec form"]
ENV A="b c"
USER user
WORKDIR /opt
CMD ["sleep", "1000"]
"""


@pytest.fixture
def context(tmp_path):
    (tmp_path / "src").mkdir()
    for name, text in {"one.txt": "1", "two.txt": "2", "left.txt": "out", ".dockerignore": "left.*\n", "src/file": "s",
                       "Dockerfile": DOCKERFILE}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "packed.tar").write_bytes(archive({"inside": b"it\n"}))
    return tmp_path


def sandglass(service, key, *args, **kw):
    return service.runner.sandglass(*args, env={"SANDGLASS_CONFIG": str(service.config), "SANDGLASS_API_KEY": key,
                                                "SANDGLASS_URL": f"http://127.0.0.1:{service.port}"}, **kw)


def test_a_dockerfile_becomes_a_template(service, tenant, key, context):
    command = ("template", "build", "-f", str(context / "Dockerfile"), "--build-arg", "VERSION=2", "--ready", "test -f /opt/who", "app", str(context))
    done = sandglass(service, key, *command)
    assert (done.returncode, done.stdout.strip()) == (0, "app"), done
    assert "LABEL has no effect" in done.stderr, done
    done = sandglass(service, key, *command)
    ran = [line for line in done.stderr.splitlines() if any(f"] {kind}" in line for kind in ("RUN", "COPY")) and "CACHED" not in line]
    assert done.returncode == 0 and not ran, done
    box = Box(tenant, {"template": "app"})
    found = box.sh("cat greeting who unpacked/inside; stat -c '%a %U' greeting; ls 'exec form' texts; stat -c %U texts/*; echo $A; id -un; pwd; pgrep -x sleep >/dev/null && echo runs")
    assert found["stdout"] == ("hello world 2\nroot\n/\nit\n644 root\nexec form\n\ntexts:\none.txt\ntwo.txt\nuser\nuser\nb c\nuser\n/opt\nruns\n"), found
    box.destroy()
    drop(tenant, "app")


@pytest.mark.parametrize("text, reason", [
    ("FROM host\nFLY away\n", "line 2: 'FLY' is no instruction"),
    ("FROM host\n\nCOPY nothing /x\n", "line 3: no file of the context is 'nothing'"),
    ("FROM host\nRUN true\nRUN exit 3\n", "line 3: failed to run command 'exit 3': exit status 3"),
    ("FROM no-such-base\n", "no template 'no-such-base'"),
    ("FROM debian:12\n", "image 'debian:12' is not on this server"),
], ids=["line", "file", "step", "base", "image"])
def test_a_dockerfile_that_cannot_be_built_is_told_with_its_line(service, tenant, key, context, text, reason):
    done = sandglass(service, key, "template", "build", "-f", "-", "bad", str(context), input=text)
    assert done.returncode in (1, 2) and reason in done.stderr.splitlines()[-1], done
    assert tenant.post("/v1/sandboxes", {"template": "bad"}).status == 404
