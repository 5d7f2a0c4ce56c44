"""A topic to read, and where to start in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Self

from pipestream.errors import RequestInvalid
from pipestream.graph.start import StartAt, StartKind
from pipestream.offsets.start import EPOCH

POLICIES = ("earliest", "latest", "committed", "relative_time", "absolute_time")
_MAX_AGO_MS = 36_525 * 86_400_000  # a hundred years, as for a graph's start_at


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A topic, and where to start reading it."""

    topic: str
    start: StartAt

    @classmethod
    def of(cls, topic: str, policy: str, *, time_ms: int | None = None, group: str = "") -> Self:
        """Start where the policy of a name says.

        :param policy: one of ``earliest``, ``latest``, ``committed``, ``relative_time`` and ``absolute_time``.
        :param time_ms: for ``relative_time`` how long ago, for ``absolute_time`` since 1970, both in milliseconds.
        :param group: for ``committed``, whose offsets; the reader's own ``group.id`` unless given.
        :raises RequestInvalid: there is no such policy, or its time is missing or not one.
        """
        if policy not in POLICIES:
            raise RequestInvalid(f"{policy!r} is not an offset policy; use one of {', '.join(POLICIES)}")
        if policy in ("relative_time", "absolute_time"):
            if time_ms is None:
                meaning = "how long ago" if policy == "relative_time" else "milliseconds since 1970, UTC"
                raise RequestInvalid(f"the policy {policy} needs a time: give time_ms ({meaning})")
            make = cls.from_relative_time if policy == "relative_time" else cls.from_absolute_time
            return make(topic, time_ms)
        if time_ms is not None:
            raise RequestInvalid(f"the policy {policy} takes no time; leave out time_ms, or use relative_time")
        if policy == "committed":
            return cls.from_committed(topic, group)
        return cls(topic, StartAt(StartKind(policy)))

    @classmethod
    def from_earliest(cls, topic: str) -> Self:
        """Start at the oldest record that is still there."""
        return cls(topic, StartAt(StartKind.EARLIEST))

    @classmethod
    def from_latest(cls, topic: str) -> Self:
        """Start at the end, so that only new records come."""
        return cls(topic, StartAt(StartKind.LATEST))

    @classmethod
    def from_committed(cls, topic: str, group: str = "") -> Self:
        """Start at the committed offsets of a consumer group; the reader's own ``group.id`` unless given."""
        return cls(topic, StartAt(StartKind.COMMITTED, group=group))

    @classmethod
    def from_relative_time(cls, topic: str, ago_ms: int) -> Self:
        """Start at the first record of the time so long ago, or later."""
        if not 0 <= ago_ms <= _MAX_AGO_MS:
            raise RequestInvalid(f"ago_ms must be 0 to {_MAX_AGO_MS}, not {ago_ms}: it counts back from now")
        return cls(topic, StartAt(StartKind.AGO, ago=timedelta(milliseconds=ago_ms)))

    @classmethod
    def from_absolute_time(cls, topic: str, timestamp_ms: int) -> Self:
        """Start at the first record of a time (milliseconds since 1970, UTC), or later."""
        try:
            moment = EPOCH + timedelta(milliseconds=timestamp_ms)
        except OverflowError:
            raise RequestInvalid(f"timestamp_ms {timestamp_ms} is not a time in milliseconds since 1970") from None
        return cls(topic, StartAt(StartKind.TIME, time=moment))

    def for_group(self, group: str) -> Self:
        """Return the source with the group whose committed offsets it starts at, where it names none.

        :raises RequestInvalid: there is none.
        """
        if self.start.kind is not StartKind.COMMITTED or self.start.group:
            return self
        if not group:
            raise RequestInvalid(
                f"{self.topic}: the policy committed needs a group: name it in from_committed, or as group.id of the "
                f"client configuration"
            )
        return replace(self, start=replace(self.start, group=group))
