"""What a module is to the engine: one document in, documents out."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipestream.wire import LogEntry, PipeDoc


@dataclass(frozen=True, slots=True)
class ModuleContext:
    """What a module may know besides the document."""

    graph_id: str
    node_id: str
    stream_id: str
    hop: int = 1
    attempt: int = 1
    idempotency_key: str = ""
    """The same for every repeat of the same work: a crash may call a module twice for one document."""
    trace_id: str = ""
    """As whoever sent the document set it, for the logs of everyone who works on it."""
    config: Mapping[str, Any] = field(default_factory=dict)
    config_params: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 300.0


class HopStatus(StrEnum):
    """How a hop went, as a stream's history says it."""

    SUCCESS = "SUCCESS"
    PARTIAL = "PARTIAL"
    """The module could do only part of its work, and the document goes on."""
    SKIPPED = "SKIPPED"
    """A filter or the module passed the document over."""
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a module makes of a document, and what it says about it. The history keeps that of a partial result."""

    documents: Sequence[PipeDoc]
    status: HopStatus = HopStatus.SUCCESS
    problems: Sequence[str] = ()
    """What it could not do, for people."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """The same, for programs."""
    log_entries: Sequence[LogEntry] = ()


class Module(Protocol):
    """A step that a node runs."""

    def process(self, document: PipeDoc, context: ModuleContext) -> Sequence[PipeDoc] | Answer:
        """Return what becomes of a document: one is routed, several fan out, none ends its route happily.

        A module that has no more to say than its documents returns just them.

        :raises ModuleFailed: the module answered with an error.
        :raises ModuleUnavailable: it could not be reached, or ran out of time.
        """

    def close(self) -> None:
        """Give back connections and processes."""
