# SPDX-License-Identifier: Apache-2.0
"""The programs under examples/ do what they say, so that what people copy from them works."""
import json
import os
import pathlib
import subprocess

import pytest
import sg

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
SAYS = {"agent.py": "1/5: 3\n2/5: 1\n3/5: 4\n4/5: 1\n5/5: 5\nmean 2.8\n",
        "agent.sh": "and 3\nand 1\nand 4\nand 1\nand 5\ntotal 14\n",
        "hooked.py": "8\n8\ntotal.py\ntotal.txt\n['numbers.txt']\nrefused\n"}
DATA = {"hook-settings.json"}


def run(name, home="/nonexistent", **env):
    path = f"{pathlib.Path(sg.BIN).parent}:{os.environ['PATH']}"
    return subprocess.run([EXAMPLES / name], env={"PATH": path, "HOME": str(home), **env}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)


@pytest.fixture
def example(service, request, tmp_path):
    """Runs an example as a tenant of its own."""
    org = service.org(request.node.name)
    key = service.key(org=org, scopes=["read", "exec"])
    url = f"http://127.0.0.1:{service.port}"
    yield lambda name, **env: run(name, tmp_path, **{"SANDGLASS_URL": url, "SANDGLASS_API_KEY": key, **env})
    service.operator.delete(f"/v1/orgs/{org}", expect=204)  # refused while it has a sandbox


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.iterdir()} == set(SAYS) | DATA


def test_the_settings_of_an_agent_name_the_hook():
    settings = json.loads((EXAMPLES / "hook-settings.json").read_text())
    assert {hook["command"] for rows in settings["hooks"].values() for row in rows for hook in row["hooks"]} == {
        "sandglass hook"}


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_and_leaves_no_sandbox(example, name):
    done = example(name)
    assert (done.returncode, done.stdout, done.stderr) == (0, SAYS[name], "")


@pytest.mark.parametrize("name", SAYS)
def test_an_example_with_a_wrong_key_says_so(example, name):
    done = example(name, SANDGLASS_API_KEY="e2b_" + "0" * 40)
    assert done.returncode != 0 and "the key is not valid" in done.stderr, done


@pytest.mark.parametrize("name", SAYS)
def test_an_example_without_its_variables_says_how_to_get_them(name):
    done = run(name)
    assert done.returncode != 0 and 'eval "$(sandglass env)"' in done.stderr, done
