# SPDX-License-Identifier: Apache-2.0
"""The parser of documents by itself; through the service it is in test_service_parse.py.

tests/documents/ was written by LibreOffice 7.4 from one small report, sheet and presentation."""
import io
import json
import os
import pathlib
import subprocess
import tempfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARSER = ROOT / "templates" / "code-interpreter-v1" / "parse"
DOCUMENTS = ROOT / "tests" / "documents"
RUN = "import sys; from sandglass_parse.main import main; sys.exit(main(sys.argv[1:]))"
REPORT_TABLE = [["Month", "Units"], ["July", "1200"], ["August", "1350"]]
GREETING = "Grüße from the dunes: sand flows, time passes."


def parse(path, *options, **limits):
    env = {"PYTHONPATH": str(PARSER), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"], "LANG": "C.UTF-8",
           **{f"SANDGLASS_PARSE_{name.upper()}": str(value) for name, value in limits.items()}}
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        done = subprocess.run(["/usr/bin/python3", "-c", RUN, *options, path, out], env=env, capture_output=True, text=True,
                              timeout=60)
        assert done.returncode in (0, 3) and not done.stdout, done.stderr
        answer = json.loads((out / "result.json").read_bytes())
        for image in answer.get("images", ()):
            image["content"] = (out / image["file"]).read_bytes()
    assert ("error" in answer) == (done.returncode == 3)
    return answer


def refusal(path, **limits):
    answer = parse(path, **limits)
    assert "error" in answer, answer
    return answer["error"]["kind"], answer["error"]["message"]


@pytest.fixture
def place(tmp_path):
    """A function that writes a file, and gives its path."""
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path
    return write


