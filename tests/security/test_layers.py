# SPDX-License-Identifier: Apache-2.0
"""Case 28: layers are shared by all sandboxes of a template; what one does there, it does alone."""
import pathlib
import shutil

import pytest
from boxes import Box
from test_files import contents

FORGERIES = {"trusted.overlay.opaque", "trusted.overlay.redirect", "trusted.overlay.metacopy",
             "trusted.overlay.origin"}


@pytest.mark.parametrize("inside", ["user", "root"])
def test_case_28_tricks_on_a_layer_stay_in_the_sandbox(runner, kit, inside):
    box = Box(runner, kit, inside, "directory")
    before = contents(kit.template)
    report = box.attack("layer-tricks", "/data")
    if not box.is_rootless:  # one id without root: the layer is somebody else's
        assert "unlink" in report.got and "truncate" in report.got
    assert report.said["raced"] == ["raced"] and not report.got & FORGERIES
    assert contents(kit.template) == before


def test_case_28_the_digest_would_notice(root, kit, scratch):
    """The same tricks on a directory that is given away for writing do change it."""
    folder = pathlib.Path(shutil.copytree(kit.template, scratch / "copy", symlinks=True))
    for path in [folder / "data", *(folder / "data").rglob("*")]:
        path.chmod(0o777)
    before = contents(folder)
    Box(root, kit, "root", "directory").attack("layer-tricks", "/bound",
                                               options=["--bind", f"{folder}/data:/bound"])
    assert contents(folder) != before


def test_case_28_a_neighbour_sees_the_original(root, kit):
    box = Box(root, kit, "root", "directory")
    neighbour = box.start_attack("stubborn")
    try:
        assert "unlink" in box.attack("layer-tricks", "/data").got
        report = box.attack("list", "/data")
        assert set(report.said["/data"]) == {"gone", "kept", "raced", "linked", "sub"}
    finally:
        neighbour.kill()
        neighbour.wait()
        neighbour.stdout.close()


def test_case_28_the_hosts_own_files_cannot_be_changed_through_the_view(root, kit):
    box = Box(root, kit, "root")
    paths = ["/usr/bin/env", "/usr/lib/os-release", "/bin/sh"]
    before = [pathlib.Path(path).read_bytes() for path in paths]
    assert box.attack("write-files", *paths).got == set()
    assert box.run("rm", "-f", *paths).returncode != 0
    assert [pathlib.Path(path).read_bytes() for path in paths] == before
