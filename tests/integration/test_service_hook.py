# SPDX-License-Identifier: Apache-2.0
"""`sandglass hook` and POST /v1/intercept: an agent's tools land in the sandbox of its session."""
import concurrent.futures
import json
import os
import pathlib
import subprocess

import pytest
from service import Service, wait_for

POLICY = pathlib.Path(__file__).resolve().parents[2] / "policy" / "intercept.toml"


class Agent:
    """Does what a coding agent does: asks its hook before each tool, obeys, and tells it afterwards."""

    def __init__(self, service, key, folder, session):
        self.service, self.session, self.cwd = service, session, folder / "project"
        self.cwd.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "SANDGLASS_API_KEY": key,
                    "SANDGLASS_URL": f"http://127.0.0.1:{service.port}", "SANDGLASS_CONFIG": str(service.config)}

    def hook(self, event, tool, tool_input, *args, cwd=None):
        call = {"hook_event_name": event, "session_id": self.session, "cwd": str(cwd or self.cwd), "tool_name": tool,
                "tool_input": tool_input, "transcript_path": "/x", "permission_mode": "default"}
        return self.say(json.dumps(call), *args)

    def say(self, text, *args):
        return subprocess.run([self.service.binary, "hook", *args], input=text, env=self.env, cwd=self.cwd,
                              capture_output=True, text=True, timeout=120)

    def ask(self, tool, tool_input, *args, **kw):
        done = self.hook("PreToolUse", tool, tool_input, *args, **kw)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)["hookSpecificOutput"]
        assert answer["hookEventName"] == "PreToolUse"
        return answer

    def allowed(self, tool, tool_input, **kw):
        answer = self.ask(tool, tool_input, **kw)
        assert answer["permissionDecision"] == "allow", answer
        new = answer["updatedInput"]
        assert new.keys() == tool_input.keys()
        return new

    def done(self, tool, tool_input):
        assert self.hook("PostToolUse", tool, tool_input).returncode == 0

    def bash(self, command, **kw):
        new = self.allowed("Bash", {"command": command, "description": "d", "timeout": 1000}, **kw)
        return subprocess.run(new["command"], shell=True, env=self.env, cwd=self.cwd, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120)

    def write(self, path, text):
        new = self.allowed("Write", {"file_path": str(path), "content": text})
        place = pathlib.Path(new["file_path"])
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return new

    def read(self, path):
        return pathlib.Path(self.allowed("Read", {"file_path": str(path), "limit": 3})["file_path"]).read_text()


@pytest.fixture
def agent(service, tenant, key, tmp_path):
    tenant.agent_key = key
    return Agent(service, key, tmp_path, "5f1c-ab_9")


def boxes(client):
    return client.get("/v1/sandboxes", expect=200)["sandboxes"]


def test_commands_run_in_the_sandbox_of_the_session_and_see_the_project(agent, tenant):
    (agent.cwd / "sub").mkdir()
    (agent.cwd / "sub" / "a.txt").write_text("hello\n")
    done = agent.bash("""cat 'sub/a.txt'; pwd; echo "$HOME'$0"; echo no >&2; touch made; exit 3""")
    assert (done.returncode, done.stderr) == (3, "no\n")
    assert done.stdout.splitlines()[:2] == ["hello", "/workspace"] and str(agent.env["HOME"]) not in done.stdout
    assert not (agent.cwd / "made").exists()
    # the same sandbox, from a directory below, with every character that a shell would take for its own
    done = agent.bash("cat a.txt; ls ..; printf %s 'a'\\''b \"c\" $d `e` \\\\'", cwd=agent.cwd / "sub")
    assert done.stdout == "hello\nmade\nsub\na'b \"c\" $d `e` \\\\"
    box, = boxes(tenant)
    assert box["metadata"] == {"sandglass.session": agent.session, "sandglass.root": str(agent.cwd)}
    assert box["decision"]["rule"] == "generated-code"
    # what would hurt the machine hurts the sandbox: the wall is the kernel's, not a pattern
    victim = agent.cwd / "precious"
    victim.write_text("x")
    done = agent.bash(f"rm -rf {agent.cwd} /workspace/*; ls /workspace; cat {victim}")
    assert victim.exists() and "No such file" in done.stderr


