# SPDX-License-Identifier: Apache-2.0
"""The front door: what `make help` lists, and what `make uninstall` takes away."""
import os
import pathlib
import re
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[2]


def make(*args, **env):
    return subprocess.run(["make", "-s", *args], cwd=TOP, env={**os.environ, **env}, text=True,
                          capture_output=True, timeout=60)


def test_help_has_a_line_for_every_target():
    targets = re.search(r"^\.PHONY: (.*)$", (TOP / "Makefile").read_text(), re.M)[1].split()
    shown = [line.split()[1] for line in make("help").stdout.splitlines()]
    assert sorted(shown) == sorted(targets)


def test_uninstall_removes_what_was_installed_and_nothing_else(tmp_path):
    ours = tmp_path / "share" / "sandglass" / "recipes" / "build.sh"
    theirs = tmp_path / "share" / "sandglass" / "templates" / "mine"
    program = tmp_path / "bin" / "sandglass"
    for file in (ours, theirs, program, program.with_name("other")):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "build" / "meson-logs").mkdir(parents=True)
    log = tmp_path / "build" / "meson-logs" / "install-log.txt"
    log.write_text(f"# List of files installed by Meson\n{ours}\n{program}\n{program.parent}\n")
    done = make("uninstall", BUILD=str(tmp_path / "build"))
    assert (done.returncode, done.stdout) == (0, "removed 2 files\n"), done.stderr
    assert not ours.parent.exists() and not program.exists()
    assert theirs.exists() and program.with_name("other").exists()


def test_uninstall_without_an_install_says_so(tmp_path):
    done = make("uninstall", BUILD=str(tmp_path))
    assert done.returncode != 0
    assert done.stderr.startswith(f"nothing was installed from {tmp_path}\n")
