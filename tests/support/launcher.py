# SPDX-License-Identifier: Apache-2.0
"""The daemon's side of the conversation with sandglass-launcher, and the host's with init.

    with Launcher(run_dir, pool=["base=2"]) as launcher:
        cell = launcher.ask("l_create", sandbox=new_id(), template="base")
        cell.init.ask("info")

Messages are packed by the tables of src/ctl, read from the sources: no second copy to keep.
"""
import array
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import string
import struct
import subprocess
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def find_launcher():
    """Named, beside a program in its build directory, or installed with it."""
    program = pathlib.Path(os.environ.get("SANDGLASS_BIN") or shutil.which("sandglass")
                           or "/usr/local/bin/sandglass").resolve()
    places = [os.environ.get("SANDGLASS_LAUNCHER"),
              program.parents[1] / "launcher" / "sandglass-launcher",
              program.parents[1] / "libexec" / "sandglass" / "sandglass-launcher"]
    return next((str(p) for p in places if p and os.access(p, os.X_OK)), "sandglass-launcher")


LAUNCHER = find_launcher()
MAGIC = 0x314C4753
VERSION = 1
PATIENCE = 20


def read_tables():
    """type number by name, and name -> [(field, kind)]."""
    header = (SOURCE / "src/ctl/msg.h").read_text()
    body = re.search(r"enum sg_msg_type \{(.*?)\};", header, re.S)[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    numbers = {name.removeprefix("SG_MSG_"): i
               for i, name in enumerate(re.findall(r"SG_MSG_\w+", body))}
    table = (SOURCE / "src/ctl/msg_table.c").read_text()
    fields = {}
    for name, text in re.findall(r"static const struct sg_field (\w+)\[\] = \{(.*?)\};", table, re.S):
        fields[name] = [(field, kind) for kind, field in
                        re.findall(r"\b(U32|U64|TEXTS|TEXT|BYTES)\(\w+, (\w+)", text)]
    rows = {}
    for number, name, own in re.findall(
            r'\[SG_MSG_(\w+)\] = (?:ROW|BARE)\("(\w+)", \w+(?:, \w+, (\w+))?\)', table):
        rows[name] = (numbers[number], fields[own] if own else [])
    return rows


TABLE = read_tables()
NAMES = {number: name for name, (number, _) in TABLE.items()}


def pack(name, number, epoch, values):
    kind, fields = TABLE[name]
    out = struct.pack("<IIII", MAGIC, kind, number, epoch)
    for field, shape in fields:
        value = values.pop(field, 0 if shape in ("U32", "U64") else [] if shape == "TEXTS" else "")
        if shape == "U32":
            out += struct.pack("<I", value)
        elif shape == "U64":
            out += struct.pack("<Q", value)
        elif shape == "BYTES":
            raw = value or b""
            out += struct.pack("<I", len(raw)) + raw
        else:
            texts = value if shape == "TEXTS" else [value]
            if shape == "TEXTS":
                out += struct.pack("<I", len(texts))
            for text in texts:
                raw = text if isinstance(text, bytes) else text.encode()
                out += struct.pack("<I", len(raw)) + raw + b"\0"
    assert not values, f"{name} has no {sorted(values)}"
    return out


def unpack(data):
    magic, kind, number, epoch = struct.unpack_from("<IIII", data)
    assert magic == MAGIC
    name, at = NAMES[kind], 16
    message = {"type": name, "id": number, "epoch": epoch}

    def u32():
        nonlocal at
        at += 4
        return struct.unpack_from("<I", data, at - 4)[0]

    def text():
        nonlocal at
        n = u32()
        at += n + 1
        return data[at - n - 1:at - 1].decode(errors="surrogateescape")

    for field, shape in TABLE[name][1]:
        if shape == "U32":
            message[field] = u32()
        elif shape == "U64":
            message[field] = u32() | u32() << 32
        elif shape == "TEXT":
            message[field] = text()
        elif shape == "TEXTS":
            message[field] = [text() for _ in range(u32())]
        else:
            n = u32()
            at += n
            message[field] = data[at - n:at]
    assert at == len(data)
    return message


class Failed(Exception):
    KINDS = ["ok", "invalid", "not_found", "conflict", "denied", "exhausted", "unsupported",
             "timeout", "unavailable", "internal"]

    def __init__(self, message):
        super().__init__(message["text"])
        self.kind = self.KINDS[message["kind"]]


class Channel:
    """One SEQPACKET connection: questions with answers, and news in between."""

    def __init__(self, sock, epoch=7):
        self.sock, self.epoch, self.last, self.news = sock, epoch, 0, []
        sock.settimeout(PATIENCE)

    def send(self, name, **values):
        self.last += 1
        self.sock.send(pack(name, self.last, self.epoch, values))
        return self.last

    def receive(self):
        data, fds, _, _ = socket.recv_fds(self.sock, 256 * 1024, 6)
        if not data:
            raise ConnectionResetError("the other side is gone")
        message = unpack(data)
        message["fds"] = fds
        return message

    def answer(self, number):
        while True:
            message = self.receive()
            if message["id"] != number:
                self.news.append(message)
                continue
            if message["type"] in ("error", "l_failed", "k_failed"):
                raise Failed(message)
            if message["fds"] and message["type"] == "l_cell":
                message["init"] = Channel(socket.socket(fileno=message["fds"][0]))
            return message

    def ask(self, name, **values):
        return self.answer(self.send(name, **values))

    def await_news(self, name):
        for message in self.news:
            if message["type"] == name:
                self.news.remove(message)
                return message
        while True:
            message = self.receive()
            if message["type"] == name:
                return message
            self.news.append(message)

    def hello_init(self, flags=2):
        """As the daemon does: KEEP."""
        return self.ask("hello", version=VERSION, flags=flags, epoch=self.epoch)

    def close(self):
        self.sock.close()


def new_id():
    return "s" + "".join(random.choices(string.ascii_lowercase + string.digits, k=19))


class Launcher(Channel):
    """A launcher of our own, without a daemon: we are it."""

    def __init__(self, run_dir, pool=(), state_dir=None, env=None, hello=True, uid=None, pool_most=0):
        self.run_dir = pathlib.Path(run_dir)
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        config = self.run_dir.parent / f"{self.run_dir.name}.toml"
        config.write_text("[serve]\npool = [" + ", ".join(f'"{p}"' for p in ["base=0", *pool]) +
                          f"]\npool_most = {pool_most}\n")
        environment = {"PATH": os.environ["PATH"], "HOME": "/root",
                       "SANDGLASS_CONFIG": str(config), "SANDGLASS_RUN_DIR": str(run_dir)}
        if state_dir:
            environment["SANDGLASS_STATE_DIR"] = str(state_dir)
        environment.update(env or {})
        self.process = subprocess.Popen([LAUNCHER, "--peer", str(far.fileno())],
                                        pass_fds=[far.fileno()], env=environment, user=uid,
                                        group=uid, extra_groups=None if uid is None else [])
        far.close()
        super().__init__(near)
        if hello:
            self.welcome = self.ask("l_hello", version=VERSION, epoch=self.epoch)

    def create(self, template="base", **limits):
        name = new_id()
        cell = self.ask("l_create", sandbox=name, template=template, **limits)
        cell["sandbox"] = name
        return cell

    def parked(self, template="base"):
        for line in self.ask("l_pool")["names"]:
            name, parked, wanted = line.split()
            if name == template:
                return int(parked)
        return 0

    def await_parked(self, count, template="base"):
        wait_until(lambda: self.parked(template) >= count)

    def records(self):
        return sorted(p.name for p in (self.run_dir / "cells").glob("*.rec"))

    def slot_of(self, sandbox):
        for path in (self.run_dir / "cells").glob("*.rec"):
            if sandbox.encode() + b"\0" in path.read_bytes():
                return int(path.stem)
        raise KeyError(sandbox)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.close()

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        try:
            self.process.wait(PATIENCE)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.close()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end()


def wait_until(question, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def run_inside(init, *argv, user="", stdout=None):
    """Spawns through init and waits for the end; returns (code, output)."""
    r, w = os.pipe()
    init.last += 1
    values = {"flags": 2, "user": user, "cwd": "/", "argv": list(argv), "tag": new_id(),
              "env": ["PATH=/usr/bin:/bin"]}
    init.sock.sendmsg([pack("spawn", init.last, init.epoch, values)],
                      [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [w]))])
    os.close(w)
    pid = init.answer(init.last)["pid"]
    output = b""
    while chunk := os.read(r, 65536):
        output += chunk
    os.close(r)
    while True:
        ended = init.await_news("exited")
        if ended["pid"] == pid:
            return ended["code"], output.decode()
