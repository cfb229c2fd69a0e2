# SPDX-License-Identifier: Apache-2.0
"""The Python kernel of the code interpreter, without a sandbox around it."""
import base64
import json
import struct
import time

import pytest

from kernel import DRIVER, PYTHON, Kernel


@pytest.fixture(scope="module")
def kernel():
    with Kernel([PYTHON, DRIVER]) as one:
        yield one


@pytest.fixture
def fresh():
    with Kernel([PYTHON, DRIVER]) as one:
        yield one


def test_it_is_ready_counts_and_ends_with_its_input(fresh):
    assert fresh.ready == {"type": "ready", "language": "python", "start": "cold"}
    assert fresh.run("1 + 1") == [
        {"type": "number_of_executions", "execution_count": 1},
        {"type": "result", "text": "2", "extra": {}, "is_main_result": True},
        {"type": "end_of_execution"}]
    assert fresh.run("x = 5")[0]["execution_count"] == 2
    assert fresh.run("x").main["text"] == "5"
    assert fresh.end() == 0


def test_one_print_is_one_event(kernel):
    events = kernel.run("print('hello')")
    assert [event["text"] for event in events.of("stdout")] == ["hello\n"]
    assert events.of("stdout")[0]["timestamp"].endswith("Z")


def test_output_keeps_its_order_whoever_writes_it(kernel):
    events = kernel.run("import os, sys, ctypes\nprint('a')\nos.system('echo b')\nprint('c')\n"
                        "!echo d\nos.write(1, b'e\\n')\n"
                        "ctypes.CDLL(None).puts(b'f'); ctypes.CDLL(None).fflush(None)\n"
                        "sys.stdout.buffer.write(b'g\\n')\nprint('h', end='')\ndisplay(1)\nprint('i')")
    assert events.stdout == "a\nb\nc\nd\ne\nf\ng\nhi\n"
    kinds = [event["type"] for event in events]
    assert kinds.index("result") < len(kinds) - 2 - kinds[::-1].index("stdout") + 1


def test_a_line_that_is_not_finished_is_sent_while_the_code_runs(kernel):
    kernel.start("import time\nprint('working', end='')\nwhile True: time.sleep(0.01)")
    assert kernel.next()["type"] == "number_of_executions"
    assert kernel.next()["text"] == "working"
    kernel.interrupt()
    assert kernel.finish().error["name"] == "KeyboardInterrupt"


def test_stderr_is_told_apart(kernel):
    events = kernel.run("import sys, os\nprint('x', file=sys.stderr)\nos.system('echo y >&2')")
    assert (events.stdout, events.stderr) == ("", "x\ny\n")


def test_bytes_that_are_no_text_are_marked_and_characters_are_never_split(kernel):
    events = kernel.run("import os\nos.write(1, b'a\\xffb\\xe2\\x82'); None")
    assert events.stdout == "a\ufffdb\ufffd"
    events = kernel.run("print('\u20ac' * 100_000)")
    assert events.stdout == "\u20ac" * 100_000 + "\n"
    assert all(len(event["text"].encode()) <= 65536 for event in events.of("stdout"))


def test_much_output_is_cut_once_and_the_code_runs_on():
    with Kernel([PYTHON, DRIVER], env={"SANDGLASS_OUTPUT_MAX": "100000"}) as kernel:
        events = kernel.run("for _ in range(1000): print('x' * 999)\n!yes | head -c 100000000\n'done'")
        assert len(events.stdout) == 100_000
        assert events.stderr.count("output cut after 100000 bytes") == 1
        assert events.main["text"] == "done"
        assert kernel.run("print('again')").stdout == "again\n"


