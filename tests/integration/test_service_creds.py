# SPDX-License-Identifier: Apache-2.0
"""Secrets at work: used by a sandbox, known to the gate and the server they are for, and to nobody else."""
import base64
import contextlib
import json
import os
import pathlib
import socket

import pytest

from gatebox import Box
from reflector import Reflector, make_authority, make_cert
from service import Service, wait_for
from socks import Proxy
from test_service_secrets import everywhere, holds
from world import OTHER, PUBLIC, World, inside

VALUE = "sk-Live/0815+correct horse"
MORE = "second-value-4711"


class Place:
    pass


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    p, folder = Place(), tmp_path_factory.mktemp("authorities")
    make_authority(folder, "good")
    make_authority(folder, "bad")
    with World() as world:
        world.names.update({"api.example.com": [PUBLIC], "other.com": [OTHER], "wrong.example.com": [PUBLIC],
                            "unknown.example.com": [PUBLIC], "plain.example.com": [PUBLIC]})
        p.api, p.other, p.clear = (Reflector(make_cert(folder, "good", "api.example.com")),
                                   Reflector(make_cert(folder, "good", "other.com")), Reflector())
        world.serve(PUBLIC, 443, p.api)
        world.serve(OTHER, 443, p.other)
        world.serve(PUBLIC, 80, p.clear)
        p.wrong = Reflector(make_cert(folder, "good", "somebody.else"))
        p.unknown = Reflector(make_cert(folder, "bad", "unknown.example.com"))
        world.serve(PUBLIC, 8443, p.wrong)
        world.serve(PUBLIC, 9443, p.unknown)

        def connect(host, port):
            with inside(world.far):
                return socket.create_connection((world.names.get(host, [host])[0], port), 10)
        p.proxy = Proxy(connect, ("agent", "proxy-password"))
        world.serve(OTHER, 1080, p.proxy)
        with Service(pool=2, gate=world.settings(ca_file=f"{folder}/good.pem")) as p.service:
            op = p.service.operator
            op.put("/v1/secrets/key", {"value": VALUE, "hosts": ["*.example.com"]}, expect=200)
            op.put("/v1/secrets/more", {"value": MORE, "hosts": ["other.com", "plain.example.com"],
                                        "plainHttp": True}, expect=200)
            p.folder = folder
            yield p


@pytest.fixture(scope="module")
def box(place):
    made = Box(place.service, {"mode": "open"}, secrets=[{"name": "key", "env": "API_KEY"}, {"name": "more"}])
    yield made
    made.remove()


PROGRAM = r'''
import http.client, json, os, ssl, sys, base64
key = os.environ["API_KEY"]
got = []
def ask(conn, method, path, body=None, headers={}, **more):
    conn.request(method, path, body, {k: v.replace("KEY", key) for k, v in headers.items()}, **more)
    r = conn.getresponse()
    text = r.read().decode("latin-1")
    got.append([r.status, text, dict(r.getheaders())])
conn = http.client.HTTPSConnection("api.example.com", timeout=60)
ask(conn, "GET", "/one?k=" + key, headers={"Authorization": "Bearer KEY", "Accept-Encoding": "gzip"})
ask(conn, "GET", "/two", headers={"Authorization": "Basic " + base64.b64encode(("u:" + key).encode()).decode()})
ask(conn, "POST", "/json", json.dumps({"k": key}), {"Content-Type": "application/json"})
ask(conn, "POST", "/form", "a=1&k=" + key, {"Content-Type": "application/x-www-form-urlencoded"})
ask(conn, "POST", "/parts", iter([b"raw " + key[:9].encode(), key[9:].encode()]), encode_chunked=True)
ask(conn, "GET", "/chunked", headers={"X-Key": "KEY"})
ask(conn, "HEAD", "/head", headers={"X-Key": "KEY"})
ask(conn, "GET", "/gzip", headers={"X-Key": "KEY"})
conn = http.client.HTTPSConnection("api.example.com", timeout=60)
ask(conn, "GET", "/close", headers={"X-Key": "KEY"})
print(json.dumps(got))
'''


