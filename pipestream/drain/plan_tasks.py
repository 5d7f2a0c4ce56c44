"""Decide whether a run cuts its ranges into sub-ranges, for more tasks than there are partitions.

Pure: documents times the cost of a document, from the ledger's history, against the tasks that run at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pipestream.kafka.records import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

# What a wave costs besides its documents: a barrier, two starts of a task, and the commits. Measured: 1 to 2 s.
_WAVE_COST_S = 2.0
# Several sub-ranges for each task that runs at once, so that none waits long for the slowest.
_PER_SLOT = 2
# Of a document, where it is not known and sub-ranges are wanted all the same.
_ASSUMED_COST_S = 0.005
# Sub-ranges have to save this share of the time that one task per range would take.
_LEAST_SAVING = 0.2
# What a run that took less says is mostly the start of its task, which is subtracted.
_TELLING_S = 5.0
_START_S = 1.0
_MOST_RUNS = 50
# More waves than this cost more than a minute and a half, for a run that dies to repeat less than a fiftieth of its
# work. If the history is wrong, they would cost many times the work itself.
_MOST_WAVES = 50
# But no wave is planned to be longer than the setting ``sub_range_wave_s`` may be at most.
_LONGEST_WAVE_S = 1_800.0


@dataclass(frozen=True, slots=True)
class TaskCut:
    """How the work of a plan is cut into tasks, and why."""

    reason: str
    sub_range_offsets: int = 0
    """How many offsets one task processes; 0: one task drains each range whole."""
    wave_offsets: int = 0
    """How many offsets are processed before they are committed."""


COST_COLUMNS = ["graph_hash", "run_id", "partition", "start", "end", "seconds", "entered_at"]
"""What :func:`seconds_per_document` reads of the ledger's entries."""


def seconds_per_document(entries: pa.Table, graph_hash: str) -> float | None:
    """Return what a document cost one task lately; None if no run was long enough to tell.

    What a run entered for a partition is added up: the entries of a stream are of a few seconds each. Runs of the same
    version of the graph count first, because another version may have other modules.

    :param entries: the ledger's, with these columns at least.
    """
    found: dict[tuple[str, str, int], _Past] = {}
    # A moment as a number: as a time with a zone, each takes as long as all other columns together.
    columns = [entries[name] for name in COST_COLUMNS[:-1]] + [entries["entered_at"].cast("int64")]
    for of_hash, run_id, partition, start, end, seconds, at in zip(*(c.to_pylist() for c in columns), strict=True):
        if seconds > 0 and end > start:  # what was recovered or skipped took no time
            past = found.setdefault((of_hash, run_id, partition), _Past())
            past.last = max(past.last, at)
            past.seconds += seconds
            past.offsets += end - start
    telling = {key: past for key, past in found.items() if past.seconds >= _TELLING_S}
    same = [past for (of_hash, _, _), past in telling.items() if of_hash == graph_hash]
    latest = sorted(same or telling.values(), key=lambda past: past.last)[-_MOST_RUNS:]
    if not latest:
        return None
    return sum(past.seconds - _START_S for past in latest) / sum(past.offsets for past in latest)


@dataclass(slots=True)
class _Past:
    """What a run did in one partition."""

    last: int = 0
    seconds: float = 0.0
    offsets: int = 0


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
    work_s = total * cost_s / tasks.at_once
    most = max(_MOST_WAVES, math.ceil(work_s / _LONGEST_WAVE_S))
    return max(1, min(math.ceil(work_s / tasks.wave_s), most))


def cut_sub_ranges(start: int, end: int, size: int) -> tuple[tuple[int, int], ...]:
    """Return start and end of the sub-ranges of a range; of an empty one, an empty sub-range."""
    starts = range(start, end, size) or (start,)
    return tuple((each, min(each + size, end)) for each in starts)
