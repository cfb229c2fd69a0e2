# SPDX-License-Identifier: Apache-2.0
"""Images from registries and to them: Debian's registry, images of buildah's and Docker's own tools, and a
registry that breaks off, lies, asks for tokens and leads elsewhere. skopeo is the judge."""
import contextlib
import json
import os
import pathlib
import subprocess
import tarfile
import tempfile
import threading
import time

import oci
import pytest
import registry
from service import Box
from sg import BIN

NOISE = bytes(i * 7919 % 251 for i in range(1 << 20))  # that a connection can break in the middle of
BIG = oci.layer(("etc/passwd", oci.USERS), ("usr/noise", os.urandom(64 << 10) + NOISE))


@pytest.fixture(scope="module")
def shared():
    """One of Debian's registries, with an image made by buildah."""
    if not oci.has("docker-registry", "skopeo", "buildah"):
        pytest.skip("needs docker-registry, skopeo and buildah")
    with tempfile.TemporaryDirectory(prefix="sg-test-") as directory:
        with registry.Debian(directory) as reg:
            reg.scratch = pathlib.Path(directory)
            yield reg


@pytest.fixture
def templates(runner):
    def template(*args, env=None, **kw):
        return runner.sandglass("template", *args, env={
            "SANDGLASS_STATE_DIR": str(runner.home / "state"), **(env or {})}, **kw)
    template.runner = runner
    template.home = runner.home
    template.root = lambda name: runner.home / "state" / "templates" / name / "root"
    template.left = lambda: sorted(
        p.name for p in (runner.home / "state" / "templates").glob(".pull/*"))
    return template


def done_json(done):
    assert done.returncode == 0, done
    return json.loads(done.stdout)


@contextlib.contextmanager
def faked(home, layers=(BIG,), **how):
    with registry.Fake(oci.layout(pathlib.Path(home) / "served", layers, **how)) as reg:
        yield reg


def buildah(scratch, *args):
    """In a store of its own, without a container: what is committed is made by buildah alone."""
    return subprocess.run(["buildah", "--root", scratch / "store", "--runroot", scratch / "run",
                           "--storage-driver", "vfs", *map(str, args)], check=True, text=True,
                          capture_output=True, timeout=120,
                          env={**os.environ, "BUILDAH_ISOLATION": "chroot"}).stdout.strip()


def test_an_image_of_buildah_is_pulled_and_pushed_with_the_digest_that_it_had(root, shared):
    scratch = shared.scratch
    (scratch / "context" / "etc").mkdir(parents=True)
    (scratch / "context" / "etc" / "passwd").write_bytes(oci.USERS)
    (scratch / "context" / "etc" / "gone").write_text("gone")
    (scratch / "context" / "usr").mkdir()
    first = buildah(scratch, "from", "scratch")
    buildah(scratch, "copy", first, scratch / "context", "/")
    buildah(scratch, "config", "--env", "A=b", "--user", "app", "--workingdir", "/etc", first)
    buildah(scratch, "commit", "-q", first, "one")
    second = buildah(scratch, "from", "one")
    mounted = pathlib.Path(buildah(scratch, "mount", second))
    (mounted / "etc" / "gone").unlink()
    (mounted / "etc" / "new").write_text("new")
    buildah(scratch, "umount", second)
    buildah(scratch, "commit", "-q", second, "two")
    for name in ("one", "two"):
        buildah(scratch, "push", "-q", "--tls-verify=false", name, f"{shared.host}/made/{name}:1")

    env = {"SANDGLASS_STATE_DIR": str(root.home / "state")}
    pull = root.sandglass("template", "pull", "--json", f"{shared.host}/made/one:1", env=env)
    assert done_json(pull)["layers_shared"] == 0
    got = done_json(root.sandglass("template", "pull", "--json", f"{shared.host}/made/two:1", env=env))
    assert (got["layers"], got["layers_shared"]) == (2, 1)
    assert got["digest"] == registry.digest_of(shared.host, "made/two", "1")
    files = root.home / "state" / "templates" / "two" / "root" / "etc"
    assert sorted(p.name for p in files.iterdir()) == ["new", "passwd"]
    run = root.sandglass("template", "list", "--json", env=env)
    assert {t["name"]: t["user"] for t in json.loads(run.stdout)}["two"] == "app"

    sent = done_json(root.sandglass("template", "push", "--json", "two", f"{shared.host}/again/two:2", env=env))
    assert sent["digest"] == got["digest"] == registry.digest_of(shared.host, "again/two", "2")
    judged = oci.inspect(f"docker://{shared.host}/again/two:2", "--tls-verify=false")
    assert judged["Digest"] == got["digest"] and "A=b" in judged["Env"]


