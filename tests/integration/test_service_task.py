# SPDX-License-Identifier: Apache-2.0
"""POST /v1/run and approvals: one operation from the question to the result, and every way to fail."""
import concurrent.futures
import contextlib
import http.client
import json
import socket
import threading

import pytest
from service import wait_for


def cli(service, *args, **kw):
    return service.runner.command(service.binary, *args, env={"SANDGLASS_CONFIG": str(service.config)}, **kw)


def run(client, expect=200, **body):
    return client.post("/v1/run", body, expect=expect)


def boxes(client):
    return client.get("/v1/sandboxes", expect=200)["sandboxes"]


def test_a_command_its_files_and_its_result(tenant):
    done = run(tenant, cmd="cat in/a.txt; echo no >&2; mkdir out; tr a-z A-Z < in/a.txt > out/A.txt; "
               "printf '\\377' > out/B.bin; echo x > out/C.log; exit 3",
               files=[{"path": "in/a.txt", "text": "hello\n"}, {"path": "/tmp/b", "base64": "AAE="}],
               collect=["out/*.[tb]*", "/tmp/b"], env={"X": "1"})
    assert (done["ending"], done["exitCode"], done["stdout"], done["stderr"]) == ("exit", 3, "hello\n", "no\n")
    files = {f["path"]: f for f in done["files"]}
    assert sorted(files) == ["/tmp/b", "/workspace/out/A.txt", "/workspace/out/B.bin"]
    assert files["/workspace/out/A.txt"]["text"] == "HELLO\n" and files["/workspace/out/B.bin"]["base64"] == "/w=="
    assert files["/tmp/b"]["bytes"] == 2
    assert (done["tier"], done["decision"]["rule"], done["attempts"]) == ("cell", "generated-code", 1)
    assert done["timings"]["totalMs"] >= done["timings"]["runMs"] and "error" not in done
    assert boxes(tenant) == []


@pytest.mark.parametrize("language,code", [
    ("python", "import os\nprint(6 * 7, os.environ['X'])"), ("bash", "echo $((6 * 7)) $X"), ("sh", "echo 42 $X")])
def test_code(tenant, language, code):
    done = run(tenant, code=code, language=language, env={"X": "x"})
    assert (done["ending"], done["exitCode"], done["stdout"]) == ("exit", 0, "42 x\n"), done


def test_large_input_and_output(tenant):
    text = "0123456789abcde\n" * 40000
    done = run(tenant, argv=["cat"], stdin=text)
    assert done["stdout"] == text
    done = run(tenant, cmd="head -c 3000000 /dev/zero | tr '\\0' x; head -c 5000000 /dev/zero > big", collect=["big"])
    assert len(done["stdout"]) == 1 << 20 and done["truncatedBytes"] == 3000000 - (1 << 20)
    assert done["files"][0]["bytes"] == 5000000 and done["files"][0]["truncatedBytes"] == 5000000 - (4 << 20)


def test_failures_are_told_apart(service, tenant):
    late = run(tenant, cmd="echo begun; sleep 60", timeoutMs=300)
    assert (late["ending"], late["error"]["kind"], late["stdout"]) == ("timeout", "timeout", "begun\n")
    full = run(tenant, argv=["python3", "-c", "x = bytearray(300 << 20); print(len(x))"],
               limits={"memoryBytes": 64 << 20})
    assert (full["ending"], full["error"]["kind"]) == ("oom", "exhausted")
    crash = run(tenant, cmd="kill -SEGV $$")
    assert (crash["ending"], crash["signal"]) == ("crash", 11)
    file = run(tenant, cmd="true", collect=["nothing"])
    assert file["ending"] == "file_error" and file["error"]["kind"] == "not_found"
    file = run(tenant, cmd="mkfifo f", collect=["f"])
    assert file["ending"] == "file_error"
    file = run(tenant, cmd="true", files=[{"path": "/proc/nothing", "text": "x"}])
    assert file["ending"] == "file_error"
    none = run(tenant, cmd="true", collect=["nothing/*"])
    assert (none["ending"], none["files"]) == ("exit", [])
    assert boxes(tenant) == []
    failed = [json.loads(json.dumps(r["detail"])) for r in service.audit()
              if r["action"] == "task.failed" and r["org"] == tenant.org]
    assert [d["ending"] for d in failed] == ["timeout", "oom", "crash", "file_error", "file_error", "file_error"]
    assert {d["class"] for d in failed} == {"operational"}


