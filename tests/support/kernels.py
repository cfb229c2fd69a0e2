# SPDX-License-Identifier: Apache-2.0
"""Kernels in a sandbox of the `host` template: the drivers of templates/code-interpreter-v1 as they are
in the repository, where that template would have them. So the tests need no template of their own."""
import io
import pathlib
import tarfile

import service

TEMPLATE = pathlib.Path(__file__).resolve().parent.parent.parent / "templates" / "code-interpreter-v1"
PLACES = {"kernels/bash.py": "kernels/bash", "kernels/javascript.py": "kernels/javascript",
          "kernels/python.sh": "kernels/python", "lib/driver.py": "lib/driver.py",
          "lib/javascript.cjs": "lib/javascript.cjs"}


def archive(more=None):
    """`more`: {name: source} of further kernels."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        def add(name, data):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
        for source, place in PLACES.items():
            if (TEMPLATE / source).exists():
                add(place, (TEMPLATE / source).read_bytes())
        for path in sorted((TEMPLATE / "kernels" / "python").rglob("*.py")):
            add(f"python/{path.relative_to(TEMPLATE / 'kernels' / 'python')}", path.read_bytes())
        for name, source in (more or {}).items():
            add(f"kernels/{name}", source.encode())
    return out.getvalue()


def install(client, sandbox, more=None):
    path = f"/v1/sandboxes/{sandbox}"
    client.post(f"{path}/exec", {"argv": ["mkdir", "-p", "/opt/sandglass/kernels"], "user": "root"}, expect=200)
    # Debian's matplotlib looks for its settings here; the sandbox has a directory /etc of its own.
    client.put(f"{path}/files", b"", query={"path": "/etc/matplotlibrc", "user": "root"}, expect=200)
    client.put(f"{path}/files/tar", archive(more), query={"path": "/opt/sandglass", "user": "root"}, expect=204)


class Box(service.Box):
    """A sandbox with kernels."""

    def __init__(self, client, more=None, **spec):
        super().__init__(client, spec)
        install(client, self.id, more)

    def code(self, code, expect=200, **spec):
        return self.client.post(f"{self.path}/code", {"code": code, **spec}, expect=expect)

    def bash(self, code, **spec):
        return self.code(code, language="bash", **spec)

    def events(self, code, **spec):
        """As they come; the reply has .connection to go away with."""
        return self.client.stream("POST", f"{self.path}/code", {"code": code, **spec}, query={"stream": 1})

    def context(self, expect=201, **spec):
        return self.client.post(f"{self.path}/contexts", spec, expect=expect)
