# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: one TAP line for every test, the reason of a failure before it."""
import re

import pytest

STAGES = ("setup", "call", "teardown")
done = []
worst = {}


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """Its options are needed, its dots and colours are not."""
    config.pluginmanager.unregister(name="terminalreporter")


def pytest_runtest_logreport(report):
    if report.outcome != "passed":
        worst.setdefault(report.nodeid, report)
    if report.when != STAGES[-1]:
        return
    name = report.nodeid.split("::")[-1].removeprefix("test_").replace("_", " ")
    bad = worst.get(report.nodeid)
    done.append(name)
    if bad is None:
        print(f"ok {len(done)} - {name}", flush=True)
    elif bad.outcome == "skipped":
        print(f"ok {len(done)} - {name} # SKIP {bad.longrepr[-1]}", flush=True)
    else:
        for line in re.sub(r"\x1b\[[0-9;]*m", "", str(bad.longrepr)).splitlines()[-25:]:
            print(f"# {line}")
        print(f"not ok {len(done)} - {name}", flush=True)


def pytest_collectreport(report):
    if report.failed:
        done.append(report.nodeid)
        print(f"# {report.longrepr}\nnot ok {len(done)} - collects {report.nodeid}", flush=True)


def pytest_sessionfinish():
    print(f"1..{len(done)}", flush=True)
