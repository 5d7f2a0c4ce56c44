"""Decide whether a drain is worth starting, in plain Python, because starting Spark takes ten seconds.

The answer is advice: things may change before the drain starts, which obeys the same rules again.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from pipestream.drain.left_alone import find_active, why_left_alone
from pipestream.drain.live_lane import LiveLane
from pipestream.drain.request import DrainRequest
from pipestream.drain.topics_there import await_topic
from pipestream.drain.wanted import why_not_in_batches
from pipestream.errors import TerminalError
from pipestream.graph.flow import why_not_drained
from pipestream.graph.model import Graph
from pipestream.kafka.broker import Broker
from pipestream.leases import open_lease_store
from pipestream.leases.store import Assignment, LeaseStore
from pipestream.ledger import Ledger
from pipestream.settings import Settings
from pipestream.topic_names import datasource_of

_ASKED_AT_ONCE = 8
"""Each question waits for Kafka and the ledger more than it computes; more threads gain nothing on two cores."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out about one topic before a drain of it."""

    reason: str
    """Why there is no point in draining it now; empty if there is."""
    is_final: bool = False
    """Whether that stays so in this run, even if records arrive in the topic meanwhile."""
    problem: str = ""
    """Why a drain of it would fail; its own task is to say so."""


def find_reason_to_skip(settings: Settings, request: DrainRequest) -> str:
    """Return why there is no point in draining a topic now; empty if there is.

    :raises TransientError: a server did not answer.
    :raises TerminalError: the topic is missing or another one, its ledger and the broker do not agree, or Kafka no
        longer holds what a backfill asks for.
    """
    if reason := why_not_drained(request.graph, request.topic):
        return reason  # without asking any server
    graph_id = request.graph.graph_id
    if reason := why_left_alone(find_active(settings, [graph_id]), graph_id, datasource_of(request.topic)):
        return reason
    with closing(open_lease_store(settings)) as leases:
        return _examine(request, settings, leases, Broker(settings), Ledger(settings)).reason


def examine_topics(settings: Settings, requests: Sequence[DrainRequest]) -> list[Finding]:
    """Return what is found about each request, in their order.

    All topics are asked about side by side, over the same connections. A missing topic is not waited for.

    :raises TransientError: a server did not answer.
    """
    at_once = settings.model_copy(update={"topic_attempts": 1})
    active = find_active(settings, [each.graph.graph_id for each in requests])
    with closing(open_lease_store(settings)) as leases, ThreadPoolExecutor(_ASKED_AT_ONCE, "check") as pool:
        broker, ledger = Broker(settings), Ledger(settings)

        def examine(request: DrainRequest) -> Finding:
            if reason := why_left_alone(active, request.graph.graph_id, datasource_of(request.topic)):
                return Finding(reason, is_final=True)
            try:
                return _examine(request, at_once, leases, broker, ledger)
            except TerminalError as error:
                return Finding("", problem=str(error))

        return list(pool.map(examine, requests))


def _examine(request: DrainRequest, settings: Settings, leases: LeaseStore, broker: Broker, ledger: Ledger) -> Finding:
    """Decide on what the operator wants, then on what waits in the topic, then on who holds it."""
    topic, lane = request.topic, request.lane

    def refuse() -> str:
        return why_not_in_batches(request.graph, topic, leases.desired(topic), is_live=lane.is_live)

    if reason := refuse() or await_topic(request, settings, broker, refuse):
        return Finding(reason, is_final=True)
    identity = lane.identify(topic, broker, ledger)
    if reason := lane.find_idle(topic, identity, request.run_id, broker, ledger):
        # A backfill covers what was there when it was planned.
        return Finding(reason, is_final=not lane.is_live)
    if held := lane.find_holders(topic, request.run_id, leases):
        return Finding(f"{topic} is leased by {', '.join(map(_describe, held))}")
    return Finding("")


def _describe(slot: Assignment) -> str:
    return f"{slot.holder} until {slot.until:%Y-%m-%d %H:%M:%S %Z}" if slot.until else slot.holder


def find_lag(settings: Settings, graph: Graph, topic: str) -> int:
    """Return the lag of a topic in a graph's live lane: offsets that wait, or are drained and not yet recorded.

    :raises TopicMissing: there is no such topic.
    :raises TopicReplaced: it was deleted and made again.
    :raises OffsetsExpired: retention deleted records before they were drained.
    :raises TopicRewound: it ends before what has been drained.
    """
    broker, ledger, lane = Broker(settings), Ledger(settings), LiveLane.of(graph)
    return lane.find_lag(topic, lane.identify(topic, broker, ledger), broker, ledger)