def zipped(members, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def changed(name, changes):
    """One of the documents with members replaced, added, or (None) taken away."""
    with zipfile.ZipFile(DOCUMENTS / name) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    members.update(changes)
    return zipped({member: content for member, content in members.items() if content is not None})


# ---- real ones ----

def test_a_letter(place):
    got = parse(DOCUMENTS / "report.docx")
    assert got["format"] == "docx" and got["tables"] == [{"rows": REPORT_TABLE}] and got["warnings"] == []
    assert got["text"] == f"Quarterly report\n{GREETING}\nMonth\tUnits\nJuly\t1200\nAugust\t1350\nThe end."
    assert got["metadata"]["title"] == "Quarterly report" and got["metadata"]["author"] == "Sandglass tests"


def test_a_pdf_with_page_images():
    got = parse(DOCUMENTS / "report.pdf", "--images", image_pixels=400)
    assert got["format"] == "pdf" and GREETING in got["text"] and got["tables"] == [{"page": 1, "rows": REPORT_TABLE}]
    assert (got["metadata"]["title"], got["metadata"]["pages"]) == ("Quarterly report", 1)
    [image] = got["images"]
    assert image["content"][:8] == b"\x89PNG\r\n\x1a\n" and max(image["width"], image["height"]) == 400
    assert parse(DOCUMENTS / "report.pdf")["images"] == []


def test_a_workbook():
    got = parse(DOCUMENTS / "numbers.xlsx")
    assert got["tables"] == [{"name": "Sales", "rows": [["Item", "Price"], ["Hourglass", 12.5], ["Sum", 25]]},
                             {"name": "Notes", "rows": [["second sheet"]]}]
    assert "Hourglass\t12.5" in got["text"]


def test_a_presentation():
    got = parse(DOCUMENTS / "slides.pptx")
    assert got["metadata"]["slides"] == 2 and got["text"].startswith("A glass of sand\nSecond slide")
    assert got["tables"] == [{"slide": 2, "rows": [["Key", "Value"], ["grains", "many"]]}]


def test_a_page():
    got = parse(DOCUMENTS / "report.html")
    assert got["text"] == f"Quarterly report\n{GREETING}\nMonth\tUnits\nJuly\t1200\nAugust\t1350\nThe end."
    assert got["tables"] == [{"rows": REPORT_TABLE}] and got["metadata"]["title"] == "Quarterly report"


def test_scripts_and_styles_are_no_text(place):
    got = parse(place("a.html", "<html><script>alert(1)</script><style>p{}</style><p>one <b>two</b> three</html>"))
    assert got["text"] == "one two three" and "scripts" in got["warnings"][0]


def test_an_archive_of_documents(place):
    inner = zipped({"deep.txt": "at the bottom"})
    data = zipped({"a/report.docx": (DOCUMENTS / "report.docx").read_bytes(), "inner.zip": inner, "x.bin": b"\0\1\2"})
    got = parse(place("all.zip", data))
    assert [(row["name"], row.get("format")) for row in got["entries"]] == [
        ("a/report.docx", "docx"), ("inner.zip", "zip"), ("x.bin", None)]
    assert GREETING in got["text"] and "at the bottom" in got["text"]
    assert got["tables"] == [{"member": "a/report.docx", "rows": REPORT_TABLE}]


def test_comma_separated_values(place):
    got = parse(place("a.csv", "name;count\nsand;3\nglass;4\n"))
    assert got["tables"] == [{"rows": [["name", "count"], ["sand", "3"], ["glass", "4"]]}]


def test_what_it_is_its_bytes_tell(place):
    assert parse(place("lies.docx", (DOCUMENTS / "report.pdf").read_bytes()))["format"] == "pdf"
    assert parse(place("lies.pdf", (DOCUMENTS / "report.docx").read_bytes()))["format"] == "docx"


# ---- hostile ones ----

def test_a_bomb_is_named_before_it_goes_off(place):
    bomb = zipped({"zeros": bytes(64 << 20)})
    kind, message = refusal(place("bomb.zip", bomb))
    assert kind == "too_large" and "bomb" in message


def test_a_bomb_inside_an_office_file(place):
    data = changed("report.docx", {"word/media/zeros.bin": bytes(64 << 20)})
    assert refusal(place("bomb.docx", data))[0] == "too_large"


def test_a_bomb_of_archives_in_archives(place):
    layer = zipped({f"{i}.txt": "x" * 100_000 for i in range(10)})
    for _ in range(2):
        layer = zipped({f"{i}.zip": layer for i in range(10)}, zipfile.ZIP_STORED)
    kind, message = refusal(place("nested.zip", layer), unpacked_bytes=20 << 20)
    assert kind == "too_large" and "archive" in message


def test_archives_are_opened_so_deep_and_no_deeper(place):
    data = zipped({"end.txt": "the end"})
    for _ in range(6):
        data = zipped({"next.zip": data})
    got = parse(place("deep.zip", data))
    row = got["entries"][0]
    while "entries" in row:
        row = row["entries"][0]
    assert "not deeper" in row["error"] and "the end" not in got["text"]


def test_a_member_that_is_larger_than_it_claims(place):
    data = bytearray(zipped({"a.txt": "x" * 5000}, zipfile.ZIP_STORED))
    at = data.index(b"PK\1\2")
    data[at + 24:at + 28] = (10).to_bytes(4, "little")
    got = parse(place("liar.zip", bytes(data)))
    assert "error" in got["entries"][0] and "x" not in got["text"]


def test_too_many_members(place):
    assert refusal(place("many.zip", zipped({f"{i}": "" for i in range(200)})), entries=100)[0] == "too_large"


def test_an_entity_bomb(place):
    laugh = ('<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
             '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>&b;</w:body></w:document>')
    kind, message = refusal(place("laugh.docx", changed("report.docx", {"word/document.xml": laugh})))
    assert kind == "malformed" and "entities" in message


def test_a_file_of_the_host_is_not_read_by_an_entity(place):
    grab = '<!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/hostname">]><html><p>start &x; end</p></html>'
    text = parse(place("grab.html", grab))["text"]
    assert pathlib.Path("/etc/hostname").read_text().strip() not in text and "start" in text


@pytest.mark.parametrize("tag", ["div", "table><tr><td", "b"])
def test_deep_nesting(place, tag):
    answer = parse(place("deep.html", "<html>" + f"<{tag}>" * 100_000 + "bottom"))
    assert "error" in answer or answer["format"] == "html"


def test_deep_nesting_in_an_office_file(place):
    deep = ('<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
            + "<w:p>" * 50_000 + "</w:p>" * 50_000 + "</w:body></w:document>")
    assert refusal(place("deep.docx", changed("report.docx", {"word/document.xml": deep})))[0] == "malformed"


@pytest.mark.parametrize("name", ["report.docx", "report.pdf", "numbers.xlsx", "slides.pptx"])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.95])
def test_a_document_that_was_cut_off(place, name, part):
    data = (DOCUMENTS / name).read_bytes()
    answer = parse(place(name, data[:int(len(data) * part)]))
    if name != "report.pdf" or "error" in answer:  # Poppler mends what is missing at the end
        assert answer["error"]["kind"] == "malformed" and answer["error"]["message"]


