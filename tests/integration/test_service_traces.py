# SPDX-License-Identifier: Apache-2.0
"""Traces: one span for each operation, at an endpoint shaped as Langfuse's, whatever dies on the way."""
import json
import os
import pathlib

import kernels
import otlp
import pytest
import sg
from service import Box, Service
from service import wait_for as wait_some

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def wait_for(question, what):
    return wait_some(question, 60, what)


@pytest.fixture(scope="module")
def endpoint():
    with otlp.Endpoint() as made:
        yield made


@pytest.fixture(scope="module")
def traced(endpoint, tmp_path_factory):
    if os.getuid() != 0:
        pytest.skip("needs root")
    settings = endpoint.settings(tmp_path_factory.mktemp("otlp"), environment="testing", content=True)
    with Service(pool=2, tables={"otlp": settings}) as made:
        yield made


@pytest.fixture
def caller(traced, request):
    org, client = traced.tenant(request.node.name)
    client.org = org
    yield client
    client.delete("/v1/sandboxes", expect=200)
    client.close()


def of(sandbox, tool):
    return lambda s: s["sandglass.sandbox.id"] == sandbox and s["gen_ai.tool.name"] == tool


# What Langfuse documents for spans over OTLP, and what a span of a command says there. The fields of a generation
# (a model, its parameters, a prompt, the time of the first token) are not ours: nothing here asks a model.
def langfuse_fields(box, caller, exec_id):
    return {
        "langfuse.trace.name": "execute_tool exec", "langfuse.user.id": "ada", "langfuse.session.id": "s-1",
        "user.id": "ada", "session.id": "s-1", "langfuse.release": str, "langfuse.version": str,
        "langfuse.environment": "testing", "deployment.environment.name": "testing",
        "langfuse.trace.tags": ["sandglass", "cell", box.made["decision"]["operation"]],
        "langfuse.trace.metadata.org": caller.org, "langfuse.trace.metadata.sandbox": box.id,
        "langfuse.trace.input": '["sh","-c","exit 3"]', "langfuse.trace.output": '{"ending":"exit","exitCode":3}',
        "langfuse.observation.type": "tool", "langfuse.observation.level": "ERROR",
        "langfuse.observation.status_message": "exit 3", "langfuse.observation.input": '["sh","-c","exit 3"]',
        "langfuse.observation.output": '{"ending":"exit","exitCode":3}', "langfuse.observation.metadata.tier": "cell",
        "langfuse.observation.metadata.operation": box.made["decision"]["operation"],
        "langfuse.observation.metadata.rule": box.made["decision"]["rule"],
        "langfuse.observation.usage_details": str, "langfuse.observation.cost_details": str,
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "exec", "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": exec_id, "gen_ai.provider.name": "sandglass", "gen_ai.agent.name": "coder",
        "gen_ai.conversation.id": "s-1",
        "sandglass.org.id": caller.org, "sandglass.sandbox.id": box.id, "sandglass.tier": "cell",
        "sandglass.rule": box.made["decision"]["rule"], "sandglass.operation": box.made["decision"]["operation"],
        "sandglass.template": box.made["template"], "sandglass.ending": "exit", "error.type": "exit",
        "sandglass.limits.memory_bytes": box.made["limits"]["memoryBytes"],
        "sandglass.limits.cpus": box.made["limits"]["cpus"], "sandglass.limits.pids": box.made["limits"]["pids"],
        "sandglass.limits.disk_bytes": box.made["limits"]["diskBytes"], "process.exit.code": 3,
        "sandglass.cost.currency": "USD", "sandglass.usage.cpu_ms": int, "sandglass.usage.memory_mib_ms": int,
        "sandglass.usage.disk_mib_ms": int, "sandglass.usage.network_bytes": 0, "sandglass.usage.wall_ms": int,
    }


