# SPDX-License-Identifier: Apache-2.0
"""What code prints becomes events, whichever way it goes: Python's print, `!ls`, printf of C code.

Descriptors 1 and 2 are pipes, which a thread empties. Python's own streams write whole lines there,
so that everything keeps its order; the beginning of a line waits in the stream for its end, or for
the thread to take it a moment later.

Whoever has written something can be sure to have it sent by drain(): what a pipe holds is taken by
the caller itself, so there is nothing to wait for.
"""
import codecs
import fcntl
import io
import os
import select
import threading
import time

from .interrupts import interrupts

CHUNK = 64 << 10  # bytes of text in an event, at most
PIPE = 1 << 20    # what C code can print while it keeps the interpreter's lock
LINE_WAIT = 0.02  # seconds that the beginning of a line waits for the rest
DEFAULT_MAX = 64 << 20
NAMES = {1: "stdout", 2: "stderr"}


def timestamp():
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}Z"


def pieces(text):
    """Parts of at most CHUNK bytes each, as UTF-8."""
    step = CHUNK if text.isascii() else CHUNK // 4
    return (text[at:at + step] for at in range(0, len(text), step))


class Stream(io.TextIOBase):
    """sys.stdout and sys.stderr. Closing it does nothing: the next execution wants to print, too."""

    def __init__(self, fd, pump):
        self.fd = fd
        self.pump = pump
        self.pending = ""
        self.name = f"<{NAMES[fd]}>"

    encoding = "utf-8"
    errors = "backslashreplace"

    def fileno(self):
        return self.fd

    def isatty(self):
        return False

    def writable(self):
        return True

    def close(self):
        pass

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        with self.pump.lock:
            self.pending += text
            has_line = "\n" in text or len(self.pending) > 8192
        if has_line:
            self.flush()
        elif text:
            self.pump.poke()
        return len(text)

    def flush(self):
        with self.pump.lock:
            text, self.pending = self.pending, ""
        data = memoryview(text.encode("utf-8", "backslashreplace"))
        try:
            while data:
                data = data[os.write(self.fd, data):]
        except OSError:  # the code has closed it
            self.pump.send(self.fd, bytes(data))

    @property
    def buffer(self):
        return Bytes(self)


class Bytes(io.RawIOBase):
    """sys.stdout.buffer"""

    def __init__(self, stream):
        self.stream = stream

    def fileno(self):
        return self.stream.fd

    def writable(self):
        return True

    def close(self):
        pass

    def write(self, data):
        self.stream.flush()
        data = memoryview(data).cast("B")
        left = data
        try:
            while left:
                left = left[os.write(self.stream.fd, left):]
        except OSError:
            self.stream.pump.send(self.stream.fd, bytes(left))
        return len(data)


class Pump:
    def __init__(self, wire):
        self.wire = wire
        self.lock = threading.Lock()
        self.streams = {fd: Stream(fd, self) for fd in NAMES}
        self.near = {}  # fd -> the end that is read
        self.far = {}   # fd -> a spare of the other end: the pipe never ends, and can be put back
        self.decoders = {}
        self.left = 0   # bytes that this execution may still print; None: it was cut
        self.max = DEFAULT_MAX
        self.is_poked = False
        self.wake = -1

    def open(self):
        """Takes over descriptors 1 and 2, and starts the thread."""
        self.max = self._read_max()
        self.wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        for fd in NAMES:
            near, far = os.pipe()
            self.near[fd] = fcntl.fcntl(near, fcntl.F_DUPFD_CLOEXEC, 200)
            self.far[fd] = fcntl.fcntl(far, fcntl.F_DUPFD_CLOEXEC, 200)
            os.set_blocking(self.near[fd], False)
            try:
                fcntl.fcntl(far, fcntl.F_SETPIPE_SZ, PIPE)
            except OSError:
                pass  # this user has many pipes already; the usual size works, too
            os.dup2(far, fd, inheritable=True)
            os.close(near)
            os.close(far)
            self._fresh_decoder(fd)
        os.register_at_fork(after_in_child=self._forked)
        before = threading.stack_size(256 << 10)
        threading.Thread(target=self._run, name="output", daemon=True).start()
        threading.stack_size(before)

    @staticmethod
    def _read_max():
        try:
            return max(0, int(os.environ["SANDGLASS_OUTPUT_MAX"]))
        except (KeyError, ValueError):
            return DEFAULT_MAX

    def _forked(self):
        self.lock = threading.Lock()
        self.is_poked = True  # no thread here: what is pending goes when it is flushed
        for stream in self.streams.values():
            stream.pending = ""  # the parent prints that

    def _fresh_decoder(self, fd):
        self.decoders[fd] = codecs.getincrementaldecoder("utf-8")("replace")

    def poke(self):
        if not self.is_poked:
            self.is_poked = True
            os.eventfd_write(self.wake, 1)

    def _run(self):
        poll = select.poll()
        for fd in (self.wake, *self.near.values()):
            poll.register(fd, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll()]
            if self.wake in ready:
                os.eventfd_read(self.wake)
                time.sleep(LINE_WAIT)
                self.is_poked = False
            self.drain(with_lines=self.wake in ready)

    def drain(self, with_lines=True):
        """Sends all that was printed until now."""
        with interrupts, self.lock:
            for fd in NAMES:
                self._move(fd)
            for fd, stream in self.streams.items() if with_lines else ():
                text, stream.pending = stream.pending, ""
                if text:
                    self._send(fd, text.encode("utf-8", "backslashreplace"))

    def _move(self, fd):
        # A writer that never stops must not keep the caller here: one pipe's worth, and some.
        for _ in range(2 * PIPE // CHUNK):
            try:
                data = os.read(self.near[fd], CHUNK)
            except BlockingIOError:
                return
            self._send(fd, data)

    def send(self, fd, data):
        with interrupts, self.lock:
            self._move(fd)
            self._send(fd, data)

    def _send(self, fd, data, is_last=False):
        if self.wire.id is None or self.left is None:
            return  # printed by something in the background, while nobody listens; or too much
        kept = data[:self.left]
        self.left -= len(kept)
        self._emit(fd, self.decoders[fd].decode(kept, is_last))
        if len(kept) < len(data):
            self.left = None
            self._emit(2, f"\n[output cut after {self.max} bytes; the code runs on. "
                          "SANDGLASS_OUTPUT_MAX in the context's environment raises the limit; "
                          "a file has none]\n")

    def _emit(self, fd, text):
        for piece in pieces(text):
            self.wire.emit({"type": NAMES[fd], "text": piece, "timestamp": timestamp()})

    def begin(self):
        """A new execution: its output starts here. What was printed in between is nobody's."""
        self.drain()
        self.left = self.max

    def end(self):
        self.drain()
        with interrupts, self.lock:
            for fd in NAMES:
                self._send(fd, b"", is_last=True)
                self._fresh_decoder(fd)
                self._put_back(fd)

    def _put_back(self, fd):
        try:
            os.fstat(fd)
        except OSError:
            os.dup2(self.far[fd], fd, inheritable=True)
