# SPDX-License-Identifier: Apache-2.0
"""What the official Python client can do, against the server that the environment names.

    client.py TEMPLATE          prints "ok NAME" or "not ok NAME" with the reason; exits 1 on any failure

Each check is a function whose name says what must hold. It gets a sandbox of its own class of
template; most share one.
"""
import importlib
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request

from checks import CHECKS, OWN, TEMPLATE, Skip, check, raises, wait_for
from e2b import CommandExitException, Sandbox
from e2b.exceptions import (AuthenticationException, InvalidArgumentException, NotFoundException,
                            SandboxException, TimeoutException)


# ---- commands ----

@check
def a_command_gives_output_and_status(box):
    done = box.commands.run("echo out; echo err >&2")
    assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 0), done


@check
def a_failing_command_tells_its_status(box):
    error = raises(CommandExitException, box.commands.run, "echo x; exit 3")
    assert error.exit_code == 3 and error.stdout == "x\n", error


@check
def a_command_has_directory_environment_and_user(box):
    done = box.commands.run("pwd; echo $A; id -un; echo $FROM_CREATE", cwd="/tmp", envs={"A": "1 2"})
    assert done.stdout.split("\n")[:4] == ["/tmp", "1 2", "user", "of the sandbox"], done.stdout
    assert box.commands.run("id -un; pwd", user="root").stdout == "root\n/root\n"


@check
def a_command_starts_at_home(box):
    assert box.commands.run("pwd").stdout == "/home/user\n"


@check
def a_missing_directory_is_refused(box):
    raises(InvalidArgumentException, box.commands.run, "true", cwd="/no/such/dir")


@check
def an_unknown_user_is_refused(box):
    raises(AuthenticationException, box.commands.run, "true", user="nobody-of-that-name")


@check
def output_comes_as_it_is_made(box):
    seen = []
    box.commands.run("echo a; sleep 0.3; echo b", on_stdout=lambda line: seen.append((line, time.monotonic())))
    assert "".join(line for line, _ in seen) == "a\nb\n", seen
    assert seen[-1][1] - seen[0][1] > 0.2, seen


@check
def large_output_comes_whole(box):
    done = box.commands.run("head -c 3000000 /dev/zero | tr '\\0' x")
    assert len(done.stdout) == 3000000 and set(done.stdout) == {"x"}


@check
def a_background_command_can_be_waited_for(box):
    handle = box.commands.run("sleep 0.2; echo done; exit 2", background=True)
    assert handle.pid > 1
    error = raises(CommandExitException, handle.wait)
    assert error.exit_code == 2 and error.stdout == "done\n"


@check
def a_background_command_is_listed_and_killed(box):
    handle = box.commands.run("sleep 60", background=True)
    row = next(p for p in box.commands.list() if p.pid == handle.pid)
    assert row.cmd == "/bin/bash" and row.args == ["-l", "-c", "sleep 60"], row
    assert box.commands.run(f"kill -0 {handle.pid}").exit_code == 0
    assert handle.kill() is True
    error = raises(CommandExitException, handle.wait)
    assert error.exit_code == -1 and "killed" in error.error, error
    wait_for(lambda: all(p.pid != handle.pid for p in box.commands.list()))
    assert box.commands.kill(handle.pid) is False


@check
def input_ends(box):
    handle = box.commands.run("cat", background=True, stdin=True)
    box.commands.send_stdin(handle.pid, "hello ")
    box.commands.send_stdin(handle.pid, "there\n")
    box.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "hello there\n"


@check
def input_reaches_a_command(box):
    handle = box.commands.run("head -n 1", background=True, stdin=True)
    box.commands.send_stdin(handle.pid, "hello\n")
    assert handle.wait().stdout == "hello\n"


@check
def much_input_reaches_a_slow_reader(box):
    handle = box.commands.run("sleep 0.3; wc -c", background=True, stdin=True)
    text = "y" * 1000000
    box.commands.send_stdin(handle.pid, text)
    box.commands.close_stdin(handle.pid)
    assert handle.wait().stdout.strip() == "1000000"


@check
def input_to_a_command_without_it_is_an_error(box):
    handle = box.commands.run("sleep 5", background=True)
    raises(SandboxException, box.commands.send_stdin, handle.pid, "x")
    handle.kill()


@check
def a_command_ends_at_its_timeout(box):
    began = time.monotonic()
    raises(TimeoutException, box.commands.run, "sleep 30", timeout=1)
    assert time.monotonic() - began < 5
    wait_for(lambda: "sleep 30" not in box.commands.run("ps ax -o args | grep -v grep").stdout)


@check
def a_command_outlives_its_client_and_is_found_again(box):
    first = box.commands.run("for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done; exit 7", background=True, timeout=0)
    first.disconnect()
    error = raises(CommandExitException, box.commands.connect(first.pid).wait)
    assert error.exit_code == 7 and error.stdout.endswith("5\n6\n"), error.stdout


