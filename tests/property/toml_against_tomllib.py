#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Our TOML reader and Python's agree: on what is TOML, and on what it says.

    toml_against_tomllib.py DUMP [COUNT]

Documents are written by hand (toml_documents.txt, and BYTES), generated from a grammar that mostly yields valid ones, and
damaged. SANDGLASS_SEED=<n> repeats a run. Prints TAP.
"""
import datetime
import json
import os
import pathlib
import random
import subprocess
import sys
import tomllib

HANDWRITTEN = (pathlib.Path(__file__).parent / "toml_documents.txt").read_text().removesuffix("\n").split("\n---\n")

BYTES = [b"", b"\n", b"\r\n", b"\r", b"a=1\r\nb=2\r\n", b"a=1\rb=2", b"a='''x\r\ny'''", b'a="""x\r\n\r\ny"""',
         b'a="""\r\nx \\\r\n  y"""', b"# c\rx\n", b"# c\x00", b"# c\x7f", b"# c\x1f", b"# c\ttab", b"a='\x00'", b"a='\x7f'",
         b'a="\x01"', b"a='''\x01'''", b"\xef\xbb\xbfa=1", b"a='\xff'", b"# \xc3", b"a='\xed\xa0\x80'", b"a = 1\x0b", b"a =\x0c1",
         b"a = '\xc2\x85'", b"\xc2\xa0a = 1", b"a = \"\\u0000\"", b"\"\\u0000\" = 1", b"a=1\n\x00", b"a = \"\"\"x\\ \t\r\n y\"\"\""]

KEYS = ["a", "b", "c", "d", "a-b", "_", "1", '"a"', "'b'", '"a b"', '"\\u0061"', "''", "é"]
SCALARS = ["1", "-7", "0", "+5", "1_000", "0xff", "0o17", "0b1", "1.5", "-0.0", "6e10", "1e-3", "inf", "nan", "true", "false",
           "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "1979-05-27 07:32:00.25+01:30", '"x"', "'y'", '""', '"\\n\\u00e9"',
           '"""a\nb"""', "'''\nc\n'''", '"""\\\n  d"""', '""""e"""""']
FRAGMENTS = ["[", "]", "[[", "]]", "{", "}", "=", ".", ",", "#", "\n", "\r\n", "\r", " ", "\t", '"', "'", '"""', "'''", "\\", "_", "+",
             "-", ":", "e", "0", "9", "x", "T", "Z", "\u00e9", "\x00", "\x7f", "\\u", "\\U0010FFFF", "inf", "true"] + KEYS + SCALARS


class Writer:
    def __init__(self, rng):
        self.rng = rng

    def key(self):
        dot = self.rng.choice([".", " . ", ". "])
        return dot.join(self.rng.choice(KEYS) for _ in range(self.rng.choice([1, 1, 1, 2, 2, 3])))

    def value(self, depth=0):
        kind = self.rng.random()
        if depth > 3 or kind < 0.7:
            return self.rng.choice(SCALARS)
        items = range(self.rng.randrange(4))
        if kind < 0.85:
            gap = self.rng.choice(["", " ", "\n", " # c\n", "\r\n"])
            end = self.rng.choice(["", ",", gap]) if items else gap
            return "[" + gap + ("," + gap).join(self.value(depth + 1) for _ in items) + end + "]"
        return "{" + ", ".join(f"{self.key()} = {self.value(depth + 1)}" for _ in items) + "}"

    def line(self):
        kind = self.rng.random()
        end = self.rng.choice(["\n", "\n", "\n", "\r\n", " # c\n", "\n\n"])
        if kind < 0.25:
            return f"[{self.key()}]{end}"
        if kind < 0.35:
            return f"[[{self.key()}]]{end}"
        return f"{self.key()} = {self.value()}{end}"

    def document(self):
        text = "".join(self.line() for _ in range(self.rng.randrange(1, 7)))
        for _ in range(self.rng.choice([0, 0, 1, 1, 2, 3])):
            at = self.rng.randrange(len(text) + 1)
            drop = self.rng.choice([0, 0, 1, 1, 3])
            text = text[:at] + self.rng.choice([""] + FRAGMENTS) + text[at + drop:]
        return text.encode()


class Different(Exception):
    """Something that we refuse on purpose and tomllib does not."""


def plain(value):
    """What tomllib read, in the words of toml_dump."""
    if isinstance(value, bool):
        return "a boolean", str(value).lower()
    if isinstance(value, int):
        if not -2**63 <= value < 2**63:
            raise Different("over 64 bits")
        return "an integer", str(value)
    if isinstance(value, float):
        return "a float", repr(value)
    if isinstance(value, str):
        return "a string", value
    if isinstance(value, list):
        return "an array", [plain(v) for v in value]
    if isinstance(value, dict):
        return "a table", {k: plain(v) for k, v in value.items()}
    assert isinstance(value, (datetime.date, datetime.time, datetime.datetime))
    return "a date", value.isoformat()


def ours(tree):
    kind, content = tree
    if kind == "a table":
        assert len({key for key, _ in content}) == len(content), "a key twice"
        return kind, {key: ours(value) for key, value in content}
    if kind == "an array":
        return kind, [ours(value) for value in content]
    if kind == "a float":
        return kind, repr(float(content))
    if kind == "a date":
        return kind, tomllib.loads(f"x = {content}")["x"].isoformat()
    return kind, content


def theirs(document):
    try:
        return plain(tomllib.loads(document.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return None


def read_all(dump, documents):
    sent = b"".join(b"%d\n%s" % (len(d), d) for d in documents)
    done = subprocess.run([dump], input=sent, stdout=subprocess.PIPE, timeout=50, check=True)
    lines = done.stdout.decode().split("\n")[:-1]
    assert len(lines) == len(documents), f"{len(lines)} answers to {len(documents)} documents"
    return [json.loads(line) for line in lines]


def compare(dump, documents):
    """(how many were compared, how many of them valid, what differed)"""
    compared = valid = 0
    wrong = []
    for document, answer in zip(documents, read_all(dump, documents)):
        try:
            expected = theirs(document)
        except Different:
            assert "error" in answer, document
            continue
        if b"0000-" in document:  # year 0 is one of RFC 3339, not of Python
            continue
        compared += 1
        valid += expected is not None
        got = ours(answer["ok"]) if "ok" in answer else None
        if got != expected:
            wrong.append(f"{document!r}\n#   ours:   {got or answer}\n#   theirs: {expected or 'refused'}")
    return compared, valid, wrong


def main():
    dump = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20000
    seed = int(os.environ.get("SANDGLASS_SEED", random.randrange(2**32)))
    print(f"1..2\n# seed {seed}")
    writer = Writer(random.Random(seed))
    suites = {
        "agrees_on_documents_written_by_hand": [h.encode() for h in HANDWRITTEN] + BYTES,
        "agrees_on_generated_and_damaged_documents": [writer.document() for _ in range(count)],
    }
    failed = False
    for number, (name, documents) in enumerate(suites.items(), 1):
        compared, valid, wrong = compare(dump, documents)
        if not compared // 10 < valid < compared:
            wrong.append(f"only {valid} of {compared} documents were valid: the generator is no test")
        for problem in wrong[:5]:
            print(f"# {problem}")
        print(f"{'not ok' if wrong else 'ok'} {number} - {name} # {compared} documents, {valid} valid")
        failed = failed or bool(wrong)
    sys.exit(1 if failed else 0)


main()
