# SPDX-License-Identifier: Apache-2.0
"""`sandglass run`: exit codes, signals, streams, identity, the result as JSON."""
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import time

import pytest
import sg

SOON = 20


def sh(runner, script, *options, **kw):
    return runner.sandglass("run", *options, "--", "sh", "-c", script, **kw)


# ---- exit codes ----

@pytest.mark.parametrize("code", [0, 1, 2, 42, 124, 125, 255])
def test_the_exit_code_is_the_commands_own(runner, code):
    done = sh(runner, f"exit {code}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV", "HUP", "USR1"])
def test_a_command_that_dies_by_a_signal_gives_128_plus_its_number(root, name):
    number = getattr(signal, f"SIG{name}")
    assert sh(root, f"kill -{name} $$").returncode == 128 + number
    result = root.run_json("sh", "-c", f"kill -{name} $$")
    assert (result["signal"], result["ended_by"], result["limit"]) == (number, "signal", None)


def test_a_command_that_is_not_there_gives_127(runner):
    for command in ("no-such-command", "/no/such/command", "./none"):
        done = runner.sandglass("run", "--", command)
        assert done.returncode == 127
        assert command in done.stderr and done.stderr.count("\n") == 1


def test_a_command_that_cannot_be_executed_gives_126(runner):
    for command in ("/etc/passwd", "/usr"):
        done = runner.sandglass("run", "--", command)
        assert done.returncode == 126
        assert command in done.stderr and done.stderr.count("\n") == 1


def test_a_script_without_interpreter_line_gives_126(root):
    (root.home / "script").write_text("echo no\n")
    (root.home / "script").chmod(0o755)
    done = root.sandglass("run", "--copy-in", "script:/tmp/script", "--", "/tmp/script")
    assert done.returncode == 126 and done.stdout == ""


def test_the_deadline_gives_124_and_says_so(runner):
    done = runner.sandglass("run", "--timeout", "200ms", "--", "sleep", "60", timeout=SOON)
    assert done.returncode == 124
    assert "deadline of 200 ms" in done.stderr and done.stderr.count("\n") == 1


def test_a_command_that_ignores_term_is_killed_after_its_grace(root):
    start = time.monotonic()
    done = sh(root, "trap '' TERM; echo ready; while :; do sleep 60; done", "--timeout", "300ms",
              timeout=SOON)
    assert done.returncode == 124 and done.stdout == "ready\n"
    assert time.monotonic() - start > 2  # it had its grace


def test_a_command_that_hears_term_may_finish_its_work(root):
    done = sh(root, "trap 'echo saved; exit 7' TERM; while :; do sleep 0.05; done",
              "--timeout", "300ms", timeout=SOON)
    assert done.returncode == 124 and done.stdout == "saved\n"


def test_no_timeout_means_none(root):
    assert sh(root, "sleep 0.2", "--timeout", "0").returncode == 0


# ---- signals ----

@contextlib.contextmanager
def started(runner, script, *options, word=b"ready\n"):
    """In the background, after it has said its word; not left running if the test fails."""
    running = runner.popen(sg.BIN, "run", *options, "--", "sh", "-c", script,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        if word:
            assert running.stdout.readline() == word
        yield running
    finally:
        running.kill()
        running.communicate()


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "USR1", "USR2", "QUIT"])
def test_a_signal_to_the_program_reaches_the_command(root, name):
    script = f"trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 0.02; done"
    with started(root, script) as running:
        running.send_signal(getattr(signal, f"SIG{name}"))
        out, _ = running.communicate(timeout=SOON)
    assert (out, running.returncode) == (b"got\n", 9)


def test_a_signal_that_kills_the_command_shows_in_the_exit_code(runner):
    with started(runner, "echo ready; exec sleep 60") as running:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=SOON)
    assert running.returncode == 128 + signal.SIGTERM


def test_asking_three_times_ends_a_command_that_will_not_listen(root):
    script = "trap '' INT TERM HUP; echo ready; while :; do sleep 0.05; done"
    with started(root, script) as running:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # two of a kind may be one
            running.send_signal(number)
        running.communicate(timeout=SOON)
    assert running.returncode == 128 + signal.SIGKILL


