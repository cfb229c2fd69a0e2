# SPDX-License-Identifier: Apache-2.0
"""What can be seen of the host and of neighbours: nothing that was not given."""
import os
import pathlib
import re

from boxes import Box, held_by


# ---- descriptors, environment, limits ----

@held_by("keep-descriptors", {"77"})
def find_a_leaked_descriptor(box):
    """Ours has the number 77; root inside can list the numbers that pid 1 has."""
    fd = os.open("/etc/hostname", os.O_RDONLY)
    os.dup2(fd, 77, inheritable=True)
    os.close(fd)
    try:
        report = box.attack("list", "/proc/1/fd", pass_fds=[77])
    finally:
        os.close(77)
    return {"77"} & set(report.said.get("/proc/1/fd", []))


def test_a_command_has_three_descriptors_and_its_work_directory(box):
    report = box.attack("descriptors")
    assert [line.split()[0] for line in report.said["descriptor"]] == ["0", "1", "2"]
    assert all("pipe:" in line or "/dev/" in line for line in report.said["descriptor"])
    assert report.said["cwd"] == ["/workspace"]


def test_a_descriptor_of_the_caller_does_not_get_in(box):
    assert find_a_leaked_descriptor(box) == set()


def test_the_environment_of_the_caller_is_not_passed_on(root_box):
    done = root_box.run("env", env={"SECRET_TOKEN": "of the host", "LD_PRELOAD": None})
    assert "SECRET_TOKEN" not in done.stdout and "SANDGLASS" not in done.stdout
    done = root_box.run("env", env={"SECRET_TOKEN": "passed on"}, options=["--env", "SECRET_TOKEN"])
    assert "SECRET_TOKEN=passed on" in done.stdout  # the check sees it when it is there


def test_no_core_is_dumped(box, scratch):
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text()
    done = box.run("/attack", "crash", options=["--bind", f"{scratch}:/bound", "--workdir", "/bound"])
    assert "said core_limit 0" in done.stdout and done.returncode == 134
    assert list(scratch.iterdir()) == []
    assert pathlib.Path("/proc/sys/kernel/core_pattern").read_text() == pattern


def test_the_umask_is_plain_whatever_the_callers_is(root_box):
    done = root_box.run("sh", "-c", "umask; touch x; stat -c %a x", umask=0)
    assert done.stdout.split() == ["0022", "644"]


# ---- files of the host ----

def test_nothing_of_the_hosts_own_directories_is_seen_in_the_host_template(runner, kit, scratch):
    box = Box(runner, kit, "root")
    seen = {}
    for place in ("/root", "/home", "/var/log", "/var/lib", "/run", "/tmp", "/opt", "/srv", "/mnt", "/media"):
        seen[place] = set(box.attack("list", place, "/").said.get(place, []))
    assert seen["/home"] <= {"user"} and seen["/run"] <= {"lock"}
    for place in ("/root", "/var/log", "/var/lib", "/tmp", "/srv", "/mnt", "/media"):
        assert seen[place] == set(), place
    hidden = ["/etc/shadow-", "/etc/ssh", "/etc/sudoers", "/etc/fstab",
              "/etc/gitconfig", "/etc/resolv.conf.host", str(scratch)]
    assert box.attack("read-files", *hidden).got == set()
    assert "root:*:" in box.run("cat", "/etc/shadow").stdout  # ours, without any password
    ids = {box.run("cat", "/etc/machine-id").stdout.strip() for _ in range(2)}  # each cell has its own
    assert len(ids) == 2 and all(re.fullmatch("[0-9a-f]{32}", one) for one in ids), ids
    host = pathlib.Path("/etc/machine-id")
    assert not host.exists() or host.read_text().strip() not in ids


def test_files_that_only_the_hosts_root_may_read_stay_unreadable(runner, kit, scratch):
    secret = scratch / "secret"
    secret.write_text("of the host")
    secret.chmod(0o600)
    box = Box(runner, kit, "root")
    options = ["--bind", f"{scratch}:/bound:ro"]
    assert box.attack("read-files", "/bound/secret", options=options).got == set()
    secret.chmod(0o644)
    assert box.attack("read-files", "/bound/secret", options=options).got == {"/bound/secret"}


# ---- processes ----

@held_by("no-pidns", {"processes"})
def see_processes(box):
    return {"processes"} if len(box.attack("processes").said["pid"]) > 3 else set()


@held_by("no-userns", {"same ids"})
def share_ids(box):
    """Two sandboxes at once: the ids of their processes, as the host sees them."""
    both = [box.start_attack("stubborn") for _ in range(2)]
    try:
        maps = []
        for process in both:
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
            maps.append({int(pathlib.Path(f"/proc/{pid}/status").read_text().split("Uid:")[1].split()[0])
                         for pid in children.split()})
    finally:
        for process in both:
            process.kill()
            process.wait()
            process.stdout.close()
    own = {0}
    return {"same ids"} if (maps[0] - own) & (maps[1] - own) or not (maps[0] - own) else set()


def test_no_process_of_others_is_seen(box):
    neighbour = box.start_attack("stubborn")
    assert see_processes(box) == set()
    neighbour.kill()
    neighbour.wait()
    neighbour.stdout.close()


def test_two_sandboxes_have_no_id_in_common(root, kit):
    assert share_ids(Box(root, kit, "root")) == set()


# ---- sockets and memory ----

@held_by("no-netns", {"abstract"}, inside="user", needs=["abstract_socket"])
def reach_an_abstract_socket(box, name):
    return box.attack("connect-abstract", name).got


@held_by("no-netns", {"loopback"}, inside="user", needs=["loopback_port"])
def reach_the_hosts_loopback(box, port):
    return box.attack("connect-loopback", str(port)).got


@held_by("no-ipcns", {"shared-memory"}, inside="user", needs=["shared_memory"])
def reach_shared_memory(box, key):
    return box.attack("shared-memory", str(key)).got


def test_abstract_sockets_of_the_host_are_out_of_reach(box, abstract_socket):
    assert reach_an_abstract_socket(box, abstract_socket) == set()


def test_services_on_the_hosts_loopback_are_out_of_reach(box, loopback_port):
    assert reach_the_hosts_loopback(box, loopback_port) == set()


def test_shared_memory_of_the_host_is_out_of_reach(box, shared_memory):
    assert reach_shared_memory(box, shared_memory) == set()


# ---- terminal ----

def test_bytes_of_a_terminal_pass_untouched(root_box):
    done = root_box.run("printf", r"\033]0;title\007\033[31mred\033[0m\377", text=False)
    assert done.stdout == b"\x1b]0;title\x07\x1b[31mred\x1b[0m\xff"
    done = root_box.run("printf", r"\033]0;title\007\033[31mred\033[0m\377", options=["--tty"], text=False)
    assert done.stdout == b"\x1b]0;title\x07\x1b[31mred\x1b[0m\xff"
