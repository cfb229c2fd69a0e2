# SPDX-License-Identifier: Apache-2.0
"""The matplotlib backend: figures are drawn into memory and shown as results.

A figure is shown by plt.show(), as the value of the last line, or at the end of the code that left
it open; once only, then it is closed.
"""
import io
import weakref

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib._pylab_helpers import Gcf

FigureCanvas = FigureCanvasAgg

_shown = weakref.WeakSet()  # figures that this execution has shown


def png_of(figure):
    out = io.BytesIO()
    figure.savefig(out, format="png", bbox_inches="tight", dpi=figure.dpi,
                   facecolor=figure.get_facecolor(), edgecolor=figure.get_edgecolor())
    _shown.add(figure)
    return out.getvalue()


def _show(is_left_over):
    from IPython.display import display

    try:
        for manager in Gcf.get_all_fig_managers():
            if not (is_left_over and manager.canvas.figure in _shown):
                display(manager.canvas.figure)
    finally:
        Gcf.destroy_all()


def show(*_args, **_kwargs):
    """What pyplot calls."""
    _show(is_left_over=False)


def flush():
    """After the code has run."""
    _show(is_left_over=True)
    _shown.clear()
