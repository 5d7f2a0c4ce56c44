"""Where a dead letter goes back to. Pure.

A letter holds the bytes that its node's own topic (or the datasource's intake topic) had, or would have had where
the document failed behind a fused edge. It goes back to the topic it came from if that one leads to the node it
failed at, else to another topic that leads there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pipestream.dead_letters.letter import DeadLetter
from pipestream.errors import IdInvalid, TerminalError
from pipestream.graph.flow import topic_targets
from pipestream.graph.model import Graph
from pipestream.topic_names import (
    INTAKE_CLUSTER,
    TopicKind,
    TopicName,
    intake_topic,
    is_intake,
    node_topic,
    parse_topic,
)


class NoWayBack(TerminalError):
    """No topic leads to the node a letter failed at. The letter stays open."""


class Destinations:
    """The topics that letters can go back to: by their graphs, or for letters that name no graph, by topic names."""

    def __init__(self, graphs: Sequence[Graph], topics: Collection[str]) -> None:
        """
        :param topics: the topics on the broker. A record sent to any other would start a topic nobody drains.
        """
        self._graphs = {graph.graph_id: graph for graph in graphs}
        self._targets = {graph.graph_id: topic_targets(graph) for graph in graphs}
        self._topics = frozenset(topics)

    def find(self, letter: DeadLetter) -> str:
        """Return the topic that a letter goes back to.

        :raises NoWayBack: there is none; the message says what would make one.
        """
        if letter.graph_id and letter.graph_id not in self._graphs:
            # The record is for this graph alone, and every other graph passes it over: it would be lost.
            raise NoWayBack(
                f"it failed in graph {letter.graph_id}, and only that graph takes it back; name the graph, or if it is "
                f"gone, upload the document again"
            )
        topic = self._choose(letter)
        if topic not in self._topics:
            raise NoWayBack(f"topic {topic} does not exist; apply the graph that needs it")
        return topic

    def _choose(self, letter: DeadLetter) -> str:
        if letter.datasource_id:
            # Unchecked: whatever a header says, only a topic that exists is a way back.
            return str(TopicName(TopicKind.INTAKE, "", letter.datasource_id))
        lies_in = _parse(letter.letter_id.topic)
        if lies_in and lies_in.kind is TopicKind.DEAD_LETTERS and lies_in.cluster_id == INTAKE_CLUSTER:
            return intake_topic(lies_in.local_id)
        if not letter.node_id:
            raise NoWayBack(f"nothing says at which node the letters of {letter.letter_id.topic} failed")
        graph = self._graph_of(letter, lies_in)
        return self._by_graph(letter, graph) if graph else _by_name(letter, lies_in)

    def _graph_of(self, letter: DeadLetter, lies_in: TopicName | None) -> Graph | None:
        if letter.graph_id:
            return self._graphs[letter.graph_id]
        if lies_in is None:
            return None
        of_cluster = [g for g in self._graphs.values() if g.cluster_id == lies_in.cluster_id]
        return next((graph for graph in of_cluster if letter.node_id in graph.node_by_id), None)

    def _by_graph(self, letter: DeadLetter, graph: Graph) -> str:
        node_id = letter.node_id
        if node_id not in graph.node_by_id:
            raise NoWayBack(f"graph {graph.graph_id} has no node {node_id} any more")
        leading = [topic for topic, target in self._targets[graph.graph_id].items() if target == node_id]
        # An intake topic makes a new stream of each record; a letter of a node's own is a stream already.
        leading = [topic for topic in leading if not is_intake(topic)]
        if not leading:
            raise NoWayBack(
                f"no topic leads to node {node_id} of graph {graph.graph_id} but the intake of its datasource, which "
                f"would start the document from the beginning; upload it again"
            )
        if letter.origin and letter.origin.topic in leading:
            return letter.origin.topic
        own = node_topic(graph.cluster_id, node_id)
        return own if own in leading else leading[0]


def _by_name(letter: DeadLetter, lies_in: TopicName | None) -> str:
    """Find the topic without the graph, by the names of topics, if they follow the convention."""
    origin = _parse(letter.origin.topic) if letter.origin else None
    if origin and origin.kind in (TopicKind.NODE, TopicKind.BRIDGE) and origin.local_id == letter.node_id:
        return str(origin)
    if lies_in is None or (letter.origin and origin is None):
        raise NoWayBack(f"the topics' names do not say what leads to node {letter.node_id}; name its graph")
    return node_topic(lies_in.cluster_id, letter.node_id)


def _parse(topic: str) -> TopicName | None:
    try:
        return parse_topic(topic)
    except IdInvalid:
        return None