def test_files_are_those_of_the_sandbox(agent, tenant):
    (agent.cwd / "a.py").write_text("print(1)\n")
    assert agent.read(agent.cwd / "a.py") == "print(1)\n"
    new = agent.write("b/new.py", "print(2)\n")  # not told afterwards: the next call finds it
    assert agent.bash("python3 b/new.py").stdout == "2\n" and not (agent.cwd / "b").exists()
    agent.done("Write", new)
    # an edit keeps the copy as it was read, so that an agent does not take it for changed
    place = pathlib.Path(agent.allowed("Edit", {"file_path": str(agent.cwd / "a.py"), "old_string": "1",
                                                "new_string": "7"})["file_path"])
    before = place.stat().st_mtime_ns
    assert pathlib.Path(agent.allowed("Read", {"file_path": str(agent.cwd / "a.py")})["file_path"]) == place
    assert place.stat().st_mtime_ns == before
    place.write_text("print(7)\n")
    agent.done("Edit", {"file_path": str(place)})
    box, = boxes(tenant)
    assert tenant.get(f"/v1/sandboxes/{box['id']}/files?path=/workspace/a.py").body == b"print(7)\n"
    assert (agent.cwd / "a.py").read_text() == "print(1)\n"
    # what a command changes is what the next look shows; an agent may name what it was shown
    assert agent.bash(f"echo 'print(8)' > {place}").returncode == 0
    assert agent.read(place) == "print(8)\n"
    # other paths are the sandbox's own, and links of this machine lead nowhere
    (agent.cwd / "link").symlink_to("/etc/shadow")
    assert agent.bash("ln -s /etc/shadow link; ls -l link").returncode == 0
    answer = agent.ask("Read", {"file_path": str(agent.cwd / "link")})
    assert answer["permissionDecision"] == "deny" and "updatedInput" not in answer
    assert agent.read("/etc/hostname") != pathlib.Path("/etc/hostname").read_text()
    with pytest.raises(FileNotFoundError):
        agent.read(agent.cwd / "absent")
    assert agent.ask("Read", {"file_path": "/tmp"})["permissionDecision"] == "deny"
    assert agent.hook("SessionEnd", None, None).returncode == 0 and not place.exists()


def test_what_the_rules_say_is_what_the_agent_hears(service, tenant, agent):
    answer = agent.ask("Grep", {"pattern": "x", "path": "/"})
    assert answer["permissionDecision"] == "deny" and "use Bash" in answer["permissionDecisionReason"]
    assert agent.ask("TodoWrite", {"todos": []})["permissionDecision"] == "allow"
    assert agent.ask("Bash", {"description": "no command"})["permissionDecision"] == "deny"
    assert boxes(tenant) == []
    blocked = [r["detail"] for r in service.audit() if r["action"] == "intercept.blocked" and r["org"] == tenant.org]
    assert [b["rule"] for b in blocked] == ["search", "shell"]


def test_an_approval_holds_for_one_call_once(service, tenant, agent):
    call = ("mcp__db__write", {"row": 7})
    answer = agent.ask(*call, "--wait", "0")
    assert answer["permissionDecision"] == "deny" and "sandglass approve" in answer["permissionDecisionReason"]
    one, = tenant.get("/v1/approvals?state=pending", expect=200)["approvals"]
    assert (one["operation"], one["summary"]) == ("tool_call", 'mcp__db__write: {"row":7}')
    agent.ask(*call, "--wait", "0")
    assert len(tenant.get("/v1/approvals", expect=200)["approvals"]) == 1
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(agent.ask, *call)
        service.operator.post(f"/v1/approvals/{one['id']}/approve", {}, expect=200)
        assert waiting.result()["permissionDecision"] == "allow"
    assert tenant.get(f"/v1/approvals/{one['id']}", expect=200)["usedAt"]
    assert agent.ask("mcp__db__write", {"row": 8}, "--wait", "0")["permissionDecision"] == "deny"
    again = agent.ask(*call, "--wait", "0")
    assert again["permissionDecision"] == "deny" and one["id"] not in again["permissionDecisionReason"]
    two = [a["id"] for a in tenant.get("/v1/approvals?state=pending", expect=200)["approvals"]]
    for each in two:
        service.operator.post(f"/v1/approvals/{each}/deny", {"reason": "not this one"}, expect=200)
    assert "not this one" in agent.ask(*call)["permissionDecisionReason"]


@pytest.mark.parametrize("text", [
    "", "no json", "[]", "{}", '{"tool_name":"Bash"}', '{"session_id":"../x","cwd":"/","tool_name":"Bash"}',
    '{"session_id":"x","cwd":"here","tool_name":"Bash"}', '{"session_id":"x","cwd":"/","tool_name":"B","tool_input":3}',
    '{"session_id":"x","cwd":"/","tool_name":7}', '{"session_id":"x","cwd":"/","tool_name":"B\\u0000"}'])
