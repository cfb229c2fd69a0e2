# SPDX-License-Identifier: Apache-2.0
"""PDF, by Poppler's programs: they survive what libraries in Python do not. Tables are those that
have rules drawn around their cells."""
import io
import pathlib
import re
import subprocess
import tempfile

from .model import Refused

INFO = {"Title": "title", "Author": "author", "Subject": "subject", "Keywords": "keywords", "Creator": "creator",
        "Producer": "producer", "CreationDate": "created", "ModDate": "modified"}
PROGRAM_SECONDS = 120
TABLE_PAGES = 200
NEAR = 2.0  # points: rules that are drawn twice, or do not quite meet


def run(*argv):
    try:
        done = subprocess.run(argv, capture_output=True, timeout=PROGRAM_SECONDS)
    except subprocess.TimeoutExpired:
        raise Refused("timeout", f"{argv[0]} did not end within {PROGRAM_SECONDS} s") from None
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.decode("utf-8", "replace")
    if "Incorrect password" in said:
        raise Refused("encrypted", "the document is encrypted; save it without a password first")
    if done.returncode < 0:
        raise Refused("malformed", f"the document made {argv[0]} crash (signal {-done.returncode})")
    reason = next((line for line in said.splitlines() if line.strip()), "no reason given")
    raise Refused("malformed", f"not a PDF document that can be read: {reason}")


def parse_pdf(data, doc, context):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "in.pdf"
        path.write_bytes(data)
        pages = add_info(path, doc)
        for number, text in enumerate(run("pdftotext", "-layout", path, "-").decode("utf-8", "replace").split("\f")):
            if number < pages:
                doc.add_text(text)
        if re.search(rb"/(JavaScript|Launch|EmbeddedFile)\b", data):
            doc.warn("the document has scripts, actions or attachments; they were not run or opened")
        add_tables(data, doc, pages)
        if context.images_to:
            add_images(path, context.images_to, doc, pages)


def add_info(path, doc):
    pages = 0
    for line in run("pdfinfo", "-isodates", path).decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(":")
        if name in INFO:
            doc.add_meta(INFO[name], value.strip())
        elif name == "Pages" and value.strip().isdigit():
            pages = int(value)
    doc.add_meta("pages", pages)
    return pages


def add_images(path, folder, doc, pages):
    """page-001.png and so on, as long as all of them together stay within their limit."""
    last = min(pages, doc.limits.pages)
    if pages > last:
        doc.warn(f"images of the first {last} pages only")
    if not last:
        return
    run("pdftoppm", "-png", "-scale-to", str(doc.limits.image_pixels), "-l", str(last), path, f"{folder}/page")
    left = doc.limits.image_bytes
    for number, image in enumerate(sorted(folder.glob("page-*.png")), 1):
        content = image.read_bytes()
        left -= len(content)
        if left < 0:
            doc.warn(f"images of the first {number - 1} pages only: together they may have {doc.limits.image_bytes} bytes")
            image.unlink()
            continue
        width, height = int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
        doc.images.append({"page": number, "width": width, "height": height, "file": image.name})


# ---- tables: a grid of rules, and the words between them ----

def add_tables(data, doc, pages):
    if pages > TABLE_PAGES:
        doc.warn(f"tables were looked for on the first {TABLE_PAGES} pages only")
    try:
        from pdfminer.high_level import extract_pages
        for number, page in enumerate(extract_pages(io.BytesIO(data), maxpages=TABLE_PAGES), 1):
            for rows in tables_of(page):
                doc.add_table(rows, page=number)
    except Exception as error:  # a library on hostile bytes: anything may come; text is there already
        doc.warn(f"tables could not be read: {type(error).__name__}")


def tables_of(page):
    from pdfminer.layout import LTChar, LTCurve
    rules, chars = [], []
    stack = list(page)
    while stack:
        item = stack.pop()
        if isinstance(item, LTChar):
            chars.append(item)
        elif isinstance(item, LTCurve):  # lines and rectangles are curves there
            rules.append(item.bbox)
        elif hasattr(item, "__iter__"):
            stack.extend(item)
    for columns, lines in grids(rules):
        cells = {}
        for char in sorted(chars, key=lambda c: (-c.y0, c.x0)):
            column = place((char.x0 + char.x1) / 2, columns)
            line = place((char.y0 + char.y1) / 2, lines)
            if column is not None and line is not None:
                cells.setdefault((line, column), []).append(char)
        yield [[words(cells.get((line, column), ())) for column in range(len(columns) - 1)]
               for line in reversed(range(len(lines) - 1))]


def place(value, edges):
    for i in range(len(edges) - 1):
        if edges[i] <= value < edges[i + 1]:
            return i
    return None


def words(chars):
    """Characters of one cell, which come line by line, with spaces where there are gaps."""
    out, before = [], None
    for char in chars:
        if before is not None:
            if before.y0 - char.y0 > before.height / 2 or char.x0 - before.x1 > before.width / 3:
                out.append(" ")
        out.append(char.get_text())
        before = char
    return " ".join("".join(out).split())


def merged(values):
    out = []
    for value in sorted(values):
        if not out or value - out[-1] > NEAR:
            out.append(value)
    return out


def grids(rules):
    """(x edges, y edges) of every group of touching rules with at least two rows or columns of cells."""
    groups = []
    for x0, y0, x1, y1 in rules:
        box, members = [x0, y0, x1, y1], [(x0, y0, x1, y1)]
        rest = []
        for other, theirs in groups:
            if (other[0] - NEAR <= box[2] and box[0] - NEAR <= other[2] and
                    other[1] - NEAR <= box[3] and box[1] - NEAR <= other[3]):
                box = [min(box[0], other[0]), min(box[1], other[1]), max(box[2], other[2]), max(box[3], other[3])]
                members += theirs
            else:
                rest.append((other, theirs))
        groups = [*rest, (box, members)]
    for _, members in groups:
        columns = merged(x for x0, y0, x1, y1 in members if y1 - y0 > NEAR for x in (x0, x1))
        lines = merged(y for x0, y0, x1, y1 in members if x1 - x0 > NEAR for y in (y0, y1))
        if len(columns) > 1 and len(lines) > 1 and len(columns) + len(lines) > 4:
            yield columns, lines
