# SPDX-License-Identifier: Apache-2.0
"""`sandglass tls init`, the service that finds what it made, and clients over https."""
import json
import os
import ssl
import subprocess

import leaks
import pytest
import sg
import web
from service import Service, wait_for

DOMAIN = "sandglass.test"
FILES = {"ca.pem": 0o644, "ca.key": 0o600, "cert.pem": 0o644, "key.pem": 0o600}


def openssl(*args):
    return subprocess.run(["openssl", *map(str, args)], capture_output=True, text=True, check=False)


def init(folder, *options):
    return sg.sandglass("tls", "init", "--dir", folder / "tls", *options)


@pytest.fixture
def made(tmp_path):
    done = init(tmp_path, "--domain", DOMAIN)
    assert done.returncode == 0, done
    return tmp_path / "tls"


def verify(made, name, kind="hostname"):
    return openssl("verify", "-CAfile", made / "ca.pem", "-purpose", "sslserver", f"-verify_{kind}", name,
                   made / "cert.pem").returncode == 0


def test_files_are_made_and_keys_are_their_owners(made):
    assert {p.name: p.stat().st_mode & 0o777 for p in made.iterdir()} == FILES


@pytest.mark.parametrize("name", [DOMAIN, f"api.{DOMAIN}", f"8000-iabc.{DOMAIN}", "localhost"])
def test_the_certificate_is_for_the_domain_and_what_is_below(made, name):
    assert verify(made, name)


def test_the_certificate_is_for_the_loopback_addresses(made):
    assert verify(made, "127.0.0.1", "ip") and verify(made, "::1", "ip")
    assert not verify(made, "127.0.0.2", "ip") and not verify(made, "example.org")


def test_the_authority_speaks_for_nobody_else(made, tmp_path):
    """A certificate for another name that its own key signs is refused by who trusts it."""
    for name, is_good in ((DOMAIN, True), ("bank.example", False)):
        key, request, cert, extension = (tmp_path / f"{name}.{end}" for end in ("key", "csr", "pem", "ext"))
        extension.write_text(f"subjectAltName=DNS:{name}\n")
        assert openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                       "-subj", "/CN=x", "-out", request).returncode == 0
        assert openssl("x509", "-req", "-in", request, "-CA", made / "ca.pem", "-CAkey", made / "ca.key",
                       "-extfile", extension, "-out", cert, "-days", "2").returncode == 0
        done = openssl("verify", "-CAfile", made / "ca.pem", cert)
        assert (done.returncode == 0) == is_good, done


def test_nothing_is_replaced_unless_asked(made, tmp_path):
    before = {p.name: p.read_bytes() for p in made.iterdir()}
    done = init(tmp_path)
    assert done.returncode == 1 and "--force" in done.stderr and done.stdout == ""
    assert {p.name: p.read_bytes() for p in made.iterdir()} == before
    (made / "cert.pem").unlink()
    assert init(tmp_path).returncode == 1  # also where something is missing
    assert init(tmp_path, "--force").returncode == 0
    assert {p.name for p in made.iterdir()} == set(FILES)
    assert (made / "ca.key").read_bytes() != before["ca.key"]
    assert verify(made, "sandglass.localhost") and not verify(made, DOMAIN)


def test_a_failure_leaves_what_was_there(made, tmp_path):
    before = {p.name: p.read_bytes() for p in made.iterdir()}
    (made / "cert.pem.new").mkdir()  # in the way
    (made / "cert.pem.new" / "x").touch()
    done = init(tmp_path, "--force")
    assert done.returncode == 1 and "cert.pem.new" in done.stderr
    assert {p.name: p.read_bytes() for p in made.iterdir() if p.is_file()} == before


@pytest.mark.parametrize("domain", ["localhost", "a..b", "-a.b", "a.b-", "a_b.c", "A.b", "a.b/c", "*.a.b", "a" * 64 + ".b",
                                    "a.b:0", "a.b:x"])
def test_a_domain_that_is_none_is_refused(tmp_path, domain):
    done = init(tmp_path, "--domain", domain)
    assert done.returncode == 2 and done.stdout == "" and domain[:20] in done.stderr, done
    assert not (tmp_path / "tls").exists()


def test_people_are_told_how_to_trust_it(tmp_path):
    done = init(tmp_path)
    path = tmp_path / "tls" / "ca.pem"
    assert f"NODE_EXTRA_CA_CERTS={path}" in done.stderr and f"SSL_CERT_FILE={path}" in done.stderr
    assert "serve.tls_cert" in done.stderr
    assert done.stdout.splitlines()[0] == "domain  sandglass.localhost"
    quiet = init(tmp_path, "--force", "--quiet")
    assert quiet.stderr == "" and quiet.stdout == done.stdout
    told = json.loads(init(tmp_path, "--force", "--json").stdout)
    assert told["domain"] == "sandglass.localhost" and told["ca"] == str(path)
    assert told["environment"] == {"SSL_CERT_FILE": str(path), "NODE_EXTRA_CA_CERTS": str(path)}
    assert all(os.path.exists(told[name]) for name in ("ca", "caKey", "cert", "key"))


