# SPDX-License-Identifier: Apache-2.0
"""`sandglass run --tty` and `sandglass shell` on a terminal: a real pty, driven from here."""
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import sg

SECONDS = 15


class Terminal:
    """A program on a terminal of its own; `expect` reads until the text has come."""

    def __init__(self, runner, *args, rows=30, cols=100, program=sg.BIN):
        self.master, self.slave = pty.openpty()
        self.resize(rows, cols)
        self.before = termios.tcgetattr(self.slave)
        self.process = runner.popen(program, *args, stdin=self.slave, stdout=self.slave,
                                    stderr=self.slave, preexec_fn=self.take_terminal,
                                    env={"TERM": "xterm", "PS1": "$ "})
        self.seen = ""

    def take_terminal(self):
        os.setsid()
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def resize(self, rows, cols):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def read_some(self, deadline):
        ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"nothing more came; so far: {self.seen!r}"
        try:
            data = os.read(self.master, 65536)
        except OSError:
            data = b""
        assert data, f"the terminal was closed; so far: {self.seen!r}"
        self.seen += data.decode(errors="replace")

    def expect(self, text):
        deadline = time.monotonic() + SECONDS
        while text not in self.seen:
            self.read_some(deadline)
        found, self.seen = self.seen.split(text, 1)
        return found + text

    def wait(self):
        """The exit code; output that still comes is read, so that nobody waits for us."""
        deadline = time.monotonic() + SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still running; so far: {self.seen!r}"
            if select.select([self.master], [], [], 0.02)[0]:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
        while select.select([self.master], [], [], 0)[0]:
            self.seen += os.read(self.master, 65536).decode(errors="replace")
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.slave)
        os.close(self.master)


@contextlib.contextmanager
def terminal(runner, *args, **kw):
    t = Terminal(runner, *args, **kw)
    try:
        yield t
    finally:
        t.close()


def test_a_command_on_a_terminal_gets_one_without_asking(runner):
    with terminal(runner, "run", "--", "sh", "-c", "tty; test -t 0 && test -t 1 && test -t 2; echo rc=$?") as t:
        t.expect("/dev/pts/0")
        t.expect("rc=0")
        assert t.wait() == 0


def test_what_is_typed_is_echoed_once_and_read(runner):
    with terminal(runner, "run", "--", "sh", "-c", "echo ready; exec cat") as t:
        t.expect("ready\r\n")
        t.type("hello\r")
        t.expect("hello\r\nhello\r\n")
        t.type("\x04")
        assert t.wait() == 0 and "hello" not in t.seen


def test_output_has_the_line_ends_of_a_terminal_and_no_more(root):
    with terminal(root, "run", "--", "printf", "a\\nb\\n") as t:
        assert t.wait() == 0
        assert t.seen == "a\r\nb\r\n"


def test_control_c_reaches_the_command_and_not_us(runner):
    with terminal(runner, "run", "--", "sh", "-c", "trap 'echo caught; exit 3' INT; echo ready; "
                  "while :; do sleep 0.05; done") as t:
        t.expect("ready")
        t.type("\x03")
        t.expect("caught")
        assert t.wait() == 3


def test_control_c_ends_a_command_that_has_no_handler(root):
    with terminal(root, "run", "--", "sh", "-c", "echo ready; exec sleep 60") as t:
        t.expect("ready")
        t.type("\x03")
        assert t.wait() == 128 + signal.SIGINT


def test_the_size_is_ours_and_follows(runner):
    script = "stty size; trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done"
    with terminal(runner, "run", "--", "bash", "-c", script, rows=33, cols=77) as t:
        t.expect("33 77")
        t.expect("ready")
        t.resize(44, 111)
        os.kill(t.process.pid, signal.SIGWINCH)  # our own end is no session leader's terminal
        t.expect("44 111")


def test_bash_has_job_control(root):
    with terminal(root, "run", "--", "bash", "--norc", "--noprofile", "-i") as t:
        before = t.expect("$ ")
        assert "job control" not in before and "ioctl" not in before
        t.type("sleep 60\r")
        t.expect("sleep 60\r\n")
        time.sleep(0.3)  # until it is in the foreground there is nothing to wait for
        t.type("\x1a")
        t.expect("Stopped")
        t.type("bg; jobs\r")
        t.expect("Running")
        t.type("fg\r")
        t.expect("fg\r\n")
        t.expect("sleep 60")
        time.sleep(0.3)
        t.type("\x03")
        t.type("echo stat=$?\r")
        t.expect("stat=130")
        t.type("exit 5\r")
        assert t.wait() == 5


