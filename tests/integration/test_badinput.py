# SPDX-License-Identifier: Apache-2.0
"""Bad input to `run`: one clear line, the right exit code, nothing run, nothing left behind."""
import contextlib
import os
import subprocess

import pytest
import sg

USAGE, FAILED_BEFORE = 2, 125


def refused(runner, code, words, *args, **kw):
    """Fails with `code` and one line on stderr that holds every one of `words`."""
    done = runner.sandglass(*args, **kw)
    assert done.returncode == code, done.stderr
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("sandglass: ")
    for word in words:
        assert word in done.stderr, (word, done.stderr)


@pytest.mark.parametrize("args, words", [
    (["--memroy", "1", "--", "true"], ["'--memroy'", "'--memory'"]),
    (["--frobnicate", "--", "true"], ["'--frobnicate'"]),
    ([], ["sandglass run [options] -- command"]),
    (["--"], ["sandglass run [options] -- command"]),
    (["--memory"], ["--memory"]),
    (["--memory", "0", "--", "true"], ["--memory", "'0'", "4m"]),
    (["--memory", "99999999t", "--", "true"], ["--memory", "'99999999t'"]),
    (["--memory", "12q", "--", "true"], ["--memory", "'12q'"]),
    (["--cpus", "0", "--", "true"], ["--cpus", "0.01"]),
    (["--cpus", "-1", "--", "true"], ["--cpus"]),
    (["--pids", "1", "--", "true"], ["--pids", "from 2"]),
    (["--pids", "1.5", "--", "true"], ["--pids"]),
    (["--disk", "1", "--", "true"], ["--disk", "1m"]),
    (["--open-files", "3", "--", "true"], ["--open-files"]),
    (["--timeout", "-1", "--", "true"], ["--timeout"]),
    (["--timeout", "soon", "--", "true"], ["--timeout", "'soon'"]),
    (["--net", "some", "--", "true"], ["--net", "'some'"]),
    (["--user", "a b", "--", "true"], ["--user", "'a b'"]),
    (["--user", "65536", "--", "true"], ["--user", "65535"]),
    (["--user", "0:99999", "--", "true"], ["--user", "65535"]),
    (["--hostname", "a b", "--", "true"], ["--hostname", "'a b'"]),
    (["--hostname", "x" * 65, "--", "true"], ["--hostname"]),
    (["--workdir", "relative", "--", "true"], ["--workdir", "absolute"]),
    (["--env", "=x", "--", "true"], ["--env"]),
    (["--bind", "/tmp", "--", "true"], ["--bind", "SRC:DST"]),
    (["--bind", "/tmp:relative", "--", "true"], ["--bind", "absolute"]),
    (["--bind", "/tmp:/../x", "--", "true"], ["--bind", "'/../x'"]),
    (["--bind", "/tmp:/proc/x", "--", "true"], ["--bind", "'/proc/x'"]),
    (["--template", "", "--", "true"], ["--template"]),
    (["--read-only=perhaps", "--", "true"], ["--read-only"]),
], ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else None)
def test_a_wrong_command_line_is_a_usage_error(root, args, words):
    refused(root, USAGE, words, "run", *args)


def test_control_bytes_in_a_bad_word_do_not_reach_the_terminal(root):
    done = root.sandglass("run", "--memory", "1\x1b[31m\n", "--", "true")
    assert done.returncode == USAGE and "\x1b" not in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("template, words", [
    ("nosuch", ["no template 'nosuch'", "sandglass template"]),
    ("/no/such/dir", ["'/no/such/dir'", "No such file"]),
    ("/etc/passwd", ["'/etc/passwd'", "Not a directory"]),
    ("UPPER", ["UPPER"]),
])
def test_a_template_that_cannot_be_had_is_named(runner, template, words):
    refused(runner, FAILED_BEFORE, words, "run", "--template", template, "--", "true")


@pytest.mark.parametrize("point", ["dev", "proc", "sys", "tmp"])
def test_a_root_whose_mount_points_are_links_is_refused(root, point):
    tree = root.home / "tree"
    tree.mkdir()
    (tree / point).symlink_to("/etc")
    refused(root, FAILED_BEFORE, [point], "run", "--template", f"{tree}/", "--", "true")
    assert os.listdir(tree) == [point]


def test_a_root_whose_etc_is_a_link_leads_nowhere_outside(root):
    tree = root.home / "tree"
    tree.mkdir()
    (tree / "etc").symlink_to("/etc")
    done = root.sandglass("run", "--template", f"{tree}/", "--", "/bin/true")
    assert done.returncode in (FAILED_BEFORE, 127) and done.stderr.count("\n") == 1


