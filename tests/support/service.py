# SPDX-License-Identifier: Apache-2.0
"""A service of our own: `sandglass serve` with its own state, run directory, port and settings.

    with Service(pool=2) as service:
        box = service.operator.post("/v1/sandboxes", {}, expect=201)
        key = service.key(scopes=["read"])
        service.client(key).get("/v1/sandboxes")
        service.kill9_daemon()
        service.wait_ready()

Leaving it ends it with SIGINT and then looks for anything that it left: processes, mounts, cgroups,
files of the run directory, sockets, journals.
"""
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time

import built_template
import leaks
import openapi
import sg
import web

NUMBERS = itertools.count(1)
START_SECONDS = 60
LOGS = os.environ.get("SANDGLASS_TEST_LOGS")  # where what each service said is kept
STOP_SECONDS = 30
PROGRAMS = ("sandglass-launc", "sandglassd", "sandglass-init", "sandglass-hand", "sandglass-gate", "sandglass-keepe",
            "sandglass-expor")  # as the kernel names them
# Sanitizers tell here; they cannot write where the programs may not, so: to stderr, our log.
SANITIZER = ("ERROR: AddressSanitizer", "runtime error:", "WARNING: ThreadSanitizer",
             "ERROR: LeakSanitizer")
# What every parameter of a path may be called, of things that are not there.
NOBODY = {"id": "s" + "0" * 19, "exec": "x" + "0" * 19, "key": "k" + "0" * 19, "org": "o" + "0" * 19,
          "secret": "c" + "0" * 19, "build": "b" + "0" * 19, "volume": "v" + "0" * 19,
          "approval": "a" + "0" * 19, "context": "c" + "0" * 19, "template": "none", "port": "1", "run": "none", "snapshot": "t" + "0" * 19,
          "late": "s" + "1" * 19}


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def is_free(port):
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
            sock.listen()
        except OSError:
            return False
        return True


def toml(value):
    if isinstance(value, list):
        return "[" + ", ".join(toml(v) for v in value) + "]"
    return json.dumps(value)  # the same for strings, numbers and booleans


def children(parent):
    return [(pid, row[2]) for pid, row in leaks.process_table().items() if row[0] == parent]


