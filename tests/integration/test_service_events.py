# SPDX-License-Identifier: Apache-2.0
"""The event stream: everything, in order, once; and only the listener's own."""
import contextlib

import pytest
import web
from service import Box


@contextlib.contextmanager
def listening(client, headers=None, **query):
    stream = client.stream("GET", "/v1/events", query=query, headers=headers)
    assert stream.status == 200 and stream.headers["Content-Type"].startswith("text/event-stream")
    with contextlib.closing(stream.connection):
        yield web.server_events(stream)


def until(events, kind, sandbox=None):
    """What came, up to and with the first of that kind."""
    seen = []
    for event, data, number in events:
        assert event == data["type"] and number == data["seq"]
        seen.append(data)
        if event == kind and sandbox in (None, data["sandbox"]):
            return seen
    raise AssertionError(f"the stream ended without {kind}: {seen}")


def types(seen):
    return [e["type"] for e in seen if e["type"].startswith("sandbox.")]


def test_a_life_is_told_in_order(tenant):
    with listening(tenant) as events:
        box = Box(tenant)
        for verb in ("pause", "resume", "stop", "start"):
            tenant.post(f"{box.path}/{verb}", expect=200)
        box.destroy()
        seen = until(events, "sandbox.destroyed")
    assert types(seen) == [f"sandbox.{what}" for what in (
        "created", "paused", "resumed", "stopped", "started", "destroyed")]
    assert [e["seq"] for e in seen] == sorted({e["seq"] for e in seen})
    assert {(e["org"], e["sandbox"]) for e in seen if e["sandbox"]} == {(tenant.org, box.id)}


def test_commands_are_told(tenant, box):
    with listening(tenant, sandbox=box.id) as events:
        done = box.sh("exit 3")
        seen = until(events, "exec.ended")
    assert [e["type"] for e in seen] == ["exec.started", "exec.ended"]
    assert done["id"] in str(seen[0]["data"]) and done["id"] in str(seen[1]["data"])


def test_who_comes_back_gets_what_was_missed_and_nothing_twice(tenant):
    with listening(tenant) as events:
        first = Box(tenant)
        last = until(events, "sandbox.created")[-1]["seq"]
    first.destroy()
    second = Box(tenant)
    with listening(tenant, {"Last-Event-ID": str(last)}) as events:
        seen = until(events, "sandbox.created", second.id)
    assert types(seen) == ["sandbox.destroyed", "sandbox.created"]
    assert all(e["seq"] > last for e in seen)
    with listening(tenant, after=last) as events:
        assert types(until(events, "sandbox.created", second.id)) == types(seen)


def test_one_sandbox_alone_can_be_listened_to(tenant):
    a, b = Box(tenant), Box(tenant)
    with listening(tenant, sandbox=b.id) as events:
        tenant.post(f"{a.path}/pause", expect=200)
        tenant.post(f"{b.path}/pause", expect=200)
        seen = until(events, "sandbox.paused")
    assert {e["sandbox"] for e in seen} == {b.id}


def test_another_organisations_events_are_not_there(service, tenant):
    _, other = service.tenant("other")
    with listening(tenant, after=0) as mine, listening(service.operator) as all_of_them:
        foreign = Box(other)
        own = Box(tenant)
        until(all_of_them, "sandbox.created", own.id)
        seen = until(mine, "sandbox.created", own.id)
        foreign.destroy()
    assert foreign.id not in str(seen) and {e["org"] for e in seen} == {tenant.org}


@pytest.mark.parametrize("query, headers, word", [
    ({"after": "x"}, None, "after"), ({"sandbocks": "x"}, None, "sandbocks"), (None, {"Last-Event-ID": "-1"}, "")])
def test_a_wrong_question_is_told(tenant, query, headers, word):
    reply = tenant.get("/v1/events", query=query, headers=headers)
    assert reply.status == 400 and word in reply.error["message"]
