# SPDX-License-Identifier: Apache-2.0
"""What a parser gives, and how it fails."""
import dataclasses
import os
import re

MIB = 1 << 20
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclasses.dataclass(frozen=True)
class Limits:
    text_bytes: int = 2 * MIB        # of all text together
    table_cells: int = 50_000        # of all tables together
    result_bytes: int = 4 * MIB - 1  # of result.json
    unpacked_bytes: int = 512 * MIB  # an archive's members, all depths together
    ratio: int = 200                 # unpacked : packed, where it is more than a few MiB
    entries: int = 10_000            # members of one archive
    depth: int = 3                   # archives in archives
    pages: int = 50                  # that become images
    image_pixels: int = 1200         # the longer side of one
    image_bytes: int = 11 * MIB      # of all images together


def limits_from_environment():
    """SANDGLASS_PARSE_<NAME> changes one; a value that is no number is an error of the caller."""
    names = [field.name for field in dataclasses.fields(Limits)]
    given = {name: os.environ.get(f"SANDGLASS_PARSE_{name.upper()}") for name in names}
    return Limits(**{name: int(value) for name, value in given.items() if value is not None})


class Refused(Exception):
    """A document that gives no result: `kind` is for programs, the text for people."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class Document:
    """Collects what is found, within limits; what is cut is said once in `warnings`."""

    def __init__(self, limits):
        self.limits = limits
        self.format = None
        self.metadata = {}
        self.tables = []
        self.images = []
        self.entries = []
        self.warnings = []
        self._text = []
        self._text_left = limits.text_bytes
        self._cells_left = limits.table_cells

    def warn(self, text):
        if text not in self.warnings:
            self.warnings.append(text)

    def add_text(self, text):
        if not text:
            return
        if self._text_left <= 0:
            self.warn(f"the text was cut at {self.limits.text_bytes} bytes")
            return
        data = text.encode("utf-8", "replace")
        if len(data) > self._text_left:
            text = data[:self._text_left].decode("utf-8", "ignore")
            self.warn(f"the text was cut at {self.limits.text_bytes} bytes")
        self._text_left -= len(data)
        self._text.append(text)

    def add_meta(self, name, value):
        """Absent and empty values are left out; times become ISO 8601."""
        if value is None or value == "":
            return
        if hasattr(value, "isoformat"):
            value = value.isoformat()
        self.metadata[name] = value if isinstance(value, (int, float, bool)) else clean(value)[:10_000]

    def add_table(self, rows, **about):
        """`rows`: an iterable of rows of cells. Rows of nothing but empty cells are dropped."""
        kept, is_cut = [], False
        for row in rows:
            cells = [plain_cell(cell) for cell in row]
            while cells and cells[-1] in (None, ""):
                cells.pop()
            if not cells:
                continue
            if len(cells) > self._cells_left:
                is_cut = True
                break
            self._cells_left -= len(cells)
            kept.append(cells)
        if is_cut:
            self.warn(f"tables were cut at {self.limits.table_cells} cells")
        if kept:
            width = max(map(len, kept))
            self.tables.append({**about, "rows": [row + [None] * (width - len(row)) for row in kept]})

    @property
    def text(self):
        return clean("\n".join(part.rstrip("\n") for part in self._text)).strip("\n")


def clean(text):
    """No control bytes but tabs and line ends, and nothing that is not Unicode text."""
    text = str(text).replace("\r\n", "\n").replace("\r", "\n")
    text = CONTROLS.sub(" ", text)
    return text.encode("utf-8", "replace").decode("utf-8")


def plain_cell(cell):
    if cell is None or isinstance(cell, (bool, int)):
        return cell
    if isinstance(cell, float):
        return cell if cell == cell and abs(cell) != float("inf") else str(cell)
    if hasattr(cell, "isoformat"):
        return cell.isoformat()
    return clean(cell).strip()
