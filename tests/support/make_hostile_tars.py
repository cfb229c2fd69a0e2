#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes archives that attack whoever unpacks them, one file per case, into the given directory.

The attacks are spelled with raw TarInfo records, because the friendly part of tarfile would not
make most of them. tests/unit/test_unpack.c names each file and what must come of it.
"""
import bz2
import gzip
import io
import lzma
import struct
import sys
import tarfile
from pathlib import Path


def entry(name, kind=tarfile.REGTYPE, data=b"", link="", mode=0o644, uid=0, gid=0, dev=(0, 0), pax=None):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.uid, info.gid = kind, link, mode, uid, gid
    info.devmajor, info.devminor = dev
    info.size = len(data)
    info.mtime = 1700000000
    info.pax_headers = pax or {}
    return info, data


def directory(name, mode=0o755):
    return entry(name, tarfile.DIRTYPE, mode=mode)


def symlink(name, target):
    return entry(name, tarfile.SYMTYPE, link=target, mode=0o777)


def hardlink(name, target):
    return entry(name, tarfile.LNKTYPE, link=target)


def tar(*entries, fmt=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def with_header(archive, at, field):
    """Overwrites part of the first header and repairs its checksum."""
    block = bytearray(archive[:512])
    block[at:at + len(field)] = field
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + archive[512:]


def sparse(name, real_size):
    """A GNU sparse 1.0 file that is one hole."""
    sparse_map = b"1\n%d\n0\n" % real_size
    data = sparse_map.ljust(512, b"\0")
    pax = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": name,
           "GNU.sparse.realsize": str(real_size)}
    return tar(entry("GNUSparseFile.0/" + name, data=data, pax=pax))


def lying_gzip(data):
    """A gzip stream whose trailer says that 7 bytes come out."""
    return gzip.compress(data, mtime=0)[:-4] + struct.pack("<I", 7)


def many(count):
    return tar(*[entry("f%d" % i) for i in range(count)], fmt=tarfile.USTAR_FORMAT)


GOOD = [directory("./"), directory("./etc"), entry("./etc/passwd", data=b"root:x:0:0::/root:/bin/sh\n"),
        directory("./bin"), entry("./bin/tool", data=b"#!/bin/sh\n", mode=0o755),
        symlink("./bin/alias", "tool"), hardlink("./bin/twin", "./bin/tool"),
        entry("./home/user/.profile", data=b"x", uid=1000, gid=1000)]
ZEROS = b"\0" * (16 << 20)

CASES = {
    # what must work
    "good.tar": tar(*GOOD),
    "good.tar.gz": gzip.compress(tar(*GOOD), mtime=0),
    "good.tar.bz2": bz2.compress(tar(*GOOD)),
    "good.tar.xz": lzma.compress(tar(*GOOD)),
    "unicode.tar": tar(entry("gr\u00fc\u00df/\u65e5\u672c", data=b"x")),
    "not-utf8.tar": tar(entry("caf\udce9", data=b"x"), fmt=tarfile.GNU_FORMAT),
    "case.tar": tar(entry("Name", data=b"upper"), entry("name", data=b"lower")),
    "twice-directory.tar": tar(directory("d", 0o700), entry("d/f"), directory("d", 0o750)),
    "setuid.tar": tar(entry("su", mode=0o6755), directory("shared", 0o2775)),
    "dev-devices.tar": tar(directory("dev"), entry("dev/null", tarfile.CHRTYPE, dev=(1, 3)), entry("after")),
    "fifo.tar": tar(entry("pipe", tarfile.FIFOTYPE), entry("after")),
    "capability.tar": tar(entry("ping", pax={"SCHILY.xattr.security.capability": "\x01\x00\x00\x02x",
                                             "SCHILY.xattr.user.note": "y",
                                             "SCHILY.xattr.trusted.overlay.opaque": "y"})),
    "lying-gzip.tar.gz": lying_gzip(tar(entry("f", data=b"z" * 100000))),
    "private-root.tar": tar(directory(".", 0o700), entry("f")),
    # names
    "dotdot.tar": tar(entry("../escape", data=b"x")),
    "dotdot-inside.tar": tar(directory("a"), entry("a/../../escape", data=b"x")),
    "dotdot-pax.tar": tar(entry("harmless", data=b"x", pax={"path": "b/../../escape"})),
    "absolute.tar": tar(entry("/escape", data=b"x")),
    "absolute-pax.tar": tar(entry("harmless", data=b"x", pax={"path": "/escape"})),
    "dotdot-long.tar": tar(entry("d/" * 60 + "../" * 70 + "escape", data=b"x"), fmt=tarfile.GNU_FORMAT),
    "deep.tar": tar(entry("d/" * 200 + "f")),
    "long-component.tar": tar(entry("n" * 300)),
    "long-name.tar": tar(entry("/".join(["n" * 200] * 30))),
    "no-name.tar": with_header(tar(entry("x")), 0, b"\0" * 100),
    # links
    "below-symlink.tar": tar(symlink("link", "../outside"), entry("link/escape", data=b"x")),
    "below-absolute-symlink.tar": tar(symlink("link", "/tmp"), entry("link/escape", data=b"x")),
    "link-to-link.tar": tar(symlink("a", "b"), symlink("b", "../outside"), entry("a/escape", data=b"x")),
    "directory-below-symlink.tar": tar(symlink("link", "../outside"), directory("link/escape")),
    "symlink-below-symlink.tar": tar(symlink("link", "../outside"), symlink("link/escape", "x")),
    "over-symlink.tar": tar(symlink("x", "../outside/canary"), entry("x", data=b"overwritten")),
    "directory-over-symlink.tar": tar(symlink("x", "../outside"), directory("x", 0o777)),
    "hardlink-dotdot.tar": tar(hardlink("h", "../outside/canary")),
    "hardlink-absolute.tar": tar(hardlink("h", "/etc/passwd")),
    "hardlink-through-symlink.tar": tar(symlink("d", "../outside"), hardlink("h", "d/canary")),
    "hardlink-missing.tar": tar(hardlink("h", "nothing")),
    "hardlink-then-file.tar": tar(symlink("s", "../outside/canary"), hardlink("h", "s"), entry("h", data=b"x")),
    "hardlink-directory.tar": tar(directory("d"), hardlink("h", "d")),
    # kinds
    "char-device.tar": tar(entry("null", tarfile.CHRTYPE, dev=(1, 3))),
    "block-device.tar": tar(entry("disk", tarfile.BLKTYPE, dev=(8, 0))),
    "whiteout.tar": tar(directory("etc"), entry("etc/passwd", tarfile.CHRTYPE, dev=(0, 0))),
    "twice-file.tar": tar(entry("f", data=b"1"), entry("f", data=b"2")),
    "file-then-below.tar": tar(entry("f", data=b"1"), entry("f/g", data=b"2")),
    "root-is-symlink.tar": tar(symlink(".", "/tmp")),
    "big-owner.tar": tar(entry("f", uid=70000)),
    "dev-symlink.tar": tar(directory("etc"), symlink("dev", "../outside")),
    "proc-symlink.tar": tar(symlink("proc", "/tmp")),
    "etc-symlink.tar": tar(symlink("etc", "/etc")),
    "sys-file.tar": tar(entry("sys", data=b"x")),
    # size
    "many.tar": many(101),
    "bomb.tar.gz": gzip.compress(tar(entry("zeros", data=ZEROS)), mtime=0),
    "nested.tar.gz.gz": gzip.compress(gzip.compress(tar(entry("f", data=ZEROS)), mtime=0), mtime=0),
    "sparse.tar": sparse("hole", 1 << 43),
    "sparse-ratio.tar": sparse("hole", 1 << 29),
    "huge-size.tar": with_header(tar(entry("f", data=b"x")), 124, b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"),
    "negative-size.tar": with_header(tar(entry("f", data=b"x")), 124, b"\xff" * 12),
    # not an archive
    "empty.tar": b"",
    "no-entries.tar": b"\0" * 10240,
    "garbage.tar": bytes(range(256)) * 64,
    "truncated.tar": tar(entry("f", data=b"x" * 100000))[:4096],
    "truncated.tar.gz": gzip.compress(tar(entry("f", data=bytes(range(256)) * 4000)), mtime=0)[:700],
    "short-size.tar": with_header(tar(entry("f", data=b"x")), 124, b"00007777777\0"),
    "zip.tar": b"PK\x03\x04" + b"\0" * 600,
}


def main():
    out = Path(sys.argv[1])
    for name, data in CASES.items():
        (out / name).write_bytes(data)


if __name__ == "__main__":
    main()
