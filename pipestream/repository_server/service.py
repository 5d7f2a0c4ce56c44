"""``PipeDocService``: save, get, list and delete documents over gRPC.

The id of a stored document, ``node_id``, is ``ACCOUNT/DATASOURCE/DOCUMENT``.
"""

# ruff: noqa: N802 - methods have the names of the protocol
from __future__ import annotations

import base64
import binascii
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipestream.documents.references import DRIVE, DocumentPlace, key_of_blob, place_of
from pipestream.errors import DocumentMissing, RecordInvalid, RecordTooLarge, RequestInvalid
from pipestream.gen.ai.pipestream.repository.pipedoc.v1 import pipedoc_service_pb2 as pb
from pipestream.gen.ai.pipestream.repository.pipedoc.v1 import pipedoc_service_pb2_grpc as services
from pipestream.graph.model import Datasource
from pipestream.ids import check_graph_id, check_key_part
from pipestream.telemetry.tracing import TRACEPARENT
from pipestream.wire import Blob, PipeStream

if TYPE_CHECKING:
    from pipestream.documents.catalogue import Catalogued, Recorded
    from pipestream.repository_server.desk import Desk

_DEFAULT_PAGE = 100
_LARGEST_PAGE = 1_000


class PipeDocServicer(services.PipeDocServiceServicer):
    """Answers the calls. What it raises becomes a status at the gate."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def SavePipeDoc(self, request: pb.SavePipeDocRequest, context: Any) -> pb.SavePipeDocResponse:
        trace = dict(context.invocation_metadata() or ()).get(TRACEPARENT, "")
        recorded = await self._desk.run(self._save, request, trace)
        row = recorded.row
        return pb.SavePipeDocResponse(
            node_id=_node_id(row),
            drive=DRIVE,
            s3_key=row.object_key,
            size_bytes=row.size_bytes,
            checksum=row.checksum,
            created_at_epoch_ms=_epoch_ms(row.created_at),
        )

    async def GetPipeDoc(self, request: pb.GetPipeDocRequest, _context: Any) -> pb.GetPipeDocResponse:
        def get() -> pb.GetPipeDocResponse:
            row = self._desk.find(*_parse_node_id(request.node_id))
            document, size_bytes = self._read(DocumentPlace(row.object_key))
            return pb.GetPipeDocResponse(
                pipedoc=document,
                node_id=request.node_id,
                drive=DRIVE,
                size_bytes=size_bytes,
                retrieved_at_epoch_ms=_now_ms(),
            )

        return await self._desk.run(get)

    async def GetPipeDocByReference(
        self, request: pb.GetPipeDocByReferenceRequest, _context: Any
    ) -> pb.GetPipeDocByReferenceResponse:
        def get() -> pb.GetPipeDocByReferenceResponse:
            place, node_id = self._find_by_reference(request)
            document, size_bytes = self._read(place)
            return pb.GetPipeDocByReferenceResponse(
                pipedoc=document,
                node_id=node_id,
                drive=DRIVE,
                size_bytes=size_bytes,
                retrieved_at_epoch_ms=_now_ms(),
            )

        return await self._desk.run(get)

    async def DeletePipeDoc(self, request: pb.DeletePipeDocRequest, _context: Any) -> pb.DeletePipeDocResponse:
        if request.WhichOneof("command") is None:
            raise RequestInvalid("the request has no command; set logical_document")
        named = request.logical_document
        place = (
            check_key_part(named.account_id, "account id"),
            check_graph_id(named.datasource_id, "datasource id"),
            check_key_part(named.doc_id, "document id"),
        )

        def delete() -> tuple[bool, int]:
            return self._desk.delete(*place, purge=request.purge_storage)

        was_there, objects = await self._desk.run(delete)
        is_removed = was_there or bool(objects)
        answer = pb.DeletePipeDocResponse(
            outcome=pb.DELETE_PIPE_DOC_OUTCOME_REMOVED if is_removed else pb.DELETE_PIPE_DOC_OUTCOME_NOTHING_TO_REMOVE,
            pipedocs_removed=int(was_there),
            message=f"{objects} objects deleted" if is_removed else "there is no such document",
        )
        if is_removed and not request.omit_removed_nodes:
            answer.removed_nodes.add(node_id="/".join(place))
        return answer

    async def ListPipeDocs(self, request: pb.ListPipeDocsRequest, _context: Any) -> pb.ListPipeDocsResponse:
        _check_drive(request.drive)
        if not 0 <= request.limit <= _LARGEST_PAGE:
            raise RequestInvalid(f"limit is {request.limit}; give 1 to {_LARGEST_PAGE}, or 0 for {_DEFAULT_PAGE}")
        limit = request.limit or _DEFAULT_PAGE
        after = _parse_token(request.continuation_token)
        rows, total = await self._desk.run(self._desk.uploads.catalogue.page, request.connector_id, after, limit)
        answer = pb.ListPipeDocsResponse(total_count=min(total, 2**31 - 1))
        answer.pipedocs.extend(_metadata(row) for row in rows)
        if len(rows) == limit:
            answer.next_continuation_token = base64.urlsafe_b64encode(_node_id(rows[-1]).encode()).decode()
        return answer

    async def GetBlob(self, request: pb.GetBlobRequest, _context: Any) -> pb.GetBlobResponse:
        def get() -> pb.GetBlobResponse:
            reference = request.storage_ref
            if reference.version_id:
                raise RequestInvalid(
                    "storage_ref.version_id is set; objects have no versions, their keys name the content"
                )
            account_id = reference.object_key.split("/")[1] if reference.object_key.count("/") > 1 else ""
            data = self._desk.uploads.store.get(key_of_blob(Blob(storage_ref=reference), account_id))
            self._check_size(reference.object_key, len(data))
            return pb.GetBlobResponse(data=data, size_bytes=len(data), retrieved_at_epoch_ms=_now_ms())

        return await self._desk.run(get)

    def _save(self, request: pb.SavePipeDocRequest, trace: str) -> Recorded:
        _check_drive(request.drive)
        if not request.HasField("pipedoc"):
            raise RequestInvalid("the request has no pipedoc")
        if request.graph_id and not self._desk.datasources.has_graph(request.graph_id):
            raise DocumentMissing(f"no graph {request.graph_id!r} is applied")
        document = request.pipedoc
        owner = document.ownership
        if request.connector_id:
            owner.connector_id = request.connector_id
        location = request.graph_location_id
        datasource = self._desk.require(owner.datasource_id)
        if owner.account_id not in ("", datasource.account_id):
            raise RecordInvalid(
                f"the document belongs to account {owner.account_id!r}, but datasource {datasource.datasource_id} to "
                f"{datasource.account_id!r}"
            )
        if not location:
            return self._desk.take_in(self._desk.prepare(document, datasource, request.metadata), datasource, trace)
        at_node = _located(datasource, location)
        if self._desk.datasources.find(location) is not None:
            raise RequestInvalid(f"graph_location_id {location!r} is a datasource; set use_datasource_id")
        return self._desk.keep(self._desk.prepare(document, at_node, request.metadata), at_node)

    def _find_by_reference(self, request: pb.GetPipeDocByReferenceRequest) -> tuple[DocumentPlace, str]:
        """Return where the document is that a reference means, and its node_id."""
        if not request.HasField("document_ref"):
            raise RequestInvalid("the request has no document_ref")
        reference = request.document_ref
        if reference.object_key:
            return place_of(PipeStream(document_ref=reference)), ""
        if not (reference.account_id and reference.source_node_id and reference.doc_id):
            raise RequestInvalid("document_ref needs object_key, or account_id, source_node_id and doc_id")
        row = self._desk.find(reference.account_id, reference.source_node_id, reference.doc_id)
        return DocumentPlace(row.object_key), _node_id(row)

    def _read(self, place: DocumentPlace) -> tuple[Any, int]:
        document, size_bytes = self._desk.read(place)
        self._check_size(str(place), size_bytes)
        return document, size_bytes

    def _check_size(self, key: str, size_bytes: int) -> None:
        limit = self._desk.settings.grpc_max_message_bytes - 1024  # for the rest of the answer
        if size_bytes > limit:
            raise AnswerTooLarge(key, size_bytes, limit)


class AnswerTooLarge(RecordTooLarge):
    """A stored object is larger than an answer may be."""

    def __init__(self, key: str, size_bytes: int, limit_bytes: int) -> None:
        self.key = key
        Exception.__init__(
            self, f"{key} has {size_bytes} bytes, and an answer up to {limit_bytes}; raise grpc_max_message_bytes"
        )


def _located(datasource: Datasource, node_id: str) -> Datasource:
    """Return what stands for a place in a graph: the same account and rules, under the name of the node."""
    return replace(datasource, datasource_id=check_graph_id(node_id, "graph_location_id"))


def _check_drive(drive: str) -> None:
    if drive not in ("", DRIVE):
        raise DocumentMissing(f"there is no drive {drive!r}; the only one is {DRIVE!r}")


def _node_id(row: Catalogued) -> str:
    return f"{row.account_id}/{row.datasource_id}/{row.doc_id}"


def _parse_node_id(node_id: str) -> tuple[str, str, str]:
    parts = node_id.split("/")
    if len(parts) != 3:
        raise RequestInvalid(f"node_id {node_id[:200]!r} is not ACCOUNT/DATASOURCE/DOCUMENT")
    return (
        check_key_part(parts[0], "account id"),
        check_graph_id(parts[1], "datasource id"),
        check_key_part(parts[2], "document id"),
    )


def _parse_token(token: str) -> tuple[str, str, str]:
    if not token:
        return "", "", ""
    try:
        return _parse_node_id(base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode())
    except (binascii.Error, UnicodeError):
        raise RequestInvalid("continuation_token is not one of this server") from None


def _metadata(row: Catalogued) -> pb.PipeDocMetadata:
    return pb.PipeDocMetadata(
        node_id=_node_id(row),
        doc_id=row.doc_id,
        drive=DRIVE,
        connector_id=row.connector_id,
        size_bytes=row.size_bytes,
        created_at_epoch_ms=_epoch_ms(row.created_at),
        metadata=dict(row.metadata),
        title=row.title,
        document_type=row.document_type,
    )


def _epoch_ms(moment: Any) -> int:
    return int(moment.timestamp() * 1000) if moment is not None else 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
