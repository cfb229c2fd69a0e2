# SPDX-License-Identifier: Apache-2.0
"""What is done when a library is imported, so that no library is loaded before it is wanted."""
import importlib.util
import sys


def _matplotlib(module):
    module.rcParams["backend"] = "module://sandglass_kernel.figures"


def _pil_image(module):
    """An image that is saved to a file, or shown, is a result, too."""
    from IPython.display import display

    save = module.Image.save

    def save_and_show(self, fp, format=None, **params):
        save(self, fp, format, **params)
        if isinstance(fp, str):
            display(self)

    save_and_show.__doc__ = save.__doc__
    module.Image.save = save_and_show
    module.Image.show = lambda self, *_args, **_kwargs: display(self)


HOOKS = {"matplotlib": _matplotlib, "PIL.Image": _pil_image}


class Finder:
    """First in sys.meta_path: finds nothing itself, but watches what the others find."""

    def __init__(self):
        self.waiting = dict(HOOKS)

    def find_spec(self, name, _path=None, _target=None):
        hook = self.waiting.pop(name, None)
        if hook is None:
            return None
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        if spec is None or spec.loader is None:
            self.waiting[name] = hook
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            hook(module)

        spec.loader.exec_module = exec_module
        return spec


def install():
    sys.meta_path.insert(0, Finder())
