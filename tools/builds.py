# SPDX-License-Identifier: Apache-2.0
"""The build variants that check, lint and fuzz share: one directory each, made once, then kept."""
import hashlib
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Where a variant is installed for a test. Tests run as other users too, who must be able to reach
# it wherever the clone is; one place for each clone, because it is compiled in.
STAGE = pathlib.Path("/var/tmp") / (
    f"sg-check-{os.getuid()}-" + hashlib.sha256(str(ROOT).encode()).hexdigest()[:8])

# name: (compiler, options beside --werror)
VARIANTS = {
    "gcc": ("gcc", []),
    "clang": ("clang", []),
    "asan": ("gcc", ["-Db_sanitize=address,undefined"]),
    "tsan": ("gcc", ["-Db_sanitize=thread", "-Dtests=disabled"]), # programs only
    # protections can be switched off one by one, to show that a test would notice
    "switches": ("gcc", ["-Dtest_switches=true", "-Dtests=disabled"]),
    "fuzz": ("clang", ["-Dfuzzers=true", "-Db_sanitize=address,undefined", "-Db_lundef=false"]),
}


def directory(variant):
    return ROOT / f"build-check-{variant}"


class BuildFailed(Exception):
    pass


def run(argv, compiler, out):
    done = subprocess.run([str(a) for a in argv], cwd=ROOT, env={**os.environ, "CC": compiler},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")
    if done.returncode:
        print(done.stdout, file=out, flush=True)
        raise BuildFailed(f"{argv[0]} failed in {argv[-1]}")


def build(variant, out=None, targets=()):
    """Configures when needed and builds (all, or only the targets). What fails is told in the file
    `out`, and raises."""
    where = directory(variant)
    compiler, options = VARIANTS[variant]
    if not (where / "build.ninja").exists():
        run(["meson", "setup", "--werror", "-Dtests=enabled", f"--prefix={STAGE / variant}",
             *options, where], compiler, out)
    run(["ninja", "--quiet", *targets, "-C", where], compiler, out)
    return where
