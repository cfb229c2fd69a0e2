# SPDX-License-Identifier: Apache-2.0
"""Money: prices, what was spent, budgets; and sums that hold whatever became of the sandboxes.

A second of processor time is a whole unit of the currency here, so that budgets end within seconds."""
import json
import os
import signal

import leaks
import pytest
from service import Box, Service
from service import wait_for as wait_some

BURN = "import time\nwhile time.process_time() < {}: pass"
PRICES = """currency = "XTS"
[own]
cpu_second = 1
[[elsewhere]]
name = "there"
vcpu_second = 10
"""


def wait_for(question, what):
    return wait_some(question, 60, what)


@pytest.fixture(scope="module")
def metered(tmp_path_factory):
    if os.getuid() != 0:
        pytest.skip("needs root")
    prices = tmp_path_factory.mktemp("prices") / "prices.toml"
    prices.write_text(PRICES)
    with Service(pool=2, tables={"usage": {"prices": str(prices)}}) as made:
        yield made


@pytest.fixture
def payer(metered, request):
    org, client = metered.tenant(request.node.name)
    client.org = org
    yield client
    client.delete("/v1/sandboxes", expect=200)
    client.close()


def burn(box, seconds):
    assert box.exec("python3", "-c", BURN.format(seconds))["exitCode"] == 0


def cpu_ms(box):
    return box.client.get(f"{box.path}/stats", expect=200)["cpuMs"]


def init_of(box):
    """Its pid 1, as the host sees it: by a process of a name that nobody else has."""
    name = f"/tmp/{box.id}"
    assert box.sh(f"cp /bin/sleep {name}")["exitCode"] == 0
    box.spawn(f"exec {name} 600")

    def found():
        for pid in leaks.process_table():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if file.read().startswith(name.encode() + b"\0"):
                        return leaks.process_table()[pid][0]
            except (OSError, KeyError):
                continue
        return None
    return wait_for(found, what="its pid 1")


def budget(metered, org, amount, **more):
    return metered.operator.put(f"/v1/orgs/{org}/budget", {"amount": amount, **more}, expect=200)


def told(metered, org, action):
    return [r for r in metered.audit() if r["action"] == action and r.get("org") == org]


def test_the_sum_is_the_kernels_own_whatever_became_of_the_sandboxes(metered, payer):
    kernel = {}
    ended, paused, killed, kept = (Box(payer) for _ in range(4))
    for box, seconds in ((ended, 0.3), (paused, 0.4), (killed, 0.5)):
        burn(box, seconds)
    kernel[ended.id] = cpu_ms(ended)
    payer.delete(ended.path, expect=204)
    payer.post(f"{paused.path}/pause", expect=200)
    kernel[paused.id] = cpu_ms(paused)
    # pid 1 is killed from outside: nobody can ask it any more
    pid = init_of(killed)
    kernel[killed.id] = cpu_ms(killed)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: killed.state() == "failed", what="its failure")
    # before, while and after the daemon and the launcher die
    burn(kept, 0.3)
    running = kept.exec("python3", "-c", BURN.format(0.8), background=True, expect=201)["id"]
    metered.kill9_daemon()
    metered.wait_ready()
    assert kept.wait(running, 60)["exitCode"] == 0
    metered.kill9_launcher()
    metered.wait_ready()
    burn(kept, 0.3)
    kernel[kept.id] = cpu_ms(kept)
    assert kernel[kept.id] >= 1400
    payer.delete("/v1/sandboxes", expect=200)

    def counted():
        return {row["sandbox"]: row["cpuMs"] for row in payer.get("/v1/usage", expect=200)["usage"]}
    wait_for(lambda: counted().get(kept.id, 0) >= 0.98 * kernel[kept.id], what="the last look")
    got = counted()
    assert set(got) == set(kernel)
    for name, ms in kernel.items():  # the end of each burns a little more, which nobody sees
        assert -0.02 * ms - 1 <= got[name] - ms <= 0.02 * ms + 40, (name, got, kernel)
    total = sum(kernel.values())
    assert abs(sum(got.values()) - total) <= 0.02 * total + 40, (got, kernel)


def test_use_has_a_price_here_and_elsewhere_by_operation(metered, payer):
    done = payer.post("/v1/run", {"operation": "bulk_scan", "argv": ["python3", "-c", BURN.format(0.2)]}, expect=200)
    assert done["ending"] == "exit"
    box = Box(payer)
    burn(box, 0.1)
    payer.delete(box.path, expect=204)
    reply = payer.get("/v1/usage?by=operation,tier", expect=200)
    assert reply["currency"] == "XTS"
    rows = {row["operation"]: row for row in reply["usage"]}
    assert set(rows) == {"bulk_scan", box.made["decision"]["operation"]}
    for row in rows.values():
        assert row["tier"] == "cell" and row["cost"] == pytest.approx(row["cpuMs"] / 1000, abs=0.001)
        assert row["elsewhere"] == {"there": pytest.approx(row["allottedCpuMs"] / 100, abs=0.011)}
        assert row["allottedMemoryMibMs"] > 0 and row["allottedCpuMs"] > 0
    assert rows["bulk_scan"]["cost"] >= 0.2
    shown = metered.runner.command(metered.binary, "usage", "--by", "org,operation",
                                   env={"SANDGLASS_CONFIG": str(metered.config)})
    assert "COST" in shown.stdout and f"{payer.org} bulk_scan" in shown.stdout, shown