def run_python(box, program, **more):
    got = box.run("python3", "-c", program, **more)
    assert got["exitCode"] == 0, got
    return json.loads(got["stdout"])


def test_the_value_gets_there_in_every_form_and_comes_back_in_none(place, box):
    place.api.take()
    got = run_python(box, PROGRAM)
    one, two, as_json, form, parts, chunked, head, gzip, close = place.api.take()
    value = VALUE.encode()
    assert b"/one?k=sk-Live%2F0815%2Bcorrect%20horse " in one
    assert b"Authorization: Bearer " + value + b"\r\n" in one and b"Accept-Encoding: identity" in one
    assert base64.b64encode(b"u:" + value) in two
    assert json.loads(as_json.split(b"\r\n\r\n")[1]) == {"k": VALUE}
    assert form.endswith(b"a=1&k=sk-Live%2F0815%2Bcorrect%20horse")
    assert parts.endswith(b"raw " + value)
    assert all(value in r for r in (chunked, head, gzip, close))
    assert [status for status, _, _ in got] == [200] * 7 + [502, 200]
    for status, text, headers in got:
        for form in (VALUE, "sk-Live%2F", base64.b64encode(b"u:" + value).decode()[4:], "correct horse"):
            assert form not in text and form not in str(headers)
    assert "******" in got[0][1] and "/one" in got[0][1] and "******" in got[0][2]["X-Echo"]
    assert "compresses" in got[7][1]
    assert "compresses" in place.service.log()


def test_through_a_proxy_it_gets_there_as_well(place):
    proxy = {"address": f"{OTHER}:1080", "username": "agent", "password": "proxy-password"}
    b = Box(place.service, {"mode": "filtered", "allow": ["api.example.com"], "egressProxy": proxy},
            secrets=[{"name": "key", "env": "API_KEY"}])
    place.api.take()
    got = b.run("sh", "-c", 'curl -sS -H "Authorization: Bearer $API_KEY" https://api.example.com/')
    assert got["exitCode"] == 0 and "Bearer ****" in got["stdout"], got
    assert VALUE.encode() in place.api.take()[0]
    assert place.proxy.take() == [(("agent", "proxy-password"), "name", "api.example.com", 443)]
    b.remove()


def cell_pids(words):
    """All processes of the cell in which a command has these words."""
    spaces = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            space = (path / "ns/pid").readlink()
            spaces.setdefault(space, []).append(int(path.name))
            if words in (path / "cmdline").read_bytes() and path.name != str(os.getpid()):
                found = space
    return spaces[found]


def test_the_sandbox_has_a_placeholder_and_nothing_else(place, box):
    """Memory of every process, environments, arguments and files of it are searched, from outside."""
    program = "import os, time; key = os.environ['API_KEY']; print(key, flush=True); time.sleep(600)"
    held = box.op.post(f"/v1/sandboxes/{box.id}/exec", {"argv": ["python3", "-c", PROGRAM + program],
                                                        "background": True}, expect=201)
    output = f"/v1/sandboxes/{box.id}/execs/{held['id']}/output"
    wait_for(lambda: "sgsecret_" in box.op.get(output).body.decode(), what="the program")
    pids = cell_pids(b"; key = os.environ['API_KEY']; print(key, flush=True)")
    needles = [VALUE.encode(), MORE.encode(), b"sk-Live%2F0815", base64.b64encode(b"u:" + VALUE.encode())[4:-4]]
    for pid in pids:
        for needle in needles:
            assert not holds(pid, needle), (pid, needle)
        for name in ("environ", "cmdline"):
            assert VALUE.encode() not in pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    assert all(holds(place.service.gate_pid(), n) for n in needles[:2])
    assert not any(holds(place.service.daemon_pid(), n) for n in needles)
    got = box.run("sh", "-c", f"grep -rlsF '{VALUE[8:20]}' /etc /home /root /tmp /run /var 2>/dev/null; env; "
                  "cat /proc/[0-9]*/environ | tr '\\0' '\\n'")
    assert VALUE[8:20] not in got["stdout"] and "sgsecret_" in got["stdout"]
    for path, data in everywhere(place.service.folder):
        assert not any(n in data for n in needles[:2]), path
    box.op.post(f"/v1/sandboxes/{box.id}/execs/{held['id']}/signal", {"signal": 9})


