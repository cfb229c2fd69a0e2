# SPDX-License-Identifier: Apache-2.0
"""IPython's shell, whose results, errors and output become events."""
import builtins
import getpass
import os
import signal
import subprocess
import sys
import tempfile
import warnings

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import StdinNotImplementedError
from IPython.core.formatters import BaseFormatter
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Any, Type, Unicode
from traitlets.config import Config

from . import results

# Made with the template: IPython wants a directory of its own, and writes nothing there.
IPYTHON_DIR = "/opt/sandglass/ipython"


class Hook(DisplayHook):
    """The value of the last expression."""

    def start_displayhook(self):
        pass

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        self.shell.publish(format_dict, is_main=True)

    def finish_displayhook(self):
        pass


class Publisher(DisplayPublisher):
    """display()"""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        self.shell.publish(data, is_main=False)

    def clear_output(self, wait=False):
        pass  # what was sent is sent


class DataFormatter(BaseFormatter):
    format_type = Unicode("e2b/data")
    print_method = Unicode("_repr_e2b_data_")
    _return_type = dict


class ChartFormatter(BaseFormatter):
    format_type = Unicode("e2b/chart")
    print_method = Unicode("_repr_e2b_chart_")
    _return_type = dict


def _png(figure):
    from . import figures

    return figures.png_of(figure)


def _chart(figure):
    from . import charts

    return charts.chart_of(figure)


def _flush_figures():
    if "matplotlib.pyplot" in sys.modules:
        from . import figures

        figures.flush()


def _refuse_input(*_args, **_kwargs):
    raise StdinNotImplementedError(
        "code here has no one to ask: nothing can be typed in. Give the value in the code, as an "
        "environment variable or in a file instead of calling input()")


def text_of(error):
    try:
        return str(error)
    except Exception:  # the code's own __str__
        return f"<unprintable {type(error).__name__}>"


class Shell(InteractiveShell):
    kernel = Any()
    displayhook_class = Type(Hook)
    display_pub_class = Type(Publisher)

    def init_display_formatter(self):
        super().init_display_formatter()
        formatters = self.display_formatter.formatters
        for kind in DataFormatter, ChartFormatter:
            formatter = kind(parent=self.display_formatter)
            formatters[formatter.format_type] = formatter
        # By name: the libraries are loaded by whoever uses them.
        frame, figure = ("pandas.core.frame", "DataFrame"), ("matplotlib.figure", "Figure")
        formatters["e2b/data"].for_type_by_name(*frame, results.data_of)
        formatters["image/png"].for_type_by_name(*figure, _png)
        formatters["e2b/chart"].for_type_by_name(*figure, _chart)
        for kind in list, dict:
            formatters["application/json"].for_type(kind, results.json_of)

    def init_io(self):
        pass

    def init_readline(self):
        pass

    def enable_gui(self, gui=None):
        pass

    def ask_exit(self):
        raise SystemExit(0)

    def system(self, cmd):
        """`!cmd`: prints straight to our descriptors. Interrupts reach it through the group."""
        child = subprocess.Popen(["/bin/bash", "-c", self.var_expand(cmd, depth=1)],
                                 stdin=subprocess.DEVNULL)
        try:
            code = child.wait()
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            try:
                child.wait(2)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            raise
        self.user_ns["_exit_code"] = code

    system_piped = system_raw = system

    def publish(self, bundle, is_main):
        self.kernel.publish(bundle, is_main)

    def _showtraceback(self, etype, evalue, stb):
        self.kernel.fail(etype.__name__, text_of(evalue), "\n".join(stb))


def make(kernel):
    config = Config()
    config.HistoryManager.enabled = False  # no database, and no thread for it
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.ast_node_interactivity = "last_expr"
    config.PlainTextFormatter.pprint = True
    shell = Shell(config=config, kernel=kernel, ipython_dir=_ipython_dir(), user_ns=None)
    shell.db = {}  # what magics remember (%cd, %bookmark), for this context only: nobody may write to the profile
    Shell._instance = shell
    InteractiveShell._instance = shell
    shell.events.register("post_execute", _flush_figures)
    builtins.input = _refuse_input
    getpass.getpass = _refuse_input
    warnings.filterwarnings("ignore", message="To exit: use")
    return shell


def _ipython_dir():
    if os.path.isdir(IPYTHON_DIR):
        return IPYTHON_DIR
    return tempfile.mkdtemp(prefix="ipython-")
