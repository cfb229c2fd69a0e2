# SPDX-License-Identifier: Apache-2.0
"""A virtual machine with Debian's own kernel and our build inside; its tests report to us.

Kept in build-soak/, so that only the first run downloads:

    kernel/      the package linux-image-*-cloud-amd64, unpacked, not installed
    root.img     a small Debian with python3 and pytest, and the one module that is not built in
    payload.img  our programs and tests/, made anew for each boot
    swap.img     an empty disk, for tests that want swap
    console.log  what the kernel and the machine's init said

The machine is always emulated (TCG), never KVM: then it runs everywhere, inside other virtual
machines too. No network. Disks are NVMe because this kernel has that, and ext4, built in: no
initramfs. Results come over the second serial line, which no kernel message ever touches.
"""
import glob
import hashlib
import inspect
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

WORK = ROOT / "build-soak"
GUEST = ROOT / "tests" / "soak" / "guest"
# target of the build: where it goes in the payload, which is /opt inside
PROGRAMS = {"src/cli/sandglass": "bin", "tests/fault/fault": "bin",
            "src/unpack/sandglass-unpack": "libexec/sandglass",
            "src/launcher/sandglass-launcher": "libexec/sandglass",
            "src/daemon/sandglassd": "libexec/sandglass"}
PACKAGES = "gcc,kmod,libarchive13,libc6-dev,python3,python3-pytest,python3-pytest-timeout"
EXCLUDE = ["path-exclude=/usr/share/doc/*", "path-exclude=/usr/share/man/*",
           "path-exclude=/usr/share/locale/*"]
ROOT_SIZE, PAYLOAD_SIZE = "800M", "128M"
MEMORY_MB, SWAP_BYTES = 1536, 512 << 20
# what runs inside, from tests/: (suites, seconds)
LIMITS = (["soak/guest/test_cells.py", "soak/guest/test_delegation.py",
           "security/test_resources.py", "security/test_layers.py"], 1200)
MEMORY = (["soak/guest/test_paused_memory.py"], 3600)
LONG = (["soak/guest/test_fault.py", "security/test_files.py", "security/test_kernel.py",
         "security/test_reach.py"], 5400)
POLITE = ["nice", "-n", "10"]


class Failed(Exception):
    pass


