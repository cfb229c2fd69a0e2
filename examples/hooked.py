#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A coding agent in miniature, with `sandglass hook` between it and its tools: asks before each call, does what the
answer says, tells afterwards. Agents that have hooks do this themselves (examples/hook-settings.json).

    sandglass up
    eval "$(sandglass env)"        # SANDGLASS_URL and SANDGLASS_API_KEY
    examples/hooked.py
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import uuid

SESSION = f"example-{uuid.uuid4()}"


def hook(event, tool, tool_input, cwd):
    call = {"hook_event_name": event, "session_id": SESSION, "cwd": cwd, "tool_name": tool, "tool_input": tool_input}
    done = subprocess.run(["sandglass", "hook"], input=json.dumps(call), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["hookSpecificOutput"] if done.stdout else {}


def use(tool, cwd, **tool_input):
    answer = hook("PreToolUse", tool, tool_input, cwd)
    if answer["permissionDecision"] != "allow":
        return f"refused: {answer['permissionDecisionReason']}"
    tool_input = answer.get("updatedInput", tool_input)
    if tool == "Bash":
        done = subprocess.run(tool_input["command"], shell=True, capture_output=True, text=True, cwd=cwd)
        result = done.stdout + done.stderr
    elif tool == "Write":
        pathlib.Path(tool_input["file_path"]).write_text(tool_input["content"])
        result = "written"
    else:
        result = pathlib.Path(tool_input["file_path"]).read_text()
    hook("PostToolUse", tool, tool_input, cwd)
    return result.strip()


if not os.environ.get("SANDGLASS_API_KEY"):
    sys.exit('first: eval "$(sandglass env)"')
with tempfile.TemporaryDirectory() as project:
    pathlib.Path(project, "numbers.txt").write_text("3\n1\n4\n")
    first = use("Write", project, file_path=f"{project}/total.py", content="print(sum(map(int, open('numbers.txt'))))\n")
    if first != "written":
        sys.exit(first)
    print(use("Bash", project, command="python3 total.py | tee total.txt"))
    print(use("Read", project, file_path=f"{project}/total.txt"))
    print(use("Bash", project, command="rm -rf numbers.txt && ls"))
    print(sorted(path.name for path in pathlib.Path(project).iterdir()))  # untouched
    print(use("Grep", project, pattern="root", path="/etc").split(":")[0])
    use("Bash", project, command="true")
    hook("SessionEnd", None, None, project)
sandboxes = subprocess.run(["sandglass", "ps", "--json", "--metadata", f"sandglass.session={SESSION}"],
                           capture_output=True, text=True, check=True)
for sandbox in json.loads(sandboxes.stdout)["sandboxes"]:
    subprocess.run(["sandglass", "rm", sandbox["id"]], check=True, stdout=subprocess.DEVNULL)
