# SPDX-License-Identifier: Apache-2.0
"""What is counted is what the kernel counted, however it is summed up."""
import json

import pytest
from service import Box

BURN = "import time\nwhile time.process_time() < {}: pass"


def test_usage_adds_up_to_the_kernels_own_counters(service, tenant):
    kernel = 0
    for seconds in (0.3, 0.6, 0.9):
        box = Box(tenant)
        assert box.exec("python3", "-c", BURN.format(seconds))["exitCode"] == 0
        kernel += tenant.get(f"{box.path}/stats", expect=200)["cpuMs"]
        tenant.delete(box.path, expect=204)
    assert kernel >= 1800
    rows = tenant.get("/v1/usage", expect=200)["usage"]
    assert len(rows) == 3 and all(row["org"] == tenant.org and row["creates"] == 1 for row in rows)
    counted = sum(row["cpuMs"] for row in rows)
    assert abs(counted - kernel) <= 0.02 * kernel, (counted, kernel)
    total = {name: sum(row[name] for row in rows) for name in ("wallMs", "memoryMibMs", "execs", "creates")}
    for by, keys in (("org", {"org"}), ("tier", {"tier"}), ("day", {"day"}), ("org,tier,day", {"org", "tier", "day"})):
        sums = tenant.get(f"/v1/usage?by={by}", expect=200)["usage"]
        assert all(keys <= set(row) and "sandbox" not in row for row in sums)
        assert {name: sum(row[name] for row in sums) for name in total} == total
        assert abs(sum(row["cpuMs"] for row in sums) - counted) <= 3  # each row is cut to whole ms
    done = service.runner.command(service.binary, "usage", "--by", "org,tier", "--json",
                                  env={"SANDGLASS_CONFIG": str(service.config)})
    assert any(row["org"] == tenant.org and row["tier"] == "cell" for row in json.loads(done.stdout)["usage"])
    done = service.runner.command(service.binary, "usage", env={"SANDGLASS_CONFIG": str(service.config)})
    assert done.returncode == 0 and tenant.org + " cell 20" in done.stdout


@pytest.mark.parametrize("query", ["by=nonsense", "by=org,,day", "hours=0", "oops=1"])
def test_bad_questions(tenant, query):
    assert tenant.get(f"/v1/usage?{query}").status == 400


def test_nobody_sees_what_another_used(service, tenant):
    tenant.delete(Box(tenant).path, expect=204)
    _, other = service.tenant("other-usage")
    assert other.get("/v1/usage?by=org", expect=200)["usage"] == []