def test_a_span_has_every_field_that_langfuse_documents(endpoint, caller):
    box = Box(caller, {"metadata": {"user.id": "ada", "session.id": "s-1", "agent": "coder"}})
    done = box.sh("exit 3")
    span = endpoint.await_span(of(box.id, "exec"))
    for key, wanted in langfuse_fields(box, caller, done["id"]).items():
        assert isinstance(span[key], wanted) if isinstance(wanted, type) else span[key] == wanted, (key, span[key])
    raw = span.raw
    assert span.name == "execute_tool exec" and raw["kind"] == 1 and "parentSpanId" not in raw
    assert len(raw["traceId"]) == 32 and len(raw["spanId"]) == 16 and int(raw["traceId"], 16) and int(raw["spanId"], 16)
    assert 0 <= int(raw["endTimeUnixNano"]) - int(raw["startTimeUnixNano"]) < 60e9
    assert raw["status"] == {"code": 2, "message": "exit 3"}
    assert set(json.loads(span["langfuse.observation.usage_details"])) == {
        "cpu_ms", "memory_mib_ms", "disk_mib_ms", "network_bytes", "wall_ms"}
    cost = json.loads(span["langfuse.observation.cost_details"])
    assert set(cost) == {"total"} and cost["total"] == span["sandglass.cost.amount"] == done["usage"]["cost"]
    assert span.resource["service.name"] == "sandglass" and span.resource["service.version"] == span["langfuse.release"]


def test_every_operation_is_a_span_and_parts_belong_to_their_whole(endpoint, caller):
    done = caller.post("/v1/run", {"operation": "bulk_scan", "argv": ["echo", "hello"]}, expect=200)
    run = endpoint.await_span(of(done["sandbox"], "run"))
    part = endpoint.await_span(of(done["sandbox"], "exec"))
    made = endpoint.await_span(lambda s: s.name == "create_sandbox" and s["sandglass.sandbox.id"] == done["sandbox"])
    for span in (part, made):
        assert span.raw["traceId"] == run.raw["traceId"] and span.raw["parentSpanId"] == run.raw["spanId"]
        assert span["langfuse.trace.name"] is None
    assert run["sandglass.operation"] == "bulk_scan" and run["sandglass.rule"] == done["decision"]["rule"]
    assert json.loads(run["langfuse.observation.output"])["stdout"] == "hello\n"
    assert made["langfuse.observation.type"] == "span" and made.raw["status"] == {"code": 1}
    assert run["sandglass.cost.amount"] == done["usage"]["cost"] > 0
    lines = caller.post("/v1/batch", {"tasks": [{"name": "one", "operation": "bulk_scan", "argv": ["false"]}]})
    assert lines.status == 200
    task = endpoint.await_span(lambda s: s["gen_ai.tool.name"] == "batch" and s["sandglass.org.id"] == caller.org)
    assert task.raw["status"]["code"] == 2 and task["process.exit.code"] == 1


def test_code_in_a_context_is_a_span(endpoint, caller):
    box = kernels.Box(caller)
    assert box.bash("echo hello")["stdout"] == "hello\n"
    span = endpoint.await_span(of(box.id, "code"))
    assert span["langfuse.observation.input"] == '"echo hello"' and span.raw["status"] == {"code": 1}
    assert span["sandglass.usage.wall_ms"] >= 0 and span["sandglass.ending"] == "done"
    reply = box.code("sleep 60", language="bash", timeoutMs=300)
    assert "error" in reply
    late = endpoint.await_span(lambda s: of(box.id, "code")(s) and s["sandglass.ending"] == "timeout")
    assert late.raw["status"]["code"] == 2


def test_a_call_can_be_a_part_of_the_callers_own_trace(endpoint, caller):
    box = Box(caller)
    for header in ("nonsense", PARENT):
        reply = caller.call("POST", f"{box.path}/exec", {"argv": ["true"]}, headers={"traceparent": header})
        assert reply.status == 200
    span = endpoint.await_span(lambda s: s.raw["traceId"] == PARENT[3:35])
    assert span.raw["parentSpanId"] == PARENT[36:52] and span["gen_ai.tool.name"] == "exec"


