# SPDX-License-Identifier: Apache-2.0
"""A Docker Engine of our own: its own data, its own socket, no network of the machine touched.

    with Engine() as engine:
        engine.import_tiny("tiny")
        engine.call("GET", "/containers/json?all=1")

Leaving it ends it, and every container that it still has, and removes all that it made.
"""
import contextlib
import http.client
import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sysconfig
import tarfile
import tempfile
import time

import leaks

DOCKERD = pathlib.Path("/usr/sbin/dockerd")
START_SECONDS = 120
STOP_SECONDS = 60
# What tests run inside, with what it is linked with.
PROGRAMS = ("sh", "bash", "cat", "chmod", "cksum", "cp", "dd", "echo", "env", "false", "grep", "head", "id", "kill", "ln", "ls",
            "mkdir", "mount", "mv", "nohup", "pwd", "python3", "rm", "sed", "seq", "sleep", "sort", "stat", "stty", "tail", "tee", "touch",
            "tr", "true", "tty", "uname", "unshare", "wc")
PYTHON = pathlib.Path(sysconfig.get_path("stdlib", "posix_prefix", {"installed_base": "/usr", "base": "/usr"}))
NOT_OF_PYTHON = {"__pycache__", "test", "tests", "idlelib", "lib2to3", "tkinter", "ensurepip", "distutils", "pydoc_data", "dist-packages"}
PASSWD = "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n"
GROUP = "root:x:0:\nuser:x:1000:\n"


class Local(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("docker", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def is_there():
    return os.getuid() == 0 and DOCKERD.exists()


def tiny_tar(programs=PROGRAMS, has_python=True):
    """A root with a shell and a few programs: those of this machine."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        def folder(name, mode=0o755, owner=0):
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, mode, owner, owner
            tar.addfile(info)

        def text(name, content):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content.encode()))

        for name in ("bin", "etc", "lib", "lib64", "root", "home", "proc", "sys", "dev", "usr"):
            folder(name)
        folder("home/user", owner=1000)
        folder("tmp", mode=0o1777)
        text("etc/passwd", PASSWD)
        text("etc/group", GROUP)
        seen = set()
        for program in programs:
            path = shutil.which(program, path="/usr/bin:/bin")
            links = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
            wanted = {f"bin/{program}": path, **{p.lstrip("/"): p for p in re.findall(r"(/\S+)", links)}}
            for name, source in wanted.items():
                if name not in seen:
                    seen.add(name)
                    tar.add(os.path.realpath(source), arcname=name, recursive=False)
        if has_python:
            tar.add(PYTHON, arcname=str(PYTHON).lstrip("/"),
                    filter=lambda info: None if NOT_OF_PYTHON & set(info.name.split("/")) else info)
    return out.getvalue()


class Engine:
    def __init__(self, folder=None):
        self.owns_folder = folder is None
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="sg-dockerd-"))
        self.socket = str(self.folder / "docker.sock")
        self.log_path = self.folder / "dockerd.log"
        self.process = None

    # ---- its life ----

    def start(self):
        (self.folder / "docker.json").write_text("{}")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", str(DOCKERD), "--config-file", str(self.folder / "docker.json"),
                 "--host", f"unix://{self.socket}", "--data-root", str(self.folder / "docker"),
                 "--exec-root", str(self.folder / "docker-run"), "--pidfile", str(self.folder / "docker.pid"),
                 "--cgroup-parent", f"/sgtest-{os.getpid()}-{id(self)}", "--bridge=none", "--iptables=false",
                 "--ip6tables=false"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                preexec_fn=leaks.adopt_orphans)  # what it leaves is its own, not ours, while it lives
        leaks.spared.add(self.process.pid)
        deadline = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError):
                if self.call("GET", "/_ping")[0] == 200:
                    return self
            assert self.process.poll() is None, f"dockerd ended:\n{self.log()[-3000:]}"
            assert time.monotonic() < deadline, f"dockerd does not answer:\n{self.log()[-3000:]}"
            time.sleep(0.05)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def stop(self, number=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(STOP_SECONDS)
        if self.process:
            leaks.spared.discard(self.process.pid)
        self.process = None

    def kill9(self):
        """The Engine with its containerd: the containers and their shims live on, as after a crash."""
        self.stop(signal.SIGKILL)
        self.end(int((self.folder / "docker-run/containerd/containerd.pid").read_text()))

    def processes(self):
        """What of ours runs: all have our folder among their arguments."""
        for pid in leaks.process_table():
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if any(word.startswith(bytes(self.folder)) for word in words):
                    yield pid

    @staticmethod
    def end(pid):
        """Kills it, and waits for it where it is our child."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + STOP_SECONDS
        while pid in leaks.process_table() and time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.01)

    def remove(self):
        with contextlib.suppress(OSError):
            for container in self.containers():
                self.call("DELETE", f"/containers/{container['Id']}?force=1&v=1")
        self.stop()
        for pid in list(self.processes()):
            for child in [p for p, row in leaks.process_table().items() if row[0] == pid]:
                self.end(child)
            self.end(pid)
        # What is still mounted is of an Engine that was killed.
        for line in reversed(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()):
            place = line.split()[4]
            if place.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", place], check=False)
        root = pathlib.Path("/sys/fs/cgroup")
        for tree in (root, *(root / name for name in os.listdir(root))):
            with contextlib.suppress(OSError):
                (tree / f"sgtest-{os.getpid()}-{id(self)}").rmdir()
        if self.owns_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(self, *unused):
        self.remove()

    # ---- what it is asked ----

    def call(self, method, path, body=None, timeout=120):
        """Status and answer: JSON where it is."""
        connection = Local(self.socket, timeout)
        try:
            raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            kind = "application/x-tar" if isinstance(body, bytes) else "application/json"
            connection.request(method, path, raw, {"Content-Type": kind} if raw is not None else {})
            answer = connection.getresponse()
            text = answer.read()
            try:
                return answer.status, json.loads(text)
            except ValueError:
                return answer.status, text
        finally:
            connection.close()

    def import_tar(self, name, tar):
        status, answer = self.call("POST", f"/images/create?fromSrc=-&repo={name}", tar)
        assert status == 200, answer

    def import_tiny(self, name="tiny"):
        self.import_tar(name, tiny_tar())

    def containers(self):
        status, answer = self.call("GET", "/containers/json?all=1")
        assert status == 200, answer
        return answer
