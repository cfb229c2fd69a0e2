# SPDX-License-Identifier: Apache-2.0
"""The asyncio half of the official Python client: what it does in another way than the other half.
Arguments and output as of client.py."""
import asyncio
import os
import sys
import time
import traceback

from e2b import AsyncSandbox, CommandExitException
from e2b.sandbox.commands.command_handle import PtySize

TEMPLATE = sys.argv[1]
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


async def wait_for(question, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if question():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"did not happen within {seconds} s")


async def status_of(handle, **kw):
    try:
        return (await handle.wait(**kw)).exit_code
    except CommandExitException as error:
        return error.exit_code


@check
async def a_command_gives_output_and_status(box):
    done = await box.commands.run("echo out; echo err >&2")
    assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 0), done


@check
async def input_ends(box):
    handle = await box.commands.run("cat", background=True, stdin=True)
    await box.commands.send_stdin(handle.pid, "hello")
    await box.commands.close_stdin(handle.pid)
    assert (await handle.wait()).stdout == "hello"


@check
async def many_commands_run_at_once(box):
    done = await asyncio.gather(*(box.commands.run(f"sleep 0.1; echo {i}") for i in range(30)))
    assert [row.stdout.strip() for row in done] == [str(i) for i in range(30)]


@check
async def a_background_command_is_listed_and_killed(box):
    handle = await box.commands.run("sleep 60", background=True)
    assert handle.pid in [p.pid for p in await box.commands.list()]
    assert await handle.kill() is True
    assert await status_of(handle) == -1


@check
async def a_command_outlives_its_client_and_is_found_again(box):
    first = await box.commands.run("for i in 1 2 3 4; do echo $i; sleep 0.2; done; exit 7", background=True, timeout=0)
    await first.disconnect()
    assert await status_of(await box.commands.connect(first.pid)) == 7


@check
async def a_terminal_talks_and_resizes(box):
    output = bytearray()
    handle = await box.pty.create(PtySize(rows=30, cols=100), on_data=output.extend, timeout=20)
    await box.pty.resize(handle.pid, PtySize(rows=40, cols=90))
    await box.pty.send_stdin(handle.pid, b"stty size; exit 5\n")
    assert await status_of(handle) == 5
    assert b"40 90" in output, output


@check
async def a_file_is_written_and_read(box):
    await box.files.write("a/b.txt", "text")
    assert await box.files.read("a/b.txt") == "text"


@check
async def changes_are_seen(box):
    seen = []
    await box.files.make_dir("/tmp/watched")
    watch = await box.files.watch_dir("/tmp/watched", on_event=lambda e: seen.append((e.name, e.type.value, e.entry)),
                                      include_entry=True)
    await box.files.write("/tmp/watched/one.txt", "1234")
    await wait_for(lambda: ("one.txt", "create") in [row[:2] for row in seen] and
                   ("one.txt", "write") in [row[:2] for row in seen])
    entries = [entry for _, _, entry in seen if entry]
    assert entries and entries[-1].path == "/tmp/watched/one.txt" and entries[-1].size == 4, seen
    await watch.stop()


async def main():
    good = True
    box = await AsyncSandbox.create(TEMPLATE, timeout=120)
    for function in CHECKS:
        name = function.__name__
        try:
            await function(box)
            print(f"ok {name}", flush=True)
        except Exception:  # each check is told by itself
            good = False
            print(f"not ok {name}\n" + "".join(f"  {line}\n" for line in traceback.format_exc().splitlines()), flush=True)
    await box.kill()
    # Not through the interpreter's end: threads of the client's native transport may abort it there.
    os._exit(0 if good else 1)


asyncio.run(main())
