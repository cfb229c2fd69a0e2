# SPDX-License-Identifier: Apache-2.0
"""Images at length: a matrix of makers and forms, pulls that are killed at random, pulls side by side, and
layers that are too much.

IMAGE_KILLS (20) sets how many pulls are killed.
"""
import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "support"))

import oci  # noqa: E402
import registry  # noqa: E402

MATRIX = [(form, packed) for form in ("oci", "docker") for packed in ("gzip", "zstd")]


class Store:
    """`sandglass template` with a state directory of its own."""

    def __init__(self, binary, folder):
        self.binary, self.folder = str(binary), pathlib.Path(folder)
        self.templates = self.folder / "templates"
        self.env = {**os.environ, "SANDGLASS_STATE_DIR": str(folder), "SANDGLASS_CONFIG": "/dev/null"}

    def popen(self, *args):
        return subprocess.Popen([self.binary, "template", *map(str, args)], env=self.env, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __call__(self, *args):
        return subprocess.run([self.binary, "template", *map(str, args)], env=self.env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=900)

    def good(self, *args):
        done = self(*args)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if "--json" in args else done.stdout

    def left(self):
        return sorted(p.name for p in self.templates.iterdir() if not p.name.startswith((".host-", ".pull")))


def image(folder, layers=12):
    """Layers that each add, hide and replace."""
    made = [oci.BASE]
    for i in range(layers):
        made.append(oci.layer((f"opt/{i}/a", os.urandom(100000)), (f"opt/{i}/b", b"b"),
                              (f"opt/{max(i - 1, 0)}/.wh.b" if i else "opt/none", b""), ("opt/last", str(i).encode())))
    return oci.layout(folder, made), layers


def look_at(root, layers):
    assert (root / "opt" / "last").read_text() == str(layers - 1)
    assert [(root / "opt" / str(i) / "b").exists() for i in range(layers)] == [False] * (layers - 1) + [True]


def matrix(store, work):
    """skopeo writes each form, and pushes it; we take both ways in, and it reads both ways out."""
    made, layers = image(work / "made")
    with registry.Debian(work / "registry") as reg:
        for form, packed in MATRIX:
            where = f"{reg.host}/{form}/{packed}:1"
            copy = ["copy", "-q", "--dest-compress-format", packed, "--dest-tls-verify=false", "--format",
                    "v2s2" if form == "docker" and packed == "gzip" else "oci", f"oci:{made.path}"]
            done = oci.skopeo(*copy, f"docker://{where}")
            assert done.returncode == 0, done.stderr
            got = store.good("pull", "--json", "--force", "pulled", where)
            look_at(store.templates / "pulled" / "root", layers)
            assert oci.inspect(f"docker://{where}", "--tls-verify=false")["Digest"] == got["digest"]
            file = work / f"{form}.tar"
            file.unlink(missing_ok=True)
            store.good("export", "pulled", file)
            assert oci.inspect(f"oci-archive:{file}")["Digest"] == got["digest"]
            assert store.good("import", "--json", "--force", "again", file)["digest"] == got["digest"]
            sent = store.good("push", "--json", "again", f"{reg.host}/again/{form}:{packed}")
            assert sent["digest"] == got["digest"]
        for kind in ("docker-archive", "oci-archive"):
            file = work / f"{kind}.tar"
            done = oci.skopeo("copy", "-q", f"oci:{made.path}", f"{kind}:{file}:x:1")
            assert done.returncode == 0, done.stderr
            store.good("import", "--json", "--force", "saved", file)
            look_at(store.templates / "saved" / "root", layers)
    store.good("rm", "pulled", "again", "saved")
    assert store.left() == [], store.left()


def killed(store, work):
    """kill -9 of the command at random; what is left is a whole template or none, and the next pull succeeds."""
    made, layers = image(work / "killed")
    seed = random.randrange(1 << 30)
    print(f"   seed {seed}", flush=True)
    dice = random.Random(seed)
    with registry.Fake(made) as reg:
        start = time.monotonic()
        store.good("pull", "mine", f"{reg.host}/x")
        span = time.monotonic() - start
        store.good("rm", "mine")
        for _ in range(int(os.environ.get("IMAGE_KILLS", "20"))):
            process = store.popen("pull", "mine", f"{reg.host}/x")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(dice.random() * span)
            process.kill()
            process.communicate()
            if "mine" in store.good("list", "--names").split():
                look_at(store.templates / "mine" / "root", layers)
                store.good("rm", "mine")
        store.good("pull", "mine", f"{reg.host}/x")
        look_at(store.templates / "mine" / "root", layers)
    store.good("rm", "mine")
    assert store.left() == [], store.left()


def together(store, work):
    """The same image six times at once: one layer store, no deadlock, all whole."""
    made, layers = image(work / "together")
    with registry.Fake(made) as reg:
        started = [(f"t{i}", store.popen("pull", f"t{i}", f"{reg.host}/x")) for i in range(6)]
        for name, process in started:
            _, said = process.communicate(timeout=600)
            assert process.returncode in (0, 75), said  # 75: try again
            if process.returncode:
                store.good("pull", name, f"{reg.host}/x")
            look_at(store.templates / name / "root", layers)
    assert len([p for p in store.templates.glob(".layer-*")]) == layers + 1
    store.good("rm", *(name for name, _ in started))
    assert store.left() == [], store.left()


def too_much(store, work):
    """A million entries, and an image of more layers than there may be."""
    path = work / "million.tar"
    with tarfile.open(path, "w") as tar:
        for i in range(1000001):
            tar.addfile(tarfile.TarInfo(f"usr/{i // 1000}/{i}"))
    made = oci.Layout(work / "million")
    data = path.read_bytes()
    path.unlink()
    made.add(made.image([data]))
    done = store("import", "bad", made.path)
    assert done.returncode == 1 and "more than 1000000 entries" in done.stderr, done.stderr
    many = oci.layout(work / "many", [oci.layer((f"usr/{i}", b"")) for i in range(257)])
    done = store("import", "bad", many.path)
    assert done.returncode == 1 and "more than 256 members" in done.stderr, done.stderr
    fine = oci.layout(work / "fine", [oci.layer((f"usr/{i}", b"")) for i in range(256)])
    assert store.good("import", "--json", "fine", fine.path)["layers"] == 256
    assert len(list((store.templates / "fine" / "root" / "usr").iterdir())) == 256
    store.good("rm", "fine")
    assert store.left() == [], store.left()


def results(binary):
    if not oci.has("docker-registry", "skopeo"):
        return [("images", "skipped", "needs docker-registry and skopeo")]
    rows = []
    for part in (matrix, killed, together, too_much):
        with tempfile.TemporaryDirectory(prefix="sg-soak-images-") as folder:
            try:
                part(Store(binary, pathlib.Path(folder) / "state"), pathlib.Path(folder))
                rows.append((part.__doc__.split(":")[0].split(";")[0].split("\n")[0], "passed", ""))
            except (AssertionError, OSError, subprocess.SubprocessError) as e:
                rows.append((part.__name__, "failed", str(e)[:500]))
    return rows
