"""Follow one document through a whole graph, and return every place where it ends.

A drain follows a document only within one task. Here the edges by Kafka are followed as well, in this process: nothing
is published, stored or committed. Modules on the way are called. Two kinds are not: the module of an end, which routes
nothing and often writes to another system, and a node in a remote engine, which would send the document on.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pipestream.engine.follow import process_with_retries
from pipestream.engine.process import Emission, Outcome
from pipestream.graph.flow import Way, destination_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipestream.engine.process import Services
    from pipestream.graph.model import Graph
    from pipestream.settings import Settings
    from pipestream.wire import PipeDoc, PipeStream

MAX_STEPS: Final = 200
"""The most nodes that one record's documents pass. Branches multiply."""


class Ending(StrEnum):
    """Why a document is followed no further."""

    HAPPY_END = "happy end"
    """No edge matched, or its module returned no document."""
    END = "end"
    """It reached an end of the graph."""
    ERROR_END = "error end"
    DEAD_LETTER = "dead letter"
    REMOTE_ENGINE = "remote engine"
    OTHER_CLUSTER = "other cluster"
    CUT = "not followed further"


FAILED = (Ending.ERROR_END, Ending.DEAD_LETTER)
_ENDINGS = {
    Outcome.HAPPY_END: Ending.HAPPY_END,
    Outcome.ERROR_END: Ending.ERROR_END,
    Outcome.DEAD_LETTER: Ending.DEAD_LETTER,
}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One place where a document of the record ends."""

    edges: tuple[str, ...]
    """The edges that it took, in order."""
    ending: Ending
    node_id: str
    """The end that it reached, or the node that it got no further than."""
    error: str
    document: PipeDoc


@dataclass(frozen=True, slots=True)
class Route:
    """Where the documents of one record went."""

    leaves: tuple[Leaf, ...]
    taken: Counter[str]
    """How many documents took each edge."""
    decided: Counter[str]
    """How many documents the conditions of each node decided on."""


def follow_to_the_end(
    stream: PipeStream,
    graph: Graph,
    services: Services,
    settings: Settings,
    sleep: Callable[[float], None],
    deadline: float | None = None,
) -> Route:
    """Return the route of a stream from its node on. The stream is changed.

    :param deadline: when to stop, by ``time.monotonic``.
    :raises ModuleDown: a module does not answer.
    :raises TimeBudgetSpent: the deadline has passed.
    """
    leaves: list[Leaf] = []
    taken: Counter[str] = Counter()
    decided: Counter[str] = Counter()
    waiting: deque[tuple[PipeStream, tuple[str, ...]]] = deque([(stream, ())])
    steps = 0
    while waiting:
        current, edges = waiting.popleft()
        if stopped := _why_stopped(current, graph, steps):
            leaves.append(Leaf(edges, stopped, current.current_node_id, "", current.document))
            continue
        steps += 1
        for emission in process_with_retries(current, graph, services, settings, sleep, deadline):
            decided[emission.node_id] += emission.is_decided
            if emission.edge is None:
                leaves.append(_leaf(emission, edges))
                continue
            taken[emission.edge.edge_id] += 1
            onward = (*edges, emission.edge.edge_id)
            if destination_of(emission.edge, graph).way is Way.BRIDGE:
                leaves.append(Leaf(onward, Ending.OTHER_CLUSTER, emission.to_node_id, "", emission.stream.document))
            else:
                waiting.append((emission.stream, onward))
    return Route(tuple(leaves), taken, decided)


def _why_stopped(stream: PipeStream, graph: Graph, steps: int) -> Ending | None:
    """Return why a stream is not processed at its node; None: it is."""
    node = graph.node_by_id.get(stream.current_node_id)
    if node is None:
        return None  # processing it says so
    if node.is_end:
        return Ending.END
    if node.engine:
        return Ending.REMOTE_ENGINE
    return Ending.CUT if steps >= MAX_STEPS else None


def _leaf(emission: Emission, edges: tuple[str, ...]) -> Leaf:
    ending = _ENDINGS[emission.outcome]
    node_id = emission.to_node_id if ending is Ending.HAPPY_END else emission.node_id
    return Leaf(edges, ending, node_id, str(emission.error or ""), emission.stream.document)