@pytest.mark.parametrize("gone", ["word/document.xml", "[Content_Types].xml", "_rels/.rels"])
def test_a_part_that_is_missing(place, gone):
    answer = parse(place("part.docx", changed("report.docx", {gone: None})))
    assert answer.get("error", {}).get("kind") == "malformed" or answer["format"] == "zip"


def test_an_encrypted_pdf():
    kind, message = refusal(DOCUMENTS / "encrypted.pdf")
    assert kind == "encrypted" and "password" in message


def test_an_encrypted_office_file(place):
    ole = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2000) + "EncryptedPackage".encode("utf-16-le") + bytes(2000)
    assert refusal(place("secret.docx", ole))[0] == "encrypted"
    kind, message = refusal(place("old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4000)))
    assert kind == "unsupported" and "docx" in message


def test_an_encrypted_member(place):
    data = bytearray(zipped({"a.txt": "secret"}))
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(mark) + offset] |= 1
    row = parse(place("locked.zip", bytes(data)))["entries"][0]
    assert "encrypted" in row["error"]


def test_macros_are_named_and_not_run(place):
    data = changed("report.docx", {"word/vbaProject.bin": b"\xd0\xcf\x11\xe0 AutoOpen"})
    got = parse(place("macro.docm", data))
    assert "macros" in got["warnings"][0] and GREETING in got["text"]


def test_scripts_of_a_pdf_are_named(place):
    data = (DOCUMENTS / "report.pdf").read_bytes() + b"\n% /JavaScript (app.alert(1))\n"
    assert "scripts" in parse(place("js.pdf", data))["warnings"][0]


@pytest.mark.parametrize("content", [b"\x7fELF" + bytes(100), b"\x89PNG\r\n\x1a\n" + bytes(100)])
def test_what_is_no_document(place, content):
    assert refusal(place("a.pdf", content))[0] == "unsupported"


def test_nothing_at_all(place):
    assert refusal(place("empty.pdf", b"")) == ("malformed", "the document is empty")


def test_what_is_too_much_is_cut_and_said(place):
    got = parse(place("long.txt", "é" * 5000), text_bytes=1001)
    assert got["text"] == "é" * 500 and "1001" in got["warnings"][0]
    rows = "\n".join("a,b,c" for _ in range(100))
    got = parse(place("long.csv", rows), table_cells=30)
    assert len(got["tables"][0]["rows"]) == 10 and "30 cells" in got["warnings"][0]


def test_a_sheet_that_claims_a_million_rows(place):
    sheet = ('<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><dimension ref="A1:XFD1048576"/>'
             '<sheetData><row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'
             '</sheetData></worksheet>')
    got = parse(place("wide.xlsx", changed("numbers.xlsx", {"xl/worksheets/sheet1.xml": sheet})), table_cells=20_000)
    assert got["tables"][0]["rows"][0][0] == 1


def test_control_bytes_do_not_come_through(place):
    assert parse(place("a.txt", "one\x1b[31mtwo\x07!"))["text"] == "one [31mtwo !"


def test_a_result_that_is_too_large_is_cut_and_still_whole(place):
    got = parse(place("long.csv", "\n".join(f"\"{i}\",b" for i in range(2000))), result_bytes=20_000)
    assert got["tables"] == [] and len(got["text"]) > 1000 and "cut" in got["warnings"][0]
