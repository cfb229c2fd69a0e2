# SPDX-License-Identifier: Apache-2.0
"""Web pages and plain text. Nothing is fetched, no script is run."""
import csv
import io

from lxml import etree, html

from .model import Refused

HIDDEN = ("script", "style", "noscript", "template", "head")
CELLS = ("td", "th")
BLOCKS = {"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "table", "section", "article", "pre",
          "blockquote", "ul", "ol", "dl", "dt", "dd", "header", "footer", "main", "nav", "form", "hr", "title"}


def parse_html(data, doc, _context):
    """By events, not by recursion: a page may be nested as deep as its author likes."""
    parser = html.HTMLParser(no_network=True, huge_tree=False, remove_comments=True, remove_pis=True,
                             encoding=None if b"charset" in data[:2048].lower() else "utf-8")
    try:
        root = html.document_fromstring(data, parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError) as error:
        raise Refused("malformed", f"not an HTML page: {error}") from None
    title = root.find(".//title")
    doc.add_meta("title", "".join(title.itertext()).strip() if title is not None else None)
    for meta in root.iter("meta"):
        if (meta.get("name") or "").lower() in ("author", "description", "keywords", "generator"):
            doc.add_meta(meta.get("name").lower(), meta.get("content"))
    if next(root.iter("script"), None) is not None:
        doc.warn("the page has scripts; they were not run")
    for table in root.iter("table"):
        doc.add_table([" ".join("".join(cell.itertext()).split()) for cell in row if cell.tag in CELLS]
                      for row in table.iter("tr"))
    doc.add_text(visible_text(root))


def visible_text(root):
    out, hidden = [], 0
    for event, element in etree.iterwalk(root, events=("start", "end")):
        tag = element.tag if isinstance(element.tag, str) else ""
        if event == "start":
            hidden += tag in HIDDEN
            if tag in BLOCKS:
                out.append("\n")
            if not hidden and element.text:
                out.append(" ".join(element.text.split()) + (" " if element.text[-1:].isspace() else ""))
        else:
            hidden -= tag in HIDDEN
            if tag in BLOCKS or tag in CELLS:
                out.append("\t" if tag in CELLS else "\n")
            if not hidden and element.tail and element.tail.strip():
                before = " " if element.tail[0].isspace() else ""
                out.append(before + " ".join(element.tail.split()) + (" " if element.tail[-1].isspace() else ""))
    lines = (line.strip() for line in "".join(out).split("\n"))
    return "\n".join(line for line in lines if line)


def decoded(data):
    for encoding in ("utf-8-sig", "utf-16") if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig",):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("latin-1")


def parse_text(data, doc, _context):
    doc.add_text(decoded(data))


def parse_csv(data, doc, _context):
    text = decoded(data)
    doc.add_text(text)
    try:
        dialect = csv.Sniffer().sniff(text[:8192], ",;\t|")
    except csv.Error:
        dialect = csv.excel
    try:
        doc.add_table(csv.reader(io.StringIO(text), dialect))
    except csv.Error as error:
        raise Refused("malformed", f"not a table of comma-separated values: {error}") from None
