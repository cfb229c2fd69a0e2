# SPDX-License-Identifier: Apache-2.0
"""Kernels that start from a warm image, without a sandbox: they are what a cold one is, only sooner,
and where the image does not fit they are cold ones."""
import os
import pathlib
import platform
import shutil
import subprocess

import pytest

from kernel import DRIVER, PYTHON, Kernel
from sg import BIN

BUILD = pathlib.Path(os.environ.get("SANDGLASS_BUILD") or pathlib.Path(BIN).resolve().parents[2])
THAW = BUILD / "src" / "warm" / "sandglass-thaw"
FREEZER = BUILD / "src" / "warm" / "libsandglass-freeze.so"
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="there is no restorer for this processor")
ENV = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    path = tmp_path_factory.mktemp("warm") / "python.img"
    subprocess.run([PYTHON, DRIVER, "--freeze", path], check=True, timeout=100, cwd="/tmp",
                   stdout=subprocess.DEVNULL,
                   env={**ENV, "SANDGLASS_FREEZER": str(FREEZER), "OPENBLAS_NUM_THREADS": "1"})
    return path


def thaw(image, **kw):
    return Kernel([THAW, image, PYTHON, DRIVER], **kw)


@pytest.fixture(scope="module")
def kernel(image):
    with thaw(image) as one:
        assert one.ready == {"type": "ready", "language": "python", "start": "warm"}
        yield one


def test_it_begins_like_a_new_one(image, tmp_path):
    with thaw(image, cwd=tmp_path, env={"OWN": "x=y", "TZ": "Asia/Tokyo"}) as kernel:
        events = kernel.run("import os, time, sys\n"
                            "[os.environ['OWN'], os.getcwd(), time.tzname[0], 'HOME' in os.environ, sys.path[0]]")
        assert events[0]["execution_count"] == 1
        assert events.main["json"] == ["x=y", str(tmp_path), "JST", True, ""]
        assert "OPENBLAS_NUM_THREADS" not in kernel.run("import os; dict(os.environ)").main["json"]
        assert kernel.run("[name for name in dir() if not name.startswith('_')]").main["json"] == \
            ["In", "Out", "exit", "get_ipython", "os", "quit", "sys", "time"]
        assert kernel.end() == 0


def test_its_libraries_are_loaded(kernel):
    assert kernel.run("import sys; all(n in sys.modules for n in ('numpy', 'pandas', 'matplotlib.pyplot'))") \
        .main["text"] == "True"


@pytest.mark.parametrize("code, text", [
    ("import numpy as np\na = np.random.rand(60, 60)\nfloat(np.abs(np.linalg.inv(a) @ a - np.eye(60)).max()) < 1e-6",
     "True"),
    ("import subprocess\nsubprocess.run(['echo', 'x'], capture_output=True).stdout.decode().strip()", "x"),
    ("import threading\nseen = []\nts = [threading.Thread(target=seen.append, args=(i,)) for i in range(50)]\n"
     "[t.start() for t in ts]; [t.join() for t in ts]; sorted(seen) == list(range(50))", "True"),
    ("import os\npid = os.fork()\nif pid == 0: os._exit(7)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])", "7"),
    ("import multiprocessing as m\nwith m.get_context('fork').Pool(2) as p: r = p.map(abs, [-3, 4])\nr", "[3, 4]"),
    ("import signal\nhit = []\nsignal.signal(signal.SIGUSR1, lambda *_: hit.append(1))\n"
     "import os; os.kill(os.getpid(), signal.SIGUSR1); hit", "[1]"),
    ("import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\nsignal.signal(signal.SIGALRM, lambda *_: None)\n"
     "signal.pause(); 'woken'", "woken"),
    ("def deep(n): return n and 1 + deep(n - 1)\nimport sys; sys.setrecursionlimit(20000); deep(15000)", "15000"),
    ("big = bytearray(400 << 20); big[-1] = 7; len(big) >> 20", "400"),
    ("many = [bytes(n % 9000) for n in range(60000)]; sum(map(len, many))",
     str(sum(n % 9000 for n in range(60000)))),
    ("del many, big; import gc; gc.collect() >= 0", "True"),
    ("import ctypes; m = ctypes.CDLL(None).malloc_trim(0); m in (0, 1)", "True"),
    ("import time; t = time.time(), time.monotonic(), time.perf_counter(); all(t)", "True"),
    ("import datetime; abs(datetime.datetime.now().timestamp() - time.time()) < 60", "True"),
    ("import os, threading; threading.get_native_id() == os.getpid()", "True"),
    ("import os; os.sched_getaffinity(0) != set()", "True"),
    ("import tempfile, os; fd, p = tempfile.mkstemp(); os.close(fd); os.unlink(p); 'made'", "made"),
    ("import pandas as pd; int(pd.DataFrame({'a': range(1000)}).groupby(lambda i: i % 3).sum()['a'].sum())", "499500"),
    ("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 5\nawait f()", "5"),
    ("import sqlite3; sqlite3.connect(':memory:').execute('select 6').fetchone()[0]", "6"),
    ("import hashlib, ssl; len(ssl.RAND_bytes(8)), hashlib.sha256(b'').hexdigest()[:8]", "(8, 'e3b0c442')"),
    ("try:\n    1/0\nexcept ZeroDivisionError as e: caught = str(e)\ncaught", "division by zero"),
], ids=["linear algebra", "subprocess", "threads", "fork", "forked pool", "signal", "timer",
        "recursion", "a big block", "many blocks", "collection", "malloc_trim", "clocks", "dates", "thread id",
        "affinity", "temporary file", "pandas", "await", "sqlite", "openssl", "exception"])
