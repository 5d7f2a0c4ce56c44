"""Level-2 hydration: give a parser the blobs of its document, and put references in their place again afterwards.

Level 1, the document itself, is fetched at intake. A blob may be large and is of use to parsers alone, so it is fetched
just before a parser is called. Bytes that were fetched never become part of a stored document: where a module returns
them unchanged, the reference takes their place again.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from pipestream.documents.references import DRIVE, blob_key, key_of_blob
from pipestream.errors import DocumentMissing, IdInvalid, RecordInvalid
from pipestream.graph.format import HYDRATION
from pipestream.graph.model import NO_HYDRATION, Graph, Hydration, Node
from pipestream.graph.wire_fields import message_values
from pipestream.modules.module import Module, ModuleContext, profile_of
from pipestream.wire import Blob, ChecksumType, FileStorageReference, PipeDoc, PipeStream

FetchMany = Callable[[Sequence[str]], Sequence[bytes | DocumentMissing]]
"""Returns the objects of some keys, side by side: ``ObjectStore.get_many``."""

_HASHES = {
    ChecksumType.CHECKSUM_TYPE_MD5: "md5",
    ChecksumType.CHECKSUM_TYPE_SHA1: "sha1",
    ChecksumType.CHECKSUM_TYPE_SHA256: "sha256",
    ChecksumType.CHECKSUM_TYPE_SHA512: "sha512",
}


class BlobSource:
    """Fetches blobs. It keeps those of one document per thread, for a chain of parsers that allows it."""

    def __init__(
        self, fetch_many: FetchMany, timed: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> None:
        """:param timed: measures the time of a fetch."""
        self._fetch_many = fetch_many
        self._timed = timed
        self._kept = threading.local()

    def fetch(self, keys: Sequence[str], *, keep: bool) -> list[bytes | DocumentMissing]:
        """Return the blobs of ``keys`` in their order, with an error in place of each that is not there.

        :raises StoreUnavailable, StoreRefused: no blob can be fetched at all.
        """
        known: dict[str, bytes] = getattr(self._kept, "blobs", {})
        missing = [key for key in dict.fromkeys(keys) if key not in known]
        found: dict[str, bytes | DocumentMissing] = {**known}
        if missing:
            with self._timed():
                found |= zip(missing, self._fetch_many(missing), strict=True)
        wanted = {key: found[key] for key in keys}
        self._kept.blobs = {key: data for key, data in wanted.items() if isinstance(data, bytes)} if keep else {}
        return [wanted[key] for key in keys]


@dataclass(frozen=True, slots=True)
class Hydrated:
    """A document as its module gets it, and what was fetched for it."""

    document: PipeDoc
    is_parser: bool = False
    fetched: tuple[tuple[FileStorageReference, bytes], ...] = ()


def hydration_of(stream: PipeStream, node: Node, graph: Graph) -> Hydration:
    """Return what becomes of blobs at a node: what the node says, else the stream, else the stream's datasource."""
    # By identity first, since every document passes here and nearly none has a rule.
    if node.hydration is not NO_HYDRATION and node.hydration != NO_HYDRATION:
        return node.hydration
    metadata = stream.metadata
    if metadata.HasField("ingestion_config") and metadata.ingestion_config.HasField("hydration_config"):
        return Hydration(**message_values(HYDRATION, metadata.ingestion_config.hydration_config))
    datasource = graph.datasource_by_id.get(metadata.datasource_id)
    return datasource.hydration if datasource else NO_HYDRATION


def hydrate(
    document: PipeDoc,
    account_id: str,
    rule: Hydration,
    node: Node,
    module: Module,
    context: ModuleContext,
    source: BlobSource | None,
) -> Hydrated:
    """Return a document as its module gets it: for a parser with its blobs inline.

    A module is asked what it is only if that makes a difference. Which blobs it gets is for its node alone to say: the
    policy of a stream or a datasource is about how blobs are stored, and a parser needs them however that is.

    :param source: where blobs come from; None: no module is really called, so nothing is fetched.
    :raises DocumentMissing: a blob is not there.
    :raises RecordInvalid: a reference leads elsewhere than to the blobs of the account, or the blob is not the one that
        the document describes.
    :raises StoreUnavailable, StoreRefused: the store cannot be read at all, so no document is to blame.
    :raises ModuleUnavailable: the module could not be asked.
    """
    wanted = [index for index, blob in enumerate(blobs_of(document)) if _is_wanted(blob, node.hydration)]
    if source is None or not (wanted or rule.drop_blobs_after_parse):
        return Hydrated(document)
    if not (node.parser or (node.hydration.policy != "on_demand" and profile_of(module, context).is_parser)):
        return Hydrated(document)
    if not wanted:
        return Hydrated(document, is_parser=True)
    full = PipeDoc()
    full.CopyFrom(document)
    blobs = [blobs_of(full)[index] for index in wanted]
    keys = [key_of_blob(blob, account_id) for blob in blobs]
    fetched = []
    found = source.fetch(keys, keep=rule.allow_inline_blobs_for_parser_chains)
    for blob, data in zip(blobs, found, strict=True):
        reference = FileStorageReference()
        reference.CopyFrom(blob.storage_ref)
        content = _checked(blob, data)
        if _is_too_large(len(content), node.hydration):
            continue
        blob.data = content
        fetched.append((reference, content))
    return Hydrated(full, is_parser=True, fetched=tuple(fetched))


