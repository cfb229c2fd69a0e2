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
    # protections can be switched off one by one, to show that a test would notice
    "switches": ("gcc", ["-Dtest_switches=true"]),
    "fuzz": ("clang", ["-Dfuzzers=true", "-Db_sanitize=address,undefined", "-Db_lundef=false"]),
}


def directory(variant):
    return ROOT / f"build-check-{variant}"


def build(variant, out=None):
    """Configures when needed and builds. Output goes to the file `out`; raises on failure."""
    where = directory(variant)
    compiler, options = VARIANTS[variant]
    run = lambda *argv: subprocess.run(argv, check=True, stdout=out, stderr=out, cwd=ROOT,
                                       env={**os.environ, "CC": compiler})
    if not (where / "build.ninja").exists():
        run("meson", "setup", where, "--werror", "-Dtests=enabled", f"--prefix={STAGE / variant}",
            *options)
    run("ninja", "--quiet", "-C", where)
    return where
