#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program of an agent's, from upload to result, with nothing but Python's standard library.

    sandglass up
    eval "$(sandglass env)"        # SANDGLASS_URL and SANDGLASS_API_KEY
    examples/agent.py
"""
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

# What the model wrote. It talks while it works, and leaves a file.
JOB = """
import time, statistics
numbers = [int(line) for line in open("numbers.txt")]
for i, n in enumerate(numbers, 1):
    print(f"{i}/{len(numbers)}: {n}", flush=True)
    time.sleep(0.1)
open("result.txt", "w").write(f"mean {statistics.mean(numbers)}\\n")
"""


def call(method, target, body=None, raw=None, **query):
    """One request; the open reply, to be read at once or as it comes. An error of the service is the end."""
    url = os.environ["SANDGLASS_URL"] + "/v1" + target
    if query:
        url += "?" + urllib.parse.urlencode(query)
    request = urllib.request.Request(url, method=method, data=json.dumps(body).encode() if body is not None else raw)
    request.add_header("Authorization", "Bearer " + os.environ["SANDGLASS_API_KEY"])
    if body is not None:
        request.add_header("Content-Type", "application/json")
    try:
        return urllib.request.urlopen(request)
    except urllib.error.HTTPError as failed:
        error = json.load(failed)["error"]
        sys.exit(f"{method} {target}: {error['message']} ({error.get('hint', error['kind'])})")
    except urllib.error.URLError as failed:
        sys.exit(f"{url}: {failed.reason}; is the service up?")


def follow(box, job):
    """Shows the output of a command as it comes; returns how it ended. It can be asked for by anybody, at any time,
    and again from an offset: the output is kept, and a broken connection loses none of it."""
    for line in call("GET", f"{box}/execs/{job}/output", follow=1):
        event = json.loads(line)
        if "end" in event:
            return event["end"]
        print(event.get("data", ""), end="", flush=True)
    sys.exit("the output broke off")


def main():
    # It ends by itself after two minutes, whatever becomes of us.
    sandbox = json.load(call("POST", "/sandboxes", {"timeoutMs": 120_000, "metadata": {"example": "agent.py"}}))
    box = f"/sandboxes/{sandbox['id']}"
    try:
        # Relative paths begin at the sandbox's working directory, for files and commands alike.
        call("PUT", f"{box}/files", raw=b"3\n1\n4\n1\n5\n", path="numbers.txt")
        call("PUT", f"{box}/files", raw=JOB.encode(), path="job.py")
        job = json.load(call("POST", f"{box}/exec", {"argv": ["python3", "job.py"], "background": True,
                                                     "timeoutMs": 30_000}))
        end = follow(box, job["id"])
        if end["ending"] != "exit" or end["exitCode"] != 0:
            sys.exit(f"the job ended by {end['ending']}, status {end.get('exitCode')}")
        print(call("GET", f"{box}/files", path="result.txt").read().decode(), end="")
    finally:
        call("DELETE", box)


if __name__ == "__main__":
    missing = [name for name in ("SANDGLASS_URL", "SANDGLASS_API_KEY") if not os.environ.get(name)]
    if missing:
        sys.exit(f"{' and '.join(missing)} not set; first: eval \"$(sandglass env)\"")
    main()
