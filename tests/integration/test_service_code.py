# SPDX-License-Identifier: Apache-2.0
"""Code in contexts, through the native door and as bytes of the E2B one: state, order, ends of all kinds, restarts."""
import concurrent.futures
import contextlib
import fcntl
import json
import os
import pty
import select
import subprocess
import termios
import threading
import time

import kernels
import pytest
import web
from service import Service, wait_for

# A kernel that does what it is told, also what none may do.
PUPPET = """#!/usr/bin/python3
import json, os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
def say(line):
    os.write(1, line.encode() if isinstance(line, str) else line)
for line in sys.stdin:
    request = json.loads(line)
    def event(kind, **more):
        say(json.dumps({"type": kind, "id": request["id"], **more}) + "\\n")
    exec(request["code"])
    event("end_of_execution")
"""


@pytest.fixture
def kbox(tenant):
    return kernels.Box(tenant, {"puppet": PUPPET})


def leave(reply):
    reply.close()
    reply.connection.close()


def kinds(events):
    return [event["type"] for event in events]


# ---- what it gives ----

def test_state_stays_and_each_execution_has_its_own_output(kbox):
    first = kbox.bash("x=5; cd /tmp; echo one; echo two >&2")
    assert (first["stdout"], first["stderr"], first["executionCount"]) == ("one\n", "two\n", 1)
    assert "error" not in first and first["results"] == []
    second = kbox.bash("echo $x; pwd")
    assert (second["stdout"], second["executionCount"], second["context"]) == ("5\n/tmp\n", 2, first["context"])
    failed = kbox.bash("ls /no-such-file")
    assert failed["error"]["name"] == "ExitStatus" and failed["error"]["value"] == "exit status 2"
    assert "No such file" in failed["stderr"]
    left = kbox.bash("exit 7")
    assert left["error"]["name"] == "SystemExit" and "7" in left["error"]["value"]
    assert kbox.bash("echo [$x]")["stdout"] == "[]\n"


def test_javascript_keeps_state_awaits_and_shows_values(kbox):
    def js(code, **spec):
        return kbox.code(code, language="js", **spec)
    assert js("const a = 20; let b = 1; a + b")["results"][0]["text"] == "21"
    assert js("const a = await new Promise(r => setTimeout(() => r(40), 5)); a + b")["results"][0]["text"] == "41"
    shown = js("display(display.html`<b>${a}</b>`); ({list: [1, 2]})")["results"]
    assert [(row.get("html"), row["is_main_result"]) for row in shown] == [("<b>40</b>", False), (None, True)]
    assert shown[1]["json"] == {"list": [1, 2]}
    printed = js("console.log('out'); console.error('err'); require('child_process').execSync('echo child', {stdio: 'inherit'}); undefined")
    assert (printed["stdout"], printed["stderr"], printed["results"]) == ("out\nchild\n", "err\n", [])
    error = js("function f() { throw new TypeError('deep') }\nf()")["error"]
    assert (error["name"], error["value"]) == ("TypeError", "deep") and "at f (" in error["traceback"]
    assert "javascript.cjs" not in error["traceback"]
    assert js("no such syntax")["error"]["name"] == "SyntaxError"
    assert js("process.exit(3)")["error"]["name"] == "SystemExit"
    modules = js("import path, { join as j } from 'node:path'; import * as os from 'os'\nj('a', path.basename('/b')) + typeof os.EOL + \"import x from 'y'\"")
    assert modules["results"][0]["text"] == "a/bstringimport x from 'y'"
    assert js("process.env.WHO", env={"WHO": "me"})["results"][0]["text"] == "me"
    assert js("String(process.env.WHO)")["results"][0]["text"] == "undefined"
    assert js("a")["results"][0]["text"] == "40"


def test_typescript_runs_or_says_what_is_missing(kbox):
    got = kbox.code("interface P { n: number }\nconst p: P = { n: 41 }; p.n + 1", language="ts")
    assert got["language"] == "typescript"
    if "error" in got:
        assert got["error"]["name"] == "TypeScriptUnavailable" and "typescript" in got["error"]["value"]
    else:
        assert got["results"][0]["text"] == "42"


