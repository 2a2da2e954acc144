"""Tar files for tests, among them such as no tar program writes."""

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

BLOCK = 512


def member(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.size = len(data)
    for field, value in fields.items():
        setattr(made, field, value)
    return made, data


def write(
    path: Path, *members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT, packed: bool = False
) -> Path:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    content = buffer.getvalue()
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


def header(
    name: bytes, *, size: int = 0, kind: bytes = b"0", mode: int = 0o644, magic: bytes = b"ustar\x0000"
) -> bytes:
    """One block with a right checksum, whatever it says."""
    block = bytearray(BLOCK)
    block[: len(name)] = name
    block[100:108] = b"%07o\0" % mode
    block[124:136] = b"%011o\0" % size if size < 8**11 else b"\x80" + size.to_bytes(11, "big")
    block[148:156] = b" " * 8
    block[156:157] = kind
    block[257:265] = magic
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


END = bytes(2 * BLOCK)
