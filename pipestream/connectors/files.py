"""A file's bytes as a document, wherever the file lies."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from pipestream.connectors.media import media_type
from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as wire
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from datetime import datetime

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)
# Leaves room for the hash within the 200 characters of a key's part.
_MAX_NAME_LENGTH = 120


def document_id(path: str) -> str:
    """Return the id of the document at a path: readable, and as unique as the path."""
    name = _UNSAFE.sub("-", path).strip("-.")[-_MAX_NAME_LENGTH:].lstrip("-.")
    digest = hashlib.sha256(path.encode()).hexdigest()[:16]
    return f"{name}-{digest}" if name else digest


def file_document(
    data: bytes, path: str, uri: str, modified: datetime | None, kind: str = "", name: str = ""
) -> PipeDoc:
    """Return the document of a file.

    :param path: where it is within its source; its id is derived from it.
    :param uri: its full address.
    :param kind: its media type, if the source says it.
    :param name: its name, if it is not the end of the path.
    """
    name = name or path.rpartition("/")[2]
    kind = kind or media_type(name, data)
    document = PipeDoc()
    blob = document.blob_bag.blob
    blob.blob_id = "0"
    blob.data = data
    blob.filename = name
    blob.mime_type = kind
    blob.size_bytes = len(data)
    blob.checksum = hashlib.sha256(data).hexdigest()
    blob.checksum_type = wire.CHECKSUM_TYPE_SHA256
    found = document.search_metadata
    found.title = name.rpartition(".")[0] or name
    found.mime_type = kind
    found.content_length = len(data)
    if modified is not None:
        found.last_modified_date.FromDatetime(modified)
    name_by_path(document, path, uri)
    return document


def name_by_path(document: PipeDoc, path: str, uri: str) -> None:
    """Give a document the id of its path, and say where it comes from."""
    document.doc_id = document_id(path)
    document.doc_id_derivation.method = wire.DOC_ID_DERIVATION_METHOD_SOURCE_PATH
    document.doc_id_derivation.input = path
    document.doc_id_derivation.canonical_input = path
    found = document.search_metadata
    found.source_uri = uri
    found.source_path = path
    found.source_path_segments[:] = path.split("/")
