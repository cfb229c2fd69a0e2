#!/usr/bin/python3 -IS
# SPDX-License-Identifier: Apache-2.0
"""The kernel of JavaScript, and of TypeScript where the first argument says so: Node with ../lib/javascript.cjs.

Node could not do this alone: it cannot move its descriptors, and one thread that waits for a pipe to
be emptied cannot be the one that empties it.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
import driver  # noqa: E402

HERE = os.path.dirname(os.path.realpath(__file__))
NODES = ("/usr/local/bin/node", "/usr/bin/node")


class Node(driver.Driver):
    def begin(self):
        node = next((path for path in NODES if os.access(path, os.X_OK)), NODES[-1])
        self.start([node, "--no-warnings", "--stack-trace-limit=30", f"{HERE}/../lib/javascript.cjs", self.language])

    def environment(self, env):
        self.tell(json.dumps({"op": "env", "env": env}).encode() + b"\n")

    def execute(self, request):
        self.count += 1
        self.emit("number_of_executions", execution_count=self.count)
        self.tell(json.dumps(request).encode() + b"\n")

    def listen(self):
        """Its events, in order with what it printed before them."""
        *lines, self.from_child = self.from_child.split(b"\n")
        self.is_ready |= bool(lines)
        for line in lines:
            if not self.id or json.dumps(self.id).encode() not in line[:200]:
                continue
            self.drain_all()
            if line.startswith(b'{"type":"end_of_execution"'):
                self.over()
            elif len(line) > driver.LINE_MAX:
                self.emit("error", name="ResultTooLarge", value=f"an event has over {driver.LINE_MAX} bytes",
                          traceback="")
            else:
                self.write(line + b"\n")

    def ended(self, status):
        self.die_like_it(status)


if __name__ == "__main__":
    kernel = Node(sys.argv[1] if len(sys.argv) > 1 else "javascript")
    kernel.begin()
    kernel.run()
