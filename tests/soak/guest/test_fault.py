# SPDX-License-Identifier: Apache-2.0
"""The fault program (tests/fault) on this host: what fails or is killed here leaves nothing here."""
import subprocess

import pytest

# By the words in their names; overlay by path needs no switch here.
VARIANTS = ["comes_back_as_an_error", "leaves_nothing_to_the_sweeper", "kill_9_at_any_call"]


@pytest.mark.timeout(1800)  # some hundred calls, each in a cell of its own
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_engine_fails_at_any_call_and_leaves_nothing(variant):
    done = subprocess.run(["/opt/bin/fault", variant], capture_output=True, text=True)
    said = [line for line in done.stdout.splitlines() if not line.startswith("1..")]
    assert done.returncode == 0 and said[-1].startswith("ok "), "\n".join(said)
