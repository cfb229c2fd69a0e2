# SPDX-License-Identifier: Apache-2.0
"""Cases 14 to 25: the file system, mounts, archives, programs with privileges, kernel settings."""
import gzip
import hashlib
import io
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tarfile

import pytest
import sg
from boxes import Box, held_by

SETTINGS = ["kernel/core_pattern", "kernel/domainname", "kernel/hostname", "vm/panic_on_oom",
            "vm/overcommit_memory", "net/ipv4/ip_unprivileged_port_start", "fs/file-max"]


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def contents(folder):
    """Every name below a directory, with type, mode, owner and contents."""
    found = {}
    for path in sorted(folder.rglob("*")):
        st = path.lstat()
        body = path.read_bytes() if stat.S_ISREG(st.st_mode) else \
            os.readlink(path).encode() if stat.S_ISLNK(st.st_mode) else b""
        found[str(path.relative_to(folder))] = (st.st_mode, st.st_uid, st.st_gid, body)
    return found


# ---- 14: the program that runs us ----

@held_by("no-read-only", {"/bound"}, needs=["scratch"])
def overwrite_a_program_of_the_host(box, scratch):
    program = scratch / "program"
    shutil.copy(box.kit.program, program)
    program.chmod(0o777)
    before = digest(program)
    got = box.attack("write-files", "/bound", options=["--bind", f"{program}:/bound:ro"]).got
    assert bool(got) == (digest(program) != before)
    return got


@held_by("no-userns,no-seccomp,no-cap-bound", {"init-root", "init-cwd"})
def overwrite_init(box):
    return box.attack("overwrite-init").got


def test_case_14_a_program_of_the_host_cannot_be_overwritten(box, scratch):
    assert overwrite_a_program_of_the_host(box, scratch) == set()


def test_case_14_pid_1_and_the_launcher_cannot_be_overwritten(box):
    """Even with the switches off the program itself holds: it runs from a sealed file in memory."""
    before = digest(sg.BIN)
    assert overwrite_init(box) == set()
    assert digest(sg.BIN) == before


@pytest.mark.parametrize("path", ["/proc/self/exe", "/proc/1/exe", "/proc/self/fd/3"])
def test_case_14_pid_1_cannot_be_made_to_run_itself_for_us(box, path):
    before = digest(sg.BIN)
    done = box.run(path, "attack", timeout=20)
    assert done.returncode != 0 and digest(sg.BIN) == before


def test_case_14_a_work_directory_in_proc_leads_nowhere(box, scratch):
    (scratch / "marker").touch()
    for number in range(3, 12):
        done = box.run("/attack", "list", ".", "..", options=["--workdir", f"/proc/self/fd/{number}"])
        assert "marker" not in done.stdout


# ---- 16: the root ----

@held_by("keep-old-root", {"dot-dot", "proc-root"}, needs=["scratch"])
def break_chroot(box, scratch):
    (scratch / "marker").touch()
    return box.attack("break-chroot", str(scratch / "marker")).got


def test_case_16_no_way_leads_out_of_the_root(box, scratch):
    assert break_chroot(box, scratch) == set()


