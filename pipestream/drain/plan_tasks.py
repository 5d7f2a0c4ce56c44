"""Decide whether a run cuts its ranges into sub-ranges, for more tasks than there are partitions.

Pure: documents times the cost of a document, from the ledger's history, against the tasks that run at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pipestream.kafka.records import OffsetRange
from pipestream.ledger import Entry

# What a wave costs besides its documents: a barrier, two starts of a task, and the commits. Measured: 1 to 2 s.
_WAVE_COST_S = 2.0
# Several sub-ranges for each task that runs at once, so that none waits long for the slowest.
_PER_SLOT = 2
# Of a document, where it is not known and sub-ranges are wanted all the same.
_ASSUMED_COST_S = 0.005
# Sub-ranges have to save this share of the time that one task per range would take.
_LEAST_SAVING = 0.2
# A shorter entry is mostly the start of its task, which is subtracted.
_TELLING_S = 5.0
_START_S = 1.0
_MOST_ENTRIES = 50


@dataclass(frozen=True, slots=True)
class TaskCut:
    """How the work of a plan is cut into tasks, and why."""

    reason: str
    sub_range_offsets: int = 0
    """How many offsets one task processes; 0: one task drains each range whole."""
    wave_offsets: int = 0
    """How many offsets are processed before they are committed."""


def seconds_per_document(entries: Sequence[Entry], graph_hash: str) -> float | None:
    """Return what a document cost one task lately; None if no entry was long enough to tell.

    Entries of the same version of the graph count first, because another version may have other modules.
    """
    telling = [entry for entry in entries if entry.seconds >= _TELLING_S and len(entry.range)]
    same = [entry for entry in telling if entry.graph_hash == graph_hash]
    latest = sorted(same or telling, key=lambda entry: entry.entered_at)[-_MOST_ENTRIES:]
    if not latest:
        return None
    return sum(entry.seconds - _START_S for entry in latest) / sum(len(entry.range) for entry in latest)


@dataclass(frozen=True, slots=True)
class Tasks:
    """What a cut into tasks depends on besides the work."""

    at_once: int
    """How many tasks run at once."""
    wanted: Literal["auto", "never", "always"]
    """The setting ``sub_ranges``."""
    wave_s: float
    """How long the tasks work before their results are committed: what a run that dies may have to process again."""
    fewest_judged: int
    """How many records it takes to tell whether most of them fail. Each partition of a wave is judged by itself."""


def choose_cut(ranges: Sequence[OffsetRange], cost_s: float | None, tasks: Tasks) -> TaskCut:
    """Choose between one task per range and sub-ranges in waves.

    :param cost_s: of a document, for one task; None if it is not known.
    """
    if tasks.wanted == "never":
        return TaskCut("one task per partition: the setting sub_ranges is never")
    if tasks.wanted == "always":
        return _cut(ranges, cost_s or _ASSUMED_COST_S, tasks, "the setting sub_ranges is always")
    if tasks.at_once <= 1:
        return TaskCut("one task per partition: no two tasks run at once")
    if cost_s is None:
        return TaskCut("one task per partition: no earlier run of this topic was long enough to tell its cost")
    total, longest = sum(map(len, ranges)), max(map(len, ranges))
    whole_s = max(longest, total / tasks.at_once) * cost_s
    cut_s = total * cost_s / tasks.at_once + _count_waves(total, cost_s, tasks) * _WAVE_COST_S
    told = (
        f"{total} offsets at {cost_s * 1000:.3g} ms in {len(ranges)} partitions, {tasks.at_once} tasks at once: "
        f"about {whole_s:.0f} s with one task per partition, {cut_s:.0f} s in sub-ranges"
    )
    if cut_s > (1 - _LEAST_SAVING) * whole_s:
        return TaskCut(f"one task per partition: {told}")
    return _cut(ranges, cost_s, tasks, told)


def _cut(ranges: Sequence[OffsetRange], cost_s: float, tasks: Tasks, told: str) -> TaskCut:
    """Return a cut into waves of the same length."""
    total = sum(map(len, ranges))
    wave = max(math.ceil(total / _count_waves(total, cost_s, tasks)), tasks.fewest_judged * len(ranges))
    size = math.ceil(wave / (tasks.at_once * _PER_SLOT))
    return TaskCut(f"sub-ranges of {size} offsets, in waves of {wave}: {told}", size, wave)


def _count_waves(total: int, cost_s: float, tasks: Tasks) -> int:
    return max(1, math.ceil(total * cost_s / tasks.at_once / tasks.wave_s))


def cut_sub_ranges(start: int, end: int, size: int) -> tuple[tuple[int, int], ...]:
    """Return start and end of the sub-ranges of a range; of an empty one, an empty sub-range."""
    starts = range(start, end, size) or (start,)
    return tuple((each, min(each + size, end)) for each in starts)
