# SPDX-License-Identifier: Apache-2.0
"""Word, Excel, PowerPoint: zip archives of XML. Macros are named, never run."""
import io
import posixpath
import re

from lxml import etree

from .archive import Archive
from .model import Refused

DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
CORE = {"title": "title", "subject": "subject", "creator": "author", "keywords": "keywords", "created": "created",
        "modified": "modified", "lastModifiedBy": "last_modified_by", "description": "description"}


def xml(data, what):
    """No entities, no network, no external subsets, libxml2's own limits on depth and size."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise Refused("malformed", f"{what} is not well-formed: {error}") from None


def open_package(data, doc, context):
    archive = Archive(data, doc.limits, context.budget)
    archive.verify()
    for name in archive.names():
        if posixpath.basename(name).lower() == "vbaproject.bin":
            doc.warn("the document has macros; they were not run")
        elif "/embeddings/" in name:
            doc.warn("the document has embedded objects; they were not opened")
        elif name.endswith(".xml") and b"<!ENTITY" in archive.read(name):
            raise Refused("malformed", f"'{name}' declares entities, which office files do not: a bomb")
    add_core_properties(archive, doc)
    return archive


def add_core_properties(archive, doc):
    if "docProps/core.xml" not in archive.names():
        return
    for child in xml(archive.read("docProps/core.xml"), "docProps/core.xml"):
        name = etree.QName(child).localname if isinstance(child.tag, str) else ""
        if name in CORE:
            doc.add_meta(CORE[name], child.text)


def parse_docx(data, doc, context):
    import docx
    from docx.table import Table
    from docx.text.paragraph import Paragraph
    open_package(data, doc, context)
    try:
        body = docx.Document(io.BytesIO(data)).element.body
    except (KeyError, ValueError, AttributeError, etree.XMLSyntaxError) as error:
        raise Refused("malformed", f"not a Word document: {error}") from None
    for child in body.iterchildren():
        if child.tag.endswith("}p"):
            doc.add_text(Paragraph(child, None).text)
        elif child.tag.endswith("}tbl"):
            rows = [[cell.text for cell in row.cells] for row in Table(child, None).rows]
            doc.add_table(rows)
            for row in rows:
                doc.add_text("\t".join(row))


def parse_xlsx(data, doc, context):
    import openpyxl
    open_package(data, doc, context)
    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # claims of the file, too
            doc.add_table(sheet.iter_rows(values_only=True), name=sheet.title)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError, SyntaxError) as error:
        raise Refused("malformed", f"not an Excel workbook: {error}") from None
    for table in doc.tables:
        doc.add_text(table["name"])
        for row in table["rows"]:
            doc.add_text("\t".join("" if cell is None else str(cell) for cell in row))


def slide_number(name):
    return int(re.search(r"(\d+)\.xml$", name)[1])


def parse_pptx(data, doc, context):
    archive = open_package(data, doc, context)
    slides = sorted((n for n in archive.names() if re.fullmatch(r"ppt/slides/slide\d+\.xml", n)), key=slide_number)
    if not slides and "ppt/presentation.xml" not in archive.names():
        raise Refused("malformed", "not a PowerPoint presentation: it has no presentation.xml")
    doc.add_meta("slides", len(slides))
    for name in slides:
        root = xml(archive.read(name), f"'{name}'")
        for table in root.iter(DRAWING + "tbl"):
            doc.add_table([["".join(cell.itertext(DRAWING + "t")) for cell in row.iter(DRAWING + "tc")]
                           for row in table.iter(DRAWING + "tr")], slide=slide_number(name))
        for paragraph in root.iter(DRAWING + "p"):
            doc.add_text("".join(paragraph.itertext(DRAWING + "t")))


def refuse_ole(_data, _doc, _context):
    """What Office writes with a password, and what it wrote before 2007, are the same container."""
    if b"E\0n\0c\0r\0y\0p\0t\0e\0d\0P\0a\0c\0k\0a\0g\0e" in _data:
        raise Refused("encrypted", "the document is encrypted; save it without a password first")
    raise Refused("unsupported", "an office file of before 2007; save it as docx, xlsx or pptx first")
