# SPDX-License-Identifier: Apache-2.0
"""Checks of client.py about templates that are built."""
import os
import pathlib
import tempfile
import uuid

import e2b
from checks import TEMPLATE, Skip, alone, raises
from e2b import Sandbox


def builder(folder):
    if not hasattr(e2b, "Template"):
        raise Skip("builds")
    return e2b.Template(file_context_path=folder).from_template(TEMPLATE)


def remove(build):
    import urllib.request
    request = urllib.request.Request(f"{os.environ['E2B_API_URL']}/templates/{build.template_id}", method="DELETE",
                                     headers={"X-API-Key": os.environ["E2B_API_KEY"]})
    assert urllib.request.urlopen(request).status == 204


@alone
def a_template_is_built_and_its_start_command_is_running():
    if "E2B_API_URL" not in os.environ:
        raise Skip("the file's address is plain HTTP")
    name = "py-" + uuid.uuid4().hex[:8]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "site").mkdir()
        (pathlib.Path(folder) / "site" / "page").write_text("from the context\n")
        template = (builder(folder).copy("site", "/srv/site").set_envs({"GREETING": "hello"}).set_workdir("/srv")
                    .run_cmd("echo $GREETING > /tmp/made")
                    .set_start_cmd("cd /srv/site && python3 -m http.server 8123", e2b.wait_for_port(8123)))
        lines = []
        build = e2b.Template.build(template, name, cpu_count=1, memory_mb=512, on_build_logs=lambda line: lines.append(line.message))
        again = e2b.Template.build(template, name, cpu_count=1, memory_mb=512)
    assert any("RUN echo $GREETING" in line for line in lines), lines
    assert again.template_id == build.template_id and again.build_id != build.build_id
    assert e2b.Template.exists(name) and not e2b.Template.exists(name + "-none")
    with Sandbox.create(name) as box:
        done = box.commands.run("cat /tmp/made; pwd; curl -s http://127.0.0.1:8123/page; echo $GREETING")
        assert done.stdout == "hello\n/srv\nfrom the context\nhello\n", done
        assert box.get_info().template_id == build.template_id
    remove(build)


@alone
def a_build_that_fails_says_where():
    if "E2B_API_URL" not in os.environ:
        raise Skip("one way is enough")
    template = builder("/tmp").run_cmd("echo fine").run_cmd("echo broken; exit 9")
    error = raises(e2b.BuildException, e2b.Template.build, template, "py-" + uuid.uuid4().hex[:8])
    assert "exit status 9" in str(error), error


@alone
def a_template_is_tagged():
    if not hasattr(getattr(e2b, "Template", None), "assign_tags") or "E2B_API_URL" not in os.environ:
        raise Skip("tags")
    name = "py-" + uuid.uuid4().hex[:8]
    build = e2b.Template.build(builder("/tmp").run_cmd("echo 1 > /tmp/v"), f"{name}:v1")
    e2b.Template.assign_tags(f"{name}:v1", ["stable", "default"])
    assert {tag.tag for tag in e2b.Template.get_tags(name)} == {"v1", "stable", "default"}
    e2b.Template.remove_tags(name, "stable")
    with Sandbox.create(f"{name}:v1") as box:
        assert box.commands.run("cat /tmp/v").stdout == "1\n"
    remove(build)
