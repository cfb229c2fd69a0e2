# SPDX-License-Identifier: Apache-2.0
"""Code in the real template, whose Python starts from an image; and the official clients, which get it unasked."""
import json
import subprocess

import clients
import pytest
from service import Box

CLIENTS = [clients.Client("python", "e2b-code-interpreter", "2.11.5", "url"),
           clients.Client("npm", "@e2b/code-interpreter", "2.8.0", "url")]


@pytest.fixture(scope="module")
def box(service):
    made = Box(service.operator)
    yield made
    made.destroy()


@pytest.mark.parametrize("language, code, text", [
    ("python", "import numpy, pandas; int(numpy.arange(4).sum())", "6"),
    ("javascript", "const x = [1, 2, 3]; x.length * 14", "42"),
    ("typescript", "const n: number = 42; n as number", "42"),
])
def test_every_language_has_its_kernel(box, language, code, text):
    done = box.client.post(f"{box.path}/code", {"code": code, "language": language}, expect=200)
    assert [row["text"] for row in done["results"]] == [text], done


def test_bash(box):
    done = box.client.post(f"{box.path}/code", {"code": "echo $((6 * 7))", "language": "bash"}, expect=200)
    assert done["stdout"] == "42\n", done


def test_python_starts_from_its_image(box):
    said = box.sh("echo | /opt/sandglass/kernels/python")
    assert json.loads(said["stdout"].splitlines()[0])["start"] == "warm", said


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_the_official_client(client, service):
    try:
        clients.install(client)
    except clients.Unavailable as why:
        pytest.skip(f"cannot be installed: {why}")
    key = service.key()
    api = service.client()
    made = api.post("/v2/sandboxes", {"templateID": "code-interpreter-v1", "timeout": 600}, headers={"X-API-Key": key},
                    expect=201)
    script = ([client.folder / "bin" / "python", clients.HERE / "code.py"] if client.is_python
              else ["node", clients.HERE / "code.mjs", client.folder])
    done = subprocess.run([*script, made["sandboxID"]], env=clients.environment(client, service, key, None), cwd="/",
                          timeout=clients.RUN_SECONDS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0 and "\nok " in done.stdout and "not ok" not in done.stdout, done.stdout
