# SPDX-License-Identifier: Apache-2.0
"""The data behind charts: every kind, each compared with what was drawn, not with what the driver
thinks of it. Expectations are written by hand from the numbers in the code."""
import math

import pytest

from kernel import DRIVER, PYTHON, Kernel

PLANE = {"type", "title", "elements", "x_label", "y_label", "x_unit", "y_unit"}
POINTS = PLANE | {"x_ticks", "x_tick_labels", "x_scale", "y_ticks", "y_tick_labels", "y_scale"}


@pytest.fixture(scope="module")
def kernel():
    with Kernel([PYTHON, DRIVER]) as one:
        one.run("import datetime\nimport numpy as np\nimport matplotlib.pyplot as plt")
        yield one


def chart(kernel, code):
    events = kernel.run(code + "\nplt.show()")
    assert not events.of("error"), events.error["traceback"]
    (shown,) = [result for result in events.results if "png" in result]
    assert shown["png"].startswith("iVBORw0KGgo")
    assert shown["text"].startswith("<Figure size")
    return shown["chart"]


def test_lines(kernel):
    found = chart(kernel, "plt.plot([1, 2, 3], [10, 20.5, 15], label='first')\nplt.plot([1, 2], [5, 6])\n"
                          "plt.axhline(12)\nplt.grid(True)\n"
                          "plt.title('T'); plt.xlabel('Time (s)'); plt.ylabel('Speed [m/s]')\n"
                          "plt.xticks([1, 2, 3]); plt.ylim(0, 30); plt.yticks([0, 15, 30])")
    assert found == {
        "type": "line", "title": "T", "x_label": "Time (s)", "y_label": "Speed [m/s]", "x_unit": "s",
        "y_unit": "m/s",
        "x_ticks": [1, 2, 3], "x_tick_labels": ["1", "2", "3"], "x_scale": "linear",
        "y_ticks": [0, 15, 30], "y_tick_labels": ["0", "15", "30"], "y_scale": "linear",
        "elements": [{"label": "first", "points": [[1, 10], [2, 20.5], [3, 15]]},
                     {"label": "Line 1", "points": [[1, 5], [2, 6]]}]}


def test_what_is_not_labelled_is_null(kernel):
    found = chart(kernel, "plt.plot([1, 2, 4])")
    assert [found[name] for name in ("title", "x_label", "y_label", "x_unit", "y_unit")] == [None] * 5
    assert set(found) == POINTS


@pytest.mark.parametrize("label, unit", [
    ("Mass (kg)", "kg"), ("Mass [kg]", "kg"), ("Mass(kg)", None), ("Mass", None), ("A (x) B (y)", "x"), ("()", None),
    ("Mass ()", None)])
def test_units(kernel, label, unit):
    assert chart(kernel, f"plt.plot([1, 2, 4]); plt.xlabel({label!r})")["x_unit"] == unit


@pytest.mark.parametrize("scale", ["log", "symlog", "logit", "asinh"])
def test_scales(kernel, scale):
    found = chart(kernel, f"plt.plot([1, 2, 3], [.1, .2, .9]); plt.yscale({scale!r})")
    assert (found["x_scale"], found["y_scale"]) == ("linear", scale)


def test_dates(kernel):
    found = chart(kernel, "days = [datetime.date(2024, 1, 1) + datetime.timedelta(n) for n in range(3)]\n"
                          "plt.plot(days, [1, 2, 4]); plt.xticks(days)")
    assert found["x_scale"] == "datetime"
    assert found["x_ticks"] == [f"2024-01-0{n}T00:00:00+00:00" for n in (1, 2, 3)]
    assert found["elements"][0]["points"] == [["2024-01-01", 1], ["2024-01-02", 2], ["2024-01-03", 4]]


def test_dates_of_numpy_and_pandas(kernel):
    found = chart(kernel, "plt.plot(np.array(['2024-01-01', '2024-01-02', '2024-01-03'], dtype='datetime64[D]'), [1, 2, 4])")
    assert found["x_scale"] == "datetime"
    assert found["elements"][0]["points"][1] == ["2024-01-02T00:00:00", 2]
    found = chart(kernel, "import pandas as pd\nplt.plot(pd.date_range('2024-01-01', periods=3), [1, 2, 4])")
    assert found["elements"][0]["points"][2][0].startswith("2024-01-03")


def test_categories(kernel):
    found = chart(kernel, "plt.plot(['a', 'b', 'c'], [1, 3, 2])")
    assert found["x_scale"] == "categorical"
    assert found["x_tick_labels"] == ["a", "b", "c"]
    assert found["elements"][0]["points"] == [["a", 1], ["b", 3], ["c", 2]]


def test_points_that_are_not_numbers_are_null(kernel):
    found = chart(kernel, "plt.plot([1, 2, 3], [1, float('nan'), 3])")
    assert found["elements"][0]["points"][1] == [2, None]


def test_scatter(kernel):
    found = chart(kernel, "plt.scatter([1, 2, 3], [4, 5.5, 6], label='dots')\nplt.scatter([1], [2], label='one')")
    assert found["type"] == "scatter" and set(found) == POINTS
    assert found["elements"] == [{"label": "dots", "points": [[1, 4], [2, 5.5], [3, 6]]},
                                 {"label": "one", "points": [[1, 2]]}]


def test_bars(kernel):
    found = chart(kernel, "plt.bar(['a', 'b', 'c'], [3, 1, 2], label='sold')\nplt.xlabel('Shop'); plt.ylabel('Sum (EUR)')")
    assert found == {"type": "bar", "title": None, "x_label": "Shop", "y_label": "Sum (EUR)", "x_unit": None,
                     "y_unit": "EUR",
                     "elements": [{"label": "a", "group": "sold", "value": 3},
                                  {"label": "b", "group": "sold", "value": 1},
                                  {"label": "c", "group": "sold", "value": 2}]}


