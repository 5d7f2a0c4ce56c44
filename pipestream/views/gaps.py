"""Whether a graph's ledger has gaps: a quick look at all entries, and a close one where they do not join."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pipestream.kafka.records import Watermarks
from pipestream.ledger.check import FaultKind, find_faults
from pipestream.ledger.entries import EntryKind

if TYPE_CHECKING:
    from pipestream.ledger import Ledger


@dataclass(frozen=True, slots=True)
class LedgerFault:
    """A place where entries do not join."""

    topic: str
    partition: int
    kind: str
    """``gap``, ``overlap`` or ``head``."""
    message: str


def ledger_faults(ledger: Ledger, lane: str, topics: Iterable[str]) -> list[LedgerFault]:
    """Return where the entries of a lane do not join, end to start, over all of its history.

    All entries are compared at once. Only where two do not join, or where an operator moved a head, the entries of the
    topic are read one by one.
    """
    columns = ["lane", "topic", "partition", "start", "end", "kind"]
    found = ledger.entries_table(columns, graph_id=lane.partition("@")[0])
    found = found.filter(pc.equal(found["lane"], lane))
    found = found.sort_by([("topic", "ascending"), ("partition", "ascending"), ("start", "ascending")]).combine_chunks()
    moved = pc.equal(found["kind"], EntryKind.REBASELINED.value)
    suspect = set(pc.unique(found["topic"].filter(moved)).to_pylist())
    if found.num_rows > 1:
        suspect |= set(_unjoined(found).to_pylist())
    wanted = set(topics)
    return [fault for topic in sorted(suspect & wanted) for fault in _look_closely(ledger, lane, topic)]


def _unjoined(entries: pa.Table) -> pa.ChunkedArray:
    """Return the topics of entries that do not start where the one before them ends; they are in order."""
    before, after = entries.slice(0, entries.num_rows - 1), entries.slice(1)
    is_same = pc.and_(
        pc.equal(before["topic"], after["topic"]),
        pc.equal(before["partition"], after["partition"]),
    )
    return pc.unique(after["topic"].filter(pc.and_(is_same, pc.not_equal(before["end"], after["start"]))))


def _look_closely(ledger: Ledger, lane: str, topic: str) -> list[LedgerFault]:
    entries = ledger.entries(lane=lane, topic=topic)
    partitions = sorted({entry.range.partition for entry in entries})
    heads = ledger.heads(lane, topic, partitions)
    marks = {partition: Watermarks(0, heads.get(partition, 0)) for partition in partitions}
    return [
        LedgerFault(fault.topic, fault.partition, fault.kind.value, fault.message)
        for fault in find_faults(topic, entries, heads, marks)
        if fault.kind is not FaultKind.WAITING
    ]