def test_events_come_as_they_happen(kbox):
    reply = kbox.events("echo first; read -t 0.5 < <(sleep 5); echo second", language="bash")
    assert reply.status == 200 and reply.headers["Content-Type"] == "application/x-ndjson"
    rows = web.lines(reply)
    assert next(rows) == {"type": "number_of_executions", "execution_count": 1}
    first = next(rows)
    assert (first["type"], first["text"]) == ("stdout", "first\n") and first["timestamp"].endswith("Z")
    assert kbox.client.get(f"{kbox.path}/contexts", expect=200)["contexts"][0]["busy"]
    rest = list(rows)
    assert kinds(rest)[-1] == "end_of_execution" and rest[-2]["text"] == "second\n", rest
    assert all("id" not in event for event in [first, *rest])


def test_environment_of_sandbox_context_and_call(tenant):
    box = kernels.Box(tenant, env={"A": "box", "B": "box", "C": "box"})
    context = box.context(language="bash", cwd="/tmp", env={"B": "context", "C": "context"})["id"]
    assert box.code('echo $A $B "$C"; pwd', context=context, env={"C": "it's a\nline"})["stdout"] == "box context it's a\nline\n/tmp\n"
    assert box.code("echo $A $B $C", context=context)["stdout"] == "box context context\n"


# ---- contexts ----

def test_contexts_are_apart_and_listed_in_order(kbox):
    made = [kbox.context(language=language, cwd="/tmp") for language in ("bash", " BASH ", "js")]
    assert [row["language"] for row in made] == ["bash", "bash", "javascript"]
    kbox.code("v=1", context=made[0]["id"])
    assert kbox.code("echo [$v]", context=made[1]["id"])["stdout"] == "[]\n"
    listed = kbox.client.get(f"{kbox.path}/contexts", expect=200)["contexts"]
    assert [row["id"] for row in listed] == [row["id"] for row in made]
    assert listed[0]["executions"] == 1 and not listed[0]["default"]
    one = kbox.client.post(f"{kbox.path}/contexts/{made[0]['id']}/restart", expect=200)
    assert one["id"] == made[0]["id"]
    again = kbox.code("echo [$v]", context=made[0]["id"])
    assert (again["stdout"], again["executionCount"]) == ("[]\n", 1)
    kbox.client.delete(f"{kbox.path}/contexts/{made[1]['id']}", expect=204)
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/restart"), ("POST", "/interrupt")):
        assert kbox.client.call(method, f"{kbox.path}/contexts/{made[1]['id']}{path}").status == 404
    kbox.code("true", context=made[1]["id"], expect=404)
    assert len(kbox.client.get(f"{kbox.path}/contexts", expect=200)["contexts"]) == 2


def test_forty_contexts_run_side_by_side(kbox):
    """More than the kernel's share of pipe memory for one user would allow, were theirs enlarged."""
    made = [kbox.context(language="bash")["id"] for _ in range(40)]
    for i, context in enumerate(made):
        assert "error" not in kbox.code(f"mine={i}", context=context)
    assert [kbox.code("echo $mine", context=context)["stdout"] for context in made] == [f"{i}\n" for i in range(40)]


def test_what_cannot_be_is_refused(kbox):
    rows = [({"language": "bash", "cwd": "relative"}, 400), ({"language": "bash", "cwd": "/no/such/place"}, 400),
            ({"language": "cobol"}, 501), ({"language": "../../bin/sh"}, 400), ({"language": ""}, 400),
            ({"language": "x" * 40}, 400), ({"language": "bash", "env": {"A=B": "c"}}, 400), ({"lang": "bash"}, 400)]
    for spec, status in rows:
        reply = kbox.context(expect=status, **spec)
        assert reply["error"]["message"], spec
    for spec, status in (({"language": "bash", "context": "c" * 20}, 400), ({"context": "c" * 20}, 404), ({"language": "cobol"}, 501),
                         ({"env": {"": "x"}, "language": "bash"}, 400)):
        kbox.code("true", expect=status, **spec)
    assert kbox.client.post(f"{kbox.path}/code", {}).status == 400
    assert kbox.client.post(f"{kbox.path}/code", {"code": 5}).status == 400
    assert kbox.client.get(f"{kbox.path}/contexts", expect=200)["contexts"][0]["executions"] == 0