def test_any_template_can_be_pushed_and_exported_and_others_can_read_it(templates, shared):
    tree = templates.home / "tree"
    for name in ("etc", "usr"):
        (tree / name).mkdir(parents=True)
    (tree / "etc" / "passwd").write_bytes(oci.USERS)
    os.link(tree / "etc" / "passwd", tree / "usr" / "also")
    (tree / "usr" / "link").symlink_to("../etc/passwd")
    templates.runner.command("chmod", "-R", "a+rX", tree)
    assert templates("import", "mine", tree).returncode == 0
    where = f"{shared.host}/of-{os.getpid()}-{templates.runner.uid or 0}/mine:1"
    sent = done_json(templates("push", "--json", "mine", where))
    assert oci.inspect(f"docker://{where}", "--tls-verify=false")["Digest"] == sent["digest"]

    file = templates.home / "mine.tar"
    assert done_json(templates("export", "--json", "mine", file))["digest"] == sent["digest"]
    for form in ("oci-archive", "docker-archive"):
        assert oci.inspect(f"{form}:{file}")["Architecture"] == oci.ARCH
    copied = templates.home / "copied"
    done = oci.skopeo("copy", "-q", f"oci-archive:{file}", f"oci:{copied}:x")
    assert done.returncode == 0, done.stderr
    index = json.loads((copied / "index.json").read_text())
    manifest = json.loads((copied / "blobs" / "sha256" / index["manifests"][0]["digest"][7:]).read_text())
    with tarfile.open(copied / "blobs" / "sha256" / manifest["layers"][0]["digest"][7:]) as tar:
        found = {m.name.rstrip("/"): m for m in tar.getmembers()}
    assert sorted(found) == ["etc", "etc/passwd", "usr", "usr/also", "usr/link"]
    assert found["usr/also"].linkname == "etc/passwd" and found["usr/link"].issym()
    assert done_json(templates("import", "--json", "again", file))["digest"] == sent["digest"]
    assert (templates.root("again") / "usr" / "also").read_bytes() == oci.USERS
    done = templates("export", "mine", file)
    assert done.returncode == 1 and "exists; --force replaces it" in done.stderr


def test_a_registry_with_users_gets_credentials_from_a_file(root, shared):
    env = {"SANDGLASS_STATE_DIR": str(root.home / "state")}
    made = oci.layout(root.home / "made", [oci.BASE])
    with registry.Debian(root.home / "closed", has_users=True) as closed:
        where = f"{closed.host}/mine:1"
        file = registry.auth_file(root.home / "auth.json", closed.host)
        done = oci.skopeo("copy", "-q", "--dest-tls-verify=false", "--authfile", file,
                          f"oci:{made.path}", f"docker://{where}")
        assert done.returncode == 0, done.stderr
        done = root.sandglass("template", "pull", where, env=env)
        assert done.returncode == 1 and "wants credentials" in done.stderr, done.stderr
        wrong = registry.auth_file(root.home / "wrong.json", closed.host, "another-word")
        done = root.sandglass("template", "pull", "--auth-file", wrong, where, env=env)
        assert done.returncode == 1 and "refuses" in done.stderr, done.stderr
        assert "another-word" not in done.stderr
        done = root.sandglass("template", "pull", "mine", where, env={**env, "REGISTRY_AUTH_FILE": str(file)})
        assert (done.returncode, done.stdout) == (0, "mine\n"), done.stderr
        with open(file) as stream:
            done = root.sandglass("template", "push", "--auth-file", "-", "mine", where + "1",
                                  env=env, stdin=stream)
        assert done.returncode == 0, done.stderr


