"""Wait for topics that do not exist yet, or create them where the settings say so.

A graph may be started before somebody has made its topics, or while somebody makes one again. So a missing topic is
looked for several times, with a pause that doubles, before the run fails. With the setting ``auto_create``, all topics
of the graph that are missing are created, as applying it would.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pipestream.drain.request import DrainRequest
from pipestream.errors import TopicMissing
from pipestream.graph.flow import output_topics
from pipestream.graph.model import Graph
from pipestream.kafka.broker import Broker
from pipestream.settings import Settings
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import required_topics

log = logging.getLogger(__name__)


def await_topic(request: DrainRequest, settings: Settings, broker: Broker, refuse: Callable[[], str]) -> str:
    """Return when the request's topic is there, or why to wait no longer; empty if it is there.

    :param refuse: returns why the topic is not to be drained any more, asked before every pause.
    :raises TopicMissing: it is not there after ``topic_attempts`` tries.
    """

    def find_missing() -> list[str]:
        try:
            broker.identify(request.topic)
        except TopicMissing:
            return [request.topic]
        return []

    return _await(find_missing, request.graph, settings, refuse)


def await_outputs(
    topic: str, graph: Graph, settings: Settings, broker: Broker, check_lease: Callable[[], None]
) -> None:
    """Return when every topic that draining a topic can write to is there.

    Without this, the first transaction would wait for the missing topic and fail, after the modules have worked.

    :param check_lease: called before every pause; raises when the drain must end.
    :raises TopicMissing: one is not there after ``topic_attempts`` tries.
    """
    outputs = output_topics(graph, topic)

    def refuse() -> str:
        check_lease()
        return ""

    _await(lambda: broker.missing(outputs), graph, settings, refuse)


def _await(find_missing: Callable[[], list[str]], graph: Graph, settings: Settings, refuse: Callable[[], str]) -> str:
    for attempt in range(1, settings.topic_attempts + 1):
        missing = find_missing()
        if not missing:
            return ""
        if settings.auto_create:
            _create_missing(graph, settings)
            return ""
        if attempt == settings.topic_attempts:
            raise TopicMissing(missing[0])
        if reason := refuse():
            return reason
        pause_s = min(settings.topic_backoff_s * 2 ** (attempt - 1), settings.topic_backoff_max_s)
        log.warning(
            "%s does not exist (try %d of %d); looking again in %.1f s",
            ", ".join(missing),
            attempt,
            settings.topic_attempts,
            pause_s,
        )
        time.sleep(pause_s)
    raise AssertionError("the last try returns or raises")


def _create_missing(graph: Graph, settings: Settings) -> None:
    admin = TopicAdmin(settings)
    existing = admin.existing()
    missing = [spec for spec in required_topics(graph, settings) if spec.name not in existing]
    created = admin.create(missing)
    log.info("created %s, as graph %s wants them", ", ".join(created) or "nothing", graph.graph_id)
