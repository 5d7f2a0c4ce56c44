"""Wait for a topic that is not there yet, and create it where the settings say so.

A graph may be started before somebody has made its topics, or while somebody makes one again. So a missing topic is
looked for several times, with a pause that doubles, before the run fails.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pipestream.drain.request import DrainRequest
from pipestream.errors import TopicMissing
from pipestream.kafka.broker import Broker
from pipestream.settings import Settings
from pipestream.topics.admin import TopicAdmin
from pipestream.topics.required import required_topics

log = logging.getLogger(__name__)


def await_topic(request: DrainRequest, settings: Settings, broker: Broker, refuse: Callable[[], str]) -> str:
    """Return when the request's topic is there, or why to wait no longer; empty if it is there.

    With the setting ``auto_create``, all topics of the graph that are missing are created, as applying it would.

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
