# SPDX-License-Identifier: Apache-2.0
"""Checks of client.py about the sandbox itself: its life, its place among others, what outlives it."""
import os
import re
import urllib.error
import urllib.request

from checks import TEMPLATE, Skip, alone, check, raises, wait_for
from e2b import Sandbox, SandboxQuery, SandboxState
from e2b.sandbox import sandbox_api
from e2b.exceptions import AuthenticationException, NotFoundException, SandboxException, TimeoutException


@check
def a_service_inside_is_reached(box):
    box.commands.run("mkdir -p /tmp/www; echo from inside > /tmp/www/page; cd /tmp/www; python3 -m http.server 8000",
                     background=True, timeout=0).disconnect()
    url, headers = f"https://{box.get_host(8000)}/page", {}
    if os.environ.get("E2B_SANDBOX_URL"):
        url = os.environ["E2B_SANDBOX_URL"] + "/page"
        headers = {"E2b-Sandbox-Id": box.sandbox_id, "E2b-Sandbox-Port": "8000"}
    def fetch():
        try:
            return urllib.request.urlopen(urllib.request.Request(url, headers=headers)).read()
        except urllib.error.HTTPError:
            return None
    assert wait_for(fetch) == b"from inside\n"


@check
def it_tells_about_itself(box):
    info = box.get_info()
    assert info.sandbox_id == box.sandbox_id and info.template_id == TEMPLATE
    assert info.state == SandboxState.RUNNING and info.metadata["purpose"] == "tests of the client"
    assert info.end_at > info.started_at and box.is_running()


@check
def its_ports_have_names_below_the_domain(box):
    assert re.fullmatch(r"8000-[a-z0-9]+\.sandglass\.localhost:\d+", box.get_host(8000)), box.get_host(8000)


@check
def it_is_listed_by_its_metadata(box):
    page = Sandbox.list(query=SandboxQuery(metadata={"purpose": "tests of the client"}))
    assert [s.sandbox_id for s in page.next_items()] == [box.sandbox_id] and not page.has_next
    page = Sandbox.list(query=SandboxQuery(metadata={"purpose": "another"}))
    assert page.next_items() == []


@check
def its_end_is_set_and_connecting_does_not_move_it_closer(box):
    box.set_timeout(500)
    first = box.get_info().end_at
    again = Sandbox.connect(box.sandbox_id, timeout=100)
    assert again.get_info().end_at == first
    assert again.commands.run("echo same").stdout == "same\n"


@check
def it_measures_itself(box):
    metrics = box.get_metrics()
    assert metrics and metrics[0].mem_total > 0 and metrics[0].cpu_count >= 1, metrics


@alone
def the_default_template_has_what_agents_use():
    with Sandbox.create() as box:
        done = box.commands.run("id -un; for p in git python3 node curl sudo; do command -v $p >&2 || echo no $p; done")
        assert done.stdout == "user\n", done
        done = box.commands.run("sudo id -u; sudo -u user id -un; node -p 6*7; python3 -c 'print(6 * 7)'")
        assert done.stdout == "0\nuser\n42\n42\n", done


@alone
def pages_follow_each_other():
    boxes = [Sandbox.create(TEMPLATE, metadata={"page": "yes"}) for _ in range(3)]
    try:
        found = []
        page = Sandbox.list(query=SandboxQuery(metadata={"page": "yes"}), limit=2)
        while page.has_next:
            items = page.next_items()
            assert 1 <= len(items) <= 2
            found += [s.sandbox_id for s in items]
        assert sorted(found) == sorted(b.sandbox_id for b in boxes), found
    finally:
        for box in boxes:
            box.kill()


@alone
def a_killed_sandbox_is_gone():
    box = Sandbox.create(TEMPLATE)
    handle = box.commands.run("sleep 60", background=True)
    assert box.kill() is True
    assert box.is_running() is False
    assert box.kill() is False
    raises(TimeoutException, box.commands.run, "true")
    raises(Exception, handle.wait)
    raises(NotFoundException, box.get_info)


@alone
def a_sandbox_ends_at_its_time():
    box = Sandbox.create(TEMPLATE, timeout=60)
    box.set_timeout(1)
    wait_for(lambda: not box.is_running(), 5)
    raises(NotFoundException, Sandbox.connect, box.sandbox_id)


@alone
def a_paused_sandbox_keeps_its_processes():
    box = Sandbox.create(TEMPLATE, timeout=60)
    handle = box.commands.run("sleep 60", background=True)
    box.files.write("kept.txt", "kept")
    box.pause()
    assert box.is_running() is False
    assert box.get_info().state == SandboxState.PAUSED
    again = Sandbox.connect(box.sandbox_id, timeout=60)
    assert again.is_running()
    assert handle.pid in [p.pid for p in again.commands.list()]
    assert again.files.read("kept.txt") == "kept"
    assert box.commands.run("echo the same token").exit_code == 0
    box.kill()


