"""Who a document is: its id, its owner and its checksum, settled once when it is uploaded."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipestream.documents.blobs import detach_blobs, inline_limit
from pipestream.errors import IdInvalid
from pipestream.gen.ai.pipestream.data.v1 import pipeline_core_types_pb2 as wire
from pipestream.ids import check_key_part
from pipestream.wire import PipeDoc

if TYPE_CHECKING:
    from pipestream.graph.model import Datasource

_DOCUMENTS = uuid.UUID("0b1de3b5-1f0b-5a58-8f4c-6a0c6e2f7b0e")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document as it will be stored."""

    doc_id: str
    data: bytes
    checksum: str
    title: str
    mime_type: str
    connector_id: str = ""
    document_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What the caller says of it, for the catalogue only."""
    blobs: tuple[tuple[str, bytes], ...] = ()
    """Objects to store before the document, which refers to them: their keys and bytes."""
    traceparent: str = ""
    """The trace that its upload is part of; its intake record carries it on."""

    @property
    def size_bytes(self) -> int:
        return len(self.data)


def prepare(
    document: PipeDoc,
    datasource: Datasource,
    *,
    max_inline_bytes: int | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Prepared:
    """Return ``document`` as it will be stored for ``datasource``; the document itself is left as it is.

    The datasource decides whose document it is. An id that is not given is derived from where the document
    comes from, so that the next upload from there is the same document.

    :param max_inline_bytes: blobs that are larger become objects of their own; None: as the datasource says.
    :param metadata: what the catalogue keeps with it.
    :raises IdInvalid: the id cannot be used, or there is nothing to derive one from.
    """
    own = PipeDoc()
    own.CopyFrom(document)
    if own.doc_id:
        if not own.HasField("doc_id_derivation"):
            own.doc_id_derivation.method = wire.DOC_ID_DERIVATION_METHOD_CLIENT_PROVIDED
            own.doc_id_derivation.input = own.doc_id
    else:
        _derive_id(own, datasource)
    check_key_part(own.doc_id, "document id")
    own.ownership.account_id = check_key_part(datasource.account_id, "account id")
    own.ownership.datasource_id = datasource.datasource_id
    if datasource.connector is not None and not own.ownership.HasField("connector_id"):
        own.ownership.connector_id = datasource.connector.kind
    blobs = detach_blobs(own, datasource, inline_limit(datasource, max_inline_bytes))
    # Maps have no order of their own; without this the same document has several checksums.
    data = own.SerializeToString(deterministic=True)
    return Prepared(
        doc_id=own.doc_id,
        data=data,
        checksum=hashlib.sha256(data).hexdigest(),
        title=_column(own.search_metadata.title),
        mime_type=_column(own.search_metadata.mime_type or own.blob_bag.blob.mime_type),
        connector_id=_column(own.ownership.connector_id),
        document_type=_column(own.search_metadata.document_type),
        metadata={_column(name): _column(value) for name, value in (metadata or {}).items()},
        blobs=tuple(blobs),
    )


def _column(text: str) -> str:
    """Return text as PostgreSQL takes it, which knows no zero character, and short enough for a table."""
    return text.replace("\0", "")[:500]


def _derive_id(document: PipeDoc, datasource: Datasource) -> None:
    found = document.search_metadata
    if found.source_uri:
        method, source = wire.DOC_ID_DERIVATION_METHOD_SOURCE_URI, found.source_uri
    elif found.source_path:
        method, source = wire.DOC_ID_DERIVATION_METHOD_SOURCE_PATH, found.source_path
    else:
        raise IdInvalid(
            "a document has no doc_id, and neither search_metadata.source_uri nor source_path to derive one "
            "from; set one of them"
        )
    canonical = f"{datasource.account_id}/{datasource.datasource_id}/{source}"
    document.doc_id = str(uuid.uuid5(_DOCUMENTS, canonical))
    document.doc_id_derivation.method = method
    document.doc_id_derivation.input = source
    document.doc_id_derivation.canonical_input = canonical