def thaw(pid):
    """What is frozen (v1) does not even die."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, name, path = line.split(":", 2)
            if name == "freezer" and "/sandglass-" in path:
                pathlib.Path(f"/sys/fs/cgroup/freezer{path}/freezer.state").write_text("THAWED")


def wait_for(question, seconds=10, what="it"):
    """The first answer that is true; the deadline is a failure."""
    deadline = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.01)


class Service:
    def __init__(self, runner=None, pool=2, binary=None, settings=None, folder=None, env=None,
                 template="host", gate=None, tables=None):
        """`settings`: of [serve], over our own; `gate`: of [gate]; `tables`: {name: settings} of others. `runner`: whose service it is (sg.Runner).
        `folder`: where its state is already; the caller removes it. `template`: one with a recipe is built."""
        self.owns_folder = folder is None
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="sg-svc-"))
        self.runner = runner or sg.Runner(self.folder)
        self.state, self.run = self.folder / "state", self.folder / "run"
        for path in (self.state, self.run):
            path.mkdir(exist_ok=True, mode=0o700)
        if runner and runner.uid is not None:
            for path in (self.folder, self.state, self.run):
                os.chown(path, runner.uid, runner.uid)
        self.port = free_port()
        self.binary = binary or sg.BIN
        self.pool = pool
        self.template = template
        self.env = env
        self.settings = {"listen": f"127.0.0.1:{self.port}", "run_dir": str(self.run),
                         "template": template, "pool": [f"{name}={n}" for name, n in {"base": 0, template: pool}.items()],
                         "pool_most": 0,  # what a test finds parked is what it asked for
                         **(settings or {})}
        self.gate = gate or {}
        self.tables = tables or {}
        self.config = self.folder / "sandglass.toml"
        self.write_config()
        self.log_path = self.folder / "log"
        self.process = None
        self.before = None
        self.operator = web.Client(str(self.run / "api.sock"), check=openapi.check,
                                   uid=self.runner.uid)

    def write_config(self):
        rows = "\n".join(f"{name} = {toml(value)}" for name, value in self.settings.items())
        gate = "\n".join(f"{name} = {toml(value)}" for name, value in self.gate.items())
        others = "".join(f"[{table}]\n" + "".join(f"{name} = {toml(value)}\n" for name, value in of.items())
                         for table, of in self.tables.items())
        self.config.write_text(
            f"state_dir = {toml(str(self.state))}\n[serve]\n{rows}\n[gate]\n{gate}\n{others}")

    # ---- its life ----

    def start(self, wait=True):
        if self.before is None:
            self.before = leaks.Leaks(state_dirs=(self.state,))
        with open(self.log_path, "ab") as log:
            self.process = self.runner.popen(
                self.binary, "serve", env={"SANDGLASS_CONFIG": str(self.config), **(self.env or {})},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        leaks.spared.add(self.process.pid)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, seconds=START_SECONDS):
        """Until both doors answer."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if (self.operator.get("/health").status == 200
                        and self.client().get("/health").status == 200):
                    return
            except OSError:
                pass
            assert self.process.poll() is None, f"serve ended with {self.process.returncode}:\n{self.log()[-4000:]}"
            assert time.monotonic() < deadline, f"not ready within {seconds} s:\n{self.log()[-4000:]}"
            time.sleep(0.02)

    def wait_parked(self, count=None):
        count = self.pool if count is None else count
        wait_for(lambda: any(row["template"] == self.template and row["parked"] >= count
                             for row in self.operator.get("/v1/pool", expect=200)["pool"]),
                 what=f"{count} parked")

    def end(self, number):
        """Sends serve a signal and waits for its end."""
        self.operator.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"serve did not end:\n{self.log()[-4000:]}") from None
        finally:
            leaks.spared.discard(self.process.pid)

    def stop(self):
        """SIGINT: the sandboxes end with it. Then nothing may be left."""
        status = self.end(signal.SIGINT)
        assert status in (0, 128 + signal.SIGINT, -signal.SIGINT), f"serve ended with {status}"
        left = self.before.left() + self.left_files()
        assert not left, "left behind:\n  " + "\n  ".join(left) + "\n" + self.log()[-2000:]
        found = [line for line in self.log().splitlines() if any(s in line for s in SANITIZER)]
        assert not found, self.log()[-8000:]

    def left_files(self):
        found = list((self.run / "cells").glob("*")) if (self.run / "cells").exists() else []
        found += [p for p in self.run.glob("*.sock")] + self.journals()
        return [f"file {path}" for path in found]

    def journals(self):
        """Those of no exec that the store knows."""
        folder = self.state / "daemon"
        if not (folder / "sandglass.db").exists():
            return []
        with contextlib.closing(sqlite3.connect(folder / "sandglass.db")) as database:
            known = {row[0] for row in database.execute("SELECT id FROM execs")}
        return [p for p in folder.glob("journal/*") if p.name.split(".")[0] not in known]

    def tree(self):
        """Serve's own, and what it left when it died: that is our child now (leaks.adopt_orphans)."""
        table = leaks.process_table()
        tree = [self.process.pid] if self.process.poll() is None else []
        tree += [pid for pid, row in table.items() if row[0] == os.getpid() and row[2] in PROGRAMS]
        for pid in tree:
            tree += [child for child, row in table.items() if row[0] == pid]
        return [pid for pid in tree if pid in table and table[pid][1] != "Z"]

    @staticmethod
    def kill_all(pids):
        """Whether they were all gone."""
        table = leaks.process_table()
        left = [pid for pid in pids if pid in table and table[pid][1] != "Z" and table[pid][2] in (*PROGRAMS, "sandglass")]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            thaw(pid)
        return not left

    def kill_tree(self):
        """The same. While some die, others change their parents: one look is not enough."""
        return self.kill_all(self.tree())

    def discard(self):
        """Ends whatever still runs, by force; for a test that has failed already."""
        if not self.process:
            return
        wait_for(self.kill_tree, seconds=60, what="the end of all")
        # One that counts as dead may have a thread that still writes, and with it the port.
        wait_for(lambda: is_free(self.port), seconds=60, what="a free port")
        self.process.wait()
        leaks.spared.discard(self.process.pid)

    def __enter__(self):
        try:
            if self.template != "host":
                built_template.give(self.binary, self.state, self.template)
            return self.start()
        except BaseException:
            self.discard()
            self.remove()
            raise

    def __exit__(self, kind, *_):
        try:
            if kind is None and self.process.poll() is None:
                self.stop()
        finally:
            self.discard()
            self.remove()

    def remove(self):
        self.operator.close()
        if LOGS and self.log_path.exists():
            shutil.copy(self.log_path, pathlib.Path(LOGS) / f"{self.folder.name}.log")
        if self.owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- its processes ----

    def find(self, parent, name):
        return next((pid for pid, comm in children(parent) if name.startswith(comm)), None)

    def launcher_pid(self):
        return wait_for(lambda: self.find(self.process.pid, "sandglass-launcher"), what="a launcher")

    def daemon_pid(self):
        return wait_for(lambda: self.find(self.launcher_pid(), "sandglassd"), what="a daemon")

    def gate_pid(self):
        return wait_for(lambda: self.find(self.launcher_pid(), "sandglass-gate"), what="a gate")

    def kill9(self, pid):
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: leaks.process_table().get(pid, (0, "Z"))[1] == "Z", what="its death")

    def kill9_daemon(self):
        self.kill9(self.daemon_pid())

    def kill9_launcher(self):
        """Its daemon may answer for a moment longer than it lives: that end is waited for, too."""
        daemon = self.daemon_pid()
        self.kill9(self.launcher_pid())
        wait_for(lambda: daemon not in leaks.process_table(), what="the old daemon's end")

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_rows(self):
        return [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]

    @staticmethod
    def rss(pid):
        """Bytes that a process holds in memory, and the most it ever did."""
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in text.splitlines())
        return tuple(int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))

    def audit(self):
        """All records: a service that others used, too, has several pages of them."""
        records, after = [], 0
        while True:
            page = self.operator.get("/v1/audit", query={"after": after}, expect=200)
            records += page["records"]
            if "next" not in page:
                return records
            after = page["next"]

    def daemon_rss(self):
        return self.rss(self.daemon_pid())

    # ---- callers ----

    @property
    def tcp(self):
        return ("127.0.0.1", self.port)

    def client(self, key=None):
        return web.Client(self.tcp, key, check=openapi.check)

    def key(self, name="test", **spec):
        return self.operator.post("/v1/keys", {"name": name, **spec}, expect=201)["key"]

    def org(self, name, **quota):
        name = f"{name[:60]}-{next(NUMBERS)}"  # names are unique
        return self.operator.post("/v1/orgs", {"name": name, "quota": quota}, expect=201)["id"]

    def tenant(self, name, scopes=("read", "exec", "admin"), **quota):
        """(id of a new organisation, a client with a key of it)."""
        org = self.org(name, **quota)
        return org, self.client(self.key(org=org, scopes=list(scopes)))


