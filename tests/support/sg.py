# SPDX-License-Identifier: Apache-2.0
"""Running the program under test: as ourselves, or as an ordinary user made for the occasion.

    done = sandglass("run", "--memory", "64m", "--", "true")     # a CompletedProcess
    result = run_json("true", options=["--memory", "64m"])       # what `run --json` printed
    with ordinary_user() as user:
        user.sandglass("run", "--", "id")
"""
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

BIN = os.environ.get("SANDGLASS_BIN") or shutil.which("sandglass") or "sandglass"
# The same with its protections removable one by one (SANDGLASS_TEST_SWITCHES); None without it.
SWITCHED_BIN = os.environ.get("SANDGLASS_SWITCHED_BIN")
TIMEOUT = 60
# How many times longer what a test gives a time may take: more than once where the machine is emulated.
SLOWER = int(os.environ.get("SANDGLASS_TEST_SLOWER", "1"))
# Far from the system's, people's and the sandboxes' own ranges; a new one each time.
UIDS = itertools.count(48000 + os.getpid() % 1000 * 10)


class Runner:
    """An account from which to run sandglass. `uid` None is our own."""

    def __init__(self, home, uid=None):
        self.home = pathlib.Path(home)
        self.uid = uid
        self.is_root = (os.getuid() if uid is None else uid) == 0
        self.config = self.home / "empty.toml"  # instead of whatever this machine has in /etc
        self.config.touch()

    @property
    def state_dir(self):
        if self.is_root:
            return pathlib.Path("/var/lib/sandglass")
        return self.home / ".local" / "share" / "sandglass"

    def environment(self, changes):
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8",
               "TERM": "dumb", "SANDGLASS_CONFIG": str(self.config)}
        env.update(changes or {})
        return {name: value for name, value in env.items() if value is not None}

    def argv(self, args):
        words = [str(a) for a in args]
        if self.uid is None:
            return words
        return ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups",
                "--inh-caps=-all", "--", *words]

    def popen(self, *args, env=None, **kw):
        """A program (not necessarily sandglass) in the background; the caller ends it."""
        kw.setdefault("cwd", self.home)
        return subprocess.Popen(self.argv(args), env=self.environment(env), **kw)

    def command(self, *args, env=None, timeout=TIMEOUT, **kw):
        """Any program. Output is captured as text; env: changes, None removes a variable."""
        kw.setdefault("cwd", self.home)
        kw.setdefault("text", True)
        kw.setdefault("capture_output", "stdout" not in kw and "stderr" not in kw)
        if "input" not in kw:
            kw.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(self.argv(args), env=self.environment(env), timeout=timeout, **kw)

    def sandglass(self, *args, **kw):
        return self.command(BIN, *args, **kw)

    def switched(self, switches, *args, env=None, **kw):
        """sandglass with protections switched off, to show that a test would notice."""
        assert SWITCHED_BIN, "SANDGLASS_SWITCHED_BIN is not set; tools/check sets it"
        env = {"SANDGLASS_TEST_SWITCHES": switches, **(env or {})}
        return self.command(SWITCHED_BIN, *args, env=env, **kw)

    def run_json(self, *command, options=(), **kw):
        """The object that `sandglass run --json` prints: the last line of its output."""
        done = self.sandglass("run", "--json", *options, "--", *command, **kw)
        lines = done.stdout.strip().splitlines()
        assert lines, f"no output; status {done.returncode}, stderr: {done.stderr}"
        return json.loads(lines[-1])


@contextlib.contextmanager
def account(uid=None):
    home = tempfile.mkdtemp(prefix="sg-test-")
    try:
        if uid is not None:
            os.chown(home, uid, uid)
        yield Runner(home, uid)
    finally:
        shutil.rmtree(home, ignore_errors=True)
        if uid is not None:  # where an account without a run directory keeps its lock file
            shutil.rmtree(f"/tmp/sandglass-{uid}", ignore_errors=True)


def ordinary_user():
    """A context: a Runner with a fresh uid without name, groups or rights, and its own home."""
    return account(next(UIDS) if os.getuid() == 0 else None)


def sandglass(*args, **kw):
    with account() as runner:
        return runner.sandglass(*args, **kw)


def run_json(*command, **kw):
    with account() as runner:
        return runner.run_json(*command, **kw)
