# SPDX-License-Identifier: Apache-2.0
"""What a matplotlib figure shows, as data.

A figure with one pair of axes is a chart, one with several is a `superchart` of them. What kind of
chart it is follows from the artists in it: CLASSES, first match. Numbers of boxes and wedges come
out of drawing coordinates; they are rounded to eight significant digits behind the point of their
own magnitude, so that a median of 3 is 3.
"""
import math
import re

from .results import plain

UNIT = re.compile(r"\s\((.*?)\)|\[(.*?)\]")


def _or_none(text):
    return text or None


def _unit(label):
    found = UNIT.search(label)
    return (found[1] or found[2] or None) if found else None


def _neat(number):
    """Without what drawing added in the last binary digits."""
    number = float(number)
    if number == 0 or not math.isfinite(number):
        return plain(number)
    digits = max(1, 8 - math.floor(math.log10(abs(number))))
    return float(f"{number:.{digits}g}")


def _texts(labels):
    return [label.get_text() for label in labels]


def _is_grid_line(line):
    xs, ys = line.get_xdata(), line.get_ydata()
    return len(xs) == 2 and len(ys) == 2 and bool(xs[0] == xs[1] or ys[0] == ys[1])


# ---- labels, units, ticks ----

def _head(kind, axes):
    return {"type": kind, "title": _or_none(axes.get_title()), "elements": []}


def _plane(kind, axes, is_swapped=False):
    x, y = axes.get_xlabel(), axes.get_ylabel()
    if is_swapped:
        x, y = y, x
    return {**_head(kind, axes), "x_label": _or_none(x), "y_label": _or_none(y),
            "x_unit": _unit(x), "y_unit": _unit(y)}


def _is_date_axis(axis):
    from matplotlib import dates

    converter = getattr(axis, "_converter", None) or getattr(axis, "converter", None)
    return isinstance(converter, (dates._SwitchableDateConverter, dates.DateConverter)) or \
        isinstance(axis.get_major_locator(), dates.DateLocator)


def _ticks(axis):
    from matplotlib import dates

    places = axis.get_majorticklocs()
    if _is_date_axis(axis):
        return [dates.num2date(place).isoformat() for place in places]
    return plain(list(places), is_strict=False)


def _scale(axis, ticks, labels):
    if _is_date_axis(axis):
        return "datetime"
    scale = axis.get_scale()
    if scale != "linear":
        return scale
    # Categories stand at 0, 1, 2 and so on, and are not called that.
    is_named = all(tick == at and label != str(at)
                   for at, (tick, label) in enumerate(zip(ticks, labels)))
    return "categorical" if is_named else "linear"


def _points(kind, axes):
    chart = _plane(kind, axes)
    for name, axis in ("x", axes.xaxis), ("y", axes.yaxis):
        ticks, labels = _ticks(axis), _texts(axis.get_ticklabels())
        chart[f"{name}_ticks"] = ticks
        chart[f"{name}_tick_labels"] = labels
        chart[f"{name}_scale"] = _scale(axis, ticks, labels)
    return chart


# ---- the kinds ----

def _own_name(label, prefix, name):
    """Matplotlib calls what has no label _child3 or _container3."""
    number = label[len(prefix):]
    return f"{name} {number}" if label.startswith(prefix) and number.isdigit() else label


def _line(axes):
    chart = _points("line", axes)
    for line in axes.get_lines():
        if _is_grid_line(line):
            continue
        chart["elements"].append({
            "label": _own_name(str(line.get_label()), "_child", "Line"),
            "points": [[plain(x, False), plain(y, False)]
                       for x, y in zip(line.get_xdata(), line.get_ydata())]})
    return chart


def _scatter(axes):
    chart = _points("scatter", axes)
    dates = [_is_date_axis(axis) for axis in (axes.xaxis, axes.yaxis)]
    for collection in axes.collections:
        chart["elements"].append({
            "label": str(collection.get_label()),
            "points": [[_place(value, is_date) for value, is_date in zip(point, dates)]
                       for point in collection.get_offsets().tolist()]})
    return chart


def _place(value, is_date):
    from matplotlib import dates

    return dates.num2date(value).isoformat() if is_date and value is not None else plain(value)


def _bar(axes):
    from matplotlib.container import BarContainer

    containers = [c for c in axes.containers if isinstance(c, BarContainer)]
    is_flat = any(container.orientation == "horizontal" for container in containers)
    chart = _plane("bar", axes, is_swapped=is_flat)
    axis = axes.yaxis if is_flat else axes.xaxis
    labels = dict(zip((_neat(place) for place in axis.get_majorticklocs()),
                      _texts(axis.get_ticklabels())))
    names = _texts(axis.get_ticklabels())
    for container in containers:
        group = _own_name(str(container.get_label()), "_container", "Group")
        for at, bar in enumerate(container):
            middle = bar.get_y() + bar.get_height() / 2 if is_flat else bar.get_x() + bar.get_width() / 2
            by_order = names[at] if at < len(names) and len(names) == len(container) else None
            label = by_order if by_order is not None else labels.get(_neat(middle), f"{_neat(middle):g}")
            value = bar.get_width() if is_flat else bar.get_height()
            chart["elements"].append({"label": label, "group": group, "value": plain(float(value))})
    return chart


