# SPDX-License-Identifier: Apache-2.0
"""Secrets: values go in, and come out nowhere."""
import os
import pathlib
import pty
import stat
import subprocess

import sg
from service import Service

VALUE = "correct-horse-battery-staple-0417"


def parts(path):
    """What a file holds, without its holes: the image of the storage pool is mostly one."""
    fd, at = os.open(path, os.O_RDONLY), 0
    try:
        while True:
            start = os.lseek(fd, at, os.SEEK_DATA)
            at = os.lseek(fd, start, os.SEEK_HOLE)
            yield os.pread(fd, at - start, start)
    except OSError:  # no data behind it
        pass
    finally:
        os.close(fd)


def everywhere(*folders):
    """Every byte that is kept in files."""
    for folder in folders:
        for path in pathlib.Path(folder).rglob("*"):
            if path.is_file():
                for part in parts(path):
                    yield path, part


def holds(pid, data):
    """Whether the bytes are somewhere in what the process can write to."""
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for region in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights = region.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            if "rw" in rights:
                memory.seek(start)
                if data in memory.read(end - start):
                    return True
    return False


def assert_nowhere(service, value):
    for path, data in everywhere(service.folder):
        assert value.encode() not in data, path


def test_a_value_is_in_no_reply_file_log_event_or_audit(service, tenant):
    made = tenant.put("/v1/secrets/openai", {"value": VALUE, "metadata": {"team": "blue"}}, expect=200)
    assert made["version"] == 1 and made["metadata"] == {"team": "blue"} and not made["stale"]
    assert VALUE not in str(made)
    assert tenant.put("/v1/secrets/OpenAI", {"value": VALUE + "2"}, expect=200)["version"] == 2
    for path in ("/v1/secrets", "/v1/secrets/openai", f"/v1/secrets/{made['id']}"):
        reply = tenant.get(path, expect=200)
        assert VALUE not in str(reply)
    audit = service.audit()
    assert VALUE not in str(audit) and "secret.update" in str(audit)
    assert_nowhere(service, VALUE)


