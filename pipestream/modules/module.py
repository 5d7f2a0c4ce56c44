"""What a module is to the engine: one document in, documents out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipestream.wire import PipeDoc


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
    config: Mapping[str, Any] = field(default_factory=dict)
    config_params: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 300.0


class Module(Protocol):
    """A step that a node runs."""

    def process(self, document: PipeDoc, context: ModuleContext) -> Sequence[PipeDoc]:
        """Return what becomes of a document: one goes on, several fan out, none ends its route happily.

        :raises ModuleFailed: the module answered with an error.
        :raises ModuleUnavailable: it could not be reached, or ran out of time.
        """

    def close(self) -> None:
        """Give back connections and processes."""
