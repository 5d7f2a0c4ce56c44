"""What kind of document a file is: by its media type, else by its first bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.errors import ModuleFailed
from pipestream.modules.declare import declare_module
from pipestream.modules.documents.content import Content, contents_of
from pipestream.modules.documents.options import read_options, schema_of
from pipestream.modules.documents.zips import OLE

if TYPE_CHECKING:
    from pipestream.modules.module import ModuleContext
    from pipestream.wire import PipeDoc

SCHEMA = schema_of()

_OFFICE = "application/vnd.openxmlformats-officedocument"
_BY_MEDIA_TYPE = {
    "application/json": "JSON",
    "application/msword": "WORD",
    "application/pdf": "PDF",
    "application/vnd.ms-excel": "TABLE",
    "application/vnd.oasis.opendocument.spreadsheet": "TABLE",
    f"{_OFFICE}.spreadsheetml.sheet": "TABLE",
    f"{_OFFICE}.wordprocessingml.document": "WORD",
    "application/xhtml+xml": "HTML",
    "message/rfc822": "EMAIL",
    "text/csv": "CSV",
    "text/html": "HTML",
    "text/markdown": "MARKDOWN",
    "text/plain": "TEXT",
    "text/tab-separated-values": "CSV",
}
KINDS = tuple(sorted(set(_BY_MEDIA_TYPE.values())))


@declare_module(is_parser=True, config_schema=SCHEMA, name="kinds", description="Finds the kind of a document.")
def identify(document: PipeDoc, context: ModuleContext) -> PipeDoc:
    """Set ``document_type`` to the kind of the document's (first) file, for the conditions of edges."""
    read_options(SCHEMA, context.config)
    document.search_metadata.document_type = kind_of(contents_of(document)[0])
    return document


def kind_of(content: Content) -> str:
    """Return the kind of a file.

    :raises ModuleFailed: it is none that can be read.
    """
    media_type = content.media_type.partition(";")[0].strip().lower()
    kind = _BY_MEDIA_TYPE.get(media_type) or _by_content(content.data)
    if kind is None:
        what = f"files of type {media_type}" if media_type else "this kind of file"
        raise ModuleFailed(f"{what} cannot be read; kinds that can: {', '.join(KINDS)}")
    return kind


def _by_content(data: bytes) -> str | None:
    start = data[:1024].lstrip()
    lower = start[:64].lower()
    if b"%PDF-" in data[:1024]:
        return "PDF"
    if data.startswith(b"PK\x03\x04"):
        return "WORD" if b"word/" in data else "TABLE" if b"xl/" in data or b"spreadsheet" in data[:256] else None
    if data.startswith(OLE):
        return "WORD" if "WordDocument".encode("utf-16-le") in data else "TABLE"
    if lower.startswith((b"<!doctype html", b"<html")):
        return "HTML"
    if start.startswith((b"{", b"[")):
        return "JSON"
    return None if b"\0" in data[:4096] else "TEXT"
