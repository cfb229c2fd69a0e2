# SPDX-License-Identifier: Apache-2.0
"""Freezing a kernel that has loaded what most code wants, and what a thawed one has to forget.

A warm image is this process, written to a file by a small library (src/warm); every kernel that is
started from it continues behind freeze(). Whatever should differ between two processes has to be
made anew there: _renew().
"""
import contextlib
import ctypes
import gc
import importlib
import os
import random
import site
import sys
import tempfile
import threading
import time

FREEZER = os.environ.get("SANDGLASS_FREEZER", "/opt/sandglass/lib/libsandglass-freeze.so")
COLD = ["/usr/bin/python3", os.path.join(os.path.dirname(os.path.dirname(__file__)), "kernel.py")]

# Loaded before freezing: what the clients' examples, and most code, begin with.
LIBRARIES = ["numpy", "pandas", "matplotlib.pyplot", "PIL.Image", "PIL.PngImagePlugin"]

# Run before freezing: loads what is loaded at first use, and fills caches (fonts above all).
REHEARSAL = [
    "1 + 1",
    "print('x')",
    "import numpy as np, pandas as pd, matplotlib.pyplot as plt",
    "pd.DataFrame({'a': [1, 2], 'b': pd.date_range('2024-01-01', periods=2)})",
    "np.linalg.inv(np.eye(3)) @ np.arange(3.0)",
    "plt.plot([1, 2, 3], label='x'); plt.legend(); plt.title('t'); plt.xlabel('x (s)'); plt.show()",
    "plt.bar(['a', 'b'], [1, 2]); plt.show()",
    "[1, {'a': 2}]",
    "1 / 0",
    "!true",
    "%cd .",
]

# Variables that change nothing in how this interpreter has started.
HARMLESS = {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONUTF8",
            "PYTHONPYCACHEPREFIX", "PYTHON_VERSION"}


_loaded = frozenset()  # top-level names of what the image has loaded


class Libc(ctypes.Structure):
    """struct sg_freeze_libc"""
    _fields_ = [("rseq", ctypes.c_uint64), ("rseq_bytes", ctypes.c_uint64),
                ("current_break", ctypes.c_uint64)]


# ---- before ----

def _rehearse(kernel):
    for name in LIBRARIES:
        importlib.import_module(name)
    for code in REHEARSAL:
        kernel.shell.run_cell(code, store_history=True)
    sys.modules["matplotlib.font_manager"]._get_font.cache_clear()  # keeps fonts' files open
    kernel.shell.reset(new_session=True)
    kernel.shell.user_module.__spec__ = None  # as a new one has it; multiprocessing looks
    gc.collect()
    kernel.shell.execution_count = 1
    kernel.has_failed = False


def _free_blocks():
    """{size: how many} of the blocks that Python's allocator would hand out next."""
    with tempfile.TemporaryFile() as out:
        stderr = os.dup(2)
        os.dup2(out.fileno(), 2)
        sys._debugmallocstats()
        os.dup2(stderr, 2)
        os.close(stderr)
        out.seek(0)
        rows = [line.split() for line in out.read().decode().splitlines()]
    return {int(row[1]): int(row[4]) for row in rows if len(row) == 5 and all(w.isdigit() for w in row)}


def _fill_pools():
    """New objects shall lie together: a hole that is filled is a page that is no longer shared."""
    raw = ctypes.pythonapi.PyObject_Malloc
    raw.restype = ctypes.c_void_p
    raw.argtypes = [ctypes.c_size_t]
    for size, count in _free_blocks().items():
        for _ in range(count):
            raw(size)


def _leave_heap(libc):
    """malloc() must not expect its heap to go on where it ended: in a thawed process it does not.

    With a page behind it the heap cannot grow, and the first request that needs more makes malloc
    take memory from elsewhere, from then on without asking the heap to be in one piece. What is free
    in the old one is filled on the way, as above.
    """
    libc.sbrk.restype = libc.malloc.restype = libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                          ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    end = libc.sbrk(0)
    page = end + 4095 & ~4095
    if libc.mmap(page, 4096, 0, 0x100022, -1, 0) != page:  # private, anonymous, there or nowhere
        raise OSError("the heap has a neighbour already")
    libc.malloc_trim(0)
    for size in 60_000, 30_000, 15_000, 8_000, 4_000, 2_000, 1_200, 800, 600, 520:
        for _ in range(100_000):
            if libc.malloc(size) > end:
                break
        else:
            raise OSError("the heap cannot be filled")
    libc.munmap(page, 4096)