def test_kill_9_of_the_program_ends_everything_inside(runner):
    with started(runner, "sleep 60 & echo ready; exec sleep 61") as running:
        running.kill()
        running.communicate(timeout=SOON)
    assert running.returncode == -signal.SIGKILL  # what is left is the leak check's to see


def test_a_command_that_stops_itself_is_not_taken_for_ended(root):
    done = sh(root, "(sleep 0.3; kill -CONT $$) & kill -STOP $$; echo woken; exit 5", timeout=SOON)
    assert (done.returncode, done.stdout) == (5, "woken\n")


def test_a_stopped_command_ends_at_its_deadline(root):
    done = sh(root, "kill -STOP $$", "--timeout", "300ms", timeout=SOON)
    assert done.returncode == 124


def test_exit_statuses_stay_exact_under_vfork_and_signals(root):
    script = """
import os, signal, subprocess, sys
for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1):
    child = subprocess.Popen(["sleep", "60"])
    child.send_signal(number)
    assert child.wait() == -number
codes = [os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn("/bin/sh",
         ["sh", "-c", f"exit {n}"], {}), 0)[1]) for n in range(0, 256, 17)]
assert codes == list(range(0, 256, 17)), codes
sys.exit(77)
"""
    assert root.sandglass("run", "--", "python3", "-c", script).returncode == 77


def test_orphans_inside_are_reaped(root):
    script = "for i in $(seq 100); do (sleep 0.01 &); done; sleep 0.5; ls -d /proc/[0-9]* | wc -l"
    done = sh(root, script)
    assert int(done.stdout) < 10


# ---- streams ----

def test_the_streams_are_kept_apart(runner):
    done = sh(runner, "cat; echo out; echo err >&2", input="in\n")
    assert (done.stdout, done.stderr) == ("in\nout\n", "err\n")


def test_64_megabytes_pass_both_ways_unchanged(runner):
    data = os.urandom(1 << 20) * 64
    done = runner.sandglass("run", "--output-limit", "0", "--", "cat", input=data, text=False)
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()
    assert done.returncode == 0


def test_input_from_a_file_and_output_to_a_file(runner):
    data = os.urandom(3 << 20)
    source, target = runner.home / "in", runner.home / "out"
    source.write_bytes(data)
    source.chmod(0o644)
    with open(source, "rb") as stdin, open(target, "wb") as stdout:
        done = runner.sandglass("run", "--", "cat", stdin=stdin, stdout=stdout,
                                stderr=subprocess.PIPE)
    assert done.returncode == 0 and target.read_bytes() == data


def test_a_command_that_does_not_read_its_input_ends_all_the_same(root):
    done = sh(root, "echo done", input=b"x" * (8 << 20), text=False, timeout=SOON)
    assert (done.returncode, done.stdout) == (0, b"done\n")


def test_input_that_stays_open_holds_nothing_up(root):
    reader, writer = os.pipe()
    try:
        done = sh(root, "echo done", stdin=reader, timeout=SOON)
    finally:
        os.close(reader)
        os.close(writer)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_the_end_of_input_reaches_the_command(root):
    done = sh(root, "wc -c", input="12345")
    assert done.stdout.strip() == "5"


def test_closed_streams_are_no_problem(root):
    for closing in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        done = root.command("sh", "-c", f'"$0" run -- sh -c "exit 3" {closing}', sg.BIN)
        assert done.returncode == 3, (closing, done.stderr)


def test_a_reader_that_goes_early_ends_the_command_by_sigpipe(root):
    done = root.command("bash", "-c", f'"{sg.BIN}" run --output-limit 0 -- yes | head -n 2; '
                        'echo ${PIPESTATUS[0]}', timeout=SOON)
    assert done.stdout.split() == ["y", "y", str(128 + signal.SIGPIPE)]


def test_a_reader_that_is_slow_loses_nothing(root):
    script = "head -c 3000000 /dev/zero; exit 4"
    with started(root, script, "--output-limit", "0", word=None) as running:
        time.sleep(0.5)  # slow on purpose: the pipe is full by now
        out, _ = running.communicate(timeout=SOON)
    assert (len(out), running.returncode) == (3000000, 4)