def test_it_goes_nowhere_else(place, box):
    """Another host, plain HTTP, a redirect: the placeholder stays one."""
    for reflector in (place.api, place.other, place.clear):
        reflector.take()
    got = run_python(box, r'''
import http.client, json, os
key, more = os.environ["API_KEY"], os.environ["MORE"]
got = []
def ask(kind, host, path, mark, port=None):
    conn = kind(host, port, timeout=60)
    conn.request("GET", path, headers={"Authorization": "Bearer " + mark})
    r = conn.getresponse()
    got.append([r.status, r.read().decode("latin-1"), r.getheader("Location")])
ask(http.client.HTTPSConnection, "other.com", "/a?k=" + key, key)
ask(http.client.HTTPConnection, "api.example.com", "/b", key)
ask(http.client.HTTPConnection, "plain.example.com", "/c", key + more)
ask(http.client.HTTPSConnection, "api.example.com", "/redirect/https://other.com/?t=" + key, key)
ask(http.client.HTTPSConnection, "api.example.com", "/d", more)
print(json.dumps(got))''')
    assert [g[0] for g in got] == [200, 200, 200, 302, 200]
    assert "*****" in got[3][2] and "horse" not in got[3][2]
    other, clear, api = place.other.take(), place.clear.take(), place.api.take()
    assert b"horse" not in b"".join(other + clear)
    assert b"sgsecret_" in other[0] and b"sgsecret_" in clear[0]
    assert MORE.encode() in clear[1] and MORE not in got[2][1]
    assert MORE.encode() not in b"".join(api)


def test_a_bad_certificate_is_told_inside_and_recorded(place, box):
    program = r'''
import http.client, json, os
got = []
for host, port in (("wrong.example.com", 8443), ("unknown.example.com", 9443)):
    conn = http.client.HTTPSConnection(host, port, timeout=60)
    conn.request("GET", "/", headers={"X-Key": os.environ["API_KEY"]})
    r = conn.getresponse()
    got.append([r.status, r.read().decode()])
print(json.dumps(got))'''
    got = run_python(box, program)
    assert [status for status, _ in got] == [502, 502]
    assert "hostname mismatch" in got[0][1] and "self-signed" in got[1][1] or "issuer" in got[1][1]
    assert "certificate" in box.logged(name="wrong.example.com", verdict="denied")["rule"]
    assert not place.wrong.take() and not place.unknown.take()


def test_another_host_in_the_request_is_refused(box):
    got = run_python(box, r'''
import http.client, json, os
conn = http.client.HTTPSConnection("api.example.com", timeout=60)
conn.request("GET", "/", headers={"Host": "other.com", "X-Key": os.environ["API_KEY"]})
r = conn.getresponse()
print(json.dumps([r.status, r.read().decode()]))''')
    assert got[0] == 403 and "host is another one" in got[1]


def test_the_gates_authority_is_trusted_by_what_is_there(box):
    """With the environment and without it: curl by the bundle, OpenSSL by the file's name."""
    got = box.run("sh", "-c", "curl -sS https://api.example.com/curl && env -i PATH=$PATH curl -sS "
                  "https://api.example.com/bare && env -i PATH=$PATH python3 -c \"import urllib.request as u; "
                  "print(u.urlopen('https://api.example.com/python').status)\"")
    assert got["exitCode"] == 0 and "/curl" in got["stdout"] and "/bare" in got["stdout"], got
    assert got["stdout"].endswith("200\n")
    issuer = box.run("python3", "-c", "import ssl, socket; c = ssl.create_default_context(); "
                     "s = c.wrap_socket(socket.create_connection(('api.example.com', 443)), "
                     "server_hostname='api.example.com'); print(s.getpeercert()['issuer'], s.version())")
    assert "Sandglass gate" in issuer["stdout"], issuer


