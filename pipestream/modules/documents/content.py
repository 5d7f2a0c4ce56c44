"""The bytes of a document: its blobs, or its text where an earlier module left nothing else."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.errors import ModuleFailed

if TYPE_CHECKING:
    from pipestream.modules.documents.options import Options
    from pipestream.wire import PipeDoc


@dataclass(frozen=True, slots=True)
class Content:
    """One file."""

    data: bytes
    media_type: str = ""
    filename: str = ""
    encoding: str = ""


def contents_of(document: PipeDoc, options: Options | None = None) -> list[Content]:
    """Return the files of a document: one for a blob, several for a list of blobs.

    :raises ModuleFailed: there is none, one is stored elsewhere, or is larger than ``max_bytes``.
    """
    bag = document.blob_bag
    blobs = list(bag.blobs.blob) if bag.WhichOneof("blob_data") == "blobs" else [bag.blob]
    if not document.HasField("blob_bag") and document.search_metadata.body:
        metadata = document.search_metadata
        return [Content(metadata.body.encode(), metadata.mime_type or "text/plain", encoding="utf-8")]
    found = []
    for blob in blobs:
        if blob.WhichOneof("content") == "storage_ref":
            raise ModuleFailed(f"blob {blob.blob_id or blob.filename!r} is stored elsewhere and was not fetched")
        if blob.WhichOneof("content") != "data":
            raise ModuleFailed("the document has no blob to read")
        if options is not None and len(blob.data) > options["max_bytes"]:
            raise ModuleFailed(f"the file has {len(blob.data)} bytes, and max_bytes is {options['max_bytes']}")
        media_type = blob.mime_type or document.search_metadata.mime_type
        found.append(Content(blob.data, media_type, blob.filename, blob.encoding))
    if not found:
        raise ModuleFailed("the document has no blob to read")
    if not any(content.data.strip() for content in found):
        raise ModuleFailed("the document is empty")
    return found


def decode(content: Content, encoding: str = "utf-8") -> str:
    """Return a file's text. A wrong encoding is an error: guessed letters would be indexed and found by nobody.

    :raises ModuleFailed: it is not text, or not of that encoding.
    """
    data = content.data
    for mark, name in ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if data.startswith(mark):
            encoding = f"{name}-sig" if name == "utf-8" else name
            break
    else:
        encoding = content.encoding or encoding
        if b"\0" in data and not encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32")):
            raise ModuleFailed(f"not text: a zero byte at position {data.index(0)}")
    try:
        return data.decode(encoding)
    except LookupError:
        raise ModuleFailed(f"the encoding {encoding!r} is not known") from None
    except UnicodeDecodeError as error:
        name = encoding.upper().removesuffix("-SIG")
        raise ModuleFailed(f"not {name}: byte 0x{data[error.start]:02x} at position {error.start}") from error
