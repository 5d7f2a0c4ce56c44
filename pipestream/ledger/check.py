"""Whether a topic's entries are all there: joined end to start, and up to where the topic ends. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pipestream.ledger.entries import Entry, EntryKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipestream.kafka.records import Watermarks


class FaultKind(Enum):
    """What is wrong with a partition's entries."""

    GAP = "gap"
    OVERLAP = "overlap"
    HEAD = "head"
    """The head is not where the last entry ends."""
    WAITING = "waiting"
    """All is well so far, and there is more to drain. The only kind that another run fixes."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that keeps a ledger from being complete."""

    kind: FaultKind
    topic: str
    partition: int
    message: str

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]: {self.message}"


def find_faults(
    topic: str,
    entries: Sequence[Entry],
    heads: Mapping[int, int],
    watermarks: Mapping[int, Watermarks],
) -> list[Fault]:
    """Return what keeps a lane's entries of a topic from being complete, by partition.

    :param entries: those of one lane, in any order.
    :param heads: the lane's heads; a partition that was never drained is absent.
    :param watermarks: what the broker holds now.
    """
    faults: list[Fault] = []
    for partition, marks in sorted(watermarks.items()):
        own = [e for e in entries if e.range.topic == topic and e.range.partition == partition]
        found, end = _check_tiling(sorted(own, key=lambda e: (e.range.start, e.entered_at)))
        head = heads.get(partition)
        # A topic may have begun, at "latest" say, before anything was drained from it.
        if head != end and (own or head is None):
            found.append((FaultKind.HEAD, f"the head is {head}, but the entries end at {end}"))
        position = marks.low if head is None else head
        if position < marks.high:
            found.append((FaultKind.WAITING, f"{marks.high - position} offsets wait from {position} on"))
        elif position > marks.high:
            found.append((FaultKind.HEAD, f"the head is {position}, but the topic ends at {marks.high}"))
        faults += [Fault(kind, topic, partition, message) for kind, message in found]
    return faults


def _check_tiling(entries: Sequence[Entry]) -> tuple[list[tuple[FaultKind, str]], int | None]:
    """Return where entries in order of their starts do not join, and where the last one ends."""
    found: list[tuple[FaultKind, str]] = []
    # An operator's entry says that the head was moved, so what lies before it need not join.
    moved = [number for number, entry in enumerate(entries) if entry.kind is EntryKind.REBASELINED]
    end: int | None
    if moved:
        latest = max(moved, key=lambda number: entries[number].entered_at)
        end = entries[latest].range.end
        entries = [e for e in entries if e.entered_at > entries[latest].entered_at]
    else:
        end = entries[0].range.start if entries else None
    for entry in entries:
        start = entry.range.start
        if end is not None and start > end:
            found.append((FaultKind.GAP, f"no entry for {end}..{start}"))
        elif end is not None and start < end:
            found.append((FaultKind.OVERLAP, f"{start}..{min(end, entry.range.end)} was recorded twice"))
        end = max(end or 0, entry.range.end)
    return found, end