def test_a_sandbox_that_is_lost_is_replaced_where_that_is_safe(service, tenant):
    def lose(attempts):
        for _ in range(attempts):
            box = wait_for(lambda: [b for b in boxes(tenant) if b["execs"]], what="a command")[0]
            tenant.delete(f"/v1/sandboxes/{box['id']}", expect=204)
    for losses, retries, ending, attempts in ((1, 0, "lost", 1), (1, 2, "exit", 2), (2, 1, "lost", 2)):
        body = {"cmd": "test -e /workspace/x; touch /workspace/x; sleep 1; echo made it", "retries": retries}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            work = pool.submit(lambda: tenant_of(service, tenant).post("/v1/run", body, expect=200))
            pool.submit(lose, losses).result()
            done = work.result()
        assert (done["ending"], done["attempts"]) == (ending, attempts)
        if ending == "exit":
            assert done["stdout"] == "made it\n" and done["lastLoss"]
    assert boxes(tenant) == []


def tenant_of(service, tenant):
    return service.client(tenant.key)


@pytest.mark.parametrize("body,status,words", [
    ({"cmd": "true", "argv": ["true"]}, 400, "one of code, cmd and argv"),
    ({}, 400, "one of code, cmd and argv"), ({"argv": []}, 400, "argv needs a program"), ({"argv": [1]}, 400, "argv"),
    ({"code": "1", "language": "cobol"}, 400, "language is python"), ({"cmd": "true", "language": "python"}, 400, "language"),
    ({"code": "1", "stdin": "x"}, 400, "stdin"), ({"cmd": "true", "stdin": 1}, 400, "stdin is a text"),
    ({"cmd": "true", "files": [{"path": "x"}]}, 400, "text or base64"),
    ({"cmd": "true", "files": [{"path": "x", "base64": "!"}]}, 400, "base64"),
    ({"cmd": "true", "collect": ["a*/b"]}, 400, "only the last part"),
    ({"cmd": "true", "timeoutMs": 0}, 400, "timeoutMs"), ({"cmd": "true", "retries": 9}, 400, "retries"),
    ({"cmd": "true", "operation": "nonsense"}, 400, "no operation"),
    ({"cmd": "true", "tier": "none"}, 403, "floor"), ({"cmd": "true", "tier": "gvisor"}, 501, "gvisor"),
    ({"cmd": "true", "operation": "database_read"}, 400, "tier none"),
    ({"cmd": "true", "template": "absent"}, 404, "absent"),
    ({"argv": ["/no/such/program"]}, 404, "No such file"), ({"oops": 1}, 400, "oops")])
def test_bad_input_leaves_nothing(tenant, body, status, words):
    reply = tenant.post("/v1/run", body)
    assert reply.status == status and words in reply.error["message"], (reply.status, reply.body)
    assert boxes(tenant) == []


