# SPDX-License-Identifier: Apache-2.0
"""A kernel whose interpreter is another program: what the drivers of bash and JavaScript share.

Requests come on our input and events leave on our output, both moved away at the start. The
interpreter is a child: its standard output and error are pipes that we turn into events, so that
whatever it starts is heard, too, and it never waits for itself. It speaks to us on descriptor 4,
we to it on descriptor 3, and first it says that it is ready. Until then, and while nothing runs, it
does not hear of interrupts, which would end it. One that dies takes us along, by the same signal.
"""
import codecs
import contextlib
import fcntl
import json
import os
import select
import signal
import time

PIECE = 64 << 10
OUTPUT_MAX = int(os.environ.get("SANDGLASS_OUTPUT_MAX", 64 << 20))
LINE_MAX = 16 << 20


class Stream:
    """One of the interpreter's outputs: bytes to events, whole characters only."""

    def __init__(self, name):
        self.name = name
        self.fd, self.far = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.fd, False)
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")


class Driver:
    def __init__(self, language):
        self.language = language
        self.requests = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 100)
        self.events = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 100)
        nothing = os.open("/dev/null", os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.close(nothing)
        signal.signal(signal.SIGINT, self.interrupted)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        self.streams = [Stream("stdout"), Stream("stderr")]
        self.pending = b""      # of requests
        self.id = None          # of the execution that runs
        self.left = OUTPUT_MAX  # that it may print
        self.count = 0
        self.child = None
        self.is_ready = False

    def interrupted(self, *_):
        if self.id and self.is_ready:
            os.killpg(self.child, signal.SIGINT)

    # ---- events ----

    def write(self, line):
        while line:
            line = line[os.write(self.events, line):]

    def emit(self, kind, **members):
        self.write(json.dumps({"type": kind, "id": self.id, **members}).encode() + b"\n")

    def emit_text(self, name, text):
        if text:
            self.emit(name, text=text, timestamp=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    def drain(self, stream):
        """What the pipe holds now. Outside of an execution it waits for the next one."""
        while self.id:
            try:
                piece = os.read(stream.fd, PIECE)
            except BlockingIOError:
                return
            if not piece:
                return
            if len(piece) <= self.left:
                self.left -= len(piece)
                self.emit_text(stream.name, stream.decoder.decode(piece))
            elif self.left >= 0:
                self.emit_text(stream.name, stream.decoder.decode(piece[:self.left]))
                self.left = -1
                self.emit_text("stderr", f"[output was cut after {OUTPUT_MAX} bytes; "
                                         "SANDGLASS_OUTPUT_MAX in the context's environment sets another limit]\n")

    def drain_all(self):
        for stream in self.streams:
            self.drain(stream)

    def over(self):
        self.drain_all()
        for stream in self.streams:
            self.emit_text(stream.name, stream.decoder.decode(b"", final=True))
            stream.decoder.reset()
        self.emit("end_of_execution")
        self.id = None

    # ---- the interpreter ----

    def start(self, argv):
        ours_in, self.to = os.pipe2(os.O_CLOEXEC)
        self.heard, theirs_out = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.heard, False)
        self.is_ready = False
        self.child = os.fork()
        if not self.child:
            os.setpgid(0, 0)
            os.dup2(self.streams[0].far, 1)
            os.dup2(self.streams[1].far, 2)
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20) for fd in (ours_in, theirs_out)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            try:
                os.execv(argv[0], argv)
            except OSError as error:
                os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
            os._exit(127)
        with contextlib.suppress(OSError):  # whoever is first
            os.setpgid(self.child, self.child)
        os.close(ours_in)
        os.close(theirs_out)
        self.pidfd = os.pidfd_open(self.child)
        self.from_child = b""

    def tell(self, data):
        while data:
            data = data[os.write(self.to, data):]

    def die_like_it(self, status):
        """The daemon tells what happened from how we end."""
        for stream in self.streams:  # what it said last is why
            os.set_blocking(stream.fd, False)
            try:
                said = os.read(stream.fd, PIECE)
                if self.id:
                    self.emit_text(stream.name, stream.decoder.decode(said))
                else:
                    os.write(2, said)
            except BlockingIOError:
                pass
        if os.WIFSIGNALED(status):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) != signal.SIGKILL else None
            os.kill(os.getpid(), os.WTERMSIG(status))
        os._exit(os.WEXITSTATUS(status) or 1)

    def close_child(self):
        self.is_ready = False
        status = os.waitpid(self.child, 0)[1]
        for fd in (self.to, self.heard, self.pidfd):
            os.close(fd)
        return status

    # ---- turns ----

    def take_requests(self):
        piece = os.read(self.requests, 1 << 20)
        if not piece:
            os._exit(0)
        self.pending += piece

    def next_request(self):
        line, newline, rest = self.pending.partition(b"\n")
        if self.id or not newline:
            return False
        self.pending = rest
        request = json.loads(line)
        if request.get("op") == "execute":
            self.id = request["id"]
            self.left = OUTPUT_MAX
            self.drain_all()
            self.execute(request)
        elif request.get("op") == "env":
            self.environment(request.get("env") or {})
        return True

    def run(self):
        self.write(json.dumps({"type": "ready", "language": self.language}).encode() + b"\n")
        while True:
            while self.next_request():
                pass
            watched = [self.heard, self.pidfd]
            watched += [stream.fd for stream in self.streams] if self.id else [self.requests]
            try:
                ready = select.select(watched, [], [])[0]
            except InterruptedError:
                continue
            for stream in self.streams:
                if stream.fd in ready:
                    self.drain(stream)
            if self.requests in ready:
                self.take_requests()
            if self.heard in ready:
                try:
                    self.from_child += os.read(self.heard, 1 << 20)
                except BlockingIOError:
                    pass
                self.listen()
            if self.pidfd in ready:
                self.ended(self.close_child())