def settle_blobs(documents: Sequence[PipeDoc], hydrated: Hydrated, rule: Hydration) -> Sequence[PipeDoc]:
    """Return the documents of a module's answer as they go on.

    A fetched blob that the module did not change is a reference again. Behind a parser, the content of all blobs is
    dropped where the rule says so; a blob's name, type and size stay.
    """
    drops = hydrated.is_parser and rule.drop_blobs_after_parse
    if not (drops or hydrated.fetched):
        return documents
    settled = []
    for document in documents:
        own = PipeDoc()
        own.CopyFrom(document)
        for blob in blobs_of(own):
            if drops:
                blob.ClearField("data")
                blob.ClearField("storage_ref")
            elif blob.WhichOneof("content") == "data":
                _put_reference_back(blob, hydrated)
        settled.append(own)
    return settled


def put_blobs_aside(stream: PipeStream, node: Node, graph: Graph) -> dict[str, bytes]:
    """Put references in place of a stream's large blobs, if its node keeps them so; return the objects to store.

    A name follows from the content, so a second try stores the same again. A document whose ids cannot be in a key
    keeps its blobs.
    """
    rule = hydration_of(stream, node, graph)
    if not rule.keep_blobs_as_ref or not stream.HasField("document"):
        return {}
    document, objects = stream.document, {}
    for blob in blobs_of(document):
        if blob.WhichOneof("content") != "data" or len(blob.data) <= max(rule.max_inline_blob_size_bytes, 0):
            continue
        checksum = hashlib.sha256(blob.data).hexdigest()
        try:
            key = blob_key(stream.metadata.account_id, stream.metadata.datasource_id, document.doc_id, checksum)
        except IdInvalid:
            continue
        objects[key] = blob.data
        blob.size_bytes = len(blob.data)
        blob.checksum, blob.checksum_type = checksum, ChecksumType.CHECKSUM_TYPE_SHA256
        blob.storage_ref.CopyFrom(FileStorageReference(drive_name=DRIVE, object_key=key))  # takes the data's place
    return objects


def blobs_of(document: PipeDoc) -> Sequence[Blob]:
    """Return the blobs of a document, whichever way it holds them."""
    bag = document.blob_bag
    kind = bag.WhichOneof("blob_data")
    if kind == "blob":
        return [bag.blob]
    return list(bag.blobs.blob) if kind else []


def _is_wanted(blob: Blob, rule: Hydration) -> bool:
    if blob.WhichOneof("content") != "storage_ref" or rule.policy == "always_ref":
        return False
    return not _is_too_large(blob.size_bytes, rule)


def _is_too_large(size_bytes: int, rule: Hydration) -> bool:
    limit = 0 if rule.policy == "always_inline" else rule.max_inline_blob_size_bytes
    return 0 < limit < size_bytes


def _checked(blob: Blob, data: bytes | DocumentMissing) -> bytes:
    if isinstance(data, DocumentMissing):
        raise DocumentMissing(f"blob {blob.blob_id!r} of the document: {data}")
    if blob.size_bytes not in (0, len(data)):
        raise RecordInvalid(
            f"blob {blob.blob_id!r}: {blob.storage_ref.object_key} has {len(data)} bytes, and the document says "
            f"{blob.size_bytes}"
        )
    algorithm = _HASHES.get(blob.checksum_type)
    if algorithm and blob.checksum and hashlib.new(algorithm, data, usedforsecurity=False).hexdigest() != blob.checksum:
        raise RecordInvalid(f"blob {blob.blob_id!r}: {blob.storage_ref.object_key} does not have the {algorithm} of it")
    return data


def _put_reference_back(blob: Blob, hydrated: Hydrated) -> None:
    """Compare contents, not names: a module may move a blob, or give it to several documents."""
    for reference, content in hydrated.fetched:
        if blob.data == content:
            blob.storage_ref.CopyFrom(reference)
            return
