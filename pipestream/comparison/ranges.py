"""Choose which drained offsets to compare: the latest ones, spread over the partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from pipestream.arrow import to_rows
from pipestream.kafka.records import OffsetRange
from pipestream.kafka.scan import find_held
from pipestream.ledger.entries import EntryKind

if TYPE_CHECKING:
    from datetime import datetime

    from pipestream.ledger import Ledger
    from pipestream.settings import Settings

_WORKED = (EntryKind.DRAINED.value, EntryKind.RECOVERED.value)


def find_drained(
    ledger: Ledger, graph_id: str, topics: Sequence[str], since: datetime | None, until: datetime | None
) -> list[OffsetRange]:
    """Return what the live runs of a graph have drained of some topics, one range per partition.

    :param since: recorded then or later.
    :param until: recorded before.
    """
    columns = ["lane", "topic", "partition", "start", "end", "kind"]
    found = ledger.entries_table(columns, graph_id=graph_id, since=since, until=until)
    found = found.filter(pc.equal(found["lane"], graph_id))
    sums = found.group_by(["topic", "partition", "kind"]).aggregate([("start", "min"), ("end", "max")])
    drained: dict[tuple[str, int], OffsetRange] = {}
    for row in to_rows(sums):
        if row["topic"] not in topics or row["kind"] not in _WORKED:
            continue
        place = (str(row["topic"]), int(row["partition"]))
        new = OffsetRange(*place, row["start_min"], row["end_max"])
        known = drained.get(place, new)
        drained[place] = replace(new, start=min(known.start, new.start), end=max(known.end, new.end))
    return sorted(drained.values())


def still_held(settings: Settings, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
    """Return the part of some ranges, of different partitions, that Kafka still keeps."""
    held = {(each.topic, each.partition): each for each in find_held(settings, {each.topic for each in ranges})}
    found = []
    for each in ranges:
        kept = held.get((each.topic, each.partition))
        if kept is not None and max(kept.start, each.start) < min(kept.end, each.end):
            found.append(replace(each, start=max(kept.start, each.start), end=min(kept.end, each.end)))
    return found


def latest(ranges: Sequence[OffsetRange], most: int) -> list[OffsetRange]:
    """Return the last offsets of each of some ranges, so that there are ``most`` of them at the most.

    The short ones are taken whole, and the rest is spread evenly over the long ones.
    """
    found = []
    left = most
    for index, each in enumerate(sorted(ranges, key=len)):
        # Rounded up: one of a hundred partitions is better than none.
        share = -(-left // (len(ranges) - index))
        count = min(len(each), share)
        left -= count
        if count:
            found.append(replace(each, start=each.end - count))
    return sorted(found)