def test_a_background_process_that_holds_the_output_does_not_hold_the_run(runner):
    start_time = time.monotonic()
    done = sh(runner, "sleep 60 & echo done", timeout=SOON)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert time.monotonic() - start_time < 30


def test_output_of_the_last_moment_arrives(root):
    for _ in range(20):
        assert sh(root, "head -c 200000 /dev/zero").stdout == "\0" * 200000


# ---- identity and place ----

def test_variables_are_set_passed_on_and_otherwise_absent(runner):
    done = runner.sandglass("run", "-e", "A=1", "--env", "B=x y=z", "-e", "PASSED", "-e", "A=2",
                            "-e", "EMPTY=", "-e", "NOT_THERE", "--", "env",
                            env={"PASSED": "on", "SECRET": "no"})
    lines = done.stdout.splitlines()
    assert {"A=2", "B=x y=z", "PASSED=on", "EMPTY="} <= set(lines)
    names = {line.split("=")[0] for line in lines}
    assert not names & {"SECRET", "NOT_THERE", "SANDGLASS_CONFIG"} and "PATH" in names


def test_a_variable_with_a_newline_or_odd_bytes_arrives_whole(root):
    done = root.sandglass("run", "-e", "V=a\nbé'\"$x", "--", "printenv", "V")
    assert done.stdout == "a\nbé'\"$x\n"


def test_the_work_directory_is_made_and_writable(runner):
    done = sh(runner, "pwd; touch f && ls", "--workdir", "/data/deep/er")
    assert done.stdout == "/data/deep/er\nf\n", done.stderr
    assert sh(runner, "pwd").stdout == "/workspace\n"


def test_the_host_name_is_the_one_asked_for(runner):
    assert sh(runner, "hostname; getent hosts $(hostname) | wc -l").stdout.split()[0] == "sandbox"
    assert sh(runner, "uname -n", "--hostname", "box-7").stdout == "box-7\n"


def test_users_by_name_number_and_both(root):
    assert sh(root, "id -un; id -u; echo $HOME").stdout.split() == ["user", "1000", "/home/user"]
    assert sh(root, "id -u", "--user", "root").stdout == "0\n"
    assert sh(root, "id -u; id -g", "--user", "1234").stdout.split()[0] == "1234"
    assert sh(root, "id -u; id -g", "--user", "1234:77").stdout.split() == ["1234", "77"]


def test_a_user_that_is_not_there_is_an_error_of_ours(root):
    done = sh(root, "true", "--user", "nobody-knows")
    assert done.returncode == 125 and "nobody-knows" in done.stderr


def test_read_only_leaves_tmp_and_the_work_directory(runner):
    script = ("touch /tmp/a /dev/shm/b || echo bad; "
              "for d in / /usr /etc /home /home/user; do touch $d/x 2>/dev/null && echo wrote $d; done")
    done = sh(runner, script, "--read-only")
    assert (done.returncode, done.stdout) == (1, "")


def test_what_one_run_writes_the_next_does_not_see(runner):
    assert sh(runner, "echo x > /tmp/f && echo x > /workspace/f && echo x > ~/f").returncode == 0
    assert sh(runner, "ls /tmp /workspace ~").stdout.split() == ["/home/user:", "/tmp:", "/workspace:"]


def test_nothing_of_the_machines_people_is_visible(root):
    secret = root.home / "secret"
    secret.write_text("s3cret")
    done = sh(root, f"cat {secret} /etc/shadow; ls /root /home /var/lib /run")
    assert "s3cret" not in done.stdout and "root:" not in done.stdout
    assert sh(root, "ls /home").stdout == "user\n"


# ---- binds ----

def test_a_bind_is_writable_unless_it_says_ro(root):
    (root.home / "d").mkdir()
    (root.home / "d").chmod(0o777)
    (root.home / "d" / "old").write_text("old")
    done = sh(root, "cat /mnt/d/old; echo new > /mnt/d/new", "--bind", f"{root.home}/d:/mnt/d")
    assert done.stdout == "old", done.stderr
    assert (root.home / "d" / "new").read_text() == "new\n"
    done = sh(root, "cat /mnt/d/old; echo x > /mnt/d/x", "--bind", f"{root.home}/d:/mnt/d:ro")
    assert done.stdout == "old" and "Read-only" in done.stderr
    assert not (root.home / "d" / "x").exists()


