"""What a failed document looks like in a dead-letter topic.

The original key, bytes and headers, so that a replay is the same record again, and in further headers why it
failed and where it came from. The names starting with ``__connect.errors.`` are Kafka Connect's, so tools that
read its dead letters read ours.
"""

from __future__ import annotations

from datetime import UTC, datetime
from traceback import format_exception

from pipestream.errors import Concern, PipestreamError, printable
from pipestream.kafka.records import Headers, InputRecord, OutputRecord, header

CONNECT = "__connect.errors."
OWN = "pipestream.dead."
FIRST_FAILED_AT = OWN + "first-failed-at"
REPLAYS = OWN + "replays"
DATASOURCE = OWN + "datasource"
"""On a letter of an intake record, in a topic whose name does not say so: the datasource that a replay sends it to."""
ERROR_TYPE = OWN + "error-type"
"""The module's name of the error, where it gave one: a code such as INVALID_ARGUMENT, or the type of an exception."""
FOR_GRAPH = OWN + "for-graph"
"""On an intake record: the one graph it is for. That of a replayed record is the graph it failed in: others that drain
the same intake have had it already."""
# A message or a trace of any length would push a record over the broker's limit. The end of a trace says most.
_MESSAGE_LIMIT = 2_000
_TRACE_LIMIT = 4_000
_TYPE_LIMIT = 200


class DeadLettersOff(PipestreamError):
    """A document failed at a node without dead letters, so its range stops there."""

    concerns = Concern.RANGE

    def __init__(self, node_id: str, topic: str, partition: int, offset: int, cause: PipestreamError) -> None:
        self.node_id = node_id
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.transient = cause.transient
        super().__init__(
            f"{topic}[{partition}] offset {offset} failed at node {node_id}, whose dead_letters are not enabled, so "
            f"nothing behind it is drained: {printable(cause)}"
        )


def dead_letter(
    record: InputRecord,
    error: PipestreamError,
    *,
    topic: str,
    node_id: str,
    attempts: int,
    run_id: str,
    graph_id: str,
    graph_hash: str,
    now: float,
    module: str = "",
    datasource_id: str = "",
    value: bytes | None = None,
) -> OutputRecord:
    """Return the dead letter of a record.

    :param datasource_id: where the record came in, if the topic's name does not say that it is a letter of intake.
    :param value: what to keep instead of the record's own bytes: where the failure happened behind a fused edge and a
        replay must start there, or where a reference takes the document's place.
    """
    failed_at = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
    reasons = {
        CONNECT + "topic": record.topic,
        CONNECT + "partition": str(record.partition),
        CONNECT + "offset": str(record.offset),
        CONNECT + "connector.name": graph_id,
        CONNECT + "task.id": str(record.partition),
        CONNECT + "stage": node_id,
        CONNECT + "class.name": module,
        CONNECT + "exception.class.name": type(error).__name__,
        CONNECT + "exception.message": printable(error)[:_MESSAGE_LIMIT],
        CONNECT + "exception.stacktrace": printable("".join(format_exception(error)))[-_TRACE_LIMIT:],
        OWN + "attempts": str(attempts),
        OWN + "run": run_id,
        OWN + "graph": graph_id,
        OWN + "graph-hash": graph_hash,
        OWN + "failed-at": failed_at,
        FIRST_FAILED_AT: header(record.headers, FIRST_FAILED_AT) or failed_at,
        REPLAYS: header(record.headers, REPLAYS) or "0",
    }
    if error_type := getattr(error, "error_type", ""):
        reasons[ERROR_TYPE] = printable(error_type)[:_TYPE_LIMIT]
    if datasource_id:
        reasons[DATASOURCE] = datasource_id
    headers = (*original_headers(record.headers), *((name, text.encode()) for name, text in reasons.items()))
    return OutputRecord(topic, record.key, record.value if value is None else value, headers)


def original_headers(headers: Headers) -> Headers:
    """Return the headers a record had before it first failed."""
    return tuple((name, value) for name, value in headers if not name.startswith((CONNECT, OWN)))
