# SPDX-License-Identifier: Apache-2.0
"""The cases of docs/design/security-cases.md, Network: what must not get out, and what must not get
in, against servers that would answer if it did (support/gate_world.py)."""
import ssl
import subprocess
import time

import world as worlds
from gatebox import GET, Box
from service import Service, wait_for
from world import METADATA, OTHER, PRIVATE, PUBLIC


def test_52_metadata_in_every_spelling(gate_world, gate_box):
    b = gate_box({"mode": "open"})
    spellings = [METADATA, "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518",
                 "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "fd00:ec2::254", "meta.com", "six-meta.com",
                 "100.100.100.200"]
    for got in b.tries(*(["tcp", host, 80, GET.format("x")] for host in spellings)):
        assert "hello" not in got and ("always refused: metadata" in got or got.endswith("Error")), got
    b.logged(address=METADATA, verdict="denied", rule="always refused: metadata")
    # A redirect is a new connection like any other.
    gate_world.serve("1.1.1.1", 8001, lambda sock: (sock.recv(4096), sock.sendall(
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n"
        b"Connection: close\r\n\r\n")))
    got = b.run("curl", "-sSL", "-m", "8", "http://1.1.1.1:8001/")
    assert "always refused: metadata" in got["stdout"]


def test_53_private_and_own_addresses(gate_service, gate_world, gate_box):
    b = gate_box({"mode": "open"})
    hosts = [PRIVATE, "192.168.7.7", "172.20.1.1", "203.0.113.1", "203.0.113.2", "fc00::7", "2001:db8::1",
             "fe80::1%lo", "::ffff:10.9.8.7", "64:ff9b::a09:807", "2002:a09:807::1", "0.0.0.0", "inner.com",
             "own.com", "six-private.com", "198.18.0.1", "198.19.255.255"]
    got = b.tries(*(["tcp", host, 7, "x"] for host in hosts))
    assert all(one.endswith("Error") for one in got), dict(zip(hosts, got))
    # By rule, not for want of somebody there: each is in the record.
    for rule, *refused in (("private", PRIVATE, "192.168.7.7", "172.20.1.1", "fc00::7", "inner.com", "six-private.com"),
                           ("documentation", "203.0.113.1", "203.0.113.2", "2001:db8::1", "own.com"),
                           ("link-local", "fe80::1"), ("translated", "64:ff9b::a09:807", "2002:a09:807::1")):
        for one in refused:
            b.logged(**{"name" if one.endswith(".com") else "address": one}, verdict="denied",
                     rule=f"always refused: {rule}")
    assert not [row for row in b.log() if row["verdict"] != "denied"]
    # The service's own port, by the loopback address (which is the sandbox's own) and the cable's.
    got = b.tries(["tcp", "127.0.0.1", gate_service.port, "x"], ["tcp", "203.0.113.1", gate_service.port, "x"])
    assert got == ["ConnectionRefusedError", "ConnectionResetError"]


def test_53_other_sandboxes_are_nowhere(gate_box):
    b, other = gate_box({"mode": "open"}), gate_box({"mode": "open"})
    other.op.post(f"/v1/sandboxes/{other.id}/exec", {"argv": ["python3", "-c", """
import socket
s = socket.create_server(("::", 7353), family=socket.AF_INET6, dualstack_ipv6=True)
while True: s.accept()[0].sendall(b"other")
"""], "background": True}, expect=201)
    wait_for(lambda: other.one("tcp", "127.0.0.1", 7353) == "other", what="the other's server")
    # By the addresses that it has, by its name, by those of the range that names get theirs from.
    hosts = ["127.0.0.1", "::1", "198.18.0.2", "198.18.0.1", "198.18.1.0", other.id, f"{other.id}.internal"]
    got = b.tries(*(["tcp", host, 7353] for host in hosts))
    assert all(one.endswith("Error") or one == "gaierror" for one in got), dict(zip(hosts, got))


def test_53_only_the_settings_open_private_networks(gate_world):
    with Service(pool=0, gate=gate_world.settings(permit=["10.9.8.0/24"])) as service:
        b = Box(service, {"mode": "filtered", "allow": ["inner.com", "192.168.7.7"]})
        assert b.tries(["tcp", "inner.com", 7, "in"], ["tcp", PRIVATE, 7, "x"],
                       ["tcp", "192.168.7.7", 7, "x"]) == ["in"] + 2 * ["ConnectionResetError"]
        b.remove()


def marks(gate_world, port, *addresses):
    """A server at each that says where it was reached: {address: server}."""
    return {address: gate_world.serve(address, port, lambda sock, say=address: sock.sendall(say.encode()))
            for address in addresses}


