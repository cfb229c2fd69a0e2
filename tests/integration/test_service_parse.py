# SPDX-License-Identifier: Apache-2.0
"""POST /v1/parse, as far as it goes without the template that has the parser: tests/template has the rest."""
import pytest


def parse(tenant, document, expect=200, **query):
    return tenant.post("/v1/parse", document, query={"template": "host", **query}, expect=expect)


@pytest.mark.parametrize("query, words", [({"name": ".."}, "name"), ({"timeoutMs": "0"}, "timeoutMs"),
                                          ({"images": "maybe"}, "images"), ({"colour": "red"}, "colour")])
def test_bad_questions(tenant, query, words):
    assert words in parse(tenant, b"text", expect=400, **query)["error"]["message"]


def test_no_document(tenant):
    assert "there is none" in parse(tenant, b"", expect=400)["error"]["message"]


def test_a_document_that_is_too_large(tenant):
    said = parse(tenant, bytes((32 << 20) + 1), expect=413)
    assert "over" in said["error"]["message"]


def test_a_template_without_a_parser(tenant):
    said = tenant.post("/v1/parse", b"text", query={"template": "host"}, expect=501)
    assert "code-interpreter-v1" in said["error"]["hint"]


def test_a_template_that_is_not_there(tenant):
    assert "nosuch" in tenant.post("/v1/parse", b"x", query={"template": "nosuch"}, expect=404)["error"]["message"]
