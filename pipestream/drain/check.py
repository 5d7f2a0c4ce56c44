"""A cheap look at a topic, before anything as heavy as Spark is started."""

from __future__ import annotations

from pipestream.drain.broker import Broker
from pipestream.graph.model import Graph
from pipestream.ledger import Ledger
from pipestream.settings import Settings


def pending(settings: Settings, graph: Graph, topic: str) -> int:
    """Return how many offsets wait in a topic for a graph's everyday runs, or are done and not yet entered.

    Counted from the ledger's head, so that a range which a dead run left behind is not "nothing to do".

    :raises TopicMissing: there is no such topic.
    """
    broker = Broker(settings)
    partitions = broker.identify(topic).partitions
    heads = Ledger(settings).heads(graph.graph_id, topic, partitions)
    marks = broker.settled_watermarks(topic, partitions)
    # Kafka may have forgotten offsets below the low watermark; what is gone does not wait.
    return sum(mark.high - min(heads.get(p, mark.low), mark.high) for p, mark in marks.items())
