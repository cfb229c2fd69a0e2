# SPDX-License-Identifier: Apache-2.0
"""What the security suite shares: the attack program, a small template, and the sandboxes to attack.

Fixtures:
  box        every kind of sandbox: the test runs once for each
  root_box   started by root, as the template's ordinary user inside
  boxes      by name, for tests that choose
"""
import ctypes
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

import pytest

import boxes as kinds
import sg

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE / "attacks"
SHM_KEY = 0x53474c53
INCLUDES = HERE.parent.parent / "src"


@pytest.fixture(scope="session")
def kit():
    """A directory that everybody may read: the attack program and a template around it."""
    # not below a directory of ours: ordinary users must be able to reach it
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sg-kit-", dir="/var/tmp"))
    try:
        folder.chmod(0o755)
        program = folder / "attack"
        subprocess.run(["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror",
                        "-static", "-I", SOURCES, "-I", INCLUDES, *sorted(SOURCES.glob("*.c")),
                        "-o", program], check=True)
        yield kinds.Kit(folder, program, kinds.make_template(folder / "template"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def ordinary():
    """One ordinary user for the whole suite: the view of the host is made once for each."""
    with sg.ordinary_user() as runner:
        yield runner


@pytest.fixture
def user(ordinary):
    return ordinary


@pytest.fixture(params=kinds.KINDS, ids=kinds.name_of)
def box(request, kit):
    by, inside, template = request.param
    runner = request.getfixturevalue("root" if by == "root" else "user")
    return kinds.Box(runner, kit, inside, template)


@pytest.fixture
def root_box(root, kit):
    return kinds.Box(root, kit)


@pytest.fixture
def rootless_box(user, kit):
    return kinds.Box(user, kit)


@pytest.fixture
def scratch():
    """A directory of the host that anybody may write to, at a path that exists only there."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="sg-scratch-", dir="/var/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def victim():
    """A process of the host."""
    process = subprocess.Popen(["sleep", "60"], env={"SECRET": "of the host"})
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def huge_page_pool():
    """Two huge pages of the host, free for anybody to take."""
    knob = pathlib.Path("/proc/sys/vm/nr_hugepages")
    if not knob.exists():
        pytest.skip("this kernel has no huge pages")
    before = knob.read_text()
    knob.write_text(str(int(before) + 2))
    yield
    knob.write_text(before)


@pytest.fixture
def abstract_socket():
    name = f"sandglass-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        yield name


@pytest.fixture
def loopback_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def shared_memory():
    libc = ctypes.CDLL(None, use_errno=True)
    number = libc.shmget(SHM_KEY, 4096, 0o1666)
    assert number >= 0
    yield SHM_KEY
    libc.shmctl(number, 0, None)


@pytest.fixture(scope="session", autouse=True)
def as_root_too():
    if os.getuid() != 0:
        pytest.exit("the security suite attacks root's sandboxes, too: run it as root", 1)
