"""The keys of stored documents and blobs, and which key a reference means."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from pipestream.documents.segments import ROOT as SEGMENTS
from pipestream.errors import IdInvalid, RecordInvalid
from pipestream.ids import check_graph_id, check_key, check_key_part

if TYPE_CHECKING:
    from pipestream.wire import Blob, PipeStream

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_IN_SEGMENT = re.compile(r"(.+)@(\d{1,18}):(\d{1,18})", re.ASCII)
# A segment begins with a byte, then come the length and the checksum of its first document.
_FIRST_OFFSET = 9
_OUTPUTS = "streams"
_ROOTS = (_OUTPUTS, "documents", SEGMENTS)
_BLOBS = "blobs"
DRIVE = "default"
"""The name of the one object store, where the wire format asks for a drive."""


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """Where a stored document is: an object, or a part of a segment."""

    key: str
    offset: int = 0
    """In a segment: where its bytes begin. 0: the whole object is the document."""
    length: int = 0
    """In a segment: how many bytes it has."""

    @property
    def is_in_segment(self) -> bool:
        return self.offset > 0

    def __str__(self) -> str:
        """Return the place as people and links name it: ``KEY``, or ``KEY@OFFSET:LENGTH``."""
        return f"{self.key}@{self.offset}:{self.length}" if self.is_in_segment else self.key


def parse_place(text: str) -> DocumentPlace:
    """Return the place that ``str`` of a place names.

    :raises IdInvalid: it cannot be one.
    """
    found = _IN_SEGMENT.fullmatch(text)
    if found is None or not text.startswith(f"{SEGMENTS}/"):
        return DocumentPlace(check_key(text))
    if int(found[2]) < _FIRST_OFFSET:
        raise IdInvalid(
            f"{text!r} is not the place of a document: the first one in a segment begins at {_FIRST_OFFSET}"
        )
    return DocumentPlace(check_key(found[1]), int(found[2]), int(found[3]))


def stream_key(account_id: str, stream_id: str, node_id: str) -> str:
    """Return where a node's output for a stream is stored, unless other bytes of an earlier try are there.

    :raises IdInvalid: a part cannot be in a key.
    """
    account = check_key_part(account_id, "account id")
    stream = check_key_part(stream_id, "stream id")
    return f"{_OUTPUTS}/{account}/{stream}/{check_graph_id(node_id, 'node id')}.pb"


def is_derived(key: str) -> bool:
    """Tell whether a key names an output by where it comes from, so that a second try may have other bytes for it.

    All other keys name one content: uploads and blobs by their checksum, segments because they are drawn.
    """
    return key.startswith(f"{_OUTPUTS}/")


def variant_key(key: str, name: str) -> str:
    """Return the key of another document of the same stream and node; node ids have no dots."""
    return f"{key.removesuffix('.pb')}.{name}.pb"


def content_key(key: str, data: bytes) -> str:
    """Return the key of an output whose derived name holds other bytes: the name, and what tells its content."""
    return variant_key(key, hashlib.sha256(data).hexdigest())


def upload_key(account_id: str, datasource_id: str, doc_id: str, checksum: str) -> str:
    """Return where an uploaded document is stored.

    The checksum makes the key name one content: a repeated upload writes the same bytes again, and a
    changed document never overwrites the one that a stream in flight still refers to.

    :raises IdInvalid: a part cannot be in a key.
    """
    return f"documents/{_content_path(account_id, datasource_id, doc_id, checksum)}.pb"


def blob_key(account_id: str, datasource_id: str, doc_id: str, checksum: str) -> str:
    """Return where a blob of a document is stored that is too large to be in the document itself.

    Each document has blobs of its own, so deleting the document deletes them and takes nothing from another one.

    :param checksum: the SHA-256 of the blob's bytes.
    :raises IdInvalid: a part cannot be in a key.
    """
    return f"{_BLOBS}/{_content_path(account_id, datasource_id, doc_id, checksum)}"


def _content_path(account_id: str, datasource_id: str, doc_id: str, checksum: str) -> str:
    if not _SHA256.fullmatch(checksum):
        raise IdInvalid(f"checksum {checksum!r} is not a SHA-256 in lower-case hexadecimal")
    account = check_key_part(account_id, "account id")
    datasource = check_graph_id(datasource_id, "datasource id")
    return f"{account}/{datasource}/{check_key_part(doc_id, 'document id')}/{checksum}"


def key_of_blob(blob: Blob, account_id: str) -> str:
    """Return the key of the object that a blob's ``storage_ref`` names.

    A reference may only lead to the blobs of the account that its document belongs to.

    :raises RecordInvalid: there is no reference, or it does not name an object that it may.
    """
    if not blob.HasField("storage_ref"):
        raise RecordInvalid(f"blob {blob.blob_id!r} has no storage_ref, so there is no object to look for")
    reference = blob.storage_ref
    if reference.drive_name not in ("", DRIVE):
        raise RecordInvalid(
            f"blob {blob.blob_id!r} is on the drive {reference.drive_name!r}; this store has only {DRIVE!r}"
        )
    try:
        key = check_key(reference.object_key)
    except IdInvalid as error:
        raise RecordInvalid(f"the reference to blob {blob.blob_id!r}: {error}") from error
    parts = key.split("/")
    if len(parts) < 3 or parts[0] != _BLOBS or parts[1] != account_id:
        raise RecordInvalid(
            f"object_key {key!r} is not below {_BLOBS}/{account_id}/, where the blobs of account {account_id!r} are"
        )
    return key


def key_of(stream: PipeStream) -> str:
    """Return the key of the object that a stream's ``document_ref`` names, or of the segment.

    :raises RecordInvalid: as ``place_of``.
    """
    return place_of(stream).key


def place_of(stream: PipeStream) -> DocumentPlace:
    """Return where the document is that a stream's ``document_ref`` names.

    A reference may only lead into the account of its stream.

    :raises RecordInvalid: there is no reference, or it does not name an object that it may.
    """
    if not stream.HasField("document_ref"):
        raise RecordInvalid("the stream has no document_ref, so there is no object to look for")
    reference = stream.document_ref
    account_id = reference.account_id or stream.metadata.account_id
    if stream.metadata.account_id not in ("", account_id):
        raise RecordInvalid(
            f"the reference belongs to account {account_id!r}, but the stream to {stream.metadata.account_id!r}"
        )
    try:
        if not reference.object_key:
            if not reference.source_node_id:
                raise RecordInvalid(
                    f"the reference to document {reference.doc_id!r} has neither object_key nor "
                    f"source_node_id; publish it through the Repository, which sets object_key"
                )
            return DocumentPlace(stream_key(account_id, stream.stream_id, reference.source_node_id))
        root = _check_document_key(reference.object_key, account_id)
    except IdInvalid as error:
        raise RecordInvalid(f"the reference to document {reference.doc_id!r}: {error}") from error
    offset, length = reference.object_offset, reference.object_length
    if root == SEGMENTS and (offset < _FIRST_OFFSET or length < 0):
        raise RecordInvalid(
            f"{reference.object_key} is a segment, and object_offset {offset} with object_length {length} is not the "
            f"place of a document in one"
        )
    if root != SEGMENTS and (offset or length):
        raise RecordInvalid(
            f"{reference.object_key} is not a segment, so the reference to it cannot have an object_offset"
        )
    return DocumentPlace(reference.object_key, offset, length)


# Many references of a chunk name the same segment.
@lru_cache(maxsize=1_024)
def _check_document_key(key: str, account_id: str) -> str:
    """Return the root of a key that may hold documents of an account.

    :raises RecordInvalid, IdInvalid: it may not.
    """
    parts = check_key(key).split("/")
    check_key_part(account_id, "account id")
    if len(parts) < 3 or parts[0] not in _ROOTS or parts[1] != account_id:
        *roots, last = (f"{root}/{account_id}/" for root in _ROOTS)
        raise RecordInvalid(
            f"object_key {key!r} is not below {', '.join(roots)} or {last}, where the documents of account "
            f"{account_id!r} are"
        )
    return parts[0]
