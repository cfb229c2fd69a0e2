# SPDX-License-Identifier: Apache-2.0
"""SIGINT ends the code of the user, and nothing of the kernel's own.

Python runs signal handlers between two bytecodes of the main thread, whatever these belong to. Ours
raises only while the user's code runs (`depth` 0) and outside of shields; otherwise it takes a note.
"""
import signal
import threading


class Interrupts:
    def __init__(self):
        self.depth = 1  # 0: the user's code runs. Changed by the main thread only.
        self.is_pending = False
        self.main = threading.get_ident()

    def install(self):
        self.main = threading.get_ident()
        signal.signal(signal.SIGINT, self._arrived)

    def _arrived(self, _number, _frame):
        if self.depth:
            self.is_pending = True
        else:
            raise KeyboardInterrupt

    def allow(self):
        """The caller sets `depth` back itself, by an assignment: a call could be interrupted."""
        self.depth = 0
        if self.is_pending:
            self.is_pending = False
            raise KeyboardInterrupt

    # `with interrupts:` is a shield. Nothing to shield in other threads: no handler runs there.

    def __enter__(self):
        if threading.get_ident() == self.main:
            self.depth += 1

    def __exit__(self, *_):
        if threading.get_ident() != self.main:
            return
        self.depth -= 1
        if self.depth == 0 and self.is_pending:
            self.is_pending = False
            raise KeyboardInterrupt


interrupts = Interrupts()