def test_whatever_code_does_works_after_thawing(kernel, code, text):
    events = kernel.run(code)
    assert not events.of("error"), events.error["traceback"]
    assert events.main["text"] == text


def test_processes_are_spawned(image):
    """In a kernel of its own: what multiprocessing starts for this lives as long as that does."""
    with thaw(image) as kernel:
        assert kernel.run("import multiprocessing as m\nwith m.get_context('spawn').Pool(1) as p: r = p.map(abs, [-3])\nr") \
            .main["json"] == [3]


def test_a_figure_is_drawn(kernel):
    events = kernel.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.title('t')\nplt.show()")
    assert [r["chart"]["title"] for r in events.results if "png" in r] == ["t"]


def test_interrupts_and_errors_are_as_ever(kernel):
    kernel.start("print('go', flush=True)\nimport time\ntime.sleep(600)")
    while kernel.next().get("text") != "go\n":
        pass
    kernel.interrupt()
    assert kernel.finish().error["name"] == "KeyboardInterrupt"
    assert kernel.run("undefined").error["name"] == "NameError"


def test_others_see_its_command_line(kernel):
    line = pathlib.Path(f"/proc/{kernel.process.pid}/cmdline").read_bytes().split(b"\0")
    assert line[0] in (os.fsencode(THAW), b"")  # where the frozen stack is not in the way


def test_two_of_them_share_no_chance(image):
    code = ("import random, uuid, tempfile, os, ssl\nimport numpy as np\n"
            "[random.random(), float(np.random.rand()), str(uuid.uuid4()), next(tempfile._get_candidate_names()),"
            " ssl.RAND_bytes(8).hex(), int(np.random.default_rng().integers(1 << 60))]")
    drawn = []
    for _ in range(2):
        with thaw(image) as kernel:
            drawn.append(kernel.run(code).main["json"])
    assert all(a != b for a, b in zip(*drawn)), drawn


def test_two_hundred_starts(image):
    for n in range(200):
        with thaw(image) as kernel:
            assert kernel.ready["start"] == "warm", kernel.said
            if n % 20 == 0:
                assert kernel.run("1 + 1").main["text"] == "2"
            assert kernel.end() == 0


def test_most_pages_stay_shared(image):
    """Three of them at once: what is theirs alone is far below what they have mapped."""
    kernels = [thaw(image) for _ in range(3)]
    try:
        for one in kernels:
            one.run("1 + 1")
        rows = dict(line.split(":") for line in
                    pathlib.Path(f"/proc/{kernels[0].process.pid}/smaps_rollup").read_text().splitlines()[1:])
        own = sum(int(rows[name].split()[0]) for name in ("Private_Dirty", "Private_Clean"))
        assert own < 12 << 10, f"{own} KiB"
        assert int(rows["Rss"].split()[0]) > 2 * own
    finally:
        for one in kernels:
            one.__exit__()


# ---- in sandboxes ----

@pytest.fixture
def binds(tmp_path):
    """What the template would have, shown to the template `host`."""
    (tmp_path / "warm").mkdir()
    (tmp_path / "warm").chmod(0o777)
    (tmp_path / "matplotlibrc").touch()  # Debian's own is in /etc, which is not the machine's inside
    places = {tmp_path / "warm": "/opt/sandglass/warm:rw", THAW: "/opt/sandglass/kernels/python:ro",
              FREEZER: "/opt/sandglass/lib/libsandglass-freeze.so:ro", DRIVER.parent: "/opt/sandglass/python:ro",
              tmp_path / "matplotlibrc": "/etc/matplotlibrc:ro"}
    return [word for source, target in places.items() for word in ("--bind", f"{source}:{target}")]


def test_an_image_made_in_one_sandbox_is_for_all_of_them(root, binds):
    done = root.sandglass("run", "--memory", "1g", *binds, "--env", "OPENBLAS_NUM_THREADS=1", "--user", "root", "--",
                          PYTHON, "/opt/sandglass/python/kernel.py", "--freeze", "/opt/sandglass/warm/python.img",
                          timeout=100)
    assert done.returncode == 0, done.stderr
    for options in ["--user", "root"], ["--memory", "48m"], ["--env", "OWN=1", "--cpus", "0.5"]:
        command = [BIN, "run", *options, *binds, "--", "/opt/sandglass/kernels/python"]
        with Kernel(command, env=root.environment(None)) as kernel:
            assert kernel.ready["start"] == "warm", kernel.said
            assert kernel.run("import numpy, os; int(numpy.arange(10).sum()), os.getpid() < 50").main["text"] == \
                "(45, True)"
            assert kernel.run("!echo $HOME").stdout.startswith("/")
            assert kernel.end() == 0


