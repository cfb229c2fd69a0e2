# SPDX-License-Identifier: Apache-2.0
"""The client commands and the real service: what people type, from `up` to `down`."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import leaks
import pytest
import sg
from service import Service, free_port, wait_for
from test_tty import Terminal

SECONDS = 20


@pytest.fixture
def cli(service):
    """sandglass with the shared service as its own; fails the test unless it succeeds."""
    env = {"SANDGLASS_CONFIG": str(service.config)}

    def run(*args, status=0, **kw):
        done = service.runner.sandglass(*args, env=env, **kw)
        assert done.returncode == status, (args, done)
        return done
    run.env = env
    return run


@pytest.fixture
def box(cli):
    name = cli("create", "--timeout", "10m").stdout.strip()
    yield name
    cli("rm", name)


def test_a_sandbox_from_create_to_rm(cli):
    made = json.loads(cli("create", "--json", "--memory", "64m", "--metadata", "team=cli").stdout)
    name = made["id"]
    assert made["limits"]["memoryBytes"] == 64 << 20
    assert name in cli("ps", "--metadata", "team=cli", "--ids").stdout.split()
    cli("pause", name)
    assert name in cli("ps", "--state", "paused", "--ids").stdout.split()
    cli("resume", name)
    assert json.loads(cli("stats", "--json", name).stdout)["memoryLimitBytes"] == 64 << 20
    assert name in cli("top").stdout
    cli("rm", name)
    assert name not in cli("ps", "--ids").stdout.split()
    assert "no sandbox" in cli("stats", name, status=1).stderr


def test_exec_gives_streams_and_status(cli, box):
    done = cli("exec", box, "--", "sh", "-c", "echo out; echo err >&2; exit 3", status=3)
    assert (done.stdout, done.stderr) == ("out\n", "err\n")
    cli("exec", box, "--", "sh", "-c", "kill -TERM $$", status=143)
    cli("exec", box, "/nope", status=127)
    cli("exec", box, "/etc/passwd", status=126)
    cli("exec", "--timeout", "300ms", box, "sleep", "100", status=124)
    cli("exec", "s" + "0" * 19, "true", status=125)
    done = cli("exec", "-e", "A=b", "-w", "/tmp", "-u", "root", box, "sh", "-c", "echo $A $PWD $(id -u)")
    assert done.stdout == "b /tmp 0\n"
    result = json.loads(cli("exec", "--json", box, "printf", "a\\n").stdout)
    assert (result["stdout"], result["exitCode"], result["state"]) == ("a\n", 0, "ended")


def test_exec_takes_input_of_any_size(cli, box):
    assert cli("exec", box, "cat", input="abc").stdout == "abc"
    assert cli("exec", box, "wc", "-c", input="x" * (8 << 20)).stdout.strip() == str(8 << 20)
    assert cli("exec", box, "true", input="x" * (8 << 20)).stdout == ""  # it does not read


def test_an_interrupt_reaches_the_command(cli, box, service):
    process = subprocess.Popen([sg.BIN, "exec", box, "sh", "-c", "trap 'echo got; exit 7' INT; echo ready; "
                                "while :; do sleep 0.05; done"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               env=os.environ | cli.env, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert (process.stdout.readline(), process.wait(SECONDS)) == ("got\n", 7)
    process.stdout.close()


def test_output_is_kept_and_followed(cli, box):
    script = "for i in 1 2 3; do echo $i; sleep 0.1; done"
    name = cli("exec", "--detach", box, "sh", "-c", script).stdout.strip()
    assert cli("logs", "--follow", box).stdout == "1\n2\n3\n"
    assert cli("logs", box, name).stdout == "1\n2\n3\n"
    last = json.loads(cli("logs", "--json", box, name).stdout.splitlines()[-1])
    assert last["end"]["exitCode"] == 0


def test_kill_ends_what_runs(cli, box):
    names = {cli("exec", "-d", box, "sleep", "1000").stdout.strip() for _ in range(3)}
    one = names.pop()
    cli("kill", "-s", "TERM", box, one)
    assert json.loads(cli("logs", "-f", "--json", box, one).stdout.splitlines()[-1])["end"]["signal"] == 15
    assert set(cli("kill", box).stdout.split()) == names
    wait_for(lambda: cli("kill", box).stdout == "", what="the end of all")


def test_a_shell_has_a_terminal(cli, box, service):
    with contextlib.closing(Shell(service.runner, cli, box)) as shell:
        shell.expect("$ ")
        shell.type("stty size; echo $TERM\n")
        shell.expect("30 100")
        shell.expect("xterm")
        shell.resize(40, 90)
        os.kill(shell.process.pid, signal.SIGWINCH)
        shell.type("sleep 0.2; stty size\n")
        shell.expect("40 90")
        shell.type("sleep 1000\n")
        time.sleep(0.3)  # so that the shell has handed the terminal on
        shell.type("\x03")
        shell.type("exit 9\n")
        assert shell.process.wait(SECONDS) == 9


class Shell(Terminal):
    def __init__(self, runner, cli, box):
        self.cli = cli
        super().__init__(runner, "shell", "--config", cli.env["SANDGLASS_CONFIG"], box)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


# ---- files ----

def test_files_go_in_and_out(cli, box, tmp_path):
    local = tmp_path / "data"
    local.write_bytes(os.urandom(3 << 20))
    local.chmod(0o700)
    cli("cp", local, f"{box}:/workspace/")
    assert cli("exec", box, "stat", "-c", "%a %s", "/workspace/data").stdout == f"700 {3 << 20}\n"
    cli("cp", f"{box}:/workspace/data", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == local.read_bytes()
    cli("cp", "-", f"{box}:/workspace/in", input="text")
    assert cli("cp", f"{box}:/workspace/in", "-").stdout == "text"
    assert cli("cp", f"{box}:/none", tmp_path / "none", status=1).stderr
    assert cli("cp", f"{box}:/etc/shadow", tmp_path / "none", status=1).stderr
    assert not (tmp_path / "none").exists()


def test_trees_go_in_and_out(cli, box, tmp_path):
    top = tmp_path / "tree"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").write_text("x")
    (top / "a" / "link").symlink_to("b/file")
    cli("cp", top, f"{box}:/workspace")
    assert cli("exec", box, "cat", "/workspace/tree/a/link").stdout == "x"
    done = cli("cp", f"{box}:/workspace/tree", tmp_path / "back")
    assert "1 links" in done.stderr
    assert [str(p.relative_to(tmp_path / "back")) for p in sorted((tmp_path / "back").rglob("*"))] == [
        "a", "a/b", "a/b/file"]


def test_files_go_from_one_sandbox_to_another(cli, box):
    other = cli("create").stdout.strip()
    cli("exec", box, "sh", "-c", "mkdir -p d && echo x > d/f")
    cli("cp", f"{box}:/workspace/d/f", f"{other}:/workspace/")
    assert cli("exec", other, "cat", "f").stdout == "x\n"
    cli("rm", other)


def test_an_empty_path_inside_is_where_commands_start(cli, box, tmp_path):
    (tmp_path / "here").write_text("h")
    cli("cp", tmp_path / "here", f"{box}:")
    assert cli("exec", box, "cat", "here").stdout == "h"
    (tmp_path / "out").mkdir()
    cli("cp", f"{box}:", tmp_path / "out")
    assert (tmp_path / "out" / "here").read_text() == "h"


# ---- tenants and the record ----

def test_keys_and_organisations(cli, service):
    org = cli("orgs", "create", "--sandboxes", "1", "made-by-cli").stdout.strip()
    made = json.loads(cli("keys", "create", "--json", "--org", org, "--name", "ci", "--expires", "1h").stdout)
    env = {"SANDGLASS_API_KEY": made["key"], "SANDGLASS_URL": f"http://127.0.0.1:{service.port}"}
    name = service.runner.sandglass("create", env=env).stdout.strip()
    assert service.runner.sandglass("exec", name, "echo", "hello", env=env).stdout == "hello\n"
    assert "as many sandboxes as it may" in service.runner.sandglass("create", env=env).stderr
    assert service.runner.sandglass("orgs", "list", env=env).returncode == 1
    assert service.runner.sandglass("rm", "--all", env=env).stdout == "1 removed\n"
    cli("keys", "revoke", made["id"])
    assert service.runner.sandglass("ps", env=env).returncode == 1
    cli("orgs", "rm", org)
    assert "made-by-cli" not in cli("orgs", "list").stdout


def test_the_operators_commands_work_after_eval_of_env(cli, service):
    client = cli.env | {"SANDGLASS_URL": f"http://127.0.0.1:{service.port}", "SANDGLASS_API_KEY": service.key()}
    for command in ["orgs", "list"], ["audit", "list"], ["audit", "verify"], ["orgs", "create", "after-eval"]:
        done = service.runner.sandglass(*command, env=client)
        assert done.returncode == 0, (command, done)
    assert service.runner.sandglass("orgs", "rm", done.stdout.strip(), env=client).returncode == 0
    elsewhere = client | {"SANDGLASS_URL": f"http://localhost:{service.port}"}  # not known to be our own
    assert "operator" in service.runner.sandglass("audit", "verify", env=elsewhere).stderr


def test_a_key_that_is_over_is_shown_as_expired(cli, service):
    key = json.loads(cli("keys", "create", "--json", "--expires", "1s").stdout)
    rows = wait_for(lambda: [row for row in cli("keys", "list").stdout.splitlines()
                             if key["id"] in row and "left" not in row], what="its end")
    assert rows[0].endswith("expired")
    done = service.runner.sandglass("ps", env=cli.env | {"SANDGLASS_API_KEY": key["key"]})
    assert done.returncode == 1 and "$SANDGLASS_API_KEY" in done.stderr
    cli("keys", "revoke", key["id"])


def test_events_and_the_record_tell_what_was_done(cli, box):
    cli("exec", box, "true")
    assert "sandbox.created" in cli("events", box).stdout
    actions = [r["action"] for r in json.loads(cli("audit", "list", "--json").stdout)["records"]
               if r["sandbox"] == box]
    assert actions[::-1][:2] == ["sandbox.create", "exec.start"]
    assert cli("audit", "verify").stdout.startswith("whole")


# ---- up, down, serve ----

@pytest.fixture
def place(root):
    """An account with settings for a service of its own."""
    home = pathlib.Path(root.home)
    (home / "state").mkdir(mode=0o700)
    config = home / "own.toml"
    config.write_text(f'state_dir = "{home}/state"\n[serve]\nlisten = "127.0.0.1:{free_port()}"\n'
                      f'run_dir = "{home}/run"\ntemplate = "host"\npool = ["base=0", "host=1"]\n')

    def run(*args, **kw):
        return root.sandglass(*args, env={"SANDGLASS_CONFIG": str(config)}, **kw)
    run.home, run.runner, run.config = home, root, config
    yield run
    run("down")


def test_up_starts_once_and_down_ends_all(place):
    first = json.loads(place("up", "--json").stdout)
    assert first["started"] and first["key"].startswith("e2b_")
    leaks.spared.add(int((place.home / "run" / "serve.pid").read_text()))
    again = json.loads(place("up", "--json").stdout)
    assert (again["started"], again["key"]) == (False, first["key"])
    variables = json.loads(place("env", "--json").stdout)
    assert (variables["SANDGLASS_URL"], variables["E2B_API_KEY"]) == (first["url"], first["key"])
    name = place.runner.sandglass("create", env=variables).stdout.strip()
    assert place.runner.sandglass("exec", name, "echo", "hi", env=variables).stdout == "hi\n"
    second = place("serve")
    assert second.returncode == 1 and "running already" in second.stderr
    assert place("down").returncode == 0
    assert place("ps").returncode == 75
    assert "was not running" in place("down").stderr
    assert not (place.home / "run" / "serve.pid").exists()


def test_clients_find_a_service_that_was_started_elsewhere_than_the_settings_say(place):
    url = f"http://127.0.0.1:{free_port()}"
    started = json.loads(place("up", "--json", "--listen", url.removeprefix("http://")).stdout)
    leaks.spared.add(int((place.home / "run" / "serve.pid").read_text()))
    again = json.loads(place("up", "--json").stdout)
    variables = json.loads(place("env", "--json").stdout)
    assert {started["url"], again["url"], variables["SANDGLASS_URL"]} == {url}
    assert place.runner.sandglass("ps", env=variables).returncode == 0
    place("down")
    assert json.loads(place("env", "--json").stdout)["SANDGLASS_URL"] != url


def test_an_ordinary_user_has_a_service_of_their_own(user):
    env = {"SANDGLASS_LISTEN": f"127.0.0.1:{free_port()}", "SANDGLASS_POOL": "base=0,host=1",
           "SANDGLASS_SERVE_TEMPLATE": "host", "SANDGLASS_API_KEY": "of another service"}
    started = user.sandglass("up", "--json", env=env)
    del env["SANDGLASS_API_KEY"]
    try:
        assert started.returncode == 0, started
        leaks.spared.add(int((user.state_dir / "run" / "serve.pid").read_text()))
        name = user.sandglass("create", "--quiet", env=env).stdout.strip()
        assert user.sandglass("exec", name, "id", "-u", env=env).stdout == "1000\n"
        assert (user.state_dir / "client.key").stat().st_uid == user.uid
    finally:
        assert user.sandglass("down", env=env).returncode == 0


def test_a_killed_launcher_is_started_again(place):
    place("up")
    supervisor = int((place.home / "run" / "serve.pid").read_text())
    name = place("create").stdout.strip()

    def launcher():
        return [pid for pid, row in leaks.process_table().items()
                if row[0] == supervisor and row[2] == "sandglass-launc"]
    before = launcher()[0]
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: launcher() not in ([], [before]), what="the next launcher")
    wait_for(lambda: place("exec", name, "true").returncode == 0, what="the sandbox")
    assert place("ps", "--ids").stdout.split() == [name]


def test_a_service_that_cannot_start_says_why(place):
    with Service(pool=0) as other:
        settings = place.config.read_text()
        place.config.write_text(re.sub(r"127.0.0.1:\d+", f"127.0.0.1:{other.port}", settings))
        for _ in range(2):
            done = place("up")
            assert done.returncode == 75 and "did not start" in done.stderr and str(other.port) in done.stderr
        assert done.stderr.count("is taken") == 1  # what it said this time
        served = place("serve")
        assert served.returncode == 75 and "is taken" in served.stderr
