"""What a module is to the engine: one document in, documents out."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipestream.wire import ErrorData, LogEntry, PipeDoc


@dataclass(frozen=True, slots=True)
class ModuleContext:
    """What a module gets in addition to the document."""

    graph_id: str
    node_id: str
    stream_id: str
    hop: int = 1
    attempt: int = 1
    idempotency_key: str = ""
    """The same for every repeat of the same work: a crash may call a module twice for one document."""
    trace_id: str = ""
    """Set by the sender of the document, for the logs of everything that works on it."""
    config: Mapping[str, Any] = field(default_factory=dict)
    config_params: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 300.0
    """How long this call may take: the node's timeout, or what is left of the stream's time budget if that is less."""
    wait_s: float = 0.0
    """How long the call may be held back before it begins, while the module is known to be down."""
    deadline: float | None = None
    """When the stream's time budget ends, by ``time.monotonic``; None: it has none."""
    protocol: str = "payload"
    """What is sent to a module behind a socket: ``payload`` or ``envelope``."""
    envelope: EnvelopePlace | None = None
    """The id and the way of the document as a message; set where the protocol is ``envelope``."""
    stream_error: ErrorData | None = None
    """Why the document failed before; set at the error-end."""


@dataclass(frozen=True, slots=True)
class EnvelopePlace:
    """Which message a document is, and where it is on its way."""

    id: str
    parent_id: str
    actors: tuple[str, ...]
    """The nodes that it has passed, this one, and those behind it as long as there is one way only."""
    current: int


@dataclass(frozen=True, slots=True)
class ModuleProfile:
    """What a module says about itself: a gRPC service in its registration, a function by ``declare_module``."""

    is_parser: bool = False
    """Whether it reads blobs. Those that are stored by reference are fetched for a parser, and for nobody else."""
    config_schema: Mapping[str, Any] | None = None
    """JSON Schema of a node's ``config``; None: anything is accepted."""
    name: str = ""
    version: str = ""
    description: str = ""
    problem: str = ""
    """What cannot be used of what it says."""
    is_concurrent: bool = False
    """Whether a Python function may be called for several documents at once, from different threads."""


class HopStatus(StrEnum):
    """How a hop ended, as recorded in a stream's history."""

    SUCCESS = "SUCCESS"
    PARTIAL = "PARTIAL"
    """The module could do only part of its work, and the document continues."""
    SKIPPED = "SKIPPED"
    """A filter or the module skipped the document."""
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Answer:
    """A module's documents, and its message about them. The history keeps the message of a partial result."""

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
        """Return the resulting documents: one is routed, several fan out, none ends the route successfully.

        A module without a message may return just the documents.

        :raises ModuleFailed: the module answered with an error.
        :raises ModuleUnavailable: it could not be reached, or ran out of time.
        """

    def close(self) -> None:
        """Close connections and end processes."""


@runtime_checkable
class ProfiledModule(Protocol):
    """A module that says more about itself. A module kind without this method has an empty profile."""

    def profile(self, context: ModuleContext | None = None) -> ModuleProfile:
        """Return what the module says about itself.

        :param context: of the call that depends on it; None: it is asked outside of a call.
        :raises ModuleUnavailable: it could not be asked.
        """


def profile_of(module: Module, context: ModuleContext | None = None) -> ModuleProfile:
    """Return what a module says about itself; an empty profile if its kind has none.

    :param context: of the call that depends on it; None: it is asked outside of a call.
    :raises ModuleUnavailable: it could not be asked.
    """
    return module.profile(context) if isinstance(module, ProfiledModule) else ModuleProfile()