# ---- where the image does not fit ----

def assert_cold(image, words, **kw):
    with thaw(image, **kw) as kernel:
        assert kernel.ready["start"] == "cold"
        assert kernel.run("1 + 1").main["text"] == "2"
        assert kernel.end() == 0
    assert words in kernel.said.decode()


def test_no_image_is_a_cold_start(tmp_path):
    assert_cold(tmp_path / "none", "cold start: no image")


def write(path, data):
    path.write_bytes(data)
    return path


def test_a_damaged_or_foreign_image_is_a_cold_start(image, tmp_path):
    data = image.read_bytes()
    head = int.from_bytes(data[12:16], "little")
    assert_cold(write(tmp_path / "cut", data[:-1]), "cold start: cut")
    assert_cold(write(tmp_path / "head", data[:1000]), "cold start: not an image")
    assert_cold(write(tmp_path / "empty", b""), "cold start: not an image")
    damaged = bytearray(data)
    damaged[head // 2] ^= 1
    assert_cold(write(tmp_path / "damaged", damaged), "cold start: damaged")


def reseal(data):
    """The checksum of image.c, so that what is behind it is reached."""
    head = int.from_bytes(data[12:16], "little")
    data[24:32] = bytes(8)
    total, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1
    for at in range(0, head, 8):
        total = (total ^ int.from_bytes(data[at:at + 8], "little")) * 0x100000001B3 & mask
        total ^= total >> 29
    data[24:32] = total.to_bytes(8, "little")
    return data


def test_another_kernel_or_processor_is_a_cold_start(image, tmp_path):
    data = bytearray(image.read_bytes())
    assert reseal(bytearray(data)) == data  # the test knows the checksum
    release = data.index(os.uname().release.encode(), 0, 4096)
    for at in release, release + 65 + 65 + 6:  # the kernel's name; the first word of cpuid
        other = bytearray(data)
        other[at] ^= 1
        assert_cold(write(tmp_path / "other", reseal(other)), "another kernel or processor")


def test_a_library_that_has_changed_is_a_cold_start(image, tmp_path):
    data = bytearray(image.read_bytes())
    at = data.index(b"/usr/lib/", 0, 1 << 16)
    data[at + 9] ^= 1
    assert_cold(write(tmp_path / "gone", reseal(data)), "a library is gone")


def test_an_interpreter_that_was_told_to_start_otherwise_is_a_cold_start(image, tmp_path):
    assert_cold(image, "PYTHONPATH is set", env={"PYTHONPATH": str(tmp_path)})


def test_a_package_of_the_users_own_goes_first(image, tmp_path):
    place = tmp_path / ".local/lib" / f"python3.{python_minor()}" / "site-packages"
    (place / "mine").mkdir(parents=True)
    (place / "mine/__init__.py").write_text("value = 3\n")
    with thaw(image, env={"HOME": str(tmp_path)}) as kernel:
        assert kernel.ready["start"] == "warm"
        assert kernel.run("import mine; mine.value").main["text"] == "3"
    (place / "pandas").mkdir()
    (place / "pandas/__init__.py").write_text("__version__ = 'own'\n")
    with thaw(image, env={"HOME": str(tmp_path)}) as kernel:
        assert kernel.ready["start"] == "cold"
        assert kernel.run("import pandas; pandas.__version__").main["text"] == "own"


def python_minor():
    return subprocess.run([PYTHON, "-c", "import sys; print(sys.version_info[1])"], capture_output=True,
                          text=True, check=True).stdout.strip()


def test_a_program_that_is_not_there_is_an_error(tmp_path):
    done = subprocess.run([THAW, tmp_path / "none", "/nonexistent"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 127
    assert "cannot start '/nonexistent'" in done.stderr


def test_a_process_with_threads_is_not_frozen(tmp_path):
    code = ("import ctypes, threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
            f"lib = ctypes.PyDLL('{FREEZER}')\nlib.sg_freeze_why.restype = ctypes.c_char_p\n"
            f"print(lib.sg_freeze(b'{tmp_path}/x', ctypes.byref((ctypes.c_uint64 * 3)())), lib.sg_freeze_why())")
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "-22 b'there is more than one thread'\n"


def test_the_restorer_needs_nothing(tmp_path):
    """Neither a library nor a loader, so that none is in the way of what is mapped back."""
    headers = subprocess.run(["readelf", "-lW", THAW], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in headers and "DYNAMIC" not in headers
    assert "0x0000100000000000" in headers
    copy = shutil.copy(THAW, tmp_path / "thaw")
    done = subprocess.run([copy, tmp_path / "none", "/bin/echo", "cold"], capture_output=True, text=True)
    assert done.stdout == "cold\n"
