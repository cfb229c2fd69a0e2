# SPDX-License-Identifier: Apache-2.0
"""parse [--images] FILE OUT: one JSON object as OUT/result.json, and page images beside it.

With a result the status is 0. A document that gives none: {"error":{"kind","message"}}, status 3.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from lxml import etree

from . import archive, html, office, pdf
from .model import Document, Refused, limits_from_environment

REFUSED_STATUS = 3
RENDER_SECONDS = 120

# What a document is, its first bytes tell; the name only decides between kinds of text.
PARSERS = {
    "pdf": pdf.parse_pdf,
    "docx": office.parse_docx,
    "xlsx": office.parse_xlsx,
    "pptx": office.parse_pptx,
    "ole": office.refuse_ole,
    "zip": archive.parse_zip,
    "html": html.parse_html,
    "csv": html.parse_csv,
    "text": html.parse_text,
}
OFFICE_PARTS = {"word/": "docx", "xl/": "xlsx", "ppt/": "pptx"}
RENDERED = ("docx", "xlsx", "pptx")


def office_kind(data):
    """By the directory at the archive's end, without opening it: names are there as they are."""
    if b"[Content_Types].xml" not in data:
        return None
    tail = data[-(1 << 20):]
    return next((kind for part, kind in OFFICE_PARTS.items() if part.encode() in tail), None)


def format_of(data, name):
    start = data[:1024].lstrip()
    if b"%PDF-" in data[:1024]:
        return "pdf"
    if data[:4] in (b"PK\3\4", b"PK\5\6"):
        return office_kind(data) or "zip"
    if data[:8] == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
        return "ole"
    suffix = pathlib.PurePosixPath(name).suffix.lower()
    if start[:1] == b"<" and (suffix in (".html", ".htm", ".xhtml") or
                              start[:15].lower().startswith((b"<!doctype html", b"<html"))):
        return "html"
    if b"\0" in data[:4096] and data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        return None
    return "html" if suffix in (".html", ".htm") else "csv" if suffix in (".csv", ".tsv") else "text"


class Context:
    """How deep we are, and what archives may still unpack: one account for all depths."""

    def __init__(self, limits, images_to=None, depth=0, budget=None):
        self.limits, self.images_to, self.depth = limits, images_to, depth
        self.budget = budget if budget is not None else [limits.unpacked_bytes]

    def deeper(self):
        return Context(self.limits, None, self.depth + 1, self.budget)

    format_of = staticmethod(format_of)

    def parse_into(self, data, name, doc, row):
        """A member of an archive: its text and tables join the document's."""
        inner = Document(self.limits)
        PARSERS[row["format"]](data, inner, self)
        if text := inner.text:
            doc.add_text(f"== {name} ==\n{text}")
        for table in inner.tables:
            doc.add_table(table.pop("rows"), **{"member": name, **table})
        if inner.entries:
            row["entries"] = inner.entries
        for warning in inner.warnings:
            doc.warn(f"{name}: {warning}")


def render(path, doc, context):
    """Page images of office files, where the template has LibreOffice."""
    office_program = shutil.which("soffice")
    if not office_program:
        doc.warn("page images of office files need LibreOffice in the template")
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([office_program, "--headless", f"-env:UserInstallation=file://{folder}/profile", "--convert-to",
                        "pdf", "--outdir", folder, path], capture_output=True, timeout=RENDER_SECONDS, check=False)
        made = next(pathlib.Path(folder).glob("*.pdf"), None)
        if made is None:
            doc.warn("the pages could not be rendered")
            return
        pages = pdf.add_info(made, Document(context.limits))
        pdf.add_images(made, context.images_to, doc, pages)


def parse(path, out, wants_images):
    limits = limits_from_environment()
    data = path.read_bytes()
    doc, context = Document(limits), Context(limits, out if wants_images else None)
    if not data:
        raise Refused("malformed", "the document is empty")
    doc.format = format_of(data, str(path))
    if doc.format is None:
        raise Refused("unsupported", "not a document of a known kind: PDF, docx, xlsx, pptx, HTML, zip, CSV or text")
    PARSERS[doc.format](data, doc, context)
    if wants_images and doc.format in RENDERED:
        render(path, doc, context)
    return {"format": doc.format, "text": doc.text, "metadata": doc.metadata, "tables": doc.tables,
            "images": doc.images, "entries": doc.entries, "warnings": doc.warnings}


def refusal_of(kind, message):
    return {"error": {"kind": kind, "message": message}}


def encoded(answer, most):
    """As JSON of at most so many bytes: who waits for it has room for no more. Tables go first, then text."""
    def encode():
        return json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()

    data = encode()
    for part, empty in (("tables", []), ("entries", []), ("text", "")):
        if len(data) <= most or part not in answer:
            break
        surplus, whole = len(data) - most, answer[part]
        answer[part] = whole.encode()[:-2 * surplus].decode("utf-8", "ignore") if part == "text" else empty
        answer["warnings"].append(f"the result is over {most} bytes: its {part} were cut")
        data = encode()
    return data


def main(argv):
    words = [word for word in argv if word != "--images"]
    if len(words) != 2:
        print("usage: parse [--images] FILE OUT", file=sys.stderr)
        return 2
    source, out = map(pathlib.Path, words)
    out.mkdir(exist_ok=True)
    try:
        answer, status = parse(source, out, "--images" in argv), 0
    except Refused as refusal:
        answer, status = refusal_of(refusal.kind, str(refusal)), REFUSED_STATUS
    except MemoryError:
        answer, status = refusal_of("too_large", "the document needs more memory than the sandbox has"), REFUSED_STATUS
    except (RecursionError, etree.LxmlError) as error:
        answer, status = refusal_of("malformed", f"the document is nested too deep: {error}"), REFUSED_STATUS
    (out / "result.json").write_bytes(encoded(answer, limits_from_environment().result_bytes))
    return status
