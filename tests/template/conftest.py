# SPDX-License-Identifier: Apache-2.0
"""For the tests of the template `code-interpreter-v1`: a service that has it, built by its recipe."""
import os
import pathlib
import sys

import built_template
import pytest
from service import Service

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "sdk"))  # behind: a script there is called code.py


@pytest.fixture(scope="session")
def service():
    if os.getuid() != 0:
        pytest.skip("needs root")
    try:
        shared = Service(pool=2, template="code-interpreter-v1").__enter__()
    except built_template.Unavailable as why:
        pytest.skip(f"no template: {why}")
    shared.wait_parked()
    yield shared
    shared.__exit__(None, None, None)