def test_54_a_name_that_turns_private_leads_nowhere(gate_world, gate_box):
    servers = marks(gate_world, 5454, PUBLIC, PRIVATE)
    now = [PUBLIC]  # what the resolver answers, for one second each time
    gate_world.names["rebind.com"] = lambda: list(now)
    b = gate_box({"mode": "filtered", "allow": ["rebind.com"]})
    (address,), got = b.tries(["name", "rebind.com"], ["tcp", "rebind.com", 5454])
    assert got == PUBLIC
    # Whoever holds the address that the name got then reaches what was judged, until that is looked up anew.
    now[:] = [PRIVATE]
    del gate_world.asked[:]
    got = wait_for(lambda: (one := b.one("tcp", address, 5454)) != PUBLIC and one, what="another answer")
    assert got == "ConnectionResetError" and ("rebind.com", 1) in gate_world.asked
    assert b.one("tcp", "rebind.com", 5454) == "ConnectionResetError"
    b.logged(name="rebind.com", verdict="allowed", address=PUBLIC)
    b.logged(name="rebind.com", verdict="denied", address=PRIVATE, rule="always refused: private")
    assert servers[PRIVATE].came == 0


def test_54_only_addresses_that_were_judged_are_dialled(gate_world, gate_box):
    servers, lure = marks(gate_world, 5455, PUBLIC, PRIVATE, OTHER), marks(gate_world, 5456, PRIVATE)[PRIVATE]
    gate_world.aliases["inner-alias.com"] = "inner.com"
    b = gate_box({"mode": "filtered", "allow": ["alias.com", "inner-alias.com", "both.com"], "deny": ["denied.net"]})
    # A private address before a public one is passed over, also where nobody listens at the public one.
    assert b.tries(["tcp", "both.com", 5455], ["tcp", "both.com", 5456], ["tcp", "alias.com", 5455],
                   ["tcp", "inner-alias.com", 5455]) == [PUBLIC] + 3 * ["ConnectionResetError"]
    b.logged(name="alias.com", verdict="denied", rule="deny denied.net")
    b.logged(name="inner-alias.com", verdict="denied", address=PRIVATE, rule="always refused: private")
    b.logged(name="both.com", verdict="allowed", address=PUBLIC, port=5455)
    assert (servers[PUBLIC].came, servers[PRIVATE].came, servers[OTHER].came, lure.came) == (1, 0, 0, 0)
    # The same alias leads there where nothing denies what is behind it.
    b.set({"mode": "filtered", "allow": ["alias.com"]})
    assert b.one("tcp", "alias.com", 5455) == OTHER


def certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2",
                    "-subj", "/CN=example.com"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def test_55_names_in_tls_must_agree(gate_world, gate_box, tmp_path):
    context = certificate(tmp_path)

    def handle(sock):
        with context.wrap_socket(sock, server_side=True) as secure:
            secure.sendall(b"secret:" + secure.recv(100))
    gate_world.serve(PUBLIC, 443, handle)
    gate_world.serve(PUBLIC, 8443, handle)
    b = gate_box({"mode": "filtered", "allow": ["example.com", f"{PUBLIC}:8443"]})
    assert b.tries(["tls", "example.com", 443, "example.com"], ["tls", "example.com", 443, "EXAMPLE.com"],
                   ["tls", "example.com", 443, "other.com"], ["tls", "example.com", 443, None],
                   ["tls", "example.com", 8443, "other.com"], ["tls", PUBLIC, 8443, None],
                   ["tcp", "example.com", 443, "SSH-2.0-x"]) == [
        "secret:hi", "secret:hi"] + 3 * ["ConnectionResetError"] + ["secret:hi", "ConnectionResetError"]
    b.logged(rule="tls: no server is named", verdict="denied")
    # In pieces it is read all the same. One that carries an encrypted one says nothing, whoever it names in the clear.
    assert b.tries(["hello", "example.com", 443, "example.com", 1], ["hello", "example.com", 443, "example.com", 9],
                   ["hello", "example.com", 443, "other.com", 9], ["hello", "example.com", 443, "example.com", 1, True],
                   ["hello", "example.com", 8443, "example.com", 5, True],
                   ["hello", "example.com", 443, "example.com\0.other.com"],
                   ["hello", "example.com", 443, "example.com%lo"]) == [
        "answered", "answered"] + 5 * ["ConnectionResetError"]
    b.logged(rule="tls: an encrypted hello hides its name", verdict="denied", port=443)
    b.logged(rule="tls: an encrypted hello hides its name", verdict="denied", port=8443)
    b.set({"mode": "open", "deny": ["other.com"]})
    assert b.tries(["tls", PUBLIC, 443, "other.com"], ["tls", PUBLIC, 443, "fine.com"]) == [
        "ConnectionResetError", "secret:hi"]


