# SPDX-License-Identifier: Apache-2.0
"""A SOCKS 5 proxy for tests: it does what it is asked for, or something else instead.

    proxy = Proxy(connect, login=("user", "password"))
    world.serve("151.101.1.69", 1080, proxy)

`connect(host, port)` dials. `asked` has what came: (login or None, "name" | "four" | "six", host, port). A proxy with
`lies` says those bytes after as many as each of them waits for: [(bytes to read, bytes to say), ...], and leaves.
"""
import contextlib
import socket
import struct
import threading

KINDS = {1: ("four", socket.AF_INET, 4), 4: ("six", socket.AF_INET6, 16)}
REPLIES = {ConnectionRefusedError: 5, TimeoutError: 4}


def read(sock, n):
    data = b""
    while len(data) < n:
        piece = sock.recv(n - len(data))
        if not piece:
            raise ConnectionError("it has ended")
        data += piece
    return data


def pump(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


class Proxy:
    def __init__(self, connect, login=None, lies=None, hold=None):
        self.connect, self.login, self.lies, self.hold = connect, login, lies, hold
        self.asked, self.logins, self.came = [], [], 0

    def __call__(self, sock):
        self.came += 1
        if self.hold:
            self.hold.wait()
        elif self.lies is not None:
            for count, said in self.lies:
                read(sock, count)
                sock.sendall(said)
        else:
            self.serve(sock)

    def take(self):
        taken, self.asked = self.asked, []
        return taken

    def log_in(self, sock):
        _, count = read(sock, 2)
        methods = read(sock, count)
        if self.login is None:
            sock.sendall(b"\5\0" if 0 in methods else b"\5\xff")
            return None
        if 2 not in methods:
            sock.sendall(b"\5\xff")
            raise ConnectionError("no login")
        sock.sendall(b"\5\2")
        user = read(sock, read(sock, 2)[1])
        login = user.decode(), read(sock, read(sock, 1)[0]).decode()
        self.logins.append(login)
        sock.sendall(b"\1\0" if login == self.login else b"\1\1")
        if login != self.login:
            raise ConnectionError("another login")
        return login

    def serve(self, sock):
        login = self.log_in(sock)
        version, command, zero, kind = read(sock, 4)
        assert (version, command, zero) == (5, 1, 0)
        if kind == 3:
            word, host = "name", read(sock, read(sock, 1)[0]).decode()
        else:
            word, family, size = KINDS[kind]
            host = socket.inet_ntop(family, read(sock, size))
        port, = struct.unpack("!H", read(sock, 2))
        self.asked.append((login, word, host, port))
        try:
            far = self.connect(host, port)
        except OSError as e:
            sock.sendall(bytes([5, REPLIES.get(type(e), 1), 0, 1]) + bytes(6))
            return
        with far:
            sock.sendall(b"\5\0\0\1" + bytes(6))
            up = threading.Thread(target=pump, args=(sock, far), daemon=True)
            up.start()
            pump(far, sock)
            up.join()
