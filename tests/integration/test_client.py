# SPDX-License-Identifier: Apache-2.0
"""The client commands against a stand-in for the service: what they ask, print and exit with."""
import io
import json
import os
import pty
import stat
import subprocess
import tarfile
import threading
import time

import pytest

import sg
from fake_service import EXEC, KEY, SANDBOX, FakeService, exec_

SECONDS = 15


@pytest.fixture
def service(tmp_path):
    with FakeService(tmp_path) as fake:
        fake.dir = tmp_path
        yield fake


@pytest.fixture
def client(service):
    """sandglass with this service as its own."""
    env = {"SANDGLASS_RUN_DIR": str(service.dir), "SANDGLASS_STATE_DIR": str(service.dir)}

    def run(*args, **kw):
        return sg.sandglass(*args, env=env | kw.pop("env", {}), **kw)
    run.env = env
    return run


def ok(done):
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def ok_json(done):
    return json.loads(ok(done))


# ---- lists and lives ----

def test_ps_reads_every_page_and_shows_no_control_bytes(client, service):
    out = ok(client("ps"))
    assert out.splitlines()[0].split() == ["ID", "TEMPLATE", "STATE", "AGE", "ENDS", "IN", "EXECS", "METADATA"]
    assert len(out.splitlines()) == 4 and "team=blue" in out and "\x1b" not in out and "\\x1b[31m" in out
    assert ok(client("ps", "--ids")).split() == [SANDBOX, SANDBOX, "s" + "z" * 19]


def test_ps_json_has_all_pages_in_one_list(client):
    found = ok_json(client("ps", "--json"))
    assert [s["id"] for s in found["sandboxes"]] == [SANDBOX, SANDBOX, "s" + "z" * 19]
    assert found["sandboxes"][0]["limits"]["cpus"] == 0.5
    assert found["sandboxes"][1]["metadata"] == {"x": "\x1b[31m"}


def test_ps_passes_its_filters_on(client, service):
    ok(client("ps", "--state", "running,paused", "--metadata", "team=a b&c", "--metadata", "x=y"))
    query = service.requests[0].query
    assert query["state"] == "running,paused"
    assert (query["metadata.team"], query["metadata.x"]) == ("a b&c", "y")


def test_create_sends_what_was_asked_for_and_nothing_else(client, service):
    done = client("create")
    assert (done.returncode, done.stdout) == (0, SANDBOX + "\n")
    assert "not enforced on this machine: 'memory'" in done.stderr
    assert service.requests[-1].json == {"limits": {}}
    created = client("create", "--json", "-T", "tools", "--memory", "1g", "--cpus", "0.5", "--pids", "9",
                     "--disk", "2g", "--timeout", "1h", "--idle-timeout", "5m", "--on-expiry", "pause",
                     "--metadata", "a=b=c", "-e", "X=1", "-e", "Y", "-e", "X=2", "--retries", "2", env={"Y": "y"})
    assert ok_json(created)["id"] == SANDBOX
    assert service.requests[-1].json == {
        "template": "tools", "limits": {"memoryBytes": 1 << 30, "cpus": 0.5, "pids": 9, "diskBytes": 2 << 30},
        "timeoutMs": 3600000, "idleTimeoutMs": 300000, "onExpiry": "pause", "metadata": {"a": "b=c"},
        "env": {"X": "2", "Y": "y"}, "retries": 2}


def test_settings_for_run_are_not_sent_with_create(client, service):
    ok_json(client("create", "--json", env={"SANDGLASS_MEMORY": "1g", "SANDGLASS_TEMPLATE": "host"}))
    assert service.requests[-1].json == {"limits": {}}


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_pause_and_resume_take_many(client, service, verb):
    assert ok(client(verb, SANDBOX, SANDBOX)).split() == [SANDBOX, SANDBOX]
    assert len(service.asked("POST", f"/v1/sandboxes/{SANDBOX}/{verb}")) == 2
    assert ok_json(client(verb, "--json", SANDBOX))["sandboxes"][0]["id"] == SANDBOX


