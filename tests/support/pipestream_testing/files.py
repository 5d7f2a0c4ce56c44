"""Files for the tests of the modules that read documents: OpenDocument tables, encrypted files, bombs."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

from pipestream.samples.files import zip_file
from pipestream.wire import PipeDoc

_NAMES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
)
_ODS = "application/vnd.oasis.opendocument.spreadsheet"


def blob_document(data: bytes | str, mime_type: str = "", doc_id: str = "d") -> PipeDoc:
    """Return a document with one inline blob."""
    made = PipeDoc(doc_id=doc_id)
    made.blob_bag.blob.data = data.encode() if isinstance(data, str) else data
    made.blob_bag.blob.mime_type = mime_type
    return made


def ods_file(rows: str, title: str = "") -> bytes:
    """Return an OpenDocument table whose one sheet has these rows, as XML."""
    table = f'<table:table table:name="Orders">{rows}</table:table>'
    body = f"<office:body><office:spreadsheet>{table}</office:spreadsheet></office:body>"
    manifest = (
        '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
        f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{_ODS}"/></manifest:manifest>'
    )
    meta = f'<x xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></x>'
    return zip_file(
        {
            "mimetype": _ODS,
            "META-INF/manifest.xml": manifest,
            "content.xml": f"<office:document-content {_NAMES}>{body}</office:document-content>",
            "meta.xml": meta,
        }
    )


def ods_cell(text: str = "", repeats: int = 1) -> str:
    """Return a cell; without a text, an empty one."""
    value = ' office:value-type="string"' if text else ""
    return (
        f'<table:table-cell{value} table:number-columns-repeated="{repeats}"><text:p>{text}</text:p></table:table-cell>'
    )


def ods_row(*cells: str, repeats: int = 1) -> str:
    return f'<table:table-row table:number-rows-repeated="{repeats}">{"".join(cells)}</table:table-row>'


def changed_zip(data: bytes, **parts: str | bytes) -> bytes:
    """Return a zip file with other contents for some entries.

    :param parts: by name; ``__`` stands for a slash, ``_dot_`` for a dot.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        contents: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    renamed = {name.replace("__", "/").replace("_dot_", "."): content for name, content in parts.items()}
    return zip_file(contents | renamed)


def lying_zip(data: bytes, name: str, content: bytes, stated: int) -> bytes:
    """Return a zip file in which an entry says that it is ``stated`` bytes long, with the checksum of these alone."""
    made = bytearray(changed_zip(data, **{name.replace("/", "__").replace(".", "_dot_"): content}))
    crc = struct.pack("<I", zlib.crc32(content[:stated]))
    size = struct.pack("<I", stated)
    for signature, crc_at, size_at in ((b"PK\x03\x04", 14, 22), (b"PK\x01\x02", 16, 24)):
        start = 0
        while (start := made.find(signature, start)) >= 0:
            name_at = start + (30 if signature == b"PK\x03\x04" else 46)
            if made[name_at : name_at + len(name)] == name.encode():
                made[start + crc_at : start + crc_at + 4] = crc
                made[start + size_at : start + size_at + 4] = size
            start += 4
    return bytes(made)


def encrypted_office_file() -> bytes:
    """Return the container in which Word and Excel wrap a file that has a password: enough of it to be recognised."""
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + "EncryptedPackage".encode("utf-16-le") + bytes(512)
