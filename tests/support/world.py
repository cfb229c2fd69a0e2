# SPDX-License-Identifier: Apache-2.0
"""A world of our own for the gate: two network namespaces and a cable between them.

    with World() as world:                      # this thread is in the service's namespace now
        world.names["example.com"] = ["93.184.216.34"]
        server = world.echo("93.184.216.34", 80)
        with Service(gate=world.settings()) as service: ...

In the far one live the servers, under addresses that look like those of the world, private and
metadata ones among them, so that what does not get there was stopped on its way and not for want of
somebody to answer. No packet leaves the machine.
"""
import contextlib
import ctypes
import os
import socket
import struct
import subprocess
import threading

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)

DNS = "9.9.9.9"
PUBLIC = "93.184.216.34"
OTHER = "151.101.1.69"
SIX = "2606:2800:220:1::1"
PRIVATE = "10.9.8.7"
METADATA = "169.254.169.254"
ADDRESSES = (DNS, PUBLIC, OTHER, "1.1.1.1", PRIVATE, METADATA, "192.168.7.7", "172.20.1.1",
             "100.100.100.200")
SIXES = (SIX, "fd00:ec2::254", "fc00::7")


def call(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def new_namespace():
    """A descriptor of it; the calling thread stays where it is."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        call(LIBC.unshare(CLONE_NEWNET), "unshare")
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    finally:
        call(LIBC.setns(own, CLONE_NEWNET), "setns")
        os.close(own)


@contextlib.contextmanager
def inside(namespace):
    """Sockets and processes made here belong there, for as long as they live."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        call(LIBC.setns(namespace, CLONE_NEWNET), "setns")
        yield
    finally:
        call(LIBC.setns(own, CLONE_NEWNET), "setns")
        os.close(own)


class World:
    def __init__(self):
        self.names = {}  # name -> addresses, or a function that returns them
        self.aliases = {}  # name -> name
        self.asked = []  # (name, type) that came to the name server
        self.answers_names = True
        self.servers = []
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        self.near, self.far = new_namespace(), new_namespace()
        self.stack.callback(os.close, self.near)
        self.stack.callback(os.close, self.far)
        self.stack.enter_context(inside(self.near))
        with inside(self.far):
            holder = subprocess.Popen(["sleep", "600"])
        try:
            ip("link", "set", "lo", "up")
            ip("link", "add", "near", "type", "veth", "peer", "name", "far")
            ip("link", "set", "far", "netns", str(holder.pid))
            ip("addr", "add", "203.0.113.1/30", "dev", "near")
            ip("-6", "addr", "add", "2001:db8::1/64", "dev", "near", "nodad")
            ip("link", "set", "near", "up")
            with inside(self.far):
                self.make_far()
            ip("route", "add", "default", "via", "203.0.113.2")
            ip("-6", "route", "add", "default", "via", "2001:db8::2")
        finally:
            holder.kill()
            holder.wait()
        self.serve_names()
        return self

    def make_far(self):
        ip("link", "set", "lo", "up")
        ip("addr", "add", "203.0.113.2/30", "dev", "far")
        ip("-6", "addr", "add", "2001:db8::2/64", "dev", "far", "nodad")
        for address in ADDRESSES:
            ip("addr", "add", f"{address}/32", "dev", "lo")
        for address in SIXES:
            ip("-6", "addr", "add", f"{address}/128", "dev", "lo", "nodad")
        ip("link", "set", "far", "up")

    def __exit__(self, *_):
        for server in self.servers:
            server.close()
        self.stack.close()

    def settings(self, **others):
        return {"resolvers": [DNS], **others}

    # ---- servers ----

    def listen(self, address, port, kind=socket.SOCK_STREAM):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with inside(self.far):
            sock = socket.socket(family, kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        if kind == socket.SOCK_STREAM:
            sock.listen(1024)
        return sock

    def serve(self, address, port, handle):
        """A thread a connection; `handle(sock)`. Counts those who came."""
        server = Server(self.listen(address, port), handle)
        self.servers.append(server)
        return server

    def echo(self, address, port):
        def handle(sock):
            while data := sock.recv(65536):
                sock.sendall(data)
        return self.serve(address, port, handle)

    def http(self, address, port, text="hello\n"):
        """Answers every request with its Host."""
        def handle(sock):
            stream = sock.makefile("rb")
            while line := stream.readline():
                host, length = "", 0
                while (header := stream.readline().strip()):
                    name, _, value = header.partition(b":")
                    if name.lower() == b"host":
                        host = value.strip().decode()
                    if name.lower() == b"content-length":
                        length = int(value)
                stream.read(length)
                body = f"{line.split()[1].decode()} {host} {text}".encode()
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        return self.serve(address, port, handle)

    def datagrams(self, address, port):
        """Sends back what comes, with a mark."""
        sock = self.listen(address, port, socket.SOCK_DGRAM)

        def run():
            with contextlib.suppress(OSError):
                while True:
                    data, sender = sock.recvfrom(65536)
                    sock.sendto(b"+" + data, sender)
        threading.Thread(target=run, daemon=True).start()
        self.servers.append(sock)

    # ---- names ----

    def serve_names(self):
        sock = self.listen(DNS, 53, socket.SOCK_DGRAM)

        def run():
            with contextlib.suppress(OSError):
                while True:
                    query, sender = sock.recvfrom(4096)
                    if self.answers_names:
                        sock.sendto(self.answer(query), sender)
        threading.Thread(target=run, daemon=True).start()
        self.servers.append(sock)

    def answer(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += 1 + query[at]
        name, kind = ".".join(labels), struct.unpack("!H", query[at + 1:at + 3])[0]
        question = query[12:at + 5]
        self.asked.append((name, kind))
        records, count, owner = b"", 0, name
        while owner in self.aliases:
            target = self.aliases[owner]
            wire = b"".join(bytes([len(p)]) + p.encode() for p in target.split(".")) + b"\0"
            records += encode(owner) + struct.pack("!HHIH", 5, 1, 1, len(wire)) + wire
            count, owner = count + 1, target
        found = self.names.get(owner)
        known = found is not None
        for address in (found() if callable(found) else found) or []:
            is_six = ":" in address
            if (kind == 28) != is_six or kind not in (1, 28):
                continue
            data = socket.inet_pton(socket.AF_INET6 if is_six else socket.AF_INET, address)
            records += encode(owner) + struct.pack("!HHIH", kind, 1, 1, len(data)) + data
            count += 1
        flags = 0x8180 | (0 if known else 3)
        return query[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0) + question + records


def encode(name):
    return b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0"


class Server:
    def __init__(self, sock, handle):
        self.sock, self.handle, self.came = sock, handle, 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                conn, _ = self.sock.accept()
                self.came += 1
                threading.Thread(target=self.one, args=(conn,), daemon=True).start()

    def one(self, conn):
        with conn, contextlib.suppress(OSError):
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.handle(conn)

    def close(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
