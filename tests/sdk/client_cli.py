# SPDX-License-Identifier: Apache-2.0
"""The official command line program. Arguments: the folder where it is installed, the template; output
as of client.py. Its `sandbox create` wants a terminal, so the sandbox is made by hand."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback
import urllib.request

PROGRAM = pathlib.Path(sys.argv[1]) / "node_modules" / ".bin" / "e2b"
TEMPLATE = sys.argv[2]
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def e2b(*args, **kw):
    done = subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60, **kw)
    assert done.returncode == 0, done
    return done.stdout


def create(template=TEMPLATE):
    request = urllib.request.Request(os.environ["E2B_API_URL"] + "/v2/sandboxes", json.dumps({"templateID": template}).encode(),
                                     {"X-API-Key": os.environ["E2B_API_KEY"], "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["sandboxID"]


@check
def it_is_listed_by_its_metadata(box):
    assert [row["sandboxId"] for row in json.loads(e2b("sandbox", "list", "--format", "json"))] == [box]


@check
def it_tells_about_itself(box):
    text = e2b("sandbox", "info", box)
    assert box in text and "running" in text, text


@check
def a_command_gives_output_and_status(box):
    assert e2b("sandbox", "exec", box, "--", "echo", "hello").strip() == "hello"
    done = subprocess.run([PROGRAM, "sandbox", "exec", box, "--", "sh", "-c", "exit 3"], capture_output=True, timeout=60)
    assert done.returncode == 3, done


@check
def input_ends(box):
    assert e2b("sandbox", "exec", box, "--", "cat", input="from a pipe") == "from a pipe"


@check
def it_measures_itself(box):
    assert "Memory" in e2b("sandbox", "metrics", box)


@check
def its_log_is_read(box):
    assert "sandbox.created" in e2b("sandbox", "logs", box)


@check
def templates_are_listed(box):
    assert TEMPLATE in e2b("template", "list")


@check
def a_template_is_built_and_its_start_command_is_running(box):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "page").write_text("from the context\n")
        (pathlib.Path(folder) / "e2b.Dockerfile").write_text(
            f"FROM e2bdev/{TEMPLATE}\nENV GREETING=hello\nCOPY page /srv/page\nRUN echo $GREETING > /tmp/made\n")
        text = e2b("template", "create", "of-the-cli", "-c", "cd /srv && python3 -m http.server 8123", "--ready-cmd",
                   "curl -s http://127.0.0.1:8123/page", cwd=folder)
    assert "of-the-cli" in text, text
    assert "of-the-cli" in e2b("template", "list")
    made = create("of-the-cli")
    assert e2b("sandbox", "exec", made, "--", "sh", "-c", "cat /tmp/made; curl -s http://127.0.0.1:8123/page") == "hello\nfrom the context\n"
    e2b("sandbox", "kill", made)
    e2b("template", "delete", "of-the-cli", "-y")
    assert "of-the-cli" not in e2b("template", "list")


@check
def a_paused_sandbox_keeps_its_processes(box):
    assert "paused" in e2b("sandbox", "pause", box)
    assert "resumed" in e2b("sandbox", "resume", box)
    assert e2b("sandbox", "exec", box, "--", "echo", "again").strip() == "again"


@check
def a_killed_sandbox_is_gone(box):
    assert "has been killed" in e2b("sandbox", "kill", box)
    done = subprocess.run([PROGRAM, "sandbox", "kill", box], capture_output=True, text=True, timeout=60)
    assert "wasn't found" in done.stdout + done.stderr, done


def main():
    good = True
    box = create()
    for function in CHECKS:
        try:
            function(box)
            print(f"ok {function.__name__}", flush=True)
        except Exception:  # each check is told by itself
            good = False
            print(f"not ok {function.__name__}\n" + "".join(f"  {line}\n" for line in traceback.format_exc().splitlines()), flush=True)
    sys.exit(0 if good else 1)


main()
