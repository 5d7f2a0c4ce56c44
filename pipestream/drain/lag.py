"""A cheap look at what waits in a topic, before anything as heavy as Spark is started."""

from __future__ import annotations

from pipestream.drain.live_lane import LiveLane
from pipestream.graph.model import Graph
from pipestream.kafka.broker import Broker
from pipestream.ledger import Ledger
from pipestream.settings import Settings


def find_lag(settings: Settings, graph: Graph, topic: str) -> int:
    """Return the lag of a topic in a graph's live lane: offsets that wait, or are drained and not yet recorded.

    :raises TopicMissing: there is no such topic.
    :raises TopicReplaced: it was deleted and made again.
    :raises OffsetsExpired: retention deleted records before they were drained.
    :raises TopicRewound: it ends before what has been drained.
    """
    broker, ledger, lane = Broker(settings), Ledger(settings), LiveLane.of(graph)
    return lane.find_lag(topic, lane.identify(topic, broker, ledger), broker, ledger)
