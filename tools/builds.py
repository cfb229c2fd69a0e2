# SPDX-License-Identifier: Apache-2.0
"""The build variants that check, lint and fuzz share: one directory each, made once, then kept."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent

# name: (compiler, options beside --werror)
VARIANTS = {
    "gcc": ("gcc", []),
    "clang": ("clang", []),
    "asan": ("gcc", ["-Db_sanitize=address,undefined"]),
    "fuzz": ("clang", ["-Dfuzzers=true", "-Db_sanitize=address,undefined", "-Db_lundef=false"]),
}


def directory(variant):
    return ROOT / f"build-check-{variant}"


def build(variant, out=None, prefix=None):
    """Configures when needed and builds. Output goes to the file `out`; raises on failure."""
    where = directory(variant)
    compiler, options = VARIANTS[variant]
    run = lambda *argv: subprocess.run(argv, check=True, stdout=out, stderr=out, cwd=ROOT,
                                       env={**os.environ, "CC": compiler})
    if not (where / "build.ninja").exists():
        run("meson", "setup", where, "--werror", "-Dtests=enabled", *options,
            *([f"--prefix={prefix}"] if prefix else []))
    run("ninja", "-C", where)
    return where
