"""A dead letter as a value, read from any record in a dead-letter topic.

Records of other tools may be there too. A value that is missing in the headers is taken from the record itself or from
its topic's name, or is empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Self

from google.protobuf.message import DecodeError

from pipestream.engine.dead_letter_record import CONNECT, DATASOURCE, FIRST_FAILED_AT, OWN, REPLAYS
from pipestream.errors import IdInvalid
from pipestream.kafka.records import InputRecord, header
from pipestream.topic_names import INTAKE_CLUSTER, TopicKind, parse_topic
from pipestream.wire import PipeStream

# A producer may give a record any time, and a header any number. Python knows no later time, and the wire has no more
# digits: numbers of 32 bits, and of 64 bits for offsets.
_LATEST_MS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) * 1000
_MOST_DIGITS, _MOST_DIGITS_OF_OFFSETS = 9, 18


class State(Enum):
    """What has been decided about a dead letter."""

    OPEN = "open"
    """Nothing yet."""
    RELEASED = "released"
    """Taken out of quarantine (or un-purged) by a person: open again, and the cap on replays does not hold."""
    REPLAYED = "replayed"
    QUARANTINED = "quarantined"
    PURGED = "purged"


OPEN_STATES = frozenset({State.OPEN, State.RELEASED})
"""The states of letters that wait for somebody."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The latest decision about a letter: by which action, and when."""

    state: State
    action_id: str
    decided_at: datetime


@dataclass(frozen=True, slots=True, order=True)
class LetterId:
    """Where a letter is. Kafka never moves a record, so this id never changes."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``TOPIC/PARTITION/OFFSET``.

        :raises IdInvalid: it is not of that form.
        """
        topic, *numbers = text.split("/")
        if not topic or len(numbers) != 2 or not all(n.isascii() and n.isdigit() for n in numbers):
            raise IdInvalid(f"{text!r} is not a dead letter: expected TOPIC/PARTITION/OFFSET, as `dlq list` shows it")
        return cls(topic, int(numbers[0]), int(numbers[1]))


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the record was that failed. Numbers that another tool left out are None."""

    topic: str
    partition: int | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter: what failed, where, why and how often."""

    letter_id: LetterId
    time: datetime
    """When Kafka took it."""
    doc_id: str
    """The document's id; the record's key if the value is not a PipeStream."""
    error_kind: str
    message: str
    node_id: str
    """The node it failed at; empty where neither a header nor the topic's name says."""
    origin: Origin | None
    attempts: int
    run_id: str
    graph_id: str
    graph_hash: str
    first_failed_at: datetime
    failed_at: datetime
    replays: int
    record: InputRecord = field(repr=False)
    datasource_id: str = ""
    """Where its record came in, if it is of intake and its topic's name does not say so."""
    decision: Decision | None = None

    @property
    def state(self) -> State:
        return self.decision.state if self.decision else State.OPEN

    @property
    def is_quarantined(self) -> bool:
        return self.state is State.QUARANTINED


def read_letter(record: InputRecord, decision: Decision | None = None) -> DeadLetter:
    """Return a record as a dead letter. Never fails: a dead-letter topic may hold anything."""
    headers = record.headers
    time = datetime.fromtimestamp(min(max(0, record.timestamp_ms), _LATEST_MS) / 1000, UTC)
    failed_at = _time(header(headers, OWN + "failed-at")) or time
    return DeadLetter(
        letter_id=LetterId(record.topic, record.partition, record.offset),
        time=time,
        doc_id=_doc_id(record),
        error_kind=header(headers, CONNECT + "exception.class.name") or "",
        message=header(headers, CONNECT + "exception.message") or "",
        node_id=_node_id(record),
        origin=_origin(record),
        attempts=_number(header(headers, OWN + "attempts")) or 0,
        run_id=header(headers, OWN + "run") or "",
        graph_id=header(headers, OWN + "graph") or "",
        graph_hash=header(headers, OWN + "graph-hash") or "",
        first_failed_at=_time(header(headers, FIRST_FAILED_AT)) or failed_at,
        failed_at=failed_at,
        replays=_number(header(headers, REPLAYS)) or 0,
        record=record,
        datasource_id=header(headers, DATASOURCE) or "",
        decision=decision,
    )


def stream_of(record: InputRecord) -> PipeStream | None:
    """Return the stream in a record's value, or None if the value is not one that says anything."""
    if not record.value:
        return None
    try:
        stream = PipeStream.FromString(record.value)
    except DecodeError:
        return None
    # Many foreign bytes parse as a message of unknown fields; without a payload it is not our stream.
    return stream if stream.WhichOneof("document_payload") else None


def _doc_id(record: InputRecord) -> str:
    stream = stream_of(record)
    found = (stream.document_ref.doc_id or stream.document.doc_id) if stream else ""
    return found or (record.key or b"").decode("utf-8", "replace")


def _node_id(record: InputRecord) -> str:
    # Kafka Connect's stages are upper-case words such as VALUE_CONVERTER, which do not name a node. A tool of
    # that kind does not write our own headers.
    stage = header(record.headers, CONNECT + "stage")
    if stage and header(record.headers, OWN + "graph"):
        return stage
    try:
        name = parse_topic(record.topic)
    except IdInvalid:
        return stage or ""
    if name.kind is TopicKind.DEAD_LETTERS and name.cluster_id != INTAKE_CLUSTER:
        return name.local_id
    return stage or ""


def _origin(record: InputRecord) -> Origin | None:
    topic = header(record.headers, CONNECT + "topic")
    if not topic:
        return None
    partition = _number(header(record.headers, CONNECT + "partition"))
    return Origin(topic, partition, _number(header(record.headers, CONNECT + "offset"), _MOST_DIGITS_OF_OFFSETS))


def _number(text: str | None, most_digits: int = _MOST_DIGITS) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= most_digits else None


def _time(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text or "")
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
