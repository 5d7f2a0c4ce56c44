"""Say what is wanted of topics: started or stopped, how many replicas, batch or streaming."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from pipestream.api.graphs import GraphSource, read_graph
from pipestream.errors import RequestInvalid, SettingsInvalid
from pipestream.leases import DesiredState, TopicMode, open_lease_store
from pipestream.settings import Settings, load_settings
from pipestream.topics.required import leased_topics


def set_topic_mode(topic: str, mode: TopicMode | str, *, settings: Settings | None = None) -> DesiredState:
    """Move a topic to batch or streaming, while documents flow.

    The drain at work ends after its chunk, or at the end of its run, and gives the lease back. The next one continues
    where it stopped.

    :param mode: ``batch`` or ``streaming``.
    :return: what is now wanted of the topic.
    :raises RequestInvalid: there is no such mode, or the topic is not registered.
    """
    return change_topics([topic], mode=mode, settings=settings)[topic]


def set_graph_mode(
    graph: GraphSource, mode: TopicMode | str, *, settings: Settings | None = None
) -> dict[str, DesiredState]:
    """Move every topic that a graph drains to batch or streaming.

    :return: what is now wanted of each topic.
    :raises RequestInvalid: there is no such mode, or the graph was never applied.
    """
    return change_topics(leased_topics(read_graph(graph)), mode=mode, settings=settings)


def change_topics(
    topics: Sequence[str],
    *,
    started: bool | None = None,
    replicas: int | None = None,
    mode: TopicMode | str | None = None,
    settings: Settings | None = None,
) -> dict[str, DesiredState]:
    """Change what is wanted of topics. What is not given stays as it is.

    :return: what is now wanted of each topic.
    :raises RequestInvalid: there is no such mode, or a topic is not registered; nothing was changed.
    :raises SettingsInvalid: the lease store keeps no desired state.
    """
    settings = settings or load_settings()
    if settings.leases == "none":
        raise SettingsInvalid("PIPESTREAM_LEASES is none, which keeps no desired state; use sql or consul")
    wanted_mode = None if mode is None else _read_mode(mode)
    changed = {}
    with closing(open_lease_store(settings)) as store:
        registered = store.topics()
        if missing := [topic for topic in topics if topic not in registered]:
            known = ", ".join(registered) or "none"
            raise RequestInvalid(f"{', '.join(missing)} is not registered; apply its graph first. Registered: {known}")
        for topic in topics:
            before = store.desired(topic)
            changed[topic] = replace(
                before,
                started=before.started if started is None else started,
                replicas=replicas or before.replicas,
                mode=wanted_mode or before.mode,
            )
            store.set_desired(topic, changed[topic])
    return changed


def _read_mode(mode: TopicMode | str) -> TopicMode:
    try:
        return TopicMode(mode)
    except ValueError:
        known = ", ".join(each.value for each in TopicMode)
        raise RequestInvalid(f"{mode!r} is not a mode of a topic; use one of {known}") from None
