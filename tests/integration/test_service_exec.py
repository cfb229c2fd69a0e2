# SPDX-License-Identifier: Apache-2.0
"""Commands in a sandbox: their streams, their ends, and what is kept of them."""
import base64
import concurrent.futures
import contextlib
import json
import socket
import time

import pytest
import web
from service import Box, wait_for

MIB = 1 << 20
JOURNAL = 1 * MIB  # of the shared service


# ---- one command, one reply ----

def test_a_command_gives_its_output_and_its_status(box):
    done = box.exec("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done["stdout"], done["stderr"], done["exitCode"]) == ("out\n", "err\n", 3)
    assert done["state"] == "ended" and done["ending"] == "exit" and done["complete"]
    assert done["outputBytes"] == 8 and "truncatedBytes" not in done and "signal" not in done


def test_a_line_for_the_shell(box):
    assert box.exec(cmd="echo $((6 * 7)) | tr 2 3")["stdout"] == "43\n"


def test_output_that_is_no_text_comes_as_base64(box):
    done = box.exec("printf", r"\377\000\001")
    assert base64.b64decode(done["stdoutBase64"]) == b"\xff\x00\x01" and "stdout" not in done


def test_environment_directory_and_user_are_the_ones_asked_for(box):
    done = box.exec("sh", "-c", "pwd; id -u; echo \"$V\"; echo $HOME", cwd="/tmp", user="root",
                    env={"V": "a b\n\"c\""})
    lines = done["stdout"].splitlines()
    assert lines[:2] == ["/tmp", "0"] and 'a b\n"c"' in done["stdout"]
    assert done["cwd"] == "/tmp" and done["user"] == "root"
    assert box.exec("id", "-u")["stdout"] == box.exec("id", "-u", user=box.made["user"])["stdout"]


def test_what_an_argument_holds_arrives_as_it_is(box):
    words = ["", " ", "*", "$HOME", "'\"", "ü€𝄞", "a" * 4000, "-n"]
    done = box.exec("/usr/bin/env", "printf", r"%s\n", *words)
    assert done["stdout"] == "".join(word + "\n" for word in words)


@pytest.mark.parametrize("spec, status, words", [
    ({"argv": ["/no/such/program"]}, 404, ["/no/such/program"]),
    ({"argv": ["nosuchprogram"]}, 404, ["nosuchprogram"]),
    ({"argv": ["/etc/passwd"]}, 403, ["/etc/passwd"]),
    ({"argv": ["true"], "cwd": "/no/such/dir"}, 400, ["/no/such/dir"]),
    ({"argv": ["true"], "user": "nobody-here"}, 404, ["nobody-here"]),
    ({"argv": []}, 400, ["argv"]), ({"argv": [""]}, 400, ["argv"]), ({}, 400, ["argv", "cmd"]),
    ({"argv": ["true"], "cmd": "true"}, 400, ["argv", "cmd"]), ({"argv": "true"}, 400, ["argv"]),
    ({"argv": [1]}, 400, ["argv"]), ({"argv": ["a\0b"]}, 400, ["argv"]),
    ({"argv": ["true"], "timeout": 1}, 400, ["timeout", "timeoutMs"]),
    ({"argv": ["true"], "env": {"A=B": "x"}}, 400, ["env"]),
    ({"argv": ["true"], "tty": {"rows": 0}}, 400, ["rows"]),
    ({"argv": ["true"], "stdin": 5}, 400, ["stdin"]),
], ids=lambda v: json.dumps(v)[:40] if isinstance(v, dict) else None)
def test_what_cannot_run_is_told(box, spec, status, words):
    reply = box.client.post(f"{box.path}/exec", spec)
    assert reply.status == status, reply
    for word in words:
        assert word in reply.error["message"], reply


def test_a_foreground_command_takes_a_text_as_its_whole_input(box):
    text = "first\nsecond ü\n"
    assert box.exec("cat", stdin=text)["stdout"] == text
    assert box.exec("cat")["stdout"] == ""  # none: an end at once
    big = "0123456789abcdef" * (40 << 10)
    assert box.exec("wc", "-c", stdin=big)["stdout"].strip() == str(len(big))


def test_output_over_what_a_reply_may_hold_is_marked(box):
    done = box.exec("sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo end")
    kept = len(done["stdout"])
    assert done["outputBytes"] == 3000004 and done["stdout"].endswith("xxx" + "end\n")
    assert done.get("truncatedBytes", 0) + kept == 3000004


def test_a_hundred_commands_at_once_each_get_their_own(box):
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        done = list(pool.map(lambda n: box.sh(f"echo {n}; exit $(({n} % 7))"), range(100)))
    assert [(d["stdout"], d["exitCode"]) for d in done] == [(f"{n}\n", n % 7) for n in range(100)]
    assert len({d["id"] for d in done}) == 100


# ---- streams ----

def test_streamed_output_comes_while_the_command_runs(box):
    response = box.client.stream("POST", f"{box.path}/exec", {
        "argv": ["sh", "-c", "echo one; sleep 0.4; echo two >&2; sleep 0.4"]}, query={"stream": 1})
    assert response.status == 200 and response.headers["Content-Type"] == "application/x-ndjson"
    start, seen = time.monotonic(), []
    for line in web.lines(response):
        seen.append((line, time.monotonic() - start))
    assert seen[0][0] == {"stream": "stdout", "offset": 0, "data": "one\n"} and seen[0][1] < 0.3
    assert seen[1][0] == {"stream": "stderr", "offset": 4, "data": "two\n"} and seen[1][1] > 0.2
    assert seen[-1][0]["end"]["exitCode"] == 0 and seen[-1][0]["end"]["complete"]


def test_background_commands_go_on_and_can_be_looked_up(box):
    run = box.spawn("sleep 0.2; echo done", tag="mine")
    assert run["state"] == "running" and run["background"] and run["tag"] == "mine" and run["pid"] > 1
    listed = box.client.get(f"{box.path}/execs", expect=200)["execs"]
    assert [x["id"] for x in listed] == [run["id"]]
    ended = box.wait(run["id"])
    assert ended["exitCode"] == 0 and box.output(run["id"]) == b"done\n"
    assert box.get()["execs"] == 1


def test_output_is_replayed_from_any_offset(box):
    run = box.spawn("i=0; while [ $i -lt 1000 ]; do printf '%07d\\n' $i; i=$((i+1)); done")["id"]
    box.wait(run)
    whole = b"".join(b"%07d\n" % n for n in range(1000))
    assert box.output(run) == whole
    for offset in (1, 8, 4001, 7999, 8000):
        assert box.output(run, offset=offset) == whole[offset:], offset
    reply = box.client.get(f"{box.path}/execs/{run}/output", query={"offset": 8001})
    assert reply.status == 400 and "offset" in reply.error["message"]


def test_lines_of_both_streams_keep_their_order_and_offsets(box):
    run = box.spawn("echo a; sleep 0.1; echo b >&2; sleep 0.1; echo c")["id"]
    box.wait(run)
    body = box.client.get(f"{box.path}/execs/{run}/output", expect=200)
    rows = [json.loads(line) for line in body.splitlines()]
    assert rows[:-1] == [{"stream": "stdout", "offset": 0, "data": "a\n"},
                         {"stream": "stderr", "offset": 2, "data": "b\n"},
                         {"stream": "stdout", "offset": 4, "data": "c\n"}]
    assert rows[-1]["end"]["id"] == run


def test_what_the_journal_no_longer_holds_is_counted(box):
    total = 4 * JOURNAL
    run = box.spawn(f"head -c {total} /dev/zero | tr '\\0' y; printf END")["id"]
    box.wait(run, 30)
    body = box.client.get(f"{box.path}/execs/{run}/output", expect=200)
    rows = [json.loads(line) for line in body.splitlines()]
    gone = sum(row["truncated"] for row in rows if "truncated" in row)
    text = "".join(row["data"] for row in rows if "data" in row)
    assert gone > 0 and gone + len(text) == total + 3 and text.endswith("END")
    assert JOURNAL <= len(text) <= 2 * JOURNAL + 65536
    offsets = [row["offset"] for row in rows if "data" in row]
    assert offsets[0] == gone and rows[-1]["end"]["outputBytes"] == total + 3


def test_many_readers_see_the_same_bytes(box):
    run = box.spawn("i=0; while [ $i -lt 40 ]; do echo line $i; sleep 0.01; i=$((i+1)); done")["id"]
    path = f"{box.path}/execs/{run}/output?follow=1&raw=1"

    def read(_):
        response = box.client.stream("GET", path)
        with contextlib.closing(response.connection):
            return response.read()

    with concurrent.futures.ThreadPoolExecutor(25) as pool:
        texts = list(pool.map(read, range(25)))
    assert set(texts) == {b"".join(b"line %d\n" % n for n in range(40))}


def test_a_reader_that_does_not_read_holds_up_nobody(service, box):
    run = box.spawn(f"head -c {8 * MIB} /dev/zero; echo; echo done >&2")["id"]
    slow = web.dial(box.client.address)
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sendall(f"GET {box.path}/execs/{run}/output?follow=1&raw=1 HTTP/1.1\r\nHost: x\r\n"
                 f"Authorization: Bearer {box.client.key}\r\n\r\n".encode())
    ended = box.wait(run, 20)
    assert ended["exitCode"] == 0 and box.sh("echo still")["stdout"] == "still\n"
    slow.close()


def test_without_any_reader_the_child_is_not_held_up(box):
    start = time.monotonic()
    run = box.spawn(f"head -c {16 * MIB} /dev/zero")["id"]
    assert box.wait(run, 20)["outputBytes"] == 16 * MIB and time.monotonic() - start < 15


def test_the_status_is_there_after_the_fact_and_after_the_client_left(box):
    response = web.dial(box.client.address)
    body = json.dumps({"argv": ["sh", "-c", "sleep 0.4; echo late; exit 9"], "tag": "left"})
    response.sendall(f"POST {box.path}/exec HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
                     f"Authorization: Bearer {box.client.key}\r\n\r\n{body}".encode())
    found = wait_for(lambda: box.client.get(f"{box.path}/execs", expect=200)["execs"], what="it")
    response.close()
    ended = box.wait(found[0]["id"])
    assert ended["exitCode"] == 9 and ended["tag"] == "left" and box.output(ended["id"]) == b"late\n"


# ---- input, signals, ends ----

def test_input_is_written_in_pieces_and_closed(box):
    run = box.exec("cat", background=True, stdin=True, expect=201)["id"]
    path = f"{box.path}/execs/{run}/stdin"
    box.client.post(path, b"one ", expect=204)
    wait_for(lambda: box.execution(run)["outputBytes"] == 4, what="the first piece")
    box.client.post(path, b"two", query={"close": 1}, expect=204)
    assert box.wait(run)["exitCode"] == 0 and box.output(run) == b"one two"
    assert box.client.post(path, b"three").status == 409


def test_input_larger_than_the_pipe_waits_for_the_command(box):
    run = box.exec("sh", "-c", "sleep 0.3; exec wc -c", background=True, stdin=True, expect=201)["id"]
    size = 3 * MIB
    box.client.post(f"{box.path}/execs/{run}/stdin", b"z" * size, query={"close": 1}, expect=204)
    box.wait(run)
    assert box.output(run).strip() == str(size).encode()


def test_input_to_a_command_that_has_none_is_a_conflict(box):
    run = box.spawn("sleep 5")["id"]
    assert box.client.post(f"{box.path}/execs/{run}/stdin", b"x").status == 409


def test_signals_arrive_by_name_and_number(box):
    script = "trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; echo up; while :; do sleep 0.02; done"
    run = box.spawn(script)["id"]
    path = f"{box.path}/execs/{run}/signal"
    wait_for(lambda: box.execution(run)["outputBytes"] >= 3, what="its start")
    box.client.post(path, {"signal": "USR1"}, expect=204)
    wait_for(lambda: b"usr1" in box.output(run), what="the trap")
    box.client.post(path, {"signal": "SIGTERM"}, expect=204)
    ended = box.wait(run)
    assert (ended["ending"], ended["exitCode"]) == ("exit", 5)
    run = box.spawn("exec sleep 100")["id"]
    box.client.post(f"{box.path}/execs/{run}/signal", {"signal": "9"}, expect=204)
    ended = box.wait(run)
    assert (ended["ending"], ended["signal"], ended["exitCode"]) == ("signal", 9, 137)
    assert box.client.post(f"{box.path}/execs/{run}/signal", {"signal": "TERM"}).status == 409
    reply = box.client.post(f"{box.path}/execs/{run}/signal", {"signal": "NOPE"})
    assert reply.status == 400 and "NOPE" in reply.error["message"]


def test_a_deadline_ends_the_whole_tree(box):
    script = "trap '' TERM; (trap '' TERM; setsid sh -c \"trap '' TERM; sleep 77\") & sleep 77"
    start = time.monotonic()
    done = box.sh(script, timeoutMs=300)
    took = time.monotonic() - start
    assert done["ending"] == "timeout" and 2.0 <= took < 8  # TERM is ignored, KILL comes
    assert box.sh("ps ax 2>/dev/null | grep -c '[s]leep 77'; :")["stdout"].strip() in ("0", "")


def test_a_deadline_lets_a_polite_command_end_by_itself(box):
    start = time.monotonic()
    done = box.sh("trap 'echo bye; exit 0' TERM; while :; do sleep 0.02; done", timeoutMs=200)
    assert done["ending"] == "timeout" and done["stdout"] == "bye\n" and time.monotonic() - start < 2


def test_killing_an_exec_ends_its_children_too(box):
    run = box.spawn("sleep 88 & sleep 88 & wait")["id"]
    wait_for(lambda: box.sh("ls /proc | grep -c '^[0-9]'")["stdout"].strip() >= "5", what="them")
    assert box.client.delete(f"{box.path}/execs/{run}").status == 204
    assert box.wait(run)["state"] == "ended"
    left = box.sh("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep 88'; :")
    assert left["stdout"].strip() in ("0", "1")  # grep itself may be seen


def test_out_of_memory_is_told_as_such(tenant):
    box = Box(tenant, {"limits": {"memoryBytes": 48 * MIB}})
    done = box.exec("python3", "-c", "x = 'a' * (200 << 20)")
    assert done["ending"] == "oom" and done["exitCode"] == 137
    assert box.sh("echo alive")["stdout"] == "alive\n"  # the sandbox lives on
    assert tenant.get(f"{box.path}/stats", expect=200)["oomKills"] >= 1


def test_processes_that_stay_behind_do_not_keep_an_exec_from_ending(box):
    start = time.monotonic()
    done = box.sh("sleep 30 >/dev/null 2>&1 & echo started")
    assert done["stdout"] == "started\n" and done["exitCode"] == 0 and time.monotonic() - start < 10


# ---- terminals and WebSockets ----

def test_a_terminal_is_one_and_has_the_size_asked_for(box):
    done = box.exec("sh", "-c", "tty; stty size", tty={"rows": 33, "cols": 101})
    assert done["stdout"].replace("\r", "").splitlines() == ["/dev/pts/0", "33 101"] and done["tty"]


def test_a_terminal_takes_input_and_a_new_size(box):
    run = box.exec("sh", tty={"rows": 24, "cols": 80}, stdin=True, background=True, expect=201)["id"]
    path = f"{box.path}/execs/{run}"
    box.client.post(f"{path}/resize", {"rows": 50, "cols": 132}, expect=204)
    box.client.post(f"{path}/stdin", b"stty size; exit\n", expect=204)
    box.wait(run)
    assert b"50 132" in box.output(run)
    plain = box.spawn("sleep 5")["id"]
    assert box.client.post(f"{box.path}/execs/{plain}/resize", {"rows": 1, "cols": 1}).status in (400, 409)


def test_a_command_over_a_websocket(box):
    with box.client.websocket(f"{box.path}/exec/ws") as ws:
        assert ws.status == 101
        ws.send({"argv": ["sh", "-c", "echo out; echo err >&2; exit 4"]})
        out, err, messages = ws.until_end()
    assert (out, err) == (b"out\n", b"err\n")
    assert [m["type"] for m in messages] == ["started", "end", "closed"]
    assert messages[1]["exec"]["exitCode"] == 4 and messages[2]["code"] == 1000


def test_input_over_a_websocket_in_both_forms(box):
    with box.client.websocket(f"{box.path}/exec/ws") as ws:
        ws.send({"argv": ["cat"]})
        assert ws.receive()["type"] == "started"
        ws.send({"type": "stdin", "data": "text ü "})
        ws.send(b"\0binary \xff")
        ws.send({"type": "closeStdin"})
        out, _, messages = ws.until_end()
    assert out == "text ü binary ".encode() + b"\xff" and messages[0]["exec"]["exitCode"] == 0


def test_a_terminal_over_a_websocket_with_resize_and_signal(box):
    with box.client.websocket(f"{box.path}/exec/ws") as ws:
        ws.send({"argv": ["sh", "-c", "trap 'stty size' WINCH; echo up; while :; do sleep 0.05; done"],
                 "tty": {"rows": 20, "cols": 70}})
        assert ws.receive()["type"] == "started"
        got = b""
        while b"up" not in got:
            got += ws.receive()[1:]
        ws.send({"type": "resize", "rows": 44, "cols": 144})
        while b"44 144" not in got:
            got += ws.receive()[1:]
        ws.send({"type": "signal", "signal": "KILL"})
        _, _, messages = ws.until_end()
    assert messages[0]["exec"]["signal"] == 9


def test_attaching_replays_from_an_offset_and_leaving_ends_nothing(box):
    run = box.spawn("echo first; sleep 0.5; echo second; sleep 0.2")["id"]
    with box.client.websocket(f"{box.path}/execs/{run}/ws") as ws:
        assert ws.receive()["type"] == "started" and ws.receive() == b"\1first\n"
    with box.client.websocket(f"{box.path}/execs/{run}/ws", {"offset": 6}) as ws:
        out, _, messages = ws.until_end()
    assert out == b"second\n" and messages[-2]["exec"]["exitCode"] == 0


@pytest.mark.parametrize("first, words", [
    ("{", "error"), ({"argv": ["/no/such"]}, "not_found"), ({"nope": 1}, "nope"), ([], "error")])
def test_a_wrong_first_message_is_told_and_closes(box, first, words):
    with box.client.websocket(f"{box.path}/exec/ws") as ws:
        ws.send(json.dumps(first) if isinstance(first, list) else first)
        message = ws.receive()
        assert message["type"] == "error" and words in json.dumps(message)
        with pytest.raises(web.Closed) as closed:
            ws.receive()
    assert closed.value.code in (1000, 1008)


def test_frames_that_break_the_rules_close_the_connection_and_nothing_else(box):
    with box.client.websocket(f"{box.path}/exec/ws") as ws:
        ws.send("{}", mask=False)
        with pytest.raises(web.Closed) as closed:
            while True:
                ws.receive()
        assert closed.value.code == 1002
    with box.client.websocket(f"{box.path}/exec/ws") as ws:
        ws.send(b"\xff\xfe", opcode=web.TEXT)
        with pytest.raises(web.Closed) as closed:
            while True:
                ws.receive()
        assert closed.value.code == 1007
    assert box.sh("echo fine")["stdout"] == "fine\n"


def test_pings_are_answered(box):
    with box.client.websocket(f"{box.path}/exec/ws") as ws:
        ws.send(b"payload", opcode=web.PING)
        assert ws.frame() == (web.PONG, True, b"payload")


def test_a_websocket_route_without_an_upgrade_is_refused(box):
    reply = box.client.get(f"{box.path}/exec/ws")
    assert reply.status == 400 and "WebSocket" in reply.error["message"]


def test_large_output_of_a_foreground_command_comes_whole_as_text_or_base64(box):
    text = box.sh("for i in $(seq 40000); do echo línea $i ☃; done; "
                  "for i in $(seq 30000); do echo falló $i >&2; done")
    assert text["stdout"] == "".join(f"línea {i} ☃\n" for i in range(1, 40001))
    assert text["stderr"] == "".join(f"falló {i}\n" for i in range(1, 30001))
    binary = box.sh("head -c 1000000 /dev/zero | tr '\\0' '\\377'; echo fine >&2")
    assert base64.b64decode(binary["stdoutBase64"]) == b"\xff" * 1000000
    assert binary["stderr"] == "fine\n" and "truncatedBytes" not in binary