def test_59_who_does_not_trust_the_gate_gets_no_further(place, box):
    """A TLS stack of its own, without the gate's authority and with an empty environment, passes the gate all the same."""
    place.api.take()
    authority = (place.folder / "good.pem").read_text()  # of the real server, which is not who answers
    place.service.operator.put(f"/v1/sandboxes/{box.id}/files", authority.encode(), query={"path": "/tmp/own.pem"})
    got = box.run("env", "-i", "python3", "-c", """
import socket, ssl
for context in (ssl.create_default_context(cafile="/tmp/own.pem"), ssl._create_unverified_context()):
    try:
        sock = context.wrap_socket(socket.create_connection(("api.example.com", 443), 30), server_hostname="api.example.com")
        sock.sendall(b"GET /blind HTTP/1.1\\r\\nHost: api.example.com\\r\\nX: sgsecret\\r\\nConnection: close\\r\\n\\r\\n")
        print(sock.recv(99)[:12].decode())
    except OSError as e: print(type(e).__name__)
""")
    assert got["stdout"].splitlines() == ["SSLCertVerificationError", "HTTP/1.1 200"], got
    assert [VALUE.encode() in request for request in place.api.take()] == [False]


def test_a_new_value_counts_at_once_and_a_removed_one_is_gone(place):
    op = place.service.operator
    op.put("/v1/secrets/brief", {"value": "first-value-1", "hosts": ["api.example.com"]}, expect=200)
    b = Box(place.service, {"mode": "filtered", "allow": ["api.example.com"]}, secrets=[{"name": "brief"}])
    try:
        place.api.take()
        curl = ["sh", "-c", "curl -ksS -H \"X-Key: $BRIEF\" https://api.example.com/"]
        assert b.run(*curl)["exitCode"] == 0
        op.put("/v1/secrets/brief", {"value": "second-value-2"}, expect=200)
        wait_for(lambda: (b.run(*curl), place.api.has(b"second-value-2"))[1], what="the new value")
        op.delete("/v1/secrets/brief", expect=204)
        place.api.take()
        wait_for(lambda: (b.run(*curl), place.api.has(b"sgsecret_"))[1], what="the placeholder")
        first = place.api.take()
        assert b"second-value-2" not in first[-1]
    finally:
        b.remove()


def test_it_survives_the_end_of_gate_and_daemon(place, box):
    curl = ["sh", "-c", "curl -sS -H \"X-Key: $API_KEY\" https://api.example.com/again"]
    for pid in (place.service.gate_pid, place.service.daemon_pid):
        place.api.take()
        place.service.kill9(pid())
        wait_for(lambda: (place.service.operator.get("/v1/secrets").status == 200 and
                          box.run(*curl)["exitCode"] == 0), what="the way there")
        assert place.api.has(VALUE.encode())


def test_the_gates_keys_are_its_own(place):
    seal = place.service.state / "seal"
    assert (seal / "ca.key").stat().st_mode & 0o777 == 0o600
    key = b"".join((seal / "ca.key").read_bytes().splitlines()[1:-1])
    assert not holds(place.service.daemon_pid(), key[:60])


def test_bad_wishes_are_refused_with_the_reason(place):
    op = place.service.operator
    for body, word in (({"value": "long enough", "hosts": ["10.0.0.1"]}, "no host"),
                       ({"value": "long enough", "hosts": ["*"]}, "no host"),
                       ({"value": "long enough", "hosts": [7]}, "texts"),
                       ({"value": "short", "hosts": ["a.com"]}, "at least 8"),
                       ({"value": "x" * 9000, "hosts": ["a.com"]}, "at most 8192")):
        assert word in str(op.put("/v1/secrets/bad", body, expect=400)), body
    op.put("/v1/secrets/unbound", {"value": "long enough"}, expect=200)
    for secrets, status, word in (([{"name": "none"}], 404, "none"), ([{"name": "unbound"}], 400, "no host"),
                                  ([{"name": "key", "env": "A B"}], 400, "variable"),
                                  ([{"name": "key", "env": "A"}, {"name": "more", "env": "A"}], 400, "two")):
        assert word in str(op.post("/v1/sandboxes", {"secrets": secrets}, expect=status)), secrets