def who_says(secret):
    """Processes with it in their arguments or their environment."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        if int(entry.name) == os.getpid():
            continue
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                if secret.encode() in (entry / name).read_bytes():
                    found.append(entry.name)
    return found


def test_a_token_is_fetched_and_stays_with_the_registry(templates):
    with faked(templates.home) as reg, faked(templates.home) as elsewhere:
        reg.token, reg.redirects_to = "a-token-of-theirs", elsewhere
        said = []
        reg.on_request = lambda: said.extend(who_says(registry.PASSWORD))
        file = registry.auth_file(templates.home / "auth.json", reg.host)
        done = templates("pull", "mine", f"{reg.host}/a/b:1", "--auth-file", file)
        assert (done.returncode, done.stdout) == (0, "mine\n"), done.stderr
        asked = [headers.get("Authorization") for _, path, headers in reg.seen]
        assert asked[:3] == [None, registry.BASIC, "Bearer a-token-of-theirs"]
        assert elsewhere.seen and not any("Authorization" in h for _, _, h in elsewhere.seen)
        assert said == []
        reg.token = "another"
        wrong = registry.auth_file(templates.home / "wrong.json", reg.host, "another-word")
        done = templates("pull", "other", f"{reg.host}/a/b:1", "--auth-file", wrong)
        assert done.returncode == 1 and "does not take these credentials" in done.stderr


def helper_of(command):
    """What the kernel says of sandglass-registry below a process, and what it sees of the disk."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, StopIteration):
            fields = dict(line.split(":\t", 1) for line in (entry / "status").read_text().splitlines()
                          if ":\t" in line)
            if fields["Name"] == "sandglass-regis" and fields["PPid"] == str(command):
                return fields, sorted(os.listdir(entry / "root"))
    return None


