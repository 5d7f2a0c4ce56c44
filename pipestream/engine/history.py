"""The history of a stream: one record per hop, and why it failed.

A record has the stream's id at that hop. A child of a fan-out begins with the history of its parent, so the last
record before its own has its parent's id.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable
from functools import lru_cache
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from pipestream.errors import ConditionError, ModuleFailed, PipestreamError, printable
from pipestream.modules.module import Answer, HopStatus
from pipestream.wire import ErrorData, LogEntry, PipeStream, StepExecutionRecord

if TYPE_CHECKING:
    from google.protobuf.timestamp_pb2 import Timestamp

    from pipestream.engine.process import Services
    from pipestream.graph.model import Graph, Node

# A history travels with its stream, in records that the broker limits. The end of a trace says most.
_TRACE_LIMIT = 4_000
_DETAILS_LIMIT = 4_000
_LOG_ENTRIES = 50
_LOG_MESSAGE_LIMIT = 500
# `pipestream graph history` finds a version by the first characters of its hash.
_HASH_LENGTH = 16


def this_instance() -> str:
    """Return the name of this process in histories: ``host:pid``."""
    return f"{_host()}:{os.getpid()}"


@lru_cache(maxsize=1)
def _host() -> str:
    return socket.gethostname()


def record_hop(
    stream: PipeStream, node: Node, graph: Graph, services: Services, started: float, answer: Answer
) -> PipeStream:
    """Return the stream as it leaves a node, still without a document."""
    done = PipeStream(
        stream_id=stream.stream_id,
        cluster_id=stream.cluster_id,
        current_node_id=stream.current_node_id,
        hop_count=stream.hop_count + 1,
        processing_path=[*stream.processing_path, node.node_id],
    )
    done.metadata.CopyFrom(stream.metadata)
    now = services.now()
    hop = _add_hop(done, stream, graph, services, answer.status, now)
    _set_time(hop.start_time, started)
    done.metadata.last_processed_at.CopyFrom(hop.end_time)
    if answer.status is HopStatus.PARTIAL:
        hop.error_info.error_code = answer.status
        hop.error_info.error_message = printable("; ".join(answer.problems))
        hop.error_info.originating_node_id = node.node_id
        hop.error_info.timestamp.CopyFrom(hop.end_time)
        if answer.details:
            hop.error_info.technical_details = json.dumps({"details": _bounded(answer.details)})
        hop.log_entries.extend(_first_entries(answer.log_entries))
    return done


def record_failure(
    failed: PipeStream, graph: Graph, services: Services, error: PipestreamError, attempts: int, started: float | None
) -> None:
    """Put the reason why a stream failed at its node into the stream, and the failed hop into its history.

    The history has the reason without trace and details, because it stays with the stream after a replay.
    """
    now = services.now()
    reason = ErrorData(
        error_message=printable(error),
        error_code=type(error).__name__,
        originating_node_id=failed.current_node_id,
    )
    _set_time(reason.timestamp, now)
    target = _attempted_target(graph, error)
    if target:
        reason.attempted_target_node_id = target
    hop = _add_hop(failed, failed, graph, services, HopStatus.FAILED, now)
    hop.hop_number = failed.hop_count + 1
    if started is not None:
        _set_time(hop.start_time, started)
    hop.error_info.CopyFrom(reason)
    if target:
        hop.attempted_target_node_id = target
    if isinstance(error, ModuleFailed):
        hop.log_entries.extend(_first_entries(error.log_entries))
    reason.technical_details = _technical_details(error, attempts)
    failed.metadata.stream_error.CopyFrom(reason)


class PassRecorder:
    """Records the hop of documents that pass a node as they are. It is for one thread.

    As ``record_hop`` does, but nothing is copied, and what is the same for all documents is written once.
    """

    def __init__(self, node: Node, graph: Graph, services: Services) -> None:
        self._added = PipeStream(current_node_id=node.node_id, processing_path=[node.node_id])
        self._hop = _add_hop(self._added, self._added, graph, services, HopStatus.SUCCESS, 0)
        self.last_processed_at = self._added.metadata.last_processed_at
        """Of what was recorded last."""
        self._times = self._hop.start_time, self._hop.end_time, self.last_processed_at

    def record(self, stream: PipeStream, now: float) -> PipeStream:
        """Return what a hop changes and adds in a stream that arrives at the node. It is valid until the next call.

        Merged into the stream, it makes the stream that leaves the node.
        """
        added, hop = self._added, self._hop
        hop.hop_number = added.hop_count = stream.hop_count + 1
        hop.stream_id = added.stream_id = stream.stream_id
        document_id = stream.document.doc_id
        if document_id:
            hop.document_id = document_id
        else:
            hop.ClearField("document_id")
        seconds, nanos = divmod(int(now * 1e9), 1_000_000_000)
        for timestamp in self._times:
            timestamp.seconds, timestamp.nanos = seconds, nanos
        return added


def _add_hop(
    to: PipeStream, at: PipeStream, graph: Graph, services: Services, status: HopStatus, now: float
) -> StepExecutionRecord:
    """Add a record to the history of ``to``, about the node and the document that ``at`` is at."""
    hop = to.metadata.history.add(
        hop_number=to.hop_count,
        node_id=at.current_node_id,
        service_instance_id=services.instance,
        status=status,
        graph_id=graph.graph_id,
        graph_hash=services.graph_hash[:_HASH_LENGTH],
        stream_id=at.stream_id,
    )
    _set_time(hop.end_time, now)
    document_id = at.document.doc_id or at.document_ref.doc_id
    if document_id:
        hop.document_id = document_id
    node = graph.node_by_id.get(at.current_node_id)
    if node is not None and node.module:
        hop.module_id = node.module
    return hop


def _set_time(timestamp: Timestamp, seconds: float) -> None:
    """Set a time after 1970. Twice as fast as the message's own methods, which check it first."""
    timestamp.seconds, timestamp.nanos = divmod(int(seconds * 1e9), 1_000_000_000)


def _attempted_target(graph: Graph, error: PipestreamError) -> str:
    if not isinstance(error, ConditionError):
        return ""
    return next((edge.to_node_id for edge in graph.edges if edge.edge_id == error.edge_id), "")


def _technical_details(error: PipestreamError, attempts: int) -> str:
    """Return what a person who looks for the cause needs, as JSON."""
    reported = error if isinstance(error, ModuleFailed) else ModuleFailed("")
    technical: dict[str, Any] = {
        "type": getattr(error, "error_type", "") or type(error.__cause__ or error).__name__,
        "message": printable(error),
        "attempts": attempts,
        "traceback": printable(reported.trace or "".join(format_exception(error)))[-_TRACE_LIMIT:],
    }
    if reported.details:
        technical["details"] = _bounded(reported.details)
    return json.dumps(technical, ensure_ascii=False)


def _bounded(details: Any) -> Any:
    """Return details as they are, or the start of their JSON where they are too long."""
    text = printable(json.dumps(details, ensure_ascii=False, default=str))
    return json.loads(text) if len(text) <= _DETAILS_LIMIT else text[:_DETAILS_LIMIT]


def _first_entries(entries: Iterable[LogEntry]) -> list[LogEntry]:
    entries = list(entries)
    kept = []
    for entry in entries[:_LOG_ENTRIES]:
        kept.append(LogEntry())
        kept[-1].CopyFrom(entry)
        kept[-1].message = entry.message[:_LOG_MESSAGE_LIMIT]
    if len(entries) > len(kept):
        kept.append(LogEntry(message=f"{len(entries) - len(kept)} more entries are left out"))
    return kept
