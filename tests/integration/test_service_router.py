# SPDX-License-Identifier: Apache-2.0
"""The router through the service: decisions, what is refused, other rules while it runs."""
import json
import os
import pathlib

import pytest
from service import Box, Service, wait_for

POLICY = pathlib.Path(__file__).resolve().parents[2] / "policy" / "router.toml"
# operation, tier, rule, fallback from, approval, network: on a host with `none` and `cell`
MATRIX = [
    ("database_read", "none", "trusted-read", None, False, "none"),
    ("entity_write", "none", "entity-write", None, True, "none"),
    ("parse_document", "cell", "uploaded-document", "microvm", False, "none"),
    ("execute_code", "cell", "generated-code", "microvm", False, "none"),
    ("external_api_call", "cell", "external-call", "microvm", False, "filtered"),
    ("parallel_agents", "cell", "parallel-agents", "docker", False, "none"),
    ("bulk_scan", "cell", "long-work", "docker", False, "none"),
    ("long_running", "cell", "long-work", "docker", False, "none"),
]


def cli(service, *args):
    return service.runner.command(service.binary, *args, env={"SANDGLASS_CONFIG": str(service.config)})


@pytest.mark.parametrize("operation,tier,rule,fallback,approval,network", MATRIX)
def test_the_matrix(tenant, operation, tier, rule, fallback, approval, network):
    made = tenant.post("/v1/route", {"operation": operation}, expect=200)
    assert (made["tier"], made["rule"], made["approval"], made["network"]) == (tier, rule, approval, network)
    assert made.get("fallback", {}).get("from") == fallback
    chosen = [a["tier"] for a in made["alternatives"] if a["chosen"]]
    assert chosen == [tier] and all(a["why"] for a in made["alternatives"])
    assert made["rules"]["source"] == "built in"


@pytest.mark.parametrize("body,words", [
    ({"operation": "execute_kode"}, "did you mean 'execute_code'"),
    ({"operation": ""}, "no operation ''"),
    ({"trust": "very"}, "no trust level 'very'"),
    ({"tier": "paper"}, "no tier 'paper'"),
    ({"network": "wide"}, "no network 'wide'"),
    ({"needsFiles": "some"}, "no file need 'some'"),
    ({"capabilities": ["fly"]}, "no capability 'fly'"),
    ({"capabilities": [1]}, "list of strings"),
    ({"parallel": -1}, "parallel"), ({"seconds": "x"}, "seconds"), ({"oops": 1}, "oops")])
def test_bad_questions_are_named(tenant, body, words):
    reply = tenant.post("/v1/route", body)
    assert reply.status == 400 and words in reply.error["message"]


def test_less_than_the_floor_is_refused_and_more_is_not_put_in_its_place(tenant):
    made = tenant.post("/v1/route", {"operation": "execute_code", "tier": "none"}, expect=200)
    assert "tier" not in made and made["refused"]["kind"] == "denied"
    made = tenant.post("/v1/route", {"operation": "execute_code", "tier": "gvisor"}, expect=200)
    assert "tier" not in made and made["refused"]["kind"] == "unsupported"
    for body, status, kind in (({"tier": "none"}, 403, "denied"), ({"tier": "gvisor"}, 501, "unsupported"),
                               ({"operation": "database_read"}, 403, "denied")):
        reply = tenant.post("/v1/sandboxes", body)
        assert (reply.status, reply.error["kind"]) == (status, kind)
    assert tenant.get("/v1/sandboxes", expect=200)["sandboxes"] == []


def test_every_sandbox_records_its_decision(service, tenant):
    plain = tenant.post("/v1/sandboxes", {}, expect=201)
    scan = tenant.post("/v1/sandboxes", {"operation": "bulk_scan", "agent": "scanner"}, expect=201)
    assert (plain["decision"]["rule"], scan["decision"]["rule"]) == ("generated-code", "long-work")
    assert scan["decision"]["agent"] == "scanner" and scan["decision"]["fallback"]["from"] == "docker"
    assert "alternatives" not in plain["decision"]
    service.kill9_daemon()
    service.wait_ready()
    again = tenant.get(f"/v1/sandboxes/{scan['id']}", expect=200)
    assert again["decision"] == scan["decision"]