def test_rm_needs_ids_or_all(client, service):
    assert ok(client("rm", SANDBOX)).strip() == SANDBOX
    assert ok_json(client("rm", "--all", "--json")) == {"destroyed": 3}
    assert [r.path for r in service.requests if r.method == "DELETE"] == [f"/v1/sandboxes/{SANDBOX}",
                                                                         "/v1/sandboxes"]
    for args in (["rm"], ["rm", "--all", SANDBOX]):
        assert client(*args).returncode == 2


def test_what_was_done_before_a_failure_is_told(client):
    done = client("rm", SANDBOX, "nonsense")
    assert (done.returncode, done.stdout.strip()) == (1, SANDBOX)
    assert "'nonsense': no such sandbox" in done.stderr


def test_an_id_is_one_segment_of_the_path(client, service):
    client("rm", "../keys?x=1")
    assert service.requests[-1].path == "/v1/sandboxes/..%2Fkeys%3Fx%3D1"


def test_stats_and_top(client):
    assert "3.0m" in ok(client("stats", SANDBOX)) and "1.500s" in ok(client("stats", SANDBOX))
    assert ok_json(client("stats", "--json", SANDBOX))["pids"] == 2
    assert ok(client("top")).count("3.0m") == 2  # of the third there are no numbers: it is gone
    looked = ok_json(client("top", "--json"))["sandboxes"]
    assert (looked[0]["stats"]["cpuMs"], looked[2]["stats"]) == (1500, None)


def test_kill_ends_one_or_all_that_run(client, service):
    assert ok(client("kill", SANDBOX)).split() == [EXEC]
    assert ok_json(client("kill", "--json", "-s", "SIGTERM", SANDBOX, EXEC)) == {"killed": [EXEC]}
    assert service.requests[-2].method == "DELETE"
    assert (service.requests[-1].path.split("/")[-1], service.requests[-1].json) == ("signal", {"signal": "TERM"})


# ---- exec ----

