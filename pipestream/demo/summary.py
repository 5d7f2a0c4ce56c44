"""The result of the demo, from the ledger and the topics. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestream.engine.process import ERROR, HAPPY
from pipestream.views.drained import drained_rows

if TYPE_CHECKING:
    from pipestream.views.audit import TopicAudit


@dataclass(frozen=True, slots=True)
class Summary:
    """What went in and what came out, counted in the ledger and again in the topics."""

    documents_in: int
    happy_end: int
    happy_end_in_topic: int
    error_end: int
    dead_letters: int
    dead_letters_in_topics: int
    faults: tuple[str, ...]

    def line(self) -> str:
        """Return the demo in one line."""
        ledger = f"ledger INCOMPLETE: {'; '.join(self.faults)}" if self.faults else "ledger complete"
        return (
            f"demo: {self.documents_in} documents in, {self.happy_end} at happy-end, "
            f"{self.dead_letters} dead-lettered, {ledger}"
        )

    def problems(self) -> list[str]:
        """Return everything that does not add up; the demo succeeded only if this is empty."""
        found = [f"the ledger is incomplete: {fault}" for fault in self.faults]
        if self.happy_end != self.happy_end_in_topic:
            found.append(f"the ledger counts {self.happy_end} at happy-end, its topic {self.happy_end_in_topic}")
        if self.dead_letters != self.dead_letters_in_topics:
            found.append(
                f"the ledger counts {self.dead_letters} dead letters, their topics {self.dead_letters_in_topics}"
            )
        ended = self.happy_end + self.error_end + self.dead_letters
        if self.documents_in != ended:
            found.append(f"{self.documents_in} documents went in, and {ended} reached an end")
        return found


@dataclass(frozen=True, slots=True)
class WayIn:
    """One way into the graph, and what became of the documents that took it."""

    name: str
    documents_in: int
    happy_end: int
    dead_letters: int


def count_ways(ways: Mapping[str, Set[str]], happy: Iterable[str], dead: Iterable[str]) -> list[WayIn]:
    """Count by way where documents ended.

    :param ways: the ids of the documents that took each way.
    :param happy: the ids at the happy-end, each as often as it is there.
    :param dead: the ids of the dead letters.
    """
    happy, dead = list(happy), list(dead)
    return [
        WayIn(name, len(ids), sum(each in ids for each in happy), sum(each in ids for each in dead))
        for name, ids in ways.items()
    ]


def summarise(
    documents_in: int, audits: Sequence[TopicAudit], *, happy_end_in_topic: int, dead_letters_in_topics: int
) -> Summary:
    """Add up the results of the documents."""
    rows = drained_rows(audits)
    return Summary(
        documents_in=documents_in,
        happy_end=sum(row.documents_out.get(HAPPY, 0) for row in rows),
        happy_end_in_topic=happy_end_in_topic,
        error_end=sum(row.documents_out.get(ERROR, 0) for row in rows),
        dead_letters=sum(row.dead_letters for row in rows),
        dead_letters_in_topics=dead_letters_in_topics,
        faults=tuple(str(fault) for audit in audits for fault in audit.faults),
    )
