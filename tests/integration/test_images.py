# SPDX-License-Identifier: Apache-2.0
"""Images of containers as templates: OCI layouts and `docker save`, and what is refused."""
import json
import os
import shutil
import stat
import tarfile

import oci
import pytest


@pytest.fixture
def store(runner):
    """`sandglass template` with a state directory of its own, and what there is in it."""
    def template(*args, **kw):
        return runner.sandglass("template", *args, env=template.env, **kw)
    template.home = runner.home
    template.runner = runner
    template.templates = runner.home / "state" / "templates"
    template.env = {"SANDGLASS_STATE_DIR": str(runner.home / "state")}
    template.root = lambda name: template.templates / name / "root"
    template.layers = lambda: sorted(p.name for p in template.templates.glob(".layer-*"))
    return template


def readable(path):
    """For an ordinary user, whose tests run under the same roof."""
    for below in [path, *path.rglob("*")]:
        below.chmod(0o755 if below.is_dir() else 0o644)
    return path


def take(store, name, path, *options):
    done = store("import", "--json", *options, name, path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def toml_of(store, name):
    text = (store.templates / name / "template.toml").read_text()
    return dict(line.split(" = ", 1) for line in text.splitlines())


ABOVE = oci.layer(oci.entry("opt", type=tarfile.DIRTYPE, mode=0o711), ("opt/.wh.gone", b""),
                  ("opt/two", b"two\n"), ("var/lib/new", b"new\n"))
CONFIG = {"Env": ["PATH=/opt/bin:/bin", "A=b c"], "WorkingDir": "/opt", "User": "app",
          "Entrypoint": ["/opt/one"], "Cmd": ["--flag", "a word"]}


def test_a_layout_becomes_a_template_with_what_the_image_says_of_itself(store):
    made = oci.layout(store.home / "image", [oci.BASE, ABOVE], config=CONFIG)
    readable(made.path)
    got = take(store, "mine", made.path)
    assert (got["layers"], got["layers_shared"]) == (2, 0)
    assert got["digest"] == made.index[0]["digest"]
    root = store.root("mine")
    assert sorted(p.name for p in (root / "opt").iterdir()) == ["one", "two"]
    assert stat.S_IMODE((root / "opt").stat().st_mode) | 0o700 == 0o711 | 0o700
    assert (root / "var" / "lib" / "new").read_text() == "new\n"
    said = toml_of(store, "mine")
    assert json.loads(said["env"]) == ["LANG=C.UTF-8", "A=b c"]
    assert json.loads(said["entrypoint"]) == ["/opt/one"]
    assert json.loads(said["cmd"]) == ["--flag", "a word"]
    assert [json.loads(said[key]) for key in ("user", "home", "workdir", "path", "origin")] == [
        "app", "/home/app", "/opt", "/opt/bin:/bin", "image"]


def test_layers_are_plain_or_packed_by_gzip_or_zstd(store):
    for how in ("plain", "gzip", "zstd"):
        path = oci.layout(store.home / how, [oci.BASE], how=how).archive()
        take(store, how, path)
        assert (store.root(how) / "opt" / "one").read_text() == "one\n"
        assert store("rm", how).returncode == 0


def test_what_docker_saves_becomes_a_template_from_a_pipe_too(store):
    path = oci.saved(store.home / "saved.tar", [oci.BASE, ABOVE], config={"User": "1234:99"})
    with open(path, "rb") as stream:
        done = store("import", "mine", "-", stdin=stream)
    assert (done.returncode, done.stdout) == (0, "mine\n"), done.stderr
    assert sorted(p.name for p in (store.root("mine") / "opt").iterdir()) == ["one", "two"]
    assert json.loads(toml_of(store, "mine")["user"]) == "app"
    assert json.loads(toml_of(store, "mine")["workdir"]) == "/"


def test_templates_share_layers_and_the_last_one_takes_them_along(store):
    one = oci.layout(store.home / "one", [oci.BASE]).archive()
    two = oci.layout(store.home / "two", [oci.BASE, ABOVE]).archive()
    assert take(store, "one", one)["layers_shared"] == 0
    assert take(store, "two", two)["layers_shared"] == 1
    assert len(store.layers()) == 2
    shared = [store.root(name) / "opt" / "one" for name in ("one", "two")]
    assert os.path.samefile(*shared)
    assert (store.root("one") / "opt" / "gone").exists()
    assert not (store.root("two") / "opt" / "gone").exists()
    assert store("rm", "one").returncode == 0
    assert len(store.layers()) == 2
    assert shared[1].read_text() == "one\n"
    assert store("rm", "two").returncode == 0
    assert store.layers() == []


def test_a_layer_that_is_known_is_checked_in_every_packing(store):
    take(store, "one", oci.layout(store.home / "one", [oci.BASE]).archive())
    made = oci.Layout(store.home / "lie")
    real = oci.pack
    try:
        oci.pack = lambda data, how: real(ABOVE, how)
        made.add(made.image([oci.BASE]))
    finally:
        oci.pack = real
    done = store("import", "two", made.archive())
    assert done.returncode == 1 and "and should be sha256:" in done.stderr
    known, = store.layers()
    assert len(list((store.templates / known).glob("blob-*"))) == 1
    # Two packings of one layer in one image: both are kept.
    made = oci.Layout(store.home / "twice")
    packings = iter(("gzip", "plain"))
    try:
        oci.pack = lambda data, how: real(data, next(packings))
        made.add(made.image([oci.BASE, oci.BASE]))
    finally:
        oci.pack = real
    take(store, "two", made.archive())
    assert store.layers() == [known]
    assert len(list((store.templates / known).glob("blob-*"))) == 2


def test_a_layer_above_hides_replaces_and_keeps(store):
    below = oci.layer(("usr/all/a", b"a"), ("usr/all/b", b"b"), ("usr/file", b"file"),
                      oci.entry("usr/dir", type=tarfile.DIRTYPE, mode=0o755),
                      ("usr/dir/x", b"x"), oci.entry("tmp", type=tarfile.DIRTYPE, mode=0o1777))
    above = oci.layer(("usr/all/new", b"new"), ("usr/all/.wh..wh..opq", b""), ("usr/dir", b"now a file"),
                      ("usr/file/now/a/dir", b"deep"), ("tmp/left", b""), ("usr/.wh.nosuch", b""),
                      ("usr/.wh..wh.plnk", b""))
    take(store, "mine", oci.layout(store.home / "x", [below, above]).archive())
    root = store.root("mine")
    assert [p.name for p in (root / "usr" / "all").iterdir()] == ["new"]
    assert (root / "usr" / "dir").read_text() == "now a file"
    assert (root / "usr" / "file" / "now" / "a" / "dir").read_text() == "deep"
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1777  # nobody above named it
    assert stat.S_IMODE((root / "usr" / "file").stat().st_mode) == 0o755
    assert not [p for p in root.rglob(".wh.*")]


def test_a_directory_with_the_mode_that_marks_those_without_one_keeps_it(store):
    below = oci.layer(oci.entry("etc", type=tarfile.DIRTYPE, mode=0o755), ("etc/passwd", oci.USERS),
                      oci.entry("usr", type=tarfile.DIRTYPE, mode=0o755),
                      oci.entry("named", type=tarfile.DIRTYPE, mode=0o700),
                      oci.entry("unnamed", type=tarfile.DIRTYPE, mode=0o750))
    above = oci.layer(oci.entry("named", type=tarfile.DIRTYPE, mode=0o1701), ("named/f", b"x"),
                      oci.entry("fresh", type=tarfile.DIRTYPE, mode=0o1701), ("unnamed/f", b"x"), ("new/f", b"x"))
    take(store, "mine", oci.layout(store.home / "marked", [below, above]).archive())
    modes = {name: (store.root("mine") / name).stat().st_mode & 0o7777 for name in ("named", "fresh", "unnamed", "new")}
    assert modes == {"named": 0o1701, "fresh": 0o1701, "unnamed": 0o750, "new": 0o755}


def test_of_a_list_the_image_for_this_machine_is_taken(store):
    made = oci.Layout(store.home / "many")
    ours = made.image([oci.BASE])
    theirs = made.image([ABOVE], arch="s390x")
    unknown = {**theirs, "platform": {"os": "unknown", "architecture": "unknown"}}
    made.add(made.many([(theirs, "s390x"), (ours, oci.ARCH), (unknown, "unknown")]), "v1")
    path = made.archive()
    assert take(store, "mine", path)["digest"] == ours["digest"]
    assert take(store, "other", path, "--platform", "linux/s390x")["digest"] == theirs["digest"]
    done = store("import", "third", "--platform", "linux/ppc64le", path)
    assert done.returncode == 1
    assert "no image for linux/ppc64le; there is: linux/s390x" in done.stderr


def test_of_several_images_one_has_to_be_chosen(store):
    made = oci.Layout(store.home / "several")
    first, second = made.image([oci.BASE]), made.image([oci.BASE, ABOVE])
    made.add(first, "first:1")
    made.add(second, "second:1")
    path = made.archive()
    done = store("import", "mine", path)
    assert done.returncode == 1
    assert "choose with --image: 'first:1', 'second:1'" in done.stderr
    assert take(store, "mine", path, "--image", "second:1")["digest"] == second["digest"]


def test_an_image_runs(runner):
    shell = b"#!/bin/sh\necho $A $PWD $(id -u)\n"
    made = oci.layout(runner.home / "x", [oci.layer(("etc/passwd", oci.USERS), oci.entry(
        "usr/local/bin/say", shell, mode=0o755))], config={"Env": ["A=said"]})
    env = {"SANDGLASS_STATE_DIR": str(runner.home / "state")}
    done = runner.sandglass("template", "import", "mine", made.archive(), env=env)
    assert done.returncode == 0, done.stderr
    done = runner.sandglass("run", "-T", "mine", "--bind", "/usr/bin:/usr/bin:ro", "--bind",
                            "/usr/lib:/usr/lib:ro", "--bind", "/bin:/bin:ro", "--bind", "/lib:/lib:ro",
                            "--bind", "/lib64:/lib64:ro", "--", "/usr/local/bin/say", env=env)
    assert (done.returncode, done.stdout) == (0, "said / 0\n"), done.stderr


def break_blob(made, which):
    path = made.blobs / which["digest"].removeprefix("sha256:")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def with_layer(store, *entries):
    return oci.layout(store.home / "bad", [oci.BASE, oci.layer(*entries)]).archive()


def truncated(store):
    path = oci.saved(store.home / "bad.tar", [oci.BASE])
    data = path.read_bytes()
    path.write_bytes(data[:len(data) // 2])
    return path


def without_list(store):
    path = store.home / "bad.tar"
    path.write_bytes(oci.layer((f"{'0' * 64}/layer.tar", oci.BASE)))
    return path


def wrong_blob(store):
    made = oci.layout(store.home / "bad", [oci.BASE])
    break_blob(made, made.index[0])
    return made.archive()


def missing_blob(store):
    made = oci.layout(store.home / "bad", [oci.BASE])
    (made.blobs / oci.hexdigest(oci.pack(oci.BASE, "gzip")[0])).unlink()
    return made.archive()


def wrong_diff(store):
    made = oci.Layout(store.home / "bad")
    real = oci.config_of
    try:
        oci.config_of = lambda layers, config, arch: real([ABOVE], config, arch)
        made.add(made.image([oci.BASE]))
    finally:
        oci.config_of = real
    return made.archive()


def with_holes(store):
    """A blob whose data has the digest, and whose content does not: there are zeros between."""
    made = oci.Layout(store.home / "bad")
    places = [i for i in range(0, len(oci.BASE), 512) if oci.BASE[i:i + 512].strip(b"\0")]
    data = b"".join(oci.BASE[i:i + 512] for i in places)
    blob = {**made.blob(data, oci.LAYER), "size": len(oci.BASE)}
    made.add(made.blob(json.dumps({
        "schemaVersion": 2, "mediaType": oci.MANIFEST, "layers": [blob], "config": made.blob(
            oci.config_of([oci.BASE], {}, oci.ARCH), "application/vnd.oci.image.config.v1+json")}).encode(),
        oci.MANIFEST))
    holes = {"GNU.sparse.size": str(len(oci.BASE)), "GNU.sparse.numblocks": str(len(places)),
             "GNU.sparse.map": ",".join(f"{i},512" for i in places)}
    path = store.home / "bad.tar"
    path.write_bytes(oci.layer(*(oci.entry(
        str(p.relative_to(made.path)), p.read_bytes(), pax_headers=holes if p.read_bytes() == data else {})
        for p in sorted(made.path.rglob("*")) if p.is_file())))
    return path


def another_machine(store):
    return oci.layout(store.home / "bad", [oci.BASE], arch="s390x").archive()


REFUSED = [
    (lambda s: with_layer(s, ("../outside", b"x")), "has '..' in its name"),
    (lambda s: with_layer(s, ("/etc/x", b"x")), "has an absolute name"),
    (lambda s: with_layer(s, oci.entry("usr/l", type=tarfile.SYMTYPE, linkname="/"), ("usr/l/x", b"")),
     "goes through a symbolic link"),
    (lambda s: with_layer(s, oci.entry("usr/h", type=tarfile.LNKTYPE, linkname="../../etc/shadow")),
     "has '..' in its name"),
    (lambda s: with_layer(s, oci.entry("usr/sda", type=tarfile.BLKTYPE, devmajor=8)), "device node"),
    (lambda s: with_layer(s, oci.entry("usr/gone", type=tarfile.CHRTYPE)), "device node"),
    (lambda s: with_layer(s, ("usr/.wh...", b"")), "whiteout of no name"),
    (lambda s: with_layer(s, ("usr/.wh.", b"")), "whiteout of no name"),
    (lambda s: with_layer(s, ("usr/.wh.x/y", b"")), "below a whiteout"),
    (lambda s: with_layer(s, ("usr/.wh.x", b"content")), "no empty file"),
    (lambda s: with_layer(s, oci.entry("usr/.wh.x", type=tarfile.SYMTYPE, linkname="/etc")),
     "no empty file"),
    (lambda s: with_layer(s, ("usr/big", b"\0" * (80 << 20))), "times its size"),
    (lambda s: with_layer(s, oci.entry("etc", type=tarfile.SYMTYPE, linkname="/")),
     "'/etc' of the template is a symbolic link"),
    (truncated, "archive is not readable"),
    (without_list, "truncated: it has neither 'index.json' nor 'manifest.json'"),
    (wrong_blob, "the content of blob"),
    (missing_blob, "lacks the blob"),
    (wrong_diff, "and should be sha256:"),
    (with_holes, "has holes, and a blob has none"),
    (another_machine, f"the image is for linux/s390x, wanted is linux/{oci.ARCH}"),
]


def test_what_is_refused_leaves_nothing(root):
    env = {"SANDGLASS_STATE_DIR": str(root.home / "state")}
    for make, message in REFUSED:
        path = make(root)
        done = root.sandglass("template", "import", "bad", path, env=env)
        assert done.returncode == 1, (message, done)
        assert message in done.stderr
        left = [p.name for p in (root.home / "state" / "templates").iterdir()]
        assert [name for name in left if not name.startswith(".host-")] == []
        shutil.rmtree(root.home / "bad", ignore_errors=True)