def test_an_exhausted_budget_refuses_what_is_new_and_names_the_remedy(metered, payer):
    box = Box(payer)
    state = budget(metered, payer.org, 0.4, warnPercent=50, period="day")
    assert (state["state"], state["action"], state["currency"]) == ("within", "refuse", "XTS")
    burn(box, 0.3)
    wait_for(lambda: told(metered, payer.org, "budget.warning"), what="a warning")
    assert box.sh("true")["exitCode"] == 0
    burn(box, 0.3)
    wait_for(lambda: told(metered, payer.org, "budget.exhausted"), what="the end of the budget")
    for path, body in (("/v1/sandboxes", {}), (f"{box.path}/exec", {"argv": ["true"]}),
                       ("/v1/run", {"operation": "bulk_scan", "argv": ["true"]})):
        refused = payer.post(path, body)
        assert refused.status == 429
        assert "used up" in refused.json["error"]["message"]
        assert f"sandglass orgs budget {payer.org}" in refused.json["error"]["hint"]
    assert box.state() == "running" and box.read("/etc/hostname") is not None
    metered.kill9_daemon()
    metered.wait_ready()
    assert payer.post("/v1/sandboxes", {}).status == 429
    assert len(told(metered, payer.org, "budget.exhausted")) == 1
    assert payer.get(f"/v1/orgs/{payer.org}/budget", expect=200)["left"] == 0
    budget(metered, payer.org, 100)
    assert box.sh("true")["exitCode"] == 0


def test_an_exhausted_budget_can_pause_what_runs(metered, payer):
    box = Box(payer)
    budget(metered, payer.org, 0.2, action="pause", period="total", warnPercent=0)
    box.spawn("while :; do :; done")
    wait_for(lambda: box.state() == "paused", what="the pause")
    refused = payer.post(f"{box.path}/resume", {})
    assert refused.status == 429 and "budget" in refused.json["error"]["message"]
    metered.operator.delete(f"/v1/orgs/{payer.org}/budget", expect=204)
    assert payer.get(f"/v1/orgs/{payer.org}/budget").status == 404
    payer.post(f"{box.path}/resume", {}, expect=200)
    assert box.state() == "running"


def test_a_budget_can_only_warn(metered, payer):
    box = Box(payer)
    budget(metered, payer.org, 0.1, action="warn")
    burn(box, 0.2)
    wait_for(lambda: told(metered, payer.org, "budget.exhausted"), what="the warning")
    assert box.sh("true")["exitCode"] == 0 and box.state() == "running"


def test_budgets_on_the_command_line(metered, payer):
    def sandglass(*args):
        return metered.runner.command(metered.binary, *args, env={"SANDGLASS_CONFIG": str(metered.config)})
    assert sandglass("orgs", "budget", "--period", "day", "--action", "pause", "--warn-at", "10",
                     payer.org, "2.5").returncode == 0
    row = next(b for b in json.loads(sandglass("orgs", "budgets", "--json").stdout)["budgets"] if b["org"] == payer.org)
    assert (row["amount"], row["period"], row["action"], row["warnPercent"]) == (2.5, "day", "pause", 10)
    assert f"{payer.org}" in sandglass("orgs", "budgets").stdout
    assert "week" in sandglass("orgs", "budget", "--period", "week", payer.org, "1").stderr
    assert sandglass("orgs", "budget", payer.org, "much").returncode != 0
    assert sandglass("orgs", "budget", payer.org, "none").returncode == 0
    assert all(b["org"] != payer.org for b in json.loads(sandglass("orgs", "budgets", "--json").stdout)["budgets"])


@pytest.mark.parametrize("body", [{}, {"amount": 0}, {"amount": -1}, {"amount": 1, "period": "week"},
                                  {"amount": 1, "action": "shout"}, {"amount": 1, "warnPercent": 101},
                                  {"amount": "1"}, {"amount": 1, "oops": 1}, {"amount": 1e12}])
def test_bad_budgets(metered, payer, body):
    assert metered.operator.put(f"/v1/orgs/{payer.org}/budget", body).status == 400


def test_only_the_operator_sets_budgets_and_nobody_sees_anothers(metered, payer):
    assert payer.put(f"/v1/orgs/{payer.org}/budget", {"amount": 1}).status == 403
    other = metered.org("other-budget")
    budget(metered, other, 1)
    assert payer.get(f"/v1/orgs/{other}/budget").status == 404
    assert payer.get("/v1/budgets", expect=200)["budgets"] == []


def test_a_price_file_that_makes_no_sense_stops_the_start(tmp_path):
    prices = tmp_path / "prices.toml"
    prices.write_text("[own]\ncpu_secund = 1\n")
    service = Service(tables={"usage": {"prices": str(prices)}})
    try:
        service.start(wait=False)
        assert service.process.wait(60) != 0
        assert "prices.toml:2:1" in service.log() and "cpu_second" in service.log()
    finally:
        service.discard()
        service.remove()
