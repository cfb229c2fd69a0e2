# SPDX-License-Identifier: Apache-2.0
"""Images made by hand, so that each can be wrong in one way; and the tools that judge ours.

    layer = oci.layer(("etc/passwd", b"root:x:0:0::/root:/bin/sh\\n"), ("opt/.wh.gone", b""))
    oci.layout(path, [layer], config={"Env": ["A=b"]})       # a directory
    oci.archive(path)                                          # the same as one file, beside it
    oci.saved(path, [layer])                                   # as `docker save` writes it
"""
import gzip
import hashlib
import io
import json
import pathlib
import platform
import re
import shutil
import subprocess
import tarfile

ARCH = {"x86_64": "amd64", "aarch64": "arm64", "riscv64": "riscv64"}[platform.machine()]
LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
USERS = b"root:x:0:0::/root:/bin/sh\napp:x:1234:1234::/home/app:/bin/sh\n"


def hexdigest(data):
    return hashlib.sha256(data).hexdigest()


def entry(name, content=b"", **fields):
    """What goes into a layer; `fields` are of tarfile.TarInfo."""
    info = tarfile.TarInfo(name)
    info.mode = 0o644
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def layer(*entries):
    """A tar archive of entries: (name, content), or what entry() gives."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for item in entries:
            info, content = item if isinstance(item[0], tarfile.TarInfo) else entry(*item)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


BASE = layer(entry("etc", type=tarfile.DIRTYPE, mode=0o755), ("etc/passwd", USERS),
             entry("usr", type=tarfile.DIRTYPE, mode=0o755), ("opt/one", b"one\n"),
             ("opt/gone", b"gone\n"))


def programs(*names):
    """Entries of a layer: programs of this machine under /bin, with what they are linked with."""
    wanted = {}
    for name in names:
        path = shutil.which(name, path="/usr/bin:/bin")
        links = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=60).stdout
        wanted |= {f"bin/{name}": path, **{p.lstrip("/"): p for p in re.findall(r"(/\S+)", links)}}
    return [entry(name, pathlib.Path(path).read_bytes(), mode=0o755) for name, path in wanted.items()]


def pack(data, how):
    """(bytes, media type)"""
    if how == "gzip":
        return gzip.compress(data, mtime=0), LAYER + "+gzip"
    if how == "zstd":
        done = subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True,
                              timeout=60)
        return done.stdout, LAYER + "+zstd"
    return data, LAYER


def config_of(layers, config, arch):
    return json.dumps({"architecture": arch, "os": "linux", "config": config or {},
                       "rootfs": {"type": "layers",
                                  "diff_ids": [f"sha256:{hexdigest(x)}" for x in layers]}}).encode()


class Layout:
    """A directory with an OCI layout."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.blobs = self.path / "blobs" / "sha256"
        self.blobs.mkdir(parents=True, exist_ok=True)
        (self.path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        self.index = []

    def blob(self, data, media_type, **more):
        (self.blobs / hexdigest(data)).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{hexdigest(data)}", "size": len(data),
                **more}

    def image(self, layers, config=None, arch=ARCH, how="gzip"):
        """Its manifest's descriptor."""
        packed = [self.blob(*pack(x, how)) for x in layers]
        document = {"schemaVersion": 2, "mediaType": MANIFEST,
                    "config": self.blob(config_of(layers, config, arch),
                                        "application/vnd.oci.image.config.v1+json"),
                    "layers": packed}
        return self.blob(json.dumps(document).encode(), MANIFEST)

    def add(self, descriptor, name=None):
        if name:
            descriptor = {**descriptor,
                          "annotations": {"org.opencontainers.image.ref.name": name}}
        self.index.append(descriptor)
        self.write()

    def write(self):
        (self.path / "index.json").write_text(json.dumps(
            {"schemaVersion": 2, "mediaType": INDEX, "manifests": self.index}))

    def many(self, descriptors):
        """An index of images for several machines: (descriptor, architecture)."""
        rows = [{**d, "platform": {"os": "linux", "architecture": arch}} for d, arch in descriptors]
        text = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": rows}).encode()
        return self.blob(text, INDEX)

    def archive(self):
        """One file of it all, beside it."""
        path = self.path.with_suffix(".tar")
        with tarfile.open(path, "w") as tar:
            for name in sorted(p.name for p in self.path.iterdir()):
                tar.add(self.path / name, name)
        return path


def layout(path, layers, name=None, **how):
    made = Layout(path)
    made.add(made.image(layers, **how), name)
    return made


def saved(path, layers, config=None, tags=("mine:latest",)):
    """As `docker save` of before version 25 has it: layers by other names, the list at the end."""
    text = config_of(layers, config, ARCH)
    rows = [(f"{hexdigest(text)}.json", text)]
    names = []
    for data in layers:
        names.append(f"{hexdigest(data + b'id')}/layer.tar")
        rows.insert(0, (names[-1], data))
    rows.append(("manifest.json", json.dumps(
        [{"Config": rows[-1][0], "RepoTags": list(tags), "Layers": names}]).encode()))
    pathlib.Path(path).write_bytes(layer(*rows))
    return path


def skopeo(*args):
    """skopeo's own word; it is no part of the project."""
    return subprocess.run(["skopeo", "--insecure-policy", *map(str, args)], capture_output=True,
                          text=True, timeout=120)


def inspect(where, *more):
    done = skopeo("inspect", *more, where)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def has(*programs):
    return all(shutil.which(p) for p in programs)
