# SPDX-License-Identifier: Apache-2.0
"""Cells on a host with cgroup v2 only and overlay by path only, as root and as an ordinary user."""
import os
import pathlib
import signal
import time

import leaks
import sg

CGROUPS = pathlib.Path("/sys/fs/cgroup")
UP_SECONDS = 20


def wait_for(what):
    deadline = time.monotonic() + UP_SECONDS
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def sleeping(runner, *options):
    """A cell that only sleeps, and its processes as pid: name, pid 1 first."""
    cli = runner.popen(sg.BIN, "run", *options, "--", "sleep", "100")
    try:
        wait_for(lambda: any(row[3] == "sleep" for row in leaks.descendants()))
    except AssertionError:
        cli.kill()
        raise
    return cli


def pid_of(name):
    return next(row[0] for row in leaks.descendants() if row[3] == name)


# ---- the host is what this suite is for ----


def test_this_host_has_cgroup_v2_only():
    assert pathlib.Path("/proc/self/cgroup").read_text() == "0::/\n"
    assert (CGROUPS / "cgroup.controllers").exists()


def test_the_root_filesystem_is_an_overlay_named_by_path(runner):
    done = runner.sandglass("run", "--", "cat", "/proc/self/mountinfo")
    root = next(line for line in done.stdout.splitlines() if line.split()[4] == "/")
    assert " - overlay " in root
    # Only a kernel that was given paths can repeat them.
    assert "lowerdir=/proc/self/fd/" in root and "upperdir=/proc/self/fd/" in root


def test_doctor_finds_this_host_fit(root):
    done = root.sandglass("doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr


# ---- what holds anywhere ----


def test_the_exit_code_is_the_commands_own(runner):
    assert runner.sandglass("run", "--", "sh", "-c", "exit 7").returncode == 7
    assert runner.sandglass("run", "--", "sh", "-c", "kill -TERM $$").returncode == 128 + 15
    assert runner.sandglass("run", "--", "no-such-program").returncode == 127


def test_a_command_runs_as_the_user_inside(runner):
    assert runner.sandglass("run", "--", "id", "-u").stdout == "1000\n"


def test_python_says_hello(runner):
    done = runner.sandglass("run", "--", "python3", "-c", "print('hello')")
    assert (done.returncode, done.stdout) == (0, "hello\n")


def test_the_writable_layer_is_writable_and_private(runner):
    done = runner.sandglass("run", "--", "sh", "-c", "echo x >/workspace/f && cat /workspace/f; ls /opt")
    assert done.stdout == "x\n"
    assert runner.sandglass("run", "--", "ls", "/workspace").stdout == ""


def test_the_filter_refuses_a_nested_user_namespace(runner):
    done = runner.sandglass("run", "--", "sh", "-c",
                            "grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status; unshare -U true")
    assert done.returncode != 0
    assert "Seccomp:\t2" in done.stdout and "NoNewPrivs:\t1" in done.stdout
    assert "Operation not permitted" in done.stderr


def test_only_loopback_is_there(runner):
    done = runner.sandglass("run", "--", "sh", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1")
    assert done.stdout.split() == ["lo"]


def test_a_deadline_is_reported_as_a_deadline(runner):
    result = runner.run_json("sleep", "50", options=["--timeout", "3s"])
    assert (result["exit_code"], result["limit"]) == (124, "timeout")


def test_too_much_output_is_reported_as_that(runner):
    result = runner.run_json("yes", options=["--output-limit", "64k"])
    assert (result["exit_code"], result["limit"]) == (137, "output")
    assert len(result["stdout"]) <= 64 << 10


def test_a_full_disk_is_reported_and_is_not_a_lack_of_memory(runner):
    result = runner.run_json("dd", "if=/dev/zero", "of=/workspace/f", "bs=1M",
                             options=["--disk", "16m"])
    assert result["disk_full"] and result["oom_kills"] == 0 and result["exit_code"] == 1
    assert "No space left on device" in result["stderr"]


# ---- limits by cgroup v2 ----


def test_memory_ends_at_its_limit_and_is_reported_with_its_peak(root):
    result = root.run_json("python3", "-c", "x = bytearray(200 << 20)", options=["--memory", "64m"])
    assert (result["exit_code"], result["limit"], result["oom_kills"]) == (137, "memory", 1)
    assert 60 << 20 <= result["memory_peak_bytes"] <= 64 << 20


def test_swap_does_not_extend_the_memory_limit(root):
    swap = root.home.parent.parent / "swapfile"  # of the disk: a tmpfs cannot hold it
    swap.write_bytes(bytes(128 << 20))
    swap.chmod(0o600)
    try:
        root.command("mkswap", swap, check=True)
        root.command("swapon", swap, check=True)
        result = root.run_json("python3", "-c", "x = bytearray(100 << 20)",
                               options=["--memory", "64m", "--disk", "16m"])
        assert result["limit"] == "memory"
        assert result["not_enforced"] == []
    finally:
        root.command("swapoff", swap)
        swap.unlink()


def test_processes_end_at_their_limit(root):
    script = "for i in $(seq 40); do sleep 30 & done; wait"
    result = root.run_json("sh", "-c", script, options=["--pids", "16", "--timeout", "20s"])
    assert result["pids_refused"] >= 1
    assert result["pids_peak"] is None or result["pids_peak"] <= 16


def test_two_busy_processes_share_half_a_cpu(root):
    loop = "timeout 4 sh -c 'while :; do :; done'"
    result = root.run_json("sh", "-c", f"{loop} & {loop} & wait", options=["--cpus", "0.5"])
    ratio = result["cpu_ms"] / result["wall_ms"]
    assert 0.3 < ratio < 0.65, result


def test_limits_are_in_the_kernel_as_they_were_asked_for(root):
    cli = sleeping(root, "--memory", "96m", "--cpus", "0.25", "--pids", "33")
    try:
        folder, = CGROUPS.glob("sandglass-*")
        read = {name: (folder / name).read_text().strip()
                for name in ("memory.max", "memory.swap.max", "cpu.max", "pids.max")}
        assert read == {"memory.max": str(96 << 20), "memory.swap.max": "0",
                        "cpu.max": "25000 100000", "pids.max": "33"}
    finally:
        cli.terminate()
        cli.wait()


def test_every_process_is_in_the_cgroup_and_sees_itself_at_its_root(root):
    cli = sleeping(root)
    try:
        folder, = CGROUPS.glob("sandglass-*")
        inside = (folder / "cgroup.procs").read_text().split()
        sleep = pid_of("sleep")
        init = leaks.process_table()[sleep][0]
        assert set(inside) == {str(sleep), str(init)}
    finally:
        cli.terminate()
        cli.wait()
    assert root.sandglass("run", "--", "cat", "/proc/self/cgroup").stdout == "0::/\n"


# ---- ends that nobody planned ----


def test_nothing_is_left_when_the_program_is_killed(runner):
    watch = leaks.Leaks()
    cli = sleeping(runner)
    cli.kill()
    cli.wait()
    assert watch.left(seconds=3) == []


def test_nothing_is_left_when_pid_1_inside_is_killed(runner):
    watch = leaks.Leaks()
    cli = sleeping(runner)
    os.kill(leaks.process_table()[pid_of("sleep")][0], signal.SIGKILL)
    assert cli.wait(timeout=20) == 137
    assert watch.left(seconds=3) == []
