"""Find out where a topic stands before a run plans its ranges.

Pure: the heads, the committed offsets and the watermarks come in as values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipestream.kafka.ranges import OffsetRange, Watermarks


@dataclass(frozen=True, slots=True)
class Standing:
    """Where each partition of a topic goes on, and what was done but never entered."""

    next_offsets: dict[int, int]
    """A partition absent here was never drained."""
    left_behind: tuple[OffsetRange, ...]
    """Ranges whose Kafka transactions hold, of runs that died before the ledger knew."""


def reconcile(
    topic: str,
    watermarks: Mapping[int, Watermarks],
    heads: Mapping[int, int],
    committed: Mapping[int, int],
    begins: Mapping[int, int],
) -> Standing:
    """Compare the ledger's heads (``L``) with the offsets committed in Kafka (``G``).

    A missing ``G`` means ``L``, never "start over": Kafka forgets a quiet group's offsets after a week.
    A missing ``L`` with a ``G`` is a first run that died.

    :param watermarks: of the partitions to compare.
    :param begins: where the range began that each committed offset ends, as far as its metadata says.
    """
    next_offsets: dict[int, int] = {}
    left_behind = []
    for partition, marks in watermarks.items():
        head, done = heads.get(partition), committed.get(partition)
        known = [offset for offset in (head, done) if offset is not None]
        if not known:
            continue
        next_offsets[partition] = max(known)
        begin = begins.get(partition, marks.low) if head is None else head
        if done is not None and done > begin:
            left_behind.append(OffsetRange(topic, partition, begin, done))
    return Standing(next_offsets, tuple(left_behind))
