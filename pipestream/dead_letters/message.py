"""A dead letter for a person to read, and as the wire's own message."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf.json_format import MessageToDict

from pipestream.dead_letters.letter import DeadLetter, stream_of
from pipestream.wire import DlqMessage, PipeStream


def to_dlq_message(letter: DeadLetter, *, with_body: bool = True) -> DlqMessage:
    """Return a letter as the wire's ``DlqMessage``. It has no stream if the value is not one.

    :param with_body: whether the stream's document keeps its text and blobs.
    """
    message = DlqMessage(
        error_type=letter.error_kind,
        error_message=letter.message,
        # The first try is not a retry. A letter of another tool does not say how often it was tried.
        retry_count=max(0, letter.attempts - 1),
        failed_node_id=letter.node_id,
        dlq_reprocess_count=letter.replays,
        quarantined=letter.is_quarantined,
    )
    message.failed_at.FromDatetime(letter.failed_at)
    stream = stream_of(letter.record)
    if stream is not None:
        message.stream.CopyFrom(stream if with_body else _without_body(stream))
    if letter.origin:
        message.original_topic = letter.origin.topic
        message.original_partition = letter.origin.partition or 0
        message.original_offset = letter.origin.offset or 0
    if letter.is_quarantined and letter.decision:
        message.quarantined_at.FromDatetime(letter.decision.decided_at)
    return message


def summarize(letter: DeadLetter) -> dict[str, Any]:
    """Return the values that a list shows for a letter, with the keys of ``--json``."""
    return {
        "id": str(letter.letter_id),
        "state": letter.state.value,
        "doc_id": letter.doc_id,
        "node": letter.node_id,
        "error": letter.error_kind,
        "message": letter.message,
        "failed_at": letter.failed_at,
        "first_failed_at": letter.first_failed_at,
        "attempts": letter.attempts,
        "replays": letter.replays,
        "origin": letter.origin,
        "run_id": letter.run_id,
        "graph_id": letter.graph_id,
        "graph_hash": letter.graph_hash,
        "size_bytes": len(letter.record.value or b""),
        "decided_by": letter.decision.action_id if letter.decision else None,
        "decided_at": letter.decision.decided_at if letter.decision else None,
    }


def describe(letter: DeadLetter, *, with_body: bool = False) -> dict[str, Any]:
    """Return everything about a letter: summary, key, headers and the decoded stream, without its text and blobs."""
    stream = stream_of(letter.record)
    if stream is not None and not with_body:
        stream = _without_body(stream)
    return {
        **summarize(letter),
        "time": letter.time,
        "key": _text(letter.record.key),
        "headers": [[name, _text(value)] for name, value in letter.record.headers],
        "stream": MessageToDict(stream, preserving_proto_field_name=True) if stream is not None else None,
    }


def _without_body(stream: PipeStream) -> PipeStream:
    if not stream.HasField("document"):
        return stream
    lean = PipeStream()
    lean.CopyFrom(stream)
    for name in ("blob_bag", "structured_data", "parsed_metadata"):
        lean.document.ClearField(name)
    if lean.document.HasField("search_metadata"):
        lean.document.search_metadata.ClearField("body")
    return lean


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode()