@alone
def a_sandbox_pauses_at_its_time_and_traffic_wakes_it():
    box = Sandbox.create(TEMPLATE, timeout=60, lifecycle={"on_timeout": "pause", "auto_resume": True})
    box.set_timeout(1)
    wait_for(lambda: Sandbox.get_info(box.sandbox_id).state == SandboxState.PAUSED, 5)
    assert box.commands.run("echo awake").stdout == "awake\n"
    assert box.get_info().state == SandboxState.RUNNING
    box.kill()


@alone
def an_unknown_template_is_told():
    error = raises(SandboxException, Sandbox.create, "no-such-template")
    assert "404" in str(error) and "not found" in str(error), error


@alone
def a_wrong_key_is_refused():
    raises(AuthenticationException, Sandbox.create, TEMPLATE, api_key="e2b_" + "0" * 40)


@alone
def what_the_server_lacks_is_refused_with_a_reason():
    error = raises(SandboxException, Sandbox.create, TEMPLATE, network={"deny_out": ["example.com"]})
    assert "400" in str(error), error


@alone
def network_settings_are_enforced_and_change_while_it_runs():
    if not hasattr(Sandbox, "update_network"):
        raise Skip("update_network")
    host, port = os.environ["SDK_FAR"].split()
    script = f"import socket; print(socket.create_connection(('{host}', {port}), 5).recv(1))"

    def reaches(box):
        return box.commands.run(f'python3 -c "{script}" 2>/dev/null || true').stdout == "b'+'\n"
    free = Sandbox.create(TEMPLATE, timeout=60)
    assert reaches(free)
    free.update_network({"deny_out": [host]})
    assert not reaches(free)
    free.update_network({"deny_out": ["0.0.0.0/0"], "allow_out": [host]})
    assert reaches(free)
    free.update_network({"allow_internet_access": False})
    assert not reaches(free)
    free.kill()
    closed = Sandbox.create(TEMPLATE, timeout=60, allow_internet_access=False)
    some = Sandbox.create(TEMPLATE, timeout=60, network={"deny_out": ["0.0.0.0/0"], "allow_out": [host]})
    assert not reaches(closed) and reaches(some)
    closed.kill()
    some.kill()
    if "egress_proxy" in getattr(sandbox_api.SandboxNetworkOpts, "__annotations__", {}):
        goes_through_a_proxy(script)


def goes_through_a_proxy(script):
    """The proxy of the tests leads to a server that greets with another word."""
    def greeting(box):
        return box.commands.run(f'python3 -c "{script}" 2>/dev/null || true').stdout
    proxy = {"address": os.environ["SDK_PROXY"], "username": "sdk", "password": "proxy-password"}
    box = Sandbox.create(TEMPLATE, timeout=60, network={"egress_proxy": proxy})
    assert greeting(box) == "b'*'\n"
    shown = box.get_info().network["egress_proxy"]
    assert (shown["address"], shown["username"]) == (proxy["address"], "sdk") and "password" not in shown, shown
    box.update_network({"egress_proxy": {**proxy, "password": "another"}})
    assert greeting(box) == ""
    box.update_network({})
    assert greeting(box) == "b'+'\n"
    box.kill()
    if hasattr(sandbox_api, "SandboxEgressProxyTLSOpts"):
        error = raises(SandboxException, Sandbox.create, TEMPLATE, network={"egress_proxy": {**proxy, "tls": True}})
        assert "tls" in str(error), error


@alone
def a_snapshot_is_a_template_and_survives_its_sandbox():
    box = Sandbox.create(TEMPLATE, timeout=60)
    if not hasattr(box, "create_snapshot"):
        raise Skip("create_snapshot")
    box.files.write("state.txt", "one")
    bare, named = box.create_snapshot(), box.create_snapshot(name="py-snap:v1")
    assert bare.snapshot_id.endswith(":default") and named.snapshot_id.endswith("/py-snap:v1"), (bare, named)
    box.files.write("state.txt", "two")
    assert len(box.list_snapshots().next_items()) == 2
    assert [s.snapshot_id for s in Sandbox.list_snapshots(name="py-snap").next_items()] == [named.snapshot_id]
    box.kill()
    for made in (bare, named):
        copy = Sandbox.create(made.snapshot_id, timeout=60)
        assert copy.files.read("state.txt") == "one"
        raises(SandboxException, Sandbox.delete_snapshot, made.snapshot_id)
        copy.kill()
        assert Sandbox.delete_snapshot(made.snapshot_id) is True
        assert Sandbox.delete_snapshot(made.snapshot_id) is False