def test_exec_shows_both_streams_and_gives_the_status(client, service):
    service.output = [{"stream": "stdout", "offset": 0, "data": "out\n"},
                      {"stream": "stderr", "offset": 4, "data": "err\n"},
                      {"stream": "stdout", "offset": 8, "base64": "/wA="}]
    service.end = exec_(exitCode=7)
    done = client("exec", SANDBOX, "--", "sh", "-c", "x", text=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n\xff\x00", b"err\n")
    assert service.asked("POST", f"/v1/sandboxes/{SANDBOX}/exec")[0].json == {
        "argv": ["sh", "-c", "x"], "background": True}


@pytest.mark.parametrize("end, code", [
    ({"ending": "signal", "signal": 15, "exitCode": 143}, 143), ({"ending": "timeout", "exitCode": 137}, 124),
    ({"ending": "oom", "exitCode": 137}, 137), ({"ending": "lost"}, 125), ({"exitCode": 0}, 0)])
def test_exit_codes_are_those_of_run(client, service, end, code):
    service.end = exec_(**end)
    done = client("exec", SANDBOX, "true")
    assert done.returncode == code
    assert ("out of memory" in done.stderr) == (end.get("ending") == "oom")


def test_exec_sends_its_options_and_input(client, service):
    service.waits_for_input = True
    data = "line\n" * 100000
    done = client("exec", "-e", "A=b", "-w", "/x", "-u", "root", "--timeout", "5s", SANDBOX, "cat", "--", "-x",
                  input=data)
    assert ok(done) == ""
    assert service.asked("POST", f"/v1/sandboxes/{SANDBOX}/exec")[0].json == {
        "argv": ["cat", "--", "-x"], "env": {"A": "b"}, "cwd": "/x", "user": "root", "timeoutMs": 5000,
        "background": True, "stdin": True}
    sent = service.asked("POST", f"/v1/sandboxes/{SANDBOX}/execs/{EXEC}/stdin")[0]
    assert (sent.body.decode(), sent.query) == (data, {"close": "1"})


def test_exec_does_not_wait_for_input_that_never_comes(client, service):
    inside, outside = os.pipe()
    done = client("exec", SANDBOX, "true", stdin=inside)
    os.close(inside)
    os.close(outside)
    assert done.returncode == 0


def test_exec_json_is_one_object(client, service):
    service.output = [{"stream": "stdout", "offset": 0, "data": "out"}, {"truncated": 5},
                      {"stream": "stderr", "offset": 9, "data": "err"}]
    service.end = exec_(exitCode=3)
    done = client("exec", "--json", SANDBOX, "true")
    assert done.returncode == 3 and done.stderr == ""
    result = json.loads(done.stdout)
    assert (result["stdout"], result["stderr"], result["exitCode"], result["truncatedBytes"]) == ("out", "err", 3, 5)


def test_exec_detached_prints_its_id(client):
    assert ok(client("exec", "-d", SANDBOX, "sleep", "100")).strip() == EXEC
    assert ok_json(client("exec", "-d", "--json", SANDBOX, "sleep", "100"))["id"] == EXEC


def test_a_missing_program_is_127_and_a_missing_sandbox_125(client):
    assert client("exec", SANDBOX, "/missing").returncode == 127
    assert client("exec", "s" + "x" * 19, "true").returncode == 125
    assert client("exec", SANDBOX).returncode == 2
    assert client("exec", SANDBOX, "--").returncode == 2


def test_an_interrupt_goes_to_the_command(client, service):
    service.waits_for_input = True  # the output does not end by itself
    service.end = exec_(ending="signal", signal=2)
    process = subprocess.Popen([sg.BIN, "exec", SANDBOX, "sleep", "100"], stdin=subprocess.DEVNULL,
                               env=os.environ | client.env)
    assert service.started.wait(SECONDS)
    while not service.asked("GET", f"/v1/sandboxes/{SANDBOX}/execs/{EXEC}/output"):
        time.sleep(0.01)
    process.terminate()
    while not service.asked("POST", f"/v1/sandboxes/{SANDBOX}/execs/{EXEC}/signal"):
        time.sleep(0.01)
    service.input_done.set()
    assert process.wait(SECONDS) == 130
    assert service.asked("POST", f"/v1/sandboxes/{SANDBOX}/execs/{EXEC}/signal")[0].json == {"signal": "TERM"}


def on_terminal(client, service, *args, keys):
    """Runs on a terminal, types once it is joined, returns (status, what was shown)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(sg.BIN, [sg.BIN, *args], os.environ | client.env | {"TERM": "xterm"})
    seen = b""
    while len(service.messages) < 2:  # the start, and the answer to a ping
        time.sleep(0.01)
    os.write(fd, keys)
    while True:
        try:
            piece = os.read(fd, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen


@pytest.mark.parametrize("args", [["shell", SANDBOX], ["exec", SANDBOX, "cat"]])
def test_a_terminal_is_joined_over_a_websocket(client, service, args):
    service.end = exec_(exitCode=5)
    status, seen = on_terminal(client, service, *args, keys=b"hello\x04")
    assert status == 5 and b"HELLO" in seen
    start = json.loads(service.messages[0][1])
    assert start["tty"].keys() == {"rows", "cols"} and start["env"] == {"TERM": "xterm"} and start["stdin"]
    assert start["argv"] == (["cat"] if args[0] == "exec" else ["/bin/sh", "-c", start["argv"][2]])
    assert (10, b"are you there") in service.messages


def test_a_tty_without_a_terminal_ends_with_its_input(client, service):
    done = client("exec", "--tty", SANDBOX, "cat", input="abc")
    assert (done.returncode, done.stdout) == (0, "ABC")


# ---- logs and events ----

def test_logs_are_of_the_latest_exec_or_the_one_named(client, service):
    service.output = [{"stream": "stdout", "offset": 0, "data": "kept"}]
    assert ok(client("logs", SANDBOX)) == "kept"
    assert ok(client("logs", "-f", SANDBOX, EXEC)) == "kept"
    assert service.requests[-1].query == {"follow": "1"}
    lines = ok(client("logs", "--json", SANDBOX, EXEC)).splitlines()
    assert json.loads(lines[0]) == service.output[0] and "end" in json.loads(lines[1])


def test_events_end_when_it_is_quiet(client, service):
    out = ok(client("events", SANDBOX))
    assert [line.split()[1:3] for line in out.splitlines()] == [["sandbox.created", SANDBOX]] * 2
    assert service.requests[-1].query == {"sandbox": SANDBOX, "after": "0"}
    assert [json.loads(line)["seq"] for line in ok(client("events", "--json")).splitlines()] == [1, 2]
    assert [json.loads(line)["seq"] for line in ok(client("events", "--json", "-n", "1")).splitlines()] == [2]


@pytest.mark.parametrize("command", ["logs", "kill"])
def test_an_exec_in_place_of_its_sandbox_is_explained(client, command):
    done = client(command, EXEC)
    assert done.returncode == 2 and f"sandglass {command} ID {EXEC}" in done.stderr


# ---- files ----

def test_cp_uploads_a_file(client, service, tmp_path):
    local = tmp_path / "job.py"
    local.write_bytes(bytes(range(256)) * 1000)
    local.chmod(0o750)
    ok(client("cp", local, f"{SANDBOX}:/workspace"))
    ok(client("cp", local, f"{SANDBOX}:/other.py"))
    ok(client("cp", local, f"{SANDBOX}:/made/"))
    assert set(service.files) == {"/workspace/job.py", "/other.py", "/made/job.py"}
    assert service.files["/other.py"] == local.read_bytes()
    assert service.asked("PUT", f"/v1/sandboxes/{SANDBOX}/files")[0].query["mode"] == "0750"
    assert ok_json(client("cp", "--json", "-", f"{SANDBOX}:/in", input="text"))["files"] == 1
    assert service.files["/in"] == b"text"


def test_cp_downloads_a_file(client, service, tmp_path):
    service.files["/workspace/out.csv"] = b"1,2\n" * 50000
    ok(client("cp", f"{SANDBOX}:/workspace/out.csv", tmp_path))
    got = tmp_path / "out.csv"
    assert got.read_bytes() == service.files["/workspace/out.csv"]
    assert stat.S_IMODE(got.stat().st_mode) == 0o640
    assert ok(client("cp", f"{SANDBOX}:/workspace/out.csv", "-")) == got.read_text()
    assert ok_json(client("cp", "--json", f"{SANDBOX}:/workspace/out.csv", tmp_path / "b"))["bytes"] == 200000
    assert not list(tmp_path.glob("*.part"))


def test_cp_of_what_is_not_there_leaves_nothing(client, tmp_path):
    done = client("cp", f"{SANDBOX}:/none", tmp_path / "none")
    assert done.returncode == 1 and "/none: no such file" in done.stderr
    assert not (tmp_path / "none").exists()
    assert client("cp", "/does/not/exist", f"{SANDBOX}:/x").returncode == 1
    assert client("cp", "a", "b").returncode == 2


def test_cp_uploads_a_tree(client, service, tmp_path):
    top = tmp_path / "tree"
    deep = top / ("d" * 90) / ("e" * 90)
    deep.mkdir(parents=True)
    (deep / "file").write_bytes(b"x" * 1000)
    (top / "empty").write_bytes(b"")
    (top / "link").symlink_to("empty")
    os.mkfifo(top / "pipe")
    done = client("cp", top, f"{SANDBOX}:/workspace")
    assert done.returncode == 0 and "1 links, pipes and devices were left out" in done.stderr
    tree = {name.removeprefix("./"): entry for name, entry in service.tree.items()}
    assert "/workspace/tree" in service.directories
    assert tree["d" * 90 + "/" + "e" * 90 + "/file"][1] == b"x" * 1000
    assert tree["empty"][1] == b"" and tree["link"][:2] == (tarfile.SYMTYPE, "empty") and "pipe" not in tree


def archive(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, data in entries:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o6755
            if kind == tarfile.REGTYPE:
                info.size = len(data)
            elif isinstance(data, str):
                info.linkname = data
            tar.addfile(info, io.BytesIO(data) if kind == tarfile.REGTYPE else None)
    return out.getvalue()


def test_cp_downloads_a_tree_without_its_links_and_set_id_bits(client, service, tmp_path):
    service.directories.add("/out")
    service.archive = archive(("./", tarfile.DIRTYPE, None), ("./a", tarfile.DIRTYPE, None),
                              ("./a/" + "n" * 150, tarfile.REGTYPE, b"data"),
                              ("./link", tarfile.SYMTYPE, "/etc/passwd"), ("./b/c", tarfile.REGTYPE, b""))
    done = client("cp", f"{SANDBOX}:/out", tmp_path / "new")
    assert done.returncode == 0 and "1 links" in done.stderr
    got = tmp_path / "new" / "a" / ("n" * 150)
    assert got.read_bytes() == b"data" and stat.S_IMODE(got.stat().st_mode) == 0o755
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["a", "b"]


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "a/../../escaped", "./../escaped"])
def test_cp_refuses_an_archive_that_leads_out(client, service, tmp_path, name):
    service.directories.add("/out")
    service.archive = archive((name, tarfile.REGTYPE, b"x"))
    done = client("cp", f"{SANDBOX}:/out", tmp_path / "new")
    assert done.returncode == 1 and "leads out" in done.stderr
    assert not list(tmp_path.rglob("escaped")) and not os.path.exists("/escaped")


def test_cp_writes_through_no_link_that_was_there(client, service, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    target = tmp_path / "new"
    target.mkdir()
    (target / "out").mkdir()
    (target / "out" / "a").symlink_to(outside)
    service.directories.add("/out")
    service.archive = archive(("a/file", tarfile.REGTYPE, b"x"))
    assert client("cp", f"{SANDBOX}:/out", target).returncode == 1
    assert not list(outside.iterdir())


def test_cp_between_sandboxes_is_the_services_work(client, service):
    service.files["/a"] = b""
    ok(client("cp", f"{SANDBOX}:/a", f"{SANDBOX}:/workspace"))
    assert service.requests[-1].json == {"path": "/a", "toSandbox": SANDBOX, "toPath": "/workspace/a"}


# ---- tenants and the record ----

def test_keys(client, service):
    assert "e2b_0123" in ok(client("keys", "list"))
    done = client("keys", "create", "--name", "ci", "--scopes", "read,admin", "--expires", "1d", "--rate", "5",
                  "--template", "base,tools")
    assert (done.returncode, done.stdout.strip()) == (0, KEY)
    body = service.requests[-1].json
    assert body.pop("expiresAt").endswith("Z")
    assert body == {"name": "ci", "scopes": ["read", "admin"], "ratePerSecond": 5, "templates": ["base", "tools"]}
    assert ok_json(client("keys", "revoke", "--json", "k" + "e" * 19)) == {"revoked": "k" + "e" * 19}


def test_orgs(client, service):
    assert "1.0g/1.0g" in ok(client("orgs", "list"))
    assert ok(client("orgs", "create", "--sandboxes", "5", "--cpus", "1.5", "blue")).strip() == "o" + "c" * 19
    assert service.requests[-1].json == {"name": "blue", "quota": {"sandboxes": 5, "cpus": 1.5}}
    assert ok(client("orgs", "rm", "o" + "c" * 19)).strip() == "o" + "c" * 19


def test_audit(client, service):
    records = ok_json(client("audit", "list", "--json", "-n", "4"))["records"]
    assert [r["seq"] for r in records] == [6, 5, 4, 3]
    assert "sandbox.create" in ok(client("audit", "list"))
    assert "whole: 3 records" in ok(client("audit", "verify"))
    service.verdict = {"whole": False, "records": 3, "brokenAt": 2, "head": ""}
    done = client("audit", "verify")
    assert done.returncode == 1 and "broken at record 2 of 3" in done.stdout


# ---- keys, failures, odd replies ----

def test_env_quotes_for_a_shell(client, service):
    assert client("env").returncode == 1
    (service.dir / "client.key").write_text("ab'c\n")
    out = ok(client("env"))
    shown = subprocess.run(["sh", "-c", f'{out}\nprintf "%s " "$SANDGLASS_URL" "$E2B_API_KEY" "$E2B_SANDBOX_URL"'],
                           capture_output=True, text=True, timeout=SECONDS)
    assert shown.stdout == "http://127.0.0.1:8787 ab'c http://127.0.0.1:8787 "
    names = ok_json(client("env", "--json", "--listen", "0.0.0.0:9")).items()
    assert dict(names) == {"SANDGLASS_URL": "http://127.0.0.1:9", "SANDGLASS_API_KEY": "ab'c",
                           "E2B_API_URL": "http://127.0.0.1:9", "E2B_SANDBOX_URL": "http://127.0.0.1:9",
                           "E2B_VOLUME_API_URL": "http://127.0.0.1:9", "E2B_API_KEY": "ab'c"}


def test_the_key_is_sent_where_there_is_one(client, service):
    ok(client("ps", "--ids"))
    assert "Authorization" not in service.requests[-1].headers
    ok(client("ps", "--ids", env={"SANDGLASS_API_KEY": "k1"}))
    assert service.requests[-1].headers["Authorization"] == "Bearer k1"
    (service.dir / "client.key").write_text("k2\n")
    ok(client("ps", "--ids", "--url", f"unix:{service.dir}/api.sock"))
    assert service.requests[-1].headers["Authorization"] == "Bearer k2"


def test_up_makes_a_key_once_and_keeps_it_private(client, service):
    first = client("up", "--json")
    assert ok_json(first) == {"url": "http://127.0.0.1:8787", "key": KEY, "started": False}
    assert stat.S_IMODE((service.dir / "client.key").stat().st_mode) == 0o600
    assert ok_json(client("up", "--json"))["key"] == KEY
    assert len(service.asked("POST", "/v1/keys")) == 1
    (service.dir / "client.key").write_text("revoked\n")
    assert ok_json(client("up", "--json"))["key"] == KEY
    assert service.asked("POST", "/v1/keys")[0].json["scopes"] == ["read", "exec", "admin"]


@pytest.mark.parametrize("status, kind, code", [
    (400, "invalid", 2), (403, "denied", 1), (404, "not_found", 1), (429, "exhausted", 1),
    (503, "unavailable", 75), (500, "internal", 1), (504, "timeout", 1)])
def test_an_error_of_the_service_is_ours(client, service, status, kind, code):
    service.refusal = (status, kind, "because \x1b[31m", "do this")
    done = client("ps")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == "sandglass: because ?[31m (do this)\n"
    assert json.loads(client("ps", "--json").stdout)["error"]["kind"] == kind


def test_a_url_that_cannot_be_used_hurts_no_other_command(tmp_path):
    for url in ("", "https://127.0.0.1:1"):
        assert sg.sandglass("config", "show", env={"SANDGLASS_URL": url}).returncode == 0
    assert sg.sandglass("ps", "--url", "ftp://x").returncode == 2


def test_nobody_there_is_told_with_what_to_do(tmp_path):
    done = sg.sandglass("ps", env={"SANDGLASS_RUN_DIR": str(tmp_path)})
    assert done.returncode == 75 and "'sandglass up' starts it" in done.stderr
    assert sg.sandglass("exec", SANDBOX, "true", env={"SANDGLASS_RUN_DIR": str(tmp_path)}).returncode == 125


@pytest.mark.parametrize("reply, part", [
    (b"", "ended the connection"), (b"SSH-2.0-x\r\n\r\n", "not HTTP/1.1"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "not a single number"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx", "within the answer"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "chunk"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "encoded as"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{,}", "JSON"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "no list"),
    (b"HTTP/1.1 502 Bad\r\nContent-Length: 4\r\n\r\nhtml", "status 502"),
    (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20000, "over")])
def test_a_reply_that_is_none_is_refused(tmp_path, reply, part):
    import socket
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "api.sock"))
        listener.listen()

        def answer():
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.sendall(reply)
            connection.close()
        threading.Thread(target=answer, daemon=True).start()
        done = sg.sandglass("ps", env={"SANDGLASS_RUN_DIR": str(tmp_path)})
    assert done.returncode in (1, 2, 75) and part in done.stderr, done.stderr