def test_the_private_key_is_not_the_daemons(service):
    key = service.state / "seal" / "key"
    st = key.stat()
    assert st.st_size == 32 and stat.S_IMODE(st.st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    pid = service.daemon_pid()
    owner = pathlib.Path(f"/proc/{pid}").stat().st_uid
    assert os.geteuid() != 0 or owner != st.st_uid
    assert sorted(os.listdir(f"/proc/{pid}/root")) == ["state"]
    assert "seal" not in os.listdir(f"/proc/{pid}/root/state")
    assert not holds(pid, key.read_bytes())


def test_what_is_wrong_is_refused(tenant):
    for name, body in {"a{b": {"value": "v"}, "sec_x": {"value": "v"}, "k": {"value": ""}, "l": {},
                       "m": {"value": 7}, "n": {"value": "v", "other": 1}, "o": {"value": "x" * 65537},
                       "p": {"value": "v", "metadata": {"k": "x" * 1025}}}.items():
        assert tenant.put(f"/v1/secrets/{name}", body).status == 400, name
    assert tenant.get("/v1/secrets/none").status == 404
    assert tenant.delete("/v1/secrets/none").status == 404


def test_another_organisation_has_others(service, tenant):
    tenant.put("/v1/secrets/mine", {"value": VALUE}, expect=200)
    other = service.client(service.key())
    assert other.get("/v1/secrets/mine").status == 404
    assert other.delete("/v1/secrets/mine").status == 404
    reader = service.client(tenant.post("/v1/keys", {"name": "r", "scopes": ["read"]}, expect=201)["key"])
    assert reader.get("/v1/secrets/mine").status == 200
    assert reader.put("/v1/secrets/mine", {"value": "x"}).status == 403
    tenant.delete("/v1/secrets/mine", expect=204)
    assert tenant.get("/v1/secrets/mine").status == 404


def test_the_e2b_door(service, tenant):
    made = tenant.post("/secrets", {"name": "Deploy-Key", "value": VALUE, "metadata": {"a": "b"}}, expect=201)
    assert made["name"] == "deploy-key" and made["currentVersion"] == 1 and made["metadata"] == {"a": "b"}
    assert set(made) == {"secretID", "name", "currentVersion", "metadata", "createdAt", "updatedAt"}
    assert tenant.post("/secrets", {"name": "deploy-key", "value": "x"}).status == 409
    changed = tenant.post(f"/secrets/{made['secretID']}", {"value": "new"}, expect=200)
    assert changed["currentVersion"] == 2 and changed["metadata"] == {"a": "b"}
    assert tenant.post("/secrets/none", {"value": "v"}).json["code"] == 404
    for name in ("s1", "s2", "s3"):
        tenant.post("/secrets", {"name": name, "value": "v"}, expect=201)
    names, token = [], ""
    while token is not None:
        reply = tenant.get(f"/secrets?limit=2&nextToken={token}")
        names += [secret["name"] for secret in reply.json]
        token = reply.headers.get("X-Next-Token")
    assert [n for n in names if n in ("deploy-key", "s1", "s2", "s3")] == ["deploy-key", "s1", "s2", "s3"]
    tenant.delete("/secrets/deploy-key", expect=204)
    assert tenant.delete("/secrets/deploy-key").json["code"] == 404
    for body in ({"name": "x"}, {"value": "x"}, {"name": "x", "value": 1}):
        assert tenant.post("/secrets", body).json["code"] == 400


def test_secrets_survive_kill_9_and_a_new_key_makes_them_stale():
    with Service(pool=0) as service:
        service.operator.put("/v1/secrets/kept", {"value": VALUE}, expect=200)
        service.kill9_daemon()
        service.wait_ready()
        assert service.operator.get("/v1/secrets/kept", expect=200)["stale"] is False
        (service.state / "seal" / "key").unlink()
        service.kill9_daemon()
        service.wait_ready()
        assert service.operator.get("/v1/secrets/kept", expect=200)["stale"] is True
        assert service.operator.put("/v1/secrets/kept", {"value": "x"}, expect=200)["stale"] is False
        assert_nowhere(service, VALUE)


def test_the_command_takes_the_value_from_stdin_and_never_from_argv(service):
    def secrets(*args, **kw):
        return subprocess.run([sg.BIN, "secrets", *args, "--run-dir", str(service.run)], capture_output=True,
                              text=True, env={"PATH": os.environ["PATH"], "SANDGLASS_CONFIG": str(service.config)}, **kw)
    done = secrets("set", "from-stdin", input=VALUE + "\n")
    assert (done.returncode, done.stdout) == (0, "from-stdin\n"), done.stderr
    assert secrets("set", "name", VALUE, input="").returncode == 2  # an argument too much
    for bad in ("", "\n"):
        assert secrets("set", "empty", input=bad).returncode == 2
    listed = secrets("list")
    assert "from-stdin" in listed.stdout and VALUE not in listed.stdout
    assert secrets("rm", "from-stdin").returncode == 0
    assert secrets("rm", "from-stdin").returncode == 1


def test_a_typed_value_is_not_shown(service):
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(sg.BIN, [sg.BIN, "secrets", "set", "typed", "--run-dir", str(service.run)],
                  {"SANDGLASS_CONFIG": str(service.config), "PATH": os.environ["PATH"]})
    seen = b""
    while b"value: " not in seen:
        seen += os.read(fd, 1000)
    os.write(fd, VALUE.encode() + b"\n")
    try:
        while chunk := os.read(fd, 1000):
            seen += chunk
    except OSError:
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, seen
    os.close(fd)
    assert VALUE.encode() not in seen and b"typed" in seen
    assert service.operator.get("/v1/secrets/typed", expect=200)["version"] == 1
