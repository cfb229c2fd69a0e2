# SPDX-License-Identifier: Apache-2.0
"""Zip archives: as they are, and as the container of office files. Nothing is unpacked to disk."""
import io
import zipfile
import zlib

from .model import MIB, Refused

SMALL = 8 * MIB  # up to here a high ratio is not worth a question: empty sheets compress well
PIECE = 1 << 20


class Archive:
    """Checked as a whole before a member is read, and every member while it is: sizes in an archive's
    directory are claims."""

    def __init__(self, data, limits, budget=None):
        self.limits = limits
        self.budget = budget if budget is not None else [limits.unpacked_bytes]
        try:
            self.zip = zipfile.ZipFile(io.BytesIO(data))
            self.members = [m for m in self.zip.infolist() if not m.is_dir()]
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, OverflowError) as error:
            raise Refused("malformed", f"the archive is damaged or cut off: {error}") from None
        if len(self.members) > limits.entries:
            raise Refused("too_large", f"the archive has {len(self.members)} members; the limit is {limits.entries}")
        total = sum(m.file_size for m in self.members)
        self.check_size(total, len(data))

    def check_size(self, total, packed):
        if total > self.budget[0]:
            raise Refused("too_large", f"the archive unpacks to {total} bytes; the limit is {self.limits.unpacked_bytes}")
        if total > SMALL and total > packed * self.limits.ratio:
            raise Refused("too_large", f"the archive unpacks to {total // max(packed, 1)} times its size: a bomb; "
                                       f"the limit is {self.limits.ratio}")

    def names(self):
        return [m.filename for m in self.members]

    def read(self, member):
        """The member's bytes; `member` is a name or one of `members`."""
        name = getattr(member, "filename", member)
        pieces, size = [], 0
        try:
            info = self.zip.getinfo(name)
            if info.flag_bits & 1:
                raise Refused("encrypted", f"'{name}' in the archive is encrypted; unpack it with its password first")
            with self.zip.open(member) as stream:
                while piece := stream.read(PIECE):
                    size += len(piece)
                    self.budget[0] -= len(piece)
                    if size > info.file_size or self.budget[0] < 0:
                        raise Refused("too_large", f"'{name}' in the archive is larger than it claims or may be")
                    pieces.append(piece)
        except KeyError:
            raise Refused("malformed", f"the archive has no '{name}'") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError, RuntimeError) as error:
            raise Refused("malformed", f"'{name}' in the archive is damaged: {error}") from None
        return b"".join(pieces)

    def verify(self):
        """Reads all of it once: the libraries that come after trust the directory."""
        for member in self.members:
            self.read(member)
        self.budget[0] = self.limits.unpacked_bytes


def parse_zip(data, doc, context):
    archive = Archive(data, doc.limits, context.budget)
    doc.add_meta("members", len(archive.members))
    inner = context.deeper()
    for member in archive.members:
        row = {"name": member.filename, "size": member.file_size}
        doc.entries.append(row)
        try:
            content = archive.read(member)
            row["format"] = inner.format_of(content, member.filename)
            if row["format"] is None:
                continue
            if context.depth + 1 >= doc.limits.depth and row["format"] == "zip":
                row["error"] = f"archives are opened {doc.limits.depth} deep, not deeper"
                continue
            inner.parse_into(content, member.filename, doc, row)
        except Refused as refusal:
            if refusal.kind == "too_large":
                raise
            row["error"] = str(refusal)