def test_other_tenants_and_readers_may_not(service, kbox):
    context = kbox.context(language="bash")["id"]
    _, stranger = service.tenant("code-stranger")
    for method, path, body in (("POST", "/code", {"code": "true", "language": "bash"}), ("GET", "/contexts", None),
                               ("DELETE", f"/contexts/{context}", None), ("POST", f"/contexts/{context}/restart", None)):
        assert stranger.call(method, kbox.path + path, body).status == 404
    stranger.close()
    reader = service.client(service.key(org=kbox.client.org, scopes=["read"]))
    assert reader.get(f"{kbox.path}/contexts", expect=200)["contexts"][0]["id"] == context
    assert reader.post(f"{kbox.path}/code", {"code": "true", "language": "bash"}).status == 403
    assert reader.delete(f"{kbox.path}/contexts/{context}").status == 403
    reader.close()


# ---- one at a time ----

def test_executions_of_a_context_queue_in_order(kbox):
    kbox.bash("n=0")
    replies = [kbox.events(f"n=$((n + 1)); echo $n {i}; sleep 0.05", language="bash") for i in range(5)]
    said = ["".join(e["text"] for e in web.lines(reply) if e["type"] == "stdout") for reply in replies]
    assert said == [f"{i + 1} {i}\n" for i in range(5)]


def test_a_queue_has_an_end(kbox):
    running = kbox.events("sleep 100", language="bash")
    waiting = [kbox.events("true", language="bash") for _ in range(64)]
    assert all(reply.status == 200 for reply in waiting)
    kbox.bash("true", expect=429)
    for reply in [*waiting, running]:
        leave(reply)
    assert kbox.bash("echo free")["stdout"] == "free\n"


def test_who_goes_away_interrupts_and_state_stays(kbox):
    kbox.bash("kept=yes")
    reply = kbox.events("echo begun; sleep 300; echo no", language="bash")
    rows = web.lines(reply)
    assert [next(rows)["type"], next(rows)["text"]] == ["number_of_executions", "begun\n"]
    leave(reply)
    started = time.monotonic()
    assert kbox.bash("echo $kept")["stdout"] == "yes\n"
    assert time.monotonic() - started < 10


def test_what_waits_is_taken_back_when_its_client_goes(kbox):
    running = kbox.events("sleep 1; echo done", language="bash")
    waiting = kbox.events("echo never >> /tmp/never", language="bash")
    leave(waiting)
    assert "done\n" in [e.get("text") for e in web.lines(running)]
    assert kbox.bash("cat /tmp/never 2>&1")["error"]["name"] == "ExitStatus"


