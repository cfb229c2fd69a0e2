# SPDX-License-Identifier: Apache-2.0
"""A real OpenTelemetry Collector receives the spans. It is built from its Go module, which takes minutes the first
time; the program is kept in build-check."""
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support")]

from service import Box, Service, free_port, wait_for  # noqa: E402

SOURCE = HERE / "collector"
KEPT = HERE.parent.parent / "build-check" / "collector"
BUILD_SECONDS = 1800
CONFIG = """
receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:{port}
exporters:
  logging:
    verbosity: detailed
service:
  telemetry:
    metrics:
      level: none
  pipelines:
    traces:
      receivers: [otlp]
      exporters: [logging]
"""


def built():
    """The program, built anew where its sources are others."""
    stamp = hashlib.sha256(b"".join((SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))).hexdigest()
    program = KEPT / f"otelcol-{stamp[:16]}"
    if program.exists():
        return program
    KEPT.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local"}
    env.setdefault("HOME", str(KEPT))
    done = subprocess.run(["go", "build", "-o", program, "."], cwd=SOURCE, env=env, capture_output=True, text=True,
                          timeout=BUILD_SECONDS)
    if done.returncode:
        raise OSError(f"the Collector cannot be built: {done.stderr[-2000:]}")
    return program


def spans(text):
    """[{attribute: value, "Name": ..}] of what the Collector says it has received."""
    found = []
    for block in re.split(r"^Span #\d+$", text, flags=re.M)[1:]:
        span = dict(re.findall(r"^    (Trace ID|Parent ID|ID|Name|Status code|Status message) *: (.*)$", block, re.M))
        span.update(re.findall(r"^     -> ([^:]+): \w+\((.*)\)$", block, re.M))
        found.append(span)
    return found


def work(service, log):
    """What went wrong, or ""."""
    org, client = service.tenant("collector")
    box = Box(client)
    done = box.sh("exit 3")
    run = client.post("/v1/run", {"operation": "bulk_scan", "argv": ["true"]}, expect=200)

    def received():
        got = spans(log.read_text(errors="replace"))
        names = {(s.get("sandglass.sandbox.id"), s["Name"]) for s in got}
        wanted = {(box.id, "create_sandbox"), (box.id, "execute_tool exec"), (run["sandbox"], "execute_tool run"),
                  (run["sandbox"], "execute_tool exec"), (run["sandbox"], "create_sandbox")}
        return got if wanted <= names else None
    got = wait_for(received, 120, "spans in the Collector")
    client.delete("/v1/sandboxes", expect=200)
    one = next(s for s in got if s.get("gen_ai.tool.call.id") == done["id"])
    whole = next(s for s in got if s["Name"] == "execute_tool run")
    part = next(s for s in got if s["Name"] == "execute_tool exec" and s["sandglass.sandbox.id"] == run["sandbox"])
    checks = {
        "the status": (one["Status code"], one["Status message"]) == ("Error", "exit 3"),
        "the attributes": (one["sandglass.tier"], one["sandglass.org.id"], one["process.exit.code"],
                           one["gen_ai.operation.name"]) == ("cell", org, "3", "execute_tool"),
        "the limits": one["sandglass.limits.memory_bytes"] == str(box.made["limits"]["memoryBytes"]),
        "the cost": float(one["sandglass.cost.amount"]) >= 0,
        "the parent": (part["Trace ID"], part["Parent ID"]) == (whole["Trace ID"], whole["ID"]),
    }
    return ", ".join(name for name, holds in checks.items() if not holds)


def results(binary):
    program = built()
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="sg-collector-") as folder:
        folder = pathlib.Path(folder)
        config, log = folder / "collector.yaml", folder / "log"
        config.write_text(CONFIG.format(port=port))
        tables = {"otlp": {"endpoint": f"http://localhost:{port}"}}
        with open(log, "wb") as out, subprocess.Popen([program, "--config", config], stdout=out, stderr=out) as collector:
            try:
                with Service(pool=1, binary=binary, tables=tables) as service:
                    wrong = work(service, log)
            finally:
                collector.terminate()
                collector.wait(30)
    return [("the Collector has the spans, whole", "failed" if wrong else "passed", wrong)]
