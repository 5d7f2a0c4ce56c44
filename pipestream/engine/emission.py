"""What a node's work comes to: where a stream goes next, and in which state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pipestream.errors import PipestreamError
from pipestream.graph.model import Edge
from pipestream.wire import PipeStream

HAPPY = "happy-end"
ERROR = "error-end"
"""The names under which documents that ended are counted, whatever the graph calls its end nodes."""


class Outcome(Enum):
    """Which way a stream leaves a node."""

    EDGE = "edge"
    HAPPY_END = HAPPY
    ERROR_END = ERROR
    DEAD_LETTER = "dead-letter"
    HANDED_OVER = "handed-over"
    """A remote engine has taken it; there is nothing to send."""


@dataclass(frozen=True, slots=True)
class Emission:
    """A stream that leaves a node. Its document is inline; whoever sends it may store it and send a reference."""

    outcome: Outcome
    stream: PipeStream
    node_id: str
    """The node it leaves."""
    to_node_id: str = ""
    edge: Edge | None = None
    error: PipestreamError | None = None
    attempts: int = 1

    @property
    def counted_as(self) -> str:
        """Return the name under which the ledger counts it."""
        return self.edge.edge_id if self.edge else self.outcome.value