def test_interrupt_and_deadline(kbox):
    context = kbox.context(language="js")["id"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(kbox.code, "while (true) {}", context=context)
        wait_for(lambda: kbox.client.get(f"{kbox.path}/contexts/{context}", expect=200)["busy"])
        time.sleep(0.3)  # into the loop
        kbox.client.post(f"{kbox.path}/contexts/{context}/interrupt", expect=204)
        assert running.result(20)["error"]["name"] == "KeyboardInterrupt"
    kbox.client.post(f"{kbox.path}/contexts/{context}/interrupt", expect=204)
    late = kbox.code("await new Promise(() => {})", context=context, timeoutMs=300)
    assert late["error"]["name"] == "ExecutionTimeout"
    assert kbox.code("1 + 1", context=context)["results"][0]["text"] == "2"


def test_a_kernel_that_heeds_no_interrupt_is_replaced_when_somebody_waits(kbox):
    reply = kbox.events("time.sleep(300)", language="puppet")
    time.sleep(0.2)
    leave(reply)
    assert "error" not in kbox.code("event('stdout', text='fresh', timestamp='')", language="puppet")


def test_restart_and_removal_end_what_runs_and_what_waits(kbox):
    context = kbox.context(language="bash")["id"]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        running = pool.submit(kbox.code, "sleep 100", context=context)
        wait_for(lambda: kbox.client.get(f"{kbox.path}/contexts/{context}", expect=200)["busy"])
        kbox.client.post(f"{kbox.path}/contexts/{context}/restart", expect=200)
        assert running.result(20)["error"]["name"] == "ContextRestarting"
        several = [pool.submit(kbox.code, "sleep 100", context=context) for _ in range(3)]
        time.sleep(0.3)
        kbox.client.delete(f"{kbox.path}/contexts/{context}", expect=204)
        assert {one.result(20)["error"]["name"] for one in several} == {"ExecutionAborted"}
    left = [x for x in kbox.client.get(f"{kbox.path}/execs", expect=200)["execs"] if x["state"] == "running"]
    wait_for(lambda: not [x for x in kbox.client.get(f"{kbox.path}/execs", expect=200)["execs"] if x["state"] == "running"], what=str(left))


# ---- disasters ----

@pytest.mark.parametrize("code, words", [
    ("kill -SEGV $$", "signal 11"),
    ("kill -9 $$", "signal 9"),
    ("kill -9 $PPID", "signal 9"),
])
def test_a_kernel_that_dies_is_reported_and_replaced(kbox, code, words):
    kbox.bash("x=1")
    died = kbox.bash(f"echo last words; {code}; sleep 5")
    assert died["error"]["name"] == "KernelDied" and words in died["error"]["value"], died
    assert "last words\n" in died["stdout"] or code.endswith("$PPID")  # who hears them was killed there
    after = kbox.bash("echo [$x]")
    assert (after["stdout"], after["executionCount"], after["context"]) == ("[]\n", 1, died["context"])


def test_a_kernel_that_runs_out_of_memory_says_so(tenant):
    box = kernels.Box(tenant, {"puppet": PUPPET}, limits={"memoryBytes": 128 << 20})
    died = box.code("x = bytearray(1 << 30)", language="puppet")
    assert died["error"]["name"] == "KernelDied" and "memory" in died["error"]["value"], died
    assert "error" not in box.code("event('stdout', text='a', timestamp='')", language="puppet")


def test_a_fork_bomb_leaves_the_context_usable(tenant):
    box = kernels.Box(tenant, limits={"pids": 64})
    box.code("bomb() { bomb | bomb & }; bomb; sleep 0.5", language="bash", timeoutMs=3000)
    assert wait_for(lambda: box.code("echo alive", language="bash").get("stdout", "").endswith("alive\n"), 30)


def test_a_deleted_interpreter_is_told_by_its_last_words(kbox):
    kbox.sh("rm /opt/sandglass/lib/driver.py", user="root")
    died = kbox.bash("true")
    assert died["error"]["name"] == "KernelDied" and "driver" in died["error"]["traceback"], died
    kbox.sh("rm /opt/sandglass/kernels/bash", user="root")
    assert "not available" in kbox.bash("true", expect=501)["error"]["message"]
    kernels.install(kbox.client, kbox.id)
    assert kbox.bash("echo back")["stdout"] == "back\n"


def test_closed_output_is_open_again(kbox):
    kbox.bash("exec 1>&- 2>&-")
    assert kbox.bash("echo back")["stdout"] == "back\n"


def test_a_gigabyte_of_output_is_cut_and_framing_holds(service, kbox):
    """The kernel says how much it left out; the daemon holds little of it, and the next call works."""
    before = service.daemon_rss()[0]
    count, last = 0, None
    for event in web.lines(kbox.events(f"yes {'a' * 999} | head -c 1073741824", language="bash")):
        count += len(event.get("text", "")) if event["type"] == "stdout" else 0
        last = event if event["type"] == "stderr" else last
    assert count <= 64 << 20 and "cut" in last["text"]
    assert kbox.bash("echo next")["stdout"] == "next\n"
    assert service.daemon_rss()[0] - before < 200 << 20
    kernel = next(x for x in kbox.client.get(f"{kbox.path}/execs", expect=200)["execs"] if x["argv"][0].endswith("/bash"))
    journal = service.state / "daemon" / "journal" / f"{kernel['id']}.out"
    assert journal.stat().st_blocks * 512 < 64 << 20


# ---- what a kernel says is a stranger's text ----

def test_only_events_of_this_execution_are_passed_on(kbox):
    code = """
say('no json\\n{"type":"stdout","id":"r0000000000000000000","text":"forged","timestamp":""}\\n')
say('{"type":"end_of_execution","id":"r0000000000000000000"}\\n{"type":"end_of_execution"}\\n[1,2]\\n\\xff\\xfe\\n')
say('{"id":"x","id":"%s","type":"stdout"}\\n' % request["id"])
event("stdout", text="real", timestamp="")
event("made_up", anything=[1, {"a": None}])
sys.stderr.write("diagnostics\\n"); sys.stderr.flush()
"""
    events = list(web.lines(kbox.events(code, language="puppet")))
    assert kinds(events) == ["stderr", "stdout", "made_up", "end_of_execution"], events
    assert "no event" in events[0]["text"] and events[1]["text"] == "real"


def test_a_line_that_is_too_long_is_left_out(kbox):
    code = "event('result', png='A' * (15 << 20)); event('result', png='A' * (17 << 20)); event('stdout', text='after', timestamp='')"
    events = list(web.lines(kbox.events(code, language="puppet")))
    assert kinds(events) == ["result", "stderr", "stdout", "end_of_execution"]
    assert len(events[0]["png"]) == 15 << 20 and ("too large" in events[1]["text"] or "are lost" in events[1]["text"])  # a slow machine


def test_a_kernel_that_closes_its_input_is_replaced(kbox):
    assert kbox.code("os.close(0)\nevent('end_of_execution')\ntime.sleep(300)", language="puppet").get("error") is None
    assert kbox.code("#" + "x" * 200000, language="puppet")["error"]["name"] == "KernelDied"
    assert "error" not in kbox.code("event('stdout', text='ok', timestamp='')", language="puppet")


def test_a_slow_client_loses_text_but_not_the_end(kbox):
    reply = kbox.events("for i in range(600): event('stdout', text='%03d' % i + 'x' * 65536, timestamp='')\nopen('/tmp/written', 'w')", language="puppet")
    wait_for(lambda: kbox.sh("test -e /tmp/written")["exitCode"] == 0, 20)  # nobody holds it up
    events = list(web.lines(reply))
    assert events[-1]["type"] == "end_of_execution"
    numbers = [int(e["text"][:3]) for e in events if e["type"] == "stdout"]
    assert numbers == sorted(numbers) and numbers[-1] == 599
    if len(numbers) < 600:
        assert any("are lost" in e["text"] for e in events if e["type"] == "stderr")


# ---- the daemon's death ----

@pytest.fixture
def own(request):
    if os.getuid() != 0:
        pytest.skip("needs root")
    with Service(pool=1) as made:
        made.wait_parked()
        yield made


def test_contexts_and_what_runs_survive_kill_9_of_the_daemon(own):
    _, client = own.tenant("survivor")
    box = kernels.Box(client, {"puppet": PUPPET})
    context = box.context(language="bash", env={"E": "env"})["id"]
    box.code("x=42", context=context)
    box.bash("y=7")
    reply = box.events("echo before; sleep 2; echo after; z=9", context=context)
    rows = web.lines(reply)
    run = reply.headers["X-Execution-Id"]
    assert [next(rows)["type"], next(rows)["text"]] == ["number_of_executions", "before\n"]
    own.kill9_daemon()
    with contextlib.suppress(OSError, ValueError, web.http.client.HTTPException):
        list(rows)
    own.wait_ready()
    client.close()
    listed = client.get(f"{box.path}/contexts", expect=200)["contexts"]
    assert [(row["id"] == context, row["busy"]) for row in listed] == [(True, True), (False, False)]
    again = list(web.lines(client.stream("GET", f"{box.path}/contexts/{context}/runs/{run}")))
    assert "".join(e.get("text", "") for e in again if e["type"] == "stdout") == "before\nafter\n"
    assert kinds(again)[0] == "number_of_executions" and kinds(again)[-1] == "end_of_execution"
    got = box.code("echo $x $z $E", context=context)
    assert (got["stdout"], got["executionCount"]) == ("42 9 env\n", 3)
    assert box.bash("echo $y")["stdout"] == "7\n"
    # and over a start that was asked for
    own.end(15)
    own.start()
    client.close()
    assert box.code("echo $x", context=context)["stdout"] == "42\n"
    client.delete("/v1/sandboxes", expect=200)
    client.close()


def test_idle_kernels_do_not_keep_a_sandbox_awake(service, tenant):
    box = kernels.Box(tenant, idleTimeoutMs=700, onExpiry="kill")
    assert box.bash("sleep 1; echo done")["stdout"] == "done\n"
    wait_for(lambda: tenant.get("/v1/sandboxes", expect=200)["sandboxes"] == [], 10, "its end")  # a look is no use of it


def test_a_paused_sandbox_refuses_and_goes_on(kbox):
    kbox.bash("x=1")
    kbox.client.post(f"{kbox.path}/pause", expect=200)
    kbox.bash("true", expect=409)
    kbox.client.post(f"{kbox.path}/resume", expect=200)
    assert kbox.bash("echo $x")["stdout"] == "1\n"
    kbox.client.post(f"{kbox.path}/stop", expect=200)
    kbox.client.post(f"{kbox.path}/start", expect=200)
    assert kbox.bash("echo [$x]")["stdout"] == "[]\n"


def test_a_sandbox_that_ends_cuts_its_streams_off(kbox):
    reply = kbox.events("sleep 100", language="bash")
    threading.Timer(0.3, kbox.destroy).start()
    with pytest.raises(web.http.client.IncompleteRead):
        reply.read()


# ---- the E2B door, as bytes ----

class Port:
    def __init__(self, service, tenant, **spec):
        self.api = web.Client(service.tcp)
        self.key = service.key(org=tenant.org, scopes=["read", "exec"])
        made = self.api.post("/v2/sandboxes", {"templateID": "host", **spec}, headers={"X-API-Key": self.key}, expect=201)
        self.id, self.token, self.traffic = made["sandboxID"], made["envdAccessToken"], made.get("trafficAccessToken")

    def __call__(self, method, path, body=None, token=True, **headers):
        more = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49999", **headers}
        if token:
            more["X-Access-Token"] = self.token
        return self.api.call(method, path, body, headers=more)

    def execute(self, code, **spec):
        reply = self("POST", "/execute", {"code": code, "context_id": None, "language": None, "env_vars": None, **spec})
        assert reply.status == 200, reply
        return [json.loads(line) for line in reply.body.splitlines()]


@pytest.fixture
def port(service, tenant):
    made = Port(service, tenant)
    kernels.install(tenant, made.id)
    yield made
    made.api.close()


def test_the_port_of_the_code_interpreter(port):
    health = port("GET", "/health")
    assert (health.status, health.body) == (200, b'"OK"')
    events = port.execute("echo hi", language="bash")
    assert kinds(events) == ["number_of_executions", "stdout", "end_of_execution"] and events[1]["text"] == "hi\n"
    listed = port("GET", "/contexts").json
    assert [row["language"] for row in listed] == ["bash", "python", "javascript"] and set(listed[0]) == {"id", "language", "cwd"}
    made = port("POST", "/contexts", {"language": "js", "cwd": "/tmp"}).json
    assert (made["language"], made["cwd"]) == ("javascript", "/tmp")
    assert port.execute("process.cwd()", context_id=made["id"])[1]["text"] == "/tmp"
    assert port.execute("process.env.K", context_id=made["id"], env_vars={"K": "v"})[1]["text"] == "v"
    restarted = port("POST", f"/contexts/{made['id']}/restart")
    assert (restarted.status, restarted.body) == (200, b"null")
    assert port("DELETE", f"/contexts/{made['id']}").body == b"null"
    for method, path in (("DELETE", f"/contexts/{made['id']}"), ("POST", f"/contexts/{made['id']}/restart")):
        gone = port(method, path)
        assert (gone.status, gone.body.decode()) == (404, f"Context {made['id']} not found")
        assert gone.headers["Content-Type"].startswith("text/plain")


def test_errors_of_that_port_are_texts(port):
    rows = [({"code": "1", "context_id": "c" * 20, "language": "bash"}, 400, "Only one of context_id or language"),
            ({"code": "1", "context_id": "none"}, 404, "Context none not found"), ({"language": "bash"}, 400, "code"),
            ({"code": "1", "language": "cobol"}, 500, "not available"), ({"code": "1", "language": "a/b"}, 400, "no such language")]
    for body, status, words in rows:
        reply = port("POST", "/execute", body)
        assert reply.status == status and words in reply.body.decode(), (body, reply)
        assert reply.headers["Content-Type"].startswith("text/plain")
    assert port("POST", "/execute", b"{").status == 400
    assert port("GET", "/nothing").status == 404
    assert port("POST", "/contexts", {"language": "cobol"}).status == 500
    assert port("POST", "/contexts", {"language": "bash", "cwd": "/no/such"}).status == 400
    assert port("POST", "/execute", {"code": "#" * (9 << 20)}).status == 413


def test_who_may_use_that_port(service, tenant):
    private = Port(service, tenant, network={"allowPublicTraffic": False})
    kernels.install(tenant, private.id)
    assert private("GET", "/health").status == 403
    right = {"e2b-traffic-access-token": private.traffic}
    assert private("GET", "/health", **right).status == 200
    assert private("POST", "/execute", {"code": "true", "language": "bash"}, token=False, **right).status == 401
    assert private("POST", "/execute", {"code": "true", "language": "bash"}, **right).status == 200
    private.api.close()


def test_where_there_are_no_kernels_the_port_is_a_port(service, tenant):
    plain = Port(service, tenant)
    assert plain("GET", "/health").status == 502
    tenant.post(f"/v1/sandboxes/{plain.id}/exec", {"argv": ["python3", "-m", "http.server", "49999"], "cwd": "/usr/share", "background": True}, expect=201)
    assert wait_for(lambda: plain("GET", "/").status == 200)
    kernels.install(tenant, plain.id)
    assert plain("GET", "/health").body == b'"OK"'
    plain.api.close()


def test_kernels_are_no_commands_of_the_client(port):
    port.execute("true", language="bash")
    headers = {"E2b-Sandbox-Id": port.id, "E2b-Sandbox-Port": "49983", "X-Access-Token": port.token}
    assert port.api.post("/process.Process/List", {}, headers=headers, expect=200)["processes"] == []


def test_silence_is_broken_by_keepalives(port):
    events = port.execute("sleep 5.5; echo done", language="bash")
    assert "keepalive" in kinds(events) and events[-2]["text"] == "done\n"


# ---- the command line ----

def cli(service, *args, **kw):
    env = {"SANDGLASS_CONFIG": str(service.config), "HOME": str(service.folder), "PATH": os.environ["PATH"], **kw.pop("env", {})}
    return subprocess.run([service.binary, *args], env=env, capture_output=True, timeout=60, **kw)


def test_code_from_the_command_line(service, kbox, tmp_path):
    (tmp_path / "job.sh").write_text("echo out; echo err >&2; kept=1")
    done = cli(service, "code", "--sandbox", kbox.id, str(tmp_path / "job.sh"))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n", b"err\n"), done
    done = cli(service, "code", "--sandbox", kbox.id, "-l", "bash", "-e", "WHO=me", "-", input=b"echo $kept $WHO; false")
    assert (done.returncode, done.stdout) == (1, b"1 me\n") and b"exit status 1" in done.stderr, done
    done = cli(service, "code", "--json", "--sandbox", kbox.id, "-l", "js", "-", input=b"({a: 1})")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert kinds(events) == ["number_of_executions", "result", "end_of_execution"] and events[1]["json"] == {"a": 1}
    late = cli(service, "code", "--sandbox", kbox.id, "-l", "bash", "--timeout", "300ms", "-", input=b"sleep 60")
    assert late.returncode == 1 and b"ExecutionTimeout" in late.stderr
    assert cli(service, "code", "--sandbox", kbox.id, str(tmp_path / "none.py")).returncode == 1
    missing = cli(service, "code", "--sandbox", "s" * 20, "-", input=b"1")
    assert missing.returncode == 1 and b"no sandbox" in missing.stderr


def test_pictures_are_saved_and_never_over_others(service, kbox, tmp_path):
    code = b"display(Buffer.from('89504e470d0a1a0a', 'hex')); display(display.svg('<svg/>'))"
    for expected in ({"cell-1.png", "cell-2.svg"}, {"cell-1.png", "cell-2.svg", "cell-2.png", "cell-3.svg"}):
        done = cli(service, "code", "--sandbox", kbox.id, "-l", "js", "--save", str(tmp_path), "-", input=code)
        assert done.returncode == 0 and b"saved" in done.stderr, done
        assert {path.name for path in tmp_path.iterdir()} == expected
    assert (tmp_path / "cell-1.png").read_bytes() == bytes.fromhex("89504e470d0a1a0a")
    assert (tmp_path / "cell-3.svg").read_text() == "<svg/>"


def test_a_fresh_sandbox_ends_with_the_code(service, tmp_path):
    """Made of a template without kernels: the language is missing, and the sandbox gone."""
    before = len(service.operator.get("/v1/sandboxes", expect=200)["sandboxes"])
    done = cli(service, "code", "--template", "host", "-", input=b"1")
    assert done.returncode == 1 and b"not available" in done.stderr, done
    missing = cli(service, "code", "--template", "no-such-template", "-", input=b"1")
    assert missing.returncode == 1 and b"template" in missing.stderr
    assert len(service.operator.get("/v1/sandboxes", expect=200)["sandboxes"]) == before


def test_cells_that_are_piped_in_share_their_state(service, kbox):
    done = cli(service, "repl", "--sandbox", kbox.id, "-l", "js", input=b"let n = 20\nfunction twice(x) {\n  return 2 * x\n}\n\ntwice(n) + 2\n")
    assert (done.returncode, done.stdout) == (0, b"42\n"), done
    failed = cli(service, "repl", "--sandbox", kbox.id, "-l", "js", input=b"nope\n5\n")
    assert failed.returncode == 1 and b"ReferenceError" in failed.stderr and failed.stdout == b""
    assert kbox.client.get(f"{kbox.path}/contexts", expect=200)["contexts"] == []


def test_the_terminal_has_history_and_interrupts(service, kbox):
    main, side = pty.openpty()
    env = {"SANDGLASS_CONFIG": str(service.config), "HOME": str(service.folder), "PATH": os.environ["PATH"], "TERM": "xterm", "KITTY_WINDOW_ID": "1"}
    process = subprocess.Popen([service.binary, "repl", "--sandbox", kbox.id, "-l", "js"], stdin=side, stdout=side, stderr=side,
                               env=env, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(side)
    said = b""

    def expect(words, seconds=20):
        nonlocal said
        deadline = time.monotonic() + seconds
        while words not in said:
            assert select.select([main], [], [], max(0, deadline - time.monotonic()))[0], (words, said)
            said += os.read(main, 65536)
        said = said[said.index(words) + len(words):]
    expect(b">>> ")
    os.write(main, b"40 + 2\r")
    expect(b"\r\n42\r\n")
    expect(b">>> ")
    os.write(main, b"\x1b[A\x7f\x7f*3\x01\x1b[C0\x05\r")  # 40 +*3: the last one again, edited at both ends
    expect(b"SyntaxError")
    expect(b">>> ")
    os.write(main, b"\x1b[A\x15'kitty'; display(Buffer.from('89504e47', 'hex'))\r")
    expect(b"\x1b_Ga=T,f=100,m=0;iVBORw==\x1b\\")
    expect(b">>> ")
    os.write(main, b"while (true) {}\r")
    time.sleep(0.5)
    os.write(main, b"\x03")
    expect(b"KeyboardInterrupt")
    expect(b">>> ")
    os.write(main, b"junk\x03")
    expect(b">>> ")
    os.write(main, b"\x04")
    assert process.wait(20) == 0
    os.close(main)
