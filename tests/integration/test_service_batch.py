# SPDX-License-Identifier: Apache-2.0
"""POST /v1/batch and `sandglass swarm`: many tasks, their order, their failures, one report."""
import json
import socket

import pytest
from service import wait_for


def batch(client, tasks, expect=200, **more):
    reply = client.post("/v1/batch", {"tasks": tasks, **more})
    assert reply.status == expect, reply.body
    if expect != 200:
        return reply.error["message"]
    lines = [json.loads(line) for line in reply.body.splitlines()]
    ended = {line["ended"]["name"]: line["ended"] for line in lines if "ended" in line}
    order = [(kind, line[kind]["name"]) for line in lines for kind in ("started", "ended", "skipped") if kind in line]
    assert [i for i, line in enumerate(lines) if "report" in line] == [len(lines) - 1]
    return ended, order, lines[-1]["report"]


def boxes(client):
    return client.get("/v1/sandboxes", expect=200)["sandboxes"]


def test_tasks_side_by_side_within_the_limit(tenant):
    ended, order, report = batch(tenant, [{"name": f"t{n}", "cmd": f"echo {n}; sleep 0.2"} for n in range(9)],
                                 concurrency=3)
    assert {name: r["stdout"] for name, r in ended.items()} == {f"t{n}": f"{n}\n" for n in range(9)}
    assert (report["tasks"], report["succeeded"], report["failed"], report["mostAtATime"]) == (9, 9, 0, 3)
    running = most = 0
    for kind, _ in order:
        running += {"started": 1, "ended": -1}[kind]
        most = max(most, running)
    assert most == 3 and boxes(tenant) == []


def test_order_and_hand_over(tenant):
    ended, order, report = batch(tenant, [
        {"name": "sum", "cmd": "cat from/a/n.txt from/b/n.txt | tr '\\n' +", "after": ["a", "b"]},
        {"name": "a", "cmd": "echo 1 > n.txt", "collect": ["*.txt"]},
        {"name": "b", "cmd": "echo 2 > n.txt", "collect": ["n.txt"], "after": ["a"]}])
    assert ended["sum"]["stdout"] == "1+2+" and report["succeeded"] == 3
    assert order == [("started", "a"), ("ended", "a"), ("started", "b"), ("ended", "b"),
                     ("started", "sum"), ("ended", "sum")]


def test_a_failure_costs_only_what_depends_on_it(tenant):
    tasks = [{"name": "bad", "cmd": "exit 1"}, {"name": "heir", "cmd": "true", "after": ["bad"]},
             {"name": "heirs-heir", "cmd": "true", "after": ["heir"]},
             {"name": "report", "cmd": "echo all the same", "after": ["heirs-heir"], "always": True},
             {"name": "other", "cmd": "true"}]
    ended, order, report = batch(tenant, tasks)
    assert (report["succeeded"], report["failed"], report["skipped"]) == (2, 1, 2)
    assert ended["report"]["stdout"] == "all the same\n" and ended["other"]["exitCode"] == 0
    assert {name for kind, name in order if kind == "skipped"} == {"heir", "heirs-heir"}
    _, order, report = batch(tenant, tasks[:1] + [{"name": "late", "cmd": "true"}], concurrency=1, stopOnFailure=True)
    assert (report["failed"], report["skipped"]) == (1, 1)
    ended, _, report = batch(tenant, [{"name": "no", "cmd": "true", "tier": "none"}, {"name": "slow", "cmd": "sleep 9",
                                      "timeoutMs": 100}, {"name": "yes", "cmd": "true"}])
    assert (ended["no"]["ending"], ended["slow"]["ending"], report["failed"]) == ("refused", "timeout", 2)


def volumes(client):
    return client.get("/v1/volumes", expect=200)["volumes"]