@alone
def forks_have_the_files_and_tokens_of_their_own():
    box = Sandbox.create(TEMPLATE, timeout=60, metadata={"job": "7"}, envs={"E": "v"})
    if not hasattr(box, "fork"):
        box.kill()
        raise Skip("fork")
    box.files.write("state.txt", "shared")
    forks = box.fork(count=3, timeout=60)
    assert len({fork.sandbox_id for fork in forks} | {box.sandbox_id}) == 4
    boots = {fork.commands.run("cat /proc/sys/kernel/random/boot_id").stdout for fork in [box, *forks]}
    assert len(boots) == 4, boots
    for fork in forks:
        assert fork.files.read("state.txt") == "shared" and fork.commands.run("echo $E").stdout == "v\n"
        assert fork.get_info().metadata == {"job": "7"}
        fork.files.write("state.txt", fork.sandbox_id)
    assert box.files.read("state.txt") == "shared"
    for one in [box, *forks]:
        one.kill()


@alone
def a_pause_of_the_files_alone_boots_anew():
    box = Sandbox.create(TEMPLATE, timeout=60)
    boot = box.commands.run("cat /proc/sys/kernel/random/boot_id").stdout
    box.files.write("kept.txt", "kept")
    handle = box.commands.run("sleep 60", background=True)
    try:
        box.pause(keep_memory=False)
    except TypeError:
        box.kill()
        raise Skip("keep_memory") from None
    assert box.get_info().state == SandboxState.PAUSED
    again = Sandbox.connect(box.sandbox_id, timeout=60)
    assert again.files.read("kept.txt") == "kept"
    assert handle.pid not in [p.pid for p in again.commands.list()]
    assert again.commands.run("cat /proc/sys/kernel/random/boot_id").stdout != boot
    again.kill()


@alone
def volumes_keep_files_and_sandboxes_share_them():
    try:
        from e2b import Volume
    except ImportError:
        raise Skip("Volume") from None
    volume = Volume.create("py-volume")
    content = {"api_url": os.environ.get("E2B_API_URL") or f"https://api.{os.environ['E2B_DOMAIN']}"}
    volume.write_file("/hello.txt", "from outside", mode=0o640, **content)
    stat = volume.get_info("/hello.txt", **content)
    assert (stat.name, stat.size, stat.mode) == ("hello.txt", 12, 0o640), stat
    assert volume.read_file("/hello.txt", **content) == "from outside"
    volume.make_dir("/a/b", force=True, **content)
    assert sorted(e.path for e in volume.list("/", depth=2, **content)) == ["/a", "/a/b", "/hello.txt"]
    assert volume.update_metadata("/hello.txt", mode=0o644, **content).mode == 0o644
    boxes = [Sandbox.create(TEMPLATE, volume_mounts={"/mnt/v": volume}) for _ in range(2)]
    try:
        assert boxes[0].commands.run("cat /mnt/v/hello.txt").stdout == "from outside"
        boxes[0].commands.run("echo from one > /mnt/v/one")
        assert boxes[1].commands.run("cat /mnt/v/one").stdout == "from one\n"
        assert volume.read_file("/one", **content) == "from one\n"
    finally:
        for box in boxes:
            box.kill()
    volume.remove("/a", **content)
    assert not volume.exists("/a", **content)
    raises(NotFoundException, volume.read_file, "/none", **content)
    assert any(v.volume_id == volume.volume_id for v in Volume.list())
    assert Volume.destroy(volume.volume_id) and not Volume.destroy(volume.volume_id)


@alone
def secrets_are_kept_and_never_shown():
    try:
        from e2b import Secret
        from e2b.exceptions import SecretException, SecretNotFoundException
    except ImportError:
        raise Skip("Secret") from None
    made = Secret.create("Py-Secret", "hidden value", metadata={"team": "blue"})
    assert (made.name, made.version, made.metadata) == ("py-secret", 1, {"team": "blue"}), made
    raises(SecretException, Secret.create, "py-secret", "again")
    assert Secret.update(made.secret_id, "another").version == 2
    assert Secret.get_info("py-secret").secret_id == made.secret_id
    Secret.create("py-second", "x")
    pages, names = Secret.list(limit=1), []
    while pages.has_next:
        names += [secret.name for secret in pages.next_items()]
    assert names == ["py-second", "py-secret"], names
    assert all(Secret.destroy(name) for name in names)
    assert not Secret.destroy("py-secret") and not Secret.exists("py-secret")
    raises(SecretNotFoundException, Secret.update, "py-secret", "x")