def test_the_command_explains(service):
    done = cli(service, "route", "--explain", "--operation", "parse_document")
    assert done.returncode == 0 and done.stdout.startswith("tier      cell\nrule      uploaded-document\n")
    assert "untrusted file content" in done.stdout and "RULE PASSED OVER" in done.stdout
    done = cli(service, "route", "-o", "execute_code", "--tier", "none", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["refused"]["kind"] == "denied"
    done = cli(service, "route", "-o", "long_running", "--trust", "limited", "--parallel", "8", "--seconds", "10m",
               "--agent", "a", "--network", "open", "--files", "write", "--want", "code", "--want", "terminal")
    assert done.returncode == 0 and "network   open\n" in done.stdout
    done = cli(service, "route", "-o", "nonsense")
    assert done.returncode != 0 and "no operation 'nonsense'" in done.stderr


# ---- hosts with more and less, and other rules ----

def write_rules(path, text):
    """As editors do."""
    path.with_suffix(".new").write_text(text)
    os.replace(path.with_suffix(".new"), path)


@pytest.fixture
def own(root, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text(POLICY.read_text())
    with Service(pool=0, env={"SANDGLASS_ROUTER_RULES": str(rules),
                              "SANDGLASS_ROUTER_TIERS": "none,cell,gvisor,docker"}) as service:
        service.rules = rules
        yield service


def route(service, **body):
    return service.operator.post("/v1/route", body, expect=200)


def test_rules_are_read_again_and_a_mistake_changes_nothing(own):
    assert route(own, operation="execute_code")["tier"] == "gvisor"
    assert route(own, operation="bulk_scan")["tier"] == "docker"
    assert "fallback" not in route(own, operation="bulk_scan")
    reply = own.operator.post("/v1/sandboxes", {})
    assert reply.status == 501 and "tier gvisor is not to be had here" in reply.error["message"]
    before = route(own)["rules"]["revision"]
    write_rules(own.rules, POLICY.read_text().replace('"microvm", "gvisor", "cell"', '"cell"')
                + '\n[operations_extra]\n')
    wait_for(lambda: "rules.toml" in own.log() or "router.toml:" in own.log(), what="a refusal")
    assert "unknown key 'operations_extra'" in own.log()
    assert route(own)["rules"]["revision"] == before
    write_rules(own.rules, POLICY.read_text().replace('"microvm", "gvisor", "cell"', '"cell"').replace(
        'execute_code = "untrusted"', 'execute_code = "untrusted"\nscreenshot = "limited"')
        + '\n[agents.visual-tester]\ntier = ["docker", "cell"]\n[agents.careless]\ntier = "none"\n')
    wait_for(lambda: route(own)["rules"]["revision"] != before, what="other rules")
    assert route(own)["tier"] == "cell" and route(own, operation="screenshot")["rule"] == "anything-else"
    seen = route(own, agent="visual-tester")
    assert (seen["tier"], seen["agentOverride"]) == ("docker", True)
    assert route(own, agent="careless")["refused"]["kind"] == "denied"
    own.operator.delete(Box(own.operator).path, expect=204)
    actions = [r["action"] for r in own.operator.get("/v1/audit", expect=200)["records"]]
    assert actions.index("router.rejected") < actions.index("router.reloaded")
    own.rules.unlink()
    wait_for(lambda: "No such file" in own.log(), what="a word about the file")
    assert route(own)["tier"] == "cell"
    own.rules.write_text(POLICY.read_text())
    wait_for(lambda: route(own)["tier"] == "gvisor", what="the rules of before")


@pytest.mark.parametrize("name,text,words", [
    ("SANDGLASS_ROUTER_RULES", "version = 1\n[operations]\nexecute_code = 3\n", ":3:16: "),
    ("SANDGLASS_ROUTER_TIERS", None, "no tier 'paper'")])
def test_a_service_does_not_start_with_rules_that_make_no_sense(root, tmp_path, name, text, words):
    value = "paper"
    if text:
        value = str(tmp_path / "bad.toml")
        pathlib.Path(value).write_text(text)
    service = Service(pool=0, env={name: value})
    try:
        service.start(wait=False)
        assert service.process.wait(30) == 2
        assert words in service.log()
    finally:
        service.discard()
        service.remove()