def test_the_terminal_is_as_before_when_the_command_ends(runner):
    for script in ("exit 0", "stty raw -echo; exit 1", "kill -9 $$"):
        with terminal(runner, "run", "--", "sh", "-c", script) as t:
            t.wait()
            assert termios.tcgetattr(t.slave) == t.before, script


def test_the_terminal_is_as_before_after_a_timeout_and_a_failed_start(root):
    for args in (["--timeout", "200ms", "--", "sleep", "60"], ["--", "no-such-command"],
                 ["--template", "/no/such/dir", "--", "true"]):
        with terminal(root, "run", *args) as t:
            t.wait()
            assert termios.tcgetattr(t.slave) == t.before, args


def test_the_terminal_is_as_before_after_a_signal_to_us(root):
    with terminal(root, "run", "--", "sh", "-c", "echo ready; exec sleep 60") as t:
        t.expect("ready")
        t.process.send_signal(signal.SIGTERM)
        assert t.wait() == 128 + signal.SIGTERM
        assert termios.tcgetattr(t.slave) == t.before


def test_a_terminal_that_hangs_up_ends_the_command(root):
    t = Terminal(root, "run", "--", "sh", "-c", "echo ready; exec sleep 60")
    t.expect("ready")
    os.close(t.slave)
    os.close(t.master)
    t.process.wait(timeout=SECONDS)
    assert t.process.returncode == 128 + signal.SIGHUP


def test_no_tty_means_pipes_even_on_a_terminal(root):
    with terminal(root, "run", "--no-tty", "--", "sh", "-c", "test -t 1; echo rc=$?") as t:
        t.expect("rc=1")
        assert t.wait() == 0


def test_a_terminal_can_be_had_without_one_of_our_own(runner):
    done = runner.sandglass("run", "--tty", "--", "sh", "-c", "test -t 1 && tty && stty size")
    assert done.stdout.split() == ["/dev/pts/0", "24", "80"], done.stderr


def test_much_output_on_a_terminal_arrives_whole(root):
    with terminal(root, "run", "--", "seq", "200000") as t:
        assert t.wait() == 0
        lines = t.seen.split("\r\n")
        assert lines[0] == "1" and lines[199999] == "200000" and lines[200000] == ""


def test_the_shell_is_a_login_shell_of_the_user_inside(runner):
    with terminal(runner, "shell") as t:
        t.type("echo home=$HOME; shopt -q login_shell 2>/dev/null; exit 6\r")
        t.expect("home=/home/user")
        assert t.wait() == 6


def test_the_terminal_inside_is_not_ours(root):
    """TIOCSTI, and whatever else is done to it, stays on the inner side."""
    script = ("import fcntl, termios\n"
              "try:\n"
              "    fcntl.ioctl(0, termios.TIOCSTI, b'x')\n"
              "    print('typed')\n"
              "except OSError as e:\n"
              "    print('refused', e.errno)\n")
    with terminal(root, "run", "--", "python3", "-c", script) as t:
        t.expect("refused")
        assert t.wait() == 0


def test_a_stopped_program_goes_on_when_it_is_continued(root):
    with terminal(root, "run", "--", "sh", "-c", "echo ready; exec cat") as t:
        t.expect("ready\r\n")
        t.type("one\r")
        t.expect("one\r\none\r\n")
        t.process.send_signal(signal.SIGSTOP)
        os.waitpid(t.process.pid, os.WUNTRACED)
        t.process.send_signal(signal.SIGCONT)
        t.type("two\r")
        t.expect("two\r\ntwo\r\n")
        t.type("\x04")
        assert t.wait() == 0


def test_input_that_is_no_terminal_is_passed_on_with_tty(root):
    done = root.sandglass("run", "--tty", "--", "sh", "-c", "read a; echo got $a", input="word\n",
                          stderr=subprocess.STDOUT, stdout=subprocess.PIPE)
    assert "got word" in done.stdout
