# SPDX-License-Identifier: Apache-2.0
"""The route tables of the program and schema/openapi.json say the same."""
import json
import re

import openapi
import pytest

SOURCES = ("src/api/rest/rest.c", "src/api/base.c")
SCOPES = {"R": "read", "X": "exec", "A": "admin", "0": None}
ROW = re.compile(r'\{\s*M_(\w+),\s*((?:"[^"]*"|\w+|\s)+?),\s*(\w+),\s*([\w |]+),\s*(\w+),\s*"([^"]*)"\s*,?\s*\}')


def text_of(expression, macros):
    """What the C preprocessor makes of adjacent strings and macros."""
    parts = re.findall(r'"([^"]*)"|(\w+)', expression)
    return "".join(text or text_of(macros[name], macros) if name else text for text, name in parts)


def routes():
    """(method, path): (summary, scope, is open, is the operator's) from the sources."""
    found = {}
    for name in SOURCES:
        source = (openapi.ROOT / name).read_text()
        macros = dict(re.findall(r"#define (\w+) +(.+)", source))
        rows = ROW.findall(source)
        assert len(rows) == len(re.findall(r"\{\s*M_\w+,", source)), f"{name}: rows of another form"
        for method, path, scope, flags, _, summary in rows:
            found[method.lower(), text_of(path, macros)] = (
                summary, SCOPES.get(scope), "SG_ROUTE_OPEN" in flags, "SG_ROUTE_OPERATOR" in flags)
    return found


def described():
    return {(method, path): (op["summary"], op.get("x-scope"), op.get("security") == [],
                             op.get("x-operator", False))
            for method, path, op in openapi.operations()}


def test_every_route_is_described_and_every_description_is_a_route():
    assert described() == routes()


def test_path_parameters_are_declared():
    for path, item in openapi.SCHEMA["paths"].items():
        declared = [openapi.resolve(p)["name"] for p in item.get("parameters", ())]
        assert declared == re.findall(r"\{(\w+)\}", path), path


def test_every_reference_leads_somewhere_and_every_component_is_used():
    text = json.dumps(openapi.SCHEMA)
    used = set(re.findall(r'"\$ref": "#/components/(\w+/\w+)"', text))
    there = {f"{kind}/{name}" for kind in ("parameters", "responses", "schemas")
             for name in openapi.SCHEMA["components"][kind]}
    assert used <= there
    # what every answer may be, and what lines of streams are
    assert there - used <= {"responses/TooLarge", "responses/Timeout"}


def test_operation_ids_are_unique():
    ids = [op["operationId"] for _, _, op in openapi.operations()]
    assert len(ids) == len(set(ids))


def test_the_service_hands_out_the_file(service):
    reply = service.client().get("/v1/openapi.json")  # without a key
    assert reply.status == 200
    assert reply.body == (openapi.ROOT / "schema" / "openapi.json").read_bytes()


@pytest.mark.parametrize("value, words", [
    ({"id": 5}, "$.id is no string"), ({"extra": 1}, "'extra', which is not described"),
    ({}, "lacks 'id'"), ({"state": "asleep"}, "not one of"), ({"createdAt": "now"}, "no time"),
])
def test_the_check_of_replies_finds_what_is_wrong(value, words):
    found = list(openapi.problems({"$ref": "#/components/schemas/Sandbox"}, value))
    assert any(words in line for line in found), found
