"""A stream as a message of actors: its id, its parent's and its way. Envelopes and reports of progress need it.

Stream ids stay derived. The id of the envelope is the stream's, until a fan-out names its documents ``ID-1``, ``ID-2``
and so on. These names travel in the stream's ``context_params``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipestream.modules.envelope import child_id
from pipestream.modules.module import EnvelopePlace

if TYPE_CHECKING:
    from pipestream.graph.model import Graph
    from pipestream.wire import PipeStream

ENVELOPE_ID = "envelope-id"
PARENT_ID = "envelope-parent-id"


def envelope_place(stream: PipeStream, graph: Graph) -> EnvelopePlace:
    """Return which message a stream is at its current node.

    Conditions decide the rest of the way later, so the actors behind the node are known only as long as there is one
    edge.
    """
    passed = [node_id for node_id in stream.processing_path if node_id]
    ahead = _only_way(stream.current_node_id, graph)
    return EnvelopePlace(
        id=envelope_id(stream), parent_id=_parent_id(stream), actors=(*passed, *ahead), current=len(passed)
    )


def envelope_id(stream: PipeStream) -> str:
    """Return the id of the message that a stream is."""
    return stream.metadata.context_params.get(ENVELOPE_ID) or stream.stream_id


def name_child(child: PipeStream, parent: PipeStream, index: int) -> None:
    """Name a document of a fan-out as actors do; the first keeps its parent's id."""
    if index:
        own = envelope_id(parent)
        child.metadata.context_params[ENVELOPE_ID] = child_id(own, index)
        child.metadata.context_params[PARENT_ID] = own


def is_named(stream: PipeStream) -> bool:
    """Tell whether a stream has an id of its own as a message."""
    return ENVELOPE_ID in stream.metadata.context_params


def forget_name(stream: PipeStream) -> None:
    """Let a branch be known by its stream id: two branches of one message must not have one id."""
    stream.metadata.context_params.pop(ENVELOPE_ID, None)
    stream.metadata.context_params.pop(PARENT_ID, None)


def _parent_id(stream: PipeStream) -> str:
    if parent := stream.metadata.context_params.get(PARENT_ID):
        return str(parent)
    history = stream.metadata.history
    before = history[-1].stream_id if history else ""
    return before if before and before != stream.stream_id else ""


def _only_way(node_id: str, graph: Graph) -> list[str]:
    way = [node_id]
    while len(edges := graph.edges_from.get(way[-1], ())) == 1 and not edges[0].is_cross_cluster:
        if edges[0].to_node_id in way:
            break
        way.append(edges[0].to_node_id)
    return way