def _pie(axes):
    chart = _head("pie", axes)
    for wedge in axes.patches:
        chart["elements"].append({"label": str(wedge.get_label()),
                                  "angle": abs(_neat(float(wedge.theta2) - float(wedge.theta1))),
                                  "radius": plain(float(wedge.r))})
    return chart


class _Box:
    """`across`: where it stands; `along`: the values."""

    def __init__(self, label, across, along):
        self.label = label
        self.left, self.right = min(across), max(across)
        self.low, self.high = min(along), max(along)
        self.median = None
        self.least, self.most = self.low, self.high  # without whiskers: the box itself
        self.outliers = []

    def has(self, places):
        return all(self.left <= place <= self.right for place in places)

    def add(self, across, along):
        """A line: whisker, cap, median or fliers."""
        if len(along) == 2 and across[0] == across[1]:
            if max(along) == self.low:
                self.least = min(along)
            elif min(along) == self.high:
                self.most = max(along)
        elif len(along) == 2 and along[0] == along[1]:
            if self.low <= along[0] <= self.high and (across[0], across[1]) == (self.left, self.right):
                self.median = along[0]

    def element(self):
        return {"label": self.label, "min": self.least, "first_quartile": self.low,
                "median": self.median, "third_quartile": self.high, "max": self.most,
                "outliers": self.outliers}


def _is_flier_line(line):
    return line.get_linestyle() == "None" and line.get_marker() not in ("None", "", " ", None)


def _box_and_whisker(axes):
    shapes = [[[_neat(v) for v in column] for column in box.get_path().vertices.T]
              for box in axes.patches]
    # The width of a box is the same for all, its length is not; a single one tells by its median.
    is_flat = _are_flat(shapes, axes)
    chart = _plane("box_and_whisker", axes, is_swapped=is_flat)
    axis = axes.yaxis if is_flat else axes.xaxis
    names = _texts(axis.get_ticklabels())
    boxes = []
    for at, (xs, ys) in enumerate(shapes):
        across, along = (ys, xs) if is_flat else (xs, ys)
        boxes.append(_Box(names[at] if at < len(names) else str(at + 1), across, along))
    for line in axes.lines:
        across, along = ([_neat(v) for v in data] for data in (line.get_xdata(), line.get_ydata()))
        if is_flat:
            across, along = along, across
        box = next((b for b in boxes if across and b.has(across)), None)
        if box is None:
            continue
        if _is_flier_line(line):
            box.outliers.extend(along)
        else:
            box.add(across, along)
    chart["elements"] = [box.element() for box in boxes]
    return chart


def _are_flat(shapes, axes):
    """Medians of upright boxes lie level, and as wide as a box."""
    for xs, ys in shapes:
        left, right, low, high = min(xs), max(xs), min(ys), max(ys)
        for line in axes.lines:
            lx, ly = ([_neat(v) for v in data] for data in (line.get_xdata(), line.get_ydata()))
            if len(lx) != 2:
                continue
            if lx[0] == lx[1] and left <= lx[0] <= right and sorted(ly) == [low, high]:
                return True
    return False


def _classes():
    """Kind, which artists make it, and whether lines of a grid are overlooked."""
    from matplotlib.collections import PathCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import PathPatch, Rectangle, Wedge

    return ((_line, Line2D, False), (_box_and_whisker, (PathPatch, Line2D), False),
            (_scatter, PathCollection, True), (_pie, Wedge, True), (_bar, Rectangle, True))


def _chart(axes):
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    artists = [a for a in axes.get_children() if a in axes._children and not isinstance(a, Text)]
    no_grid = [a for a in artists if not (isinstance(a, Line2D) and _is_grid_line(a))]
    for kind, types, overlooks_grid in _classes():
        if all(isinstance(artist, types) for artist in (no_grid if overlooks_grid else artists)):
            return kind(axes)
    return _head("unknown", axes)


def chart_of(figure):
    axes = figure.get_axes()
    if not any(one.has_data() for one in axes):
        return {}
    if len(axes) == 1:
        return _chart(axes[0])
    title = figure._suptitle.get_text() if figure._suptitle else ""
    return {"type": "superchart", "title": title, "elements": [_chart(one) for one in axes]}
