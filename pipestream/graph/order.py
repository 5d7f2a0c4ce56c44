"""The order in which one run drains a graph's topics, so that it carries a document from intake to the end."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.graph.components import strong_components
from pipestream.graph.flow import DrainedTopic, drained_topics, fed_topics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipestream.graph.model import Graph
    from pipestream.topic_names import TopicKind


@dataclass(frozen=True, slots=True)
class DrainStep:
    """One drain of a topic within a run."""

    topic: str
    kind: TopicKind
    node_id: str
    """The node that the topic's records enter."""
    datasource_id: str
    """The datasource of an intake topic, else empty."""
    pass_number: int
    """1, and up to ``cycle_passes`` for a topic on a cycle."""
    after: tuple[int, ...]
    """The steps, by index, that must end before this one starts."""


def drain_order(graph: Graph, cycle_passes: int, feeds: Mapping[str, Sequence[str]] | None = None) -> list[DrainStep]:
    """Return the drains of one run, each after all that can feed it.

    Topics that feed each other in a cycle are drained ``cycle_passes`` times in turn. Documents that are still in the
    cycle then wait for the next run. The same graph always gives the same steps.

    :param feeds: the graph's ``fed_topics``, where the caller has them already.
    """
    if cycle_passes < 1:
        raise ValueError(f"cycle_passes must be positive, not {cycle_passes}")
    drained = {each.topic: each for each in drained_topics(graph)}
    feeds = fed_topics(graph) if feeds is None else feeds
    fed_by: dict[str, list[str]] = {topic: [] for topic in drained}
    for topic, targets in feeds.items():
        for target in targets:
            fed_by[target].append(topic)

    steps: list[DrainStep] = []
    last_step: dict[str, int] = {}
    for members in _sorted_components(list(drained), feeds):
        circular = len(members) > 1 or members[0] in feeds[members[0]]
        component = _in_walking_order(members, feeds, fed_by) if circular else members
        inner = set(members)
        outside = {last_step[source] for topic in component for source in fed_by[topic] if source not in inner}
        for pass_number in range(1, (cycle_passes if circular else 1) + 1):
            for topic in component:
                inside = {last_step[source] for source in fed_by[topic] if source in inner and source in last_step}
                if topic in last_step:
                    inside.add(last_step[topic])
                # a cycle is entered as a whole: every first step of it waits for all that leads into it
                after = tuple(sorted(inside | (outside if pass_number == 1 else set())))
                last_step[topic] = len(steps)
                steps.append(_step(drained[topic], pass_number, after))
    return steps


def _step(drained: DrainedTopic, pass_number: int, after: tuple[int, ...]) -> DrainStep:
    return DrainStep(drained.topic, drained.kind, drained.node_id, drained.datasource_id, pass_number, after)


def _sorted_components(topics: Sequence[str], feeds: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the components in topological order; if several could come next, the first in the graph does."""
    position = {topic: index for index, topic in enumerate(topics)}
    components = [sorted(found, key=position.__getitem__) for found in strong_components(topics, feeds.__getitem__)]
    component_of = {topic: number for number, component in enumerate(components) for topic in component}
    followers: list[set[int]] = [set() for _ in components]
    waiting = [0] * len(components)
    for topic, targets in feeds.items():
        for target in targets:
            source, follower = component_of[topic], component_of[target]
            if source != follower and follower not in followers[source]:
                followers[source].add(follower)
                waiting[follower] += 1

    ready = [(position[component[0]], number) for number, component in enumerate(components) if not waiting[number]]
    heapq.heapify(ready)
    ordered = []
    while ready:
        _, number = heapq.heappop(ready)
        ordered.append(components[number])
        for follower in followers[number]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, (position[components[follower][0]], follower))
    return ordered


def _in_walking_order(
    component: Sequence[str], feeds: Mapping[str, Sequence[str]], fed_by: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return a cycle's topics in the order in which a document reaches them: breadth first from its entries."""
    members = set(component)
    entries = [topic for topic in component if any(source not in members for source in fed_by[topic])]
    queue = entries or [component[0]]
    reached = dict.fromkeys(queue)
    for topic in queue:
        for target in feeds[topic]:
            if target in members and target not in reached:
                reached[target] = None
                queue.append(target)
    return list(reached)
