# SPDX-License-Identifier: Apache-2.0
"""What the official Python client of the code interpreter can do with a sandbox that is there.

    code.py SANDBOX          prints "ok NAME" or "not ok NAME" with the reason; exits 1 on any failure
"""
import base64
import sys
import threading
import time
import traceback

from e2b.exceptions import NotFoundException, TimeoutException
from e2b_code_interpreter import Sandbox
from e2b_code_interpreter.charts import (BarChart, BoxAndWhiskerChart, ChartType, LineChart, PieChart, ScatterChart,
                                         SuperChart)

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def raises(kind, function, *args, **kw):
    try:
        function(*args, **kw)
    except kind as error:
        return error
    raise AssertionError(f"{kind} was not raised")


def ran(box, code, **kw):
    done = box.run_code(code, **kw)
    assert not done.error, done.error
    return done


# ---- cells ----

@check
def state_stays_between_calls(box):
    ran(box, "x = 20")
    done = ran(box, "x += 1; x")
    assert done.text == "21" and done.execution_count >= 2, done


@check
def output_is_apart_and_whole(box):
    done = ran(box, "import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (done.logs.stdout, done.logs.stderr, done.results) == (["out\n"], ["err\n"], []), done.logs


@check
def callbacks_hear_it_as_it_happens(box):
    seen = []
    started = time.monotonic()
    ran(box, "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.4)\n'end'",
        on_stdout=lambda m: seen.append((m.line, time.monotonic() - started)), on_result=lambda r: seen.append((r.text, 0)))
    assert [row[0] for row in seen] == ["0\n", "1\n", "2\n", "end"], seen
    assert seen[2][1] - seen[0][1] > 0.5, seen


@check
def errors_have_name_value_and_traceback(box):
    heard = []
    done = box.run_code("def f():\n    return 1 / 0\nf()", on_error=heard.append)
    assert (done.error.name, done.error.value) == ("ZeroDivisionError", "division by zero"), done.error
    assert "return 1 / 0" in done.error.traceback and "\x1b[" not in done.error.traceback
    assert heard and heard[0].name == "ZeroDivisionError"
    assert box.run_code("x ===").error.name == "SyntaxError"
    assert box.run_code("raise KeyError('k')").error.value == "'k'"


@check
def magics_and_commands_work(box):
    assert ran(box, "!echo $((6 * 7))").logs.stdout == ["42\n"]
    ran(box, "%cd /tmp")
    assert ran(box, "import os; os.getcwd()").text == "/tmp"
    ran(box, "%cd -q ~")


@check
def environment_of_one_call(box):
    assert ran(box, "import os; os.environ.get('K')", envs={"K": "v"}).text == "v"
    assert ran(box, "os.environ.get('K', 'none')").text == "none"


@check
def input_is_refused_politely(box):
    assert box.run_code("input('name?')").error.name == "StdinNotImplementedError"


# ---- results ----

@check
def every_mime_type_arrives(box):
    done = ran(box, """
from IPython.display import display
bundle = {"text/plain": "t", "text/html": "<b>h</b>", "text/markdown": "# m", "image/svg+xml": "<svg/>",
          "image/png": "aWNv", "image/jpeg": "anBn", "application/pdf": "cGRm", "text/latex": "$l$",
          "application/json": {"j": [1]}, "application/javascript": "js()", "x-own/type": "o"}
display(bundle, raw=True)
""")
    got = done.results[0]
    assert (got.text, got.html, got.markdown, got.svg, got.png, got.jpeg, got.pdf, got.latex, got.json, got.javascript) == \
        ("t", "<b>h</b>", "# m", "<svg/>", "aWNv", "anBn", "cGRm", "$l$", {"j": [1]}, "js()"), got.__dict__
    assert got.extra == {"x-own/type": "o"} and not got.is_main_result


@check
def lists_and_frames_are_data(box):
    assert ran(box, "[1, {'a': None}]").results[0].json == [1, {"a": None}]
    got = ran(box, "import pandas as pd\npd.DataFrame({'n': [1, 2], 'd': pd.to_datetime(['2024-01-02', '2024-01-03'])})").results[0]
    assert got.data["n"] == [1, 2] and got.data["d"][0].startswith("2024-01-02T00:00:00"), got.data
    assert "<table" in got.html and got.is_main_result


@check
def pictures_are_shown(box):
    done = ran(box, "from PIL import Image\nimage = Image.new('RGB', (3, 2), 'red')\nimage")
    assert base64.b64decode(done.results[0].png).startswith(b"\x89PNG")


# ---- charts, against what they were drawn from ----

PLOT = "import matplotlib.pyplot as plt\nimport datetime\n"


def chart_of(box, code):
    results = ran(box, PLOT + code + "\nplt.show()").results
    assert len(results) == 1 and base64.b64decode(results[0].png).startswith(b"\x89PNG"), results
    return results[0].chart


@check
def a_line_chart(box):
    chart = chart_of(box, "fig, ax = plt.subplots()\nax.plot([1, 2, 3], [2, 4, 8], label='powers')\nax.plot([1, 2, 3], [1, 3, 1])\n"
                          "ax.set_title('T'); ax.set_xlabel('time (s)'); ax.set_ylabel('height [m]')")
    assert isinstance(chart, LineChart) and chart.type == ChartType.LINE and chart.title == "T"
    assert (chart.x_label, chart.y_label, chart.x_unit, chart.y_unit) == ("time (s)", "height [m]", "s", "m"), chart.to_dict()
    first = chart.elements[0]
    assert first.label == "powers" and [tuple(p) for p in first.points] == [(1, 2), (2, 4), (3, 8)], first.points
    assert chart.elements[1].label.startswith("Line ") and chart.x_scale == chart.y_scale == "linear"
    assert len(chart.x_ticks) == len(chart.x_tick_labels) > 1


@check
def a_line_chart_over_dates(box):
    chart = chart_of(box, "days = [datetime.date(2024, 1, d) for d in (1, 2, 3)]\nplt.plot(days, [1, 2, 3])\nplt.yscale('log')")
    assert isinstance(chart, LineChart) and chart.x_scale == "datetime" and chart.y_scale == "log", chart.to_dict()
    assert str(chart.elements[0].points[1][0]).startswith("2024-01-02") and chart.elements[0].points[1][1] == 2


@check
def a_scatter_chart(box):
    chart = chart_of(box, "plt.scatter([1, 2], [3, 4], label='a')\nplt.scatter([5], [6], label='b')")
    assert isinstance(chart, ScatterChart)
    assert [(e.label, [tuple(p) for p in e.points]) for e in chart.elements] == [("a", [(1, 3), (2, 4)]), ("b", [(5, 6)])]


@check
def a_bar_chart(box):
    chart = chart_of(box, "plt.bar(['x', 'y'], [10, 20], label='g')\nplt.ylabel('count')")
    assert isinstance(chart, BarChart) and chart.y_label == "count"
    assert [(e.label, e.group, float(e.value)) for e in chart.elements] == [("x", "g", 10.0), ("y", "g", 20.0)], chart.to_dict()


@check
def a_pie_chart(box):
    chart = chart_of(box, "plt.pie([1, 3], labels=['one', 'three'])\nplt.title('P')")
    assert isinstance(chart, PieChart) and chart.title == "P"
    assert [(e.label, round(float(e.angle)), round(float(e.radius))) for e in chart.elements] == [("one", 90, 1), ("three", 270, 1)]


@check
def a_box_and_whisker_chart(box):
    chart = chart_of(box, "plt.boxplot([[1, 2, 3, 4, 5], [10, 20, 30, 40, 500]], labels=['A', 'B'], patch_artist=True)")
    assert isinstance(chart, BoxAndWhiskerChart), chart.to_dict()
    a, b = chart.elements
    assert (a.label, a.min, a.first_quartile, a.median, a.third_quartile, a.max, list(a.outliers)) == ("A", 1, 2, 3, 4, 5, [])
    assert (b.median, b.first_quartile, b.third_quartile) == (30, 20, 40) and list(b.outliers) == [500], b.__dict__


@check
def a_superchart(box):
    chart = chart_of(box, "fig, axes = plt.subplots(1, 2)\nfig.suptitle('S')\naxes[0].plot([1, 2], [3, 4])\naxes[1].bar(['a'], [1])")
    assert isinstance(chart, SuperChart) and chart.title == "S"
    assert [element.type for element in chart.elements] == [ChartType.LINE, ChartType.BAR], chart.to_dict()


# ---- contexts ----

@check
def contexts_are_made_listed_restarted_and_removed(box):
    one = box.create_code_context(cwd="/tmp", language="python")
    assert (one.language, one.cwd) == ("python", "/tmp"), one.__dict__
    ran(box, "inside = 1", context=one)
    assert ran(box, "import os; os.getcwd()", context=one).text == "/tmp"
    assert box.run_code("inside").error.name == "NameError"
    listed = box.list_code_contexts()
    assert one.id in [c.id for c in listed] and {"python", "javascript"} <= {c.language for c in listed}
    box.restart_code_context(one.id)
    assert box.run_code("inside", context=one).error.name == "NameError"
    box.remove_code_context(one)
    assert one.id not in [c.id for c in box.list_code_contexts()]
    raises(NotFoundException, box.run_code, "1", context=one)
    raises(NotFoundException, box.remove_code_context, one.id)


@check
def other_languages(box):
    assert ran(box, "const y = 2; y * 21", language="javascript").text == "42"
    assert ran(box, "await Promise.resolve('ok')", language="js").text == "ok"
    ran(box, "z=7", language="bash")
    assert ran(box, "echo $z", language="bash").logs.stdout == ["7\n"]
    assert box.run_code("exit 3", language="bash").error.name == "SystemExit"


# ---- time ----

@check
def a_timeout_interrupts_and_the_next_call_works(box):
    ran(box, "kept = 'state'")
    raises(TimeoutException, box.run_code, "import time; time.sleep(300)", timeout=1)
    started = time.monotonic()
    assert ran(box, "kept", timeout=10).text == "state"
    assert time.monotonic() - started < 10


@check
def calls_at_once_queue(box):
    texts = []
    threads = [threading.Thread(target=lambda i=i: texts.append(ran(box, f"import time; time.sleep(0.1); {i}").text)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts) == ["0", "1", "2", "3"]


@check
def who_connects_again_finds_the_state(box):
    ran(box, "here = 'still'")
    assert ran(Sandbox.connect(box.sandbox_id), "here").text == "still"


# ---- disasters: each is answered, and the next call works ----

DISASTERS = {
    "import sys; sys.exit(3)": ("SystemExit", "3"),
    "import os; os._exit(1)": ("KernelDied", "status 1"),
    "import ctypes; ctypes.string_at(0)": ("KernelDied", "signal 11"),
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": ("KernelDied", "signal 9"),
    "raise KeyboardInterrupt": ("KeyboardInterrupt", ""),
    "def f(): f()\nf()": ("RecursionError", "maximum recursion"),
}


@check
def disasters_are_told_and_passed(box):
    for code, (name, words) in DISASTERS.items():
        done = box.run_code(code)
        assert done.error and done.error.name == name and words in done.error.value, (code, done.error)
        assert ran(box, "1 + 1").text == "2", code


@check
def closed_output_does_no_harm(box):
    box.run_code("import os, sys; sys.stdout.close(); os.close(1); os.close(2)")
    assert box.run_code("6 * 7").text == "42"
    context = box.create_code_context()
    assert ran(box, "print('fresh')", context=context).logs.stdout == ["fresh\n"]
    box.remove_code_context(context)


@check
def much_output_is_cut_and_framing_holds(box):
    done = box.run_code("import sys\nfor i in range(100): sys.stdout.write('x' * (1 << 20))\n'end'", timeout=60)
    assert done.text == "end" and sum(map(len, done.logs.stdout)) <= 64 << 20
    assert any("SANDGLASS_OUTPUT_MAX" in line or "cut" in line for line in done.logs.stderr), done.logs.stderr[-1:]
    assert ran(box, "'next'").text == "next"


def main():
    box = Sandbox.connect(sys.argv[1])
    failed = 0
    for function in CHECKS:
        try:
            function(box)
            print(f"ok {function.__name__}", flush=True)
        except Exception:  # noqa: BLE001 whatever it is, it is told
            failed += 1
            print(f"not ok {function.__name__}\n{traceback.format_exc()}", flush=True)
    # killed while it runs
    timer = threading.Timer(0.5, box.kill)
    timer.start()
    try:
        done = box.run_code("import time; time.sleep(30)", timeout=20)
        print(f"not ok a_killed_sandbox_is_told: {done}")
        failed += 1
    except Exception as error:  # noqa: BLE001 the clients of different ages tell it by different classes
        print(f"ok a_killed_sandbox_is_told ({type(error).__name__})")
    sys.exit(1 if failed else 0)


main()