@pytest.mark.parametrize("code, name, value", [
    ("1 / 0", "ZeroDivisionError", "division by zero"),
    ("undefined", "NameError", "name 'undefined' is not defined"),
    ("def f(:", "SyntaxError", None),
    ("raise SystemExit(3)", "SystemExit", "3"),
    ("import sys; sys.exit()", "SystemExit", ""),
    ("exit()", "SystemExit", "0"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
    ("class E(Exception):\n  def __str__(self): 1/0\nraise E", "E", None),
    ("input('name?')", "StdinNotImplementedError", None),
    ("import getpass; getpass.getpass()", "StdinNotImplementedError", None),
    ("def f(): return f()\nf()", "RecursionError", None),
    ("%nosuchmagic", "UsageError", None),
], ids=["division", "name", "syntax", "exit 3", "exit", "quit", "interrupt", "unprintable", "input", "getpass",
        "recursion", "magic"])
def test_an_error_has_name_value_and_a_traceback_without_colours(kernel, code, name, value):
    events = kernel.run(code)
    if name == "UsageError" and not events.of("error"):
        assert "nosuchmagic" in events.stderr  # IPython prints it
    else:
        assert events.error["name"] == name
        assert value is None or events.error["value"] == value
        assert "\x1b" not in events.error["traceback"]
        assert name in events.error["traceback"] or name == "E"
    assert kernel.run("1").main["text"] == "1"


def test_input_is_refused_with_a_remedy(kernel):
    assert "environment variable" in kernel.run("input()").error["value"]


# ---- interrupts ----

@pytest.mark.parametrize("code", [
    "import time\nprint('go', flush=True)\ntime.sleep(600)",
    "print('go', flush=True)\nwhile True: pass",
    "print('go', flush=True)\n!sleep 600",
    "print('go', flush=True)\nwhile True: print('x')",
    "print('go', flush=True)\nwhile True: display(1)",
    "import asyncio\nprint('go', flush=True)\nawait asyncio.sleep(600)",
    "import threading\nprint('go', flush=True)\nthreading.Event().wait()",
], ids=["sleep", "loop", "command", "printing", "showing", "await", "lock"])
def test_an_interrupt_ends_the_code_and_the_kernel_goes_on(kernel, code):
    kernel.run("kept = 7")
    kernel.start(code)
    while kernel.next().get("text", "")[:2] != "go":
        pass
    kernel.interrupt()
    assert kernel.finish().error["name"] == "KeyboardInterrupt"
    assert kernel.run("kept").main["text"] == "7"


def test_interrupts_between_executions_are_nothing(kernel):
    for _ in range(20):
        kernel.interrupt()
    time.sleep(0.05)
    assert kernel.run("'fine'").main["text"] == "fine"


def test_interrupts_at_any_moment_leave_whole_events_and_one_end_each(fresh):
    code = "for i in range(50):\n  print(i)\n  display({'a': i})\nimport json; json.dumps([i])"
    fresh.run("1")
    for round in range(60):
        fresh.start(code)
        time.sleep(round / 60 * 0.02)
        fresh.interrupt()
        events = fresh.finish()
        assert events[-1]["type"] == "end_of_execution"
        assert len(events.of("error")) <= 1
        assert all(event["name"] == "KeyboardInterrupt" for event in events.of("error"))
    assert fresh.run("'alive'").main["text"] == "alive"


# ---- environment, directory, descriptors, processes ----

def test_variables_of_a_call_are_set_for_that_call(kernel):
    kernel.send({"op": "env", "env": {"ALWAYS": "1"}})
    code = "import os\n[os.environ.get(n) for n in ('ALWAYS', 'ONCE')]"
    assert kernel.run(code, env={"ONCE": "2", "ALWAYS": "3"}).main["json"] == ["3", "2"]
    assert kernel.run(code).main["json"] == ["1", None]
    assert kernel.run("!echo $ALWAYS").stdout == "1\n"


def test_the_directory_is_kept(kernel, tmp_path):
    kernel.run(f"%cd {tmp_path}")
    assert kernel.run("!pwd").stdout == f"{tmp_path}\n"
    (tmp_path / "here.py").write_text("value = 9\n")
    assert kernel.run("import here; here.value").main["text"] == "9"
    kernel.run("%cd /tmp")


@pytest.mark.parametrize("code", ["import os; os.close(1); os.close(2)",
                                  "import sys; sys.stdout.close(); sys.stderr.close()"],
                         ids=["descriptors", "streams"])
def test_code_that_closes_its_output_harms_only_itself(kernel, code):
    kernel.run(code)
    events = kernel.run("print('back')\n!echo here")
    assert events.stdout == "back\nhere\n"


def test_a_child_that_goes_on_with_our_code_says_nothing_and_ends(kernel):
    events = kernel.run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n'parent' if pid else 'child'")
    assert events.main["text"] == "parent"
    events = kernel.run("import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p:\n"
                        "    print(p.map(abs, [-1, -2]))")
    assert events.stdout == "[1, 2]\n"


def test_what_the_protocol_uses_is_not_passed_on(kernel):
    listed = kernel.run("!ls /proc/self/fd").stdout.split()
    assert [fd for fd in listed if int(fd) > 2] == ["3"]  # ls reads the directory


def test_lines_that_are_no_requests_are_passed_over(kernel):
    kernel.process.stdin.write(b"nonsense\n[1]\n{\"op\":\"other\"}\n\n")
    assert kernel.run("2").main["text"] == "2"


def test_the_death_of_the_process_is_the_end_of_events(fresh):
    fresh.start("import os; print('last words', flush=True); os._exit(3)")
    events = fresh.finish()
    assert "end_of_execution" not in {event["type"] for event in events}
    assert fresh.process.wait(timeout=60) == 3


# ---- results ----

def test_text_loses_one_pair_of_quotes(kernel):
    assert kernel.run("'it'").main["text"] == "it"
    assert kernel.run("\"it's\"").main["text"] == "it's"


@pytest.mark.parametrize("shown, field, value", [
    ("HTML('<b>x</b>')", "html", "<b>x</b>"),
    ("Markdown('# x')", "markdown", "# x"),
    ("SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')", "svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
    ("Latex('$x$')", "latex", "$x$"),
    ("Javascript('1')", "javascript", "1"),
    ("JSON({'a': [1]})", "json", {"a": [1]}),
], ids=lambda value: value if value in ("html", "markdown", "svg", "latex", "javascript", "json") else "")
def test_every_type_has_its_field(kernel, shown, field, value):
    kernel.run("from IPython.display import *")
    assert kernel.run(shown).main[field] == value
    results = kernel.run(f"display({shown}); None").results
    assert [(r[field], r["is_main_result"]) for r in results] == [(value, False)]


def test_images_and_pdf_are_base64(kernel):
    code = ("class Shown:\n    def _repr_mimebundle_(self, **_):\n        return {'image/jpeg': b'\\xff\\xd8',"
            " 'application/pdf': b'%PDF', 'image/png': 'iVBO\\nRw0K', 'text/x-own': 'mine', 'text/plain': 't'}\nShown()")
    result = kernel.run(code).main
    assert (result["jpeg"], result["pdf"], result["png"]) == ("/9g=", "JVBERg==", "iVBORw0K")
    assert result["extra"] == {"text/x-own": "mine"}


def test_pil_images_are_shown_also_when_they_are_saved(kernel, tmp_path):
    kernel.run("from PIL import Image\nimage = Image.new('RGB', (3, 2))")
    png = base64.b64decode(kernel.run("image").main["png"])
    assert struct.unpack(">II", png[16:24]) == (3, 2)
    assert len(kernel.run(f"image.save('{tmp_path}/x.png')").results) == 1
    assert (tmp_path / "x.png").exists()
    assert [r["is_main_result"] for r in kernel.run("image.show()").results] == [False]


def test_lists_and_dicts_are_json_where_json_can_hold_them(kernel):
    assert kernel.run("[1, 'a', None, 2.5, {'b': [True]}]").main["json"] == [1, "a", None, 2.5, {"b": [True]}]
    assert kernel.run("{1: float('nan'), 'x': float('inf')}").main["json"] == {"1": None, "x": None}
    assert "json" not in kernel.run("[object()]").main
    assert "json" not in kernel.run("a = []; a.append(a); a").main


def test_a_table_is_its_columns(kernel):
    result = kernel.run("import pandas as pd, numpy as np\n"
                        "pd.DataFrame({'n': [1, 2], 'f': [0.5, np.nan], 's': ['a', None],"
                        " 't': pd.to_datetime(['2024-01-02 03:04:05', None]), 'c': pd.Categorical(['x', 'y']),"
                        " 'd': pd.to_timedelta(['1s', '2s'])})").main
    assert result["data"] == {"n": [1, 2], "f": [0.5, None], "s": ["a", None], "t": ["2024-01-02T03:04:05", None],
                              "c": ["x", "y"], "d": ["0 days 00:00:01", "0 days 00:00:02"]}
    assert "<table" in result["html"] and result["text"]


def test_a_result_that_is_too_long_says_so(kernel):
    result = kernel.run("from IPython.display import HTML\nHTML('x' * (17 << 20))").main
    assert "html" not in result
    assert "at most 16 MiB" in result["text"]
    assert kernel.run("[('x' * 1000) for _ in range(20000)]").main["text"]


def test_a_semicolon_hides_a_value_and_underscore_has_it(kernel):
    assert not kernel.run("41 + 1;").results
    kernel.run("6 * 7")
    assert kernel.run("_").main["text"] == "42"


def test_a_thousand_executions_are_as_quick_as_one_and_leak_nothing(fresh):
    fds = "import os; len(os.listdir('/proc/self/fd'))"
    before = fresh.run(fds).main["text"]
    for _ in range(1000):
        assert fresh.run("print(1); [2]").main["json"] == [2]
    assert fresh.run(fds).main["text"] == before


def test_lines_are_json_for_every_reader(kernel):
    """No NaN, no lone surrogates, nothing that only Python's reader takes."""
    kernel.start("from IPython.display import display, JSON\ndisplay({'application/json': {'a': float('nan')},"
                 " 'text/plain': '\\ud800'}, raw=True)")
    while True:
        line = kernel.lines.get(timeout=60)
        event = json.loads(line.decode("utf-8"), parse_constant=lambda name: pytest.fail(name))
        if event["type"] == "end_of_execution":
            break
