"""Blobs that are too large to be in their document become objects of their own, which the document refers to."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pipestream.documents.references import DRIVE, blob_key
from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipestream.graph.model import Datasource
    from pipestream.wire import Blob, PipeDoc


def inline_limit(datasource: Datasource, default: int | None = None) -> int | None:
    """Return the size above which blobs of a datasource's documents are not inline; None: they all are.

    The datasource's hydration decides, and where it says nothing, ``default``.
    """
    hydration = datasource.hydration
    if hydration.policy == "always_inline":
        return None
    if hydration.policy == "always_ref":
        return 0
    return hydration.max_inline_blob_size_bytes or default


def blobs_of(document: PipeDoc) -> Iterator[Blob]:
    """Yield the blobs of a document."""
    bag = document.blob_bag
    if bag.HasField("blob"):
        yield bag.blob
    elif bag.HasField("blobs"):
        yield from bag.blobs.blob


def detach_blobs(document: PipeDoc, datasource: Datasource, limit: int | None) -> list[tuple[str, bytes]]:
    """Replace the bytes of blobs above a size by references, in place; return what is to be stored before the document.

    :raises IdInvalid: the document's id cannot be part of a key.
    """
    detached: list[tuple[str, bytes]] = []
    if limit is None:
        return detached
    for blob in blobs_of(document):
        data = blob.data
        if len(data) > limit:
            checksum = hashlib.sha256(data).hexdigest()
            key = blob_key(datasource.account_id, datasource.datasource_id, document.doc_id, checksum)
            refer_to_blob(blob, key, len(data), checksum)
            detached.append((key, data))
    return detached


def refer_to_blob(blob: Blob, key: str, size_bytes: int, checksum: str) -> None:
    """Let a blob refer to a stored object, whose bytes have this SHA-256."""
    blob.storage_ref.drive_name = DRIVE
    blob.storage_ref.object_key = key
    blob.size_bytes = size_bytes
    blob.checksum = checksum
    blob.checksum_type = wire.CHECKSUM_TYPE_SHA256
