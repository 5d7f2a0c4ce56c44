"""Which slots are to be drained all the time: the applied graphs, and what the operator wants of their topics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pipestream.deployment.versions import ActiveGraph
from pipestream.drain.wanted import wanted_slots, why_not_streamed
from pipestream.errors import PipestreamError
from pipestream.graph.flow import topic_targets, why_not_drained
from pipestream.graph.model import Graph
from pipestream.leases.names import lease_name
from pipestream.leases.store import DesiredState, TopicMode
from pipestream.stream.shares import SlotKey

log = logging.getLogger(__name__)

_WITHOUT_LEASES = DesiredState(mode=TopicMode.STREAMING)


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """What is drained in a slot. A change of it starts the slot's stream again."""

    topic: str
    replicas: int
    """How many slots share the topic: the slot drains every so many-th partition."""
    graph_hash: str
    graph: Graph = field(compare=False, repr=False)


def find_wanted(
    graphs: Mapping[str, ActiveGraph],
    desired: Callable[[str], DesiredState],
    partitions: Mapping[str, int],
    *,
    has_leases: bool = True,
) -> dict[SlotKey, StreamSpec]:
    """Return every slot that is to be drained all the time, in the order of the graphs' ids and their topics.

    :param desired: what the operator wants of a topic.
    :param partitions: of the topics that exist. A slot beyond the partitions would have nothing to drain; a topic that
        does not exist has one slot, whose stream says that it is missing.
    :param has_leases: without leases nothing keeps modes and replicas, so every topic is drained, in one slot.
    """
    wanted: dict[SlotKey, StreamSpec] = {}
    for graph_id, active in sorted(graphs.items()):
        graph = active.built.graph
        for topic in topic_targets(graph):
            if why_not_drained(graph, topic):
                continue  # without asking about it
            state = _ask(desired, topic) if has_leases else _WITHOUT_LEASES
            if state is None or why_not_streamed(graph, topic, state):
                continue
            replicas = wanted_slots(graph, topic, state)
            for slot in range(min(replicas, partitions.get(topic, 1))):
                key = SlotKey(lease_name(topic, graph_id), slot)
                wanted[key] = StreamSpec(topic, replicas, active.built.digest, graph)
    return wanted


def _ask(desired: Callable[[str], DesiredState], topic: str) -> DesiredState | None:
    """Return what is wanted of a topic; None if nobody can read it, which is that topic's own problem."""
    try:
        return desired(topic)
    except PipestreamError as error:
        if error.transient:
            raise
        log.error("%s is not drained: %s", topic, error)
        return None
