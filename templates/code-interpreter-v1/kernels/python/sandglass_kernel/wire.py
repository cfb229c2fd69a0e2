# SPDX-License-Identifier: Apache-2.0
"""The two descriptors of the protocol: requests come in, events go out, each a line of JSON.

They are moved away from 0 and 1, which belong to the user's code, and do not survive an exec. After
a fork the child is somebody else: its events are dropped.
"""
import fcntl
import json
import os
import threading

from .interrupts import interrupts

FIRST_FD = 200  # far from where programs look for theirs
MAX_LINE = 16 << 20
MAX_REQUEST = 64 << 20


class Wire:
    def __init__(self):
        self.requests = self.events = -1
        self.buffer = bytearray()
        self.lock = threading.Lock()
        self.owner = 0
        self.id = None  # of the execution that runs

    def open(self):
        self.requests = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, FIRST_FD)
        self.events = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, FIRST_FD)
        self.owner = os.getpid()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self):
        self.lock = threading.Lock()

    def read(self):
        """The next request; None at the end of input. What cannot be read is not answered."""
        while True:
            line, newline, rest = self.buffer.partition(b"\n")
            if newline:
                self.buffer = rest
                try:
                    request = json.loads(line)
                except ValueError:
                    continue
                if isinstance(request, dict):
                    return request
                continue
            chunk = os.read(self.requests, 1 << 20)
            interrupts.is_pending = False  # came while nothing ran
            if not chunk or len(self.buffer) > MAX_REQUEST:
                return None
            self.buffer += chunk

    def encode(self, event):
        return json.dumps(event, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")

    def emit(self, event):
        """Of the running execution, if there is one. Blocks while nobody reads."""
        if self.id is not None:
            event = {"id": self.id, **event}
        self.emit_line(self.encode(event))

    def emit_line(self, line):
        if os.getpid() != self.owner:
            return
        line = memoryview(line + b"\n")
        with interrupts, self.lock:
            while line:
                line = line[os.write(self.events, line):]
