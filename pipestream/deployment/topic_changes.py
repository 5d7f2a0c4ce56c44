"""What applying a graph changes on the broker. Pure: this module decides, ``apply.py`` makes the changes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pipestream.topics.required import (
    DEAD_LETTER_BYTES,
    DEAD_LETTER_HEADERS_BYTES,
    Purpose,
    TopicSpec,
    required_topics,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pipestream.graph.model import Graph
    from pipestream.settings import Settings


@dataclass(frozen=True, slots=True)
class TopicChanges:
    """The difference between the topics a graph needs and those that are there."""

    create: tuple[TopicSpec, ...]
    keep: tuple[TopicSpec, ...]
    grow: Mapping[str, int] = field(default_factory=dict)
    """Topics that get more partitions, and how many they will have."""
    retention_ms: Mapping[str, int] = field(default_factory=dict)
    """Topics whose retention changes."""
    max_message_bytes: Mapping[str, int] = field(default_factory=dict)
    """Dead-letter topics that will accept larger records than now."""
    retire: tuple[str, ...] = ()
    """Topics that no graph needs any more; they are deleted once they hold no unread record."""
    warnings: tuple[str, ...] = ()


def plan_topics(
    graph: Graph,
    settings: Settings,
    *,
    existing: Mapping[str, int],
    retention_ms: Mapping[str, int] | None = None,
    max_message_bytes: Mapping[str, int] | None = None,
    previous: Graph | None = None,
    leftovers: Collection[str] = (),
    others: Sequence[Graph] = (),
) -> TopicChanges:
    """Compare what a graph needs with what is there.

    :param existing: the broker's topics and their numbers of partitions.
    :param retention_ms: how long those topics keep their records, as far as known.
    :param max_message_bytes: how large a batch of records those topics accept, as far as known.
    :param previous: the graph's active version, whose topics may no longer be needed.
    :param leftovers: topics of earlier versions that could not be deleted then.
    :param others: the active versions of other graphs; what they need stays.
    """
    wanted = required_topics(graph, settings)
    keep = [spec for spec in wanted if spec.name in existing]
    limits = max_message_bytes or {}
    warnings = [
        f"{spec.name} has {existing[spec.name]} partitions and the graph asks for {spec.partitions}: "
        f"Kafka cannot remove partitions, so it stays as it is"
        for spec in keep
        if spec.partitions_said and spec.partitions < existing[spec.name]
    ]
    return TopicChanges(
        create=tuple(
            replace(spec, max_message_bytes=_dead_letter_bytes(keep, limits)) if spec.max_message_bytes else spec
            for spec in wanted
            if spec.name not in existing
        ),
        keep=tuple(keep),
        grow={
            spec.name: spec.partitions
            for spec in keep
            if spec.partitions_said and spec.partitions > existing[spec.name]
        },
        retention_ms={
            spec.name: spec.retention_ms
            for spec in keep
            if spec.retention_ms is not None and spec.retention_ms != (retention_ms or {}).get(spec.name)
        },
        max_message_bytes=narrow_dead_letters(keep, limits),
        retire=_useless_topics(wanted, settings, existing, previous, leftovers, others),
        warnings=tuple(warnings),
    )


def narrow_dead_letters(specs: Sequence[TopicSpec], max_message_bytes: Mapping[str, int]) -> dict[str, int]:
    """Return the dead-letter topics whose limit is too small for a record of the graph's topics, and the new limits.

    :param max_message_bytes: the current limits of the topics; those that do not exist are left out.
    """
    needed = _dead_letter_bytes(specs, max_message_bytes)
    return {
        spec.name: needed
        for spec in specs
        if spec.purpose is Purpose.DEAD_LETTERS and max_message_bytes.get(spec.name, needed) < needed
    }


def _dead_letter_bytes(specs: Sequence[TopicSpec], max_message_bytes: Mapping[str, int]) -> int:
    others = [max_message_bytes.get(spec.name, 0) for spec in specs if spec.purpose is not Purpose.DEAD_LETTERS]
    return max(DEAD_LETTER_BYTES, max(others, default=0) + DEAD_LETTER_HEADERS_BYTES)


def _useless_topics(
    wanted: Sequence[TopicSpec],
    settings: Settings,
    existing: Mapping[str, int],
    previous: Graph | None,
    leftovers: Collection[str],
    others: Sequence[Graph],
) -> tuple[str, ...]:
    candidates = set(leftovers)
    if previous is not None:
        # A bridge to another cluster is that cluster's topic: it may have other senders.
        candidates |= {
            spec.name for spec in required_topics(previous, settings) if spec.purpose is not Purpose.BRIDGE_OUT
        }
    needed = {spec.name for spec in wanted}
    for other in others:
        needed |= {spec.name for spec in required_topics(other, settings)}
    return tuple(sorted((candidates - needed) & existing.keys()))
