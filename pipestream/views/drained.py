"""The results of draining topics, added up from the ledger's entries. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.ledger.entries import Tally

if TYPE_CHECKING:
    from pipestream.views.audit import TopicAudit


@dataclass(frozen=True, slots=True)
class TopicRow:
    """The result of draining one topic."""

    node_id: str
    topic: str
    ranges: int
    records: int
    documents_out: Mapping[str, int]
    dead_letters: int
    seconds: float


def drained_rows(audits: Sequence[TopicAudit]) -> list[TopicRow]:
    """Return a row per topic, in the order of the audits."""
    rows = []
    for audit in audits:
        total = sum((entry.tally for entry in audit.entries if entry.tally), Tally())
        rows.append(
            TopicRow(
                node_id=audit.node_id,
                topic=audit.topic,
                ranges=len(audit.entries),
                records=total.records,
                documents_out=dict(sorted(total.documents_out.items())),
                dead_letters=total.dead_letters,
                seconds=sum(entry.seconds for entry in audit.entries),
            )
        )
    return rows