def test_a_bind_of_a_file_and_one_below_another(root):
    (root.home / "d" / "sub").mkdir(parents=True)
    (root.home / "e").mkdir()
    (root.home / "e" / "deep").write_text("deep")
    (root.home / "f").write_text("file")
    done = sh(root, "cat /a/one /b/sub/deep", "--bind", f"{root.home}/f:/a/one:ro",
              "--bind", f"{root.home}/d:/b", "--bind", f"{root.home}/e:/b/sub:ro")
    assert done.stdout == "filedeep", done.stderr


def test_binds_of_an_ordinary_user_have_that_users_rights(user):
    (user.home / "d").mkdir()
    os.chown(user.home / "d", user.uid, user.uid)
    done = sh(user, "echo mine > /mnt/d/f; cat /mnt/d/f", "--bind", f"{user.home}/d:/mnt/d")
    assert done.stdout == "mine\n", done.stderr
    assert (user.home / "d" / "f").stat().st_uid == user.uid


def test_a_read_only_run_has_read_only_binds(root):
    (root.home / "d").mkdir(mode=0o777)
    (root.home / "d").chmod(0o777)
    done = sh(root, "touch /mnt/x", "--read-only", "--bind", f"{root.home}/d:/mnt")
    assert done.returncode == 1 and not (root.home / "d" / "x").exists()


# ---- the result ----

FIELDS = {"exit_code", "ended_by", "limit", "signal", "wall_ms", "cpu_ms", "memory_peak_bytes",
          "pids_peak", "disk_used_bytes", "disk_limit_bytes", "output_bytes", "oom_kills",
          "pids_refused", "disk_full", "output_truncated", "not_enforced", "copy_out_error", "copies_skipped",
          "stdout", "stderr"}


def test_the_json_result_has_every_field_and_is_one_line(runner):
    done = runner.sandglass("run", "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert done.returncode == 3 and done.stdout.count("\n") == 1
    result = json.loads(done.stdout)
    assert set(result) == FIELDS
    assert (result["exit_code"], result["ended_by"], result["limit"]) == (3, "exit", None)
    assert (result["stdout"], result["stderr"]) == ("out\n", "err\n")
    assert result["output_bytes"] == 8 and result["signal"] is None
    assert isinstance(result["not_enforced"], list)


def test_json_output_that_is_no_text_stays_valid(root):
    result = root.run_json("printf", "a\\377\\000\\033b")
    assert result["stdout"].startswith("a") and result["stdout"].endswith("b")


# ---- many ----

def test_both_kinds_of_overlay_behave_the_same(root):
    if not sg.SWITCHED_BIN:
        pytest.skip("no build with switches")
    script = "echo x > /tmp/a; echo y > /workspace/b; rm -f ~/.profile; cat /tmp/a b; id -u"
    plain = root.switched("", "run", "--", "sh", "-c", script)
    by_path = root.switched("overlay-by-path", "run", "--", "sh", "-c", script)
    assert (by_path.returncode, by_path.stdout) == (plain.returncode, plain.stdout)
    assert by_path.stdout == "x\ny\n1000\n", by_path.stderr


def test_an_ordinary_user_can_have_the_overlay_by_path(user):
    if not sg.SWITCHED_BIN:
        pytest.skip("no build with switches")
    done = user.switched("overlay-by-path", "run", "--", "sh", "-c", "echo x > f; cat f")
    assert done.stdout == "x\n", done.stderr


def test_two_hundred_runs_in_a_row_leave_nothing(root):
    script = 'i=0; while [ $i -lt 200 ]; do "$0" run -- /bin/true || exit 9; i=$((i+1)); done'
    assert root.command("sh", "-c", script, sg.BIN, timeout=100).returncode == 0


def test_twenty_runs_at_once_leave_nothing(runner):
    running = [runner.popen(sg.BIN, "run", "--", "sh", "-c", f"sleep 0.2; echo {n}; exit {n}",
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for n in range(20)]
    for n, process in enumerate(running):
        out, _ = process.communicate(timeout=60)
        assert (out, process.returncode) == (f"{n}\n".encode(), n)