def test_a_shared_volume_goes_from_hand_to_hand_and_then_away(service, tenant):
    if tenant.post("/v1/volumes", {"name": "own", "bytes": 16 << 20}).status == 501:
        pytest.skip("no storage pool on this host")
    ended, _, report = batch(tenant, [
        {"name": "a", "cmd": "echo 1 > /shared/n; echo kept > /own/k", "mounts": [{"volume": "own", "path": "/own"}]},
        {"name": "b", "cmd": "cat /shared/n; echo 2 >> /shared/n", "after": ["a"]},
        {"name": "c", "cmd": "cat /shared/n; cat /own/k; ! touch /own/x", "after": ["b"],
         "mounts": [{"volume": "own", "path": "/own", "readOnly": True}]}], shared={"path": "/shared", "bytes": 32 << 20})
    assert [ended[n]["stdout"] for n in "abc"] == ["", "1\n", "1\n2\nkept\n"] and report["succeeded"] == 3
    assert [v["name"] for v in volumes(tenant)] == ["own"]
    for shared in ({"path": "/proc/x"}, {"path": "here"}, {}, {"path": "/s", "bytes": 0}, {"path": "/s", "oops": 1}):
        batch(tenant, [{"name": "a", "cmd": "true"}], expect=400, shared=shared)
    body = json.dumps({"tasks": [{"name": "t", "cmd": "sleep 600"}], "shared": {"path": "/shared", "bytes": 16 << 20}})
    call = (f"POST /v1/batch HTTP/1.1\r\nHost: x\r\nX-API-Key: {tenant.key}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
    with socket.create_connection(("127.0.0.1", service.port)) as sock:  # a caller that goes takes it along
        sock.sendall(call)
        wait_for(lambda: [b for b in boxes(tenant) if b["execs"]], what="a command")
        assert len(volumes(tenant)) == 2
    wait_for(lambda: len(volumes(tenant)) == 1 and not boxes(tenant), what="its end")
    with socket.create_connection(("127.0.0.1", service.port)) as sock:  # and so does the daemon's death
        sock.sendall(call)
        wait_for(lambda: [b for b in boxes(tenant) if b["execs"]], what="a command")
        service.kill9_daemon()
    service.wait_ready()
    wait_for(lambda: len(volumes(tenant)) == 1, what="its end")


@pytest.mark.parametrize("tasks,words", [
    ([], "1 to 1000 tasks"), ([{"cmd": "true"}], "needs a name"),
    ([{"name": "a", "cmd": "true"}, {"name": "a", "cmd": "true"}], "two tasks 'a'"),
    ([{"name": "a", "cmd": "true", "after": ["b"]}], "after 'b', which is not there"),
    ([{"name": "a", "cmd": "true", "after": ["b"]}, {"name": "b", "cmd": "true", "after": ["a"]}], "circle"),
    ([{"name": "a", "cmd": "true", "after": ["a"]}], "circle"), ([{"name": "a/b", "cmd": "true"}], "no name"),
    ([{"name": "a", "cmd": "true", "oops": 1}], "task 1: "), ([1], "task 1: ")])
def test_what_makes_no_sense_is_refused_whole(tenant, tasks, words):
    assert words in batch(tenant, tasks, expect=400)
    assert tenant.post("/v1/run", {"cmd": "true", "after": []}).status == 400


def test_a_caller_that_goes_takes_everything_along(service, tenant):
    body = json.dumps({"tasks": [{"name": f"t{n}", "cmd": "sleep 600"} for n in range(6)], "concurrency": 3})
    with socket.create_connection(("127.0.0.1", service.port)) as sock:
        sock.sendall(f"POST /v1/batch HTTP/1.1\r\nHost: x\r\nX-API-Key: {tenant.key}\r\n"
                     f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        wait_for(lambda: len([b for b in boxes(tenant) if b["execs"]]) == 3, what="three commands")
    wait_for(lambda: not boxes(tenant), what="an empty list")


def test_the_command(service, tmp_path):
    def swarm(text, *args):
        (tmp_path / "tasks.toml").write_text(text)
        return service.runner.command(service.binary, "swarm", *args, str(tmp_path / "tasks.toml"),
                                      env={"SANDGLASS_CONFIG": str(service.config)})
    (tmp_path / "in").write_text("x")
    text = f'''concurrency = 2
[[task]]
name = "a"
code = "print(open('in').read()); open('o', 'w').write('y')"
files = {{ "in" = "{tmp_path}/in" }}
collect = ["o"]
timeout = "20s"
memory = "128m"
[[task]]
name = "b"
argv = ["sh", "-c", "cat from/a/o; echo $V"]
after = ["a"]
env = {{ V = "v" }}
'''
    done = swarm(text)
    assert done.returncode == 0 and [line.split()[:3] for line in done.stdout.splitlines()[1:]] == [
        ["a", "exit", "0"], ["b", "exit", "0"]], done.stderr
    assert "'a': started" in done.stderr and "2 tasks: 2 succeeded, 0 failed, 0 skipped" in done.stderr
    lines = json.loads(swarm(text, "--json").stdout)
    assert [line["ended"]["stdout"] for line in lines[:2]] == ["x\n", "yv\n"] and lines[2]["report"]["succeeded"] == 2
    done = swarm(text.replace('"cat from', '"exit 3; cat from'))
    assert done.returncode == 1 and "exit 3" in done.stdout
    for bad, words in ((text.replace("timeout", "tiemout"), "tasks.toml:7:11: unknown key 'tiemout' (did you mean 'timeout'?)"),
                       (text.replace('"20s"', "20"), "tasks.toml:7:11: a time as"), ("[[task", "tasks.toml: 1:"),
                       (text.replace(f"{tmp_path}/in", "/no/such"), "No such file")):
        done = swarm(bad)
        assert done.returncode != 0 and words in done.stderr, done.stderr