def test_spans_survive_the_death_of_everybody_and_an_endpoint_that_is_away(endpoint, traced, caller):
    box = Box(caller)
    endpoint.answers += [503, 429, 503]
    running = box.exec("sh", "-c", "sleep 1.5", background=True, expect=201)["id"]
    box.sh("true", tag="first")
    wait_for(lambda: len(endpoint.answers) < 3, "a request that is sent away")
    traced.kill9_daemon()
    traced.wait_ready()
    exporter = wait_for(lambda: traced.find(traced.launcher_pid(), "sandglass-export"), "an exporter")
    traced.kill9(exporter)
    box.sh("true", tag="second")
    assert box.wait(running, 60)["exitCode"] == 0
    wait_for(lambda: sum(of(box.id, "exec")(s) for s in list(endpoint.spans)) >= 3, "all spans")
    mine = [s for s in list(endpoint.spans) if of(box.id, "exec")(s)]
    assert {s["gen_ai.tool.call.id"] for s in mine} >= {running}
    spool = traced.state / "daemon" / "spans"
    wait_for(lambda: not list(spool.iterdir()), "an empty spool")


def test_the_secret_is_in_its_file_and_nowhere_else(endpoint, traced):
    secret = endpoint.token.split()[1]
    shown = traced.runner.command(traced.binary, "config", "show", env={"SANDGLASS_CONFIG": str(traced.config)})
    assert "otlp.headers" in shown.stdout and secret not in shown.stdout
    assert secret not in traced.log()
    exporter = wait_for(lambda: traced.find(traced.launcher_pid(), "sandglass-export"), "an exporter")
    for pid in (exporter, traced.daemon_pid(), traced.launcher_pid()):
        for name in ("cmdline", "environ"):
            assert secret.encode() not in pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    status = pathlib.Path(f"/proc/{exporter}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split()[0] != "0" and int(fields["CapEff"], 16) == 0
    assert fields["Seccomp"] == "2" and fields["NoNewPrivs"] == "1"


def test_a_file_of_headers_that_anybody_can_read_stops_the_start(tmp_path):
    headers = tmp_path / "headers"
    headers.write_text("Authorization: x\n")
    headers.chmod(0o644)
    service = Service(tables={"otlp": {"endpoint": "http://127.0.0.1:1", "headers": str(headers)}})
    try:
        service.start(wait=False)
        assert service.process.wait(60) != 0
        assert "chmod 600" in service.log(), service.log()
    finally:
        service.discard()
        service.remove()


def test_an_ordinary_users_service_sends_traces(user, endpoint):
    user.home.chmod(0o755)
    settings = endpoint.settings(user.home)
    os.chown(settings["headers"], user.uid, user.uid)
    with Service(runner=user, pool=0, tables={"otlp": settings}) as service:
        box = Box(service.operator)
        box.sh("true")
        endpoint.await_span(of(box.id, "exec"))
        box.destroy()


def test_https_by_name_and_a_certificate_that_must_be_right(tmp_path):
    made, another = tmp_path / "tls", tmp_path / "another"
    for folder in (made, another):
        done = sg.Runner(tmp_path).command(sg.BIN, "tls", "init", "--dir", str(folder), "--domain", "otlp.test")
        assert done.returncode == 0, done
    tls = (made / "cert.pem", made / "key.pem", made / "ca.pem")
    with otlp.Endpoint(tls=tls) as endpoint:
        right = endpoint.settings(tmp_path, "localhost")
        wrong = {**right, "ca": str(another / "ca.pem")}
        with Service(pool=1, tables={"otlp": wrong}) as service:
            Box(service.client(service.key()))
            wait_for(lambda: "certificate" in service.log(), "a word about the certificate")
            assert not endpoint.spans
            service.tables = {"otlp": right}
            service.write_config()
            service.stop()
            service.start()
            endpoint.await_span(lambda s: s.name == "create_sandbox", "what has waited")
            service.operator.delete("/v1/sandboxes", expect=200)
