# SPDX-License-Identifier: Apache-2.0
"""A sandbox through the E2B door, as bytes: what its clients send, without any of them."""
import json
import struct

import web

ENVD = 49983


class Sandbox:
    def __init__(self, service, key, **spec):
        self.service = service
        self.api = web.Client(service.tcp)
        self.key = key
        self.made = self.control("POST", "/v2/sandboxes", {"templateID": "host", **spec}, expect=201)
        self.id = self.made["sandboxID"]
        self.token = self.made["envdAccessToken"]

    def control(self, method, path, body=None, expect=None, **kw):
        return self.api.call(method, path, body, headers={"X-API-Key": self.key}, expect=expect, **kw)

    def headers(self, port=ENVD, **more):
        return {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": str(port), "X-Access-Token": self.token, **more}

    def envd(self, method, path, body=None, **more):
        return self.api.call(method, path, body, headers=self.headers(**more))

    def rpc(self, method, body, expect=200):
        reply = self.envd("POST", f"/{method}", body)
        assert reply.status == expect, reply
        return reply.json

    def frames(self, method, body, raw=None, **more):
        data = json.dumps(body).encode()
        data = raw if raw is not None else struct.pack(">BI", 0, len(data)) + data
        reply = self.envd("POST", f"/{method}", data, **{"Content-Type": "application/connect+json", **more})
        assert reply.status == 200 and reply.headers["Content-Type"] == "application/connect+json", reply
        rest, found = reply.body, []
        while rest:
            flags, n = struct.unpack(">BI", rest[:5])
            found.append((flags, json.loads(rest[5:5 + n])))
            rest = rest[5 + n:]
        return found

    def run(self, script, **more):
        return self.frames("process.Process/Start", {"process": {"cmd": "/bin/sh", "args": ["-c", script]},
                                                     "stdin": False}, **more)

    def spawn(self, source, port):
        """A Python program that goes on, and listens."""
        self.envd("POST", f"/files?path=/tmp/{port}.py", source.encode(), **{"Content-Type": "application/octet-stream"})
        self.run(f"nohup python3 /tmp/{port}.py >/tmp/{port}.log 2>&1 & while ! python3 -c "
                 f"'import socket; socket.create_connection((\"127.0.0.1\", {port}))' 2>/dev/null; do sleep 0.05; done")

    def port(self, method, path, port, body=None, **more):
        return self.api.call(method, path, body, headers=self.headers(port, **more))

    def kill(self):
        self.control("DELETE", f"/sandboxes/{self.id}")
        self.api.close()
