# SPDX-License-Identifier: Apache-2.0
"""A kernel of the code interpreter, driven as the daemon drives it, without a sandbox.

    with Kernel([PYTHON, str(DRIVER)]) as kernel:
        events = kernel.run("1 + 1")
        events.main["text"] == "2"
"""
import json
import os
import pathlib
import queue
import signal
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "templates" / "code-interpreter-v1" / "kernels"
DRIVER = KERNELS / "python" / "kernel.py"
PYTHON = "/usr/bin/python3"  # the system's: its packages are those of the template
SECONDS = 60


class Events(list):
    """Those of one execution."""

    def of(self, kind):
        return [event for event in self if event["type"] == kind]

    def text(self, kind):
        return "".join(event["text"] for event in self.of(kind))

    @property
    def stdout(self):
        return self.text("stdout")

    @property
    def stderr(self):
        return self.text("stderr")

    @property
    def results(self):
        return self.of("result")

    @property
    def main(self):
        found = [event for event in self.results if event["is_main_result"]]
        assert len(found) == 1, f"{len(found)} main results in {self}"
        return found[0]

    @property
    def error(self):
        found = self.of("error")
        assert len(found) == 1, f"{len(found)} errors in {self}"
        return found[0]


class Kernel:
    def __init__(self, argv, env=None, cwd="/tmp"):
        self.process = subprocess.Popen(
            [str(word) for word in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, cwd=cwd, start_new_session=True,
            env={"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8",
                 "PYTHONDONTWRITEBYTECODE": "1", **(env or {})})
        self.lines = queue.Queue()
        self.said = b""
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._listen)]
        for thread in self.threads:
            thread.start()
        self.count = 0
        self.ready = self.next()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _listen(self):
        for line in self.process.stderr:
            self.said += line

    def next(self, seconds=SECONDS):
        """The next event; None when the kernel has ended."""
        line = self.lines.get(timeout=seconds)
        return None if line is None else json.loads(line)

    def send(self, request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def start(self, code, **more):
        self.count += 1
        self.send({"op": "execute", "id": str(self.count), "code": code, **more})

    def finish(self, seconds=SECONDS):
        """The rest of the events until the end of the execution, or of the kernel."""
        events = Events()
        while (event := self.next(seconds)) is not None:
            assert event.pop("id") == str(self.count)
            events.append(event)
            if event["type"] == "end_of_execution":
                assert event == {"type": "end_of_execution"}
                break
        return events

    def run(self, code, **more):
        self.start(code, **more)
        return self.finish()

    def interrupt(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self):
        """Ends its input, as the daemon does; its exit status."""
        self.process.stdin.close()
        return self.process.wait(timeout=SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for thread in self.threads:
            thread.join(SECONDS)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except BrokenPipeError:
                pass