def test_who_speaks_to_a_registry_has_no_rights_and_ends_with_its_command(root):
    env = {"SANDGLASS_STATE_DIR": str(root.home / "state")}
    asked, may_go = threading.Event(), threading.Event()
    with faked(root.home) as reg:
        reg.on_request = lambda: (asked.set(), may_go.wait(60))
        command = root.popen(BIN, "template", "pull", "mine", f"{reg.host}/a", env=env,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert asked.wait(60)
            fields, files = helper_of(command.pid)
        finally:
            command.kill()
            command.wait()
        uid = fields["Uid"].split()
        assert files == ["state"]
        assert len(set(uid)) == 1 and uid[0] != "0" and not fields["Groups"].strip()
        assert [fields[key] for key in ("CapPrm", "CapEff", "CapBnd")] == ["0" * 16] * 3
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
        deadline = time.monotonic() + 60
        while os.path.exists(f"/proc/{fields['Pid']}/root") and time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(int(fields["Pid"]), os.WNOHANG)  # an orphan is ours
            time.sleep(0.05)
        assert time.monotonic() < deadline, "it lives on"
        may_go.set()


def test_a_download_that_breaks_off_goes_on_where_it_was(templates):
    with faked(templates.home) as reg:
        reg.broken = True
        done = templates("pull", "mine", f"{reg.host}/big")
        assert done.returncode == 75, done
        assert [name for name in templates.left() if name.endswith(".part")]
        assert templates("list", "--names").stdout.split() == ["host"]
        reg.broken = False
        reg.seen.clear()
        done = templates("pull", "mine", f"{reg.host}/big")
        assert (done.returncode, done.stdout) == (0, "mine\n"), done.stderr
        ranges = [h["Range"] for _, _, h in reg.seen if "Range" in h]
        assert len(ranges) == 1 and int(ranges[0][6:-1]) > 10000
        assert (templates.root("mine") / "usr" / "noise").read_bytes().endswith(NOISE)
        assert templates.left() == []
        reg.seen.clear()
        assert done_json(templates("pull", "--json", "again", f"{reg.host}/big"))["layers_shared"] == 1
        assert len(reg.seen) == 2  # the manifest and the configuration: the layer is here
        # with set-id bits it is another layer, and comes again
        assert done_json(templates("pull", "--json", "--sudo", "third", f"{reg.host}/big"))["layers_shared"] == 0


def test_what_a_killed_pull_has_left_is_in_nobodys_way(root):
    env = {"SANDGLASS_STATE_DIR": str(root.home / "state")}
    with faked(root.home) as reg:
        def pull():
            done = root.sandglass("template", "pull", "--force", "mine", f"{reg.host}/big", env=env)
            assert (done.returncode, done.stdout) == (0, "mine\n"), done.stderr
        pull()
        parts = root.home / "state" / "templates" / ".pull"
        for blob in reg.layout.blobs.iterdir():  # as a template has them, to which they belong by then
            (parts / f"sha256-{blob.name}").write_bytes(blob.read_bytes())
            (parts / f"sha256-{blob.name}").chmod(0o600)
        pull()
        assert list(parts.iterdir()) == []


def test_what_a_registry_gets_wrong_is_named_and_leaves_nothing(root):
    env = {"SANDGLASS_STATE_DIR": str(root.home / "state")}
    with faked(root.home) as reg:
        def pull(where, **more):
            done = root.sandglass("template", "pull", "bad", where, env={**env, **more})
            assert done.returncode in (1, 2), done
            templates = root.home / "state" / "templates"
            left = {p.name for p in templates.iterdir() if not p.name.startswith((".host-", ".pull"))}
            assert left == set()
            assert not [p for p in templates.glob(".pull/*.part")]
            return done.stderr
        reg.lies = True
        assert "digest mismatch" in pull(f"{reg.host}/big")
        reg.lies = False
        assert "the registry does not have it: 'not here'" in pull(f"{reg.host}/big@sha256:{'0' * 64}")
        other = reg.layout.image([oci.BASE], arch="s390x")
        reg.layout.add(other)
        assert "the image is for linux/s390x" in pull(f"{reg.host}/big")
        reg.layout.add(reg.layout.many([(other, "s390x")]))
        assert "there is: linux/s390x" in pull(f"{reg.host}/big")
        escape = reg.layout.image([oci.BASE, oci.layer(("../out", b"x"))])
        reg.layout.add(escape)
        assert "has '..' in its name" in pull(f"{reg.host}/big")
        assert "is not the name of an image" in pull("Big/No")
        huge = json.loads((reg.layout.blobs / reg.layout.image([oci.BASE])["digest"][7:]).read_text())
        huge["layers"][0]["size"] = (8 << 30) + 1
        reg.layout.add(reg.layout.blob(json.dumps(huge).encode(), oci.MANIFEST))
        reg.seen.clear()
        assert "the layers have more than 8589934592 bytes" in pull(f"{reg.host}/big")
        assert len(reg.seen) == 2  # the manifest and the configuration
        reg.token = "x" * (1 << 20)
        file = registry.auth_file(root.home / "auth.json", reg.host)
        assert "token is over 1048576 bytes" in pull(f"{reg.host}/big", REGISTRY_AUTH_FILE=str(file))
        reg.token = None
        # what is not this machine's is spoken to by TLS, and this one has none
        port = reg.host.split(":")[1]
        reg.seen.clear()
        assert "registry.insecure" in pull(f"0.0.0.0:{port}/big")
        assert reg.seen == []
        reg.layout.add(reg.layout.image([oci.BASE]))
        done = root.sandglass("template", "pull", "good", f"0.0.0.0:{port}/big",
                              env={**env, "SANDGLASS_REGISTRY_INSECURE": f"0.0.0.0:{port}"})
        assert done.returncode == 0, done.stderr


def test_a_registry_is_known_by_its_certificate(root):
    made = oci.layout(root.home / "served", [oci.BASE])
    key, certificate = root.home / "key.pem", root.home / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=registry",
                    "-addext", "subjectAltName=IP:0.0.0.0"], check=True, capture_output=True, timeout=60)
    env = {"SANDGLASS_STATE_DIR": str(root.home / "state")}
    with registry.Fake(made, (certificate, key)) as reg:
        where = f"0.0.0.0:{reg.server_port}/mine"
        done = root.sandglass("template", "pull", where, env=env)
        assert done.returncode == 1 and "registry.ca" in done.stderr, done
        done = root.sandglass("template", "pull", where, env={**env, "SANDGLASS_REGISTRY_CA": str(certificate)})
        assert (done.returncode, done.stdout) == (0, "mine\n"), done.stderr