class Box:
    """A sandbox, and what tests often do with one."""

    def __init__(self, client, spec=None, made=None):
        self.client = client
        self.made = made or client.post("/v1/sandboxes", spec or {}, expect=201)
        self.id = self.made["id"]
        self.path = f"/v1/sandboxes/{self.id}"

    def get(self):
        return self.client.get(self.path, expect=200)

    def state(self):
        reply = self.client.get(self.path)
        return reply.json["state"] if reply.status == 200 else None

    def exec(self, *argv, expect=200, **spec):
        body = {"argv": list(argv), **spec} if argv else spec
        return self.client.post(f"{self.path}/exec", body, expect=expect)

    def sh(self, script, **spec):
        return self.exec("sh", "-c", script, **spec)

    def spawn(self, script, **spec):
        return self.exec("sh", "-c", script, background=True, expect=201, **spec)

    def execution(self, exec_id):
        return self.client.get(f"{self.path}/execs/{exec_id}", expect=200)

    def wait(self, exec_id, seconds=15):
        return wait_for(lambda: (lambda x: x if x["complete"] else None)(self.execution(exec_id)),
                        seconds, "the exec's end")

    def output(self, exec_id, **query):
        """The raw bytes that are kept."""
        return self.client.get(f"{self.path}/execs/{exec_id}/output",
                               query={"raw": 1, **query}, expect=200)

    def write(self, path, data, **query):
        return self.client.put(f"{self.path}/files", data, query={"path": path, **query}, expect=200)

    def read(self, path):
        return self.client.get(f"{self.path}/files", query={"path": path}, expect=200)

    def files(self, method, what, query=None, body=None, **kw):
        return self.client.call(method, f"{self.path}/files/{what}", body, query=query, **kw)

    def destroy(self):
        return self.client.delete(self.path)