def run(*argv, **kw):
    done = subprocess.run([*POLITE, *map(str, argv)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", **kw)
    if done.returncode:
        raise Failed(f"{argv[0]} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


def kernel_package():
    """The package behind the name that always means the newest."""
    for is_retry in (False, True):
        found = re.search(r"Depends: (linux-image-\S+-cloud-amd64)",
                          run("apt-cache", "depends", "linux-image-cloud-amd64"))
        if found:
            return found[1]
        if not is_retry:
            run("apt-get", "-q", "update")
    raise Failed("apt knows no linux-image-cloud-amd64")


def kernel():
    """The directory with the unpacked kernel; downloaded once."""
    where = WORK / "kernel"
    if not where.exists():
        with tempfile.TemporaryDirectory(dir=WORK) as fresh:
            print("# downloading the kernel", flush=True)
            run("apt-get", "-q", "download", "-o", "APT::Sandbox::User=root", kernel_package(),
                cwd=fresh)
            run("dpkg-deb", "-x", *glob.glob(f"{fresh}/*.deb"), f"{fresh}/kernel")
            os.rename(f"{fresh}/kernel", where)
    return where


def one(where, pattern):
    found = sorted(where.glob(pattern))
    if not found:
        raise Failed(f"no {pattern} in {where}")
    return found[-1]


def make_image(path, folder, size):
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    run("mke2fs", "-q", "-t", "ext4", "-d", folder, new, size)
    os.rename(new, path)


def root_image(kernel_dir):
    """The machine's Debian; made anew when what it is made from changes."""
    image, stamp = WORK / "root.img", WORK / "root.stamp"
    builder = ROOT / "templates" / "build.sh"
    module = one(kernel_dir, "lib/modules/*/kernel/fs/overlayfs/overlay.ko*")
    recipe = "\n".join([PACKAGES, *EXCLUDE, ROOT_SIZE, module.name, builder.read_text(),
                        (GUEST / "init").read_text(), inspect.getsource(root_image)])
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    if image.exists() and stamp.exists() and stamp.read_text() == digest:
        return image
    print("# making the machine's Debian (a minute or two)", flush=True)
    with tempfile.TemporaryDirectory(dir=WORK) as fresh:
        archive, folder = pathlib.Path(fresh, "root.tar"), pathlib.Path(fresh, "root")
        with open(archive, "wb") as out:
            done = subprocess.run([*POLITE, "sh", str(builder), "root", "bookworm", "minbase",
                                   PACKAGES, "true", *EXCLUDE], stdout=out,
                                  stderr=subprocess.PIPE, text=True, errors="replace")
        if done.returncode:
            raise Failed(f"mmdebstrap failed:\n{done.stderr[-2000:]}")
        folder.mkdir()
        run("tar", "-C", folder, "--exclude=./var/cache/apt/archives/*.deb", "-xf", archive)
        modules = folder / "lib/modules"
        modules.mkdir(exist_ok=True)
        shutil.copy(module, modules)
        shutil.copy(GUEST / "init", folder / "sbin/sg-init")
        (folder / "opt").mkdir(exist_ok=True)
        make_image(image, folder, ROOT_SIZE)
    stamp.write_text(digest)
    return image


def payload_image(suites):
    """Our programs and the tests, as they are now, and which of these to run."""
    build = WORK / "build"
    if not (build / "build.ninja").exists():
        run("meson", "setup", "--werror", "-Dtests=enabled", build, ROOT)
    run("ninja", "--quiet", "-C", build, *PROGRAMS)
    image = WORK / "payload.img"
    with tempfile.TemporaryDirectory(dir=WORK) as fresh:
        folder = pathlib.Path(fresh)
        folder.chmod(0o755)  # ordinary users go through it
        for program, place in PROGRAMS.items():
            (folder / place).mkdir(parents=True, exist_ok=True)
            shutil.copy(build / program, folder / place)
        (folder / "suites").write_text(" ".join(suites) + "\n")
        for part in ("schema", "src", "tests"):
            shutil.copytree(ROOT / part, folder / part,
                            ignore=shutil.ignore_patterns("__pycache__", "fuzz", "unit", "property"))
        make_image(image, folder, PAYLOAD_SIZE)
    return image


def swap_image():
    image = WORK / "swap.img"
    with open(image, "wb") as out:
        out.truncate(SWAP_BYTES)
    return image


def disk(name, image):
    return ["-drive", f"file={image},format=raw,if=none,id={name},snapshot=on",
            "-device", f"nvme,drive={name},serial={name}"]


def command_line(kernel_dir, root, payload):
    return [*POLITE, "qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max",
            "-smp", "2", "-m", str(MEMORY_MB), "-display", "none", "-nic", "none", "-no-reboot",
            "-kernel", str(one(kernel_dir, "boot/vmlinuz-*")), "-append",
            "console=ttyS0 root=/dev/nvme0n1 rw init=/sbin/sg-init cgroup_no_v1=all panic=-1",
            *disk("root", root), *disk("payload", payload), *disk("swap", swap_image()),
            "-serial", f"file:{WORK / 'console.log'}", "-serial", "stdio", "-monitor", "none"]


def show(line):
    print(line, flush=True)


def parse(lines):
    """(name, outcome, why) for every TAP line; a missing plan at the end is a failure, too."""
    results, said, is_whole = [], [], False
    for line in lines:
        line = line.rstrip("\r\n")
        found = re.match(r"(not ok|ok) \d+ - (.*?)(?: # SKIP (.*))?$", line)
        if found:
            show(line)
            outcome = "failed" if found[1] == "not ok" else "skipped" if found[3] else "passed"
            results.append((found[2], outcome, found[3] or "\n".join(said)))
            said = []
        elif re.match(r"1\.\.\d+$", line):
            is_whole = int(line[3:]) == len(results)
        elif line:
            said.append(line)
            show(line)
    if not is_whole:
        results.append(("the machine finishes its list", "failed", "\n".join(said)))
    return results


def boot(suites, seconds):
    """Boots, runs the suites inside, returns their results."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # not without our child
    WORK.mkdir(exist_ok=True)
    kernel_dir = kernel()
    root, payload = root_image(kernel_dir), payload_image(suites)
    machine = subprocess.Popen(command_line(kernel_dir, root, payload), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, text=True, errors="replace")
    deadline = threading.Timer(seconds, machine.send_signal, [signal.SIGKILL])
    deadline.start()
    try:
        results = parse(machine.stdout)
    finally:
        deadline.cancel()
        machine.kill()
        machine.wait()
    if results[-1][1] == "failed":
        tail = (WORK / "console.log").read_text(errors="replace").splitlines()[-20:]
        print("\n".join(f"# console: {line}" for line in tail))
    return results