def _facts(libc):
    libc.pthread_self.restype = ctypes.c_uint64
    facts = Libc()
    facts.current_break = ctypes.addressof(ctypes.c_void_p.in_dll(libc, "__curbrk"))
    try:
        if ctypes.c_uint.in_dll(libc, "__rseq_size").value:
            offset = ctypes.c_ssize_t.in_dll(libc, "__rseq_offset").value
            facts.rseq = libc.pthread_self() + offset
            facts.rseq_bytes = 32
    except ValueError:
        pass  # an older library, which does not register one
    return facts


def _check_descriptors():
    """What is open here is not open there."""
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the directory itself is closed by now
            if int(fd) > 2:
                raise SystemExit(f"descriptor {fd} is open: {os.readlink(f'/proc/self/fd/{fd}')}")


def freeze(kernel, path):
    """Writes the image and exits; comes back in processes that are started from it."""
    _rehearse(kernel)
    libc = ctypes.PyDLL(None)
    freezer = ctypes.PyDLL(FREEZER)
    freezer.sg_freeze_env.restype = ctypes.c_void_p
    freezer.sg_freeze_why.restype = ctypes.c_char_p
    facts = _facts(libc)
    length = ctypes.c_uint64()
    encoded = os.fsencode(path)
    _check_descriptors()
    importlib.invalidate_caches()
    global _loaded
    _loaded = frozenset(name.partition(".")[0] for name in sys.modules)
    gc.collect()
    gc.freeze()  # what is there stays: no collection looks at it, and its pages stay shared
    _fill_pools()
    _leave_heap(libc)
    done = freezer.sg_freeze(encoded, ctypes.byref(facts))
    if done == 0:
        os._exit(0)
    if done < 0:
        print(f"sandglass: no warm image: {freezer.sg_freeze_why().decode()}", file=sys.stderr)
        os._exit(1)
    at = freezer.sg_freeze_env(ctypes.byref(length))
    _renew(ctypes.string_at(at, length.value))


# ---- after ----

def _set_environ(block):
    os.environ.clear()
    for item in block.split(b"\0"):
        name, equals, value = item.partition(b"=")
        if name and equals:
            os.environb[name] = value


def _start_cold(why):
    print(f"sandglass: cold start: {why}", file=sys.stderr, flush=True)
    os.execv(COLD[0], COLD)


def _adopt_packages():
    """Packages that were installed since; those that hide what is loaded need a cold start."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    home = os.environ.get("HOME", "")
    for place in f"/usr/local/lib/{version}/dist-packages", f"{home}/.local/lib/{version}/site-packages":
        try:
            names = os.listdir(place)
        except OSError:
            continue
        hidden = _loaded.intersection(name.partition(".")[0] for name in names)
        if hidden:
            _start_cold(f"{place} has its own {', '.join(sorted(hidden))}")
        if place not in sys.path or any(name.endswith(".pth") for name in names):
            site.addsitedir(place)
    for name in {library.partition(".")[0] for library in LIBRARIES}:
        if os.path.lexists(name) or os.path.lexists(name + ".py"):
            _start_cold(f"the working directory has its own {name}")


def _renew(block):
    _set_environ(block)
    strange = [name for name in os.environ if name.startswith("PYTHON") and name not in HARMLESS]
    if strange:
        _start_cold(f"{strange[0]} is set")
    _adopt_packages()
    time.tzset()
    threading.main_thread()._set_native_id()
    # Nothing random may be the same in two processes.
    random.seed()
    sys.modules["numpy"].random.seed()
    tempfile._name_sequence = None
    tempfile.tempdir = None
    if "ssl" in sys.modules:
        sys.modules["ssl"].RAND_add(os.urandom(32), 32.0)
    if "uuid" in sys.modules:
        sys.modules["uuid"]._node = None
    if "multiprocessing.process" in sys.modules:
        sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
