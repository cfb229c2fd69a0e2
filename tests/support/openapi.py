# SPDX-License-Identifier: Apache-2.0
"""schema/openapi.json against what the service really says.

`check` looks at every reply that a client of ours gets: the status must be described, and a JSON
body must be of the shape that the schema gives it. It knows as much of JSON Schema as the file uses.
"""
import functools
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "schema" / "openapi.json").read_text())
METHODS = ("get", "put", "post", "delete", "patch")
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
         "number": (int, float)}


def resolve(node):
    while "$ref" in node:
        found = SCHEMA
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = {**found, **{k: v for k, v in node.items() if k != "$ref"}}
    return node


def operations():
    """(method, path, operation) of the whole file."""
    for path, item in SCHEMA["paths"].items():
        for method in METHODS:
            if method in item:
                yield method, path, item[method]


@functools.cache
def patterns():
    """Those without parameters first: /audit/verify is not an /audit/{x}."""
    paths = sorted(SCHEMA["paths"], key=lambda p: p.count("{"))
    return [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), path) for path in paths]


def operation(method, path):
    for pattern, name in patterns():
        if pattern.fullmatch(path):
            return SCHEMA["paths"][name].get(method.lower())
    return None


def is_a(value, name):
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def problems(node, value, where="$"):
    """What about the value is not as the schema says."""
    node = resolve(node)
    names = node.get("type")
    if names and not any(is_a(value, n) for n in ([names] if isinstance(names, str) else names)):
        yield f"{where} is no {names}: {value!r}"
        return
    if "oneOf" in node and sum(not list(problems(n, value, where)) for n in node["oneOf"]) != 1:
        yield f"{where} is not exactly one of what it may be: {value!r}"
    if "enum" in node and value not in node["enum"]:
        yield f"{where} is {value!r}, not one of {node['enum']}"
    if "pattern" in node and not re.search(node["pattern"], value):
        yield f"{where} does not match {node['pattern']}: {value!r}"
    if "minimum" in node and value < node["minimum"]:
        yield f"{where} is under {node['minimum']}: {value}"
    if node.get("format") == "date-time" and not re.fullmatch(
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", value):
        yield f"{where} is no time: {value!r}"
    if isinstance(value, list) and "items" in node:
        for index, item in enumerate(value):
            yield from problems(node["items"], item, f"{where}[{index}]")
    if isinstance(value, dict):
        yield from problems_of_object(node, value, where)


def problems_of_object(node, value, where):
    known, others = node.get("properties", {}), node.get("additionalProperties", True)
    yield from (f"{where} lacks '{name}'" for name in node.get("required", ()) if name not in value)
    for name, item in value.items():
        if name in known:
            yield from problems(known[name], item, f"{where}.{name}")
        elif others is False:
            yield f"{where} has '{name}', which is not described"
        elif isinstance(others, dict):
            yield from problems(others, item, f"{where}.{name}")


def check(method, path, reply):
    described = operation(method, path)
    if described is None:
        return
    response = described["responses"].get(str(reply.status))
    if response is None:
        assert reply.status >= 500, f"{method} {path}: {reply.status} is not described: {reply}"
        response = described["responses"]["default"]
    media = reply.headers.get("Content-Type", "").split(";")[0]
    content = resolve(response).get("content")
    if content is None:
        assert reply.body == b"", f"{method} {path}: a body where none is described: {reply}"
        return
    assert media in content, f"{method} {path}: {media} is not described: {reply}"
    if media == "application/json":
        found = list(problems(content[media]["schema"], reply.json))
        assert not found, f"{method} {path}: {found}"
