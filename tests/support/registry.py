# SPDX-License-Identifier: Apache-2.0
"""Registries on loopback: Debian's own (docker-registry), and one that does as it is told.

    with registry.Debian(directory) as reg:          # reg.host is "127.0.0.1:PORT"
    with registry.Fake(layout) as reg:               # serves one image under any name
        reg.token = "secret"                         # Bearer, for whoever has user and password
        reg.broken = True                            # the first half of a blob, and nothing more
"""
import base64
import contextlib
import crypt
import hashlib
import http.server
import json
import pathlib
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse
import urllib.request

USER, PASSWORD = "someone", "very-secret-word-4711"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


def auth_file(path, host, password=PASSWORD):
    pair = base64.b64encode(f"{USER}:{password}".encode()).decode()
    path = pathlib.Path(path)
    path.write_text(json.dumps({"auths": {host: {"auth": pair}}}))
    path.chmod(0o644)  # the tests of ordinary users read it, too
    return path


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Debian:
    """docker-registry; `has_users`: for USER with PASSWORD only."""

    def __init__(self, directory, has_users=False):
        self.dir = pathlib.Path(directory)
        self.host = f"127.0.0.1:{free_port()}"
        self.has_users = has_users

    def __enter__(self):
        self.dir.mkdir(parents=True, exist_ok=True)
        config = {"version": 0.1, "log": {"level": "error", "accesslog": {"disabled": True}},
                  "storage": {"filesystem": {"rootdirectory": str(self.dir / "data")}},
                  "http": {"addr": self.host}}
        if self.has_users:
            words = self.dir / "htpasswd"
            salt = crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)
            words.write_text(f"{USER}:{crypt.crypt(PASSWORD, salt)}\n")
            config["auth"] = {"htpasswd": {"realm": "here", "path": str(words)}}
        (self.dir / "config.yml").write_text(json.dumps(config))  # JSON is YAML
        self.process = subprocess.Popen(["docker-registry", "serve", self.dir / "config.yml"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            with contextlib.suppress(OSError):
                socket.create_connection(self.host.split(":"), timeout=1).close()
                return self
            assert self.process.poll() is None, "docker-registry ended"
            time.sleep(0.05)
        raise AssertionError("docker-registry does not listen")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class Fake(http.server.ThreadingHTTPServer):
    """An image for whoever asks, and all the ways to get it wrong."""
    daemon_threads = True

    def __init__(self, layout, certificate=None):
        super().__init__(("127.0.0.1", 0), Answer)
        self.layout = layout
        self.host = f"127.0.0.1:{self.server_port}"
        self.scheme = "https" if certificate else "http"
        self.token = None      # asked for, once given to USER
        self.redirects_to = None  # another Fake that has the blobs
        self.broken = False
        self.lies = False      # a byte of each blob is another
        self.seen = []         # (method, path, headers)
        self.on_request = lambda: None
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()

    def handle_error(self, request, client_address):
        pass  # whoever hangs up is what some tests are about


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def is_known(self):
        reg, header = self.server, self.headers.get("Authorization", "")
        if not reg.token or header == f"Bearer {reg.token}":
            return True
        realm = f'{reg.scheme}://{reg.host}/token'
        self.answer(401, b"{}", WWW_Authenticate=f'Bearer realm="{realm}",service="here"')
        return False

    def give_token(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        if self.headers.get("Authorization") != BASIC:
            return self.answer(401, b"{}")
        assert query["service"] == ["here"] and query["scope"][0].startswith("repository:"), query
        return self.answer(200, json.dumps({"token": self.server.token}).encode())

    def do_GET(self):
        reg = self.server
        reg.seen.append((self.command, self.path, dict(self.headers)))
        reg.on_request()
        if self.path.startswith("/token"):
            return self.give_token()
        if not self.is_known():
            return None
        kind, name = self.path.split("/")[-2:]
        if kind == "manifests" and not name.startswith("sha256:"):
            name = reg.layout.index[-1]["digest"]
        path = reg.layout.blobs / name.removeprefix("sha256:")
        if not path.exists():
            return self.answer(404, b'{"errors":[{"message":"not here"}]}')
        data = path.read_bytes()
        if kind == "manifests":
            return self.answer(200, data, Content_Type=json.loads(data)["mediaType"])
        if reg.redirects_to:
            return self.answer(307, Location=f"http://{reg.redirects_to.host}{self.path}")
        return self.blob(data)

    def blob(self, data):
        start = 0
        if self.server.lies and len(data) > 1000:  # the documents are right
            data = data[:-1] + bytes([data[-1] ^ 1])
        wanted = self.headers.get("Range")
        if wanted:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if self.server.broken and len(data) > 1000:
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            self.wfile.write(b"" if start else data[:len(data) // 2])
            self.close_connection = True
            return None
        if not start:
            return self.answer(200, data)
        return self.answer(206, data[start:],
                           Content_Range=f"bytes {start}-{len(data) - 1}/{len(data)}")


def digest_of(host, repository, tag):
    """What Debian's registry has under a tag."""
    request = urllib.request.Request(f"http://{host}/v2/{repository}/manifests/{tag}", headers={
        "Accept": "application/vnd.oci.image.manifest.v1+json"})
    with urllib.request.urlopen(request, timeout=30) as got:
        return "sha256:" + hashlib.sha256(got.read()).hexdigest()
