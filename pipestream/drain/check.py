"""Decide whether a drain is worth starting, in plain Python, because starting Spark takes ten seconds.

The answer is advice: things may change before the drain starts, which obeys the same rules again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing

from pipestream.drain.live_lane import LiveLane
from pipestream.drain.request import DrainRequest
from pipestream.errors import TopicMissing
from pipestream.graph.flow import why_not_drained
from pipestream.graph.model import Graph
from pipestream.kafka.broker import Broker
from pipestream.leases import open_lease_store
from pipestream.leases.store import Assignment, DesiredState, LeaseStore, TopicMode
from pipestream.ledger import Ledger
from pipestream.settings import Settings
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import required_topics

log = logging.getLogger(__name__)


def find_reason_to_skip(settings: Settings, request: DrainRequest) -> str:
    """Return why there is no point in draining a topic now; empty if there is.

    :raises TransientError: a server did not answer.
    :raises TerminalError: the topic is missing or another one, its ledger and the broker do not agree, or Kafka no
        longer holds what a backfill asks for.
    """
    if reason := why_not_drained(request.graph, request.topic):
        return reason  # without asking any server
    with closing(open_lease_store(settings)) as leases:
        return reason_to_skip(request, settings, leases, Broker(settings), Ledger(settings))


def reason_to_skip(
    request: DrainRequest, settings: Settings, leases: LeaseStore, broker: Broker, ledger: Ledger
) -> str:
    """Decide on what the operator wants, then on what waits in the topic, then on who holds it."""
    topic, lane = request.topic, request.lane
    if reason := refuse(request, leases.desired(topic)):
        return reason
    if reason := await_topic(request, settings, broker, lambda: refuse(request, leases.desired(topic))):
        return reason
    identity = lane.identify(topic, broker, ledger)
    if reason := lane.find_idle(topic, identity, request.run_id, broker, ledger):
        return reason
    if held := lane.find_holders(topic, request.run_id, leases):
        return f"{topic} is leased by {', '.join(map(_describe, held))}"
    return ""


def refuse(request: DrainRequest, desired: DesiredState) -> str:
    """Return why a topic is not to be drained, whatever waits in it; empty if it is.

    The graph's file decides first, then the operator. A topic that streams is not for the live runs; a backfill has a
    lane of its own, which nothing streams.
    """
    if reason := why_not_drained(request.graph, request.topic):
        return reason
    if not desired.started:
        return f"{request.topic} is stopped: `pipestream leases set {request.topic} --started`"
    if request.lane.is_live and desired.mode is TopicMode.STREAMING:
        return (
            f"{request.topic} is in streaming mode, so batch runs leave it to a streaming drain or a sidecar: "
            f"`pipestream leases set {request.topic} --mode batch`"
        )
    return ""


def _describe(slot: Assignment) -> str:
    return f"{slot.holder} until {slot.until:%Y-%m-%d %H:%M:%S %Z}" if slot.until else slot.holder


def await_topic(request: DrainRequest, settings: Settings, broker: Broker, refuse: Callable[[], str]) -> str:
    """Return when the request's topic is there, or why to wait no longer; empty if it is there.

    A graph may be started before somebody has made its topics, or while somebody makes one again. So a missing topic is
    looked for several times, with a pause that doubles, before the run fails. With the setting ``auto_create``, all
    topics of the graph that are missing are created, as applying it would.

    :param refuse: returns why the topic is not to be drained any more, asked before every pause.
    :raises TopicMissing: it is not there after ``topic_attempts`` tries.
    """
    for attempt in range(1, settings.topic_attempts + 1):
        try:
            broker.identify(request.topic)
        except TopicMissing:
            if settings.auto_create:
                _create_missing(request, settings)
                return ""
            if attempt == settings.topic_attempts:
                raise
        else:
            return ""
        if reason := refuse():
            return reason
        pause_s = min(settings.topic_backoff_s * 2 ** (attempt - 1), settings.topic_backoff_max_s)
        log.warning(
            "%s does not exist (try %d of %d); looking again in %.1f s",
            request.topic,
            attempt,
            settings.topic_attempts,
            pause_s,
        )
        time.sleep(pause_s)
    raise AssertionError("the last try returns or raises")


def _create_missing(request: DrainRequest, settings: Settings) -> None:
    admin = TopicAdmin(settings)
    existing = admin.existing()
    missing = [spec for spec in required_topics(request.graph, settings) if spec.name not in existing]
    created = admin.create(missing)
    log.info("created %s, as graph %s wants them", ", ".join(created) or "nothing", request.graph.graph_id)


def find_lag(settings: Settings, graph: Graph, topic: str) -> int:
    """Return the lag of a topic in a graph's live lane: offsets that wait, or are drained and not yet recorded.

    :raises TopicMissing: there is no such topic.
    :raises TopicReplaced: it was deleted and made again.
    :raises OffsetsExpired: retention deleted records before they were drained.
    :raises TopicRewound: it ends before what has been drained.
    """
    broker, ledger, lane = Broker(settings), Ledger(settings), LiveLane.of(graph)
    return lane.find_lag(topic, lane.identify(topic, broker, ledger), broker, ledger)
