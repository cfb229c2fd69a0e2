# SPDX-License-Identifier: Apache-2.0
"""As an ordinary user: it works, and what cannot be had there is named and never silently dropped."""
import os
import pathlib

import pytest
import sg


def sh(runner, script, *options, **kw):
    return runner.sandglass("run", *options, "--", "sh", "-c", script, **kw)


def test_python_runs(user):
    done = user.sandglass("run", "--", "python3", "-c", "print(1)")
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_inside_is_an_ordinary_user_or_root_as_asked(user):
    assert sh(user, "id -u; id -g; whoami").stdout.split() == ["1000", "1000", "user"]
    assert sh(user, "id -u", "--user", "root").stdout == "0\n"
    assert sh(user, "id -u", "--user", "1234").stdout == "1234\n"


def test_a_name_that_only_the_template_knows_is_refused_with_the_reason(user):
    done = sh(user, "true", "--user", "daemon")
    assert done.returncode == 125
    assert "without root" in done.stderr and "'daemon'" in done.stderr


def test_what_is_not_enforced_is_listed(user):
    result = user.run_json("true")
    assert any(line.startswith("ids:") for line in result["not_enforced"])
    writable = [c for c in ("memory", "cpu", "pids")
                if os.path.isdir(f"/sys/fs/cgroup/{c}")]
    if writable:  # v1: never delegated to an ordinary user
        for name in ("memory", "cpu", "pids"):
            assert any(line.startswith(f"{name}:") for line in result["not_enforced"]), name
        assert result["memory_peak_bytes"] is None and result["pids_peak"] is None


def test_as_root_nothing_that_was_asked_for_is_missing(root):
    missing = [line for line in root.run_json("true")["not_enforced"]
               if not line.startswith(("swap:", "disk:"))]
    assert missing == []


def test_the_namespaces_are_new_and_the_network_is_empty(user):
    kinds = ("mnt", "pid", "ipc", "uts", "net", "user", "cgroup")
    done = sh(user, " ".join(["readlink"] + [f"/proc/self/ns/{k}" for k in kinds]))
    inside = done.stdout.split()
    assert len(inside) == len(kinds), done.stderr
    for kind, name in zip(kinds, inside):
        assert name != os.readlink(f"/proc/self/ns/{kind}"), kind
    assert sh(user, "cat /proc/net/dev | tail -n +3 | cut -d: -f1").stdout.split() == ["lo"]


def test_no_capability_is_left_to_gain(user):
    status = sh(user, "cat /proc/self/status").stdout
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["CapEff"], 16) == 0 and fields["NoNewPrivs"] == "1" and fields["Seccomp"] == "2"


def test_the_machine_is_not_writable(user):
    done = sh(user, "for d in / /usr /etc /bin; do touch $d/x 2>/dev/null && echo $d; done; :")
    assert "/usr" not in done.stdout.split()
    assert not os.path.exists("/etc/x") and not os.path.exists("/x")


def test_other_peoples_files_stay_theirs(user):
    with sg.ordinary_user() as other:
        secret = other.home / "secret"
        secret.write_text("other")
        os.chown(secret, other.uid, other.uid)
        secret.chmod(0o600)
        other.home.chmod(0o755)
        done = sh(user, "cat /mnt/secret; id -u", "--user", "root", "--bind", f"{other.home}:/mnt:ro")
    assert "other" not in done.stdout and "Permission denied" in done.stderr


def test_a_directory_can_be_the_template(user):
    root = user.home / "tree"
    for name in ("usr", "dev", "proc", "sys", "tmp", "etc"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc" / "marker").write_text("mine")
    for path in (root, *root.rglob("*")):
        os.chown(path, user.uid, user.uid, follow_symlinks=False)
    done = sh(user, "cat /etc/marker; echo new > /etc/marker; cat /etc/marker", "--template",
              f"{root}/", "--bind", "/usr:/usr:ro")
    assert done.stdout == "minenew\n", done.stderr
    assert (root / "etc" / "marker").read_text() == "mine"


def test_two_users_at_once_do_not_meet(user):
    with sg.ordinary_user() as other:
        first = user.popen(sg.BIN, "run", "--", "sleep", "1")
        done = sh(other, "echo fine; ls -d /proc/[0-9]* | wc -l")
        first.wait(timeout=20)
    assert done.stdout.split()[0] == "fine" and int(done.stdout.split()[1]) < 6


def test_a_run_directory_of_its_own_is_used_when_there_is_one(user):
    run = user.home / "run"
    run.mkdir(mode=0o700)
    os.chown(run, user.uid, user.uid)
    done = sh(user, "echo fine", env={"XDG_RUNTIME_DIR": str(run)})
    assert done.stdout == "fine\n", done.stderr
    assert [p.name for p in (run / "sandglass").iterdir()] == ["slots"]


def test_a_lock_file_that_somebody_else_planted_is_refused(user):
    planted = pathlib.Path(f"/tmp/sandglass-{user.uid}")
    planted.mkdir(mode=0o755)
    (planted / "slots").touch(0o666)
    (planted / "slots").chmod(0o666)
    try:
        done = sh(user, "echo ran", env={"XDG_RUNTIME_DIR": None, "HOME": None,
                                         "SANDGLASS_STATE_DIR": str(user.home / "state")})
    finally:
        (planted / "slots").unlink()
        planted.rmdir()
    assert (done.returncode, done.stdout) == (125, ""), done.stderr
    assert "belongs to somebody else" in done.stderr


@pytest.mark.parametrize("limit", [["--disk", "2m"], ["--open-files", "70"], ["--timeout", "5s"]])
def test_limits_that_need_no_root_hold(user, limit):
    script = {"--disk": "head -c 4000000 /dev/zero > /tmp/f", "--open-files": "test $(ulimit -n) = 70",
              "--timeout": "true"}[limit[0]]
    assert sh(user, script, *limit).returncode == (1 if limit[0] == "--disk" else 0)