def test_what_is_no_call_is_refused(agent, text):
    done = agent.say(text)
    assert done.returncode == 2 and done.stderr.startswith("sandglass: ") and not done.stdout


def test_without_the_service_nothing_is_permitted(agent):
    agent.env["SANDGLASS_URL"] = "http://127.0.0.1:9"
    answer = agent.ask("Bash", {"command": "id"})
    assert answer["permissionDecision"] == "deny" and "updatedInput" not in answer
    agent.env["SANDGLASS_CONFIG"] = "/no/such.toml"
    assert agent.hook("PreToolUse", "Bash", {"command": "id"}).returncode == 2
    assert agent.hook("Stop", "x", {}).returncode == 2
    del agent.env["SANDGLASS_CONFIG"], agent.env["HOME"]
    assert agent.hook("PreToolUse", "Bash", {"command": "id"}).returncode == 2
    assert agent.hook("UserPromptSubmit", "x", {}).returncode == 0


@pytest.mark.parametrize("body,words", [
    ({}, "tool"), ({"tool": "Bash", "cwd": "x", "session": "s"}, "absolute"),
    ({"tool": "Bash", "cwd": "/", "session": "a/b"}, "no session"), ({"tool": "", "cwd": "/", "session": "s"}, "a tool"),
    ({"tool": "Read", "cwd": "/", "session": "s", "input": {"file_path": "a\0b"}}, "no path"),
    ({"tool": "Read", "cwd": "/", "session": "s", "input": []}, "input"), ({"oops": 1}, "oops")])
def test_bad_questions_are_named(tenant, body, words):
    reply = tenant.post("/v1/intercept", body)
    assert reply.status == 400 and words in reply.error["message"], reply.body


def test_sessions_are_their_organisations_own(service, tenant):
    body = {"tool": "Bash", "cwd": "/p", "session": "same", "input": {"command": "id"}}
    other_org, other = service.tenant("neighbour")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # however many ask at once: one sandbox
        made = {r["sandbox"] for r in pool.map(
            lambda _: service.client(tenant.key).post("/v1/intercept", body, expect=200), range(4))}
    assert made == {box["id"] for box in boxes(tenant)} and len(made) == 1
    theirs = other.post("/v1/intercept", body, expect=200)
    assert theirs["sandbox"] not in made and theirs["argv"] == ["/bin/bash", "-c", "id"]
    other.delete("/v1/sandboxes", expect=200)
    service.operator.delete(f"/v1/orgs/{other_org}", expect=204)
    read = tenant.post("/v1/keys", {"name": "r", "scopes": ["read"]}, expect=201)["key"]
    assert service.client(read).post("/v1/intercept", body).status == 403


def test_rules_are_read_again_and_a_mistake_changes_nothing(root, tmp_path):
    rules = tmp_path / "rules.toml"

    def write(text):
        rules.with_suffix(".new").write_text(text)
        os.replace(rules.with_suffix(".new"), rules)

    write(POLICY.read_text())
    with Service(pool=0, env={"SANDGLASS_INTERCEPT_RULES": str(rules)}) as own:
        def judge(command):
            return own.operator.post("/v1/intercept", {"tool": "Shout", "cwd": "/", "session": "s",
                                                       "input": {"command": command}}, expect=200)
        assert judge("x")["action"] == "approve"
        write(POLICY.read_text().replace('action = "block"', 'action = "blok"'))
        wait_for(lambda: "no action 'blok' (did you mean 'block'?)" in own.log(), what="a refusal")
        assert "intercept.toml:" in own.log() and judge("x")["action"] == "approve"
        write('version = 1\n[arguments]\ncommand = "command"\npath = "p"\n[[rule]]\nname = "loud"\nreason = "quiet!"\n'
              'tool = "Sh*t"\narguments = { command = "*!*" }\naction = "block"\n'
              '[[rule]]\nname = "rest"\nreason = "fine"\naction = "allow"\n')
        wait_for(lambda: judge("x")["rule"] == "rest", what="other rules")
        loud = judge("hey!")
        assert (loud["action"], loud["rule"], loud["reason"]) == ("block", "loud", "quiet!")
        actions = [r["action"] for r in own.audit()]
        assert actions.index("intercept.rejected") < actions.index("intercept.reloaded")
        rules.unlink()
        wait_for(lambda: "No such file" in own.log(), what="a word about the file")
        assert judge("x")["rule"] == "rest"
