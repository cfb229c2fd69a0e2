# SPDX-License-Identifier: Apache-2.0
"""Shared by the suites that drive the real program: accounts, and the check that nothing is left.

Fixtures:
  runner     as root and as an ordinary user: the test runs twice
  root       as root; skipped where pytest itself is not
  user       as an ordinary user, made for this test
Each is a support.sg.Runner. After every test the leak check runs by itself; a test whose name says
that it leaves something on purpose has the marker `leaves_things`.
"""
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "support"))

import gatebox  # noqa: E402
import leaks  # noqa: E402
import sg  # noqa: E402

# Fixtures for tests of sandboxes that have a network.
gate_world, gate_service, gate_box = gatebox.gate_world, gatebox.gate_service, gatebox.gate_box


def pytest_configure(config):
    config.addinivalue_line("markers", "leaves_things: no leak check after this test")
    leaks.adopt_orphans()


@pytest.fixture
def root():
    if os.getuid() != 0:
        pytest.skip("needs root")
    with sg.account() as runner:
        yield runner


@pytest.fixture
def user():
    with sg.ordinary_user() as runner:
        yield runner


@pytest.fixture(params=["root", "user"])
def runner(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    """First in, last out: looks after all other fixtures have cleaned up after themselves."""
    watch = leaks.Leaks()
    yield
    if request.node.get_closest_marker("leaves_things"):
        return
    waited_for = {process.pid for process in subprocess._active or ()}
    left = watch.left(spare=waited_for)
    assert not left, "left behind:\n  " + "\n  ".join(left)
