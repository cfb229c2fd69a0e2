# SPDX-License-Identifier: Apache-2.0
"""The tests of the tests: with its protection switched off, every attack succeeds.

Needs the build whose protections can be switched off (-Dtest_switches=true); tools/check makes it.
"""
import importlib
import pathlib

import pytest

import boxes
import sg

for path in pathlib.Path(__file__).parent.glob("test_*.py"):  # each fills the register
    if path.stem != __name__:
        importlib.import_module(path.stem)


@pytest.mark.parametrize("protection", boxes.PROTECTIONS, ids=str)
def test_protection_matters(protection, root, kit, request):
    assert sg.SWITCHED_BIN, "SANDGLASS_SWITCHED_BIN is not set; tools/check sets it"
    box = boxes.Box(root, kit, protection.inside, protection.template, protection.switches)
    got = protection.attack(box, *(request.getfixturevalue(name) for name in protection.needs))
    assert protection.opens <= got, f"held without {protection.switches}"


def test_an_ordinary_build_knows_no_switches(root, kit):
    box = boxes.Box(root, kit, "root")
    off = {"SANDGLASS_TEST_SWITCHES": "no-seccomp,no-userns,no-cap-bound"}
    assert box.attack("mounts", env=off).got == set()
