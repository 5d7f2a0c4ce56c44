"""What the graph and the operator together want of a topic: whether it is drained, in which mode, in how many slots."""

from __future__ import annotations

from pipestream.graph.flow import topic_targets, why_not_drained
from pipestream.graph.model import Graph
from pipestream.leases.store import DesiredState, TopicMode


def why_not_in_batches(graph: Graph, topic: str, desired: DesiredState, *, is_live: bool) -> str:
    """Return why no run drains a topic, whatever waits in it; empty if one may.

    A topic that streams is not for the live runs; a backfill has a lane of its own, which nothing streams.
    """
    if reason := _why_not_at_all(graph, topic, desired):
        return reason
    if is_live and desired.mode is TopicMode.STREAMING:
        return (
            f"{topic} is in streaming mode, so batch runs leave it to a streaming drain or a sidecar: "
            f"`pipestream leases set {topic} --mode batch`"
        )
    return ""


def why_not_streamed(graph: Graph, topic: str, desired: DesiredState) -> str:
    """Return why a topic is not drained all the time; empty if it is."""
    if reason := _why_not_at_all(graph, topic, desired):
        return reason
    if desired.mode is not TopicMode.STREAMING:
        return f"{topic} is in batch mode: `pipestream leases set {topic} --mode streaming`"
    return ""


def wanted_slots(graph: Graph, topic: str, desired: DesiredState) -> int:
    """Return in how many slots a topic is drained: one where order across partitions takes one reader of them all."""
    return 1 if graph.node_by_id[topic_targets(graph)[topic]].is_ordered else desired.replicas


def _why_not_at_all(graph: Graph, topic: str, desired: DesiredState) -> str:
    """The graph's file decides first, then the operator."""
    if reason := why_not_drained(graph, topic):
        return reason
    return "" if desired.started else f"{topic} is stopped: `pipestream leases set {topic} --started`"