def test_case_16_nothing_of_the_host_is_left_in_the_mount_table(box):
    done = box.run("/attack", "surfaces")
    assert done.returncode == 0
    if box.template == "host":
        lines = box.run("cat", "/proc/self/mountinfo").stdout.splitlines()
        roots = [line for line in lines if line.split()[4] == "/"]
        assert len(roots) == 1 and " - overlay " in roots[0]
        of_the_host = {line.split()[4] for line in lines if " - ext4 " in line or " - xfs " in line
                       or " - btrfs " in line}
        assert of_the_host <= {"/usr", "/attack", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt"}


# ---- 17: mounts ----

@held_by("no-seccomp,no-cap-bound,no-userns",
         {"mount-tmpfs", "mount-proc", "bind", "bind-over-proc", "remount-proc-sys-rw", "umount-mask",
          "umount-proc-sys", "open-tree", "fsopen", "fsmount", "fspick", "move-mount", "mount-setattr"})
def change_mounts(box):
    return box.attack("mounts").got


def test_case_17_the_mount_tree_cannot_be_changed(box):
    assert change_mounts(box) == set()


# ---- 18: hostile templates ----

@pytest.mark.parametrize("name", ["dev", "proc", "sys", "tmp", "etc", "workspace", "dev/shm", "home",
                                  "attack", "bound"])
@pytest.mark.parametrize("shape", ["absolute", "relative", "file", "whiteout"])
def test_case_18_a_template_with_links_for_mount_points_writes_nothing_outside(
        runner, kit, scratch, name, shape):
    """Shown to matter: without O_NOFOLLOW in step_into() of sys/path.c a bind's target is made here."""
    folder = pathlib.Path(shutil.copytree(kit.template, scratch / "template", symlinks=True))
    target = scratch / "target"
    target.mkdir(mode=0o777)
    target.chmod(0o777)
    place = folder / name
    if place.is_dir():
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    if shape == "absolute":
        place.symlink_to(target)
    elif shape == "relative":
        place.symlink_to("/".join([".."] * 12) + str(target))
    elif shape == "file":
        place.write_text("not a directory")
    else:
        os.mknod(place, stat.S_IFCHR | 0o600, os.makedev(0, 0))
    before = contents(target)
    argv = ["run", "--template", f"{folder}/", "--bind", f"{kit.program}:/attack:ro", "--bind",
            f"{kit.program}:/bound/file:ro", "--", "/attack", "make-files", "/tmp/x", "/workspace/x"]
    done = runner.sandglass(*argv)
    assert contents(target) == before
    assert done.returncode in (0, 1, 125) or done.stderr
    assert len(done.stderr.splitlines()) <= 1


# ---- 19: copies, while somebody swaps the names ----

@held_by("keep-old-root", {"copied out"}, inside="user", needs=["scratch"])
def race_copy_out(box, scratch):
    secret = scratch / "secret"
    secret.write_text("of the host")
    target = scratch / "out"
    got = set()
    for attempt in range(4):
        # a link in the middle of the path, and one that is swapped with a file all the time
        for number, path in enumerate([f"/workspace/link{scratch}/secret", "/workspace/name"]):
            link = "ln -s /.. link; " if box.template == "host" else ""
            command = ["sh", "-c", f"{link}/attack swap name /..{secret}"] if link else \
                ["/attack", "swap", "/workspace/name", f"/..{secret}"]
            box.run(*command, options=["--copy-out", f"{path}:{target}"])
            if target.exists():
                assert not target.is_symlink()
                got |= {"copied out"} if target.read_text() == "of the host" else set()
                target.unlink()
    return got


@held_by("keep-old-root", {"copied in"}, inside="user", template="directory", needs=["scratch"])
def copy_in_through_a_link(box, scratch):
    """The template's own directory is a link to the host's, as far as anybody can tell."""
    source, target = scratch / "source", scratch / "target"
    source.write_text("copied")
    target.mkdir(exist_ok=True)
    target.chmod(0o777)
    folder = pathlib.Path(shutil.copytree(box.kit.template, scratch / "template", symlinks=True))
    (folder / "link").symlink_to("/.." + str(target))
    box.run("/attack", "list", "/", options=["--template", f"{folder}/", "--copy-in",
                                             f"{source}:/link/landed"])
    return {"copied in"} if (target / "landed").exists() else set()


def test_case_19_a_swapped_link_never_brings_out_a_file_of_the_host(box, scratch):
    assert race_copy_out(box, scratch) == set()


def test_case_19_a_link_never_leads_a_copy_onto_the_host(box, scratch):
    if box.template == "directory":
        assert copy_in_through_a_link(box, scratch) == set()
    else:
        (scratch / "source").write_text("x")
        done = box.run("sh", "-c", "cat in", options=["--copy-in", f"{scratch}/source:in"])
        assert done.stdout == "x"


def test_case_19_what_comes_out_is_plain_files_only(root_box, scratch):
    make = "mkdir d; ln -s /etc/passwd d/link; mkfifo d/pipe; echo x > d/file; chmod 6777 d/file"
    done = root_box.run("sh", "-c", make, options=["--copy-out", f"d:{scratch}/d"])
    assert done.returncode == 0 and os.listdir(scratch / "d") == ["file"]
    assert stat.S_IMODE((scratch / "d/file").stat().st_mode) & 0o7000 == 0


def test_case_19_an_existing_link_at_the_destination_is_replaced_not_followed(root_box, scratch):
    (scratch / "canary").write_text("untouched")
    (scratch / "out").mkdir()
    (scratch / "out/name").symlink_to(scratch / "canary")
    root_box.run("sh", "-c", "echo new > name", options=["--copy-out", f"name:{scratch}/out/"])
    assert (scratch / "canary").read_text() == "untouched"
    assert (scratch / "out/name").read_text() == "new\n" and not (scratch / "out/name").is_symlink()


# ---- 20, 21: archives ----

def hostile_archives():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
    import make_hostile_tars
    return make_hostile_tars.CASES


NEUTRALISED = {"good.tar", "good.tar.gz", "good.tar.bz2", "good.tar.xz", "unicode.tar", "not-utf8.tar",
               "case.tar", "twice-directory.tar", "setuid.tar", "fifo.tar", "capability.tar",
               "lying-gzip.tar.gz", "private-root.tar", "many.tar", "bomb.tar.gz", "dev-devices.tar"}


@pytest.mark.parametrize("name", sorted(hostile_archives()))
def test_case_20_a_hostile_archive_is_refused_by_name_or_made_harmless(root, scratch, name):
    """tests/unit/test_unpack.c holds what becomes of each entry; this is the whole way."""
    archive = scratch / name
    archive.write_bytes(hostile_archives()[name])
    state = scratch / "state"
    (scratch / "outside").mkdir()
    (scratch / "outside/canary").write_text("untouched")
    done = root.sandglass("template", "import", "--quiet", "--name", "x", archive,
                          env={"SANDGLASS_STATE_DIR": str(state)})
    assert contents(scratch / "outside").keys() == {"canary"}
    assert (scratch / "outside/canary").read_text() == "untouched"
    assert not list(scratch.rglob("escape")) and not pathlib.Path("/escape").exists()
    if done.returncode == 0:
        assert name in NEUTRALISED
        for path in (state / "templates/x/root").rglob("*"):
            mode = path.lstat().st_mode
            assert not stat.S_ISCHR(mode) and not stat.S_ISBLK(mode)
            assert stat.S_ISDIR(mode) or not mode & 0o6000
    else:
        assert name not in NEUTRALISED and done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert not (state / "templates/x").exists()


def test_case_21_a_bomb_stops_at_its_ratio_with_little_memory(root, scratch):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        info = tarfile.TarInfo("zeros")
        info.size = 192 << 20
        archive.addfile(info, io.BytesIO(bytes(info.size)))
    bomb = scratch / "bomb.tar.gz"
    bomb.write_bytes(gzip.compress(plain.getvalue(), compresslevel=1, mtime=0))
    state = {"SANDGLASS_STATE_DIR": str(scratch / "state")}
    done = root.sandglass("template", "import", "--quiet", "--name", "x", bomb, env=state)
    assert done.returncode == 1 and "times its size" in done.stderr and "zeros" in done.stderr
    assert not (scratch / "state/templates/x").exists()


# ---- 24: programs with privileges ----

@held_by("no-no-new-privs,no-nosuid", {"setuid-program", "capability-program"})
def run_privileged_programs(box):
    return box.attack("privileged-programs", "/var/tmp").got


@held_by("no-cap-bound", {"capset-21", "capset-19", "capset-12", "capset-2"})
def raise_capabilities(box):
    return box.attack("raise-capabilities").got


def test_case_24_set_id_and_capability_programs_gain_nothing(root, kit):
    assert run_privileged_programs(Box(root, kit, "root")) == set()
    assert run_privileged_programs(Box(root, kit, "root", "directory")) == set()


def test_case_24_without_root_there_is_nobody_else_to_become(user, kit):
    report = Box(user, kit, "root").attack("privileged-programs", "/var/tmp")
    assert report.got == set() and report.held["setuid-program"] == "EINVAL"


def test_case_24_capabilities_cannot_be_raised(box):
    assert raise_capabilities(box) == set()


def test_case_24_under_the_sudo_profile_the_gain_ends_inside(root, kit, scratch):
    archive = scratch / "small.tar"
    subprocess.run(["tar", "-C", kit.template, "-cf", archive, "."], check=True)
    only_for_root = scratch / "secret"
    only_for_root.write_text("of the host")
    only_for_root.chmod(0o600)
    env = {"SANDGLASS_STATE_DIR": str(scratch / "state")}
    done = root.sandglass("template", "import", "--quiet", "--sudo", "--name", "small", archive, env=env)
    assert done.returncode == 0, done.stderr
    box = Box(root, kit, "root", switches=None)
    options = ["--template", "small", "--bind", f"{only_for_root}:/secret"]
    report = box.attack("privileged-programs", "/var/tmp", options=options, env=env)
    assert "setuid-program" in report.got
    for attack in (["read-files", "/secret"], ["write-files", "/secret"], ["mounts"], ["calls"],
                   ["devices"], ["namespaces"], ["raise-capabilities"]):
        assert box.attack(*attack, options=options, env=env).got == set()
    assert only_for_root.read_text() == "of the host"


# ---- 25: kernel settings ----

@held_by("no-userns,no-masks", {"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/domainname",
                                "/proc/sys/vm/panic_on_oom", "/proc/irq/default_smp_affinity"})
def change_settings(box):
    report = box.attack("settings")
    assert report.number("settings") > 100
    return report.got


@held_by("no-masks", {"/proc/irq/default_smp_affinity"})
def look_behind_masks(box):
    return box.attack("read-files", "/proc/irq/default_smp_affinity", "/proc/bus/input/devices",
                      "/proc/keys", "/proc/key-users", "/proc/kcore", "/proc/kmsg", "/proc/sched_debug",
                      "/proc/kpageflags", "/proc/1/mem", "/dev/mem",
                      "/dev/kmsg").got


def test_case_25_no_setting_of_the_kernel_can_be_opened_for_writing(box):
    paths = [pathlib.Path("/proc/sys", name) for name in SETTINGS]
    before = [path.read_text() for path in paths]
    assert change_settings(box) == set()
    assert [path.read_text() for path in paths] == before


def test_case_25_what_tells_of_the_host_is_masked(box):
    assert look_behind_masks(box) == set()
