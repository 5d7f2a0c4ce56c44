"""What kind of content a file has, from its name and its first bytes."""

from __future__ import annotations

# Not the mimetypes module: it reads the machine's own tables, and the same file must be the same document everywhere.
_BY_SUFFIX = {
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "eml": "message/rfc822",
    "gif": "image/gif",
    "gz": "application/gzip",
    "htm": "text/html",
    "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "log": "text/plain",
    "markdown": "text/markdown",
    "md": "text/markdown",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "pdf": "application/pdf",
    "png": "image/png",
    "tsv": "text/tab-separated-values",
    "txt": "text/plain",
    "xhtml": "application/xhtml+xml",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "zip": "application/zip",
}
_BY_MAGIC = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
)
_BINARY = "application/octet-stream"


def media_type(name: str, data: bytes) -> str:
    """Return a file's media type: by its ending, else by its first bytes, else text or not."""
    _, dot, suffix = name.rpartition(".")
    if dot and suffix.lower() in _BY_SUFFIX:
        return _BY_SUFFIX[suffix.lower()]
    for magic, kind in _BY_MAGIC:
        if data.startswith(magic):
            return kind
    head = data[:4_096]
    start = head.lstrip()[:15].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "text/html"
    if start.startswith(b"<?xml"):
        return "application/xml"
    return "text/plain" if _is_text(head) else _BINARY


def _is_text(head: bytes) -> bool:
    if b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # The cut may have gone through the last character.
        return error.end == len(head) and error.start >= len(head) - 3
    return True