def test_docker_saves_what_is_imported_and_loads_what_is_exported(root, engine):
    env = {"SANDGLASS_STATE_DIR": str(root.home / "state")}
    saved, exported = root.home / "saved.tar", root.home / "exported.tar"
    status, data = engine.call("GET", "/images/tiny/get")
    assert status == 200
    saved.write_bytes(data)
    done = root.sandglass("template", "import", "--json", "tiny", saved, env=env)
    assert done_json(done)["layers"] == 1
    before = engine.call("GET", "/images/tiny/json")[1]
    done = root.sandglass("template", "export", "tiny", exported, env=env)
    assert done.returncode == 0, done.stderr
    status, said = engine.call("POST", "/images/load", exported.read_bytes())
    assert status == 200 and b"tiny:latest" in (said if isinstance(said, bytes) else json.dumps(said).encode())
    after = engine.call("GET", "/images/tiny:latest/json")[1]
    assert after["RootFS"] == before["RootFS"] and after["Id"] == before["Id"]


def test_a_dockerfile_stands_on_an_image_of_a_registry(service, tenant, key, tmp_path):
    made = oci.layout(tmp_path / "served", [oci.layer(
        ("etc/passwd", oci.USERS), oci.entry("home/app", type=tarfile.DIRTYPE, mode=0o755),
        *oci.programs("sh", "cat", "id"))], config={
            "Env": ["A=of the image", "PATH=/bin"], "WorkingDir": "/home/app", "User": "app"})
    dockerfile = tmp_path / "Dockerfile"
    env = {"SANDGLASS_CONFIG": str(service.config), "SANDGLASS_API_KEY": key,
           "SANDGLASS_URL": f"http://127.0.0.1:{service.port}"}
    with registry.Fake(made) as reg:
        dockerfile.write_text(f"FROM {reg.host}/some/tiny:1\nRUN echo \"$A\" > /home/made\n")
        command = ("template", "build", "-f", dockerfile, "from-image", tmp_path)
        done = service.runner.sandglass(*command, env=env)
        assert done.returncode == 1 and "build --pull" in done.stderr, done
        done = service.runner.sandglass(*command[:2], "--pull", *command[2:], env=env)
        assert (done.returncode, done.stdout) == (0, "from-image\n"), done
        reg.seen.clear()
        done = service.runner.sandglass(*command[:2], "--pull", *command[2:], env=env)
        assert done.returncode == 0 and reg.seen == [], done
    box = Box(tenant, {"template": "from-image"})
    assert box.sh("cat /home/made; id -un; pwd")["stdout"] == "of the image\napp\n/home/app\n"
    box.destroy()
    box = Box(tenant, {"template": "tiny-1"})  # the image itself
    assert box.sh("echo $A; id -un; pwd")["stdout"] == "of the image\napp\n/home/app\n"
    box.destroy()
    tenant.delete("/v1/templates/from-image")
    done = service.runner.sandglass("template", "list", "--json", env=env)
    assert {t["name"]: t["origin"] for t in json.loads(done.stdout)}["tiny-1"] == "image"