@check
def a_command_that_has_just_ended_still_tells_how(box):
    handle = box.commands.run("exit 4", background=True)
    raises(CommandExitException, handle.wait)
    error = raises(CommandExitException, box.commands.connect(handle.pid).wait)
    assert error.exit_code == 4


@check
def a_command_that_never_was_is_not_found(box):
    raises(NotFoundException, box.commands.connect, 999999)


@check
def many_commands_run_at_once(box):
    found = []
    def one(i):
        found.append(box.commands.run(f"sleep 0.1; echo {i}").stdout.strip() == str(i))
    threads = [threading.Thread(target=one, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 20


# ---- terminals ----

@check
def a_terminal_talks_and_resizes(box):
    from e2b.sandbox.commands.command_handle import PtySize
    output = bytearray()
    handle = box.pty.create(PtySize(rows=30, cols=100), timeout=20)
    box.pty.send_stdin(handle.pid, b"stty size; echo $TERM\n")
    box.pty.resize(handle.pid, PtySize(rows=40, cols=90))
    box.pty.send_stdin(handle.pid, b"stty size; exit 5\n")
    error = raises(CommandExitException, handle.wait, on_pty=output.extend)
    assert error.exit_code == 5, error
    text = output.decode()
    assert "40 90" in text and "xterm-256color" in text, text


@check
def a_terminal_is_killed(box):
    from e2b.sandbox.commands.command_handle import PtySize
    handle = box.pty.create(PtySize(rows=24, cols=80), timeout=20)
    assert box.pty.kill(handle.pid) is True
    assert raises(CommandExitException, handle.wait).exit_code == -1


# ---- files ----

@check
def a_file_is_written_and_read(box):
    info = box.files.write("some/where/a b.txt", "text with ü\n")
    assert info.path == "/home/user/some/where/a b.txt" and info.name == "a b.txt", info
    assert box.files.read("some/where/a b.txt") == "text with ü\n"
    assert box.commands.run("cat 'some/where/a b.txt'").stdout == "text with ü\n"
    box.files.write("/home/user/some/where/a b.txt", "short")
    assert box.files.read("~/some/where/a b.txt") == "short"


@check
def bytes_of_any_kind_survive(box):
    data = bytes(range(256)) * 4000
    box.files.write("/tmp/bytes", data)
    assert bytes(box.files.read("/tmp/bytes", format="bytes")) == data
    assert b"".join(box.files.read("/tmp/bytes", format="stream")) == data


@check
def an_empty_file_is_one(box):
    box.files.write("/tmp/empty", b"")
    assert box.files.read("/tmp/empty") == ""


@check
def a_stream_is_uploaded(box):
    import io
    data = b"0123456789" * 300000
    box.files.write("/tmp/stream", io.BytesIO(data))
    assert bytes(box.files.read("/tmp/stream", format="bytes")) == data
    box.files.write("/tmp/zipped", data, gzip=True)
    assert bytes(box.files.read("/tmp/zipped", format="bytes", gzip=True)) == data


@check
def several_files_go_in_one_request(box):
    rows = box.files.write_files([{"path": f"/tmp/several/{i}", "data": f"file {i}"} for i in range(20)])
    assert [row.path for row in rows] == [f"/tmp/several/{i}" for i in range(20)]
    assert box.files.read("/tmp/several/13") == "file 13"


@check
def a_file_keeps_its_metadata(box):
    info = box.files.write("/tmp/labelled", "x", metadata={"Color": "dark blue", "n": "1"})
    assert info.metadata == {"color": "dark blue", "n": "1"}, info
    assert box.files.get_info("/tmp/labelled").metadata == {"color": "dark blue", "n": "1"}
    box.files.rename("/tmp/labelled", "/tmp/labels/renamed")
    assert [row.metadata for row in box.files.list("/tmp/labels")] == [{"color": "dark blue", "n": "1"}]
    box.files.write("/tmp/labels/renamed", "y")
    assert not box.files.get_info("/tmp/labels/renamed").metadata


@check
def a_file_is_sent_compressed(box):
    box.files.write("/tmp/packed", "text\n" * 100000, gzip=True)
    assert box.files.get_info("/tmp/packed").size == 500000


@check
def a_file_belongs_to_its_user(box):
    box.files.write("/tmp/roots", "x", user="root")
    assert box.files.get_info("/tmp/roots").owner == "root"
    box.files.write("/tmp/users", "x")
    info = box.files.get_info("/tmp/users")
    assert (info.owner, info.group, info.mode, info.permissions, info.size) == ("user", "user", 0o644, "-rw-r--r--", 1), info


@check
def files_go_where_only_root_may_write(box):
    box.files.write("/path/to/file", "file content")
    info = box.files.get_info("/path/to/file")
    assert (info.owner, box.files.get_info("/path").owner) == ("user", "user"), info
    assert box.commands.run("echo more >> /path/to/file; cat /path/to/file").stdout == "file contentmore\n"
    assert box.files.make_dir("/opt/of/ours") is True
    assert box.files.get_info("/opt/of/ours").owner == "user"
    box.files.remove("/path")
    assert box.files.exists("/path") is False


@check
def what_is_not_there_is_not_found(box):
    raises(NotFoundException, box.files.read, "/tmp/not there")
    raises(NotFoundException, box.files.list, "/tmp/not there")
    raises(NotFoundException, box.files.get_info, "/tmp/not there")
    assert box.files.exists("/tmp/not there") is False
    box.files.remove("/tmp/not there")


@check
def a_directory_is_no_file(box):
    raises(InvalidArgumentException, box.files.read, "/tmp")
    raises(InvalidArgumentException, box.files.write, "/tmp", "x")


@check
def directories_are_made_listed_and_removed(box):
    assert box.files.make_dir("/tmp/tree/deep/down") is True
    assert box.files.make_dir("/tmp/tree/deep") is False
    box.files.write("/tmp/tree/b.txt", "b")
    box.files.write("/tmp/tree/deep/a.txt", "a")
    box.commands.run("ln -s /tmp/tree/b.txt /tmp/tree/link")
    assert [e.name for e in box.files.list("/tmp/tree")] == ["b.txt", "deep", "link"]
    deep = [(e.path, e.type.value) for e in box.files.list("/tmp/tree", depth=3)]
    assert deep == [("/tmp/tree/b.txt", "file"), ("/tmp/tree/deep", "dir"), ("/tmp/tree/deep/a.txt", "file"),
                    ("/tmp/tree/deep/down", "dir"), ("/tmp/tree/link", "file")], deep
    link = box.files.get_info("/tmp/tree/link")
    assert link.symlink_target == "/tmp/tree/b.txt", link
    raises(InvalidArgumentException, box.files.list, "/tmp/tree/b.txt")
    box.files.remove("/tmp/tree")
    assert box.files.exists("/tmp/tree") is False


@check
def a_file_is_moved(box):
    box.files.write("/tmp/from.txt", "moved")
    info = box.files.rename("/tmp/from.txt", "/tmp/new/place/to.txt")
    assert info.path == "/tmp/new/place/to.txt", info
    assert box.files.exists("/tmp/from.txt") is False
    assert box.files.read("/tmp/new/place/to.txt") == "moved"
    raises(NotFoundException, box.files.rename, "/tmp/from.txt", "/tmp/other")


@check
def changes_are_seen(box):
    box.files.make_dir("/tmp/watched")
    watch = box.files.watch_dir("/tmp/watched", recursive=True)
    box.files.write("/tmp/watched/one.txt", "1")
    box.commands.run("mkdir /tmp/watched/sub; sleep 0.2; echo 2 > /tmp/watched/sub/two.txt; rm /tmp/watched/one.txt")
    seen = []
    def all_seen():
        seen.extend((e.name, e.type.value) for e in watch.get_new_events())
        return {("one.txt", "create"), ("one.txt", "write"), ("sub", "create"), ("sub/two.txt", "write"),
                ("one.txt", "remove")} <= set(seen)
    try:
        wait_for(all_seen)
    except AssertionError:
        raise AssertionError(seen) from None
    watch.stop()
    raises(SandboxException, watch.get_new_events)


@check
def a_watch_needs_a_directory(box):
    raises(NotFoundException, box.files.watch_dir, "/tmp/nowhere")
    box.files.write("/tmp/plain", "x")
    raises(InvalidArgumentException, box.files.watch_dir, "/tmp/plain")


@check
def signed_urls_need_no_key(box):
    box.files.write("/tmp/signed.txt", "by url")
    with urllib.request.urlopen(box.download_url("/tmp/signed.txt", user="user")) as reply:
        assert reply.read() == b"by url"
    with urllib.request.urlopen(box.download_url("/tmp/signed.txt", use_signature_expiration=100)) as reply:
        assert reply.read() == b"by url"
    url = box.download_url("/tmp/signed.txt", use_signature_expiration=-10)
    error = raises(urllib.error.HTTPError, urllib.request.urlopen, url)
    assert error.code == 401 and b"signature is already expired" in error.read()
    error = raises(urllib.error.HTTPError, urllib.request.urlopen, box.download_url("/tmp/signed.txt") + "x")
    assert error.code in (401, 502), error.code


def run(name, function, *args):
    try:
        function(*args)
    except Skip as why:
        print(f"skip {name}: no {why}", flush=True)
        return True
    except Exception:  # each check is told by itself
        print(f"not ok {name}\n" + "".join(f"  {line}\n" for line in traceback.format_exc().splitlines()), flush=True)
        return False
    print(f"ok {name}", flush=True)
    return True


def main():
    importlib.import_module("client_box")  # its checks come after those above
    importlib.import_module("client_build")
    wanted = sys.argv[2:]
    good = True
    box = Sandbox.create(TEMPLATE, timeout=300, metadata={"purpose": "tests of the client"},
                         envs={"FROM_CREATE": "of the sandbox"})
    for function in CHECKS:
        if not wanted or function.__name__ in wanted:
            good &= run(function.__name__, function, box)
    box.kill()
    for function in OWN:
        if not wanted or function.__name__ in wanted:
            good &= run(function.__name__, function)
    sys.exit(0 if good else 1)


main()
