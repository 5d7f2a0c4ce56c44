"""Check whether the ledger is complete for a graph, by comparing the ledger with the broker."""

from __future__ import annotations

from dataclasses import dataclass

from pipestream.graph.flow import drained_topics
from pipestream.graph.model import Graph
from pipestream.kafka.broker import Broker
from pipestream.kafka.records import Watermarks
from pipestream.ledger import Entry, Ledger
from pipestream.ledger.check import Fault, find_faults
from pipestream.offsets.plan import count_lag


@dataclass(frozen=True, slots=True)
class TopicAudit:
    """A drained topic as broker and ledger see it."""

    topic: str
    node_id: str
    """The node its records enter."""
    watermarks: dict[int, Watermarks]
    heads: dict[int, int]
    entries: tuple[Entry, ...]
    faults: tuple[Fault, ...]

    @property
    def lag(self) -> int:
        """Return how many offsets wait, as ``count_lag`` counts them."""
        return count_lag(self.heads, self.watermarks)

    @property
    def dead_letters(self) -> int:
        """Dead letters written while this topic was drained."""
        return sum(entry.tally.dead_letters for entry in self.entries if entry.tally)


def audit_topic(broker: Broker, ledger: Ledger, graph: Graph, topic: str) -> TopicAudit:
    """Compare a topic's entries in the graph's live lane with what the broker holds.

    :raises TopicMissing: the topic is not there.
    """
    partitions = broker.identify(topic).partitions
    # The ledger is read first: what is drained in between then counts as waiting, never as a head past the end.
    heads = ledger.heads(graph.graph_id, topic, partitions)
    entries = ledger.entries(lane=graph.graph_id, topic=topic)
    watermarks = broker.watermarks(topic, partitions)
    faults = find_faults(topic, entries, heads, watermarks)
    node_id = next((each.node_id for each in drained_topics(graph) if each.topic == topic), "")
    return TopicAudit(topic, node_id, watermarks, heads, tuple(entries), tuple(faults))


def audit_graph(broker: Broker, ledger: Ledger, graph: Graph, topics: list[str] | None = None) -> list[TopicAudit]:
    """Audit the topics a graph drains, in the order of the graph, or those of them that are named."""
    drained = [each.topic for each in drained_topics(graph)]
    return [audit_topic(broker, ledger, graph, topic) for topic in drained if topics is None or topic in topics]
