"""A cheap look at what waits in a topic, before anything as heavy as Spark is started."""

from __future__ import annotations

from pipestream.drain.identity import identify_topic
from pipestream.graph.model import Graph
from pipestream.kafka.broker import Broker
from pipestream.ledger import Ledger
from pipestream.offsets.plan import count_lag, find_waiting
from pipestream.settings import Settings


def find_lag(settings: Settings, graph: Graph, topic: str) -> int:
    """Return the lag of a topic in a graph's everyday lane: offsets that wait, or are done and not yet entered.

    :raises TopicMissing: there is no such topic.
    :raises TopicReplaced: it was deleted and made again.
    :raises OffsetsExpired: retention deleted records before they were drained.
    :raises TopicRewound: it ends before what has been drained.
    """
    broker, ledger, lane = Broker(settings), Ledger(settings), graph.graph_id
    identity = identify_topic(broker, ledger, lane, topic)
    heads = ledger.heads(lane, topic, identity.partitions)
    marks = broker.settled_watermarks(topic, identity.partitions)
    if heads:
        find_waiting(topic, heads, marks)  # refuses what a run would refuse
    return count_lag(heads, marks)
