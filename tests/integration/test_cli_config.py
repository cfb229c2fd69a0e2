# SPDX-License-Identifier: Apache-2.0
"""Settings from files, environment and flags, as `config show` tells them; and mistakes."""
import json
import os
import pty

import pytest

from sg import BIN


def settings(runner, *args, **kw):
    done = runner.sandglass("config", "show", "--json", *args, **kw)
    assert (done.returncode, done.stderr) == (0, ""), done
    return json.loads(done.stdout)["settings"]


def own_file(runner, text):
    path = runner.home / ".config" / "sandglass" / "sandglass.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_each_value_tells_where_it_came_from(user):
    path = own_file(user, '[run]\nmemory = "64m"\npids = 10\nnet = "open"\n')
    shown = settings(user, "--net", "none",
                     env={"SANDGLASS_CONFIG": None, "SANDGLASS_PIDS": "20"})
    assert shown["run.memory"] == {"value": "64m", "origin": "file", "file": str(path), "line": 2}
    assert shown["run.pids"] == {"value": "20", "origin": "environment"}
    assert shown["run.net"] == {"value": "none", "origin": "flag"}
    assert shown["run.cpus"] == {"value": "1", "origin": "default"}
    assert shown["state_dir"]["value"] == str(user.state_dir)


def test_a_file_in_the_working_directory_is_not_read(user):
    (user.home / "sandglass.toml").write_text('[run]\nmemory = "64m"\n')
    shown = settings(user, cwd=user.home, env={"SANDGLASS_CONFIG": None})
    assert shown["run.memory"]["origin"] == "default"
    shown = settings(user, "--config", "sandglass.toml", cwd=user.home)
    assert shown["run.memory"]["value"] == "64m"


def test_lists_add_up(user):
    user.config.write_text('[run]\nbind = ["/srv:/srv:ro"]\n')
    shown = settings(user, "--bind", "/opt:/opt")
    assert shown["run.bind"]["value"] == ["/srv:/srv:ro", "/opt:/opt"]


def test_secrets_are_not_shown(user):
    user.config.write_text('[run.env]\nAPI_KEY = "hunter2"\n[daytona]\ndaytona_api_key = "hunter2"\n')
    for args in ([], ["--json"]):
        done = user.sandglass("config", "show", *args, "--env", "TOKEN=hunter2")
        assert done.returncode == 0
        assert "API_KEY=***" in done.stdout and "TOKEN=***" in done.stdout
        assert "hunter2" not in done.stdout + done.stderr
        assert "[daytona] is understood, and of no effect here" in done.stdout + done.stderr


def test_an_unreadable_home_holds_no_settings(user):
    shown = settings(user, env={"SANDGLASS_CONFIG": None, "HOME": "/proc/1/cwd",
                                "XDG_DATA_HOME": str(user.home)})
    assert shown["run.memory"]["origin"] == "default"


@pytest.mark.parametrize("args, message", [
    (["frobnicate"], "unknown command 'frobnicate'; 'sandglass help' lists them"),
    (["config"], "'config' needs one of: show"),
    (["config", "shw"], "unknown command 'config shw' (did you mean 'config show'?); 'sandglass help' lists them"),
    (["--frob"], "unknown option '--frob': a command comes first, as in 'sandglass run'"),
    (["config", "show", "--memroy", "1g"], "unknown option '--memroy' of 'config show' (did you mean '--memory'?); --help lists them"),
    (["run", "--mem", "1g", "true"], "unknown option '--mem' of 'run' (did you mean '--memory'?); --help lists them"),
    (["run", "--quiet"], "'run' needs a command: sandglass run [options] -- command [args]"),
    (["run", "--bind", "/srv:/x:RO", "true"], "--bind: 'RO' is not ro or rw (a path inside cannot hold a colon)"),
    (["run", "--bind", "/srv:/proc/x", "true"], "--bind: '/proc/x' belongs to the sandbox itself"),
    (["config", "show", "--memory", "1k"], "--memory: '1k' is not a size from 4m to 1024t, like 512m"),
    (["config", "show", "--memory"], "--memory needs a value: SIZE"),
    (["config", "show", "extra"], "'config show' takes no arguments: sandglass config show [options]"),
    (["completion"], "'completion' needs an argument: sandglass completion bash|zsh|fish"),
    (["completion", "tcsh"], "no completion for 'tcsh': bash, zsh or fish"),
    (["help", "nothing"], "no help on 'nothing': 'sandglass help' lists the commands"),
])
def test_a_usage_mistake_is_one_line_and_exit_2(user, args, message):
    done = user.sandglass(*args)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"sandglass: {message}\n")
    if not args[0].startswith("--") and args[-1] != "--memory":
        done = user.sandglass(*args[:1], "--json", *args[1:]) if args[0] == "run" else \
            user.sandglass(*args, "--json")
        assert (done.returncode, done.stderr) == (2, "")
        assert json.loads(done.stdout) == {"error": {"kind": "invalid", "message": message}}


def test_a_missing_named_file_is_an_error(user):
    done = user.sandglass("config", "show", "--config", "/nonexistent.toml")
    assert done.returncode == 1
    assert done.stderr == ("sandglass: open the settings '/nonexistent.toml': "
                           "No such file or directory\n")


@pytest.mark.parametrize("command, status", [(["run", "true"], 125), (["shell"], 125),
                                             (["template", "list"], 1)])
def test_settings_that_cannot_be_read_do_not_look_like_the_commands_own_status(user, command, status):
    huge = user.home / "huge.toml"
    huge.write_text("#" * (2 << 20))
    for name in ("/nonexistent.toml", str(huge)):
        done = user.sandglass(*command, env={"SANDGLASS_CONFIG": name})
        assert (done.returncode, done.stdout) == (status, ""), name
        assert name in done.stderr


def test_a_mistake_in_the_syntax_of_a_file_names_its_place_in_one_piece(user):
    user.config.write_text("[run]\nmemory 1\n")
    done = user.sandglass("config", "show")
    assert done.returncode == 2
    assert done.stderr.startswith(f"sandglass: {user.config}:2:8: ")


def test_a_mistake_in_a_file_names_its_place(user):
    user.config.write_text("[run]\nmemroy = 1\n")
    done = user.sandglass("config", "show")
    assert done.returncode == 2
    assert done.stderr == (f"sandglass: {user.config}:2:10: unknown key 'run.memroy' "
                           "(did you mean 'run.memory'?)\n")


def test_version_is_told(user):
    assert user.sandglass("--version").stdout == user.sandglass("version").stdout
    assert user.sandglass("--version").stdout.startswith("sandglass ")
    assert set(json.loads(user.sandglass("--version", "--json").stdout)) == {"version"}


def test_a_full_disk_is_noticed(user):
    with open("/dev/full", "w") as full:
        done = user.sandglass("help", stdout=full, stderr=-1)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr


def on_a_terminal(runner, *args, **env):
    ours, theirs = pty.openpty()
    process = runner.popen(BIN, *args, env={"TERM": "xterm", **env}, stdout=theirs, stderr=theirs)
    os.close(theirs)
    process.wait(timeout=20)
    text = os.read(ours, 65536).decode()
    os.close(ours)
    return text


def test_colour_is_for_terminals_that_want_it(user):
    assert "\033[" in on_a_terminal(user, "frobnicate")
    assert "\033[" not in on_a_terminal(user, "frobnicate", NO_COLOR="1")
    assert "\033[" not in on_a_terminal(user, "frobnicate", TERM="dumb")
    assert "\033[" not in user.sandglass("frobnicate", env={"TERM": "xterm"}).stderr
