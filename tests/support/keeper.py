# SPDX-License-Identifier: Apache-2.0
"""The launcher's side of the conversation with sandglass-keeper.

    with Keeper(folder, engine.socket) as keeper:
        made = keeper.make("tiny")
        made.init.hello_init()
        launcher.run_inside(made.init, "id")
"""
import array
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import types

import launcher

PROGRAM = pathlib.Path(launcher.LAUNCHER)


def find(program, folder):
    """Beside the launcher, or in its own folder of a build directory."""
    places = [PROGRAM.parent / program, PROGRAM.parents[1] / folder / program]
    return next((str(p) for p in places if os.access(p, os.X_OK)), program)


class Keeper(launcher.Channel):
    def __init__(self, folder, engine_socket, settings=""):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        config = self.folder / "sandglass.toml"
        config.write_text(f'[docker]\nsocket = "{engine_socket}"\n{settings}\n[serve]\nrun_dir = "{self.folder}"\n')
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [find("sandglass-keeper", "keeper")], pass_fds=[3], preexec_fn=lambda: os.dup2(far.fileno(), 3), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": "/root", "SANDGLASS_CONFIG": str(config)})
        far.close()
        super().__init__(near)
        near.settimeout(120)

    def log(self):
        return (self.folder / "log").read_text()

    def make(self, image, name=None, filter_bytes=b"", **limits):
        """A container with its init, as the launcher makes one."""
        name = name or "sandglass-" + launcher.new_id()
        place = self.folder / name
        place.mkdir()
        shutil.copy(find("sandglass-init", "init"), place / "init")
        os.chmod(place / "init", 0o555)
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        door.bind(str(place / "ctl"))
        door.listen(1)
        door.settimeout(120)
        try:
            answer = self.ask("k_make", container=name, image=image, dir=str(place), **limits)
            sock, _ = door.accept()
        finally:
            door.close()
            (place / "ctl").unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(self.folder / f"{name}.sock"))
        listener.listen(1)
        lock = os.open(place / "init", os.O_RDONLY)
        init = launcher.Channel(sock)
        sock.sendmsg([launcher.pack("join", 0, 0, {"filter": filter_bytes})],
                     [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener.fileno(), lock]))])
        listener.close()
        os.close(lock)
        init.await_news("ready")
        pid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        for owned in ("workspace", "home/user"):
            os.chown(f"/proc/{pid}/root/{owned}", 1000, 1000)
        return types.SimpleNamespace(name=name, init=init, place=place, **answer)

    def names(self):
        return self.ask("k_list")["names"]

    def remove(self, name):
        self.ask("k_remove", container=name)

    def end(self):
        self.close()
        self.process.wait(30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
