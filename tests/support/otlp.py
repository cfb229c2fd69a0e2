# SPDX-License-Identifier: Apache-2.0
"""An endpoint for traces, shaped as Langfuse's: OTLP over HTTP, JSON, basic authentication.

    with Endpoint(user="pk", password="sk") as endpoint:
        Service(tables={"otlp": endpoint.settings(tmp_path)})
        span = endpoint.await_span(lambda s: s.name == "...")
"""
import base64
import http.server
import json
import ssl
import threading

from service import wait_for

PATH = "/api/public/otel/v1/traces"


class Span:
    """One span, with its attributes as plain values."""

    def __init__(self, raw, resource):
        self.raw, self.resource = raw, resource
        self.name = raw["name"]
        self.attributes = {a["key"]: value(a["value"]) for a in raw["attributes"]}

    def __getitem__(self, key):
        return self.attributes.get(key)


def value(v):
    (kind, inner), = v.items()
    if kind == "intValue":
        return int(inner)
    if kind == "arrayValue":
        return [value(one) for one in inner["values"]]
    assert kind in ("stringValue", "doubleValue", "boolValue"), v
    return inner


class Endpoint:
    def __init__(self, user="pk-lf-1", password="sk-lf-2", tls=None):
        """`tls`: (certificate, key, who signed it), files."""
        self.spans, self.refused, self.bodies = [], 0, []
        self.answers = []  # statuses of the next requests; after them all is well
        self.token = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self.tls = tls
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls[0], tls[1])
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]

    def handler(self):
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = endpoint.take(self.path, self.headers, body)
                reply = json.dumps({} if status == 200 else {"message": "no"}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_):
                pass
        return Handler

    def take(self, path, headers, body):
        if path != PATH:
            return 404
        if headers["Authorization"] != self.token:
            self.refused += 1
            return 401
        if headers["Content-Type"] != "application/json":
            return 415
        if self.answers:
            self.refused += 1
            return self.answers.pop(0)
        document = json.loads(body)
        self.bodies.append(document)
        for resource in document["resourceSpans"]:
            known = {a["key"]: value(a["value"]) for a in resource["resource"]["attributes"]}
            for scope in resource["scopeSpans"]:
                self.spans += [Span(raw, known) for raw in scope["spans"]]
        return 200

    def settings(self, folder, host="127.0.0.1", **more):
        """Of [otlp]; the header's secret is in a file in `folder`."""
        headers = folder / "otlp.headers"
        headers.write_text(f"# of the test\nAuthorization: {self.token}\n")
        headers.chmod(0o600)
        scheme = "https" if self.tls else "http"
        if self.tls:
            more["ca"] = str(self.tls[2])
        return {"endpoint": f"{scheme}://{host}:{self.port}/api/public/otel", "headers": str(headers), **more}

    def await_span(self, question, what="the span"):
        return wait_for(lambda: next((s for s in list(self.spans) if question(s)), None), 60, what)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