def test_a_caller_that_goes_takes_its_sandbox_along(service, tenant):
    body = json.dumps({"cmd": "sleep 600"})
    with socket.create_connection(("127.0.0.1", service.port)) as sock:
        sock.sendall(f"POST /v1/run HTTP/1.1\r\nHost: x\r\nX-API-Key: {tenant.key}\r\nContent-Type: application/json\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        wait_for(lambda: [b for b in boxes(tenant) if b["execs"]], what="a command")
    wait_for(lambda: not boxes(tenant), what="an empty list")


def test_a_task_needs_the_scope_exec(service, tenant):
    made = tenant.post("/v1/keys", {"name": "r", "scopes": ["read"]}, expect=201)
    assert service.client(made["key"]).post("/v1/run", {"cmd": "true"}).status == 403


# ---- approvals ----

def pending(client):
    return client.get("/v1/approvals?state=pending", expect=200)["approvals"]


def ask(service, tenant, **body):
    """A call that waits, and what it got."""
    got = []
    thread = threading.Thread(target=lambda: got.append(
        service.client(tenant.key).post("/v1/run", {"operation": "entity_write", **body})))
    thread.start()
    wait_for(lambda: pending(tenant), what="an approval")
    return thread, got


def test_an_operation_waits_for_its_approval(service, tenant):
    thread, got = ask(service, tenant, name="rename customer 7")
    one = pending(tenant)[0]
    assert one["summary"] == "rename customer 7" and one["operation"] == "entity_write"
    reply = tenant.post(f"/v1/approvals/{one['id']}/approve", {})
    assert reply.status == 403 and "cannot give it" in reply.error["message"]
    service.operator.post(f"/v1/approvals/{one['id']}/approve", {"reason": "fine"}, expect=200)
    thread.join()
    done = got[0].json
    assert (got[0].status, done["ending"], done["tier"], done["approval"]) == (200, "permitted", "none", one["id"])
    after = tenant.get(f"/v1/approvals/{one['id']}", expect=200)
    assert (after["state"], after["decidedBy"], after["reason"]) == ("approved", "operator", "fine")
    reply = service.operator.post(f"/v1/approvals/{one['id']}/deny", {})
    assert reply.status == 409 and "approved already" in reply.error["message"]


def test_what_is_denied_or_expires_does_not_happen(service, tenant):
    thread, got = ask(service, tenant)
    service.operator.post(f"/v1/approvals/{pending(tenant)[0]['id']}/deny", {"reason": "no"}, expect=200)
    thread.join()
    assert got[0].status == 403 and "was denied: no" in got[0].error["message"]
    reply = tenant.post("/v1/run", {"operation": "entity_write", "approvalTimeoutMs": 200})
    assert reply.status == 504 and "in time" in reply.error["message"]
    states = [a["state"] for a in tenant.get("/v1/approvals", expect=200)["approvals"]]
    assert states == ["expired", "denied"]
    actions = [r["action"] for r in service.audit() if r["org"] == tenant.org]
    assert [a for a in actions if a.startswith(("approval", "task"))] == [
        "approval.requested", "approval.denied", "task.failed", "approval.requested", "approval.expired", "task.failed"]


def test_a_caller_that_goes_withdraws_what_it_asked_for(service, tenant):
    body = json.dumps({"operation": "entity_write"})
    with socket.create_connection(("127.0.0.1", service.port)) as sock:
        sock.sendall(f"POST /v1/run HTTP/1.1\r\nHost: x\r\nX-API-Key: {tenant.key}\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        one = wait_for(lambda: pending(tenant), what="an approval")[0]
    wait_for(lambda: tenant.get(f"/v1/approvals/{one['id']}", expect=200)["state"] == "withdrawn", what="its end")


def test_approvals_by_themselves(service, tenant):
    made = tenant.post("/v1/approvals", {"operation": "deploy", "summary": "v2", "timeoutMs": 60000}, expect=201)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: service.client(tenant.key).get(f"/v1/approvals/{made['id']}?wait=1"))
        service.operator.post(f"/v1/approvals/{made['id']}/approve", {}, expect=200)
        assert waiting.result().json["state"] == "approved"
    _, other = service.tenant("other")
    assert other.get(f"/v1/approvals/{made['id']}").status == 404
    assert other.post(f"/v1/approvals/{made['id']}/approve", {}).status == 404
    assert other.get("/v1/approvals", expect=200)["approvals"] == []
    for body in ({}, {"operation": ""}, {"operation": "x" * 65}, {"operation": "x", "timeoutMs": 0}):
        assert tenant.post("/v1/approvals", body).status == 400
    for n in range(256):
        tenant.post("/v1/approvals", {"operation": f"o{n}"}, expect=201)
    assert tenant.post("/v1/approvals", {"operation": "one more"}).status == 429


def test_a_sandbox_of_a_task_ends_with_the_daemon_that_had_it(service, tenant):
    def call():
        with contextlib.suppress(OSError, http.client.HTTPException):  # the daemon dies under it
            service.client(tenant.key).post("/v1/run", {"cmd": "echo on > f; sleep 600"})
    thread = threading.Thread(target=call)
    thread.start()
    one, = wait_for(lambda: [b for b in boxes(tenant) if b["state"] == "running"], what="a sandbox")
    wait_for(lambda: tenant.get(f"/v1/sandboxes/{one['id']}/execs", expect=200)["execs"], what="its command")
    service.kill9_daemon()
    thread.join()
    service.wait_ready()
    wait_for(lambda: tenant.get(f"/v1/sandboxes/{one['id']}").status == 404, 30, "its end")
    wait_for(lambda: service.operator.post("/v1/reconcile", expect=200)["cells"] == 0, 30, "the end of its cell")
    assert run(tenant, cmd="echo next")["stdout"] == "next\n"


def test_approvals_outlive_the_daemon_and_are_used_once(service, tenant):
    def call():
        with contextlib.suppress(OSError, http.client.HTTPException):  # the daemon dies under it
            service.client(tenant.key).post("/v1/run", {"operation": "entity_write", "name": "rename customer 8"})
    thread = threading.Thread(target=call)
    thread.start()
    one, = wait_for(lambda: pending(tenant), what="an approval")
    short = tenant.post("/v1/approvals", {"operation": "deploy", "timeoutMs": 1500}, expect=201)
    service.kill9_daemon()
    thread.join()
    service.wait_ready()
    assert one["id"] in [a["id"] for a in pending(tenant)]
    wait_for(lambda: tenant.get(f"/v1/approvals/{short['id']}", expect=200)["state"] == "expired", what="its end")
    # the same request goes on with it; another one does not
    reply = tenant.post("/v1/run", {"operation": "entity_write", "name": "rename customer 9", "approval": one["id"]})
    assert reply.status == 403 and "for something else" in reply.error["message"]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        same = {"operation": "entity_write", "name": "rename customer 8", "approval": one["id"]}
        again = pool.submit(lambda: service.client(tenant.key).post("/v1/run", same))
        service.operator.post(f"/v1/approvals/{one['id']}/approve", {"reason": "fine"}, expect=200)
        assert (again.result().status, again.result().json["ending"]) == (200, "permitted")
    service.kill9_daemon()
    service.wait_ready()
    after = tenant.get(f"/v1/approvals/{one['id']}", expect=200)
    assert (after["state"], after["reason"], after["decidedBy"]) == ("approved", "fine", "operator") and after["usedAt"]
    reply = tenant.post("/v1/run", same)
    assert reply.status == 409 and "used already" in reply.error["message"]
    assert tenant.post("/v1/run", {**same, "approval": "a" + "0" * 19}).status == 404
    actions = [r["action"] for r in service.audit() if r["org"] == tenant.org and r["action"].startswith("approval")]
    assert sorted(actions) == ["approval.approved", "approval.expired", "approval.requested", "approval.requested"]


# ---- the commands ----

def test_the_commands(service, tmp_path):
    (tmp_path / "job.py").write_text("print(open('in.txt').read()); open('out.csv', 'w').write('1,2')\n")
    (tmp_path / "in.txt").write_text("data")
    done = cli(service, "task", "run", "--code", str(tmp_path / "job.py"), "--file", f"{tmp_path}/in.txt:in.txt",
               "--collect", "*.csv", "--into", str(tmp_path), "--retries", "1", "--memory", "256m")
    assert (done.returncode, done.stdout) == (0, "data\n"), done.stderr
    assert (tmp_path / "out.csv").read_text() == "1,2"
    for args, code in ((["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137), (["/no/such"], 125)):
        assert cli(service, "task", "run", "--", *args).returncode == code
    done = cli(service, "task", "run", "--timeout", "300ms", "--", "sleep", "60")
    assert done.returncode == 124 and "did not end within 300 ms" in done.stderr
    done = cli(service, "task", "run", "--json", "--operation", "bulk_scan", "--", "echo", "x")
    assert json.loads(done.stdout)["decision"]["rule"] == "long-work"
    made = service.operator.post("/v1/approvals", {"operation": "deploy", "summary": "v2"}, expect=201)
    assert made["id"] in cli(service, "approve").stdout
    assert cli(service, "approve", "--deny", "--reason", "no", made["id"]).stdout == "denied\n"
    assert made["id"] not in cli(service, "approve").stdout and made["id"] in cli(service, "approve", "--all").stdout
    done = cli(service, "approve", made["id"])
    assert done.returncode == 1 and "denied already" in done.stderr