def test_groups_of_bars(kernel):
    found = chart(kernel, "at = np.arange(2)\nplt.bar(at - .2, [1, 2], .4)\nplt.bar(at + .2, [3, 4], .4)\n"
                          "plt.xticks(at, ['x', 'y'])")
    assert [(e["label"], e["group"], e["value"]) for e in found["elements"]] == [
        ("x", "Group 0", 1), ("y", "Group 0", 2), ("x", "Group 1", 3), ("y", "Group 1", 4)]


def test_flat_bars_swap_the_labels(kernel):
    found = chart(kernel, "plt.barh(['a', 'b'], [3, 1]); plt.xlabel('Sum (EUR)'); plt.ylabel('Shop')")
    assert (found["x_label"], found["y_label"], found["y_unit"]) == ("Shop", "Sum (EUR)", "EUR")
    assert [(e["label"], e["value"]) for e in found["elements"]] == [("a", 3), ("b", 1)]


def test_one_bar_and_equal_bars_stand_upright(kernel):
    assert chart(kernel, "plt.bar(['only'], [5])")["elements"] == [
        {"label": "only", "group": "Group 0", "value": 5}]
    assert [e["value"] for e in chart(kernel, "plt.bar(['a', 'b'], [2, 2])")["elements"]] == [2, 2]


def test_pie(kernel):
    found = chart(kernel, "plt.pie([1, 1, 2], labels=['x', 'y', 'z']); plt.title('Parts')")
    assert found == {"type": "pie", "title": "Parts", "elements": [
        {"label": "x", "angle": 90, "radius": 1}, {"label": "y", "angle": 90, "radius": 1},
        {"label": "z", "angle": 180, "radius": 1}]}


def test_pie_with_numbers_in_it(kernel):
    found = chart(kernel, "plt.pie([30, 70], labels=['x', 'y'], autopct='%1.0f%%', radius=1.2)")
    assert found["type"] == "pie"
    assert [round(e["angle"], 4) for e in found["elements"]] == [108, 252]
    assert all(math.isclose(e["radius"], 1.2) for e in found["elements"])


BOXES = "[[1, 2, 3, 4, 5], [10, 20, 30, 40, 50, 200]]"


def test_boxes(kernel):
    """Quartiles by linear interpolation, whiskers to the last value within 1.5 times their distance."""
    found = chart(kernel, f"plt.boxplot({BOXES}, labels=['a', 'b'], patch_artist=True); plt.ylabel('V [mV]')")
    assert found == {"type": "box_and_whisker", "title": None, "x_label": None, "y_label": "V [mV]",
                     "x_unit": None, "y_unit": "mV", "elements": [
        {"label": "a", "min": 1, "first_quartile": 2, "median": 3, "third_quartile": 4, "max": 5, "outliers": []},
        {"label": "b", "min": 10, "first_quartile": 22.5, "median": 35, "third_quartile": 47.5, "max": 50,
         "outliers": [200]}]}


def test_flat_boxes(kernel):
    found = chart(kernel, f"plt.boxplot({BOXES}, labels=['a', 'b'], patch_artist=True, vert=False); plt.xlabel('V [mV]')")
    assert (found["y_label"], found["y_unit"]) == ("V [mV]", "mV")
    assert [(e["label"], e["min"], e["median"], e["max"], e["outliers"]) for e in found["elements"]] == [
        ("a", 1, 3, 5, []), ("b", 10, 35, 50, [200])]


def test_a_single_box(kernel):
    (box,) = chart(kernel, "plt.boxplot([0.1, 0.2, 0.3, 0.4, 0.5], patch_artist=True)")["elements"]
    assert box == {"label": "1", "min": 0.1, "first_quartile": 0.2, "median": 0.3, "third_quartile": 0.4, "max": 0.5,
                   "outliers": []}


def test_several_axes_are_a_superchart(kernel):
    found = chart(kernel, "fig, (a, b) = plt.subplots(1, 2)\na.plot([1, 2, 4]); b.bar(['x'], [1])\n"
                          "a.set_title('left'); fig.suptitle('both')")
    assert (found["type"], found["title"]) == ("superchart", "both")
    assert [(part["type"], part["title"]) for part in found["elements"]] == [("line", "left"), ("bar", None)]


def test_what_is_none_of_these_is_unknown(kernel):
    assert chart(kernel, "plt.imshow([[1, 2], [3, 4]]); plt.title('picture')") == {
        "type": "unknown", "title": "picture", "elements": []}


def test_a_figure_without_data_has_no_chart(kernel):
    assert chart(kernel, "plt.subplots()") == {}


def test_text_and_grid_do_not_count(kernel):
    assert chart(kernel, "plt.scatter([1, 2], [3, 4]); plt.axvline(1.5); plt.text(1, 3, 'note')")["type"] == "scatter"


def test_a_figure_is_shown_once(kernel):
    events = kernel.run("plt.plot([1, 2, 4])\nplt.gcf()")
    assert [r["is_main_result"] for r in events.results if "png" in r] == [True]
    assert not kernel.run("1").results[1:]
    events = kernel.run("plt.plot([1, 2, 4]);")
    assert [r["is_main_result"] for r in events.results if "png" in r] == [False]
    events = kernel.run("for n in range(3):\n    plt.figure(); plt.plot([n, 2, 4]); plt.show()")
    assert [r["chart"]["elements"][0]["points"][0][1] for r in events.results] == [0, 1, 2]