def test_an_empty_root_says_that_the_command_is_not_there(root):
    (root.home / "tree").mkdir()
    done = root.sandglass("run", "--template", f"{root.home}/tree/", "--", "/bin/true")
    assert done.returncode == 127, done.stderr
    assert done.stderr.count("\n") == 1 and "'/bin/true'" in done.stderr


@pytest.mark.parametrize("option, words", [
    ("/no/such:/x", ["'/no/such'", "No such file"]),
    ("/dev/null:/x", ["'/dev/null'", "only files and directories"]),
    ("/tmp:/usr/no-such-place", ["usr/no-such-place"]),
])
def test_a_bind_that_cannot_be_made_is_named(root, option, words):
    refused(root, FAILED_BEFORE, words, "run", "--bind", option, "--", "true")


def test_the_root_cannot_be_replaced_by_a_bind(root):
    done = root.sandglass("run", "--bind", "/tmp:/", "--", "true")
    assert done.returncode in (USAGE, FAILED_BEFORE) and "--template" in done.stderr


def test_a_bind_of_what_one_may_not_read_is_denied(user):
    secret = user.home / "secret"
    secret.mkdir()
    os.chown(user.home / "secret", 0, 0)
    secret.chmod(0o700)
    (secret / "inner").mkdir()
    done = user.sandglass("run", "--bind", f"{secret}/inner:/x", "--", "true")
    assert done.returncode == FAILED_BEFORE
    assert "Permission denied" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("workdir", ["/usr/no-such-place", "/proc/x", "/dev/x"])
def test_a_work_directory_that_cannot_be_is_no_missing_command(root, workdir):
    refused(root, FAILED_BEFORE, [workdir], "run", "--workdir", workdir, "--", "true")


@pytest.mark.parametrize("mode", ["open", "filtered"])
def test_a_network_that_is_not_offered_is_refused_and_not_weakened(runner, mode):
    refused(runner, FAILED_BEFORE, [f"--net {mode}", "none"], "run", "--net", mode, "--", "true")


def test_too_many_binds_and_variables_are_refused(root):
    binds = [word for n in range(40) for word in ("--bind", f"/tmp:/b{n}")]
    done = root.sandglass("run", *binds, "--", "true")
    assert done.returncode in (USAGE, FAILED_BEFORE) and done.stderr.count("\n") == 1
    variables = [word for n in range(1100) for word in ("--env", f"V{n}=x")]
    done = root.sandglass("run", *variables, "--", "true")
    assert done.returncode in (USAGE, FAILED_BEFORE) and done.stderr.count("\n") == 1


def test_a_command_line_that_is_too_long_is_refused(root):
    done = root.sandglass("run", "--", "echo", *(["x" * 100000] * 3))
    assert done.returncode == FAILED_BEFORE and done.stderr.count("\n") == 1
    done = root.sandglass("run", "--", "echo", "x" * 100000)
    assert len(done.stdout) == 100001


@contextlib.contextmanager
def tiny_disk(where, size="64k"):
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes=8", "none", where], check=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", where], check=True)


def test_a_full_disk_for_the_state_is_one_clear_line(root):
    with tiny_disk(root.home / "state") as state:
        (root.home / "sg.toml").write_text(f'state_dir = "{state}"\n')
        done = root.sandglass("run", "--config", "sg.toml", "--", "true")
        assert done.returncode == FAILED_BEFORE and done.stdout == ""
        assert "No space left on device" in done.stderr and done.stderr.count("\n") == 1
        left = [p for p in state.rglob(".new-*")]
        assert left == []


def test_a_state_directory_that_cannot_be_written_is_one_clear_line(user):
    done = user.sandglass("run", "--", "true", env={"SANDGLASS_STATE_DIR": "/proc/no/such"})
    assert done.returncode == FAILED_BEFORE and done.stderr.count("\n") == 1


def test_errors_are_objects_when_json_is_asked_for(root):
    for args in (["--template", "nosuch"], ["--bind", "/no/such:/x"]):
        done = root.sandglass("run", "--json", *args, "--", "true")
        assert done.returncode == FAILED_BEFORE
        assert done.stdout.startswith('{"error":{') and done.stdout.count("\n") == 1


def test_running_inside_a_directory_that_is_gone_works(root):
    gone = root.home / "gone"
    gone.mkdir()
    script = f'cd {gone} && rmdir {gone} && "$0" run -- echo fine'
    assert root.command("sh", "-c", script, sg.BIN).stdout == "fine\n"
