# SPDX-License-Identifier: Apache-2.0
"""Start, cold or warm, and the loop over requests."""
import contextlib
import os
import signal
import sys

from . import late, results, shell
from .interrupts import interrupts
from .output import Pump
from .wire import MAX_LINE, Wire


@contextlib.contextmanager
def changed_environment(changes):
    before = {name: os.environ.get(name) for name in changes}
    set_environment(changes)
    try:
        yield
    finally:
        set_environment(before)


def set_environment(changes):
    for name, value in changes.items():
        try:
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[str(name)] = str(value)
        except (ValueError, OSError):
            pass  # a name with '=', a NUL: there is no such variable


class Kernel:
    """One context. Everything that belongs to a process, not to an image of one, begins in open()."""

    def __init__(self):
        self.wire = Wire()
        self.pump = Pump(self.wire)
        self.has_failed = False
        late.install()
        self.shell = shell.make(self)

    def open(self):
        interrupts.install()
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        self.wire.open()
        self.pump.open()
        os.dup2(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), 0, inheritable=True)
        os.register_at_fork(after_in_child=self._forked)
        sys.stdin = open(0, closefd=False)
        sys.stdout, sys.stderr = self.pump.streams[1], self.pump.streams[2]
        sys.path[0] = ""

    @staticmethod
    def _forked():
        if signal.getsignal(signal.SIGINT) == interrupts._arrived:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    # ---- what the shell tells ----

    def publish(self, bundle, is_main):
        self._flush()
        event = {"id": self.wire.id, "type": "result", **results.fields_of(bundle),
                 "is_main_result": is_main}
        self.wire.emit_line(results.fit(event, self.wire.encode, MAX_LINE))

    def fail(self, name, value, traceback):
        if self.has_failed:
            return  # the first is the cause
        self.has_failed = True
        self._flush()
        limit = MAX_LINE // 8
        self.wire.emit({"type": "error", "name": name, "value": value[:limit],
                        "traceback": traceback[-limit:]})

    def _flush(self):
        """What was printed before comes before."""
        if os.getpid() != self.wire.owner:
            return
        with interrupts:
            for stream in {sys.stdout, sys.stderr, *self.pump.streams.values()}:
                with contextlib.suppress(Exception):
                    stream.flush()
            self.pump.drain()

    # ---- requests ----

    def execute(self, request):
        self.wire.id = request.get("id")
        self.has_failed = False
        self.pump.begin()
        self.wire.emit({"type": "number_of_executions",
                        "execution_count": self.shell.execution_count})
        with changed_environment(request.get("env") or {}):
            self._run(str(request.get("code", "")))
        if os.getpid() != self.wire.owner:  # the code has forked, and this is the child
            os._exit(0)
        self._flush()
        self.pump.end()
        self.wire.emit({"type": "end_of_execution"})
        self.wire.id = None

    def _run(self, code):
        result = None
        try:
            try:
                interrupts.allow()
                result = self.shell.run_cell(code, store_history=True)
            finally:
                interrupts.depth = 1
        except KeyboardInterrupt:  # struck beside the code: before it began, after its end
            self.fail("KeyboardInterrupt", "", "KeyboardInterrupt")
        except BaseException as error:  # of the shell itself
            self._fail_plainly(error)
        interrupts.is_pending = False
        error = result and (result.error_before_exec or result.error_in_exec)
        if error:  # told already, unless the traceback could not be made
            self._fail_plainly(error)

    def _fail_plainly(self, error):
        name, value = type(error).__name__, shell.text_of(error)
        self.fail(name, value, f"{name}: {value}")

    def serve(self, start):
        self.wire.emit({"type": "ready", "language": "python", "start": start})
        operations = {"execute": self.execute,
                      "env": lambda request: set_environment(request.get("env") or {})}
        while (request := self.wire.read()) is not None:
            operation = operations.get(request.get("op"))
            if operation:
                operation(request)


def main(args):
    start = "cold"
    is_to_freeze = args[:1] == ["--freeze"]
    if is_to_freeze:
        os.closerange(3, 1 << 16)  # whoever gets the image has none of these
    kernel = Kernel()
    if is_to_freeze:
        from . import warm

        warm.freeze(kernel, args[1])  # comes back in another process, at another time
        start = "warm"
    kernel.open()
    kernel.serve(start)
    # Threads of the user's do not keep a kernel that nobody can talk to.
    os._exit(0)
