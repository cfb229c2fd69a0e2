# SPDX-License-Identifier: Apache-2.0
"""Templates as people handle them: import, list, build, rm, and what goes wrong with each."""
import json
import os
import pathlib
import subprocess

import pytest

from sg import BIN


@pytest.fixture
def store(runner):
    """`sandglass template` with a state directory of its own."""
    def template(*args, **kw):
        env = {"SANDGLASS_STATE_DIR": str(runner.home / "state"), **kw.pop("env", {})}
        return runner.sandglass("template", *args, env=env, **kw)
    tree = runner.home / "tree"
    for name in ("usr", "etc"):
        (tree / name).mkdir(parents=True)
    template.home = runner.home
    template.tree = tree
    runner.command("chmod", "-R", "a+rX", tree)
    return template


def names(store):
    return store("list", "--names").stdout.split()


def test_a_directory_becomes_a_template_and_goes_again(store):
    done = store("import", "mine", store.tree)
    assert (done.returncode, done.stdout) == (0, "mine\n"), done
    assert names(store) == ["host", "mine"]
    listed = {t["name"]: t for t in json.loads(store("list", "--json").stdout)}
    assert listed["mine"]["origin"] == "directory"
    assert store("rm", "mine").returncode == 0
    assert names(store) == ["host"]


def test_a_name_that_is_not_there_does_not_keep_the_others(store):
    for name in ("a", "b"):
        assert store("import", name, store.tree).returncode == 0
    done = store("rm", "a", "nosuch", "b", "neither")
    assert (done.returncode, done.stdout) == (1, "a\nb\n")
    assert done.stderr == "sandglass: no template 'nosuch'\nsandglass: no template 'neither'\n"
    assert names(store) == ["host"]


def test_a_file_among_the_templates_is_no_template(store):
    assert store("import", "mine", store.tree).returncode == 0
    (store.home / "state" / "templates" / "build.sh").touch()
    done = store("list")
    assert (done.returncode, done.stderr) == (0, "")
    assert "build.sh" not in done.stdout


def test_an_imported_template_is_not_built_over(store):
    assert store("import", "base", store.tree).returncode == 0
    done = store("build", "base")
    assert done.returncode == 1
    assert done.stderr == ("sandglass: template 'base' was imported, not built; "
                           "--force replaces it\n")


def test_a_build_that_fails_tells_the_cause(root):
    bin_dir = root.home / "bin"
    bin_dir.mkdir()
    fake = bin_dir / "mmdebstrap"
    fake.write_text("#!/bin/sh\nexec >&2\necho 'I: running apt-get update...'\n"
                    "echo 'E: The repository has no Release file.'\n"
                    "echo 'E: apt-get update failed'\necho 'E: mmdebstrap failed to run'\nexit 25\n")
    fake.chmod(0o755)
    if not pathlib.Path("/usr/bin/mmdebstrap").exists():
        pytest.skip("needs mmdebstrap")
    state = {"SANDGLASS_STATE_DIR": str(root.home / "state"),
             "PATH": f"{bin_dir}:{os.environ['PATH']}"}
    done = root.sandglass("template", "build", "base", "nosuchsuite", env=state)
    assert done.returncode == 1
    assert done.stderr.endswith("sandglass: build template 'base': "
                                "The repository has no Release file.\n")


@pytest.mark.parametrize("args, status, message", [
    (["build", "nosuch"], 1, "no recipe for a template 'nosuch'; there is: base, "
     "code-interpreter-full, code-interpreter-v1"),
    (["import", "-"], 2, "'-' (standard input) needs a name: sandglass template import NAME -"),
    (["import", "q", "f.tar", "--name", "q3"], 2, "two names: 'q' and --name 'q3'"),
    (["rm", "host"], 2, "'host' is the machine itself and cannot be removed"),
])
def test_a_mistake_is_named(user, args, status, message):
    done = user.sandglass("template", *args)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", f"sandglass: {message}\n")


def test_a_directory_that_is_refused_is_not_called_an_archive(store):
    (store.tree / "proc").symlink_to("/etc")
    done = store("import", "bad", store.tree)
    assert done.returncode == 1
    assert "archive" not in done.stderr
    assert names(store) == ["host"]


def test_recipes_are_not_installed_where_an_ordinary_user_keeps_templates():
    build = os.environ.get("SANDGLASS_BUILD") or pathlib.Path(BIN).resolve().parents[2]
    done = subprocess.run(["meson", "introspect", "--installed", build], capture_output=True,
                          text=True, timeout=60)
    places = json.loads(done.stdout).values()
    assert any(place.endswith("share/sandglass/recipes/base/recipe.toml") for place in places)
    assert not any("share/sandglass/templates" in place for place in places)
