#!/usr/bin/python3 -IS
# SPDX-License-Identifier: Apache-2.0
"""The kernels of R and of Java, by the name that this program has: an interpreter that speaks in lines.

A line is a word and fields in base64, which either language reads and writes in a few lines of its
own: `execute CODE [NAME VALUE]...`, `env NAME VALUE...` to it; `ready`, `KIND KEY VALUE...` and
`over` from it. What it prints in between goes through the driver's pipes.
"""
import base64
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import driver  # noqa: E402

LIB = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib")
INTERPRETERS = {
    "r": ["/usr/lib/R/bin/Rscript", "--no-init-file", "--no-environ", f"{LIB}/kernel.R"],
    "java": ["/usr/bin/java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto",
             "-cp", LIB, "Kernel"],
}
KINDS = ("result", "error")


def line_of(word, *fields):
    """An empty field is a dash: a line is split at its blanks."""
    coded = [base64.b64encode(field.encode("utf-8", "surrogateescape")).decode() or "-" for field in fields]
    return " ".join([word, *coded]).encode() + b"\n"


def read_field(coded):
    return "" if coded == "-" else base64.b64decode(coded).decode("utf-8", "replace")


class Interpreter(driver.Driver):
    def begin(self):
        self.start(INTERPRETERS[self.language])

    def environment(self, env):
        self.tell(line_of("env", *(text for pair in env.items() for text in pair)))

    def execute(self, request):
        self.count += 1
        self.emit("number_of_executions", execution_count=self.count)
        env = request.get("env") or {}
        self.tell(line_of("execute", request.get("code") or "", *(text for pair in env.items() for text in pair)))

    def take(self, line):
        kind, *fields = line.decode("ascii", "replace").split()
        if kind == "over":
            self.over()
        elif kind in KINDS and len(line) > driver.LINE_MAX:
            self.emit("error", name="ResultTooLarge", value=f"an event has over {driver.LINE_MAX} bytes", traceback="")
        elif kind in KINDS:
            members = {key: read_field(value) for key, value in zip(fields[::2], fields[1::2])}
            self.emit(kind, **members, **({"is_main_result": True} if kind == "result" else {}))

    def listen(self):
        *lines, self.from_child = self.from_child.split(b"\n")
        self.is_ready |= bool(lines)
        for line in lines:
            if self.id and line != b"ready":
                self.drain_all()
                self.take(line)

    def ended(self, status):
        self.die_like_it(status)


if __name__ == "__main__":
    kernel = Interpreter(os.path.basename(sys.argv[0]))
    kernel.begin()
    kernel.run()
