# SPDX-License-Identifier: Apache-2.0
"""Cases 32 to 44: the kernel's own surface."""
import os
import pathlib
import pty
import subprocess
import time

from boxes import held_by

ALLOWED_FAMILIES = {"family-1", "family-2", "family-10", "family-16"}  # unix, inet, inet6, netlink


@held_by("no-pidns,no-userns,no-seccomp,no-cap-bound",
         {"ptrace", "environ", "mem", "process_vm_readv", "pidfd_getfd"}, needs=["victim"])
def trace_a_process_of_the_host(box, victim):
    return box.attack("trace", str(victim.pid)).got


@held_by("no-seccomp", {"add_key", "session-keyring", "request_key"}, inside="user")
def use_keys(box):
    return box.attack("keys").got


@held_by("no-seccomp,no-userns,no-cap-bound",
         {"userfaultfd", "perf_event_open", "bpf", "io_uring_setup", "open_by_handle_at", "quotactl",
          "acct", "swapon", "reboot", "syslog", "fanotify_init", "sethostname"})
def call_the_dangerous(box):
    return box.attack("calls").got


@held_by("no-seccomp", {"int-0x80"}, inside="user")
def enter_by_the_old_door(box):
    return box.attack("old-entry").got


@held_by("no-seccomp", {"unshare-user", "unshare-mnt", "unshare-net", "clone-user", "clone3"},
         inside="user")
def make_namespaces(box):
    return box.attack("namespaces").got


@held_by("no-seccomp,no-userns,no-cap-bound", {"adjtimex", "timer-slack"})
def change_clocks(box):
    return box.attack("clocks").got


@held_by("no-seccomp", {"family-40", "netfilter", "audit", "xfrm", "uevent", "mptcp"}, inside="user")
def open_exotic_sockets(box):
    return box.attack("sockets").got - ALLOWED_FAMILIES


@held_by("no-seccomp,no-userns,no-cap-bound", {"mount-v1", "mount-v2"})
def reach_cgroups(box):
    return box.attack("cgroups").got


@held_by("no-cgroupns", {"paths"})
def see_cgroup_paths(box):
    shown = box.attack("cgroups").said["cgroup"]
    return {"paths"} if any(not line.endswith(":/") for line in shown) else set()


@held_by("no-seccomp,no-userns,no-cap-bound,no-nodev", {"disk", "mem", "kmsg", "zero", "use-device"})
def make_devices(box):
    return box.attack("devices").got


def test_case_32_processes_of_the_host_cannot_be_traced(box, victim):
    assert trace_a_process_of_the_host(box, victim) == set()


def test_case_32_a_neighbour_cannot_be_traced(box):
    neighbour = box.start_attack("stubborn")
    try:
        pids = [int(p) for p in pathlib.Path(f"/proc/{neighbour.pid}/task/{neighbour.pid}/children")
                .read_text().split()]
        for pid in pids:
            assert trace_a_process_of_the_host(box, type("P", (), {"pid": pid})) == set()
    finally:
        neighbour.kill()
        neighbour.wait()
        neighbour.stdout.close()


def test_case_34_no_keys(box):
    assert use_keys(box) == set()


def test_case_35_dangerous_calls_are_refused(box):
    assert call_the_dangerous(box) == set()


def test_case_35_the_32_bit_door_is_shut(box):
    assert enter_by_the_old_door(box) == set()


def test_case_36_no_namespaces_inside_and_none_of_others(box):
    assert make_namespaces(box) == set()


def test_case_39_the_clock_is_not_for_setting(box):
    before, started = time.time(), time.monotonic()
    assert change_clocks(box) == set()
    assert box.attack("set-clock").got == set()
    assert abs((time.time() - before) - (time.monotonic() - started)) < 1


def test_case_41_only_four_socket_families_and_no_module_is_loaded(box):
    modules = pathlib.Path("/proc/modules")
    before = modules.read_text() if modules.exists() else ""
    assert open_exotic_sockets(box) == set()
    after = modules.read_text() if modules.exists() else ""
    assert {line.split()[0] for line in after.splitlines()} <= {line.split()[0] for line in before.splitlines()}


def test_case_42_no_cgroup_files_are_in_reach(box):
    assert reach_cgroups(box) == set()


def test_case_42_cgroup_paths_of_the_host_are_not_shown(box):
    assert see_cgroup_paths(box) == set()


def test_case_44_no_device_node_can_be_made(box):
    assert make_devices(box) == set()


ESCAPE_PATHS = [
    "/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
    "/run/podman/podman.sock", "/var/run/crio/crio.sock", "/run/systemd/private",
    "/run/dbus/system_bus_socket", "/var/lib/kubelet/pki", "/var/run/secrets/kubernetes.io",
    "/proc/sys/kernel/core_pattern.new", "/sys/fs/cgroup/release_agent", "/sys/kernel/debug",
    "/sys/firmware/efi/efivars", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/vda", "/dev/sda",
    "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/loop-control", "/dev/vsock", "/boot", "/lib/modules/x",
]


def test_case_44_what_known_escapes_go_for_is_not_there(box):
    """Runtime sockets, cluster secrets, helpers of the kernel, raw devices. Shown to matter by
    test_case_44_the_check_sees_what_is_bound."""
    assert box.attack("read-files", *ESCAPE_PATHS).got == set()


def test_case_44_the_check_sees_what_is_bound(root_box, scratch):
    (scratch / "docker.sock").write_text("x")
    options = ["--bind", f"{scratch}/docker.sock:/run/docker.sock:ro"]
    report = root_box.attack("read-files", *ESCAPE_PATHS, options=options)
    assert "/run/docker.sock" in report.got


# ---- terminal ----

def on_a_terminal(box, *words):
    """Output of an attack that runs on a terminal of ours, and what was typed into it meanwhile."""
    near, far = pty.openpty()
    process = box.start("/attack", *words, options=["--tty"], stdin=far, stdout=far,
                        stderr=subprocess.DEVNULL, start_new_session=True)
    os.close(far)
    seen = b""
    try:
        while chunk := os.read(near, 65536):
            seen += chunk
    except OSError:
        pass  # the last of those who had it open is gone
    os.close(near)
    process.wait()
    return seen.decode(errors="replace")


@held_by("no-seccomp", {"TIOCSTI", "TIOCSTI-64"}, inside="user")
def type_into_the_terminal(box):
    lines = [line.split() for line in on_a_terminal(box, "type").replace("xgot", "got").split("\r\n")]
    assert any(words[:1] in (["got"], ["held"]) for words in lines)
    return {words[1] for words in lines if words[:1] == ["got"]}


def test_case_44_nothing_can_be_typed_into_the_terminal(box):
    assert type_into_the_terminal(box) == set()