# ---- with a service ----

@pytest.fixture(scope="module")
def service():
    if os.getuid() != 0:
        pytest.skip("needs root")
    own = Service(pool=1)
    done = own.runner.sandglass("tls", "init", "--domain", DOMAIN, env={"SANDGLASS_CONFIG": str(own.config)})
    assert done.returncode == 0 and "next start" in done.stderr, done
    with own:
        yield own


def ca(service):
    return service.state / "tls" / "ca.pem"


def client(service, *args, url=None, env=None, **kw):
    env = {"SANDGLASS_CONFIG": str(service.config), "SANDGLASS_API_KEY": service.key(),
           "SANDGLASS_URL": url or f"https://127.0.0.1:{service.port}", **(env or {})}
    return sg.sandglass(*args, env=env, **kw)


def test_the_service_finds_it_by_itself(service):
    context = ssl.create_default_context(cafile=ca(service))
    assert service.client().get("/health").status == 200  # plain as before
    for name in (DOMAIN, f"8000-iabc.{DOMAIN}", "127.0.0.1"):
        with context.wrap_socket(web.dial(service.tcp), server_hostname=name) as sock:
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert sock.recv(1000).startswith(b"HTTP/1.1 200 ")


def create(service, **headers):
    caller = web.Client(service.tcp)
    made = caller.call("POST", "/v2/sandboxes", {"templateID": "host"}, expect=201,
                       headers={"X-API-Key": service.key(), **headers})
    info = caller.call("GET", f"/sandboxes/{made['sandboxID']}", expect=200, headers={"X-API-Key": service.key(), **headers})
    caller.call("DELETE", f"/sandboxes/{made['sandboxID']}", headers={"X-API-Key": service.key()})
    caller.close()
    assert info["domain"] == made["domain"]
    return made["domain"]


def test_sandboxes_are_told_with_their_domain(service):
    assert create(service) == f"{DOMAIN}:{service.port}"
    assert create(service, Host="127.0.0.1:9") == f"{DOMAIN}:{service.port}"
    assert create(service, Host=f"api.{DOMAIN}:9443") == f"{DOMAIN}:9443"  # by the way the client came
    assert create(service, Host=f"API.{DOMAIN}") == DOMAIN
    assert create(service, Host="api.elsewhere.test:1") == f"{DOMAIN}:{service.port}"


def test_our_own_client_speaks_https(service):
    box = client(service, "create").stdout.strip()
    done = client(service, "exec", box, "--", "sh", "-c", "cat; echo err >&2; exit 3", input="through TLS")
    assert (done.returncode, done.stdout, done.stderr) == (3, "through TLS", "err\n")
    data = os.urandom(3 << 20)
    done = client(service, "cp", "-", f"{box}:/tmp/large", input=data, text=False)
    assert done.returncode == 0, done
    assert client(service, "cp", f"{box}:/tmp/large", "-", text=False).stdout == data
    assert box in client(service, "ps", "--ids").stdout.split()
    assert client(service, "rm", box).returncode == 0
    assert box not in client(service, "ps", "--ids").stdout.split()


def carriers():
    """Orphans come to us (support/leaks.py)."""
    return [pid for pid, row in leaks.process_table().items()
            if row[0] == os.getpid() and row[1] != "Z" and row[2] == "sandglass-tls"]


def test_no_carrier_outlives_its_client(service):
    assert client(service, "ps").returncode == 0
    wait_for(lambda: not carriers(), what="the carriers' end")


def test_a_stranger_is_not_trusted(service, tmp_path):
    assert init(tmp_path).returncode == 0
    done = client(service, "ps", env={"SANDGLASS_TLS_CA": str(tmp_path / "tls" / "ca.pem")})
    assert done.returncode == 1 and "not trusted" in done.stderr, done
    assert client(service, "ps", env={"SANDGLASS_TLS_CA": str(ca(service))}).returncode == 0
    done = client(service, "ps", env={"SANDGLASS_TLS_CA": str(tmp_path / "none.pem")})
    assert done.returncode == 2 and "none.pem" in done.stderr, done


def test_another_name_is_not_trusted(service):
    done = client(service, "ps", url=f"https://127.0.0.2:{service.port}")
    assert done.returncode != 0 and done.stdout == ""


def test_a_server_without_tls_is_told(service):
    plain = Service(pool=0)
    with plain:
        done = client(plain, "ps")
        assert done.returncode == 1 and "TLS" in done.stderr, done


def test_nobody_there_is_told():
    done = sg.sandglass("ps", env={"SANDGLASS_URL": "https://127.0.0.1:1"})
    assert done.returncode == 75 and "Connection refused" in done.stderr, done


def test_settings_name_the_domain(made):
    settings = {"tls_cert": str(made / "cert.pem"), "tls_key": str(made / "key.pem"), "domain": "other.test:99"}
    if os.getuid() != 0:
        pytest.skip("needs root")
    with Service(pool=0, settings=settings) as own:
        assert create(own) == "other.test:99"
