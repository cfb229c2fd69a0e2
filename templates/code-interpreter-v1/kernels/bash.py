#!/usr/bin/python3 -IS
# SPDX-License-Identifier: Apache-2.0
"""The kernel of bash: one shell that lives as long as the context.

It is an interactive shell without a terminal, since only such a one goes on with the next line when
it is interrupted. Each execution is one line for it (the code is quoted into an `eval`), with
streams of its own, and a second line that tells the status.
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import driver  # noqa: E402

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Its own messages (prompts, "exit") go nowhere; what runs has the streams that it was given, kept
# on 8 and 9. The directory is where we are: nothing of the user's is read at the start.
BEGIN = ("set +H +m; PS1= PS2= HISTFILE=; unset PROMPT_COMMAND\n"
         "exit() { builtin exit \"$@\" 2>/dev/null; }\n"
         "echo ready >&4\n")


def quote(text):
    out = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return "$'" + out + "'"


class Bash(driver.Driver):
    def begin(self):
        self.start(["/bin/bash", "-c",
                    "exec 0<&3 3<&- 8>&1 9>&2 1>/dev/null 2>&1; exec /bin/bash --norc --noprofile -i"])
        self.tell(BEGIN.encode())

    def environment(self, env):
        for name, value in env.items():
            if NAME.fullmatch(name):
                self.tell(f"export {name}={quote(value)}\n".encode())

    def execute(self, request):
        self.count += 1
        self.emit("number_of_executions", execution_count=self.count)
        code = request.get("code") or ""
        if "\0" in code:
            self.emit("error", name="ValueError", value="a script for bash has no NUL bytes", traceback="")
            self.over()
            return
        env = {name: value for name, value in (request.get("env") or {}).items() if NAME.fullmatch(name)}
        lines = [f"__sg_s_{n}=${{{n}+x}} __sg_o_{n}=${{{n}-}}; export {n}={quote(v)}\n" for n, v in env.items()]
        lines.append(f"eval {quote(code)} 0</dev/null 1>&8 2>&9 3>&- 4>&- 8>&- 9>&-\n")
        lines.append("__sg_status=$?\n")
        lines += [f'if [ "$__sg_s_{n}" ]; then {n}=$__sg_o_{n}; else unset {n}; fi; unset __sg_s_{n} __sg_o_{n}\n'
                  for n in env]
        lines.append('echo "$__sg_status" >&4\n')
        self.tell("".join(lines).encode("utf-8", "surrogateescape"))

    def fail(self, status):
        if status == 130:
            self.emit("error", name="KeyboardInterrupt", value="", traceback="")
        elif status:
            self.emit("error", name="ExitStatus", value=f"exit status {status}", traceback="")

    def listen(self):
        *lines, self.from_child = self.from_child.split(b"\n")
        for line in lines:
            if line == b"ready":
                self.is_ready = True
            elif self.id:
                self.drain_all()
                self.fail(int(line) if line.isdigit() else 0)
                self.over()

    def ended(self, status):
        """`exit` ends the shell, not the kernel."""
        if os.WIFSIGNALED(status) or not self.id:
            self.die_like_it(status)
        self.drain_all()
        code = os.WEXITSTATUS(status)
        self.emit("error", name="SystemExit", traceback="",
                  value=f"exit status {code}; the shell has ended, the next execution has a new one")
        self.over()
        self.begin()


if __name__ == "__main__":
    kernel = Bash("bash")
    kernel.begin()
    kernel.run()
