"""A cheap look at a topic, before anything as heavy as Spark is started."""

from __future__ import annotations

from pipestream.errors import TopicReplaced
from pipestream.graph.model import Graph
from pipestream.kafka.broker import Broker
from pipestream.ledger import Ledger
from pipestream.offsets.plan import find_waiting
from pipestream.settings import Settings


def pending(settings: Settings, graph: Graph, topic: str) -> int:
    """Return how many offsets wait in a topic for a graph's everyday runs, or are done and not yet entered.

    Counted from the ledger's head, so that a range which a dead run left behind is not "nothing to do".

    :raises TopicMissing: there is no such topic.
    :raises TopicReplaced: it was deleted and made again.
    :raises OffsetsExpired: retention deleted records before they were drained.
    :raises TopicRewound: it ends before what has been drained.
    """
    broker, ledger, lane = Broker(settings), Ledger(settings), graph.graph_id
    identity = broker.identify(topic)
    if not ledger.is_same_topic(lane, topic, identity.topic_id):
        raise TopicReplaced(topic)
    heads = ledger.heads(lane, topic, identity.partitions)
    marks = broker.settled_watermarks(topic, identity.partitions)
    # Where a topic that no run has seen yet starts, its first run decides; here, all that it holds waits.
    next_offsets = heads or {partition: mark.low for partition, mark in marks.items()}
    return sum(map(len, find_waiting(topic, next_offsets, marks)))