def test_55_every_request_names_its_host(gate_world, gate_box):
    b = gate_box({"mode": "filtered", "allow": ["example.com"]})
    good = GET.format("example.com")
    assert " example.com hello" in b.one("tcp", "example.com", 80, good)
    for say in (GET.format("other.com"), "GET / HTTP/1.0\r\n\r\n", GET.format("example.com:81"),
                GET.format("example.com\0.other.com"), GET.format("example%2ecom"), GET.format("example.com%lo"),
                "GET http://other.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
                "CONNECT other.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
                "GET / HTTP/1.1\r\nHost: example.com\r\nHost: other.com\r\n\r\n",
                "GET / HTTP/1.1\nHost: example.com\n\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                "POST / HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"):
        got = b.one("tcp", "example.com", 80, say)
        assert "403 Forbidden" in got and "hello" not in got, (say, got)
    # A second request on the same connection, behind a body, is read like the first.
    script = """
import socket
s = socket.create_connection(("example.com", 80))
s.sendall(b"POST /a HTTP/1.1\\r\\nHost: example.com\\r\\nContent-Length: 3\\r\\n\\r\\nabc")
print(s.recv(1000).split(b"\\r\\n\\r\\n")[1])
s.sendall(b"POST /b HTTP/1.1\\r\\nHost: example.com\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n3\\r\\nabc\\r\\n0\\r\\n\\r\\n"
          b"GET /c HTTP/1.1\\r\\nHost: other.com\\r\\n\\r\\n")
got = b""
try:
    while piece := s.recv(1000): got += piece
except OSError as e: got += type(e).__name__.encode()
print(b"/c" in got, b"other.com" in got)
"""
    got = b.run("python3", "-c", script)
    assert got["stdout"].splitlines() == ["b'/a example.com hello\\n'", "False False"], got


def test_55_an_upgrade_that_is_none_hides_nothing(gate_world, gate_box):
    def refuse(sock):
        sock.recv(4096)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
        sock.sendall(b"got:" + sock.recv(4096))

    def accept(sock):
        sock.recv(4096)
        sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
        sock.sendall(b"got:" + sock.recv(4096))
    gate_world.serve(PUBLIC, 8080, refuse)
    gate_world.serve(PUBLIC, 8081, accept)
    b = gate_box({"mode": "filtered", "allow": ["example.com"]})
    script = """
import socket, sys
for port in (8080, 8081):
    s = socket.create_connection(("example.com", port))
    s.sendall(b"GET / HTTP/1.1\\r\\nHost: example.com:%d\\r\\nConnection: upgrade\\r\\nUpgrade: x\\r\\n\\r\\n" % port)
    s.recv(1000)
    try:
        s.sendall(b"GET / HTTP/1.1\\r\\nHost: other.com\\r\\n\\r\\n")
        print(b"got:" in s.recv(1000) + s.recv(1000))
    except OSError as e: print(type(e).__name__)
"""
    got = b.run("python3", "-c", script)["stdout"].split()
    assert got[0] in ("False", "ConnectionResetError") and got[1] == "True", got


def test_56_names_have_one_form(gate_world, gate_box):
    b = gate_box({"mode": "filtered", "allow": ["Example.COM."]})
    names = ["example.com", "EXAMPLE.com", "example.com.", "xn--exmple-cua.com", "example.com.other.com",
             "a" * 64 + ".com", ".".join(["a" * 60] * 5), "example%2ecom", "exa mple.com", "example.com%lo"]
    got = b.tries(*(["name", one] for one in names))
    assert got[0] == got[1] == got[2] and got[0][0].startswith("198.18."), got
    assert all(isinstance(one, str) for one in got[3:]), got
    labels = ["example\0.com", "example.com\0.other.com", "exam\u00e4ple.com"]
    assert all(one[0] in (1, 3) and one[1] == 0
               for one in b.tries(*(["dns", "198.18.0.1", one] for one in labels)))


def test_57_only_the_gate_answers_for_names(gate_world, gate_box):
    b = gate_box({"mode": "filtered", "allow": ["example.com", "1.1.1.1"]})
    del gate_world.asked[:]
    # Any server is the gate; what no rule allows is asked for nowhere.
    assert b.tries(["dns", "8.8.8.8", "example.com"], ["dns", worlds.DNS, "secret-data.other.com"],
                   ["dns", "198.18.0.1", "example.com", 16], ["dns", "2001:4860:4860::8888", "example.com"]) == [
        [0, 1], [3, 0], [0, 0], [0, 1]]
    assert {name for name, _ in gate_world.asked} <= {"example.com"}
    # By TCP as by UDP, and whichever server is asked; several questions on one connection.
    assert b.tries(["dns_tcp", "8.8.8.8", "example.com", "leak.other.com", "example.com"]) == [[[0, 1], [3, 0], [0, 1]]]
    assert {name for name, _ in gate_world.asked} <= {"example.com"}
    # Over TLS, over QUIC, and over HTTPS to those who are known for it; other datagrams.
    b.set({"mode": "open"})
    assert b.one("name", "dns.google") == "gaierror"
    assert b.tries(["tcp", "1.1.1.1", 443, "x"], ["tcp", "1.1.1.1", 853, "x"], ["udp", "1.1.1.1", 853],
                   ["udp", PUBLIC, 443], ["udp", PUBLIC, 123]) == [
        "ConnectionResetError", "ConnectionResetError"] + 3 * ["TimeoutError"]
    b.logged(port=853, verdict="denied", protocol="tcp")
    b.logged(port=123, verdict="denied", protocol="udp")


def test_57_a_server_that_a_rule_names_is_asked_itself(gate_world, gate_box):
    rules = {"mode": "filtered", "allow": [f"udp:{worlds.DNS}:53", "1.1.1.1:443"]}
    b = gate_box(rules)
    # What the gate would not answer: the server is asked; a rule without the port does not mean that.
    assert b.tries(["dns", worlds.DNS, "other.com"], ["dns", "8.8.8.8", "other.com"]) == [[0, 1], [3, 0]]
    b.set({**rules, "allow": [f"udp:{worlds.DNS}", "*"]})
    assert b.tries(["name", "dns.google"], ["tcp", "1.1.1.1", 443, "x"]) == ["gaierror", "ConnectionResetError"]
    b.logged(rule="no rule allows it", port=443, verdict="denied")


def test_57_questions_are_capped(gate_world, gate_box):
    b = gate_box({"mode": "filtered", "allow": ["*.flood.com"]})
    # One that is longer than any question is not read on.
    long = "\x124\1\0\0\1\0\0\0\0\0\0" + ("\x3f" + "a" * 63) * 9 + "\5flood\3com\0\0\1\0\1"
    del gate_world.asked[:]
    answer = b.one("udp", "9.9.9.9", 53, long)[0]
    assert (ord(answer[3]) & 15, answer[6:8]) == (1, "\0\0") and not gate_world.asked
    began = time.monotonic()
    got = b.run("python3", "-c", """
import socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(5000):
    label = b"n%d" % i
    s.sendto(struct.pack("!HHHHHH", i, 256, 1, 0, 0, 0) + bytes([len(label)]) + label + b"\\5flood\\3com\\0\\0\\1\\0\\1", ("9.9.9.9", 53))
print("sent")
""")
    assert got["stdout"] == "sent\n"
    # 400 at once, 200 a second (gate/dns.c), for as long as it took here.
    asked = len({name for name, _ in gate_world.asked})
    assert 0 < asked <= 400 + 200 * (time.monotonic() - began + 1)


def test_59_raw_sockets_and_other_families_lead_nowhere(gate_box):
    b = gate_box({"mode": "open"})
    got = b.run("python3", "-c", """
import socket
for family, kind, proto in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_PACKET, socket.SOCK_RAW, 3),
                            (socket.AF_INET, socket.SOCK_DGRAM, 1), (socket.AF_INET6, socket.SOCK_RAW, 58)):
    try: socket.socket(family, kind, proto); print("made")
    except OSError as e: print(type(e).__name__)
""")
    assert "made" not in got["stdout"], got
    root = b.op.post(f"/v1/sandboxes/{b.id}/exec", {"argv": ["sh", "-c", """
ip route flush table local 2>&1 | head -1; ip link add d type dummy 2>&1 | head -1; id -u"""], "user": "root"},
                     expect=200)
    assert b.one("tcp", PUBLIC, 7, "still") == "still", root


def test_a_listener_inside_does_not_catch_what_is_meant_for_others(gate_box):
    b = gate_box({"mode": "filtered", "allow": ["example.com"]})
    got = b.run("python3", "-c", """
import socket
server = socket.socket(); server.bind(("0.0.0.0", 9999)); server.listen(); server.settimeout(1)
own = socket.create_connection(("127.0.0.1", 9999)); print("own", bool(server.accept()))
try:
    s = socket.create_connection(("93.184.216.34", 9999), 5); s.recv(1); print("other")
except OSError as e: print(type(e).__name__)
try: server.accept(); print("caught")
except OSError as e: print(type(e).__name__)
""")
    assert got["stdout"].split() == ["own", "True", "ConnectionResetError", "TimeoutError"], got
