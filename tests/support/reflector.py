# SPDX-License-Identifier: Apache-2.0
"""Servers over TLS for tests of the gate: certificates of the test's own, and one that keeps what it was sent."""
import pathlib
import socket
import ssl
import subprocess
import threading


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def make_authority(folder, name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem")


def make_cert(folder, authority, name, days="2"):
    """A context of a server with a certificate for the name."""
    base = f"{folder}/{name}-{authority}"
    pathlib.Path(f"{base}.ext").write_text(f"subjectAltName=DNS:{name}\n")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
            "-keyout", f"{base}.key", "-out", f"{base}.csr")
    openssl("x509", "-req", "-in", f"{base}.csr", "-CA", f"{folder}/{authority}.pem", "-CAkey",
            f"{folder}/{authority}.key", "-CAcreateserial", "-days", days, "-extfile", f"{base}.ext",
            "-out", f"{base}.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{base}.pem", f"{base}.key")
    context.set_alpn_protocols(["http/1.1"])
    return context


class Reflector:
    """Keeps every request as it came and sends it back, as the path asks for it."""

    def __init__(self, context=None):
        self.context, self.requests, self.lock = context, [], threading.Lock()

    def __call__(self, sock):
        if self.context:
            try:
                sock = self.context.wrap_socket(sock, server_side=True)
            except OSError:
                return
        stream = sock.makefile("rb")
        while (request := self.read(stream)) is not None:
            with self.lock:
                self.requests.append(request)
            self.answer(sock, request)

    @staticmethod
    def read(stream):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = stream.readline()
            if not line:
                return None
            head += line
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
        body = stream.read(int(fields.get(b"content-length", 0)))
        if b"transfer-encoding" in fields:
            while (size := int(stream.readline(), 16)):
                body += stream.read(size)
                stream.readline()
            stream.readline()
        return head + body

    def answer(self, sock, request):
        path = request.split(b" ")[1].decode()
        if path.startswith("/redirect/"):
            sock.sendall(b"HTTP/1.1 302 Found\r\nLocation: " + path[10:].encode() + b"\r\nContent-Length: 0\r\n\r\n")
        elif path == "/gzip":
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc")
        elif path == "/chunked":
            sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for i in range(0, len(request), 7):
                piece = request[i:i + 7]
                sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            sock.sendall(b"0\r\n\r\n")
        elif path == "/close":
            sock.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + request)
            sock.shutdown(socket.SHUT_RDWR)
        else:
            sock.sendall(b"HTTP/1.1 200 OK\r\nX-Echo: %s\r\nContent-Length: %d\r\n\r\n" % (
                request.split(b"\r\n")[0], len(request)))
            for i in range(0, 0 if request.startswith(b"HEAD") else len(request), 11):
                sock.sendall(request[i:i + 11])

    def take(self):
        with self.lock:
            taken, self.requests = self.requests, []
        return taken

    def has(self, text):
        with self.lock:
            return any(text in r for r in self.requests)
