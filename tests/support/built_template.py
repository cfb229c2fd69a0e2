# SPDX-License-Identifier: Apache-2.0
"""The templates that have a recipe, built once for each clone; what the machine has already is taken
over where it is of the same recipe.

    python3 built_template.py SANDGLASS STATE-DIR [TEMPLATE]     puts it into a state directory
"""
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STORE = ROOT / "build-check" / "templates-state"
MACHINES = pathlib.Path("/var/lib/sandglass")
BUILD_SECONDS = 1800


class Unavailable(Exception):
    """It cannot be built here: its packages come from the network."""


def place(state, name):
    return pathlib.Path(state) / "templates" / name


def copy(source, target):
    """A second name for each file, where it can be had: a template is never written to."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = target.parent / ".copy"
    for option in ("-al", "-a"):
        shutil.rmtree(new, ignore_errors=True)
        if subprocess.run(["cp", option, source, new], stderr=subprocess.DEVNULL).returncode == 0:
            new.rename(target)
            return
    raise OSError(f"cannot copy {source}")


def build(binary, name):
    """Does nothing where it is of this recipe already."""
    if not place(STORE, name).exists() and place(MACHINES, name).exists():
        copy(place(MACHINES, name), place(STORE, name))
    done = subprocess.run([binary, "template", "build", name], capture_output=True, text=True, timeout=BUILD_SECONDS,
                          env={**os.environ, "SANDGLASS_STATE_DIR": str(STORE)})
    if done.returncode:
        raise Unavailable(done.stderr.strip()[-400:])


def give(binary, state, name="base"):
    """Puts it into the state directory `state`."""
    build(binary, name)
    copy(place(STORE, name), place(state, name))


if __name__ == "__main__":
    try:
        give(*sys.argv[1:])
    except Unavailable as why:
        sys.exit(f"no template: {why}")
