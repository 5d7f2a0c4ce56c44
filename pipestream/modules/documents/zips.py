"""Checks before a zip file (Word, Excel, ODS) is given to a library: is it one, and how large is it unpacked?"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING

from pipestream.errors import ModuleFailed

if TYPE_CHECKING:
    from pipestream.modules.documents.options import Options

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""The start of the container of Word 97 and Excel 97 files. Newer files that are encrypted are wrapped in it too."""
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_MAX_ENTRIES = 20_000
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_STEP_BYTES = 1024 * 1024


def is_encrypted_office(data: bytes) -> bool:
    """Tell whether it is a Word or Excel file that is protected by a password."""
    return data.startswith(OLE) and _ENCRYPTED in data


def open_zip(data: bytes, what: str, options: Options) -> zipfile.ZipFile:
    """Return a zip file whose entries were unpacked once, to count their bytes.

    The sizes that a zip file states can be wrong on purpose, and the libraries believe some of them. So each entry is
    unpacked here, without keeping it, until it ends or the limit is reached.

    :param what: what the file should be, for messages.
    :raises ModuleFailed: it is not a zip file, is damaged or encrypted, or is too large when unpacked.
    """
    try:
        opened = zipfile.ZipFile(io.BytesIO(data))
        entries = opened.infolist()
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, struct.error) as error:
        raise ModuleFailed(f"not {what}: the zip file is broken: {error}") from error
    if len(entries) > _MAX_ENTRIES:
        raise ModuleFailed(f"not {what}: the zip file has {len(entries)} entries")
    left = int(options["max_unpacked_bytes"])
    for entry in entries:
        if entry.flag_bits & 1:
            raise ModuleFailed(f"{what} is encrypted: {entry.filename}")
        left -= _unpacked_size(data, entry, what, left)
    return opened


def _unpacked_size(data: bytes, entry: zipfile.ZipInfo, what: str, limit: int) -> int:
    packed = _packed(data, entry, what)
    if entry.compress_type == zipfile.ZIP_STORED:
        size = len(packed)
    elif entry.compress_type == zipfile.ZIP_DEFLATED:
        size = _inflated_size(packed, entry, what, limit)
    else:
        raise ModuleFailed(f"not {what}: {entry.filename} is compressed with an unusual method")
    if size > limit:
        raise ModuleFailed(f"{what} is larger than max_unpacked_bytes when it is unpacked; is it a zip bomb?")
    if size != entry.file_size:
        raise ModuleFailed(f"not {what}: {entry.filename} has another size than the zip file states")
    return size


def _packed(data: bytes, entry: zipfile.ZipInfo, what: str) -> memoryview:
    start = entry.header_offset
    if start < 0 or start + _LOCAL_HEADER.size > len(data):
        raise ModuleFailed(f"not {what}: the zip file is cut off at {entry.filename}")
    header = _LOCAL_HEADER.unpack_from(data, start)
    start += _LOCAL_HEADER.size + header[9] + header[10]
    if header[0] != b"PK\x03\x04" or start + entry.compress_size > len(data):
        raise ModuleFailed(f"not {what}: the zip file is cut off at {entry.filename}")
    return memoryview(data)[start : start + entry.compress_size]


def _inflated_size(packed: memoryview, entry: zipfile.ZipInfo, what: str, limit: int) -> int:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    size, source = 0, bytes(packed)
    try:
        while not stream.eof and size <= limit:
            out = stream.decompress(source, _STEP_BYTES)
            size += len(out)
            source = stream.unconsumed_tail
            if not out and not source:
                break
    except zlib.error as error:
        raise ModuleFailed(f"not {what}: {entry.filename} cannot be unpacked: {error}") from error
    return size