def test_the_command_line_binds_and_uses(place):
    def cli(*args, status=0, **kw):
        done = place.service.runner.sandglass(*args, env={"SANDGLASS_CONFIG": str(place.service.config)}, **kw)
        assert done.returncode == status, (args, done)
        return done
    assert cli("secrets", "set", "--host", "api.example.com", "--host", "*.other.org", "cli-key",
               input="from-the-command-line\n").stdout == "cli-key\n"
    assert "api.example.com *.other.org" in cli("secrets", "list").stdout
    made = cli("create", "--net", "filtered", "--allow", "api.example.com", "--secret", "TOKEN=cli-key",
               "--secret", "cli-key").stdout.strip()
    place.api.take()
    got = cli("exec", made, "--", "sh", "-c", "curl -sS -H \"X: $TOKEN $CLI_KEY\" https://api.example.com/; env")
    assert got.returncode == 0 and "from-the-command-line" not in got.stdout, got
    assert place.api.has(b"X: from-the-command-line from-the-command-line")
    assert "--host" in cli("secrets", "set", "--plain-http", "x", input="y", status=2).stderr
    cli("rm", made)


def test_headers_by_rules_of_e2b_clients(place):
    """The exact host beats the wildcard; what a rule needs is no right of the sandbox's own."""
    op = place.service.operator
    op.post("/secrets", {"name": "Injected", "value": "injected-value-1"}, expect=201)
    rules = {"*.example.com": [{"transform": {"headers": {"X-Wild": "w"}}}],
             "api.example.com": [{"transform": {"headers": {"Authorization": "Bearer ${e2b.secrets.injected}",
                                                            "X-Team": "blue"}}}]}
    network = {"allowOut": ["api.example.com"], "denyOut": ["0.0.0.0/0"], "rules": rules}
    made = op.post("/v2/sandboxes", {"templateID": "host", "network": network}, expect=201)["sandboxID"]
    place.api.take()

    def curl(*more):
        got = op.post(f"/v1/sandboxes/{made}/exec", {"argv": ["curl", "-sS", *more, "https://api.example.com/"]},
                      expect=200)
        return got["stdout"], b"".join(place.api.take())
    inside, outside = curl("-H", "Authorization: mine")
    assert b"Authorization: Bearer injected-value-1\r\nX-Team: blue\r\n" in outside
    assert b"mine" not in outside and b"X-Wild" not in outside
    assert "injected-value-1" not in inside and "Bearer ****" in inside
    op.put(f"/sandboxes/{made}/network", {**network, "rules": {"api.example.com": [
        {"transform": {"headers": {"X-Other": "2"}}}]}}, expect=204)
    inside, outside = curl()
    assert b"X-Other: 2" in outside and b"injected" not in outside
    for bad, word in (({"10.0.0.1": [{"transform": {"headers": {"A": "b"}}}]}, "no host"),
                      ({"a.com": [{"transform": {"headers": {"Host": "b"}}}]}, "Host"),
                      ({"a.com": [{"transform": {"headers": {"A": "b\r\nC: d"}}}]}, "control"),
                      ({"a.com": [{}, {}]}, "one rule"), ({"a.com": 7}, "one rule"),
                      ({"a.com": [{"transform": {"headers": {"A": "${e2b.secrets.none}"}}}]}, "not found"),
                      ({"a.com": [{"transform": {"headers": {"A": "${e2b.identity.tokens.x}"}}}]}, "identity"),
                      ({f"h{i}.com": [{"transform": {"headers": {"A": "b"}}}] for i in range(11)}, "at most 10")):
        reply = op.put(f"/sandboxes/{made}/network", {**network, "rules": bad})
        assert reply.status in (400, 403, 501) and word in str(reply.json), (bad, reply.json)
    assert "X-Other: 2" in curl()[1].decode()
    op.delete(f"/sandboxes/{made}", expect=204)
